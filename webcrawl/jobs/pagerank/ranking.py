"""PageRank and degrees of the names in a link graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from webcrawl.jobs.pagerank.link_counts import Ids, LinkCounts

    Shares = np.ndarray[tuple[int], np.dtype[np.float64]]

# The chance to go on by a link (Brin and Page).
_DAMPING: Final = 0.85
# Of the shares, which sum up to 1, so much in all may change in the last round.
_TOLERANCE: Final = 1e-9
_MAX_ROUNDS: Final = 200


class Ranking(NamedTuple):
    """Indexes of names in *order*, the best first; the rest is by index.

    *shares* are PageRank, degrees count other names.
    """

    order: Ids
    shares: Shares
    in_degrees: Ids
    out_degrees: Ids


def rank(counts: LinkCounts) -> Ranking:
    """The ranking of *counts*' names; of equal ones the alphabet decides."""
    number = len(counts.names)
    counted = (counts.followed > 0) & (counts.sources != counts.targets)
    sources, targets = counts.sources[counted], counts.targets[counted]
    shares = pagerank(sources, targets, number)
    return Ranking(
        order=np.lexsort((np.array(counts.names, object), -shares)) if number else sources,
        shares=shares,
        in_degrees=np.bincount(targets, minlength=number),
        out_degrees=np.bincount(sources, minlength=number),
    )


def pagerank(sources: Ids, targets: Ids, number: int) -> Shares:
    """PageRank of *number* nodes with links from *sources* to *targets*, each once; sums up to 1.

    A node without links leads to all alike.
    """
    degrees = np.bincount(sources, minlength=number)
    leads_nowhere = degrees == 0
    by_degree = 1.0 / np.maximum(degrees, 1)
    each = 1.0 / max(number, 1)
    shares = np.full(number, each)
    for _ in range(_MAX_ROUNDS):
        came = np.bincount(targets, (shares * by_degree)[sources], number)
        lost = shares[leads_nowhere].sum()
        after = _DAMPING * (came + lost * each) + (1.0 - _DAMPING) * each
        change = np.abs(after - shares).sum()
        shares = after
        if change < _TOLERANCE:
            break
    return shares
