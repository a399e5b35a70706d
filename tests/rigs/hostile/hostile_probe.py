"""What the crawl of test_hostile.py tells the test: how every URL ended, and what it took.

An extension, added by ``-s EXTENSIONS=...`` with this directory in PYTHONPATH. At the
end it writes a line of JSON for each URL and each Page, and one about the process, to the file
that HOSTILE_REPORT names.
"""

import json
import time
from pathlib import Path

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call

from webcrawl.signals import url_finished

_TICK_SECS = 0.02


class Probe:
    """Writes the report."""

    def __init__(self, crawler):
        self._path = Path(crawler.settings["HOSTILE_REPORT"])
        self._lines = []
        self._tick = create_looping_call(self._ticked)
        self._last_tick = 0.0
        self._longest = 0.0

    @classmethod
    def from_crawler(cls, crawler):
        probe = cls(crawler)
        connect = crawler.signals.connect
        connect(probe.spider_opened, signal=signals.spider_opened)
        connect(probe.url_finished, signal=url_finished)
        connect(probe.item_scraped, signal=signals.item_scraped)
        connect(probe.engine_stopped, signal=signals.engine_stopped)
        return probe

    def spider_opened(self):
        self._last_tick = time.thread_time()
        self._tick.start(_TICK_SECS)

    def url_finished(self, url, outcome):
        self._write(url=url, outcome=outcome)

    def item_scraped(self, item):
        self._write(page=item.url, size=len(item.body), truncated=item.truncated)

    def engine_stopped(self):
        self._tick.stop()
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        # Not ru_maxrss: a child begins with its parent's, and pytest may have been large.
        cpu = time.process_time()
        self._write(peak_kb=int(peak.split()[1]), cpu=cpu, longest=self._longest)
        self._path.write_text("\n".join(self._lines), encoding="utf-8")

    def _ticked(self):
        """The loop's thread works in one go no longer than the time between two ticks."""
        now = time.thread_time()
        self._longest = max(self._longest, now - self._last_tick)
        self._last_tick = now

    def _write(self, **facts):
        self._lines.append(json.dumps(facts))
