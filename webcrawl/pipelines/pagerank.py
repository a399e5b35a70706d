"""Computes the PageRank of a graph whose links are arrays in memory, 8 bytes each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    Ids = np.ndarray[tuple[int], np.dtype[Any]]
    Shares = np.ndarray[tuple[int], np.dtype[np.float64]]

# The probability of following a link (Brin and Page).
_DAMPING = 0.85
# The rounds end when the shares, which add up to 1, change by less than this in total.
_TOLERANCE = 1e-9
_MAX_ROUNDS = 200
# Number of links that are added up in one step, which takes 24 bytes each.
_LINKS_PER_STEP = 1 << 24


class Ranking(NamedTuple):
    """PageRank and degrees of all nodes, indexed by node."""

    pagerank: Shares
    in_degree: Ids
    out_degree: Ids


def rank(sources: Ids, targets: Ids, number: int) -> Ranking:
    """Rank *number* nodes by their links, which go from *sources* to *targets*.

    Each link must be listed once. The values of PageRank add up to 1; a node without links passes
    its share to all nodes equally.
    """
    out_degree = _sums(sources, number).astype(np.int64)
    is_dangling = out_degree == 0
    inverse_degree = 1.0 / np.maximum(out_degree, 1)  # that of dangling nodes is never used
    equal_share = 1.0 / max(number, 1)
    shares = np.full(number, equal_share)
    for _ in range(_MAX_ROUNDS):
        # Each node divides its share among the nodes that it links to.
        received = _sums(targets, number, sources, shares * inverse_degree)
        dangling_share = shares[is_dangling].sum()
        new_shares = (
            _DAMPING * (received + dangling_share * equal_share) + (1.0 - _DAMPING) * equal_share
        )
        change = np.abs(new_shares - shares).sum()
        shares = new_shares
        if change < _TOLERANCE:
            break
    return Ranking(shares, _sums(targets, number).astype(np.int64), out_degree)


def _sums(
    nodes: Ids, number: int, others: Ids | None = None, values: Shares | None = None
) -> Shares:
    """Return for each of *number* nodes how often it occurs in *nodes*.

    With *others*, the nodes at the same positions as in *nodes*, return instead the sum of the
    values that these have in *values*.
    """
    sums = np.zeros(number)
    for start in range(0, len(nodes), _LINKS_PER_STEP):  # in steps, to need little memory
        part = slice(start, start + _LINKS_PER_STEP)
        weights = None if others is None or values is None else values[others[part]]
        sums += np.bincount(nodes[part], weights, number)
    return sums
