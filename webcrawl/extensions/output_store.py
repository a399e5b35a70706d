"""File mover: moves finished WARC and Parquet files to OUTPUT_STORE.

The life of a file::

    growing (.open) ─► finished ─► stored, its size compared ─► deleted here

A thread looks for finished files and stores them one by one, so the crawl never waits for it. While
the store cannot be used, the files stay and are retried with growing pauses; this is logged once.
The next run moves what is left when the process ends or is killed. A file that was being stored
when the process died is stored again under the same name. Files that are not named as in
storage/growing_files.py stay, because their names do not show when they are finished.
"""

from __future__ import annotations

import asyncio
import dataclasses
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
from webcrawl.storage.growing_files import is_complete_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from webcrawl.storage.object_store import ObjectStore

logger = logging.getLogger(__name__)

_LOOK_EVERY_SECS = 2.0
_FIRST_PAUSE_SECS = 1.0
_LONGEST_PAUSE_SECS = 60.0
# At the end of the crawl: how often to try, and for how long in all.
_LAST_TRIES = 3
_FLUSH_SECS = 300.0
# These directories have many files, none of them written by modules.
_NOT_OF_MODULES = {"shards", "checkpoints", "logs", "critical", "damaged"}


class OutputStore:
    """Extension that runs a ``FileMover`` during the crawl and puts its counts into the stats."""

    def __init__(self, *, crawler: Crawler, mover: FileMover) -> None:
        self._crawler = crawler
        self._mover = mover

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        url = settings["OUTPUT_STORE"]
        if not url:
            raise NotConfigured
        from webcrawl.storage.object_store import ObjectStore  # noqa: PLC0415  # fsspec is optional

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
        mover = FileMover(store=store, files=_files_of(settings))
        extension = cls(crawler=crawler, mover=mover)
        crawler.signals.connect(mover.start, signal=signals.spider_opened)
        # Processing modules are closed by then, and have finished their last files.
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        while_crawling(crawler, extension._count, every=_LOOK_EVERY_SECS)
        return extension

    async def spider_closed(self) -> None:
        """Move the remaining files, for a bounded time."""
        left = await asyncio.to_thread(self._mover.finish, _FLUSH_SECS)
        if left:
            logger.warning(
                "Files left for the next run to move to OUTPUT_STORE: %d (%s)",
                left,
                self._mover.name,
                extra={"spider": self._crawler.spider},
            )
        self._count()

    def _count(self) -> None:
        for name, count in self._mover.counts().items():
            self._crawler.stats.set_value(name, count)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputFiles:
    """Finished files of a job: WARC files in *warc*, Parquet files of modules in *jobdir*.

    *folder* is the prefix of their names in the store: empty, or ending with a slash.
    """

    warc: Path | None
    jobdir: Path | None
    folder: str

    def __iter__(self) -> Iterator[tuple[Path, str]]:
        """Yield each file with its name in the store, oldest names first."""
        if self.warc is not None:
            for path in sorted(self.warc.glob("*.warc.gz")):
                if is_complete_file(path):
                    yield path, f"{self.folder}warc/{path.name}"
        if self.jobdir is None:
            return
        for directory in sorted(self.jobdir.iterdir()):
            if directory.is_dir() and directory.name not in _NOT_OF_MODULES:
                for path in sorted(directory.rglob("*.parquet")):
                    if is_complete_file(path):
                        yield path, f"{self.folder}{path.relative_to(self.jobdir).as_posix()}"


class FileMover:
    """Thread that moves *files* to *store* until ``finish``."""

    def __init__(self, *, store: ObjectStore, files: OutputFiles) -> None:
        self.name = store.name
        self._store = store
        self._files = files
        self._wake = threading.Event()
        self._is_last = False  # whether to finish when ``_wake`` is set
        self._hurry = threading.Event()  # set when no further file may be begun
        # A daemon: a store that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="output-store", daemon=True)
        self._moved = self._bytes = self._errors = self._pending = 0

    def start(self) -> None:
        """Begin to move files, including those that an earlier run has left."""
        self._thread.start()

    def finish(self, secs: float) -> int:
        """Move all files, for at most *secs*; return how many are left. Blocks."""
        if self._thread.ident is None:
            return 0
        self._is_last = True
        self._wake.set()
        self._thread.join(secs)
        self._hurry.set()
        return self._pending

    def counts(self) -> dict[str, int]:
        """Return the stats of this run, and the files now pending."""
        return {
            "output_store/files": self._moved,
            "output_store/bytes": self._bytes,
            "output_store/errors": self._errors,
            "output_store/pending": self._pending,
        }

    def _run(self) -> None:
        pause = 0.0
        tries = _LAST_TRIES
        while tries:
            is_last = self._is_last
            error = self._move_all()
            if error is None:
                if pause:
                    logger.info("OUTPUT_STORE %s can be used again", self.name)
                if is_last:
                    return
                pause = 0.0
                self._wake.wait(_LOOK_EVERY_SECS)
                continue
            self._errors += 1
            if not pause:
                logger.error("%s; finished files stay on this disk until it works", error)
            if not is_last:
                pause = min(2 * pause or _FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS)
                self._wake.wait(pause)
            else:
                tries -= 1
                pause = _FIRST_PAUSE_SECS
                self._hurry.wait(pause)

    def _move_all(self) -> OSError | None:
        """Move each finished file; return the error that stopped it."""
        try:
            waiting = list(self._files)
            self._pending = len(waiting)
            for path, name in waiting:
                if self._hurry.is_set():
                    break
                with suppress(
                    FileNotFoundError
                ):  # another process that uses the directory has moved it
                    self._bytes += self._store.move(path, name)
                    self._moved += 1
                self._pending -= 1
        except OSError as error:
            return error
        return None


def _files_of(settings: BaseSettings) -> OutputFiles:
    jobdir = Path(settings["JOBDIR"]) if settings["JOBDIR"] else None
    warc = settings["WARC_DIR"] or (jobdir / "warc" if jobdir else None)
    # Drones may write files with the same name.
    folder = f"{socket.gethostname()}-{jobdir.name}/" if settings["HIVE"] and jobdir else ""
    return OutputFiles(warc=Path(warc) if warc else None, jobdir=jobdir, folder=folder)
