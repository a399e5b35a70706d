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


class LogTotals:
    """Totals of all lines that were added; those by host, content type and seed are in *file*.

    counts: what the shards count, as far as the log has it, by the names of the stats. A URL counts
        again if a crash has hidden its end.
    answers: number of URLs by status, 0 without an answer, and outcome.
    examples: the last URL of each outcome.
    span: when the first request for a URL was sent, and when the last URL was finished; [] if none.
    """

    def __init__(self, *, file: TotalsFile) -> None:
        self.counts: Counter[str] = Counter()
        self.answers: Counter[tuple[int, str]] = Counter()
        self.examples: dict[str, str] = {}
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
        self.counts["content/duplicates"] += sum(line.duplicate for line in pages)
        self.counts["fetch/bytes"] += sum(line.bytes for line in lines)
        self.counts.update([f"outcome/{line.outcome}" for line in first_results])
        self.answers.update([(line.status, line.outcome) for line in first_results])
        self.examples.update({line.outcome: line.url for line in first_results})
        self._file.add(lines)
        times = [
            *self.span,
            *(line.sent or line.at for line in lines),
            *(line.at for line in lines),
        ]
        self.span = [min(times), max(times)] if times else []
