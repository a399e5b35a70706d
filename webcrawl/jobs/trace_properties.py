"""Computes statistics of a trace: length, repeats, popularity by rank, links to other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from webcrawl.wording import utc_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from webcrawl.seen.url_trace import Trace


class Properties(msgspec.Struct, frozen=True):
    """Statistics of a trace.

    distinct: the number of different URLs.
    repeated: the share of requests for URLs that were requested before.
    leaving: requests for links that leave the page's host, or in a hive its shard.
    begun, ended: when the trace was recorded, in epoch seconds; 0 if unknown.
    exponent: the URL of rank r has about r ** -exponent times as many requests as the first.
    popularity: rank and number of requests of the URLs of ranks 1, 2, 4, 8, ...
    """

    requests: int
    distinct: int
    repeated: float
    leaving: int
    begun: float
    ended: float
    exponent: float
    popularity: list[tuple[int, int]]


def properties_of(trace: Trace) -> Properties:
    """Return the statistics of *trace*."""
    # The number of requests for each URL, the most popular first.
    by_rank = np.sort(np.unique_counts(trace.fps).counts)[::-1]
    number = len(trace.fps)
    distinct = len(by_rank)
    ranks = 2 ** np.arange(distinct.bit_length())  # 1, 2, 4, ..., at most *distinct*
    counts = by_rank[ranks - 1]
    return Properties(
        requests=number,
        distinct=distinct,
        repeated=1 - distinct / number,
        leaving=int(trace.leaves.sum()),
        begun=trace.begun,
        ended=trace.ended,
        exponent=exponent_of(ranks, counts),
        popularity=[(int(rank), int(count)) for rank, count in zip(ranks, counts, strict=True)],
    )


def exponent_of(ranks: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
    """Return the exponent of Zipf's law that fits *counts* by rank; 0 if it cannot be fitted.

    The fit is by least squares of the logarithms. URLs that occur once are left out, because they
    form a flat tail, no matter how popularity falls before it.
    """
    ranks = ranks[counts > 1]
    counts = counts[counts > 1]
    if len(ranks) < 2:
        return 0.0
    return -float(np.polyfit(np.log(ranks), np.log(counts), 1)[0])


def text_of(facts: Properties) -> str:
    """Format *facts* as lines of text."""
    lines = [
        f"requests      {facts.requests:,}",
        f"distinct      {facts.distinct:,}",
        f"repeated      {facts.repeated:.1%} of the requests (no cache can hit more)",
        f"leaving       {facts.leaving:,} ({facts.leaving / facts.requests:.1%})",
    ]
    if facts.ended:
        begun, ended = map(utc_time, (facts.begun, facts.ended))
        lines.append(f"recorded      {begun} to {ended} UTC")
    lines += [
        f"popularity    roughly proportional to rank ** -{facts.exponent:.2f} (for repeated URLs)",
        *(f"  rank {rank:<12,} {count:>12,}" for rank, count in facts.popularity),
    ]
    return "\n".join(lines) + "\n"
