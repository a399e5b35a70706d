"""A drone whose store hangs, like NFS without its server: ``SCHEDULER`` of drones that are begun
with this directory in PYTHONPATH.

No call to HIVE_STORE returns while the file HANG_FILE exists.
"""

import time
from pathlib import Path

from webcrawl.scheduler import MercatorScheduler
from webcrawl.storage.object_store import ObjectStore


class HangingScheduler(MercatorScheduler):
    """One that waits in each call to HIVE_STORE."""

    @classmethod
    def from_crawler(cls, crawler):
        hang_file = Path(crawler.settings["HANG_FILE"])
        for name in ("names", "read", "write", "create", "delete"):
            setattr(ObjectStore, name, _hanging(getattr(ObjectStore, name), hang_file))
        return super().from_crawler(crawler)


def _hanging(method, hang_file):
    def call(*arguments, **options):
        while hang_file.exists():
            time.sleep(0.05)
        return method(*arguments, **options)

    return call
