"""Changes of pages: when their texts become others, at known rates, and what sitemaps tell of it.

One page in five never changes, as small ones do not; the rates of the others are log-normal, half
of them below `World.changes_per_day`. A page's changes are a Poisson process that is computed at
any time: how many there are in a slot of 1/rate seconds is drawn, and when each of them is. They
are at whole seconds of the epoch. Pages of one content change together.
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
# Of the logarithm, and what is cut off: no rate is above a hundred times the median.
_SPREAD = NormalDist(0.0, 1.5)
_TAIL = 0.001
# Most changes in one slot, and of how many there is one at least, and so on (Poisson's, of mean 1).
_MOST = 12
_POISSON = [*itertools.accumulate(math.exp(-1) / math.factorial(n) for n in range(_MOST))]


def change_rate(world: World, page: PageSpec) -> float:
    """Changes of *page* in a second; 0 for what is no document of a web host."""
    if not (world.changes_per_day and page.leaf.status == 200 and page.host.is_web):
        return 0.0
    part = unit(draw(world.seed, RATE, *content_of(world, page)))
    if part <= _STEADY or size_of(world, page) < TRUNK_MIN_SIZE:
        return 0.0
    spread = _SPREAD.inv_cdf(_TAIL + (1 - 2 * _TAIL) * (part - _STEADY) / (1 - _STEADY))
    return world.changes_per_day / _DAY * math.exp(spread)


def changes(world: World, page: PageSpec, begin: float, end: float) -> list[int]:
    """The epoch seconds from after *begin* to *end* at which *page* has changed, in order."""
    rate = change_rate(world, page)
    slots = range(int((begin - 1) * rate), int(end * rate) + 1) if rate else ()
    found = {at for slot in slots for at in _in_slot(world, page, rate, slot, CHANGES)}
    return sorted(at for at in found if begin < at <= end)


def last_change(world: World, page: PageSpec, at: float) -> int:
    """When *page* has last changed, *at* epoch seconds; 0 if it never did."""
    return _last(world, page, at, change_rate(world, page))


def last_told(world: World, page: PageSpec, at: float) -> int:
    """When *page* has last changed, by the sitemap of its host; 0 if it never did.

    Of all changes that happened a share of `World.lastmod_recall` is told, and of those that are
    told a share of `World.lastmod_precision` happened.
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
    """When there are changes in *slot*, in order."""
    index, number = content_of(world, page)
    first, *rest = map(unit, draws(world.seed, stream, index, slot << 24 | number, 1 + _MOST))
    return sorted(math.ceil((slot + part) / rate) for part in rest[: bisect(_POISSON, first)])
