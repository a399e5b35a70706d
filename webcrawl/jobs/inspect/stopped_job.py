"""A job that is not running, opened to add URLs to it, and its checkpoint afterwards.

Used by ``scrapy frontier --import`` and ``--retry``, the only two questions to a job that change
it. The parts are opened as the crawl opens them, under the job's lock. If the process dies before
the checkpoint, what was added by then is in the logs of the parts, as in a crawl.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from webcrawl.crawl.builder import scheduler_parts
from webcrawl.crawl.opening import open_parts
from webcrawl.crawl.stop import unopened
from webcrawl.errors import FatalError, is_disk_full
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

_DISK_ERRORS = (OSError, CorruptRecordError, NewerFormatError)
_OPENED: Final = ("frontier", "eliminator", "content", "tables", "links", "hosts", "suffixes")
_CLOSED: Final = ("frontier", "eliminator", "content", "hosts")


@contextmanager
def opened(crawler: Crawler) -> Iterator[dict[str, Any]]:
    """The parts of the job that *crawler*'s settings name, a new one if it is not there; at the end
    of the block it has a checkpoint. FatalError with one sentence."""
    parts = scheduler_parts(crawler)
    job = parts["job"]
    job.open(spider=crawler.spidercls.name)
    try:
        open_parts(job=job, **{name: parts[name] for name in _OPENED})
        yield parts
        _publish(parts, spider=crawler.spidercls.name)
    except _DISK_ERRORS as error:
        if is_disk_full(error):
            raise FatalError(
                f"The disk of JOBDIR {job.path} is full: make room and run the same command again."
            ) from error
        raise unopened(error, job.path) from error
    finally:
        parts["executor"].shutdown()
        for part in (*parts["tables"].values(), *(parts[name] for name in _CLOSED)):
            part.close()
        job.close()


def _publish(parts: dict[str, Any], *, spider: str) -> None:
    job, frontier, eliminator, hosts = (
        parts[name] for name in ("job", "frontier", "eliminator", "hosts")
    )
    facts = {
        "spider": spider,
        "politeness_key": hosts.key,
        "clock_offset": hosts.clock.offset,
        "knows_domains": parts["links"].knows_domains,
        "waiting": len(frontier),
        "in_eliminator": eliminator.waiting,
        "finished": frontier.stats()["frontier/finished"],
    }
    job.publish(job.prepare({**job.facts, **facts}))
    job.forget()
