from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.errors import BadInput
from muster.wire.frames import MAX_HEADER, BlobData, BlobEnd, BlobStart, FrameReader, header


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def frame(data: bytes) -> bytes:
    return header(sha(data), len(data)) + data


def read(chunks: list[bytes]) -> list[bytes]:
    """The blobs in the stream, checked event by event."""
    reader = FrameReader()
    blobs: list[bytes] = []
    current: BlobStart | None = None
    for event in [event for chunk in chunks for event in reader.feed(chunk)]:
        match event:
            case BlobStart():
                assert current is None
                current = event
                blobs.append(b"")
            case BlobData():
                assert current is not None
                assert event.data
                blobs[-1] += event.data
            case BlobEnd():
                assert current is not None
                assert event.sha256 == current.sha256 == sha(blobs[-1])
                assert current.size == len(blobs[-1])
                current = None
    reader.close()
    assert current is None
    return blobs


@given(blobs=st.lists(st.binary(max_size=300)), cuts=st.lists(st.integers(min_value=0, max_value=2000)))
def test_what_was_framed_is_read_back_however_it_is_cut(blobs: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(blob) for blob in blobs)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    assert read([stream[start:end] for start, end in pairwise(edges)]) == blobs


def test_byte_by_byte() -> None:
    stream = frame(b"one") + frame(b"") + frame(b"three")
    assert read([bytes([byte]) for byte in stream]) == [b"one", b"", b"three"]


def test_a_blob_of_exactly_the_limit_is_taken() -> None:
    assert FrameReader(max_blob=3).feed(frame(b"one"))[-1] == BlobEnd(sha(b"one"))


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (b"hello\n", "not a header"),
        (b"\n", "not a header"),
        (header(sha(b""), 0).upper(), "not a header"),
        (sha(b"").encode() + b" -1\n", "not a header"),
        (sha(b"").encode() + b" 007\n", "not a header"),
        (sha(b"").encode() + b" 1 \n", "not a header"),
        (sha(b"").encode() + b" " + "١".encode() + b"\n", "not a header"),
        (b"x" * MAX_HEADER, "longer than 100 bytes"),
        (b"x" * (MAX_HEADER + 1) + b"\n", "longer than 100 bytes"),
        (header(sha(b"a"), 2**40), "larger than"),
        (header(sha(b"a"), 1) + b"b", "another SHA-256"),
        (header(sha(b"a"), 0), "another SHA-256"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_malformed_stream_is_refused(stream: bytes, complaint: str, at_once: bool) -> None:
    chunks = [stream] if at_once else [bytes([byte]) for byte in stream]
    with pytest.raises(BadInput, match=complaint):
        read(chunks)


@pytest.mark.parametrize("kept", range(1, len(frame(b"one"))))
def test_a_stream_that_ends_too_early_is_refused(kept: int) -> None:
    reader = FrameReader()
    reader.feed(frame(b"one")[:kept])
    with pytest.raises(BadInput, match="The upload ends"):
        reader.close()


@given(st.binary(max_size=300))
def test_garbage_raises_nothing_but_bad_input(garbage: bytes) -> None:
    reader = FrameReader()
    try:
        reader.feed(garbage)
        reader.close()
    except BadInput:
        pass
