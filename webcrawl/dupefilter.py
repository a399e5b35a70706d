"""The duplicate URL eliminator as Scrapy's ``DUPEFILTER_CLASS``.

With Scrapy's own scheduler, the filter owns an eliminator and answers each request exactly and
immediately. The invariant: once ``request_seen`` has returned False for a request, that request
counts as seen from then on, also when the crawl is killed and resumed with the same JOBDIR.

With the Mercator scheduler, this module only reads the settings: the scheduler submits whole pages
of links to the eliminator that `eliminator_factory` makes for its shard.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import RequestFingerprinterProtocol, referer_str

from webcrawl.configuration.memory_budget import size_of
from webcrawl.configuration.values import component, share, whole_number
from webcrawl.errors import FatalError
from webcrawl.seen import BloomEliminator, Eliminator
from webcrawl.seen.caches import cache_of
from webcrawl.storage.atomic import sync_paths, write_atomic
from webcrawl.storage.record_log import CorruptRecordError

logger = logging.getLogger(__name__)

# Defaults for a project that changes only DUPEFILTER_CLASS of a stock Scrapy crawl.
_ELIMINATOR = "webcrawl.seen.eliminator.DiskEliminator"
_CACHE = "clock"


@dataclass(kw_only=True, eq=False)
class MercatorDupeFilter(BaseDupeFilter):
    """``DUPEFILTER_CLASS``: an exact filter whose memory use does not grow with the crawl.

    It filters out requests whose fingerprint (REQUEST_FINGERPRINTER_CLASS) was seen before.

    ``open`` calls *build* to create the eliminator in *directory*; None stands for a temporary one.
    *snapshot_every* is the number of new requests between two snapshots, which limits how much is
    replayed on opening.

    Job directory contents
    ======================

    ``seen/`` holds the eliminator's files, see ``webcrawl.seen``, and ``seen/snapshot``, which
    names the live ones. Without JOBDIR a temporary directory is used and deleted at the end.
    """

    build: Callable[[Path, Executor], Eliminator]
    directory: Path | None
    snapshot_every: int
    fingerprinter: RequestFingerprinterProtocol
    stats: StatsCollector
    debug: bool

    def __post_init__(self) -> None:
        # Whether no filtered request was logged so far.
        self._logs_next = True
        # Number of new requests in this run.
        self._added = 0
        # None with a JOBDIR.
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        # None before ``open`` and after ``close``.
        self._eliminator: Eliminator | None = None
        # The last snapshot that was given to the worker thread; None before the first, and when its
        # end was noticed.
        self._writing: Future[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read the SEEN_* settings, JOBDIR and DUPEFILTER_DEBUG. Touches no disk.

        Raises FatalError, a ValueError, with one sentence for an invalid setting.
        """
        settings = crawler.settings
        jobdir = settings["JOBDIR"]
        assert crawler.request_fingerprinter is not None
        assert crawler.stats is not None
        return cls(
            build=eliminator_factory(settings),
            directory=Path(jobdir) / "seen" if jobdir else None,
            snapshot_every=size_of(settings, "SEEN_BUFFER_SIZE"),
            fingerprinter=crawler.request_fingerprinter,
            stats=crawler.stats,
            debug=settings.getbool("DUPEFILTER_DEBUG"),
        )

    @property
    def eliminator(self) -> Eliminator:
        """Return the eliminator; only valid between ``open`` and ``close``."""
        assert self._eliminator is not None, "not open"
        return self._eliminator

    def open(self) -> None:
        """Load the fingerprints that are saved in JOBDIR.

        Blocks. Raises CorruptRecordError and NewerFormatError.
        """
        if self.directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="webcrawl-seen-")
            self.directory = Path(self._temporary.name)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="seen")
        eliminator = self.build(self.directory, self._executor)

        try:
            self._snapshot_file = self.directory / "snapshot"
            snapshot = self._snapshot_file
            eliminator.open(snapshot.read_bytes() if snapshot.exists() else None)
        except BaseException:
            self._release()
            raise
        self._eliminator = eliminator

    def request_seen(self, request: Request) -> bool:
        """Return whether *request* was seen before, and mark it as seen."""
        digest = self.fingerprinter.fingerprint(request)
        # Fingerprints of eliminators are never 0.
        if not self.eliminator.add(int.from_bytes(digest[:8], "little") or 1):
            return True
        self._added += 1
        if self._added % self.snapshot_every == 0:
            self._start_snapshot()
        return False

    def _start_snapshot(self) -> None:
        """Start writing the seen fingerprints to disk in the worker thread.

        Does nothing while the previous snapshot is still being written. An error is logged and the
        next snapshot tries again; the previous snapshot stays valid.
        """
        eliminator = self.eliminator
        try:
            if self._writing is not None:
                if not self._writing.done():
                    return
                finished = self._writing
                self._writing = None
                finished.result()  # raises the error of the worker thread
                eliminator.forget()  # the files that only older snapshots name
            eliminator.merge()
            data = eliminator.snapshot()
            paths = eliminator.written()
            self._writing = self._executor.submit(_write_snapshot, self._snapshot_file, data, paths)
        except (OSError, CorruptRecordError):
            self.stats.inc_value("seen/snapshot/failed")
            logger.exception("The seen requests could not be saved; their log still has them")

    def close(self, reason: str) -> None:  # noqa: ARG002  # Scrapy passes it
        """Save the seen fingerprints and close the eliminator.

        Blocks for an fsync; after a failure the directory can still be resumed.
        """
        eliminator = self.eliminator
        try:
            for name, value in eliminator.stats().items():
                self.stats.set_value(name, value)
            if self._temporary is None:  # else the directory is deleted below
                if self._writing is not None:
                    wait([self._writing])  # it may have failed: the next snapshot replaces it
                data = eliminator.snapshot()
                paths = eliminator.written()
                _write_snapshot(self._snapshot_file, data, paths)
                eliminator.forget()
        finally:
            self._eliminator = None
            eliminator.close()
            self._release()

    def _release(self) -> None:
        self._executor.shutdown()
        if self._temporary is not None:
            self._temporary.cleanup()

    def log(self, request: Request, spider: Spider) -> None:
        """Count a filtered *request*; log the first, or all with DUPEFILTER_DEBUG."""
        if self.debug or self._logs_next:
            logger.debug(
                "Filtered duplicate request: %s (referer: %s)%s",
                request,
                referer_str(request),
                "" if self.debug else "; no more will be shown (see DUPEFILTER_DEBUG)",
                extra={"spider": spider},
            )
            self._logs_next = False
        self.stats.inc_value("dupefilter/filtered")


