"""`make demo`: start Muster, train a small model on two nodes of two processes, show all of it."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
MUSTER = [sys.executable, "-m", "muster.cli"]
LAUNCH = ["launch", "examples/ddp", "-q", "local", "--nodes", "2", "--procs-per-node", "2"]
LAUNCH += ["--cpus", "0.5", "--follow", "--", "train.py", "--epochs", "3"]


def free_port(wanted: int) -> int:
    """`wanted` if nobody listens there, else any free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(server: subprocess.Popen[str]) -> None:
    """Until `muster up` says so; from then on its words go straight to the terminal."""
    assert server.stderr is not None
    for line in server.stderr:
        sys.stderr.write(line)
        if "ready at" in line:
            threading.Thread(target=forward, args=(server.stderr,), daemon=True).start()
            return
    sys.exit("Muster did not start; its own words are above.")


def forward(stream: IO[str]) -> None:
    for line in stream:
        sys.stderr.write(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=ROOT / ".demo", help="where it keeps its things")
    data = parser.parse_args().data_dir.absolute()
    port = free_port(8700)
    url = f"http://127.0.0.1:{port}"
    env = {**os.environ, "MUSTER_URL": url, "MUSTER_DATA_DIR": str(data)}
    env.pop("MUSTER_API_KEY", None)
    print(f"Starting Muster at {url}; its files are in {data.name}/", flush=True)
    # A session of its own: Ctrl-C reaches this script, which then stops the server properly.
    server = subprocess.Popen(
        [*MUSTER, "up", "--port", str(port)],
        cwd=ROOT,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until_ready(server)
        print(f"$ muster {' '.join(LAUNCH)}", flush=True)
        verdict = subprocess.run([*MUSTER, *LAUNCH], cwd=ROOT, env=env, check=False).returncode
        word = "succeeded" if verdict == 0 else "failed"
        print(f"\nThe training {word}. Muster is at {url} (API: {url}/api/docs)", flush=True)
        if sys.stdin.isatty() and sys.stdout.isatty():
            print(f"Try: MUSTER_URL={url} MUSTER_DATA_DIR={data} {MUSTER[0]} -m muster.cli run list")
            print("Ctrl-C stops it.", flush=True)
            server.wait()
        return verdict
    except KeyboardInterrupt:
        return 130
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
