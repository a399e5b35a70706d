"""A seed list into a job that is not running: as if its crawl had read it as seeds.

Done by ``scrapy frontier --import``. It is the one thing here that changes a job: it takes the
lock, opens the parts as the crawl does, submits the seeds through filters and eliminator, and makes
a checkpoint. The new URLs are left in the eliminator, decided: the crawl's next run takes them out
before anything else.

If the process dies in the middle, what was submitted by then is in the job, and importing the same
list again is right: the eliminator knows what it has seen.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.disk_trouble import is_disk_full
from webcrawl.ending import unopened
from webcrawl.errors import FatalError
from webcrawl.opening import open_parts
from webcrawl.seeds import SeedReader
from webcrawl.storage.records import CorruptRecordError, NewerFormatError
from webcrawl.wiring import scheduler_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.crawler import Crawler

    from webcrawl.seen.interface import Eliminator

_SEEDS_PER_BATCH = 500
_POLL_SECS = 0.01
_DISK_ERRORS = (OSError, CorruptRecordError, NewerFormatError)


class Imported(msgspec.Struct, frozen=True):
    """*read* seeds in the list and *bad* lines; *refused* by the filters; *new* of the others."""

    read: int
    bad: int
    refused: int
    new: int


def import_seeds(
    crawler: Crawler, sources: Sequence[str], *, told: Callable[[int], None]
) -> Imported:
    """Submit the seeds in *sources* to the job that *crawler*'s settings name, a new one if it is
    not there; *told* is called with the number so far. FatalError with one sentence."""
    parts = scheduler_parts(crawler)
    job = parts["job"]
    owned = {
        name: parts[name]
        for name in ("frontier", "eliminator", "content", "tables", "links", "hosts")
    }
    job.open(spider=crawler.spidercls.name)
    try:
        open_parts(job=job, **owned)
        return _import(parts, sources, told, spider=crawler.spidercls.name)
    except _DISK_ERRORS as error:
        if is_disk_full(error):
            raise FatalError(
                f"The disk of JOBDIR {job.path} is full: make room and import the list again."
            ) from error
        raise unopened(error, job.path) from error
    finally:
        parts["executor"].shutdown()
        for part in (*parts["tables"].values(), *(parts[name] for name in _CLOSED)):
            part.close()
        job.close()


_CLOSED = ("frontier", "eliminator", "content", "hosts")


def _import(
    parts: dict[str, Any], sources: Sequence[str], told: Callable[[int], None], *, spider: str
) -> Imported:
    job, links, eliminator = parts["job"], parts["links"], parts["eliminator"]
    seeds = SeedReader(sources=sources, spool_dir=Path(job.path) / "seeds", stdin=sys.stdin.buffer)
    try:
        seeds.open(None)
        if not job.resumed:
            # The crawl that is begun with the same list has read it.
            job.attach("seeds", seeds)
        _decide(eliminator)
        waiting = eliminator.waiting
        while not seeds.exhausted:
            links.submit_seeds(seeds.read(_SEEDS_PER_BATCH))
            told(seeds.seeds_read)
    finally:
        seeds.close()
    _decide(eliminator)
    frontier, hosts = parts["frontier"], parts["hosts"]
    facts = {
        "spider": spider,
        "politeness_key": hosts.key,
        "clock_offset": hosts.wall.offset,
        "knows_domains": links.knows_domains,
        "waiting": len(frontier),
        "in_eliminator": eliminator.waiting,
        "finished": frontier.stats()["frontier/finished"],
    }
    job.publish(job.prepare({**job.facts, **facts}))
    job.forget()
    return Imported(
        read=seeds.seeds_read,
        bad=seeds.seeds_bad,
        refused=links.refused.total(),
        new=eliminator.waiting - waiting,
    )


def _decide(eliminator: Eliminator) -> None:
    """Return when it is known which of the submitted URLs are new: ``waiting`` is exact then.
    Raises what stops that."""
    eliminator.merge()
    while eliminator.merging:
        time.sleep(_POLL_SECS)
        eliminator.take(0)
