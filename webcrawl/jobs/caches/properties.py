"""Statistics of a trace: length, repeats, popularity by rank, links that leave the host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from webcrawl.seen.url_trace import Trace


_MOMENT = "%Y-%m-%d %H:%M:%S"


class Properties(msgspec.Struct, frozen=True):
    """Statistics of a trace.

    leaving: requests that leave the page's host, or in a hive its shard.
    exponent: -a, if the count of the URL with rank r is nearly proportional to r to the power a.
    popularity: rank and count of the URLs of ranks 1, 2, 4, 8, ...
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
    by_rank = np.sort(np.unique_counts(trace.fps).counts)[::-1]
    number, distinct = len(trace.fps), len(by_rank)
    ranks = 2 ** np.arange(distinct.bit_length())
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
    """Return the exponent of Zipf's law, by least squares of the logarithms; 0 if all are equal.

    URLs that occur once are left out: their tail is flat, however popularity falls before it.
    """
    ranks, counts = ranks[counts > 1], counts[counts > 1]
    if len(ranks) < 2:
        return 0.0
    return -float(np.polyfit(np.log(ranks), np.log(counts), 1)[0])


def text_of(found: Properties) -> str:
    """Return *found* as text."""
    lines = [
        f"requests      {found.requests:,}",
        f"distinct      {found.distinct:,}",
        f"repeated      {found.repeated:.1%} of the requests (no cache can hit more)",
        f"leaving       {found.leaving:,} ({found.leaving / found.requests:.1%})",
    ]
    if found.ended:
        begun, ended = (
            time.strftime(_MOMENT, time.gmtime(at)) for at in (found.begun, found.ended)
        )
        lines.append(f"recorded      {begun} to {ended} UTC")
    lines += [
        f"popularity    about rank ** -{found.exponent:.2f} (of URLs that occur at least twice)",
        *(f"  rank {rank:<12,} {count:>12,}" for rank, count in found.popularity),
    ]
    return "\n".join(lines) + "\n"
