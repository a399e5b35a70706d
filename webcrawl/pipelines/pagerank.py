"""PageRank of a graph whose links are arrays in memory, 8 bytes each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    Ids = np.ndarray[tuple[int], np.dtype[Any]]
    Shares = np.ndarray[tuple[int], np.dtype[np.float64]]

# The chance to go on by a link (Brin and Page).
_DAMPING = 0.85
# Of the shares, which sum up to 1, so much in all may change in the last round.
_TOLERANCE = 1e-9
_MAX_ROUNDS = 200
# Links that are added up at once, in 24 bytes each.
_SUMMED = 1 << 24


class Ranking(NamedTuple):
    """PageRank and degrees, by node."""

    pagerank: Shares
    in_degree: Ids
    out_degree: Ids


def rank(sources: Ids, targets: Ids, number: int) -> Ranking:
    """The ranking of *number* nodes with links from *sources* to *targets*, each once. PageRank
    sums up to 1; a node without links leads to all alike."""
    out_degree = _sums(sources, number).astype(np.int64)
    leads_nowhere = out_degree == 0
    by_degree = 1.0 / np.maximum(out_degree, 1)
    each = 1.0 / max(number, 1)
    shares = np.full(number, each)
    for _ in range(_MAX_ROUNDS):
        came = _sums(targets, number, sources, shares * by_degree)
        lost = shares[leads_nowhere].sum()
        after = _DAMPING * (came + lost * each) + (1.0 - _DAMPING) * each
        change = np.abs(after - shares).sum()
        shares = after
        if change < _TOLERANCE:
            break
    return Ranking(shares, _sums(targets, number).astype(np.int64), out_degree)


def _sums(nodes: Ids, number: int, others: Ids | None = None, of: Shares | None = None) -> Shares:
    """For each of *number* nodes how often it is in *nodes*; with *others*, nodes in the same
    places, the sum of what they have in *of*."""
    sums = np.zeros(number)
    for start in range(0, len(nodes), _SUMMED):
        part = slice(start, start + _SUMMED)
        weights = None if others is None or of is None else of[others[part]]
        sums += np.bincount(nodes[part], weights, number)
    return sums
