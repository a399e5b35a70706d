"""Full-text index of the pages for ``scrapy search``, made with Tantivy.

It can be searched while the crawl runs.

Files, in SEARCH_DIR (default: JOBDIR/search)::

    meta.json, *.idx, *.store, ...    the index, which Tantivy reads and writes
    uncommitted.log                   pages since the last commit (storage/record_log.py)

The index is committed with each checkpoint, and when the log is full. Invariant: each page passed
to ``process`` is in the index or in the log; ``open`` adds the pages in the log again. A page
replaces the previous entry of its URL in the index, so adding it twice does no harm; what was known
of the links to it (search_ranks.py) is kept. Pages with
``robots.noindex`` or flags are left out, and pages that have moved or are gone are removed. Tantivy
writes in its own thread, without holding the interpreter lock.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self
from unicodedata import normalize

import msgspec

from webcrawl.configuration.decoding import Epoch, msgpack_decoder
from webcrawl.errors import FatalError, StoreError
from webcrawl.pipelines.main_text import CONTENT_TYPES, PACKAGES, MainText, reader
from webcrawl.pipelines.module import ProcessingModule
from webcrawl.pipelines.search_fields import (
    LINK_FIELDS,
    PACKAGE,
    build_document,
    open_index,
    stored_fields,
    text_field,
)
from webcrawl.storage.atomic import make_directory, sync_paths
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError, RecordLog, read_records
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import tantivy
    from scrapy.crawler import Crawler

    from webcrawl.items import Page

# Memory for pages that are not yet in a file; Tantivy needs at least 15 MB.
_HEAP_BYTES = 32 << 20
MAX_LOG_BYTES = 64 << 20
#: Log of the pages that are not committed, in the directory of the index.
LOG = "uncommitted.log"
# How an error of the operating system appears in the messages of Tantivy.
_ERRNO = re.compile(r"(?:os error |code: )(\d+)")


class IndexedPage(msgspec.Struct, array_like=True):
    """Fields of a page in the index; a page that is *left_out* has only its URL."""

    url: str
    host: str = ""
    title: str = ""
    text: str = ""
    language: str = ""
    fetched_at: Epoch = 0.0
    left_out: bool = False
    truncated: bool = False
    headings: str = ""
    type: str = ""
    copy: str = ""


_decode = msgpack_decoder(IndexedPage)


class SearchIndex(ProcessingModule):
    """Processing module that adds pages to the search index."""

    content_types = CONTENT_TYPES
    off_loop = True
    output = ("SEARCH_DIR", "search")
    packages = (PACKAGE, *PACKAGES)
    takes_flagged = False
    text_reader = staticmethod(reader)  # change detection compares the same text

    _log: RecordLog
    _index: tantivy.Index
    _writer: tantivy.IndexWriter

    def __init__(self, *, read: Callable[[Page], MainText]) -> None:
        self._read = read

    @classmethod
    def from_crawler(cls, crawler: Crawler, **values: Any) -> Self:
        return super().from_crawler(crawler, read=reader(crawler.settings), **values)

    def open(self) -> None:
        """Open the index, and add the pages that were not committed when the last process died."""
        sync_paths(make_directory(self.directory))
        # The error has no errno if another process is writing to the index. One thread writes.
        with _as_store_errors(errno.EEXIST):
            self._index = open_index(self.directory, create=True)
            self._writer = self._index.writer(_HEAP_BYTES, 1)

        try:
            self._log = RecordLog.open(self.directory / LOG)
        except CorruptRecordError as error:
            raise FatalError(
                f"{error}: delete that file; the pages since the last commit will be missing."
            ) from error
        try:
            for _, payload in read_records(self._log.path):
                self._add(_decode(payload))
            self.sync()
        except BaseException:
            self._log.close()
            raise

    def process(self, page: Page) -> None:
        """Add *page* to the index, unless its robots directives forbid indexing."""
        if page.robots.noindex:
            self.stats.inc("left_out")
            self.gone(page)
            return
        main_text = self._read(page)
        record = page.warc_record
        may_be_shown = not (page.robots.noarchive or page.rights.left_out)
        copy = f"{record.offset} {record.path}" if record and record.path and may_be_shown else ""
        self._log_and_add(
            IndexedPage(
                url=page.url,
                host=host_of(page.url),
                title=normalize("NFC", main_text.title),
                text=normalize("NFC", main_text.text),
                language=main_text.language,
                fetched_at=page.fetched_at,
                truncated=main_text.truncated,
                headings=normalize("NFC", main_text.headings),
                type="text" if page.content_type == "text/plain" else "html",
                copy=copy,
            )
        )

    def gone(self, page: Page) -> None:
        """Remove *page* from the index."""
        self._log_and_add(IndexedPage(page.url, left_out=True))

    def _log_and_add(self, page: IndexedPage) -> None:
        """Write *page* to the log, then add it to the index; commit if the log is full."""
        self._log.append(msgspec.msgpack.encode(page))
        self._add(page)
        if self._log.size >= MAX_LOG_BYTES:
            self.sync()

    def sync(self) -> None:
        """Commit the index, which fsyncs it, and start a new log."""
        if self._log.size > HEADER_SIZE:
            with _as_store_errors():
                self._writer.commit()
                self._index.reload()
            self._log.close()
            self._log = RecordLog.open(self._log.path, size=0)
            self.stats.inc("commits")

    def close(self) -> None:
        self.sync()
        with _as_store_errors():
            self._writer.wait_merging_threads()
        self._log.close()

    def _add(self, page: IndexedPage) -> None:
        """Replace the entry of *page* in the index, or delete it if the page is left out."""
        with _as_store_errors():
            self._writer.delete_documents_by_term("url", page.url)
            if not page.left_out:
                old = stored_fields(self._index.searcher(), self._index.schema, page.url)
                fields = {name: old[name] for name in LINK_FIELDS if name in old} | {
                    "url": [page.url],
                    "host": [page.host],
                    "type": [page.type],
                    "title": [page.title],
                    "headings": [page.headings],
                    "language": [page.language],
                    "date": [datetime.fromtimestamp(page.fetched_at, UTC)],
                    "truncated": [page.truncated],
                    "copy": [page.copy] if page.copy else [],
                    text_field(page.language, page.text): [page.title, page.text],
                }
                self._writer.add_document(build_document(fields))


@contextmanager
def _as_store_errors(default_errno: int = errno.EIO) -> Iterator[None]:
    """Turn errors of Tantivy into StoreErrors.

    After an error, Tantivy's writer cannot be used any more, but the pages are in the log.
    *default_errno* is used if the error has no errno, for example because a disk error has ended
    the writer's thread.
    """
    try:
        yield
    except ValueError as error:
        match = _ERRNO.search(str(error))
        raise StoreError(int(match[1]) if match else default_errno, str(error)) from error
