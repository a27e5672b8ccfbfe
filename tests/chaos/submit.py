"""An agent that only submits one attempt and leaves: `python -m chaos.submit FOLDER ATTEMPT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from chaos.orders import SCRIPT
from muster.domain.observation import AttemptKey
from muster.engine.port import Place, Work
from muster.engine.process.engine import ProcessEngine
from muster.engine.process.render import render

RUN = "given-up"


async def submit(home: Path, attempt: int) -> None:
    work = Work(
        key=AttemptKey(run_id=RUN, attempt=attempt),
        run_name=RUN,
        project="default",
        entity="drill",
        queue="local",
        author="drill",
        config={"resources": {"cpus": 0.05}},
        command=("sh", str(SCRIPT), str(home / "marks"), "60", "ok"),
    )
    engine = ProcessEngine(home / "data" / "agent" / "process")
    await engine.submit(render(work), Place(epoch=attempt, workdir=home, output_dir=home))
    await engine.close()


if __name__ == "__main__":
    asyncio.run(submit(Path(sys.argv[1]), int(sys.argv[2])))
