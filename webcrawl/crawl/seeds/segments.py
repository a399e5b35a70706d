"""Segments of a queue: the numbered seed lists that ``scrapy queue-build`` makes.

A crawl with ``-a offline=1`` fetches what they list and follows nothing. It reads the next one when
few hosts are left. Its job directory remembers which were read, as of any seed list.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from webcrawl.errors import FatalError

#: Those that are complete.
SEGMENTS: Final = "segment-[0-9]*.txt"


def numbered_segment(directory: Path, number: int) -> Path:
    """The segment *number* of the queue *directory*, 1 for the first."""
    return directory / f"segment-{number:06d}.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentQueue:
    """The queue in *directory*, for a crawl; of its segments *only* one, if that is named.

    With fewer than *min_hosts* hosts left the next segment is read; without one the crawl hands
    back what it has.
    """

    directory: Path
    min_hosts: int
    only: str = ""

    @classmethod
    def of(cls, source: str, min_hosts: str) -> Self:
        """The queue that *source* names, a directory or one segment in it. FatalError."""
        path = Path(source)
        if not min_hosts.isdecimal() or not int(min_hosts):
            raise FatalError(f"min_hosts must be a whole number of at least 1, not {min_hosts!r}.")
        if path.match(SEGMENTS) and path.is_file():
            return cls(directory=path.parent, min_hosts=int(min_hosts), only=source)
        if not any(path.glob(SEGMENTS)):
            raise FatalError(
                f"There is no segment in {source}: make one with "
                f"scrapy queue-build --queue {source} --seeds FILE."
            )
        return cls(directory=path, min_hosts=int(min_hosts))

    def segments(self) -> list[str]:
        """Its segments, the oldest first."""
        if self.only:
            return [self.only]
        return sorted(map(str, self.directory.glob(SEGMENTS)))

    def remainder(self, jobdir: Path) -> Path:
        """Where the crawl in *jobdir* puts the URLs that it hands back."""
        return self.directory / f"remainder-{jobdir.name}.txt"
