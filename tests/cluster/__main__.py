"""`python -m cluster prepare | up | down`: for `make test-cluster`, `make cluster`, `make cluster-down`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cluster import binaries, packages, room
from cluster.cluster import Cluster
from cluster.errors import CannotBeHad, ClusterError

#: Where the running one of this checkout is written down.
_NOTE = Path(__file__).parents[2] / ".cluster"


def prepare(*, training: bool = False) -> None:
    """Get what a cluster needs and is not there yet."""
    with binaries.one_at_a_time():
        packages.install()
        binaries.build()
        if training:
            binaries.build(binaries.TRAINING)


def up() -> None:
    prepare()
    down()
    cluster = Cluster.up(stays=True)
    _NOTE.write_text(str(cluster.folder))
    kubectl = binaries.find()["kubectl"]
    print(f"""It runs: Kubernetes at {cluster.server}, one node with 4 GPUs that are only counted.

  export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}
  {kubectl} get nodes

Pods reach this machine at {cluster.host_address}. Logs of its parts are in {cluster.logs}.
make cluster-down removes it.""")


def down() -> None:
    """Remove the one of this checkout, and what others left that died."""
    if _NOTE.exists():
        if running := room.Room.existing(Path(_NOTE.read_text())):
            running.close()
        _NOTE.unlink()
    room.sweep()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster")
    parser.add_argument("command", choices=["prepare", "up", "down"])
    parser.add_argument("--training", action="store_true", help="prepare Volcano and Kubeflow too")
    asked = parser.parse_args()
    commands: dict[str, Callable[[], None]] = {
        "prepare": partial(prepare, training=asked.training),
        "up": up,
        "down": down,
    }
    try:
        commands[asked.command]()
    except CannotBeHad as reason:
        print(f"No cluster here: {reason}.", file=sys.stderr)
        return 0 if asked.command == "prepare" else 1  # its tests are skipped then, and say so
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
