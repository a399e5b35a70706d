"""Queue directory: URLs for the next segment, finished segments, and progress in the sources.

It is a part of the queue's job. Its snapshot records the offset up to which each source was read,
and its files are fsynced before the snapshot is published. After a crash, the next run adds the
URLs since the last checkpoint again. So sorting drops duplicate lines of new-N.txt.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.crawl.seeds.segments import numbered_segment, segments
from webcrawl.pipelines.sorting import sorted_lines
from webcrawl.storage.atomic import OpenFile, replacement, sync_path, write_all
from webcrawl.storage.line_log import cut_torn_line, number_of
from webcrawl.urls.registered_domain import domain_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FLUSH_BYTES = 1 << 18
_FEATURE = "The queue builder"
# Options of ``sort``: by domain and URL, each URL once.
_SORT_OPTIONS = ("--unique", "--field-separator=\t", "--key=1,2")


class Progress(msgspec.Struct):
    """Progress in the sources, and the number of the last segment.

    *offsets* has the offset of the first unread page, by the absolute path of its source.
    """

    offsets: dict[str, int] = {}
    segment: int = 0


_decode = msgpack_decoder(Progress)


class Segment(msgspec.Struct, frozen=True):
    """A complete segment, with its numbers of URLs and of registered domains."""

    path: str
    urls: int
    domains: int


class QueueDirectory(OpenFile):
    """The queue in the directory *path*, as a part of its job."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.progress = Progress()
        self._lines: list[str] = []  # URLs that are not yet in the file
        self._bytes = 0  # the size of these lines
        self._number = 0  # of the next segment; set by ``open``

    def open(self, saved: bytes | None) -> None:
        """Continue from the snapshot *saved*, or start a queue if it is None. Raises OSError."""
        if saved is not None:
            self.progress = _decode(saved)
        # The last segment may have been completed after the last checkpoint.
        last_numbers = [number_of(path) for path in segments(self.path)[-1:]]
        self._number = max([self.progress.segment, *last_numbers]) + 1
        for path in self.path.glob("new-*.txt"):
            if path != self._new_file:  # left behind by a run that has completed its segment
                path.unlink()
        cut_torn_line(self._new_file)
        self._fd = os.open(self._new_file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def add(self, urls: Iterable[tuple[str, int]]) -> None:
        """Add *urls*, with their ranks, to the next segment. Raises OSError."""
        for url, rank in urls:
            line = f"{domain_of(url)}\t{url}\t{rank}\n"
            self._lines.append(line)
            self._bytes += len(line)
        if self._bytes >= _FLUSH_BYTES:
            self._flush()

    def remainders(self) -> Iterator[Path]:
        """Yield the lists of URLs that crawls have handed back.

        Each list is renamed first, so that no crawl changes it, and is deleted when the next one is
        requested. By then all of its URLs must have been added. Raises OSError.
        """
        for path in sorted(self.path.glob("taken-*.txt")):  # left behind by a run that died
            yield from self._delete_after_use(path)
        for path in sorted(self.path.glob("remainder-*.txt")):
            yield from self._delete_after_use(path.rename(path.with_name(f"taken-{path.name}")))

    def _delete_after_use(self, path: Path) -> Iterator[Path]:
        """Yield *path*, then delete it once the URLs that were added are on disk."""
        yield path
        self._flush()
        os.fsync(self._fd)
        path.unlink()
        sync_path(self.path)

    def write_segment(self) -> Segment | None:
        """Sort the added URLs and write them as the next segment; return None if there are none.

        Uses coreutils' sort, whose memory is bounded and whose temporary files are in the queue's
        directory. Raises FatalError if sorting fails, OSError if the disk is full.
        """
        self._flush()
        if not os.fstat(self._fd).st_size:  # no URL was added
            self._delete_new_file()
            return None

        path = numbered_segment(self.path, self._number)
        urls = 0
        domains = 0
        last_domain = ""
        with (
            replacement(path) as temporary_path,
            temporary_path.open("w", encoding="ascii") as file,
        ):
            for line in sorted_lines(
                [self._new_file], *_SORT_OPTIONS, directory=self.path, feature=_FEATURE
            ):
                domain, url, rank = line.decode("ascii").removesuffix("\n").split("\t")
                file.write(f"{rank},{url}\n")
                urls += 1
                if domain != last_domain:
                    domains += 1
                    last_domain = domain

        self.progress.segment = self._number
        self._delete_new_file()
        return Segment(str(path), urls, domains)

    def _delete_new_file(self) -> None:
        """Close and delete the file of added URLs."""
        self.close()
        self._new_file.unlink()

    @property
    def _new_file(self) -> Path:
        return self.path / f"new-{self._number:06d}.txt"

    def _flush(self) -> None:
        write_all(self._fd, "".join(self._lines).encode("ascii"))
        self._lines.clear()
        self._bytes = 0

    # --- as a part of the job

    def snapshot(self) -> bytes:
        """Return the progress in the sources. The URLs added until now are written to the file."""
        if self._fd >= 0:
            self._flush()
        return msgspec.msgpack.encode(self.progress)

    def written(self) -> list[Path]:
        """Return the files with the added URLs."""
        return [self._new_file, self.path]

    def forget(self) -> None:
        """Do nothing, because no file is ever replaced by a newer one."""
