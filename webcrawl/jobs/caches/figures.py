"""Draws figures 2 to 5 of the paper for one trace: misses by cache size, also relative to MIN.

Two more figures show the trace itself: the popularity of URLs by rank, and stack distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webcrawl.jobs.caches.measurements import STREAMS
from webcrawl.jobs.report.chart import lines
from webcrawl.jobs.report.figures import Figure, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from webcrawl.jobs.caches.measurements import Measurement


def miss_figures(measurements: Sequence[Measurement], suffix: str) -> list[Figure]:
    """Return figures 2 and 3 for *measurements*, or figures 4 and 5 for the cross sub-trace.

    *suffix* is that of the trace, a key of ``STREAMS``.
    """
    miss_percents: dict[str, dict[int, float]] = {}
    for entry in measurements:
        miss_percents.setdefault(entry.policy, {})[entry.size] = 100 * entry.miss_rate
    optimal = miss_percents.get("min", {})
    relative_to_min = {
        policy: {size: rate / optimal[size] for size, rate in by_size.items() if optimal.get(size)}
        for policy, by_size in miss_percents.items()
    }

    figures = []
    for name, title, caption, y, all_values in (
        ("", "Cache misses", "Share of {0:,} requests that miss.", "misses, %", miss_percents),
        (
            "-to-min",
            "Misses relative to MIN",
            "MIN knows the future.",
            "misses, MIN = 1",
            relative_to_min,
        ),
    ):
        values = {
            policy: dict(sorted(by_size.items()))
            for policy, by_size in all_values.items()
            if by_size
        }
        if not values:
            continue
        sizes = sorted({size for by_size in values.values() for size in by_size})
        series = {policy: ([*by_size], [*by_size.values()]) for policy, by_size in values.items()}
        figures.append(
            Figure(
                f"cache-misses{name}{suffix}",
                f"{title}: {STREAMS[suffix]}",
                caption.format(measurements[0].requests),
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


def trace_figures(
    counts: NDArray[np.int64], distances: NDArray[np.int64], suffix: str
) -> list[Figure]:
    """Return the figures of URL popularity by rank, and of requests by stack distance.

    *counts* has the requests for each URL, the most popular first. *distances* is the result of
    ``stack_distances``.
    """
    ranks = 2 ** np.arange(len(counts).bit_length())
    sums = np.add.reduceat(distances, ranks - 1)
    figures = []
    popularity = ("url-popularity", "Popularity of URLs", "For ranks 1, 2, 4, ...", "rank")
    text = "Number of other URLs since the last request for the same URL. A larger LRU cache hits."
    stacks = ("stack-distances", "Stack distances", text, "stack distance")
    for (name, title, text, x), ys in ((popularity, counts[ranks - 1]), (stacks, sums)):
        nonzero = ys > 0
        if nonzero.any():
            series = {x: (ranks[nonzero].tolist(), ys[nonzero].tolist())}
            chart = lines(series, x=x, y="requests", log="xy")
            full_title = f"{title}: {STREAMS[suffix]}"
            figures.append(Figure(f"{name}{suffix}", full_title, text, chart=chart))
    return figures
