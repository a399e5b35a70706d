"""Stats file: writes the Scrapy stats of the run to ``JOBDIR/stats.json``.

It is written periodically while the crawl runs, and at its end. Each time a progress line is
logged, a line with the doctor's diagnosis is added to ``JOBDIR/logs/stats.jsonl``
(doctor/record.py), for ``scrapy why``, and a sample to the file of bounded size from which the
charts are drawn (doctor/history.py). ``JOBDIR/logs/runs.jsonl`` gets a line at the start of each
run, with its settings, who started it, and the ID of the boot of the machine, and one with the
reason at its end.

The last stats are written at ``spider_closed``, for a crawl that ends before its engine runs. They
are written again at ``engine_stopped``, because CoreStats and others set stats in their
``spider_closed`` handlers. A crawl that was never opened writes nothing, because another process
may be using the job directory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.clock import wall_time
from webcrawl.configuration.changed import changed_settings
from webcrawl.configuration.secrets import mask
from webcrawl.configuration.values import log_file_secs, number
from webcrawl.crawl.job.control_journal import user_and_machine
from webcrawl.crawl.job.state_directory import RUNS, boot_id
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import process_of
from webcrawl.storage.atomic import write_atomic
from webcrawl.storage.line_log import LineLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from webcrawl.doctor.history import History
    from webcrawl.doctor.record import Record

logger = logging.getLogger(__name__)

# The size of one file of the diagnoses. With a line every ten seconds, a month takes 150 MB.
_DIAGNOSES_FILE_BYTES = 1 << 26
_RUNS_FILE_BYTES = 1 << 20
# Number of characters of a setting's value in the log of runs.
_MAX_VALUE = 100


class StatsFile:
    """Extension that writes the stats file *path*, at intervals and at the end."""

    def __init__(self, *, crawler: Crawler, path: Path, max_secs: float) -> None:
        """Make the extension, which writes the stats file *path*.

        The diagnoses are a log in the directory ``logs`` next to it. A file of it is closed when it
        is full, or *max_secs* seconds after its first line.
        """
        self._crawler = crawler
        self._path = path
        self._diagnoses = LineLog(
            path=path.parent / "logs" / "stats.jsonl",
            max_bytes=_DIAGNOSES_FILE_BYTES,
            max_secs=max_secs,
        )
        self._runs = LineLog(path=path.parent / RUNS, max_bytes=_RUNS_FILE_BYTES)
        self._began_at = wall_time()
        # Made with the first record, because a crawl needs no doctor.
        self._charts: History | None = None
        self._lock = asyncio.Lock()  # held while a thread writes
        # The last tasks of ``write`` and ``record``; None before the first one.
        self._writing: asyncio.Task[None] | None = None
        self._recording: asyncio.Task[None] | None = None
        self._failed = False  # whether an error was logged

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build for the stats file in JOBDIR, with the intervals in the settings."""
        jobdir = crawler.settings["JOBDIR"]
        if not jobdir:
            raise NotConfigured
        extension = cls(
            crawler=crawler,
            path=Path(jobdir) / "stats.json",
            max_secs=log_file_secs(crawler.settings),
        )
        intervals = {
            "STATS_FILE_INTERVAL_SECS": extension.write,
            "STATISTICS_INTERVAL_SECS": extension.record,
        }
        for setting, call in intervals.items():
            if every := number(crawler.settings, setting, at_least=0):
                while_crawling(crawler, call, every=every)
                if call == extension.record:  # ``write_last`` waits for it
                    crawler.signals.connect(call, signal=signals.spider_closed)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        self._crawler.signals.connect(self.write_last, signal=signals.spider_closed)
        self._crawler.signals.connect(self.write_end, signal=signals.engine_stopped)
        changed = changed_settings(self._crawler.settings)
        settings = {name: str(mask(name, value))[:_MAX_VALUE] for name, value, _ in changed}
        # Nothing of the run is older, such as what the doctor says.
        facts = {
            "at": round(self._began_at, 3),
            "settings": settings,
            "by": user_and_machine(),
            "boot": boot_id(),
        }
        self._writing = asyncio.ensure_future(self._write_run(facts))

    def record(self) -> None:
        """Append the doctor's diagnosis to the log, unless the last write is still running."""
        process = process_of(self._crawler)
        doctor = None if process is None else process.health.doctor
        if doctor is not None and (self._recording is None or self._recording.done()):
            stats = dict(self._crawler.stats.get_stats())
            self._recording = asyncio.ensure_future(
                self._write_in_thread(self._save_record, stats, doctor.record())
            )

    def write(self) -> None:
        """Start writing the current stats, unless the last write is still running."""
        if self._writing is None or self._writing.done():
            if (process := process_of(self._crawler)) is not None:
                process.health.publish()
            self._writing = asyncio.ensure_future(self._write())

    async def write_last(self) -> None:
        """Write the last stats, after any write that is still running."""
        for running in (self._writing, self._recording):
            if running is not None:
                await running
        await self._write()

    async def write_end(self) -> None:
        """Write the last stats, and why the run has ended."""
        await self.write_last()
        stats = self._crawler.stats
        reason = stats.get_value("finish/error") or stats.get_value("finish_reason", "unknown")
        await self._write_run({"reason": reason})

    async def _write_run(self, facts: dict[str, Any]) -> None:
        """Append a line with the time and these *facts* to the log of runs."""
        line = msgspec.json.encode({"at": round(wall_time(), 3), **facts})
        await self._write_in_thread(self._runs.append_once, line)

    async def _write(self) -> None:
        """Write the file."""
        stats = dict(self._crawler.stats.get_stats())  # a copy, because modules count in threads
        data = msgspec.json.encode(stats, enc_hook=str, order="sorted")
        await self._write_in_thread(self._save, data)

    async def _write_in_thread(self, write: Callable[..., None], *data: Any) -> None:
        """Call *write* with *data* in a thread. Log an OSError, once."""
        try:
            async with self._lock:
                await asyncio.to_thread(write, *data)
        except OSError as error:
            if not self._failed:
                logger.error(  # noqa: TRY400  # the message is enough
                    "The stats could not be written to %s: %s",
                    self._path,
                    error.strerror,
                    extra={"spider": self._crawler.spider},
                )
            self._failed = True

    def _save_record(self, stats: dict[str, Any], record: Record) -> None:
        """Append *record* to the log, and a sample to the charts. Runs in a thread."""
        from webcrawl.doctor.history import NAME, History  # noqa: PLC0415  # only with a doctor

        if self._charts is None:
            self._charts = History(self._path.with_name(NAME), at=self._began_at)
        at = round(wall_time(), 3)
        self._diagnoses.append_once(msgspec.json.encode({"at": at, "doctor": record}))
        free = shutil.disk_usage(self._path.parent).free
        self._charts.add(at, stats, record, lag=record.lag, memory=_memory(), **{"free disk": free})

    def _save(self, data: bytes) -> None:
        """Write *data* to the file. Runs in a thread."""
        write_atomic(self._path, msgspec.json.format(data, indent=2) + b"\n")


def _memory() -> int:
    """Return the number of bytes of memory that the process uses; 0 if it is not known."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    return 0
