"""Whatever ends a publication or a fetch, and wherever: the newest checkpoint is whole."""

import contextlib
import itertools
import os
import random
from functools import partial

import pytest
from crash import die_between_lines
from dying_disk import DyingDisk, Killed
from published_shard import Living, adopted, newest_of, store_of
from text_tables import each

from webcrawl.hive.store import upload
from webcrawl.hive.store.store import CheckpointStore

long = [pytest.mark.long, pytest.mark.timeout(1800)]
# Every change of the disk, or some of them.
steps = pytest.mark.parametrize("step", [7, pytest.param(1, marks=long)])
ENDS = [
    ("kill", "links"),
    ("power", "copies"),
    pytest.param("kill", "copies", marks=long),
    pytest.param("power", "links", marks=long),
]


class Begun:
    """A shard of which one checkpoint is in the *store*, and another is to be published; *states*
    are what they have."""

    def __init__(self, root, kind, patch):
        self.store = store_of(kind, root, patch, pack_bytes=3000)
        self.shard = shard = Living(root / "job")
        shard.crawl(0)
        shard.save(self.store)
        self.states = {(1, 1): shard.contents()}
        shard.crawl(30)
        shard.checkpoint()
        self.states[1, 2] = shard.contents()

    def publish(self):
        self.shard.publish(self.store)


def found_in(root, target):
    """The newest checkpoint of the store in *root*, and what a drone finds in it."""
    store = CheckpointStore(url=str(root / "store"))
    key = newest_of(store).key
    other = adopted(store, target)
    found = other.contents()
    other.save(store, token=2)
    other.end()
    return key, found


def cut_off(act, after, kind, root, patch):
    """Do *act*, while the process or the power dies at change number *after* of the disk; whether
    *act* came to its end, and where what is left of *root* is."""
    disk = DyingDisk(root, patch=patch, rng=random.Random(after))
    disk.arm(kind, after=after)
    is_done = True
    try:
        act()
    except Killed:
        is_done = False
    disk.bury()
    if kind == "power":
        left = root.with_name(f"{root.name}-left")
        disk.lose_power(left)
    else:
        left = root
    disk.close()
    return is_done, left


@steps
@each("kind store", *ENDS)
def test_dying_at_any_change_leaves_a_whole_newest_checkpoint(
    tmp_path, monkeypatch, store, kind, step
):
    keys = []
    for after in itertools.count(1, step):
        root = tmp_path / f"{after}"
        with monkeypatch.context() as patch:
            job = Begun(root, store, patch)
            is_done, left = cut_off(job.publish, after, kind, root, patch)
        job.shard.end()
        key, found = found_in(left, tmp_path / f"{after}-found")
        assert found == job.states[key]
        keys.append(key)
        if is_done:
            break
    assert keys[0] == (1, 1)
    assert keys[-1] == (1, 2)
    assert len(keys) > 20 / step


@steps
@each("kind", "broken", long=("full",))
def test_trouble_at_any_change_leaves_the_one_before_and_the_next_is_good(
    tmp_path, monkeypatch, kind, step
):
    for after in itertools.count(1, step):
        root = tmp_path / f"{after}"
        with monkeypatch.context() as patch:
            job = Begun(root, "copies", patch)
            disk = DyingDisk(root, patch=patch, rng=random.Random(after))
            disk.arm(kind, after=after, lasting=1 + after % 3)
            with contextlib.suppress(OSError):
                job.publish()
            happened = disk.was_full
            disk.disarm()
            newest_of(job.store)
            job.publish()
            disk.close()
        job.shard.end()
        key, found = found_in(root, tmp_path / f"{after}-found")
        assert (key, found) == ((1, 2), job.states[1, 2])
        if not happened:
            break
    assert after > 20


@steps
@each("kind store", *ENDS)
def test_dying_at_any_change_of_a_fetch_leaves_nothing_that_is_half_there(
    tmp_path, monkeypatch, store, kind, step
):
    counted = 0
    for after in itertools.count(1, step):
        root = tmp_path / f"{after}"
        with monkeypatch.context() as patch:
            job = Begun(root, store, patch)
            job.publish()
            job.shard.end()
            # What it had before is not to be gone on with.
            old = Living(root / "other")
            old.crawl(500)
            old.checkpoint()
            old.end()
            newest, target = newest_of(job.store), root / "other/shards/00"
            fetch = partial(job.store.fetch, newest, target, token=2, before=1)
            is_done, left = cut_off(fetch, after, kind, root, patch)
        again = CheckpointStore(url=str(left / "store"))
        target = left / "other/shards/00"
        # The next claim is made from that one.
        fetched = again.fetch(newest, target, token=3, before=2)
        counted += fetched is None
        assert [path.name for path in target.parent.iterdir()] == ["00"]
        other = Living(left / "other")
        assert other.contents() == job.states[1, 2]
        other.end()
        if is_done:
            break
    assert after > 20
    assert counted


# kill -9, with all that SQLite does


def publish(path):
    """What the lines are counted of."""
    store = CheckpointStore(url=str(path / "store"))
    upload.PACK_BYTES = 3000
    Living(path / "job").publish(store)
    os._exit(0)


@pytest.mark.long
def test_dying_between_any_two_lines_leaves_a_whole_newest_checkpoint(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    job = Begun(tmp_path / "start", "links", monkeypatch)
    job.shard.end()
    states = [*job.states.values()]
    module = "tests.hive.store.test_store_crashes:publish"
    left = die_between_lines(module, tmp_path / "start", tmp_path / "out")
    assert len(left) > 20
    numbers = []
    for n, path in enumerate(left):
        (_, number), found = found_in(path, tmp_path / f"{n}-found")
        assert found == states[number - 1]
        numbers.append(number)
        # The process that died goes on, and may not know how far it came.
        Living(path / "job").end()
    assert [number for number, _ in itertools.groupby(numbers)] == [1, 2]
