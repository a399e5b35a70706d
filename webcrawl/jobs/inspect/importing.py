"""Imports a seed list into a job that is not running, as if its crawl had read the list.

For ``scrapy frontier --import``. The seeds pass through filters and the eliminator; stopped_job.py
opens the job and makes the checkpoint. The eliminator decides which URLs are new and keeps them.
The next run of the crawl takes them from there first.

If the process dies, the seeds submitted until then are in the job. Importing the same list again is
safe, because the eliminator recognizes these seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.jobs.inspect.stopped_job import open_stopped_job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.crawler import Crawler


class Imported(msgspec.Struct, frozen=True):
    """Counts of an import.

    *read* is the number of seeds in the lists, and *bad* the number of bad lines. Filters *refused*
    some seeds, and *new* others had not been seen before. *damaged* has a clause for each list that
    could not be read to its end.
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

    *on_progress* is called with the number of seeds so far. Raises FatalError with one sentence.
    """
    with open_stopped_job(crawler) as stopped, stopped.seeds_of(sources) as seeds:
        own, state = stopped.job.own, stopped.state
        if not own.resumed:
            # This makes a crawl that is started with the same list know that it was already read.
            own.attach("seeds", seeds)
        stopped.decide()
        new_before = state.facts()["in_eliminator"]
        for count in stopped.submit(seeds):
            on_progress(count)
        stopped.decide()
        return Imported(
            read=seeds.seeds_read,
            bad=seeds.seeds_bad,
            refused=state.links.refused.total(),
            new=state.facts()["in_eliminator"] - new_before,
            damaged=seeds.damaged,
        )