def _write_snapshot(file: Path, data: bytes, paths: list[Path]) -> None:
    """Write the snapshot *data* to *file*, after an fsync of the *paths* that it names."""
    sync_paths(paths)
    write_atomic(file, data)


def eliminator_factory(
    settings: BaseSettings, *, shards: int = 1
) -> Callable[[Path, Executor], Eliminator]:
    """Return a function that builds, but does not open, the eliminator chosen by *settings*.

    It is called with a directory and an executor. Each of the crawl's *shards* gets an equal part
    of a Bloom filter's capacity. Raises FatalError for an invalid setting; the function raises it
    if the class does not accept these arguments.
    """
    eliminator_class = component("SEEN_ELIMINATOR", settings.get("SEEN_ELIMINATOR") or _ELIMINATOR)
    values: dict[str, object]
    if isinstance(eliminator_class, type) and issubclass(eliminator_class, BloomEliminator):
        capacity = whole_number(settings, "SEEN_BLOOM_CAPACITY", at_least=1)
        values = {
            "capacity": max(1, capacity // shards),
            "error_rate": share(settings, "SEEN_BLOOM_ERROR_RATE"),
        }
    else:
        values = {
            "cache": cache_of(
                str(settings.get("SEEN_CACHE", _CACHE)),
                setting="SEEN_CACHE",
                size=size_of(settings, "SEEN_CACHE_SIZE"),
            ),
            "buffer_size": size_of(settings, "SEEN_BUFFER_SIZE"),
        }

    def build(path: Path, executor: Executor) -> Eliminator:
        try:
            return cast("Eliminator", eliminator_class(path=path, executor=executor, **values))
        except TypeError as error:
            raise FatalError(
                f"SEEN_ELIMINATOR is not a duplicate URL eliminator: {error}."
            ) from error

    return build
