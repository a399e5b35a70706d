"""Totals of the log of finished URLs (crawl/lease/outcome_log.py), in one pass.

A million lines take five seconds. Memory is bounded, for any content of the log.
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
from webcrawl.jobs.report.figures import OTHERS
from webcrawl.net.outcomes import is_document
from webcrawl.net.walls import WALLS
from webcrawl.revisit.history import CHANGED, GONE, MOVED
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webcrawl.jobs.report.host_totals import HostTotals

_MOST = 120


class Timeline:
    """Sums in *columns* over time, in at most 120 intervals.

    Times are epoch seconds in any order. Intervals are *width* seconds long, which is doubled when
    necessary.
    """

    def __init__(self, *, columns: int) -> None:
        self.width = 1
        self._columns = columns
        self._rows: dict[int, list[int]] = {}

    def row(self, at: float) -> list[int]:
        """Return the sums of the interval around *at*, to be changed before the next call."""
        key = int(at) // self.width
        if key not in self._rows:
            self._rows[key] = [0] * self._columns
            while max(self._rows) - min(self._rows) >= _MOST:
                self._widen()
            key = int(at) // self.width
        return self._rows[key]

    def _widen(self) -> None:
        self.width *= 2
        old, self._rows = self._rows, {}
        for key, sums in old.items():
            row = self._rows.setdefault(key // 2, [0] * self._columns)
            row[:] = map(sum, zip(row, sums, strict=True))

    @property
    def edges(self) -> list[int]:
        """Starts of the intervals in epoch seconds, and the end of the last one; or []."""
        if not self._rows:
            return []
        return [key * self.width for key in range(min(self._rows), max(self._rows) + 2)]

    def sums(self, column: int) -> list[int]:
        """Return the sums of *column* in all intervals, 0 where nothing was added."""
        rows = self._rows
        return [
            rows[at // self.width][column] if at // self.width in rows else 0
            for at in self.edges[:-1]
        ]


#: Columns of the timeline.
PAGES, BYTES, DUPLICATES, CHANGES, DECODED, HTMLS, TEXTS, IMAGES, OTHER_TYPES = range(9)
#: Outcomes of dead links.
DEAD = frozenset({"http_404", "http_410", "dns_not_found"})
#: Shown for a document without Content-Type.
NO_TYPE = "none sent"

#: Period of present rates, in seconds.
MINUTE = 60

# Bytes of lines decoded together: they fit into a processor's cache, which halves the time.
_AT_ONCE = 1 << 19
# Limit of content types, and of pages with dead links. If it is reached, far more are kept than are
# shown.
_MAX_TYPES = 20_000
_KEPT_TYPES = 1_000
# Limit of times at which documents were seen; after that only one document in sixteen is kept.
_MAX_SEEN = 100_000


class _Line(msgspec.Struct, frozen=True, gc=False):
    """Fields of a log line that the report reads."""

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
    visit: str = ""
    stored: Seconds = 0.0
    flags: str = ""


_decode = json_decoder(_Line)
_decode_lines = json_lines_decoder(_Line)


class LogTotals:
    """Totals of all added lines; the totals by host are in *hosts*.

    pages: URLs that gave a document (2xx).
    duplicates: those of them whose bytes were seen under another URL.
    bytes: bodies of all answers as received.
    types, sizes, depths: pages by content type, bits of the decoded length, and depth.
    dead: by page, the number of dead links first found on it, and the last one with its outcome.
    examples: the last URL of each outcome.
    visits: visits of URLs that were finished before, by result. They also count in bytes and
        fetches, but not elsewhere.
    recent: pages and visits per second, in the last minute of all lines.
    seen: by URL, epoch seconds at which its document was fetched or found to be unchanged. Of all
        documents that still exist, or of a random part of them.
    denied: pages fetched before that robots.txt denied at their last visit, at most 20,000, by the
        form of their URL.
    """

    def __init__(self, *, hosts: HostTotals) -> None:
        self.pages = self.duplicates = self.bytes = 0
        self.outcomes: Counter[str] = Counter()
        self.visits: Counter[str] = Counter()
        self.types: Counter[str] = Counter()
        self.sizes: Counter[int] = Counter()
        self.depths: Counter[int] = Counter()
        self.dead: dict[str, tuple[int, str, str]] = {}
        self.timeline = Timeline(columns=OTHER_TYPES + 1)
        self.examples: dict[str, str] = {}
        self.recent: dict[int, list[int]] = {}
        self.seen: dict[str, list[float]] = {}
        self.denied: dict[str, str] = {}
        self._part = ""  # only URLs whose form ends like this are counted in seen
        self._times = 0
        self._hosts = hosts

    def add(self, data: bytes) -> None:
        """Add complete lines; unreadable ones are skipped. Raises sqlite3.Error."""
        start = 0
        while start < len(data):
            end = data.find(b"\n", start + _AT_ONCE) + 1 or len(data)
            self._add(_decoded(data[start:end]))
            start = end

    def _add(self, lines: list[_Line]) -> None:
        self.visits.update([line.visit for line in lines if line.visit])
        ends = [line for line in lines if not line.visit]
        pages = [line for line in ends if is_document(line.outcome)]
        self.pages += len(pages)
        self.duplicates += sum(line.duplicate for line in pages)
        self.bytes += sum(line.bytes for line in lines)
        self.outcomes.update([line.outcome for line in ends])
        self.examples.update({line.outcome: line.url for line in ends})
        self.types.update([line.type or NO_TYPE for line in pages])
        self.sizes.update([(line.decoded or line.bytes).bit_length() for line in pages])
        self.depths.update([line.depth for line in pages])
        if len(self.types) > _MAX_TYPES:
            kept = Counter(dict(self.types.most_common(_KEPT_TYPES)))
            kept[OTHERS] += self.types.total() - kept.total()
            self.types = kept
        for line in ends:
            if line.via and line.outcome in DEAD:
                count = self.dead.get(line.via, (0,))[0]
                self.dead[line.via] = (count + 1, line.url, line.outcome)
        if len(self.dead) > _MAX_TYPES:
            self.dead = dict(self.worst(_KEPT_TYPES))
        hosts: dict[str, list[float]] = {}
        for line in lines:
            row = self.timeline.row(line.at)
            is_page = is_document(line.outcome) and not line.visit
            row[PAGES] += is_page
            lately = self.recent.setdefault(int(line.at), [0, 0])
            lately[0] += is_page
            lately[1] += bool(line.visit)
            row[BYTES] += line.bytes
            row[DUPLICATES] += is_page and line.duplicate
            row[CHANGES] += line.visit == CHANGED
            if is_page:
                row[DECODED] += line.decoded or line.bytes
                row[_column_of(line.type)] += 1
            self._see(line)
            is_fetch = bool(line.status or line.took)
            is_wall = bool(line.flags) or line.outcome in WALLS
            if is_fetch or is_wall:  # a URL may be given up for walls met by other URLs
                host = hosts.setdefault(host_of(line.url), [0, 0, 0, 0.0, 0])
                host[0] += is_page
                host[1] += line.bytes * is_page
                host[2] += is_fetch
                host[3] += line.took
                host[4] += is_wall
        self._hosts.add(hosts)
        newest = max(self.recent, default=0)
        self.recent = {at: one for at, one in self.recent.items() if at > newest - MINUTE}

    def _see(self, line: _Line) -> None:
        if line.outcome == "robots_denied" and line.stored and len(self.denied) < _MAX_TYPES:
            self.denied[line.form] = line.url
        elif self.denied:
            self.denied.pop(line.form, None)
        if not line.form.endswith(self._part):
            return
        if line.visit in (MOVED, GONE):
            self._times -= len(self.seen.pop(line.form, ()))
        elif is_document(line.outcome) or line.outcome == "http_304":
            self.seen.setdefault(line.form, []).append(line.at)
            self._times += 1
            if self._times > _MAX_SEEN:
                self._part += "0"
                self.seen = {one: at for one, at in self.seen.items() if one.endswith(self._part)}
                self._times = sum(map(len, self.seen.values()))

    def worst(self, limit: int) -> list[tuple[str, tuple[int, str, str]]]:
        """Return the pages with the most dead links."""
        return nsmallest(limit, self.dead.items(), key=lambda one: (-one[1][0], one[0]))


def _column_of(kind: str) -> int:
    if kind in (HTML, "application/xhtml+xml"):
        return HTMLS
    return {"text": TEXTS, "image": IMAGES}.get(kind.partition("/")[0], OTHER_TYPES)


def _decoded(data: bytes) -> list[_Line]:
    try:
        return _decode_lines(data)
    except UndecodableError:
        return list(_one_by_one(data))


def _one_by_one(data: bytes) -> Iterable[_Line]:
    for line in data.splitlines():
        with contextlib.suppress(UndecodableError):
            yield _decode(line)
