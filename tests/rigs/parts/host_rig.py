"""Host records in memory, for a test of what reads and writes them."""

from types import SimpleNamespace

from webcrawl.hosts.records import HostRecord
from webcrawl.hosts.records.host_counters import HostCounter
from webcrawl.hosts.robots.rules_cache import RobotsCache


class Records:
    """Host records in a dictionary."""

    def __init__(self):
        self.hosts = {}
        self.packed = {}
        self.domains = SimpleNamespace(
            link=lambda *_: None, find=lambda _: HostCounter(), put=lambda *_: None
        )

        self.rests = self.failure = None

    def resize(self, **_):
        """All fits."""

    def get(self, host):
        return self.hosts.get(host) or HostRecord(host)

    def put(self, record):
        self.hosts[record.host] = record

    def robots(self, origin):
        return self.packed.get(origin)

    def put_robots(self, origin, data):
        self.packed[origin] = data


def robots_cache(records, *, clock, expire=86_400.0):
    return RobotsCache(
        store=records,
        tokens=("webcrawl",),
        size=100,
        max_bytes=1 << 20,
        expire=expire,
        retry=600.0,
        clock=clock,
    )
