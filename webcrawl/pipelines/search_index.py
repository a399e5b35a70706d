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
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from unicodedata import normalize

import msgspec

from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.errors import FatalError, StoreError
from webcrawl.pipelines.main_text import CONTENT_TYPES, PACKAGES, MainText, reader
from webcrawl.pipelines.module import ProcessingModule
from webcrawl.pipelines.search_fields import (
    LINK_FIELDS,
    PACKAGE,
    build_document,
    headings_of,
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


#: The fields of a document, as ``build_document`` takes them. A page that is left out has its URL.
_Fields: TypeAlias = dict[str, list[Any]]
_decode = msgpack_decoder(_Fields)


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
        copy = []
        if record and record.path and may_be_shown:
            copy.append(f"{record.offset} {record.path}")
        title = normalize("NFC", main_text.title)
        text = normalize("NFC", main_text.text)
        self._log_and_add(
            {
                "url": [page.url],
                "host": [host_of(page.url)],
                "type": ["text" if page.content_type == "text/plain" else "html"],
                "title": [title],
                "headings": [normalize("NFC", headings_of(main_text.markup))],
                "language": [main_text.language],
                "date": [datetime.fromtimestamp(page.fetched_at, UTC)],
                "copy": copy,
                text_field(main_text.language, text): [title, text],
            }
        )

    def gone(self, page: Page) -> None:
        """Remove *page* from the index."""
        self._log_and_add({"url": [page.url]})

    def _log_and_add(self, fields: _Fields) -> None:
        """Write *fields* to the log, then to the index; commit if the log is full."""
        self._log.append(msgspec.msgpack.encode(fields))
        self._add(fields)
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

    def _add(self, fields: _Fields) -> None:
        """Replace the document of a page, or delete it if *fields* has only its URL."""
        (url,) = fields["url"]
        with _as_store_errors():
            self._writer.delete_documents_by_term("url", url)
            if len(fields) > 1:
                old = stored_fields(self._index.searcher(), self._index.schema, url)
                links = {name: old[name] for name in LINK_FIELDS if name in old}
                self._writer.add_document(build_document(links | fields))


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
