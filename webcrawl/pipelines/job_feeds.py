"""Feeds of Scrapy's feed exporter in a job that can be resumed.

Pages that an earlier run exported are not fetched again, so a feed must keep what earlier runs
wrote. A file in a format that can be appended to is continued: ``-O`` overwrites it only when the
job begins it. Any other feed needs a new file in each run.

An item is in its file before its page is finished, and is fsynced before a checkpoint. If the
process is killed while it writes an item, the next run removes the incomplete item and fetches its
page again.

Job directory contents::

    feeds.json      the feeds that the job began, by absolute path: for each its last file, a
                    position in it up to which it was fsynced, and at which an item ends, and the
                    format
"""

from __future__ import annotations

import asyncio
import logging
import marshal
import pickletools
from collections import deque
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlparse

import msgspec
from scrapy import Spider, exporters, signals
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage, StdoutFeedStorage

from webcrawl.configuration.decoding import MOST, json_decoder
from webcrawl.configuration.secrets import masked_url
from webcrawl.errors import FatalError, RemoteStoreError
from webcrawl.pipelines.csv_feed import CsvExporter
from webcrawl.signals import checkpoint
from webcrawl.storage.atomic import sync_path, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

FILE = "feeds.json"
#: A function that reads the next item of a file.
SkipItem: TypeAlias = "Callable[[IO[bytes]], object]"
# Arguments of csv.writer with which a complete row may have an odd number of double quotes, or end
# without a line feed. ``_skip_row`` could not tell where such a row ends.
_UNREADABLE_DIALECT = {"dialect", "doublequote", "escapechar", "lineterminator", "quotechar"}


class _Feed(msgspec.Struct, array_like=True):
    """A feed in feeds.json."""

    # Empty until the job begins the feed.
    file: str = ""
    end: int = 0
    # Empty if an earlier version began the feed.
    format: str = ""


_decode = json_decoder(dict[str, _Feed])


