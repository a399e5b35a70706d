"""Ranks of hosts and URLs from RANKS_FILE, which take precedence over those of the seed list.

``scrapy pagerank`` writes such a file, even during the crawl; it is read again when it changes
(storage/watched_rules.py). A URL gets its level when it reaches the front end, from the version in
force at that time, and keeps it. A new version applies to new URLs and to retried ones.

Memory: 12 bytes per line, sorted in place; twice as much while the file is read again.
"""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

import msgspec
import numpy as np
from xxhash import xxh3_64_digest

from webcrawl.clock import TimeSource
from webcrawl.frontier import Entry, Prioritizer
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import SCHEMES, host_of
from webcrawl.urls.extraction.reference_resolver import ReferenceResolver

# line := rank "," (host | URL). A host may be quoted, an IPv6 address may be in brackets; headings
# and comments are as in seed lists. The group *plain* matches a host that is already normalized.
_LINE = re.compile(
    r'"?([0-9]{1,10})"?\s*,\s*(?:"?(?P<plain>(?:[a-z0-9-]++\.)*+[a-z][a-z0-9-]*+)"?'
    r'|"?\[?(?P<host>[^\s"\[\]/,?#@\\]{1,253}?)\.?\]?"?|(?P<url>[A-Za-z][A-Za-z0-9+.-]*+://\S+))'
)
_HEADINGS = {"rank,host", "rank,url"}
_MAX_RANK = 0xFFFF_FFFF
# A pair is the fingerprint of a name, comparable as bytes, and the rank.
_FINGERPRINT_BYTES = 8
_PAIR_BYTES = 12
_PAIR = f"S{_PAIR_BYTES}"
_pack_rank = struct.Struct(">I").pack
# Normalizes any URL; fast for the usual ones.
_normalized = ReferenceResolver("http://localhost/", schemes=SCHEMES).resolve
# Maximum number of ranks in a file: 48 MB. Further ones are ignored.
_MAX_LINES = 1 << 22


class Ranks:
    """The ranks of the first _MAX_LINES hosts and URLs in one version of the file."""

    def __init__(self) -> None:
        self._pairs = bytearray()
        self._sorted = np.empty(0, _PAIR)
        self._has_urls = False

    def __len__(self) -> int:
        return len(self._pairs) // _PAIR_BYTES

    def add(self, line: str) -> None:
        """Add the rank in *line*, if it has one.

        Rank 0 means that the name has no rank, as in seed lists. Beyond the maximum number of
        ranks, further ones are left out, so that memory stays bounded. Raises ValueError if the
        line is invalid; the message completes a sentence.
        """
        text = line.strip()
        if not text or text[0] == "#" or text in _HEADINGS:
            return
        match = _LINE.fullmatch(text)
        name = _name_in(match) if match else ""
        if match is None or not name:
            raise ValueError(f"{text[:80]!r} is not a rank of a host or URL")
        if len(self) < _MAX_LINES and (rank := int(match[1])):
            self._has_urls |= match["url"] is not None
            self._pairs += _fingerprint(name) + _pack_rank(min(rank, _MAX_RANK))

    def complete(self) -> None:
        """Sort the ranks, so that they can be looked up.

        If a name has two ranks, the better one counts, because it is sorted before the other.
        """
        # An array that shares the memory of the pairs, so they are sorted as well.
        self._sorted = np.frombuffer(self._pairs, _PAIR)
        self._sorted.sort()

    def rank(self, url: str) -> int:
        """Return the rank of *url*, or else of its host; 1 is the first, 0 means no rank."""
        return (self._has_urls and self._find(url)) or self._find(host_of(url))

    def _find(self, name: str) -> int:
        """Return the rank of the host or URL *name*; 0 if it is not in the file."""
        fingerprint = _fingerprint(name)
        # A fingerprint alone is sorted before all pairs that begin with it.
        start = int(self._sorted.searchsorted(fingerprint)) * _PAIR_BYTES
        end = start + _FINGERPRINT_BYTES
        if self._pairs[start:end] != fingerprint:
            return 0
        return int.from_bytes(self._pairs[end : start + _PAIR_BYTES])


class RanksFile(RulesFile[Ranks]):
    """The rules file RANKS_FILE at *path*; None means that there are no ranks."""

    def __init__(self, *, path: Path | str | None, clock: TimeSource) -> None:
        super().__init__(
            path=path,
            setting="RANKS_FILE",
            no_effect="ranks nothing",
            make_rules=Ranks,
            complete_rules=Ranks.complete,
            clock=clock,
        )

    def importance(self, url: str) -> float:
        """Return the importance of *url*: 1 / log2(1 + rank), at most 1.0.

        The same formula discounts the results of a search (DCG). A URL without a rank counts as if
        it came after the last; without a file all URLs have 1.0.
        """
        ranks = self.rules
        return 1 / math.log2(1 + (ranks.rank(url) or 1 + len(ranks)))


class RankedPrioritizer:
    """Prioritizer that passes entries on to *prioritizer*, with their ranks from *file*.

    A rank of the URL or host in *file* takes precedence over the host's rank in the seed list.
    """

    def __init__(self, prioritizer: Prioritizer, file: RanksFile) -> None:
        self.levels = prioritizer.levels
        self._level = prioritizer.level
        self._file = file

    def level(self, entry: Entry) -> int:
        rank = self._file.rules.rank(entry.url)
        return self._level(msgspec.structs.replace(entry, rank=rank) if rank else entry)


def _name_in(line: re.Match[str]) -> str:
    """Return the host or URL in *line*, normalized; "" if it is invalid."""
    _, plain, host, url = line.groups()
    if plain and "xn--" not in plain:
        return plain
    if url:
        return _normalized(url) or ""
    host = plain or host
    return host_of(_normalized(f"http://[{host}]/" if ":" in host else f"http://{host}/") or "")


def _fingerprint(name: str) -> bytes:
    return xxh3_64_digest(name.encode())
