"""File mover: moves finished WARC and Parquet files to OUTPUT_STORE.

The life of a file::

    being written (.open) ─► finished ─► uploaded, size compared ─► deleted here

A thread looks for finished files and uploads them one by one, so the crawl never waits for it.
While the store cannot be used, the files stay here, and uploading is retried with increasing
pauses; this is logged once. Files that are left when the process ends or is killed are moved by the
next run. A file that was being uploaded when the process died is uploaded again under the same
name. Files that do not follow the naming scheme of pipelines/growing_files.py stay, because their
names do not show when they are finished.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.errors import FatalError, ObjectStoreError
from webcrawl.extensions.periodic import while_crawling
from webcrawl.pipelines.growing_files import is_complete_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from webcrawl.storage.object_store import ObjectStore

logger = logging.getLogger(__name__)

_INTERVAL_SECS = 2.0
_FIRST_PAUSE_SECS = 1.0
_LONGEST_PAUSE_SECS = 60.0
# At the end of the crawl: the number of tries, and the maximum time for all of them.
_LAST_TRIES = 3
_FLUSH_SECS = 300.0
# Directories with many files that do not come from modules.
_OTHER_DIRECTORIES = {"shards", "checkpoints", "logs", "critical", "damaged"}


class OutputStore:
    """Extension that runs a ``FileMover`` during the crawl and puts its counts into the stats."""

    def __init__(self, *, crawler: Crawler, mover: FileMover) -> None:
        self._crawler = crawler
        self._mover = mover

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build from OUTPUT_STORE. Raises FatalError if the store cannot be used."""
        settings = crawler.settings
        url = settings["OUTPUT_STORE"]
        if not url:
            raise NotConfigured
        from webcrawl.storage.object_store import ObjectStore  # noqa: PLC0415  # only for this extension

        try:
            options = settings.getdict("OUTPUT_STORE_OPTIONS")
            store = ObjectStore(url, setting="OUTPUT_STORE", options=options)
        except ObjectStoreError as error:
            raise FatalError(f"{error}.") from error
        jobdir = settings["JOBDIR"]
        if (
            store.directory
            and jobdir
            and store.directory.resolve().is_relative_to(Path(jobdir).resolve())
        ):
            raise FatalError(f"OUTPUT_STORE {url} is inside JOBDIR: choose a place outside it.")
        # The store may be a directory. Inside JOBDIR its files would be moved again and again.
        mover = FileMover(store=store, settings=settings)
        extension = cls(crawler=crawler, mover=mover)
        crawler.signals.connect(mover.start, signal=signals.spider_opened)
        # Processing modules are closed by then, so their last files are finished.
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        while_crawling(crawler, extension._update_stats, every=_INTERVAL_SECS)
        return extension

    async def spider_closed(self) -> None:
        """Move the remaining files, for a bounded time."""
        remaining = await asyncio.to_thread(self._mover.finish, _FLUSH_SECS)
        if remaining:
            logger.warning(
                "Files left for the next run to move to OUTPUT_STORE: %d (%s)",
                remaining,
                self._mover.name,
                extra={"spider": self._crawler.spider},
            )
        self._update_stats()

    def _update_stats(self) -> None:
        """Copy the mover's counts to the stats."""
        for name, count in self._mover.counts().items():
            self._crawler.stats.set_value(name, count)


def finished_files(settings: BaseSettings) -> Iterator[tuple[Path, str]]:
    """Yield the finished files of a job, each with its name in the store; oldest first by name.

    These are the WARC files, and the Parquet files that modules write in the job directory.
    """
    jobdir = Path(settings["JOBDIR"]) if settings["JOBDIR"] else None
    warc = settings["WARC_DIR"] or (jobdir / "warc" if jobdir else None)
    # Drones may write files with the same name.
    folder = f"{socket.gethostname()}-{jobdir.name}/" if settings["HIVE"] and jobdir else ""

    if warc:
        for path in sorted(Path(warc).glob("*.warc.gz")):
            if is_complete_file(path):
                yield path, f"{folder}warc/{path.name}"
    if jobdir is None:
        return

    for directory in sorted(jobdir.iterdir()):
        if directory.is_dir() and directory.name not in _OTHER_DIRECTORIES:
            for path in sorted(directory.rglob("*.parquet")):
                if is_complete_file(path):
                    yield path, f"{folder}{path.relative_to(jobdir).as_posix()}"


class FileMover:
    """Moves the files of a job to *store*, in a thread, until ``finish`` is called."""

    def __init__(self, *, store: ObjectStore, settings: BaseSettings) -> None:
        """Prepare to move the files of the job with *settings*; ``start`` starts the thread."""
        self.name = store.name  # of the store, for messages
        self._store = store
        self._settings = settings
        # Set by ``finish``, to end the thread's wait between two passes over the files.
        self._wake = threading.Event()
        # Whether the next pass over the files is the last. ``finish`` sets it.
        self._is_last = False
        # Set when the time of ``finish`` is over, so that no other file is started.
        self._must_end = threading.Event()
        # A daemon thread, because a store that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="output-store", daemon=True)
        # Counts of this run: files and bytes moved, passes that failed, and files left to move.
        self._moved = 0
        self._bytes = 0
        self._errors = 0
        self._pending = 0

    def start(self) -> None:
        """Start moving files, including those that an earlier run has left."""
        self._thread.start()

    def finish(self, secs: float) -> int:
        """Move all files, within *secs* seconds, and end. Return how many are left. Blocks."""
        if self._thread.ident is None:
            return 0
        self._is_last = True
        self._wake.set()
        self._thread.join(secs)
        self._must_end.set()
        return self._pending

    def counts(self) -> dict[str, int]:
        """Return the counts of this run and the number of pending files, keyed by stat."""
        return {
            "output_store/files": self._moved,
            "output_store/bytes": self._bytes,
            "output_store/errors": self._errors,
            "output_store/pending": self._pending,
        }

    def _run(self) -> None:
        """Move files until the last pass. Runs in the thread.

        When the store fails, the pauses between passes double. The last pass has three tries.
        """
        pause = 0.0  # before the next pass; 0 if the store works
        tries = _LAST_TRIES
        while tries:
            is_last = self._is_last  # read before the pass, which may miss files of later
            error = self._move_all()
            if error is None:
                if pause:
                    logger.info("OUTPUT_STORE %s can be used again", self.name)
                if is_last:
                    return
                pause = 0.0
                self._wake.wait(_INTERVAL_SECS)
                continue

            self._errors += 1
            if not pause:
                logger.error("%s; finished files stay on this disk until it works", error)
            if not is_last:
                pause = min(2 * pause or _FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS)
                self._wake.wait(pause)
            else:  # ``_wake`` is set by now, so this waits for the other event
                tries -= 1
                pause = _FIRST_PAUSE_SECS
                self._must_end.wait(pause)

    def _move_all(self) -> OSError | None:
        """Move all finished files; return the error that stopped this, or None."""
        try:
            waiting = list(finished_files(self._settings))
            self._pending = len(waiting)
            for path, name in waiting:
                if self._must_end.is_set():
                    break
                # Another process that uses the directory may have moved the file.
                with suppress(FileNotFoundError):
                    self._bytes += self._store.move(path, name)
                    self._moved += 1
                self._pending -= 1
        except OSError as error:
            return error
        return None
