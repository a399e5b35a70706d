"""Files cut at every byte, or filled with zeros."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from disk import drain, item

from webcrawl.storage.fifo import DiskFifo, FifoSnapshot
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Two items a frame, two frames a segment.
SIZES = {"chunk": 2, "segment_bytes": 40}


def opened(path: Path, snapshot: FifoSnapshot | None) -> DiskFifo:
    queue = DiskFifo(path=path, **SIZES)
    queue.open(snapshot)
    return queue


def harmed(path: Path, start: int) -> Iterator[str]:
    """Harm the file *path* from byte *start* on, in several ways and at every byte, in place."""
    data = path.read_bytes()
    noise = random.Random(start)
    for at in range(start, len(data)):
        for how, harm in (
            ("cut", b""),
            ("zeros", bytes(len(data) - at)),
            ("more zeros", bytes(4096)),
            ("noise", noise.randbytes(len(data) - at)),
        ):
            if data[:at] + harm == data:
                continue
            path.write_bytes(data[:at] + harm)
            yield f"{how} at {at} of {path.name}"
    path.write_bytes(data)


@pytest.fixture
def queue(tmp_path):
    """Four segments, of which two items were read."""
    queue = opened(tmp_path / "queue", None)
    queue.push_many(map(item, range(16)))
    assert [queue.pop(), queue.pop()] == [item(0), item(1)]
    return queue


def test_harm_to_anything_after_the_snapshot_does_not_touch_it(queue):
    saved = queue.snapshot()
    sizes = {path: path.stat().st_size for path in queue.path.iterdir()}
    queue.push_many(map(item, range(16, 26)))
    drain(queue)
    written_later = {path: path.read_bytes() for path in queue.path.iterdir()}
    harms = 0
    for path in written_later:
        for how in harmed(path, sizes.get(path, 0)):
            reopened = opened(queue.path, saved)
            assert reopened.check() == [], how
            assert drain(reopened) == list(map(item, range(2, 16))), how
            for other, data in written_later.items():
                other.write_bytes(data)
            harms += 1
    assert harms > 400


def test_harm_to_what_the_snapshot_names_is_raised_and_nothing_is_skipped(queue):
    saved = queue.snapshot()
    expected = list(map(item, range(2, 16)))
    before = {path: path.read_bytes() for path in queue.path.iterdir()}
    assert len(before) == 4
    harms = 0
    for path in before:
        for how in harmed(path, 8):  # the header is tested with the records
            found = []

            def read(found=found, how=how):
                reopened = opened(queue.path, saved)
                assert reopened.check() != [], how
                while True:
                    found.append(reopened.pop())

            with pytest.raises(CorruptRecordError) as caught:
                read()
            assert caught.value.path == path, how
            assert found == expected[: len(found)], how
            assert len(found) < len(expected), how
            for other, data in before.items():
                other.write_bytes(data)
            harms += 1
    assert harms > 500


def test_a_header_harmed_at_any_byte_is_raised(queue):
    saved = queue.snapshot()
    for path in list(queue.path.iterdir()):
        data = path.read_bytes()
        for at in range(6):  # the last two are flags, all unused
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
            with pytest.raises(Exception, match=path.name):
                drain(opened(queue.path, saved))
        path.write_bytes(data)
