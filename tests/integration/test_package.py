"""What users install: everything that is needed is in the wheel, and importing it costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TypeGuard

import pytest

import muster.cli.up as cli_up

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_carries_scripts_migrations_and_types(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "muster/py.typed",
        "muster/engine/launcher.sh",
        "muster/engine/process/shim.sh",
        "muster/store/migrations/env.py",
        "muster/store/migrations/versions/0001_first.py",
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "examples/"))]


def test_importing_muster_loads_next_to_nothing() -> None:
    script = "import sys, muster; print(*sorted(name for name in sys.modules if '.' not in name))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"httpx", "pydantic", "fastapi", "sqlalchemy", "typer", "rich", "asyncio", "psutil"}
    assert heavy.isdisjoint(loaded)


def test_an_agent_loads_no_server_and_a_server_no_agent() -> None:
    agent = "import sys, muster.agent.agent, muster.engine.process.engine; print(*sys.modules)"
    server = "import sys, muster.server.serve, muster.server.asgi; print(*sys.modules)"
    strangers = ((agent, {"fastapi", "sqlalchemy"}), (server, {"psutil", "pynvml", "muster.agent"}))
    for script, absent in strangers:
        loaded = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
        assert absent.isdisjoint(loaded), absent & set(loaded)


def test_up_loads_no_web_framework_before_it_starts_its_agent() -> None:
    """The two load at the same time: what the server loads first, the agent waits for."""
    [up] = (node for node in ast.walk(ast.parse(Path(cli_up.__file__).read_text())) if _is_up(node))
    imports = [ast.unparse(node) for node in up.body if isinstance(node, ast.ImportFrom)]
    assert any("muster.server.setup" in line for line in imports)
    script = "\n".join([*imports, "import sys", "print(*sys.modules)"])
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"fastapi", "starlette", "uvicorn"}.isdisjoint(loaded.stdout.split())


@pytest.mark.parametrize("command", ["up", "server", "agent", "operator"])
def test_a_program_that_logs_loads_no_pretty_tracebacks(command: str) -> None:
    script = (
        f"import sys, muster.cli.{command}, muster._start\nmuster._start.begin()\nprint(*sys.modules)\n"
        "import rich.traceback  # who wants it has it\n"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "structlog" in loaded.stdout.split()
    assert "rich.traceback" not in loaded.stdout.split()


def _is_up(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name == "up"
