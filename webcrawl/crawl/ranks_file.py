"""Ranks file: ranks of hosts or URLs from RANKS_FILE, which go before those of the seed list.

``scrapy pagerank`` writes one, also while the crawl runs; it is read again when it changes
(storage/watched_rules.py). A URL gets its level by the version in force when it comes to the front
end, and keeps it: a new version holds for new URLs and for those that are tried again.

In memory: 12 bytes a line, sorted by fingerprint as in seeds/ranks.py, and as many while the file
is read again.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.frontier import Entry, Prioritizer

# line := rank "," (host | URL); a host quoted or not, an IPv6 address in brackets or not; headings
# and comments are as in seed lists.
_LINE: Final = re.compile(
    r'"?([0-9]{1,10})"?\s*,\s*'
    r'(?:"?\[?(?P<host>[^\s"\[\]/,]{1,253}?)\.?\]?"?|(?P<url>[a-z][a-z0-9+.-]*://[^\s/]+/\S*))'
)
_HEADINGS: Final = {"rank,host", "rank,url"}
_MAX_RANK: Final = 0xFFFF_FFFF
#: Lines of a file: 48 MB. Those after them count as if they were not there.
MAX_LINES: Final = 1 << 22


class Ranks:
    """The ranks of one version of the file: of its first *most* hosts and URLs."""

    def __init__(self, *, most: int = MAX_LINES) -> None:
        self._most = most
        self._fingerprints = array("Q")
        self._ranks = array("I")
        self._has_urls = False

    def __len__(self) -> int:
        return len(self._fingerprints)

    def add(self, line: str) -> None:
        """Add the rank of *line*, if there is one. ValueError, with the end of a sentence, for what
        is no rank of a host or URL."""
        text = line.strip()
        found = _LINE.fullmatch(text)
        if found is None:
            if not text or text[0] == "#" or text in _HEADINGS:
                return
            raise ValueError(f"{text[:80]!r} is no rank of a host or URL")
        if len(self._ranks) < self._most and (rank := int(found[1])):
            url = found["url"]
            self._has_urls |= url is not None
            self._fingerprints.append(_fingerprint(url or found["host"].lower()))
            self._ranks.append(min(rank, _MAX_RANK))

    def complete(self) -> None:
        """Sort it: from now on it can be asked. Of two ranks of one name the better holds."""
        fingerprints = np.frombuffer(self._fingerprints, np.uint64)
        ranks = np.frombuffer(self._ranks, np.uint32)
        order = np.lexsort((ranks, fingerprints))
        self._fingerprints = array("Q", fingerprints[order].tobytes())
        self._ranks = array("I", ranks[order].tobytes())

    def rank(self, url: str) -> int:
        """The rank of *url*, or else of its host, 1 is the first; 0 if they are not in the file."""
        return (self._has_urls and self._find(url)) or self._find(host_of(url))

    def _find(self, name: str) -> int:
        fingerprint = _fingerprint(name)
        index = bisect_left(self._fingerprints, fingerprint)
        found = index < len(self._ranks) and self._fingerprints[index] == fingerprint
        return self._ranks[index] if found else 0


class RanksFile(RulesFile[Ranks]):
    """The file *path* and its ranks, none if it is None."""

    def __init__(self, *, path: Path | str | None, clock: Callable[[], float]) -> None:
        super().__init__(
            path=path,
            setting="RANKS_FILE",
            idle="ranks nothing",
            make=Ranks,
            complete=Ranks.complete,
            clock=clock,
        )


class RankedPrioritizer:
    """Prioritizer by another one, *prioritizer*, and the ranks of a file.

    The rank of a URL or host in *file*, if it has one, takes the place of that in the seed list.
    """

    def __init__(self, prioritizer: Prioritizer, file: RanksFile) -> None:
        self.levels = prioritizer.levels
        self._level = prioritizer.level
        self._file = file

    def level(self, entry: Entry) -> int:
        rank = self._file.rules.rank(entry.url)
        return self._level(msgspec.structs.replace(entry, rank=rank) if rank else entry)


def _fingerprint(name: str) -> int:
    return xxh3_64_intdigest(name.encode())
