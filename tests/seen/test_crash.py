"""Tests of the eliminators after a crash, and with every file cut at every byte of its tail."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
from seen_rig import (
    bloom_eliminator,
    damage_of,
    disk_eliminator,
    drain,
    publish,
    submit,
    unique,
)
from strategies import some_of
from text_tables import each

from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

BUILD = {
    "disk": partial(disk_eliminator, log_file_bytes=250),
    "bloom": partial(bloom_eliminator, log_file_bytes=150, save_after=75),
}


def names(count, first=0):
    """Return URLs so short that a log cut at every byte has few bytes."""
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

    def expected(self, pages):
        return unique(url for page in pages for url in page.urls)[self.taken :]


def tell(kind, path):
    """Make runs, a section partly taken, one in the buffer; then a snapshot, and as much after it.

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


def come_back(kind, path, snapshot):
    """Return what comes out of the directory until nothing waits; raise any damage found."""
    eliminator = BUILD[kind](path)
    try:
        eliminator.open(snapshot)
        out = drain(eliminator, limit=50)
        eliminator.take(1)
        if wrong := damage_of(eliminator):
            raise CorruptRecordError(path, 0, wrong[0])
        return out
    finally:
        eliminator.close()


def places(file, edges, *, is_named):
    """Of a log all or some bytes; of runs and filters those of their last part, and some before,
    or three if no snapshot names them: they are deleted unread."""
    size = file.stat().st_size
    if file.suffix == ".log":
        return some_of(range(size), edges)
    if not is_named:
        return [0, size // 2, size - 1]
    return sorted({*range(0, size, 400), *range(max(0, size - 60), size)})


@each("kind", *BUILD)
def test_every_file_cut_at_every_byte(tmp_path, kind):
    story = tell(kind, tmp_path / "seen")
    assert len(story.vouched) >= 3
    assert len(list(story.path.iterdir())) > len(story.vouched)
    cuts = 0
    for file in sorted(story.path.iterdir()):
        vouched = story.vouched.get(file, 0)
        ends = [page.end for page in story.pages if page.file == file]
        for cut in places(file, [vouched, *ends], is_named=bool(vouched)):
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
    assert cuts > 150


@each("kind", *BUILD)
def test_a_missing_file_that_the_snapshot_names_is_reported(tmp_path, kind):
    story = tell(kind, tmp_path / "seen")
    for file in story.vouched:
        left = tmp_path / "left"
        shutil.copytree(story.path, left)
        (left / file.name).unlink()
        with pytest.raises(CorruptRecordError, match=r"missing|gone"):
            come_back(kind, left, story.snapshot)
        shutil.rmtree(left)


@each("kind", *BUILD)
def test_a_url_met_again_after_its_merge_is_one_url_after_a_death(opened, tmp_path, kind):
    """Its second record is in the same buffer after the recovery, as there was no merge between."""
    eliminator = opened(BUILD[kind], path=tmp_path / "seen")
    for page in (["a"], ["b", "c", "d", "e", "f"], ["a", "g"]):
        submit(eliminator, page)
        drain(eliminator)
    shutil.copytree(tmp_path / "seen", tmp_path / "left")
    eliminator.close()
    assert come_back(kind, tmp_path / "left", None) == list("abcdefg")


def test_a_smaller_buffer_after_a_crash_works(opened, tmp_path):
    eliminator = opened(buffer_size=1000, log_file_bytes=1 << 20)
    submit(eliminator, names(100))
    eliminator.merge()
    eliminator.take(10)
    for first in range(100, 200, 10):
        submit(eliminator, names(10, first))
    saved = publish(eliminator)
    eliminator.close()
    assert come_back("disk", tmp_path, saved) == names(190, 10)
