"""A drone of a later version of webcrawl, with another format of HIVE_STORE: ``SCHEDULER`` of
drones that are begun with this directory in PYTHONPATH."""

import sys

from webcrawl.hive.store import checkpoint_files
from webcrawl.scheduler import MercatorScheduler

_LATER = checkpoint_files.FORMAT + 1


class LaterScheduler(MercatorScheduler):
    """One whose process writes, and reads, the next format."""

    @classmethod
    def from_crawler(cls, crawler):
        for name, module in [*sys.modules.items()]:
            if name.startswith("webcrawl.hive.") and hasattr(module, "FORMAT"):
                module.FORMAT = _LATER
        return super().from_crawler(crawler)


checkpoint_files.FORMAT = _LATER  # for modules that are imported later
