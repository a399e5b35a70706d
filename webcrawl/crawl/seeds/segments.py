"""Segments of a queue: the numbered seed lists that ``scrapy queue-build`` makes.

A crawl with ``-a offline=1`` fetches the URLs in them and follows no links. It reads the next
segment when few hosts are left. Its job directory records which segments were read, as for any seed
list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Self

from webcrawl.clock import now
from webcrawl.crawl.seeds.few_hosts import FewHosts, has_fewer_hosts
from webcrawl.errors import FatalError
from webcrawl.storage.line_log import numbered_files
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from webcrawl.crawl.seeds.seed_reader import SeedReader
    from webcrawl.crawl.shard.shards import Shards


def segments(directory: Path) -> list[Path]:
    """Return the complete segments in *directory*, the oldest first."""
    return numbered_files(directory / "segment.txt")


def numbered_segment(directory: Path, number: int) -> Path:
    """Return the path of segment *number* of the queue *directory*; 1 is the first."""
    return directory / f"segment-{number:06d}.txt"


class SegmentQueue:
    """The queue in *directory*, read by one crawl; *only* limits it to one segment.

    When fewer than *min_hosts* hosts are left, the next segment is read. If there is none, the
    crawl ends and returns the remaining URLs, provided that it once had that many hosts. A crawl
    that never had, fetches all its URLs, so the last few hosts of a queue are not returned for
    ever.
    """

    def __init__(self, *, directory: Path, min_hosts: int, only: Path | None = None) -> None:
        self.directory = directory
        self._few_hosts = FewHosts(min_hosts, secs=0, clock=now)
        self._only = only

    @classmethod
    def of(cls, sources: Sequence[str], min_hosts: int) -> Self:
        """Return the queue that *sources* name: a directory, or one segment in it.

        Raises FatalError.
        """
        if len(sources) > 1:
            raise FatalError("An offline crawl has exactly one queue: name it with seeds=DIR.")
        path = Path(sources[0])
        if path in segments(path.parent):
            return cls(directory=path.parent, min_hosts=min_hosts, only=path)
        if not segments(path):
            raise FatalError(
                f"{path} has no segments: make one with "
                f"{COMMAND} queue-build --queue {quote(str(path))} --seeds FILE."
            )
        return cls(directory=path, min_hosts=min_hosts)

    def names(self) -> list[str]:
        """Return the segments to read, the oldest first."""
        return [*map(str, [self._only] if self._only else segments(self.directory))]

    def refill(self, seeds: SeedReader, shards: Shards) -> bool:
        """Add new segments to *seeds*, their reader, and return whether to read more from it.

        They are added when few hosts are left. If True is returned although *seeds* is exhausted,
        the crawl should end. Raises SeedsError.
        """
        if not seeds.begins_source:  # a segment is read to its end
            return True
        if not self._few_hosts.check(shards):
            return False
        seeds.add(self.names())
        # A crawl that never had enough hosts ends only when none is left.
        return self._few_hosts.had_more or not seeds.exhausted or has_fewer_hosts(shards, 1)

    def remainder(self, jobdir: Path) -> Path:
        """Return the path of the file for URLs that the crawl in *jobdir* did not fetch."""
        digest = hashlib.sha256(bytes(jobdir.absolute())).hexdigest()[:8]
        return self.directory / f"remainder-{jobdir.name}-{digest}.txt"
