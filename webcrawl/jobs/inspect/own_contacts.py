"""A job's contacts with hosts, as its log of finished URLs has them, for the audit of politeness.

They are those of the last try of each URL. Times are by the clock of the crawler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.crawl.lease.outcome_log import INFO_LOG
from webcrawl.jobs.audit.log_line import MICRO, LoggedRequest
from webcrawl.jobs.inspect.info_log import ends
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from webcrawl.jobs.audit.access_logs import LineCounts

# What the log has of a duration is rounded by as much at most.
_ROUNDED: Final = MICRO // 2000
# Of a URL to be shown: many contacts are held at once.
_URL_CHARS: Final = 300
_PROGRESS_LINES: Final = 1 << 16


def own_contacts(
    jobdir: Path, *, counts: LineCounts, on_progress: Callable[[int], object]
) -> Iterator[LoggedRequest]:
    """The contacts of the job in *jobdir* in the order of its log; *counts* goes on. Lines of an
    older webcrawl, which do not say when the request was sent, count as unreadable."""
    name = str(jobdir / INFO_LOG)
    for number, line in enumerate(ends(jobdir), start=1):
        counts.lines += 1
        if not counts.lines % _PROGRESS_LINES:
            on_progress(counts.lines)
        if line.sent:
            start = round(line.sent * MICRO)
            took = max(round(line.took * MICRO) - _ROUNDED, 0)
            yield LoggedRequest(
                start=start,
                end=start + took,
                blur=0,
                host=host_of(line.url),
                address="",
                url=line.url[:_URL_CHARS],
                robots_moved=False,
                agent="",
                log=name,
                line=number,
            )
        elif line.took:
            counts.unreadable += 1
            counts.first_unreadable = counts.first_unreadable or f"{name}, line {number}"
