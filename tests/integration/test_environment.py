"""Making Python environments: real uv, real pip, real packages."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from muster.agent import environment
from muster.agent.cachedir import CacheDir
from muster.agent.environment import EnvironmentCache, EnvironmentFailed, PreparedEnvironment
from muster.agent.requirements import read_requirements

SIX = "six==1.16.0\n"
PROJECT = '[project]\nname = "demo"\nversion = "0"\nrequires-python = ">=3.10"\n'


def folder(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    root.mkdir(exist_ok=True)
    return root


def prepare(
    cache: Path, workdir: Path, *, python: str | None = None, said: list[str] | None = None
) -> PreparedEnvironment:
    say = (said if said is not None else []).append
    made = asyncio.run(EnvironmentCache(cache).prepare(workdir, python=python, progress=say))
    assert made is not None
    return made


def in_environment(made: PreparedEnvironment, code: str) -> str:
    command = [str(made.bin / "python"), "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.name != ".locks")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one tiny wheel, which no index has, named as pip is told of such folders."""
    info = "muster_tiny-1.0.dist-info"
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / "muster_tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("muster_tiny.py", "answer = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: muster-tiny\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path / 'wheels'} {tmp_path / 'missing'}")
    return tmp_path / "wheels"


# --- what is asked ---------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [{}, {"train.py": ""}, {"pyproject.toml": "[tool.ruff]\n"}])
def test_code_that_asks_for_nothing_gets_nothing(tmp_path: Path, files: dict[str, str]) -> None:
    workdir = folder(tmp_path / "work", files)
    cache = EnvironmentCache(tmp_path / "cache")
    assert asyncio.run(cache.prepare(workdir, python=None, progress=print)) is None


SAME = [
    ({"requirements.txt": SIX}, {"requirements.txt": "# the six\r\n\r\n  six==1.16.0   # pinned\r\n"}),
    ({"requirements.txt": "six==1.16.0 --hash=x"}, {"requirements.txt": "six==1.16.0 \\\n  --hash=x"}),
    ({"requirements.txt": SIX}, {"requirements.txt": SIX, "train.py": "x", "uv.lock": "x"}),
    (
        {"pyproject.toml": PROJECT},
        {"pyproject.toml": PROJECT + 'description = "other"\n[tool.ruff]\nx = 1\n'},
    ),
]
OTHER = [
    ({"requirements.txt": SIX}, {"requirements.txt": "six==1.17.0"}),
    ({"requirements.txt": "-r a", "a": "x"}, {"requirements.txt": "-r a", "a": "y"}),
    (
        {"requirements.txt": "-c d/a", "d/a": "-rb", "d/b": "x"},
        {"requirements.txt": "-c d/a", "d/a": "-rb", "d/b": "y"},
    ),
    ({"requirements.txt": "--requirement=a", "a": "x"}, {"requirements.txt": "--requirement=a", "a": "y"}),
    ({"requirements.txt": SIX}, {"requirements.txt": SIX, "uv.toml": 'index-url = "x"'}),
    ({"pyproject.toml": PROJECT}, {"pyproject.toml": PROJECT + 'dependencies = ["six"]'}),
    ({"pyproject.toml": PROJECT}, {"pyproject.toml": PROJECT.replace("3.10", "3.11")}),
    ({"pyproject.toml": PROJECT}, {"pyproject.toml": PROJECT, "uv.lock": "x"}),
    ({"pyproject.toml": PROJECT}, {"pyproject.toml": PROJECT + "[tool.uv]\nx = 1"}),
    ({"pyproject.toml": PROJECT}, {"pyproject.toml": PROJECT, "requirements.txt": ""}),
]


@pytest.mark.parametrize(
    ("one", "other", "same"), [(*pair, True) for pair in SAME] + [(*pair, False) for pair in OTHER]
)
def test_folders_that_ask_the_same_are_known(
    tmp_path: Path, one: dict[str, str], other: dict[str, str], same: bool
) -> None:
    first = read_requirements(folder(tmp_path / "one", one))
    second = read_requirements(folder(tmp_path / "other", other))
    assert (first == second) is same


def test_files_that_include_each_other_are_read_once(tmp_path: Path) -> None:
    wanted = read_requirements(
        folder(tmp_path, {"requirements.txt": "-r a", "a": "-r requirements.txt\nsix"})
    )
    assert wanted is not None
    assert wanted.content[-3:] == ("-r a", "-r requirements.txt", "six")


