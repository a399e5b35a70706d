"""The scheduler over four shards: ``SCHEDULER`` of crawls that are begun with this directory in
PYTHONPATH."""

from webcrawl.crawl.builder import ProcessBuilder, should_keep_open
from webcrawl.crawl.process import ProcessHooks
from webcrawl.scheduler import MercatorScheduler

NAMES = ("00", "01", "02", "03")


class FourShardScheduler(MercatorScheduler):
    """One process, one resolver, one pool of connections."""

    @classmethod
    def from_crawler(cls, crawler):
        hooks = ProcessHooks(may_end=lambda: not should_keep_open(crawler))
        return cls(
            ProcessBuilder(crawler, number=len(NAMES), held=range(len(NAMES))).process(hooks)
        )
