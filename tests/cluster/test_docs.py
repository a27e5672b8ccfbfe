"""The page about Kubernetes is true: from a cluster to a training on two nodes, command by command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import binaries
from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from installation import Installation
from pages import Reader, blocks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """With a server, a cluster to be an admin of, and an image that is there."""
    kubectl = binaries.find()["kubectl"].parent
    env = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "IMAGE": BUSYBOX,
        "PATH": os.pathsep.join((str(kubectl), os.environ["PATH"])),
    }
    muster = Installation(tmp_path / "muster", env=env)
    muster.start()
    (tmp_path / "folder").mkdir()
    reader = Reader(muster=muster, folder=tmp_path / "folder")
    try:
        yield reader
    finally:
        reader.leave()
        muster.destroy()
        cluster.kubectl("delete", "namespace", "ml", "--ignore-not-found", "--wait=false")


def test_what_the_page_says_to_type_does_what_it_says(reader: Reader) -> None:
    reader.read(blocks(ROOT / "docs" / "kubernetes.md"))
