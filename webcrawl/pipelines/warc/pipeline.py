"""WARC pipeline: the default processing module, which stores every page.

Pages are built into records, compressed and written by one worker thread. Pages that arrive while
it works are handed over together when it is done (group commit): a hand-over costs 90 µs of CPU,
and under load there is one for ten pages. ``process_item`` returns when ``write`` has handed its
page to the operating system, so a page counts as done only when kill -9 cannot lose it, and there
are never more pages here than the engine lets through. Pages that no processing module gets are
stored, too: robots.txt, and documents that were seen before, if need be as revisit records.

Settings: WARC_DIR (default JOBDIR/warc), WARC_PREFIX of file names, WARC_MAX_FILE_BYTES (a file is
ended before the page that would exceed it), WARC_REVISIT_MAX_BYTES of the table of payloads in
JOBDIR/warc, WARC_OPERATOR and WARC_DESCRIPTION. Stats, of this run: ``warc/records``,
``warc/bytes`` (compressed), ``warc/files``, ``warc/revisits``, ``warc/recovered`` (files that an
earlier run left unfinished).

On opening, files that a killed run left behind are cut to whole pages and given their final names.
An ``OSError`` of ``write`` reaches the engine as the item's error; the file stays whole.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import scrapy

from webcrawl import __version__
from webcrawl.configuration.values import whole
from webcrawl.errors import FatalError, refusal
from webcrawl.items import Page
from webcrawl.pipelines.warc.payloads import StoredPayloads
from webcrawl.pipelines.warc.writer import WarcWriteError, WarcWriter
from webcrawl.signals import checkpoint, unprocessed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

logger = logging.getLogger(__name__)

DEFAULT_PREFIX: Final = "webcrawl"
DEFAULT_MAX_FILE_BYTES: Final = 1 << 30  # the size that the WARC standard recommends (annex C)
REVISIT_MAX_BYTES: Final = 2 << 30  # 20 million payloads

_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]+")
_SPECIFICATIONS: Final = "http://iipc.github.io/warc-specifications/specifications"


class WarcPipeline:
    """Writes each Page with *writer*; other items pass untouched."""

    def __init__(
        self,
        *,
        writer: WarcWriter,
        payloads: StoredPayloads | None,
        directory: Path,
        stats: StatsCollector,
    ) -> None:
        self._writer = writer
        self._payloads = payloads
        self._directory = directory
        self._stats = stats
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="warc")
        self._waiting: list[tuple[Page, str, asyncio.Future[None]]] = []
        self._busy = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it from the WARC settings; FatalError with one sentence if they are wrong."""
        settings = crawler.settings
        directory = _directory(settings)
        payloads = _payloads(settings)
        writer = WarcWriter(
            directory=directory,
            prefix=_prefix(settings),
            max_file_bytes=whole(
                settings, "WARC_MAX_FILE_BYTES", DEFAULT_MAX_FILE_BYTES, at_least=1
            ),
            warcinfo=_warcinfo(settings),
            payloads=payloads,
        )
        assert crawler.stats is not None
        pipeline = cls(writer=writer, payloads=payloads, directory=directory, stats=crawler.stats)
        crawler.signals.connect(pipeline.sync, signal=checkpoint)
        crawler.signals.connect(pipeline.store, signal=unprocessed)
        return pipeline

    async def open_spider(self) -> None:
        """Recover the files of an earlier run; FatalError if the directory cannot be used."""
        try:
            recovered = await self._in_worker(self._open)
        except OSError as error:
            self._executor.shutdown()
            sentence = (
                f"WARC_DIR {self._directory} cannot be used: {error.strerror}; choose another "
                "WARC_DIR or JOBDIR."
            )
            raise refusal(error, self._directory, sentence, name="WARC_DIR") from error
        for line in recovered:
            logger.info("%s", line)
        self._count()

    async def process_item(self, item: Any) -> Any:
        """Store *item* if it is a Page; returns it when it has been written.

        WarcWriteError, an OSError, if it could not be written.
        """
        if isinstance(item, Page):
            await self.store(item)
        return item

    async def store(self, page: Page, why: str = "") -> None:
        """As ``process_item``. Handler of ``unprocessed``, which says *why*."""
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((page, why, written))
        if not self._busy:
            self._hand_over()
        await written

    async def sync(self) -> OSError | None:
        """fsync all pages written so far. Returns the error if that fails, also for a file that
        could not be ended. Handler of ``checkpoint``."""
        try:
            await asyncio.to_thread(self._writer.sync)
        except OSError as error:
            return error
        return None

    async def close_spider(self) -> None:
        """Give the last file its final name. If that fails, the next run recovers the file, and the
        crawl's last checkpoint is refused."""
        try:
            await self._in_worker(self._close)
        except WarcWriteError as error:
            logger.error("%s could not be ended (%s)", error.path, error.strerror)  # noqa: TRY400
        finally:
            self._executor.shutdown()
            self._count()

    def _hand_over(self) -> None:
        """Hand all waiting pages to the worker thread."""
        batch, self._waiting = self._waiting, []
        waiters = [written for *_, written in batch]
        try:
            done = self._in_worker(partial(self._write, [(page, why) for page, why, _ in batch]))
        except RuntimeError as error:  # closed, or no thread to be had
            for waiter in waiters:
                waiter.set_exception(error)
            return
        self._busy = True
        done.add_done_callback(partial(self._handed_back, waiters))

    def _handed_back(
        self, waiters: list[asyncio.Future[None]], done: asyncio.Future[list[Exception | None]]
    ) -> None:
        self._busy = False
        if self._waiting:
            self._hand_over()
        for waiter, error in zip(waiters, done.result(), strict=True):
            if waiter.cancelled():
                continue  # its waiter was cancelled; the page was written
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        self._count()

    def _open(self) -> list[str]:
        if self._payloads is not None:
            self._payloads.open()
        return self._writer.open()

    def _close(self) -> None:
        if self._payloads is not None:
            self._payloads.close()
        self._writer.close()

    def _write(self, pages: Sequence[tuple[Page, str]]) -> list[Exception | None]:
        """In the worker thread: write the pages; returns the error of each, None if it was
        written."""
        outcomes: list[Exception | None] = []
        for page, why in pages:
            try:
                self._writer.write(page, why)
            except Exception as error:  # noqa: BLE001  raised where the page came from
                outcomes.append(error)
            else:
                outcomes.append(None)
        if self._payloads is not None:
            self._payloads.commit()
        return outcomes

    def _in_worker(self, call: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._executor, call)

    def _count(self) -> None:
        written = self._writer.written
        self._stats.set_value("warc/records", written.records)
        self._stats.set_value("warc/bytes", written.bytes)
        self._stats.set_value("warc/files", written.files)
        self._stats.set_value("warc/recovered", written.recovered)
        self._stats.set_value("warc/revisits", written.revisits)


