"""`python -m bench`: measure, print the table, write it down."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

from bench import machine, report
from bench.harness import Plan, Row, missing, say, why

BENCHMARKS = (
    "start",
    "burst",
    "claims",
    "logs",
    "training",
    "weight",
    "render",
    "order",
    "kubernetes",
    "operator",
)
HERE = Path(__file__).resolve().parent


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is stopped then, too
    chosen = [name for name in BENCHMARKS if not asked.only or name in asked.only]
    before = machine.load()
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    folder.chmod(0o755)  # PostgreSQL runs as a user of its own when we are root
    plan = Plan(rounds=asked.rounds, folder=folder, scale=asked.scale, torch_python=asked.torch_python)
    try:
        sections = [_section(import_module(f"bench.{name}"), name, plan) for name in chosen]
    except KeyboardInterrupt:
        say("Stopped.")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts = {**machine.facts(asked.command), "Load average before": before, "and after": machine.load()}
    text = report.markdown(sections, facts)
    (asked.output / "RESULTS.md").write_text(text)
    (asked.output / "results.json").write_text(json.dumps(report.as_json(sections, facts), indent=1) + "\n")
    print(text)
    return 0


def _section(module: ModuleType, name: str, plan: Plan) -> report.Section:
    """One benchmark. One that breaks says so in its row, and the others go on."""
    say(f"── {name}")
    began = time.monotonic()
    rows: list[Row] = []
    try:
        rows.extend(module.run(plan))  # those it yielded before it broke are kept
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told in the table
        say(f"{name} broke: {why(error)}")
        rows.append(missing(name, why(error)))
    return report.Section(name=name, about=module.ABOUT, seconds=time.monotonic() - began, rows=tuple(rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", type=_names, help=f"some of {','.join(BENCHMARKS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts; below 1 for a quick look")
    parser.add_argument("--output", type=Path, help="folder for RESULTS.md and results.json")
    parser.add_argument("--torch-python", type=Path, help="an interpreter that has PyTorch")
    asked = parser.parse_args()
    if asked.torch_python is None and (known := os.environ.get("MUSTER_TEST_TORCH_PYTHON")):
        asked.torch_python = Path(known)
    if asked.output is None:  # what is kept in the repository is a whole run
        asked.output = machine.VENVS if asked.only or asked.scale != 1 else HERE
    asked.output.mkdir(parents=True, exist_ok=True)
    asked.command = os.environ.get("BENCH_COMMAND") or shlex.join(["python", "-m", "bench", *sys.argv[1:]])
    return asked


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in BENCHMARKS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(BENCHMARKS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
