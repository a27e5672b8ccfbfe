"""`python -m muster.cli` is `muster`."""

import sys

from muster.cli.main import main

sys.exit(main())