class JobFeeds:
    """Makes *exporter* continue the files of the job in *jobdir*.

    *suffix* is added to the names of files: the processes of a hive must not share them. *fail*
    ends the crawl because of an error.
    """

    def __init__(
        self, exporter: FeedExporter, jobdir: Path, suffix: str, fail: Callable[[Exception], None]
    ) -> None:
        """Prepare to continue feeds; nothing is changed before ``open``.

        exporter: Scrapy's exporter, with the feeds of FEEDS.
        jobdir: the directory of the job, in which feeds.json is kept.
        suffix: added to the names of files, as the processes of a hive must not share them.
        fail: ends the crawl because of an error.
        """
        self._exporter = exporter
        # The open files of the exporter as of the last ``_flush``.
        self._slots = exporter.slots
        self._path = jobdir / FILE
        self._suffix = suffix
        self._fail = fail
        # The feeds that later runs continue, by their file in FEEDS; as in feeds.json.
        self._feeds: dict[str, _Feed] = {}
        # Files to which items were written since the last checkpoint.
        self._unsynced: set[str] = set()

    def open(self, *, is_resumed: bool) -> None:
        """Decide which files are continued, and remove incomplete items at their ends.

        To be called before the exporter opens a file. Blocks. Raises FatalError if a feed cannot be
        written or continued, or the job is new and its next run could not continue a feed. Raises
        OSError and UndecodableError because of the job directory.
        """
        exporter = self._exporter
        # A job of an earlier version and a copy have no record: they may have begun all feeds.
        has_record = self._path.exists()
        if is_resumed and has_record:
            # An earlier version recorded the names as they were written.
            feeds = _decode(self._path.read_bytes())
            self._feeds = {_file_of(name): feed for name, feed in feeds.items()}

        for uri, options in [*exporter.feeds.items()]:
            storage = exporter.storages.get(urlparse(uri).scheme, FileFeedStorage)
            path = Path(FileFeedStorage(uri).path)
            is_device = path.exists() and not (path.is_file() or path.is_dir())
            if storage is StdoutFeedStorage or is_device:
                continue  # or a pipe

            stem = uri.removesuffix(path.suffix) + self._suffix
            name = stem + path.suffix
            form = options["format"]
            cls = exporter.exporters[form]
            skip_item = _item_reader(cls, options)
            if storage is not FileFeedStorage or skip_item is None:
                name = _name_for_each_run(stem, path.suffix, is_resumed=is_resumed)
            else:
                name = _file_of(name)
                feed = self._feeds.setdefault(name, _Feed())
                if is_resumed and not has_record:
                    feed.file = name
                    if skip_item is _skip_row:
                        # Rows may follow one that was cut off: quotes do not show where they end.
                        skip_item = partial(_skip_line, ending=b"\r\n")
                if feed.file:
                    if feed.format and exporter.exporters.get(feed.format) is not cls:
                        raise FatalError(
                            f"The feed {feed.file} has the format {feed.format}, not {form}: "
                            f"choose {feed.format}, or name another file."
                        )
                    options["overwrite"] = False
                feed.format = form
                path = Path(feed.file or name)
                if "%(" not in str(path):
                    start = feed.end if feed.file else MOST
                    feed.end = remove_incomplete_item(path, start, skip_item, is_own=has_record)
                    if feed.end and not options.get("overwrite") and issubclass(cls, CsvExporter):
                        kwargs = options["item_export_kwargs"]
                        cls(
                            BytesIO(),
                            fields_to_export=options["fields"],
                            encoding=options["encoding"],
                            **kwargs,
                        ).check_columns(path)
            exporter.feeds[name] = exporter.feeds.pop(uri)
            exporter.filters[name] = exporter.filters.pop(uri)

        self._save()
        connect = exporter.crawler.signals.connect
        exporter.crawler.signals.disconnect(exporter.item_scraped, signal=signals.item_scraped)
        connect(self._export, signal=signals.item_scraped, weak=False)
        connect(self._flush, signal=signals.spider_opened, weak=False)
        connect(self._flush, signal=signals.item_scraped, weak=False)
        connect(self._sync, signal=checkpoint, weak=False)

    def _export(self, item: object, spider: Spider) -> None:
        """Have the exporter write *item*, and end the crawl if it cannot."""
        try:
            self._exporter.item_scraped(item, spider)
        except OSError as error:
            # An item that follows would continue the line of one that was cut off.
            disconnect = self._exporter.crawler.signals.disconnect
            disconnect(self._export, signal=signals.item_scraped, weak=False)
            self._fail_because(error, *[slot.uri for slot in self._exporter.slots])

    def _flush(self) -> None:
        """Write buffered items to their files, so that they outlive this process.

        Records each file in feeds.json before its first item is written, so that the next run
        continues it. A file that overwrites what another crawl left is only recorded after its
        first item: if the process dies before that, the next run must overwrite the file, too.
        """
        # A slot whose batch has just been completed is no longer among those of the exporter.
        for slot in dict.fromkeys([*self._slots, *self._exporter.slots]):
            if not isinstance(slot.storage, FileFeedStorage):
                continue
            feed = self._feeds.get(slot.uri_template)  # None if each run makes a new file
            path = slot.storage.path
            file = slot.file  # None until the first item
            overwrites = slot.feed_options.get("overwrite")
            try:
                if file is not None and not file.closed:
                    file.flush()
                    self._unsynced.update({path} if feed else ())
                if feed is None or (overwrites and file is None and not feed.file):
                    continue
                if feed.file != path:  # the feed begins this file
                    # feeds.json will not name the feed's last file any more.
                    _sync_files(self._unsynced)
                    keeps = not overwrites and Path(path).exists()
                    feed.file = path
                    feed.end = Path(path).stat().st_size if keeps else 0
                    self._save()
            except OSError as error:
                self._fail_because(error, path)
        self._slots = self._exporter.slots

    def _fail_because(self, error: OSError, *uris: str) -> None:
        """End the crawl because of *error*, raised by one of the feeds *uris*."""
        feeds = masked_url(" or ".join(uris))
        self._fail(RemoteStoreError(f"The feed {feeds} cannot be written ({error})"))

    async def _sync(self) -> None:
        """fsync the items that were written since the last checkpoint."""
        paths = self._unsynced
        self._unsynced = set()
        await asyncio.to_thread(_sync_files, paths)

    def _save(self) -> None:
        write_atomic(self._path, msgspec.json.encode(self._feeds))


def open_feeds(
    crawler: Crawler,
    jobdir: Path,
    suffix: str,
    fail: Callable[[Exception], None],
    *,
    is_resumed: bool,
) -> None:
    """Make the feeds of *crawler* continue the files of the job in *jobdir* (JOB_FEEDS).

    suffix: added to the names of files, as the processes of a hive must not share them.
    fail: ends the crawl because of an error.
    is_resumed: whether the job has run before.

    If a new job has no feeds, that is recorded too: a job without a record may have begun all
    feeds. Raises the errors of ``JobFeeds.open``.
    """
    exporter = crawler.get_extension(FeedExporter)
    if exporter is not None:
        JobFeeds(exporter, jobdir, suffix, fail).open(is_resumed=is_resumed)
    elif not is_resumed:
        write_atomic(jobdir / FILE, b"{}")


