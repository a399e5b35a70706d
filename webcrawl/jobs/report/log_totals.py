"""Sums up the log of finished URLs (crawl/lease/outcome_log.py) in one pass.

A million lines take five seconds. Memory is bounded for every log.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from webcrawl.frontier import SUBRESOURCE
from webcrawl.jobs.inspect.info_log import decode_lines
from webcrawl.net.outcomes import is_document

if TYPE_CHECKING:
    from webcrawl.crawl.lease.outcome_log import OutcomeLine
    from webcrawl.jobs.report.totals_file import TotalsFile

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

        The caller adds to them before the next call, which may replace them.
        """
        key = int(at) // self.width
        if key not in self._rows:
            self._rows[key] = [0] * self._columns
            while max(self._rows) - min(self._rows) >= _MAX_INTERVALS:
                self._widen()
            key = int(at) // self.width  # again, as the width may have changed
        return self._rows[key]

    def _widen(self) -> None:
        """Double the width of the intervals by joining them in pairs."""
        self.width *= 2
        old = self._rows
        self._rows = {}
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
PAGES, BYTES = range(2)
#: Period for which present rates are computed, in seconds.
MINUTE = 60


class LogTotals:
    """Totals of all lines that were added; those by host, content type and seed are in *file*.

    pages, decoded: number of URLs that gave a document (2xx), and of the decoded bytes of these.
    counts: what the shards count, as far as the log has it, by the names of the stats. A URL counts
        again if a crash has hidden its end.
    answers: number of URLs by status, 0 without an answer, and outcome.
    sizes: number of pages by the number of bits of their decoded length.
    depths: number of pages by depth.
    timeline: sums over time.
    examples: the last URL of each outcome.
    last_minute: numbers of pages and visits in each second, for the last minute of the log.
    span: when the first request for a URL was sent, and when the last URL was finished; [] if none.
    """

    def __init__(self, *, file: TotalsFile) -> None:
        self.pages = 0
        self.decoded = 0
        self.counts: Counter[str] = Counter()
        self.answers: Counter[tuple[int, str]] = Counter()
        self.sizes: Counter[int] = Counter()
        self.depths: Counter[int] = Counter()
        self.timeline = Timeline(columns=BYTES + 1)
        self.examples: dict[str, str] = {}
        # By second: [pages, visits].
        self.last_minute: dict[int, list[int]] = {}
        self.span: list[float] = []
        self._file = file

    def add(self, data: bytes) -> None:
        """Add the complete lines in *data*, skipping unreadable ones. Raises sqlite3.Error."""
        for lines in decode_lines(data):
            self._add(lines)

    def _add(self, lines: list[OutcomeLine]) -> None:
        """Add *lines*, most of them with one call per total, which is faster than line by line."""
        lines = [line for line in lines if line.kind != SUBRESOURCE]
        # A line of a repeat visit has *visit*. Its result does not count as an outcome.
        self.counts.update([f"visits/{line.visit}" for line in lines if line.visit])
        first_results = [line for line in lines if not line.visit]
        pages = [line for line in first_results if is_document(line.outcome)]
        self.pages += len(pages)
        self.decoded += sum(line.decoded or line.bytes for line in pages)
        self.counts["content/duplicates"] += sum(line.duplicate for line in pages)
        self.counts["fetch/bytes"] += sum(line.bytes for line in lines)
        self.counts.update([f"outcome/{line.outcome}" for line in first_results])
        self.answers.update([(line.status, line.outcome) for line in first_results])
        self.examples.update({line.outcome: line.url for line in first_results})
        self.sizes.update([(line.decoded or line.bytes).bit_length() for line in pages])
        self.depths.update([line.depth for line in pages])
        self._file.add(lines)
        times = [
            *self.span,
            *(line.sent or line.at for line in lines),
            *(line.at for line in lines),
        ]
        self.span = [min(times), max(times)] if times else []
        for line in lines:
            row = self.timeline.row(line.at)
            is_page = is_document(line.outcome) and not line.visit
            row[PAGES] += is_page
            second_counts = self.last_minute.setdefault(int(line.at), [0, 0])
            second_counts[0] += is_page
            second_counts[1] += bool(line.visit)
            row[BYTES] += line.bytes
        # Forget the seconds before the last minute.
        newest = max(self.last_minute, default=0)
        self.last_minute = {
            second: counts
            for second, counts in self.last_minute.items()
            if second > newest - MINUTE
        }
