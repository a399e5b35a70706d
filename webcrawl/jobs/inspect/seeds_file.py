"""Exports the frontier as a seed list of all URLs that are still to be fetched.

Each line is ``rank,URL``. The list is written by ``scrapy frontier --export`` and read by
``-a seeds=``. Invariant: each line is read back as the same URL and rank; URLs for which that is
not possible are left out and counted.

A seed list does not contain the depth of a URL, the page that links to it and its earlier tries.
Ordinary Requests of a spider (callbacks, POST) are left out.
"""

from __future__ import annotations

import contextlib
import gzip
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec

from webcrawl.crawl.seeds.seed_line import can_be_written
from webcrawl.errors import DiskError, FatalError, is_disk_failing
from webcrawl.frontier.entry import NO_URLS
from webcrawl.jobs.inspect.job_view import JobView, running
from webcrawl.storage.atomic import replacement
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from webcrawl.frontier import Entry

_LINES_PER_WRITE = 10_000
_GZIP_LEVEL = 4


class Exported(msgspec.Struct):
    """Counts of an export.

    *urls* is the number of URLs written. *requests* ordinary Requests were left out, and so were
    *unsayable* URLs, which cannot be written as a line. *damaged* has a sentence for each file that
    could not be read completely.
    """

    urls: int = 0
    requests: int = 0
    unsayable: int = 0
    damaged: list[str] = []


def export(view: JobView, path: Path, *, on_progress: Callable[[int], None]) -> Exported:
    """Write all URLs of *view* that wait, are leased, parked or undecided to the file *path*.

    Takes 8 us per URL. The file is compressed if its name ends in ``.gz``. It is replaced
    completely or not at all. If the crawl is stopped, damaged files are skipped. *on_progress* is
    called with the number of URLs so far. Raises FatalError if *path* cannot be written.
    """
    counts = Exported()
    lines = _lines(view, counts)
    with ExitStack() as stack:
        with _as_fatal(path):
            temporary = stack.enter_context(replacement(path))
            file = stack.enter_context(_open(temporary, gzipped=path.suffix == ".gz"))
        while data := b"".join(islice(lines, _LINES_PER_WRITE)):
            with _as_fatal(path):
                file.write(data)
            on_progress(counts.urls)
        with _as_fatal(path):
            stack.close()  # gzip writes its last bytes
    return counts


@contextlib.contextmanager
def _as_fatal(path: Path) -> Iterator[None]:
    """Turn an OSError about the file *path* into FatalError: the job itself is not at fault."""
    try:
        yield
    except OSError as error:
        kind = DiskError if is_disk_failing(error) else FatalError
        raise kind(f"{path} cannot be written: {error.strerror}.") from error


def _open(path: Path, *, gzipped: bool) -> BinaryIO:
    """Open *path* for writing, compressed if *gzipped*."""
    if not gzipped:
        return path.open("wb")
    return cast("BinaryIO", gzip.open(path, "wb", _GZIP_LEVEL))  # the caller closes it


def _lines(view: JobView, counts: Exported) -> Iterator[bytes]:
    """Yield the lines of the list, and update *counts*."""
    own = view.own
    heading = (
        f"# The frontier of {view.path.name!r}, checkpoint {own.sequence} of "
        f"{own.written_at} and the logs since.\n"
    )
    yield heading.encode()
    is_running = running(view.jobdirs)

    def on_damage(error: CorruptRecordError) -> None:
        if is_running:  # the file may belong to an older checkpoint, and then ``ask`` retries
            raise error
        counts.damaged.append(f"{error}; the rest of that file is missing from the list")

    for entry in _entries(view, on_damage):
        # A visit is left out, because it would be imported as a new URL.
        if entry.kind in NO_URLS or entry.history:
            continue
        if entry.extra:
            counts.requests += 1
        elif not can_be_written(entry.url, entry.rank):
            counts.unsayable += 1
        else:
            counts.urls += 1
            yield f"{entry.rank},{entry.url}\n".encode()


def _entries(view: JobView, on_damage: Callable[[CorruptRecordError], object]) -> Iterator[Entry]:
    """Yield the entry of each waiting URL once, including those still in the eliminator."""
    for shard in view.shards:
        shard.frontier.on_damage = on_damage
        finished = shard.frontier.finished_keys()
        for found in shard.frontier.entries(finished):
            yield found.entry
        try:
            yield from shard.undecided_entries(finished)
        except CorruptRecordError as error:
            on_damage(error)