@pytest.mark.parametrize(
    ("line", "local"),
    [
        *(
            (line, True)
            for line in ("-e .", "-e.", "--editable=./lib", ".", "./lib", "../lib", "libs/one", "x.whl")
        ),
        *(
            (line, True)
            for line in ("file:///srv/x.whl", "x @ file:///srv/x.whl", "-f wheels", "-e lib[extra]")
        ),
        *((line, True) for line in (".[dev]", "x @ ./lib", "--find-links=./wheels", "-e file:///srv/lib")),
        *(
            (line, False)
            for line in ("six", "six>=1 ; python_version > '3'", "x @ https://h/x.whl", "x[a,b]~=1.0")
        ),
        *(
            (line, False)
            for line in ("-e git+https://h/x.git#egg=x", "git+https://h/x.git", "-f https://h/wheels")
        ),
        *((line, False) for line in ("--index-url https://h/simple", "--extra-index-url https://h", "--pre")),
    ],
)
def test_what_is_installed_from_the_folder_itself_is_not_shared(
    tmp_path: Path, line: str, local: bool
) -> None:
    wanted = read_requirements(folder(tmp_path, {"requirements.txt": line}))
    assert wanted is not None
    assert wanted.shareable is not local


@pytest.mark.parametrize(
    ("more", "shareable"),
    [
        ("", True),
        ('dynamic = ["dependencies"]', False),
        ('dependencies = ["lib @ file:///srv/lib"]', False),
        ('[tool.uv.sources]\nlib = { path = "lib" }', False),
        ("[tool.uv.sources]\nlib = { workspace = true }", False),
        ('[tool.uv.sources]\ntorch = { index = "pytorch" }', True),
    ],
)
def test_a_project_that_needs_its_own_folder_is_not_shared(
    tmp_path: Path, more: str, shareable: bool
) -> None:
    wanted = read_requirements(folder(tmp_path, {"pyproject.toml": PROJECT + more}))
    assert wanted is not None
    assert wanted.shareable is shareable


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"pyproject.toml": "[project"}, "not valid TOML"),
        ({"pyproject.toml": PROJECT + 'dependencies = "six"'}, "must be a list"),
        ({"requirements.txt": "-r ../base.txt"}, "'../base.txt', which is outside"),
        ({"requirements.txt": "-c /etc/passwd"}, "outside"),
    ],
)
def test_files_that_cannot_be_read_say_so(tmp_path: Path, files: dict[str, str], complaint: str) -> None:
    with pytest.raises(EnvironmentFailed, match=complaint):
        read_requirements(folder(tmp_path / "work", files))


# --- making it -------------------------------------------------------------------------------------


def test_requirements_are_installed_once_and_then_reused(tmp_path: Path) -> None:
    workdir = folder(tmp_path / "work", {"requirements.txt": SIX, "pyproject.toml": PROJECT})
    said: list[str] = []

    first = prepare(tmp_path / "cache", workdir, said=said)
    again = prepare(tmp_path / "cache", folder(tmp_path / "other", {"requirements.txt": SIX}))

    assert in_environment(first, "import six; print(six.__version__)") == "1.16.0"
    assert any("Installed 1 package" in line for line in said)
    assert (first.reused, again.reused) == (False, True)
    assert (first.bin, first.key) == (again.bin, again.key)


def test_the_default_interpreter_is_the_one_beneath_the_agent(tmp_path: Path) -> None:
    made = prepare(tmp_path / "cache", folder(tmp_path / "work", {"requirements.txt": ""}))
    assert in_environment(made, "import sys; print(sys.base_prefix)") == sys.base_prefix


def test_of_a_project_only_the_dependencies_are_installed(tmp_path: Path) -> None:
    files = {"pyproject.toml": PROJECT + 'dependencies = ["six==1.16.0"]', "demo.py": "", "setup.py": "1/0"}
    made = prepare(tmp_path / "cache", folder(tmp_path / "work", files))
    listed = in_environment(
        made, "from importlib.metadata import *; print(*[d.name for d in distributions()])"
    )
    assert listed == "six"


def test_a_lock_file_says_the_versions(tmp_path: Path) -> None:
    text = PROJECT + 'dependencies = ["six"]\n[dependency-groups]\ndev = ["iniconfig"]\n[tool.uv]\n'
    workdir = folder(tmp_path / "work", {"pyproject.toml": text + 'constraint-dependencies = ["six<1.17"]\n'})
    uv = environment.find_uv()
    assert uv is not None
    subprocess.run([uv, "lock", "-q"], cwd=workdir, check=True)

    made = prepare(tmp_path / "cache", workdir)

    listed = in_environment(
        made, "from importlib.metadata import *; print(*[d.name for d in distributions()])"
    )
    assert listed == "six"
    assert in_environment(made, "import six; print(six.__version__)") == "1.16.0"
    assert sorted(path.name for path in workdir.iterdir()) == ["pyproject.toml", "uv.lock"]