def _file_of(uri: str) -> str:
    """Return the file of the feed *uri*, however its path is written."""
    return str(Path(FileFeedStorage(uri).path).resolve())


def _sync_files(paths: Iterable[str]) -> None:
    """fsync the files *paths* and the directories that name them."""
    for path in map(Path, paths):
        sync_path(path)
        sync_path(path.parent)


def _name_for_each_run(stem: str, extension: str, *, is_resumed: bool) -> str:
    """Return a name for a feed that cannot be continued, with which each run makes a new file.

    If the feed has another name, raises FatalError in a new job, and logs a warning in a resumed
    one.
    """
    given = stem + extension
    if "time)s" in given:  # %(time)s or %(batch_time)s
        return given
    name = f"{stem}-%(time)s{extension}"
    sentence = masked_url(
        f"The feed {given} cannot be continued when the crawl is resumed: write to a "
        f"local file in JSON lines, such as {Path(stem).name}.jsonl, or to a new file in each run, "
        f"{name}."
    )
    if not is_resumed:
        raise FatalError(sentence)
    logger.warning("%s This run takes the latter", sentence)
    return name


def _item_reader(exporter: type, options: Mapping[str, Any]) -> SkipItem | None:
    """Return the function that reads an item of the class *exporter*, for a feed with *options*.

    It raises an error for an incomplete item. Returns None if the ends of items cannot be found in
    the file, so that nothing can be appended to it when the crawl is resumed.
    """
    # Items are found by the byte of a line feed. In UTF-16 this byte is also a part of letters.
    # Only what follows the letter x is compared, because encodings may begin with a mark.
    has_ascii_lines = "x\n".encode(options["encoding"] or "utf-8").endswith(b"x\n")
    has_unreadable_rows = _UNREADABLE_DIALECT & options["item_export_kwargs"].keys()
    is_compressed = "postprocessing" in options
    if has_unreadable_rows or is_compressed or not has_ascii_lines:
        return None
    skippers = (skip for base, skip in _SKIPPERS.items() if issubclass(exporter, base))
    return next(skippers, None)


def remove_incomplete_item(path: Path, start: int, skip_item: SkipItem, *, is_own: bool) -> int:
    """Remove an incomplete item from the end of the file *path*; return where the last one ends.

    An item begins at *start*, and *skip_item* reads one. Blocks. Nothing is removed from a file
    that does not consist of items or, unless *is_own*, does not have a complete item: another
    program may have written it. Raises FatalError if the file could not be written, even if it
    does not exist yet: its items would be lost.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with path.open("ab+") as file:
            size = path.stat().st_size
            end = file.seek(min(start, size))
            # Skip complete items until the end of the file, or until something that is not an item.
            with suppress(EOFError, StopIteration, TypeError, ValueError):
                while True:
                    skip_item(file)
                    end = file.tell()
            if end == start and not is_own:
                end = size  # no complete item: keep what another program may have written
            # The last read came to the end, so what follows *end* is the beginning of an item.
            if file.tell() == size:
                file.truncate(end)
        sync_path(path)
        if is_new:  # it was only made to see whether it can be written
            path.unlink()
    except OSError as error:
        raise FatalError(
            f"The feed {path} cannot be written ({error.strerror}): correct that, or name another "
            "file."
        ) from error
    return end


def _skip_line(file: IO[bytes], ending: bytes = b"\n") -> None:
    next(line for line in file if line.endswith(ending))


def _skip_row(file: IO[bytes]) -> None:
    quotes = 0
    for line in file:
        quotes += line.count(b'"')
        if quotes % 2 == 0 and line.endswith(b"\n"):
            return
    raise EOFError


# None of them executes anything.
_SKIPPERS: Mapping[type, SkipItem] = {
    exporters.JsonLinesItemExporter: _skip_line,
    exporters.CsvItemExporter: _skip_row,
    exporters.PickleItemExporter: lambda file: deque(pickletools.genops(file), 0),
    exporters.MarshalItemExporter: marshal.load,
}
