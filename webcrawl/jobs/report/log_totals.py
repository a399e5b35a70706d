"""Log totals: what the lines of finished URLs (crawl/lease/outcome_log.py) amount to, in one pass.

Five seconds a million lines. Memory is bounded, whatever the log has.
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
    """Sums in *columns*, by epoch seconds in any order, in at most 120 intervals.

    They are *width* seconds long, which doubles as often as it must.
    """

    def __init__(self, *, columns: int) -> None:
        self.width = 1
        self._columns = columns
        self._rows: dict[int, list[int]] = {}

    def row(self, at: float) -> list[int]:
        """The sums of the interval around *at*, to be added to before the next call."""
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
        """Where intervals begin, in epoch seconds, and where the last one ends; [] without any."""
        if not self._rows:
            return []
        return [key * self.width for key in range(min(self._rows), max(self._rows) + 2)]

    def sums(self, column: int) -> list[int]:
        """Those of *column* in all intervals, 0 where nothing was added."""
        rows = self._rows
        return [
            rows[at // self.width][column] if at // self.width in rows else 0
            for at in self.edges[:-1]
        ]


#: Columns of the timeline.
PAGES, BYTES, DUPLICATES, CHANGES, DECODED, HTMLS, TEXTS, IMAGES, OTHER_TYPES = range(9)
#: Outcomes of dead links.
DEAD = frozenset({"http_404", "http_410", "dns_not_found"})
#: A document that has no Content-Type.
NO_TYPE = "none sent"

#: Of present rates, in seconds.
MINUTE = 60

# Lines that are decoded at once fit into a processor's cache: half the time.
_AT_ONCE = 1 << 19
# Servers may send any number of types, and as many pages have dead links; those kept when there are
# too many are far more than shown.
_MOST_TYPES = 20_000
_KEPT_TYPES = 1_000
# Times at which documents were seen; beyond, one document in sixteen is kept.
_MOST_SEEN = 100_000


class _Line(msgspec.Struct, frozen=True, gc=False):
    """Fields of a line that the report reads."""

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
    """Sums of all lines added, and those of hosts in *hosts*.

    *pages* are URLs that gave a document (2xx), *duplicates* those of them whose bytes were seen
    under another URL, *bytes* the bodies of all answers as received. *types*, *sizes* (by bits of
    the decoded length) and *depths* count pages. *dead* are by page the number of dead links that
    were first found on it, and the last of them with its outcome. *examples* are the last URLs by
    outcome. *visits* are those of URLs that
    were finished before, by what they found: of all else they only count as bytes and fetches.
    *recent* are pages and visits by the second, of the last minute of all lines.
    *seen* are by URL the epoch seconds at which its document was fetched, or found to be unchanged:
    of all documents that are still there, or of a part drawn at random. *denied* are pages fetched
    before that robots.txt denied at their last visit, at most 20,000, by the form of their URL.
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
        self._part = ""  # how the form of those ends that are counted
        self._times = 0
        self._hosts = hosts

    def add(self, data: bytes) -> None:
        """Add whole lines; what is none of ours is left out. sqlite3.Error."""
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
        if len(self.types) > _MOST_TYPES:
            kept = Counter(dict(self.types.most_common(_KEPT_TYPES)))
            kept[OTHERS] += self.types.total() - kept.total()
            self.types = kept
        for line in ends:
            if line.via and line.outcome in DEAD:
                count = self.dead.get(line.via, (0,))[0]
                self.dead[line.via] = (count + 1, line.url, line.outcome)
        if len(self.dead) > _MOST_TYPES:
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
            if is_fetch or is_wall:  # given up for walls that others have met
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
        if line.outcome == "robots_denied" and line.stored and len(self.denied) < _MOST_TYPES:
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
            if self._times > _MOST_SEEN:
                self._part += "0"
                self.seen = {one: at for one, at in self.seen.items() if one.endswith(self._part)}
                self._times = sum(map(len, self.seen.values()))

    def worst(self, most: int) -> list[tuple[str, tuple[int, str, str]]]:
        """The pages with the most dead links."""
        return nsmallest(most, self.dead.items(), key=lambda one: (-one[1][0], one[0]))


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
