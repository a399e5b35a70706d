"""Sums up the log of finished URLs (crawl/lease/outcome_log.py) in one pass.

A million lines take five seconds. Memory is bounded, whatever the log contains.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from heapq import nsmallest
from typing import TYPE_CHECKING, Annotated

import msgspec

from webcrawl.configuration.decoding import (
    Epoch,
    Seconds,
    UndecodableError,
    json_decoder,
    json_lines_decoder,
)
from webcrawl.crawl.lease.outcome_log import HTML
from webcrawl.frontier import SUBRESOURCE
from webcrawl.jobs.report.figures import OTHERS
from webcrawl.net.outcomes import is_document
from webcrawl.net.walls import WALLS
from webcrawl.revisit.history import CHANGED, GONE, MOVED
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webcrawl.jobs.report.host_totals import HostTotals

_MAX_INTERVALS = 120


class Timeline:
    """Sums over time, with a number of *columns*, in at most 120 intervals.

    Times are epoch seconds and may come in any order. All intervals are *width* seconds long; the
    width is doubled when there would be too many intervals.
    """

    def __init__(self, *, columns: int) -> None:
        self.width = 1
        self._columns = columns
        self._rows: dict[int, list[int]] = {}

    def row(self, at: float) -> list[int]:
        """Return the sums of the interval that contains the time *at*, by column.

        The caller adds to them, before the next call.
        """
        key = int(at) // self.width
        if key not in self._rows:
            self._rows[key] = [0] * self._columns
            while max(self._rows) - min(self._rows) >= _MAX_INTERVALS:
                self._widen()
            key = int(at) // self.width
        return self._rows[key]

    def _widen(self) -> None:
        """Double the width of the intervals by joining them in pairs."""
        self.width *= 2
        old, self._rows = self._rows, {}
        for key, sums in old.items():
            row = self._rows.setdefault(key // 2, [0] * self._columns)
            row[:] = map(sum, zip(row, sums, strict=True))

    @property
    def edges(self) -> list[int]:
        """Starts of the intervals and the end of the last one, in epoch seconds."""
        if not self._rows:
            return []
        return [key * self.width for key in range(min(self._rows), max(self._rows) + 2)]

    def sums(self, column: int) -> list[int]:
        """Return the sum of *column* in each interval, 0 where nothing was added."""
        rows = self._rows
        return [
            rows[start // self.width][column] if start // self.width in rows else 0
            for start in self.edges[:-1]
        ]


#: Columns of the timeline.
PAGES, BYTES, DUPLICATES, CHANGES, DECODED, HTMLS, TEXTS, IMAGES, OTHER_TYPES = range(9)
#: Outcomes of dead links.
DEAD = frozenset({"http_404", "http_410", "dns_not_found"})
#: Name of the content type of documents without Content-Type.
NO_TYPE = "none sent"

#: Period for which present rates are computed, in seconds.
MINUTE = 60

# Number of bytes decoded together: so many fit into a processor's cache, which halves the time.
_CHUNK_BYTES = 1 << 19
# When there are more than _MAX_TYPES content types, or pages with dead links, only the _KEPT_TYPES
# most frequent are kept. That is still far more than the report shows.
_MAX_TYPES = 20_000
_KEPT_TYPES = 1_000
# When there are more times at which documents were seen, one document in sixteen is kept.
_MAX_SEEN = 100_000


class _Line(msgspec.Struct, frozen=True, gc=False):
    """The fields of a line of the log that the report needs."""

    at: Epoch
    url: str
    outcome: str
    form: str = ""
    status: int = 0
    took: Seconds = 0.0
    bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0
    decoded: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0
    duplicate: bool = False
    type: str = HTML
    depth: int = 0
    via: str = ""
    kind: str = ""
    visit: str = ""
    stored: Seconds = 0.0
    flags: str = ""


_decode = json_decoder(_Line)
_decode_lines = json_lines_decoder(_Line)


class LogTotals:
    """Totals of all lines that were added; the totals by host are in *hosts*.

    pages: number of URLs that gave a document (2xx).
    duplicates: number of pages whose bytes had already been seen under another URL.
    bytes: size of the bodies of all answers, as received.
    outcomes: number of URLs by outcome.
    visits: visits of URLs that were finished before, by result. They also count in bytes and
        fetches, but not elsewhere.
    types: number of pages by content type.
    sizes: number of pages by the number of bits of their decoded length.
    depths: number of pages by depth.
    dead_links: by page, the number of dead links first found on it, the last one, and its outcome.
    timeline: sums over time.
    examples: the last URL of each outcome.
    last_minute: numbers of pages and visits in each second, for the last minute of the log.
    seen_at: times at which documents were fetched or found to be unchanged, in epoch seconds, by
        the form of their URL; for all documents that still exist, or a random part of them.
    denied: pages fetched earlier that robots.txt denied at their last visit, at most 20,000, by the
        form of their URL.
    """

    def __init__(self, *, hosts: HostTotals) -> None:
        self.pages = self.duplicates = self.bytes = 0
        self.outcomes: Counter[str] = Counter()
        self.visits: Counter[str] = Counter()
        self.types: Counter[str] = Counter()
        self.sizes: Counter[int] = Counter()
        self.depths: Counter[int] = Counter()
        # By page: (number of dead links, the last of them, its outcome).
        self.dead_links: dict[str, tuple[int, str, str]] = {}
        self.timeline = Timeline(columns=OTHER_TYPES + 1)
        self.examples: dict[str, str] = {}
        # By second: [pages, visits].
        self.last_minute: dict[int, list[int]] = {}
        self.seen_at: dict[str, list[float]] = {}
        self.denied: dict[str, str] = {}
        # ``seen_at`` keeps only URLs whose form, a hexadecimal hash, ends with this suffix.
        self._sampled_suffix = ""
        # The number of times in ``seen_at``.
        self._seen_count = 0
        self._hosts = hosts

    def add(self, data: bytes) -> None:
        """Add the complete lines in *data*, skipping unreadable ones. Raises sqlite3.Error."""
        start = 0
        while start < len(data):
            end = data.find(b"\n", start + _CHUNK_BYTES) + 1 or len(data)
            self._add(_decode_chunk(data[start:end]))
            start = end

    def _add(self, lines: list[_Line]) -> None:
        """Add *lines*, most of them with one call per total, which is faster than line by line."""
        lines = [line for line in lines if line.kind != SUBRESOURCE]
        self.visits.update([line.visit for line in lines if line.visit])
        first_results = [line for line in lines if not line.visit]
        pages = [line for line in first_results if is_document(line.outcome)]
        self.pages += len(pages)
        self.duplicates += sum(line.duplicate for line in pages)
        self.bytes += sum(line.bytes for line in lines)
        self.outcomes.update([line.outcome for line in first_results])
        self.examples.update({line.outcome: line.url for line in first_results})
        self.types.update([line.type or NO_TYPE for line in pages])
        self.sizes.update([(line.decoded or line.bytes).bit_length() for line in pages])
        self.depths.update([line.depth for line in pages])
        if len(self.types) > _MAX_TYPES:
            kept = Counter(dict(self.types.most_common(_KEPT_TYPES)))
            kept[OTHERS] += self.types.total() - kept.total()
            self.types = kept

        for line in first_results:
            if line.via and line.outcome in DEAD:
                count = self.dead_links.get(line.via, (0,))[0]
                self.dead_links[line.via] = (count + 1, line.url, line.outcome)
        if len(self.dead_links) > _MAX_TYPES:
            self.dead_links = dict(self.most_dead_links(_KEPT_TYPES))

        # Pages, bytes, fetches, seconds and walls by host.
        hosts: dict[str, list[float]] = {}
        for line in lines:
            row = self.timeline.row(line.at)
            is_page = is_document(line.outcome) and not line.visit
            row[PAGES] += is_page
            second_counts = self.last_minute.setdefault(int(line.at), [0, 0])
            second_counts[0] += is_page
            second_counts[1] += bool(line.visit)
            row[BYTES] += line.bytes
            row[DUPLICATES] += is_page and line.duplicate
            row[CHANGES] += line.visit == CHANGED
            if is_page:
                row[DECODED] += line.decoded or line.bytes
                row[_column_of(line.type)] += 1
            self._note_seen(line)

            is_fetch = bool(line.status or line.took)
            is_wall = bool(line.flags) or line.outcome in WALLS
            # A URL may also be given up without a fetch, because of walls that other URLs met.
            if is_fetch or is_wall:
                host = hosts.setdefault(host_of(line.url), [0, 0, 0, 0.0, 0])
                host[0] += is_page
                host[1] += line.bytes * is_page
                host[2] += is_fetch
                host[3] += line.took
                host[4] += is_wall
        self._hosts.add(hosts)
        newest = max(self.last_minute, default=0)
        self.last_minute = {
            second: counts
            for second, counts in self.last_minute.items()
            if second > newest - MINUTE
        }

    def _note_seen(self, line: _Line) -> None:
        """Update ``denied`` and ``seen_at`` with *line*."""
        if line.outcome == "robots_denied" and line.stored and len(self.denied) < _MAX_TYPES:
            self.denied[line.form] = line.url
        elif self.denied:
            self.denied.pop(line.form, None)

        if not line.form.endswith(self._sampled_suffix):
            return
        if line.visit in (MOVED, GONE):
            self._seen_count -= len(self.seen_at.pop(line.form, ()))
        elif is_document(line.outcome) or line.outcome == "http_304":
            self.seen_at.setdefault(line.form, []).append(line.at)
            self._seen_count += 1
            if self._seen_count > _MAX_SEEN:
                # Forms are hexadecimal, so one in sixteen of the kept ones ends with this.
                self._sampled_suffix += "0"
                self.seen_at = {
                    form: times
                    for form, times in self.seen_at.items()
                    if form.endswith(self._sampled_suffix)
                }
                self._seen_count = sum(map(len, self.seen_at.values()))

    def most_dead_links(self, limit: int) -> list[tuple[str, tuple[int, str, str]]]:
        """Return the *limit* pages with the most dead links, as items of ``dead_links``."""
        return nsmallest(limit, self.dead_links.items(), key=lambda item: (-item[1][0], item[0]))


def _column_of(content_type: str) -> int:
    """Return the column of the timeline that counts documents of *content_type*."""
    if content_type in (HTML, "application/xhtml+xml"):
        return HTMLS
    return {"text": TEXTS, "image": IMAGES}.get(content_type.partition("/")[0], OTHER_TYPES)


def _decode_chunk(data: bytes) -> list[_Line]:
    """Decode the lines of *data*, skipping those that cannot be decoded."""
    try:
        return _decode_lines(data)
    except UndecodableError:
        return list(_decode_one_by_one(data))


def _decode_one_by_one(data: bytes) -> Iterable[_Line]:
    """Decode the lines of *data*, skipping those that cannot be decoded."""
    for line in data.splitlines():
        with contextlib.suppress(UndecodableError):
            yield _decode(line)
