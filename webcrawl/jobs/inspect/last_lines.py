"""Last line of each URL in the logs of finished URLs; the crawl may be running.

The logs are read in several passes, so that memory stays bounded. Each pass handles a part of the
URLs: one part per 4 GiB of logs, with 30 bytes for each of its lines. With the logs of several
drones, the last line is the latest; in a single log it is the last of the file, so that setting the
clock does not matter.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from xxhash import xxh3_64_intdigest

from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLine
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.jobs.inspect.info_log import BEGINNING, Position, end_of, ends, log_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

LineFilter: TypeAlias = Callable[[OutcomeLine], bool]
OnProgress: TypeAlias = Callable[[int, str], None]
_PASS_BYTES = 1 << 32
_TOLD_EVERY = 10_000


class Log(NamedTuple):
    """Section of the log in *jobdir*, from *start* to *end*."""

    jobdir: Path
    start: Position
    end: Position


def logs_of(jobdir: Path, starts: Iterable[Position] = ()) -> list[Log]:
    """Return the logs of the crawl in *jobdir* up to their present end, in a hive of all drones.

    Each begins at one of *starts*, or at its beginning. Raises FatalError if there is no crawl.
    """
    each = zip(jobdirs_of(jobdir), chain(starts, repeat(BEGINNING)), strict=False)
    return [Log(one, start, end_of(one / INFO_LOG)) for one, start in each]


def digest(url: str) -> int:
    """Return a fingerprint of *url* that does not depend on the seed of a job."""
    return xxh3_64_intdigest(url.encode())


def last_lines(
    logs: Sequence[Log],
    selects: LineFilter,
    *,
    among: LineFilter = lambda _: True,
    on_progress: OnProgress,
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    """Yield, for each part of the URLs, the numbers of their last lines and the URLs' digests.

    Only lines that *among* accepts count, and of the last lines only those that *selects* accepts.
    The numbers are ascending.
    """
    files = chain.from_iterable(log_files(one.jobdir / INFO_LOG) for one in logs)
    parts = 1 + sum(file.stat().st_size for file in files if file.exists()) // _PASS_BYTES
    for part in range(parts):
        names, numbers, times, selected = array("Q"), array("Q"), array("d"), bytearray()
        for number, line in enumerate(_lines(logs)):
            if number % _TOLD_EVERY == 0:
                on_progress(number, "lines of the log read")
            name = digest(line.url)
            if name % parts == part and among(line):
                names.append(name)
                numbers.append(number)
                times.append(line.at)
                selected.append(selects(line))
        found, places = np.frombuffer(names, np.uint64), np.frombuffer(numbers, np.uint64)
        order = np.lexsort((np.frombuffer(times) if len(logs) > 1 else places, found))
        is_last = np.append(found[order][1:] != found[order][:-1], True)[: len(order)]  # NumPy's
        last = np.sort(order[is_last])
        last = last[np.frombuffer(selected, np.bool_)[last]]
        yield places[last], found[last]


def lines_at(logs: Sequence[Log], numbers: Iterable[int]) -> Iterator[OutcomeLine]:
    """Yield the lines with these ascending *numbers*."""
    lines, passed = _lines(logs), 0
    for number in map(int, numbers):
        yield next(islice(lines, number - passed, None))
        passed = number + 1


def _lines(logs: Iterable[Log]) -> Iterator[OutcomeLine]:
    return chain.from_iterable(ends(one.jobdir, start=one.start, end=one.end) for one in logs)
