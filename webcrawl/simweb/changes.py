"""Changes of pages: when their texts change, at known rates, and what sitemaps say about it.

One page in five never changes, and neither do small pages. The change rates of the others have a
log-normal distribution with the median ``World.changes_per_day``. The changes of a page are a
Poisson process that can be computed for any time: for each slot of 1/rate seconds, the number of
changes and their times are drawn. The times are whole epoch seconds. Pages with the same content
change together.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from statistics import NormalDist
from typing import TYPE_CHECKING

from webcrawl.simweb.chance import CHANGES, FALSE_REPORTS, RATE, REPORTED, draw, draws, unit
from webcrawl.simweb.distributions import TRUNK_MIN_SIZE
from webcrawl.simweb.pages import PageSpec, content_of, size_of

if TYPE_CHECKING:
    from webcrawl.simweb.world import World

_DAY = 86_400
_STEADY = 0.2
# The distribution of the logarithm of the rate. The share _TAIL is cut off at each end, so that no
# rate is above a hundred times the median.
_SPREAD = NormalDist(0.0, 1.5)
_TAIL = 0.001
# The maximum number of changes in a slot, and the cumulative Poisson distribution with mean 1.
_MAX_CHANGES = 12
_POISSON = [*itertools.accumulate(math.exp(-1) / math.factorial(n) for n in range(_MAX_CHANGES))]


def change_rate(world: World, page: PageSpec) -> float:
    """Return how often *page* changes per second; 0 unless it is a document of a web host."""
    if not (world.changes_per_day and page.leaf.status == 200 and page.host.is_web):
        return 0.0
    quantile = unit(draw(world.seed, RATE, *content_of(world, page)))
    if quantile <= _STEADY or size_of(world, page) < TRUNK_MIN_SIZE:
        return 0.0
    log_factor = _SPREAD.inv_cdf(_TAIL + (1 - 2 * _TAIL) * (quantile - _STEADY) / (1 - _STEADY))
    return world.changes_per_day / _DAY * math.exp(log_factor)


def changes(world: World, page: PageSpec, begin: float, end: float) -> list[int]:
    """Return the times at which *page* changes, after *begin* and up to *end*, in order.

    All times are epoch seconds.
    """
    rate = change_rate(world, page)
    slots = range(int((begin - 1) * rate), int(end * rate) + 1) if rate else ()
    times = {at for slot in slots for at in _in_slot(world, page, rate, slot, CHANGES)}
    return sorted(at for at in times if begin < at <= end)


def last_change(world: World, page: PageSpec, at: float) -> int:
    """Return when *page* last changed, up to the time *at*; 0 if never. In epoch seconds."""
    return _last_change(world, page, at, change_rate(world, page))


def last_reported(world: World, page: PageSpec, at: float) -> int:
    """Return when, according to its host's sitemap, *page* last changed up to *at*; 0 if never.

    ``World.lastmod_recall`` is the share of the real changes that the sitemap reports, and
    ``World.lastmod_precision`` is the share of the reported changes that are real.
    """
    rate = change_rate(world, page)
    recall = world.lastmod_recall
    false_rate = rate * recall * (1 / world.lastmod_precision - 1)
    real_change = _last_change(world, page, at, rate, recall)
    return max(real_change, _last_change(world, page, at, false_rate, stream=FALSE_REPORTS))


def _last_change(
    world: World, page: PageSpec, at: float, rate: float, share: float = 1, *, stream: int = CHANGES
) -> int:
    """Return the last time up to *at* of changes drawn from *stream*; 0 if there is none.

    Only a share *share* of the changes counts.
    """
    index, number = content_of(world, page)
    for slot in range(int(at * rate), -1, -1) if rate else ():
        for when in reversed(_in_slot(world, page, rate, slot, stream)):
            if when <= at and unit(draw(world.seed, REPORTED, index, when << 24 | number)) < share:
                return when
    return 0


def _in_slot(world: World, page: PageSpec, rate: float, slot: int, stream: int) -> list[int]:
    """Return the times of the changes in *slot*, drawn from *stream*, in order."""
    index, number = content_of(world, page)
    count, *times = map(
        unit, draws(world.seed, stream, index, slot << 24 | number, 1 + _MAX_CHANGES)
    )
    return sorted(math.ceil((slot + time) / rate) for time in times[: bisect(_POISSON, count)])
