"""Figures 2 to 5 of the paper for one trace: misses by cache size, also relative to MIN.

Two more show the trace itself: popularity by rank, and stack distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webcrawl.jobs.caches.measurements import FILE, STREAMS, read_csv, stream_file
from webcrawl.jobs.report.chart import lines
from webcrawl.jobs.report.figures import Figure, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from webcrawl.jobs.caches.measurements import Measurement


def of_job(jobdir: Path) -> list[Figure]:
    """Return the figures of the measurements in *jobdir*."""
    figures = []
    for suffix in STREAMS:
        figures += of_measurements(read_csv(stream_file(jobdir / FILE, suffix)), suffix)
    return figures


def of_measurements(found: Sequence[Measurement], suffix: str) -> list[Figure]:
    """Return figures 2 and 3 of *found*, or 4 and 5 for the cross sub-trace."""
    rates: dict[str, dict[int, float]] = {}
    for one in found:
        rates.setdefault(one.policy, {})[one.size] = 100 * one.miss_rate
    optimal = rates.get("min", {})
    to_min = {
        policy: {size: rate / optimal[size] for size, rate in one.items() if optimal.get(size)}
        for policy, one in rates.items()
    }
    figures = []
    for name, title, lead, y, all_values in (
        ("", "Cache misses", "Share of {0:,} requests that miss.", "misses, %", rates),
        ("-to-min", "Misses relative to MIN", "MIN knows the future.", "misses, MIN = 1", to_min),
    ):
        values = {policy: dict(sorted(one.items())) for policy, one in all_values.items() if one}
        if not values:
            continue
        sizes = sorted({size for of_policy in values.values() for size in of_policy})
        series = {policy: ([*one], [*one.values()]) for policy, one in values.items()}
        figures.append(
            Figure(
                f"cache-misses{name}{suffix}",
                f"{title}: {STREAMS[suffix]}",
                lead.format(found[0].requests),
                Table(
                    ("entries", *values),
                    [
                        (size, *(f"{values[policy].get(size, np.nan):.4g}" for policy in values))
                        for size in sizes
                    ],
                ),
                lines(series, x="entries in the cache", y=y, log="x"),
            )
        )
    return figures


def of_trace(counts: NDArray[np.int64], distances: NDArray[np.int64], suffix: str) -> list[Figure]:
    """Return the figures of URL popularity by rank and of requests by stack distance."""
    powers = 2 ** np.arange(len(counts).bit_length())
    sums = np.add.reduceat(distances, powers - 1)
    figures = []
    ranks = ("url-popularity", "Popularity of URLs", "For ranks 1, 2, 4, ...", "rank")
    lead = "Number of other URLs since the last request for a URL: LRU with k entries hits up to k."
    stacks = ("stack-distances", "Stack distances", lead, "stack distance")
    for (name, title, lead, x), ys in ((ranks, counts[powers - 1]), (stacks, sums)):
        nonzero = ys > 0
        if nonzero.any():
            series = {x: (powers[nonzero].tolist(), ys[nonzero].tolist())}
            chart = lines(series, x=x, y="requests", log="xy")
            full_title = f"{title}: {STREAMS[suffix]}"
            figures.append(Figure(f"{name}{suffix}", full_title, lead, chart=chart))
    return figures
