"""Import of a seed list into a job that is not running, as if its crawl had read it.

For ``scrapy frontier --import``. The seeds pass through filters and eliminator (stopped_job.py
opens the job and makes the checkpoint). The new URLs stay in the eliminator, already found to be
new, and the crawl's next run takes them out first.

If the process dies, the seeds submitted until then are in the job. Importing the same list again is
safe, because the eliminator has seen them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.jobs.inspect.stopped_job import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.crawler import Crawler


class Imported(msgspec.Struct, frozen=True):
    """Counts of an import.

    *read* seeds and *bad* lines are in the list. Filters *refused* some, and of the others these
    are *new*. *damaged* has a clause for each list that could not be read to its end.
    """

    read: int
    bad: int
    refused: int
    new: int
    damaged: list[str]


def import_seeds(
    crawler: Crawler, sources: Sequence[str], *, on_progress: Callable[[int], None]
) -> Imported:
    """Submit the seeds in *sources* to the job of *crawler*'s settings; create it if necessary.

    *on_progress* is called with the number so far. Raises FatalError with one sentence.
    """
    with opened(crawler) as stopped, stopped.seeds_of(sources) as seeds:
        own, state = stopped.job.own, stopped.state
        if not own.resumed:
            # A crawl started with the same list then knows that it was read.
            own.attach("seeds", seeds)
        stopped.decide()
        waiting = state.facts()["in_eliminator"]
        for count in stopped.submit(seeds):
            on_progress(count)
        stopped.decide()
        return Imported(
            read=seeds.seeds_read,
            bad=seeds.seeds_bad,
            refused=state.links.refused.total(),
            new=state.facts()["in_eliminator"] - waiting,
            damaged=seeds.damaged,
        )