def test_the_folder_of_wheels_that_pip_knows_is_used(tmp_path: Path, wheels: Path) -> None:
    made = prepare(tmp_path / "cache", folder(tmp_path / "work", {"requirements.txt": "muster-tiny"}))
    assert in_environment(made, "import muster_tiny; print(muster_tiny.answer)") == "42"


def test_without_uv_pip_does_it(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_uv", lambda: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    project = folder(tmp_path / "work", {"pyproject.toml": PROJECT + 'dependencies = ["muster-tiny"]'})
    made = prepare(tmp_path / "cache", project)
    assert in_environment(made, "import muster_tiny; print(muster_tiny.answer)") == "42"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [
                "Looking in links: /opt/wheels",
                "ERROR: Could not find a version",
                "ERROR: No matching distribution",
            ],
            "ERROR: Could not find a version\nERROR: No matching distribution",
        ),
        (
            ["Resolved 3 packages", "  × Failed to build `x`", "  ╰─▶ no compiler"],
            "  × Failed to build `x`\n  ╰─▶ no compiler",
        ),
        (["Killed"], "Killed"),
        ([], "The tool said nothing."),
        (["error: x", *map(str, range(20))], "\n".join(["error: x", "…", *map(str, range(10, 20))])),
    ],
)
def test_of_a_tools_output_the_complaint_is_told(lines: list[str], told: str) -> None:
    assert environment._complaint(lines) == told


def test_an_interpreter_can_be_named(tmp_path: Path) -> None:
    workdir = folder(tmp_path / "work", {"requirements.txt": ""})
    default = prepare(tmp_path / "cache", workdir)
    named = prepare(tmp_path / "cache", workdir, python=sys.executable)
    assert named == PreparedEnvironment(bin=default.bin, key=default.key, reused=True)


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false", "no-such-python", "--help"])
def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path, python: str) -> None:
    workdir = folder(tmp_path / "work", {"requirements.txt": ""})
    with pytest.raises(EnvironmentFailed, match=f"no Python '{python}'"):
        prepare(tmp_path / "cache", workdir, python=python)


@pytest.mark.parametrize(
    ("requirement", "named"),
    [
        ("nosuch-package-of-muster-xyz", "nosuch-package-of-muster-xyz was not found"),
        ("six==99.0", "no version of six==99.0"),
        ("si x", "si x"),
    ],
)
def test_a_requirement_that_cannot_be_met_is_named_and_leaves_nothing(
    tmp_path: Path, requirement: str, named: str
) -> None:
    workdir = folder(tmp_path / "work", {"requirements.txt": requirement})
    with pytest.raises(EnvironmentFailed) as caught:
        prepare(tmp_path / "cache", workdir)
    assert named in caught.value.detail
    assert "Correct requirements.txt" in caught.value.hint
    assert caught.value.code == "environment_failed"
    assert entries(tmp_path / "cache") == []


def test_an_index_that_cannot_be_reached_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    workdir = folder(tmp_path / "work", {"requirements.txt": "muster-tiny-not-there"})
    with pytest.raises(EnvironmentFailed) as caught:
        prepare(tmp_path / "cache", workdir)
    assert "cannot reach the package index" in caught.value.hint


def test_what_was_cut_short_or_lost_its_interpreter_is_made_anew(tmp_path: Path) -> None:
    workdir = folder(tmp_path / "work", {"requirements.txt": ""})
    entry = prepare(tmp_path / "cache", workdir).bin.parent
    folder(entry, {"half-made": ""})
    (entry / ".complete").unlink()

    assert not prepare(tmp_path / "cache", workdir).reused
    assert not (entry / "half-made").exists()

    (entry / "bin" / "python").unlink()
    (entry / "bin" / "python").symlink_to("/nowhere/python")
    assert not prepare(tmp_path / "cache", workdir).reused
    assert prepare(tmp_path / "cache", workdir).reused


def test_pruning_removes_whole_environments(tmp_path: Path) -> None:
    made = prepare(tmp_path / "cache", folder(tmp_path / "work", {"requirements.txt": ""}))
    cache = EnvironmentCache(tmp_path / "cache")
    assert asyncio.run(cache.prune(0, keep=[made.key])) == []
    assert asyncio.run(cache.prune(0)) == [made.key]
    assert not made.bin.exists()


# --- several at once, and sudden ends --------------------------------------------------------------


