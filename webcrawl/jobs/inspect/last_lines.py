"""Finds the last line of each URL in the logs of finished URLs; the crawl may be running.

The logs are read in several passes, one for each 4 GiB of logs, so that memory stays bounded. Each
pass handles a part of the URLs and takes 30 bytes of memory for each of their lines. In the logs of
several drones, the last line of a URL is the one with the latest time. In a single log it is the
one nearest to the end, so that setting the clock does not matter.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from xxhash import xxh3_64_intdigest

from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLine
from webcrawl.frontier import SUBRESOURCE
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.jobs.inspect.info_log import BEGINNING, Position, end_of, log_files, outcome_lines

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

LineFilter: TypeAlias = Callable[[OutcomeLine], bool]
OnProgress: TypeAlias = Callable[[int, str], None]
_PASS_BYTES = 1 << 32
_PROGRESS_LINES = 10_000


class Log(NamedTuple):
    """Section, from *start* to *end*, of the log of finished URLs in *jobdir*."""

    jobdir: Path
    start: Position
    end: Position


def logs_of(jobdir: Path, starts: Iterable[Position] = ()) -> list[Log]:
    """Return the logs of the crawl in *jobdir* up to their present end; in a hive, of all drones.

    Each log starts at the respective one of *starts*, or at its beginning if there is none. Raises
    FatalError if there is no crawl.
    """
    jobdirs_and_starts = zip(jobdirs_of(jobdir), chain(starts, repeat(BEGINNING)), strict=False)
    return [Log(path, start, end_of(path / INFO_LOG)) for path, start in jobdirs_and_starts]


def digest(url: str) -> int:
    """Return a 64-bit fingerprint of *url* that is the same in all jobs."""
    return xxh3_64_intdigest(url.encode())


def last_lines(
    logs: Sequence[Log],
    line_filter: LineFilter,
    *,
    among: LineFilter = lambda _: True,
    on_progress: OnProgress,
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    """Yield the line numbers and the URL digests of the last lines of all URLs, part by part.

    Lines that *among* rejects are ignored. Of the last lines, only those that *line_filter* accepts
    are yielded, in ascending order of the line numbers, which count through all of *logs*.
    *on_progress* is called with the number of lines read and a text.
    """
    files = chain.from_iterable(log_files(log.jobdir / INFO_LOG) for log in logs)
    parts = 1 + sum(file.stat().st_size for file in files if file.exists()) // _PASS_BYTES
    for part in range(parts):
        url_digests = array("Q")
        line_numbers = array("Q")
        times = array("d")
        is_selected = bytearray()
        for line_number, line in enumerate(_lines(logs)):
            if line_number % _PROGRESS_LINES == 0:
                on_progress(line_number, "lines of the log read")
            url_digest = digest(line.url)
            if url_digest % parts == part and among(line):
                url_digests.append(url_digest)
                line_numbers.append(line_number)
                times.append(line.at)
                is_selected.append(line_filter(line))

        # Sort the lines by URL, and those of a URL by time; its last line precedes another URL. In
        # a single log, the line numbers are in the order of time.
        digests = np.frombuffer(url_digests, np.uint64)
        numbers = np.frombuffer(line_numbers, np.uint64)
        order = np.lexsort((np.frombuffer(times) if len(logs) > 1 else numbers, digests))
        # The slice is for a part without lines, in which there is no last one.
        is_last = np.append(digests[order][1:] != digests[order][:-1], True)[: len(order)]
        last = np.sort(order[is_last])
        last = last[np.frombuffer(is_selected, np.bool_)[last]]
        yield numbers[last], digests[last]


def lines_at(logs: Sequence[Log], numbers: Iterable[int]) -> Iterator[OutcomeLine]:
    """Yield the lines of *logs* with the line numbers *numbers*, which must be ascending."""
    lines = _lines(logs)
    next_number = 0
    for number in map(int, numbers):
        # Skip the lines in between.
        yield next(islice(lines, number - next_number, None))
        next_number = number + 1


def _lines(logs: Iterable[Log]) -> Iterator[OutcomeLine]:
    """Yield all lines of *logs* about URLs of the crawl, one log after the other."""
    lines = chain.from_iterable(
        outcome_lines(log.jobdir, start=log.start, end=log.end) for log in logs
    )
    return (line for line in lines if line.kind != SUBRESOURCE)
