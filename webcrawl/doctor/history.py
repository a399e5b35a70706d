"""History of a process of a crawl: numbers over time, in a file of bounded size.

``JOBDIR/history`` has a row for each ten seconds of the last hour, each minute of the last 25
hours, each hour of the last month and each day of the last ten years: 1.3 MB. A row has the epoch
second at which its interval begins, the number of seconds for which there are samples, and for each
of ``COLUMNS`` the count in them, or the sum of a gauge times its seconds; all as little-endian
float64. The place of a row follows from its time, so newer rows replace older ones. A sample
changes one row of each kind in place; a crash loses the samples of a few seconds at most.
"""

from __future__ import annotations

import math
import os
import struct
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from webcrawl.crawl.figures.counts import Counts, with_prefix
from webcrawl.crawl.lease.outcome_log import is_given_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from webcrawl.doctor.record import Record

NAME = "history"
#: Kinds of failures that need attention.
FAULTS = ("name servers", "connections", "server errors", "refused")
#: Kinds of URLs without a page, of which the others are normal.
KINDS = (*FAULTS, "not found", "robots.txt and rules")
#: Numbers that were added since the sample before.
COUNTS = ("pages", "redirects", "4xx", "visits", "changed", "bytes", *KINDS, "starts")
#: Numbers at the moment of a sample.
GAUGES = (
    *("waiting", "parked", "due", "fresh", "workers busy", "hosts ready", "hosts paused"),
    *("memory", "lag", "free disk"),
)
COLUMNS = (*COUNTS, *GAUGES)
#: Number of seconds of an interval in which the crawl was running.
SECONDS = "seconds"
TEN_SECS, MINUTE, HOUR, DAY = 10, 60, 3600, 86_400
#: Number of rows for each length of an interval.
ROWS = {TEN_SECS: 360, MINUTE: 1500, HOUR: 744, DAY: 3660}
_ROW = struct.Struct(f"<{2 + len(COLUMNS)}d")
_MAGIC = f"webcrawl history 2 {len(COLUMNS)}\n".encode().ljust(64)
_REFUSALS = {"http_401", "http_403", "http_429", "http_451", "challenged", "walled"}
_CONNECTIONS = (
    *("connect", "tls", "first_byte", "timeout", "too_slow", "incomplete", "bad_answer"),
    *("header_too_large", "host_failing", "other", "robots_unreachable", "unreadable"),
)


def kind_of(outcome: str) -> str:
    """Return which of ``KINDS`` the URLs with *outcome* are; "" if they were not given up.

    >>> [kind_of(outcome) for outcome in ("http_200", "http_404", "dns_failed", "robots_denied")]
    ['', 'not found', 'name servers', 'robots.txt and rules']
    """
    if not is_given_up(outcome):
        return ""
    if outcome == "dns_failed":
        return "name servers"
    if outcome in _REFUSALS:
        return "refused"
    if outcome.startswith("http_5"):
        return "server errors"
    if outcome.startswith("http_") or outcome in {"dns_not_found", "soft_error"}:
        return "not found"
    return "connections" if outcome.startswith(_CONNECTIONS) else "robots.txt and rules"


def count_kinds(given_up: Mapping[str, int]) -> Counter[str]:
    """Return the numbers of URLs by kind from those by outcome."""
    kinds: Counter[str] = Counter()
    for outcome, number in given_up.items():
        kinds[kind_of(outcome)] += number
    return kinds