def test_two_that_ask_the_same_at_once_install_once(tmp_path: Path) -> None:
    workdir = folder(tmp_path / "work", {"requirements.txt": SIX})
    said: list[str] = []

    async def both() -> list[PreparedEnvironment | None]:
        cache = EnvironmentCache(tmp_path / "cache")
        return await asyncio.gather(
            *(cache.prepare(workdir, python=None, progress=said.append) for _ in range(2))
        )

    made = asyncio.run(both())

    assert sorted(one.reused for one in made if one) == [False, True]
    assert said.count("waiting for another run to prepare the same environment") == 1
    assert sum("Installed" in line for line in said) == 1


PROCESS = """
import asyncio, sys
from pathlib import Path
from muster.agent.environment import EnvironmentCache
cache, workdir = map(Path, sys.argv[1:])
print("ready", flush=True)
sys.stdin.readline()
made = asyncio.run(EnvironmentCache(cache).prepare(workdir, python=None, progress=lambda line: None))
print("reused" if made.reused else "made", flush=True)
"""


def start_process(cache: Path, workdir: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(cache), str(workdir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_install_once(tmp_path: Path) -> None:
    workdir = folder(tmp_path / "work", {"requirements.txt": SIX})
    processes = [start_process(tmp_path / "cache", workdir) for _ in range(2)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(process.communicate(timeout=60)[0] for process in processes) == ["made\n", "reused\n"]


BACKEND = """
import os, sys, time
def get_requires_for_build_wheel(config=None):
    return []
def build_wheel(*args, **kwargs):
    if os.path.exists("fail"):
        sys.exit("the agent's key: " + repr(os.environ.get("MUSTER_API_KEY")))
    with open("started.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename("started.part", "started")
    time.sleep(600)
prepare_metadata_for_build_wheel = build_wheel
"""


LIBRARY = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "endless"
version = "1"
"""


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Code whose installation never ends; while it is built, the builder's pid is in `lib/started`."""
    return folder(
        tmp_path / "work",
        {
            "requirements.txt": "./lib\n",
            "lib/pyproject.toml": LIBRARY,
            "lib/backend.py": BACKEND,
        },
    )


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that is dead but not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_cancelling_ends_the_installer_and_leaves_nothing(tmp_path: Path, endless: Path) -> None:
    async def cancel_while_installing() -> int:
        cache = EnvironmentCache(tmp_path / "cache")
        task = asyncio.create_task(cache.prepare(endless, python=None, progress=print))
        async with asyncio.timeout(30):
            while not (endless / "lib/started").exists():
                assert not task.done(), task.exception()
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return int((endless / "lib/started").read_text())

    builder = asyncio.run(cancel_while_installing())

    wait_until(lambda: not is_alive(builder))
    assert entries(tmp_path / "cache") == []


def test_when_the_agent_is_killed_the_next_one_waits_for_its_installer(tmp_path: Path, endless: Path) -> None:
    agent = start_process(tmp_path / "cache", endless)
    assert agent.stdin is not None
    agent.stdin.write("go\n")
    agent.stdin.flush()
    wait_until((endless / "lib/started").exists)
    builder = int((endless / "lib/started").read_text())
    agent.kill()
    agent.communicate()

    (half_made,) = entries(tmp_path / "cache")
    try:
        assert not lock_is_free(tmp_path / "cache", half_made)
    finally:
        os.killpg(os.getpgid(builder), signal.SIGKILL)
    wait_until(lambda: lock_is_free(tmp_path / "cache", half_made))


def test_build_scripts_do_not_see_the_agents_key(
    tmp_path: Path, endless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_API_KEY", "secret")
    folder(endless, {"lib/fail": ""})
    said: list[str] = []
    with pytest.raises(EnvironmentFailed, match="the agent's key: None"):
        prepare(tmp_path / "cache", endless, said=said)
    assert said[0].startswith("requirements.txt installs from this folder")


def lock_is_free(root: Path, key: str) -> bool:
    async def try_it() -> bool:
        class Taken(Exception):
            pass

        def taken() -> None:
            raise Taken

        try:
            async with CacheDir(root).lock(key, waiting=taken):
                return True
        except Taken:
            return False

    return asyncio.run(try_it())


def wait_until(condition: Callable[[], bool], *, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def test_uv_is_found_beside_the_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder(tmp_path / "bin", {"uv": "", "python": ""})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert environment.find_uv() == str(tmp_path / "bin" / "uv")
    shutil.rmtree(tmp_path / "bin")
    monkeypatch.setenv("PATH", "")
    assert environment.find_uv() is None
