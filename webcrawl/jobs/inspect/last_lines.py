"""Last lines of URLs in the logs of finished URLs of a crawl, which may be running.

In passes over the logs, as many as keep the memory bounded: 30 bytes for each line of a part of the
URLs, 4 GiB of the logs a part. Of lines in the logs of several drones the latest is the last; in
one log, where a clock that was set does not matter, it is the last of the file.
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

Takes: TypeAlias = Callable[[OutcomeLine], bool]
OnProgress: TypeAlias = Callable[[int, str], None]
_PASS_BYTES = 1 << 32
_TOLD_EVERY = 10_000


class Log(NamedTuple):
    """The lines of the log in *jobdir* from *start* to *end*."""

    jobdir: Path
    start: Position
    end: Position


def logs_of(jobdir: Path, starts: Iterable[Position] = ()) -> list[Log]:
    """The logs of the crawl in *jobdir*, one of a process or those of all drones, as they are now:
    each from one of *starts*, or from its beginning. FatalError if there is no crawl."""
    each = zip(jobdirs_of(jobdir), chain(starts, repeat(BEGINNING)), strict=False)
    return [Log(one, start, end_of(one / INFO_LOG)) for one, start in each]


def digest(url: str) -> int:
    """As a fingerprint, but without the seed of a job, which need not be open."""
    return xxh3_64_intdigest(url.encode())


def last_lines(
    logs: Sequence[Log], takes: Takes, *, among: Takes = lambda _: True, on_progress: OnProgress
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    """For each part of the URLs: the numbers of the last lines, *among* those of each URL, that
    *takes* takes, ascending; and the digests of their URLs."""
    files = chain.from_iterable(log_files(one.jobdir / INFO_LOG) for one in logs)
    parts = 1 + sum(file.stat().st_size for file in files if file.exists()) // _PASS_BYTES
    for part in range(parts):
        names, numbers, times, taken = array("Q"), array("Q"), array("d"), bytearray()
        for number, line in enumerate(_lines(logs)):
            if number % _TOLD_EVERY == 0:
                on_progress(number, "lines of the log read")
            name = digest(line.url)
            if name % parts == part and among(line):
                names.append(name)
                numbers.append(number)
                times.append(line.at)
                taken.append(takes(line))
        found, places = np.frombuffer(names, np.uint64), np.frombuffer(numbers, np.uint64)
        order = np.lexsort((np.frombuffer(times) if len(logs) > 1 else places, found))
        is_last = np.append(found[order][1:] != found[order][:-1], True)[: len(order)]  # NumPy's
        last = np.sort(order[is_last])
        last = last[np.frombuffer(taken, np.bool_)[last]]
        yield places[last], found[last]


def lines_at(logs: Sequence[Log], numbers: Iterable[int]) -> Iterator[OutcomeLine]:
    """The lines with these *numbers*, ascending."""
    lines, passed = _lines(logs), 0
    for number in map(int, numbers):
        yield next(islice(lines, number - passed, None))
        passed = number + 1


def _lines(logs: Iterable[Log]) -> Iterator[OutcomeLine]:
    return chain.from_iterable(ends(one.jobdir, start=one.start, end=one.end) for one in logs)
