"""Volumes as a launch writes them."""

from __future__ import annotations

import pytest

from muster.domain.errors import BadInput
from muster.domain.volume import Volume


@pytest.mark.parametrize(
    ("text", "volume"),
    [
        ("data:/data", Volume(claim="data", path="/data")),
        ("data:/data/:rw", Volume(claim="data", path="/data")),
        ("team.sets-1:/mnt/a b:ro", Volume(claim="team.sets-1", path="/mnt/a b", read_only=True)),
    ],
)
def test_a_claim_and_its_path_are_read_and_written_back(text: str, volume: Volume) -> None:
    assert Volume.parse(text) == volume
    assert Volume.parse(str(volume)) == volume


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not a volume"),
        ("data", "no path"),
        ("/data", "not a volume"),
        ("data:data", "no path"),
        ("data:/", "no path"),
        ("data:/a/../b", "no path"),
        ("data:/a//b", "no path"),
        ("data:/a:x", "not a volume"),
        ("data:/a:ro:ro", "not a volume"),
        ("Data:/a", "not a volume"),
        ("-data:/a", "not a volume"),
        ("data:/a\n", "cannot be used"),
        ("data:/" + "a" * 1024, "cannot be used"),
        ("data:/dev/shm", "in /dev"),
        ("data:/proc", "in /proc"),
        ("data:/muster/code", "in /muster"),
    ],
)
def test_what_is_no_volume_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        Volume.parse(text)
