"""Queue directory: URLs for the next segment, finished segments, and progress in the sources.

It is a part of the queue's job. Its snapshot has the offset up to which each source was read, and
its files are fsynced before the snapshot is published. After a crash, the next run adds the URLs
since the last checkpoint again, so duplicate lines of new-N.txt are dropped in sorting.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.crawl.seeds.segments import numbered_segment, segments
from webcrawl.storage.atomic import replacing, sync_path, write_all
from webcrawl.storage.line_log import cut_torn_line, number_of
from webcrawl.storage.sorting import sorted_lines
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FLUSHED_BYTES = 1 << 18
_SELF = "The queue builder"
# By domain and URL, each URL once.
_BY_URL = ("--unique", "--field-separator=\t", "--key=1,2")


class Progress(msgspec.Struct):
    """Progress in the sources, and the number of the last segment.

    *offsets* has the offset of the first unread page, by the absolute path of its source.
    """

    offsets: dict[str, int] = {}
    segment: int = 0


_decode = msgpack_decoder(Progress)


class Segment(msgspec.Struct, frozen=True):
    """Complete segment, with its numbers of *urls* and registered *domains*."""

    path: str
    urls: int
    domains: int


class QueueDirectory:
    """Queue in the directory *path*, which ``open`` creates. A part of its job."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.progress = Progress()
        self._fd = -1
        self._lines: list[str] = []
        self._bytes = 0
        self._number = 0

    def open(self, saved: bytes | None) -> None:
        """Continue from the snapshot *saved*, None for a new queue. Raises OSError."""
        if saved is not None:
            self.progress = _decode(saved)
        last = [number_of(path) for path in segments(self.path)[-1:]]
        self._number = max([self.progress.segment, *last]) + 1
        for path in self.path.glob("new-*.txt"):
            if path != self._new:  # its segment was complete when the process died
                path.unlink()
        cut_torn_line(self._new)
        self._fd = os.open(self._new, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def add(self, urls: Iterable[tuple[str, int]]) -> None:
        """Put *urls* with their ranks into the next segment. Raises OSError."""
        for url, rank in urls:
            line = f"{registered_domain(host_of(url))}\t{url}\t{rank}\n"
            self._lines.append(line)
            self._bytes += len(line)
        if self._bytes >= _FLUSHED_BYTES:
            self._flush()

    def remainders(self) -> Iterator[Path]:
        """Yield the lists handed back by crawls, each renamed so that no crawl touches it.

        A list is deleted when the next one is requested; by then all its URLs must have been added.
        Raises OSError.
        """
        for path in sorted(self.path.glob("taken-*.txt")):  # left by a run that died
            yield from self._forgotten(path)
        for path in sorted(self.path.glob("remainder-*.txt")):
            yield from self._forgotten(path.rename(path.with_name(f"taken-{path.name}")))

    def _forgotten(self, path: Path) -> Iterator[Path]:
        yield path
        self._flush()
        os.fsync(self._fd)
        path.unlink()
        sync_path(self.path)

    def write_segment(self) -> Segment | None:
        """Sort the added URLs and write them as the next segment; None if there are none.

        Uses coreutils' sort, whose memory is bounded and whose temporary files are in *path*.
        Raises FatalError if it fails, OSError if the disk is full.
        """
        self._flush()
        if not os.fstat(self._fd).st_size:
            self._drop_new()
            return None
        path = numbered_segment(self.path, self._number)
        urls = domains = 0
        last = ""
        with replacing(path) as growing, growing.open("w", encoding="ascii") as file:
            for line in sorted_lines([self._new], *_BY_URL, directory=self.path, feature=_SELF):
                domain, url, rank = line.decode("ascii").removesuffix("\n").split("\t")
                file.write(f"{rank},{url}\n")
                urls += 1
                if domain != last:
                    domains += 1
                    last = domain
        self.progress.segment = self._number
        self._drop_new()
        return Segment(str(path), urls, domains)

    def close(self) -> None:
        """Close without fsync. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _drop_new(self) -> None:
        self.close()
        self._new.unlink()

    @property
    def _new(self) -> Path:
        return self.path / f"new-{self._number:06d}.txt"

    def _flush(self) -> None:
        write_all(self._fd, "".join(self._lines).encode("ascii"))
        self._lines.clear()
        self._bytes = 0

    # A part of the job

    def snapshot(self) -> bytes:
        """Return the progress in the sources; URLs added before are in the file."""
        if self._fd >= 0:
            self._flush()
        return msgspec.msgpack.encode(self.progress)

    def written(self) -> list[Path]:
        """Return the files with the added URLs."""
        return [self._new, self.path]

    def forget(self) -> None:
        """Do nothing: no file is ever superseded."""
