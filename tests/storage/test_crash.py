"""Files cut at every byte, filled with zeros, or left by a power loss."""

import random

import pytest
from disk import PowerLoss, drain, flipped, item, overwrite
from strategies import some_of
from text_tables import each

from webcrawl.storage.atomic import sync_paths
from webcrawl.storage.fifo import DiskFifo
from webcrawl.storage.record_log import CorruptRecordError

# Two items a frame, two frames a segment.
SIZES = {"chunk_items": 2, "segment_bytes": 60}


def opened(path, snapshot):
    queue = DiskFifo(path=path, **SIZES)
    queue.open(snapshot)
    return queue


def harmed(path, start):
    """Harm the file *path* from byte *start* on, in several ways and places."""
    data = path.read_bytes()
    noise = random.Random(start)
    for at in some_of(range(start, len(data))):
        for how, harm in (
            ("cut", b""),
            ("zeros", bytes(len(data) - at)),
            ("more zeros", bytes(4096)),
            ("noise", noise.randbytes(len(data) - at)),
        ):
            if data[:at] + harm == data:
                continue
            overwrite(path, data[:at] + harm)
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
            assert drain(reopened) == [*map(item, range(2, 16))], how
            for other, data in written_later.items():
                overwrite(other, data)
            harms += 1
    assert harms > 130


def test_harm_to_what_the_snapshot_names_is_raised_and_nothing_is_skipped(queue):
    saved = queue.snapshot()
    expected = [*map(item, range(2, 16))]
    before = {path: path.read_bytes() for path in queue.path.iterdir()}
    assert len(before) == 4
    harms = 0
    for path in before:
        for how in harmed(path, 8):  # the header is tested with the records
            found = []

            def read(found=found, how=how):
                reopened = opened(queue.path, saved)
                while True:
                    found.append(reopened.pop())

            with pytest.raises(CorruptRecordError) as caught:
                read()
            assert caught.value.path == path, how
            assert found == expected[: len(found)], how
            assert len(found) < len(expected), how
            for other, data in before.items():
                overwrite(other, data)
            harms += 1
    assert harms > 160


def test_a_header_harmed_at_any_byte_is_raised(queue):
    saved = queue.snapshot()
    for path in list(queue.path.iterdir()):
        data = path.read_bytes()
        for at in range(6):  # the last two are flags, all unused
            path.write_bytes(flipped(data, at, 0x40))
            with pytest.raises(Exception, match=path.name):
                drain(opened(queue.path, saved))
        path.write_bytes(data)


@each("seed", *range(5))
def test_a_snapshot_whose_files_were_synced_survives_a_power_loss(tmp_path, monkeypatch, seed):
    """Everything that written() did not name, or that was written later, may vanish."""
    rng = random.Random(seed)
    root = tmp_path / "root"
    root.mkdir()
    power = PowerLoss(root, monkeypatch)
    queue = opened(root / "front" / "queue", None)
    model = []

    def use_for_a_while():
        for _ in range(rng.randrange(12)):
            model.append(item(rng.randrange(100)))
            queue.push(model[-1])
        for _ in range(rng.randrange(len(model) + 1)):
            assert queue.pop() == model.pop(0)

    for world in range(30):
        use_for_a_while()
        saved, kept = queue.snapshot(), list(model)
        sync_paths(queue.written())
        use_for_a_while()
        left = power.lose(tmp_path / str(world), rng)
        found = opened(left / "front" / "queue", saved)
        assert drain(found) == kept
        if rng.random() < 0.5:
            queue.forget()
    power.close()