class History:
    """Writer of the history in the file *path*, for a run that began *at* epoch seconds."""

    def __init__(self, path: Path, *, at: float) -> None:
        self._path = path
        self._at = at  # the time of the last sample
        self._last: Mapping[str, float] = {}  # counts of this run at the last sample

    def add(self, at: float, stats: Mapping[str, Any], record: Record, **gauges: float) -> None:
        """Add a sample taken *at* epoch seconds: *stats* of this run, *record*, and *gauges*.

        Raises OSError.
        """
        results = Counts.of(stats)
        counts = {
            **count_kinds(results.given_up),
            "pages": results.pages,
            "redirects": results.redirects,
            "4xx": sum(n for name, n in results.given_up.items() if name.startswith("http_4")),
            "visits": results.visits,
            "changed": with_prefix("visits/", stats).get("changed", 0),
            "bytes": stats.get("fetch/bytes", 0),
            "starts": 1,  # of this run
        }
        gauges |= {
            "waiting": record.waiting,
            "parked": sum(record.parked.values()),
            "due": record.due,
            "fresh": record.fresh,
            "workers busy": record.busy,
            "hosts ready": record.ready,
            "hosts paused": record.resting,
        }
        added = [max(counts.get(name, 0) - self._last.get(name, 0), 0) for name in COUNTS]
        secs = max(at - self._at, 0.001)  # the clock may have been set
        self._last = counts
        self._at = at
        self._write(at, [secs, *added, *(secs * gauges.get(name, 0.0) for name in GAUGES)])

    def _write(self, at: float, numbers: list[float]) -> None:
        """Add *numbers* to the rows that contain the time *at*."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.pread(file, len(_MAGIC), 0) != _MAGIC:  # of another version
                os.ftruncate(file, 0)
                os.pwrite(file, _MAGIC, 0)
            for secs, place in _places(at).items():
                start = at // secs * secs
                row = _ROW.unpack(os.pread(file, _ROW.size, place).ljust(_ROW.size, b"\0"))
                old = row[1:] if row[0] == start else [0.0] * len(numbers)
                sums = map(sum, zip(old, numbers, strict=True))
                os.pwrite(file, _ROW.pack(start, *sums), place)
        finally:
            os.close(file)


def _places(at: float) -> dict[int, int]:
    """Return the place in the file of each row that contains the time *at*, by its seconds."""
    places = {}
    first = len(_MAGIC)
    for secs, rows in ROWS.items():
        places[secs] = first + int(at // secs) % rows * _ROW.size
        first += rows * _ROW.size
    return places


class Series(NamedTuple):
    """Numbers of a crawl over time, in intervals of *secs* seconds.

    *at* has the starts of the intervals, ascending. *columns* has the values by their names: counts
    are the sums in an interval, and gauges are the means. It also has ``SECONDS``. *rates* has the
    counts per second in which the crawl was running.
    """

    secs: int
    at: NDArray[np.float64]
    columns: dict[str, NDArray[np.float64]]
    rates: dict[str, NDArray[np.float64]]

    def since(self, at: float, until: float = math.inf) -> Series:
        """Return the intervals that begin from the epoch second *at* to *until*."""
        is_shown = (self.at >= at) & (self.at <= until)
        columns, rates = (
            {name: values[is_shown] for name, values in table.items()}
            for table in (self.columns, self.rates)
        )
        return Series(self.secs, self.at[is_shown], columns, rates)

    def total(self, *names: str) -> float:
        """Return the sum of the columns *names* over all intervals."""
        return float(sum(self.columns[name].sum() for name in names))

    def mean_rate(self, *names: str) -> float:
        """Return the sum of the counts *names* per second in which the crawl was running."""
        return self.total(*names) / max(self.total(SECONDS), 0.001)


def read_series(jobdirs: Iterable[Path], secs: int, *, every: int = 1) -> Series:
    """Return the history of the processes in *jobdirs*, in intervals of *every* times *secs*.

    *secs* is one of ``ROWS``. Values of processes are added up, but of the delay of the event
    loop and of the free space on the disk, the worst one counts, and of the seconds, the most.
    Missing files are left out.
    """
    width = secs * every
    processes = []
    for jobdir in jobdirs:
        rows = _rows_of(jobdir / NAME, secs)
        starts, places = np.unique(rows[:, 0] // width * width, return_inverse=True)
        sums = np.zeros((len(starts), _ROW.size // 8 - 1))
        np.add.at(sums, places, rows[:, 1:])
        processes.append((starts, sums))

    at = np.unique(np.concatenate([[], *(starts for starts, _ in processes)]))
    columns = {name: np.zeros(len(at)) for name in COLUMNS}
    columns["free disk"] += np.inf
    columns[SECONDS] = np.zeros(len(at))
    rates = {name: np.zeros(len(at)) for name in COUNTS}
    for starts, sums in processes:
        places = np.searchsorted(at, starts)
        means = sums[:, 1:] / np.maximum(sums[:, :1], 0.001)
        columns[SECONDS][places] = np.maximum(columns[SECONDS][places], sums[:, 0])
        for number, name in enumerate(COLUMNS):
            if name in rates:
                columns[name][places] += sums[:, 1 + number]
                rates[name][places] += means[:, number]
            else:
                merge = {"lag": np.maximum, "free disk": np.minimum}.get(name, np.add)
                columns[name][places] = merge(columns[name][places], means[:, number])
    return Series(width, at, columns, rates)


def _rows_of(path: Path, secs: int) -> NDArray[np.float64]:
    """Return the rows of the file *path* with intervals of *secs*, in the order of time."""
    numbers = np.zeros(0)
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) == _MAGIC:
                file.seek(_places(0.0)[secs])
                data = file.read(ROWS[secs] * _ROW.size)
                numbers = np.frombuffer(data[: len(data) // _ROW.size * _ROW.size], "<f8")
    except OSError:
        pass
    rows: NDArray[np.float64] = numbers.reshape(-1, _ROW.size // 8)
    # A row that a power failure has damaged is left out.
    is_whole = (rows[:, 0] > 0) & (rows[:, 0] % secs == 0)
    is_whole &= (np.isfinite(rows) & (rows >= 0)).all(axis=1)
    rows = rows[is_whole]
    rows = rows[np.argsort(rows[:, 0])]
    # Rows from before a long pause are older than what the file should have.
    is_kept: NDArray[np.bool_] = rows[:, 0] > rows[-1:, 0].max(initial=0) - ROWS[secs] * secs
    return rows[is_kept]
