"""The eliminators and the content-seen test after ``kill -9``, a power loss, and with every file
cut at every byte of its tail."""

from __future__ import annotations

import random
import shutil
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
from crash import die_between_lines
from disk import PowerLoss
from seen_rig import (
    InlineExecutor,
    bloom_eliminator,
    disk_eliminator,
    drain,
    publish,
    submit,
    unique,
)

from webcrawl.seen import ContentSeen
from webcrawl.storage.atomic import sync_paths, write_atomic
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

BUILD = {
    "disk": partial(disk_eliminator, log_file_bytes=250),
    "bloom": partial(bloom_eliminator, log_file_bytes=150, save_after=75),
}


def names(count: int, first: int = 0) -> list[str]:
    """URLs so short that a log cut at every byte has few."""
    return [str(n) for n in range(first, first + count)]


class Page(NamedTuple):
    """A submitted page and where the log ended after it."""

    urls: list[str]
    file: Path
    end: int


class Story(NamedTuple):
    """A directory, the snapshot it goes back to and what the frontier had taken by then."""

    path: Path
    snapshot: bytes
    taken: int
    vouched: dict[Path, int]  # files that the snapshot names, and how much of each
    pages: list[Page]

    def expected(self, pages) -> list[str]:
        return unique(url for page in pages for url in page.urls)[self.taken :]


def tell(kind: str, path: Path) -> Story:
    """Runs, a stretch partly taken, one in the buffer; then a snapshot, and as much after it.

    No page after the snapshot has a URL of another one after it: it would be lost with that.
    """
    eliminator = BUILD[kind](path)
    eliminator.open(None)
    pages, taken = [], 0

    def page(first, count):
        urls = names(count, first)
        submit(eliminator, urls)
        log = max(path.glob("discovered-*.log"))
        pages.append(Page(urls, log, log.stat().st_size))

    for first in (0, 4, 10):
        page(first, 6)
        taken += len(drain(eliminator))
    eliminator.snapshot()  # a Bloom filter is saved for the next one
    page(12, 8)
    eliminator.merge()
    taken += len(eliminator.take(1))
    page(17, 6)
    snapshot = eliminator.snapshot()
    vouched = {file: file.stat().st_size for file in eliminator.written() if file.is_file()}
    eliminator.forget()
    taken_then = taken
    for first in (21, 5, 30, 40):
        eliminator.take(2)
        page(first, 3)
        eliminator.merge()
        eliminator.take(3)
    page(2, 2)
    eliminator.snapshot()
    page(50, 2)
    eliminator.close()
    return Story(path, snapshot, taken_then, vouched, pages)


def come_back(kind: str, path: Path, snapshot: bytes | None) -> list[str]:
    """What comes out of the directory until nothing waits; raises what is found to be wrong."""
    eliminator = BUILD[kind](path)
    try:
        eliminator.open(snapshot)
        out = drain(eliminator, limit=50)
        eliminator.take(1)
        if wrong := eliminator.check():
            raise CorruptRecordError(path, 0, wrong[0])
        return out
    finally:
        eliminator.close()


