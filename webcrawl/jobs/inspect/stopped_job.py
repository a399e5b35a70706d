"""Opens a job that is not running, to add URLs and to make a checkpoint.

For ``scrapy frontier --retry``, ``--refetch`` and ``--due``, and for ``scrapy queue-build``. The
shards are opened as in a crawl, under the job's lock. If the process dies before the checkpoint,
the URLs added until then are in the logs of frontier and eliminator, as in a crawl.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.crawl.builder import ProcessBuilder
from webcrawl.crawl.job.jobdir import Job, resume_error
from webcrawl.crawl.seeds import SeedReader
from webcrawl.errors import FatalError, is_disk_full
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy.crawler import Crawler

    from webcrawl.crawl.job_state import JobState

_DISK_ERRORS = (OSError, CorruptRecordError, NewerFormatError)
_SEEDS_PER_BATCH = 500
_POLL_SECS = 0.01


class StoppedJob(NamedTuple):
    """A job that is not running, opened with the settings of *crawler*, which identify it."""

    state: JobState
    crawler: Crawler
    job: Job

    def publish(self) -> None:
        """Make and publish a checkpoint. Blocks. Raises OSError."""
        job = self.job
        spider = self.crawler.spidercls.name
        job.publish(job.prepare({**job.own.facts, "spider": spider, **self.state.facts()}))
        job.forget()

    def submit_seeds(self, sources: Sequence[str]) -> Iterator[SeedReader]:
        """Submit the seed lists *sources* in batches; after each, yield their reader.

        Raises FatalError.
        """
        spool = self.job.path / "seeds"
        with closing(SeedReader(sources=sources, spool_dir=spool, stdin=sys.stdin.buffer)) as seeds:
            seeds.open(None)
            while not seeds.exhausted:
                self.state.links.submit_seeds(seeds.read(_SEEDS_PER_BATCH))
                yield seeds

    def decide(self) -> None:
        """Wait until the eliminators have found out which of the submitted URLs are new.

        Raises the errors of their merges.
        """
        for eliminator in (shard.eliminator for shard in self.state.shards):
            # Twice, because a merge that is already running does not include the latest URLs.
            for _ in range(2):
                eliminator.merge()
                while eliminator.merging:
                    time.sleep(_POLL_SECS)
                    eliminator.take(0)  # notices that a merge has ended, or raises its error


@contextmanager
def open_stopped_job(crawler: Crawler) -> Iterator[StoppedJob]:
    """Open the job of *crawler*'s settings with its shards; create it if necessary.

    A checkpoint is made at the end of the block. Raises FatalError with one sentence.
    """
    state = ProcessBuilder(crawler).state()
    job = state.resources.job
    spider = crawler.spidercls.name
    stopped = StoppedJob(state, crawler, job)
    failures: list[Exception] = []  # errors of closing; the first one is raised
    job.open(spider=spider)
    try:
        state.open()
        if not job.own.resumed:
            stopped.publish()  # save the hash seed before logging fingerprints that depend on it
        yield stopped
        stopped.publish()
    except _DISK_ERRORS as error:
        if is_disk_full(error):
            raise FatalError(
                f"The disk of JOBDIR {job.path} is full: free some space and run the same command "
                "again."
            ) from error
        raise resume_error(error, job.path) from error
    finally:
        state.close(failures.append)
        job.close()
    if failures:
        raise failures[0]
