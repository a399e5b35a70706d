"""Import of a seed list into a job that is not running, as if its crawl had read it.

For ``scrapy frontier --import``: the seeds are submitted through filters and eliminator
(stopped_job.py opens the job and makes the checkpoint). The new URLs are left in the eliminator,
decided: the crawl's next run takes them out before anything else.

If the process dies, the seeds submitted by then are in the job, and importing the same list again
is right: the eliminator has seen them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from webcrawl.crawl.seeds import SeedReader
from webcrawl.jobs.inspect.stopped_job import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.crawler import Crawler

    from webcrawl.crawl.job_state import JobState
    from webcrawl.crawl.shard.shards import Shards

_SEEDS_PER_BATCH = 500
_POLL_SECS = 0.01


class Imported(msgspec.Struct, frozen=True):
    """Counts of an import.

    *read* seeds in the list and *bad* lines; *refused* by the filters; *new* of the others.
    """

    read: int
    bad: int
    refused: int
    new: int


def import_seeds(
    crawler: Crawler, sources: Sequence[str], *, on_progress: Callable[[int], None]
) -> Imported:
    """Submit the seeds in *sources* to the job that *crawler*'s settings name, a new one if it is
    not there; *on_progress* is called with the number so far. FatalError with one sentence."""
    with opened(crawler) as state:
        return _import(state, sources, on_progress)


def _import(
    state: JobState, sources: Sequence[str], on_progress: Callable[[int], None]
) -> Imported:
    job, links, shards = state.resources.job, state.links, state.shards
    seeds = SeedReader(sources=sources, spool_dir=Path(job.path) / "seeds", stdin=sys.stdin.buffer)
    try:
        seeds.open(None)
        if not job.own.resumed:
            # The crawl that is begun with the same list has read it.
            job.own.attach("seeds", seeds)
        _decide(shards)
        waiting = state.facts()["in_eliminator"]
        while not seeds.exhausted:
            links.submit_seeds(seeds.read(_SEEDS_PER_BATCH))
            on_progress(seeds.seeds_read)
    finally:
        seeds.close()
    _decide(shards)
    return Imported(
        read=seeds.seeds_read,
        bad=seeds.seeds_bad,
        refused=links.refused.total(),
        new=state.facts()["in_eliminator"] - waiting,
    )


def _decide(shards: Shards) -> None:
    """Return when it is known which of the submitted URLs are new: their count is exact then.
    Raises what stops that."""
    for shard in shards:
        shard.eliminator.merge()
        while shard.eliminator.merging:
            time.sleep(_POLL_SECS)
            shard.eliminator.take(0)
