"""Write the OpenAPI document, as the server tells it, to a file."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from muster.server.app import create_app
from muster.server.context import Context, Settings
from muster.store.database import sqlite_url


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        context = Context.open(Settings(database_url=sqlite_url(folder / "muster.db"), data_dir=folder))
        document = create_app(context).openapi()
        context.db.close()
    Path(sys.argv[1]).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
