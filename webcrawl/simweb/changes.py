"""Changes of pages: when their texts change, at known rates, and what sitemaps say about it.

One page in five never changes, and neither do small ones. The rates of the others are log-normal,
with the median ``World.changes_per_day``. The changes of a page are a Poisson process that can be
computed for any time: for each slot of 1/rate seconds, the number of changes and their times are
drawn. They are at whole epoch seconds. Pages with the same content change together.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from statistics import NormalDist
from typing import TYPE_CHECKING

from webcrawl.simweb.chance import CHANGES, RATE, TOLD, UNTRUE, draw, draws, unit
from webcrawl.simweb.distributions import TRUNK_MIN_SIZE
from webcrawl.simweb.pages import content_of, size_of

if TYPE_CHECKING:
    from webcrawl.simweb.pages import PageSpec
    from webcrawl.simweb.world import World

_DAY = 86_400
_STEADY = 0.2
# The distribution of the logarithm, and the part cut off at each end: no rate is above a hundred
# times the median.
_SPREAD = NormalDist(0.0, 1.5)
_TAIL = 0.001
# The largest number of changes in a slot, and the cumulative Poisson distribution with mean 1.
_MAX_CHANGES = 12
_POISSON = [*itertools.accumulate(math.exp(-1) / math.factorial(n) for n in range(_MAX_CHANGES))]


def change_rate(world: World, page: PageSpec) -> float:
    """Return the changes of *page* per second; 0 unless it is a document of a web host."""
    if not (world.changes_per_day and page.leaf.status == 200 and page.host.is_web):
        return 0.0
    part = unit(draw(world.seed, RATE, *content_of(world, page)))
    if part <= _STEADY or size_of(world, page) < TRUNK_MIN_SIZE:
        return 0.0
    spread = _SPREAD.inv_cdf(_TAIL + (1 - 2 * _TAIL) * (part - _STEADY) / (1 - _STEADY))
    return world.changes_per_day / _DAY * math.exp(spread)


def changes(world: World, page: PageSpec, begin: float, end: float) -> list[int]:
    """Return the epoch seconds after *begin* and up to *end* at which *page* changes, in order."""
    rate = change_rate(world, page)
    slots = range(int((begin - 1) * rate), int(end * rate) + 1) if rate else ()
    found = {at for slot in slots for at in _in_slot(world, page, rate, slot, CHANGES)}
    return sorted(at for at in found if begin < at <= end)


def last_change(world: World, page: PageSpec, at: float) -> int:
    """Return when *page* last changed before *at* (epoch seconds); 0 if it never did."""
    return _last(world, page, at, change_rate(world, page))


def last_told(world: World, page: PageSpec, at: float) -> int:
    """Return when *page* last changed according to its host's sitemap; 0 if it never did.

    The sitemap has a share ``World.lastmod_recall`` of the changes that happened, and a share
    ``World.lastmod_precision`` of the changes in it happened.
    """
    rate, recall = change_rate(world, page), world.lastmod_recall
    untrue = rate * recall * (1 / world.lastmod_precision - 1)
    told = _last(world, page, at, rate, recall)
    return max(told, _last(world, page, at, untrue, of=UNTRUE))


def _last(
    world: World, page: PageSpec, at: float, rate: float, recall: float = 1.0, *, of: int = CHANGES
) -> int:
    index, number = content_of(world, page)
    for slot in range(int(at * rate), -1, -1) if rate else ():
        for one in reversed(_in_slot(world, page, rate, slot, of)):
            if one <= at and unit(draw(world.seed, TOLD, index, one << 24 | number)) < recall:
                return one
    return 0


def _in_slot(world: World, page: PageSpec, rate: float, slot: int, stream: int) -> list[int]:
    """Return the times of the changes in *slot*, in order."""
    index, number = content_of(world, page)
    first, *rest = map(
        unit, draws(world.seed, stream, index, slot << 24 | number, 1 + _MAX_CHANGES)
    )
    return sorted(math.ceil((slot + part) / rate) for part in rest[: bisect(_POISSON, first)])
