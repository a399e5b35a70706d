"""Text dataset: the main text of each page, with fields by which pages can be selected.

Files in TEXT_DIR (default: JOBDIR/text), depending on the setting TEXT_FORMAT::

    part-*.parquet                    parquet; pipelines/parquet.py explains how they grow
    text.jsonl, text-NNNNNN.jsonl     jsonl; see storage/line_log.py
    _left_out.jsonl                   pages whose owners refuse the purpose of the crawl

A page that is fetched twice, for example after ``kill -9``, has two rows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import msgspec

from webcrawl.configuration.values import choice, flag
from webcrawl.errors import require_package
from webcrawl.pipelines.datasets.addresses import replace_addresses
from webcrawl.pipelines.datasets.minhash import minhash
from webcrawl.pipelines.datasets.signals import Signals, signals_of
from webcrawl.pipelines.main_text import CONTENT_TYPES, PACKAGES, MainText, reader
from webcrawl.pipelines.module import ProcessingModule
from webcrawl.pipelines.page_score import ScoreModel
from webcrawl.pipelines.parquet import ParquetFiles, schema_of
from webcrawl.pipelines.warc.records import new_record_id
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.line_log import LineLog
from webcrawl.storage.lock import DirectoryLock
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from webcrawl.items import Page

MAX_JSONL_BYTES = 1 << 30
# The columns in their order, those of ``Signals`` last, and the types of those that are not text.
_NAMES = (
    "url host fetched_at status content_type title language text truncated robots "
    "robots_line licences tdm_reservation tdm_policy language_score language_source encoding "
    "encoding_source flags rights id dump date file_path warc_offset warc_length minhash "
    "email_addresses ip_addresses score markdown"
)
_COLUMNS = " ".join((_NAMES, *Signals.__struct_fields__))
_TYPES = {
    "fetched_at": "time",
    "status": "int16",
    "truncated": "bool_",
    "language_score": "float64",
    "warc_offset": "int64",
    "warc_length": "int64",
    "minhash": "uint64s",
    "email_addresses": "int64",
    "ip_addresses": "int64",
    "score": "int16",
    **{name: f"{kind}64" for name, kind in Signals.__annotations__.items()},
    **dict.fromkeys(("robots", "licences"), "strings"),
}


class TextDataset(ProcessingModule):
    """Processing module that writes the main text of pages as Parquet or JSON lines.

    *read* extracts the main text of a page.
    """

    content_types = CONTENT_TYPES
    off_loop = True
    output = ("TEXT_DIR", "text")
    packages = PACKAGES
    takes_flagged = False
    text_reader = staticmethod(reader)  # change detection compares the same text

    _rows: ParquetFiles | LineLog

    def __init__(
        self,
        *,
        is_parquet: bool,
        read: Callable[[Page], MainText],
        complaints: str,
        replaces_addresses: bool,
        model: ScoreModel | None,
    ) -> None:
        """Make the module for Parquet files or, unless *is_parquet*, for JSON lines.

        *read* extracts the main text of a page. *complaints* is the URL or email address at which
        site owners reach the operator, "" if there is none. *model* scores texts, if
        there is one.
        """
        self._is_parquet = is_parquet
        self._replaces_addresses = replaces_addresses
        self._model = model
        self._complaints = complaints
        # The file of the pages that are left out; None until there is such a page.
        self._left_out: LineLog | None = None
        self._read = read
        # The lock of the directory, with JSON lines; Parquet files are locked one by one.
        self._lock: DirectoryLock | None = None
        self._job = ""  # the name of the job directory; ``open`` sets it

    @classmethod
    def from_crawler(cls, crawler: Crawler, **values: Any) -> Self:
        """Make the module for TEXT_FORMAT. Raises FatalError for bad settings."""
        settings = crawler.settings
        is_parquet = choice(settings, "TEXT_FORMAT", ("parquet", "jsonl")) == "parquet"
        if is_parquet:
            require_package("pyarrow", feature="The module text_dataset")
        values |= {
            "is_parquet": is_parquet,
            "read": reader(settings),
            "replaces_addresses": flag(settings, "TEXT_REPLACE_ADDRESSES"),
            "model": ScoreModel.from_settings(settings),
        }
        return super().from_crawler(crawler, complaints=settings["CRAWLER_CONTACT"] or "", **values)

    def open(self) -> None:
        """Open the Parquet files or the line log, which is locked."""
        self._job = self.jobdir.name if self.jobdir is not None else "crawl"
        if self._is_parquet:
            self._rows = ParquetFiles(directory=self.directory)
            self._rows.open(schema_of(_COLUMNS, **_TYPES))
        else:
            make_directory(self.directory)
            self._lock = DirectoryLock(path=self.directory / "LOCK")
            self._lock.acquire()
            self._rows = LineLog(path=self.directory / "text.jsonl", max_bytes=MAX_JSONL_BYTES)
            self._rows.open()

    def process(self, page: Page) -> None:
        """Write a row with the main text of *page*."""
        main_text = self._read(page)
        score = self._model.score(main_text.text) if self._model is not None else None
        replaced, email_addresses, ip_addresses = replace_addresses(main_text.text)
        if self._replaces_addresses:
            main_text = msgspec.structs.replace(
                main_text,
                text=replaced,
                title=replace_addresses(main_text.title)[0],
                markdown=replace_addresses(main_text.markdown)[0],
            )
        text = main_text.text
        # Its ID, file, offset and length. Without a WARC record, the row gets a new ID.
        record = page.warc_record or (new_record_id(), None, None, None)
        fetched = datetime.fromtimestamp(page.fetched_at, UTC)
        row = msgspec.structs.asdict(main_text) | msgspec.structs.asdict(signals_of(text))
        row |= {
            "url": page.url,
            "host": host_of(page.url),
            "fetched_at": fetched.isoformat(),
            "status": page.status,
            "content_type": page.content_type,
            "robots_line": page.robots_line,
            "flags": page.flags,
            "rights": page.rights.as_json,
            "id": record[0],
            "dump": f"{self._job}-{fetched:%Y-%m-%d}",
            "date": f"{fetched:%Y-%m-%dT%H:%M:%SZ}",
            "file_path": record[1],
            "warc_offset": record[2],
            "warc_length": record[3],
            "minhash": minhash(text),
            "email_addresses": email_addresses,
            "ip_addresses": ip_addresses,
            "score": score,
        }
        if isinstance(self._rows, ParquetFiles):
            row["fetched_at"] = round(page.fetched_at * 1e6)  # in microseconds
            self._rows.write([[row[name] for name in _COLUMNS.split()]])
        else:
            line = {name: row[name] for name in _COLUMNS.split()}
            self._rows.append(msgspec.json.encode(line))
        self.stats.inc("characters", len(text))

    def leave_out(self, page: Page) -> None:
        """Note that *page* is left out, in a file that exists only if there are such pages."""
        if not self._should_process(page):
            return
        if self._left_out is None:
            path = self.directory / "_left_out.jsonl"
            self._left_out = LineLog(path=path, max_bytes=MAX_JSONL_BYTES)
            self._left_out.open()
        line = {
            "url": page.url,
            "fetched_at": page.fetched_at,
            "reason": page.rights.left_out,
            "complaints": self._complaints,
        }
        self._left_out.append(msgspec.json.encode(line))
        self.stats.inc("left_out")

    def sync(self) -> None:
        self._rows.sync()
        if self._left_out is not None:
            self._left_out.sync()

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self._rows.close()
            if self._left_out is not None:
                self._left_out.close()
            if self._lock is not None:
                self._lock.release()
