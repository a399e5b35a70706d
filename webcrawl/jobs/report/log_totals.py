"""Log totals: what the lines of finished URLs (crawl/outcome_log.py) amount to, in one pass.

Five seconds a million lines. Memory is bounded, whatever the log has.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from math import floor, frexp, log2
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.crawl.outcome_log import HTML
from webcrawl.jobs.report.figures import OTHERS
from webcrawl.jobs.report.host_totals import HostTotals
from webcrawl.jobs.report.timeline import Timeline
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Columns of the timeline.
ENDED, PAGES, BYTES, DUPLICATES = range(4)
#: Of a power of two in time: waits are known to 19 %.
STEPS: Final = 4
#: A document that has no Content-Type.
NO_TYPE: Final = "none sent"

_LEAST_SECS: Final = 0.001
# Lines that are decoded at once fit into a processor's cache: half the time.
_AT_ONCE: Final = 1 << 19
# Servers may send any number of types; those kept when there are too many are far more than shown.
_MOST_TYPES: Final = 20_000
_KEPT_TYPES: Final = 1_000


class _Line(msgspec.Struct, frozen=True, gc=False):
    """What the report reads of a line."""

    at: float
    url: str
    outcome: str
    status: int = 0
    took: float = 0.0
    bytes: int = 0
    duplicate: bool = False
    type: str = HTML
    depth: int = 0


_decoder = msgspec.json.Decoder(_Line)


class LogTotals:
    """Sums of all lines added.

    *pages* are URLs that gave a document (2xx), *duplicates* those of them whose bytes were seen
    under another URL, *bytes* the bodies of all answers. *types*, *sizes* (by bits of the length)
    and *depths* count pages. *waits* counts fetches by the power of two of their seconds, and by
    the seconds that their host was left alone before, in steps of a power of two.
    """

    def __init__(self) -> None:
        self.urls = self.pages = self.duplicates = self.bytes = 0
        self.outcomes: Counter[str] = Counter()
        self.types: Counter[str] = Counter()
        self.sizes: Counter[int] = Counter()
        self.depths: Counter[int] = Counter()
        self.waits: Counter[tuple[int, int]] = Counter()
        self.timeline = Timeline(columns=4)
        self.hosts = HostTotals()

    def add(self, data: bytes) -> None:
        """Add whole lines; what is none of ours is left out."""
        start = 0
        while start < len(data):
            end = data.find(b"\n", start + _AT_ONCE) + 1 or len(data)
            self._add(_decoded(data[start:end]))
            start = end

    def _add(self, lines: list[_Line]) -> None:
        pages = [line for line in lines if line.outcome.startswith("http_2")]
        self.urls += len(lines)
        self.pages += len(pages)
        self.duplicates += sum(line.duplicate for line in pages)
        self.outcomes.update([line.outcome for line in lines])
        self.types.update([line.type or NO_TYPE for line in pages])
        self.sizes.update([line.bytes.bit_length() for line in pages])
        self.depths.update([line.depth for line in pages])
        if len(self.types) > _MOST_TYPES:
            kept = Counter(dict(self.types.most_common(_KEPT_TYPES)))
            kept[OTHERS] += self.types.total() - kept.total()
            self.types = kept
        for line in lines:
            row = self.timeline.row(line.at)
            row[ENDED] += 1
            if line.status or line.took:
                self._add_fetch(line, row, is_page=line.outcome.startswith("http_2"))

    def _add_fetch(self, line: _Line, row: list[int], *, is_page: bool) -> None:
        at, took, size = line.at, line.took, line.bytes
        host = self.hosts.row(host_of(line.url))
        host.fetches += 1
        host.secs += took
        if host.ended_at:
            wait = max(at - took - host.ended_at, _LEAST_SECS)
            power = frexp(max(_LEAST_SECS, took))[1]
            self.waits[power, floor(STEPS * log2(wait))] += 1
        host.ended_at = at
        self.bytes += size
        row[BYTES] += size
        if is_page:
            row[PAGES] += 1
            row[DUPLICATES] += line.duplicate
            host.pages += 1
            host.bytes += size


def _decoded(data: bytes) -> list[_Line]:
    try:
        return _decoder.decode_lines(data)
    except msgspec.DecodeError:
        return list(_one_by_one(data))


def _one_by_one(data: bytes) -> Iterable[_Line]:
    for line in data.splitlines():
        with contextlib.suppress(msgspec.DecodeError):
            yield _decoder.decode(line)
