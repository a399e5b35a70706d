"""A drone that stops itself in the middle of a publication: ``SCHEDULER`` of drones that are begun
with this directory in PYTHONPATH.

The first that comes to the step that is named in the file STOP_FILE deletes the file, and stops.
"""

import os
import signal
from pathlib import Path

from webcrawl.scheduler import MercatorScheduler
from webcrawl.storage.object_store import ObjectStore

#: Before the first object, the checkpoint itself, and the deletion of older ones.
STEPS = ("object", "checkpoint", "deletion")


class StoppingScheduler(MercatorScheduler):
    """One that watches what goes into HIVE_STORE, a directory."""

    @classmethod
    def from_crawler(cls, crawler):
        order = Path(crawler.settings["STOP_FILE"])
        write, delete = ObjectStore.write, ObjectStore.delete

        def watched_write(objects, name, data):
            if name.startswith("shards/"):
                _stop_at("checkpoint" if name.endswith(".json") else "object", order)
            write(objects, name, data)

        def watched_delete(objects, names):
            _stop_at("deletion", order)
            delete(objects, names)

        # In this process, which is the drone.
        _replace("write", watched_write)
        _replace("delete", watched_delete)
        return super().from_crawler(crawler)


def _replace(name, function):
    setattr(ObjectStore, name, function)


def _stop_at(step, order):
    try:
        if order.read_text() != step:
            return
        order.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP)