def places(file: Path, *, is_named: bool) -> list[int]:
    """Every byte of a log; of runs and filters those of their last part, and some before, or three
    if no snapshot names them: they are deleted unread."""
    size = file.stat().st_size
    if file.suffix == ".log":
        return list(range(size))
    if not is_named:
        return [0, size // 2, size - 1]
    return sorted({*range(0, size, 400), *range(max(0, size - 60), size)})


@pytest.mark.parametrize("kind", BUILD)
def test_every_file_cut_at_every_byte(tmp_path, kind):
    story = tell(kind, tmp_path / "seen")
    assert len(story.vouched) >= 3
    assert len(list(story.path.iterdir())) > len(story.vouched)
    cuts = 0
    for file in sorted(story.path.iterdir()):
        vouched = story.vouched.get(file, 0)
        for cut in places(file, is_named=bool(vouched)):
            left = tmp_path / "left"
            shutil.copytree(story.path, left)
            with (left / file.name).open("r+b") as damaged:
                damaged.truncate(cut)
            if cut < vouched:
                with pytest.raises(CorruptRecordError):
                    come_back(kind, left, story.snapshot)
            else:
                kept = [page for page in story.pages if page.file != file or page.end <= cut]
                expected = story.expected(kept)
                assert come_back(kind, left, story.snapshot) == expected, (file.name, cut)
            shutil.rmtree(left)
            cuts += 1
    assert cuts > 400


@pytest.mark.parametrize("kind", BUILD)
def test_a_missing_file_that_the_snapshot_names_is_reported(tmp_path, kind):
    story = tell(kind, tmp_path / "seen")
    for file in story.vouched:
        left = tmp_path / "left"
        shutil.copytree(story.path, left)
        (left / file.name).unlink()
        with pytest.raises(CorruptRecordError, match=r"missing|gone"):
            come_back(kind, left, story.snapshot)
        shutil.rmtree(left)


@pytest.mark.parametrize("kind", BUILD)
def test_a_url_met_again_after_its_merge_is_one_url_after_a_death(tmp_path, kind):
    """Its second record lies in the same buffer after the recovery, as no merge lies between."""
    eliminator = BUILD[kind](tmp_path / "seen")
    eliminator.open(None)
    for page in (["a"], ["b", "c", "d", "e", "f"], ["a", "g"]):
        submit(eliminator, page)
        drain(eliminator)
    shutil.copytree(tmp_path / "seen", tmp_path / "left")
    eliminator.close()
    assert come_back(kind, tmp_path / "left", None) == list("abcdefg")


def test_a_smaller_buffer_than_before_the_death_is_no_trouble(tmp_path):
    eliminator = disk_eliminator(tmp_path, buffer_size=1000, log_file_bytes=1 << 20)
    eliminator.open(None)
    submit(eliminator, names(100))
    eliminator.merge()
    eliminator.take(10)
    for first in range(100, 200, 10):
        submit(eliminator, names(10, first))
    saved = publish(eliminator)
    eliminator.close()
    assert come_back("disk", tmp_path, saved) == names(190, 10)


class Saved(msgspec.Struct):
    """What the frontier has in its own snapshot goes with the eliminator's."""

    snapshot: bytes
    taken: int


def live_on(root: Path) -> None:
    """The eliminator's life from its last checkpoint on: some of everything. *root*/kind is what
    it is, *root*/pages counts the pages that were submitted."""
    kind = (root / "kind").read_text()
    saved = msgspec.msgpack.decode((root / "saved").read_bytes(), type=Saved)
    eliminator = BUILD[kind](root / "seen")
    eliminator.open(saved.snapshot)
    taken = saved.taken
    for number in range(int((root / "pages").read_text()), 7):
        submit(eliminator, names(5, 4 * number))
        (root / "pages").write_text(str(number + 1))
        eliminator.merge()
        taken += len(eliminator.take(3))
        if number == 4:
            data = eliminator.snapshot()
            sync_paths(eliminator.written())
            write_atomic(root / "saved", msgspec.msgpack.encode(Saved(data, taken)))
            eliminator.forget()
    eliminator.close()


@pytest.mark.parametrize("kind", BUILD)
def test_killed_between_any_two_lines_nothing_is_lost_or_repeated(tmp_path, kind):
    start = tmp_path / "start"
    start.mkdir()
    eliminator = BUILD[kind](start / "seen")
    eliminator.open(None)
    for number in range(3):
        submit(eliminator, names(5, 4 * number))
    eliminator.merge()
    taken = len(eliminator.take(4))
    saved = publish(eliminator)
    eliminator.close()
    (start / "kind").write_text(kind)
    (start / "saved").write_bytes(msgspec.msgpack.encode(Saved(saved, taken)))
    (start / "pages").write_text("3")
    (tmp_path / "left").mkdir()
    lives = die_between_lines("tests.seen.test_crash:live_on", start, tmp_path / "left")
    assert len(lives) > 15
    for left in lives:
        acknowledged = int((left / "pages").read_text() or 0)
        found = msgspec.msgpack.decode((left / "saved").read_bytes(), type=Saved)
        out = come_back(kind, left / "seen", found.snapshot)
        # The page in flight is there or not; the pages before it are.
        assert out in (
            names(4 * acknowledged + 1)[found.taken :],
            names(4 * acknowledged + 5)[found.taken :],
        ), left


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", BUILD)
def test_a_published_snapshot_survives_a_power_loss(tmp_path, monkeypatch, kind, seed):
    """What was written since may be gone or torn; what comes out is then the beginning of what
    was submitted, and nothing of what had been submitted by the snapshot is missing."""
    rng = random.Random(seed)
    root = tmp_path / "root"
    root.mkdir()
    power = PowerLoss(root, monkeypatch)
    eliminator = BUILD[kind](root / "shard" / "seen")
    eliminator.open(None)
    order, taken = [], 0
    for world in range(12):
        for _ in range(rng.randrange(6)):
            page = names(rng.randrange(1, 9), rng.randrange(200))
            submit(eliminator, page)
            order = unique(order + page)
            if rng.random() < 0.6:
                eliminator.merge()
            taken += len(eliminator.take(rng.randrange(1, 9)))
        saved = eliminator.snapshot()
        sync_paths(eliminator.written())
        safe, taken_then = len(order), taken
        later = list(order)
        for _ in range(rng.randrange(4)):
            page = names(rng.randrange(1, 9), rng.randrange(200))
            submit(eliminator, page)
            later = unique(later + page)
            eliminator.merge()
            taken += len(eliminator.take(rng.randrange(1, 9)))
        left = power.lose(tmp_path / str(world), rng)
        out = come_back(kind, left / "shard" / "seen", saved)
        order = later
        assert len(out) >= safe - taken_then
        assert out[: safe - taken_then] == order[taken_then:safe]
        assert set(out) <= set(order[taken_then:])
        assert len(set(out)) == len(out)
        if rng.random() < 0.6:
            eliminator.forget()
    eliminator.close()
    power.close()


def test_content_snapshots_survive_a_power_loss(tmp_path, monkeypatch):
    rng = random.Random(1)
    root = tmp_path / "root"
    root.mkdir()
    power = PowerLoss(root, monkeypatch)
    content = ContentSeen(path=root / "content", executor=InlineExecutor(), buffer_size=5)
    content.open(None)
    committed = set()
    for world in range(25):
        for _ in range(rng.randrange(9)):
            committed.add(rng.randrange(1, 1000))
            content.commit(max(committed))
            for fp in committed:
                content.commit(fp)
        saved, kept = content.snapshot(), set(committed)
        sync_paths(content.written())
        for fp in range(2000, 2000 + rng.randrange(12)):
            content.commit(fp + 100 * world)
            committed.add(fp + 100 * world)
        left = power.lose(tmp_path / str(world), rng)
        found = ContentSeen(path=left / "content", executor=InlineExecutor(), buffer_size=5)
        found.open(saved)
        assert found.check() == []
        assert {fp for fp in range(1, 5000) if found.test(fp)} == kept
        found.close()
        if rng.random() < 0.6:
            content.forget()
    content.close()
    power.close()