def _directory(settings: BaseSettings) -> Path:
    directory = settings["WARC_DIR"]
    if directory:
        return Path(directory)
    if not settings["JOBDIR"]:
        raise FatalError("WARC_DIR is not set, nor JOBDIR, beneath which it would be.")
    return Path(settings["JOBDIR"]) / "warc"


def _payloads(settings: BaseSettings) -> StoredPayloads | None:
    max_bytes = whole(settings, "WARC_REVISIT_MAX_BYTES", REVISIT_MAX_BYTES, at_least=0)
    if not settings["JOBDIR"] or not max_bytes:
        return None
    return StoredPayloads(directory=Path(settings["JOBDIR"]) / "warc", max_bytes=max_bytes)


def _prefix(settings: BaseSettings) -> str:
    prefix = settings.get("WARC_PREFIX", DEFAULT_PREFIX)
    if not isinstance(prefix, str) or _PREFIX.fullmatch(prefix) is None:
        raise FatalError(
            f"WARC_PREFIX must be of letters, digits, dots, dashes and underscores, not {prefix!r}."
        )
    return prefix


def _warcinfo(settings: BaseSettings) -> list[tuple[str, str]]:
    """What archives are told of the crawl, as Heritrix has it: who, what, with which software."""
    headers = settings.getdict("DEFAULT_REQUEST_HEADERS")
    senders = [value for name, value in headers.items() if name.lower() == "from"]
    named = [
        ("operator", ", ".join(_given(settings, "WARC_OPERATOR", "CRAWLER_CONTACT"))),
        ("http-header-from", str(senders[0] if senders else "")),
        ("isPartOf", Path(settings["JOBDIR"] or "").name),
        ("description", ", ".join(_given(settings, "WARC_DESCRIPTION"))),
    ]
    return [
        ("software", f"webcrawl/{__version__} (Scrapy {scrapy.__version__})"),
        ("hostname", socket.gethostname()),
        *((name, value) for name, value in named if value),
        ("format", "WARC File Format 1.1"),
        ("conformsTo", f"{_SPECIFICATIONS}/warc-format/warc-1.1/"),
        ("robots", "obey" if settings.getbool("ROBOTSTXT_OBEY") else "ignore"),
        ("http-header-user-agent", str(settings["USER_AGENT"] or "")),
    ]


def _given(settings: BaseSettings, *names: str) -> list[str]:
    return [str(settings[name]) for name in names if settings[name]]
