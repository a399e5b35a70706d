"""Stopped job: a job that is not running, opened to add URLs, and its checkpoint afterwards.

For ``scrapy frontier --import`` and ``--retry``, the only inspections that change a job. The shards
are opened as the crawl opens them, under the job's lock. If the process dies before the checkpoint,
what was added by then is in the logs of the parts, as in a crawl.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from webcrawl.crawl.builder import AgentBuilder
from webcrawl.crawl.job.jobdir import unopened
from webcrawl.errors import FatalError, is_disk_full
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

    from webcrawl.crawl.job_state import JobState

_DISK_ERRORS = (OSError, CorruptRecordError, NewerFormatError)


@contextmanager
def opened(crawler: Crawler) -> Iterator[JobState]:
    """The state of the job that *crawler*'s settings name, a new one if it is not there, with its
    shards open; at the end of the block the job has a checkpoint. FatalError with one sentence."""
    state = AgentBuilder(crawler).state()
    job, spider = state.resources.job, crawler.spidercls.name
    failures: list[Exception] = []
    job.open(spider=spider)
    try:
        state.open()
        if not job.own.resumed:
            publish(state, crawler)  # the seed, before anything is logged by it
        yield state
        publish(state, crawler)
    except _DISK_ERRORS as error:
        if is_disk_full(error):
            raise FatalError(
                f"The disk of JOBDIR {job.path} is full: make room and run the same command again."
            ) from error
        raise unopened(error, job.path) from error
    finally:
        state.close(failures.append)
        job.close()
    if failures:
        raise failures[0]


def publish(state: JobState, crawler: Crawler) -> None:
    """Make a checkpoint of the job *state*, which is open. Blocks. OSError."""
    job, spider = state.resources.job, crawler.spidercls.name
    job.publish(job.prepare({**job.own.facts, "spider": spider, **state.facts()}))
    job.forget()
