"""A drone that fails at the first command to its hive: ``SCHEDULER`` of drones that are begun with
this directory in PYTHONPATH."""

from webcrawl.control.hive import HiveControl
from webcrawl.scheduler import MercatorScheduler


class DeafScheduler(MercatorScheduler):
    """One in whose process no command can be handled, as by a fault of webcrawl."""

    @classmethod
    def from_crawler(cls, crawler):
        async def fail(*_, **__):
            raise LookupError("a fault in webcrawl")

        HiveControl._handle = fail
        return super().from_crawler(crawler)
