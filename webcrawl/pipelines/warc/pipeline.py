"""Default processing module, which stores every page in WARC files.

Records are built, compressed and written in the module's thread. Pages that were passed to it
together are written with one call before any of them counts as done, so ``kill -9`` cannot lose a
page that counts as done. Pages that go through no processing module are also stored: robots.txt
files, and known documents, which may become revisit records.

Settings: WARC_DIR (default JOBDIR/warc), WARC_PREFIX of file names, WARC_MAX_FILE_BYTES (a file is
ended before the page that would exceed it, and at the first page after a day),
WARC_REVISIT_MAX_BYTES (limit of the table of payloads in JOBDIR/warc), WARC_DEDUP_FROM (earlier
crawls whose documents are not stored again), WARC_TEXT (store the main text, too), WARC_OPERATOR
and WARC_DESCRIPTION. Stats of this run: ``warc/records``, ``warc/bytes`` (compressed),
``warc/files``, ``warc/revisits``, ``warc/recovered`` (files that an earlier run left unfinished).

On opening, files that a killed run left behind are truncated to complete pages and get their final
names. After an ``OSError`` of ``write``, which ends the crawl, the file still has only complete
pages.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import scrapy

from webcrawl import __version__
from webcrawl.configuration.values import flag, whole_number, words
from webcrawl.errors import FatalError, require_package
from webcrawl.pipelines.main_text import PACKAGES, MainText, reader
from webcrawl.pipelines.module import ProcessingModule, output_directory
from webcrawl.pipelines.warc.earlier import collection_name, prepare
from webcrawl.pipelines.warc.payloads import StoredPayloads
from webcrawl.pipelines.warc.writer import WarcWriter
from webcrawl.signals import unprocessed

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from webcrawl.items import Page

logger = logging.getLogger(__name__)

DEFAULT_PREFIX = "webcrawl"

_PREFIX = re.compile(r"[A-Za-z0-9._-]+")
# A file is completed after a day.
_MAX_FILE_SECS = 86_400.0
_SPECIFICATIONS = "http://iipc.github.io/warc-specifications/specifications"


class WarcPipeline(ProcessingModule):
    """Processing module that writes each Page with *writer*.

    The writer finds and adds stored payloads in *payloads*, unless that is None. It also finds
    those of *sources*, in the table *earlier*.
    """

    statuses = frozenset()
    off_loop = True
    output = ("WARC_DIR", "warc")
    takes_refused = True
    name = "warc"

    def __init__(
        self,
        *,
        writer: WarcWriter,
        payloads: StoredPayloads | None,
        earlier: StoredPayloads | None,
        sources: list[Path],
    ) -> None:
        """Make the module, which opens, commits and closes the tables that *writer* uses.

        payloads: the table of this job's payloads, or None if documents are stored again each time.
        earlier: the table of payloads of earlier crawls, or None if there are no *sources*.
        sources: the jobs and indexes (WARC_DEDUP_FROM) from which *earlier* is made.
        """
        self._writer = writer
        self._payloads = payloads
        self._earlier = earlier
        self._sources = sources

    @classmethod
    def from_crawler(cls, crawler: Crawler, **_: Any) -> Self:
        """Make the module with its writer. Raises FatalError for bad settings."""
        settings = crawler.settings
        payloads = _payloads(settings)
        sources = [Path(name).absolute() for name in words(settings, "WARC_DEDUP_FROM")]
        if sources and not settings["JOBDIR"]:
            raise FatalError("WARC_DEDUP_FROM needs JOBDIR, for a table of the stored documents.")
        directory = Path(settings["JOBDIR"] or "") / "warc"
        # The limit does not matter, because nothing is added to this table during the crawl.
        earlier = StoredPayloads(directory=directory, max_bytes=0) if sources else None
        writer = WarcWriter(
            directory=output_directory(settings, *cls.output),
            prefix=_prefix(settings),
            max_file_bytes=whole_number(settings, "WARC_MAX_FILE_BYTES", at_least=1),
            warcinfo=_warcinfo(settings, sources),
            payloads=payloads,
            earlier=earlier,
            read=_reader(settings),
        )
        values = {"writer": writer, "payloads": payloads, "earlier": earlier, "sources": sources}
        module = super().from_crawler(crawler, **values)
        # Modules are made in the order in which they get pages: a dataset with stats comes first.
        if module._crawler.stats.get_value("modules/text_dataset/pages") is not None:
            logger.warning(
                "The text dataset cannot name the WARC records of its pages: give WarcPipeline a "
                "lower number than TextDataset in ITEM_PIPELINES."
            )
        crawler.signals.connect(module.store, signal=unprocessed)
        return module

    def open(self) -> None:
        """Recover the files of an earlier run, and prepare WARC_DEDUP_FROM.

        Raises FatalError for a source that cannot be used.
        """
        for line in self._writer.open():
            logger.info("%s", line)
        # Tables are opened last, because nothing would close them if the writer fails to open.
        if self._earlier is not None:
            self._earlier.open(prepare(self._earlier.directory, self._sources))
        if self._payloads is not None:
            self._payloads.open()
        self._update_stats()

    def process(self, page: Page) -> None:
        self._writer.add(page)

    async def store(self, page: Page, why: str) -> OSError | None:
        """Store *page*, which goes through no module; *why* is the reason. Handles ``unprocessed``.

        Returns a disk error instead of raising it, because the signal would log a traceback for
        each page.
        """
        try:
            await self.work(partial(self._writer.add, page, why))
        except OSError as error:
            return error
        return None

    def batch_done(self) -> None:
        self._writer.flush()
        self._writer.close_older(_MAX_FILE_SECS)
        if self._payloads is not None:
            self._payloads.commit()
        self._update_stats()

    async def sync(self) -> None:
        """fsync all pages written so far, in a different thread from the one that writes."""
        await asyncio.to_thread(self._writer.sync)

    def close(self) -> None:
        """Give the last file its final name. If that fails, the next run recovers the file."""
        try:
            self._writer.close()
        finally:
            for table in (self._payloads, self._earlier):
                if table is not None:
                    table.close()
            self._update_stats()

    def _update_stats(self) -> None:
        """Set the stats to the counts of the writer."""
        stats = self._crawler.stats
        for name, count in asdict(self._writer.written).items():
            stats.set_value(f"warc/{name}", count)


def _payloads(settings: BaseSettings) -> StoredPayloads | None:
    """Return the table of payloads, or None if there is no JOBDIR or it is disabled."""
    max_bytes = whole_number(settings, "WARC_REVISIT_MAX_BYTES", at_least=0)
    if not settings["JOBDIR"] or not max_bytes:
        return None
    return StoredPayloads(directory=Path(settings["JOBDIR"]) / "warc", max_bytes=max_bytes)


def _reader(settings: BaseSettings) -> Callable[[Page], MainText] | None:
    """Return the function that extracts the main text, or None without WARC_TEXT."""
    if not flag(settings, "WARC_TEXT"):
        return None
    for package in PACKAGES:
        require_package(package, feature="WARC_TEXT")
    return reader(settings)


def _prefix(settings: BaseSettings) -> str:
    """Return WARC_PREFIX. Raises FatalError if it is not valid."""
    prefix = settings.get("WARC_PREFIX", DEFAULT_PREFIX)
    if not isinstance(prefix, str) or _PREFIX.fullmatch(prefix) is None:
        raise FatalError(
            f"WARC_PREFIX must be letters, digits, dots, dashes or underscores, not {prefix!r}."
        )
    return prefix


def _warcinfo(settings: BaseSettings, sources: list[Path]) -> list[tuple[str, str]]:
    """Return the fields of the warcinfo record, with the same names as in Heritrix.

    Each of *sources* becomes a field ``requires``, a term of Dublin Core.
    """
    headers = settings.getdict("DEFAULT_REQUEST_HEADERS")
    senders = [value for name, value in headers.items() if name.lower() == "from"]
    optional_fields = [
        ("operator", ", ".join(_nonempty_values(settings, "WARC_OPERATOR", "CRAWLER_CONTACT"))),
        ("http-header-from", str(senders[0] if senders else "")),
        ("isPartOf", Path(settings["JOBDIR"] or "").name),
        ("description", ", ".join(_nonempty_values(settings, "WARC_DESCRIPTION"))),
    ]
    return [
        ("software", f"webcrawl/{__version__} (Scrapy {scrapy.__version__})"),
        ("hostname", socket.gethostname()),
        *((name, value) for name, value in optional_fields if value),
        *(("requires", collection_name(source)) for source in sources),
        ("format", "WARC File Format 1.1"),
        ("conformsTo", f"{_SPECIFICATIONS}/warc-format/warc-1.1/"),
        ("robots", "obey" if settings.getbool("ROBOTSTXT_OBEY") else "ignore"),
        ("http-header-user-agent", str(settings["USER_AGENT"] or "")),
    ]


def _nonempty_values(settings: BaseSettings, *names: str) -> list[str]:
    """Return the values of those settings in *names* that are not empty, each in one line."""
    return [" ".join(str(settings[name]).split()) for name in names if settings[name]]
