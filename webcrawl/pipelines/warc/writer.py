"""Writes WARC files of complete pages, with one gzip member per record.

A file is called ``<prefix>-<time>-<serial>.warc.gz.open`` while it grows, and loses the ``.open``
when it is complete, so all files named ``*.warc.gz`` are complete. Invariants: a file with a final
name contains only complete sets of records (see records.py). Pages added before ``flush`` returned
are in the file even if the process is killed immediately after. After an error the file ends where
it ended before, or is not written to any more.

If the process dies in ``flush``, the next ``open`` cuts off the incomplete set. If it dies before
the rename, ``open`` renames the file. A power failure between the rename and the fsync of the
directory may bring back the ``.open`` name; then ``open`` renames the file again. Files of a
running process are locked (flock) and left alone, so several processes can share a directory.
"""

from __future__ import annotations

import os
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isal import igzip_lib, isal_zlib

from webcrawl.clock import TimeSource, wall_time
from webcrawl.errors import StoreError
from webcrawl.items import Page, StoredRecord
from webcrawl.pipelines.growing_files import GrowingFiles
from webcrawl.pipelines.main_text import CONTENT_TYPES, MainText
from webcrawl.pipelines.warc.messages import as_bytes, sha1_of, stored_response
from webcrawl.pipelines.warc.payloads import FirstCopy, StoredPayloads
from webcrawl.pipelines.warc.records import (
    NOT_MODIFIED,
    TERMINATOR,
    is_http,
    new_record_id,
    page_records,
    warcinfo_record,
)
from webcrawl.pipelines.warc.recovery import whole_length
from webcrawl.signals import CONTENT_SEEN, ROBOTS, UNCHANGED
from webcrawl.storage.atomic import sync_path, write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


_SUFFIXES = (".warc.gz.open", ".warc.gz")

# Compression level of ISA-L. It compresses real pages of 20 kB to 23.9 % in 32 µs. Level 3 takes
# twice as long, for 23.2 %, and zlib's level 6 six times as long, for 21.5 %.
_LEVEL = 2
# The level for records of at most _SHORT_BYTES, such as requests. This saves 7 µs for each of them,
# and costs 150 bytes.
_SHORT_LEVEL = 0
_SHORT_BYTES = 2048
# Reasons why a page is not processed that mean that its document may already be stored.
_SEEN = (CONTENT_SEEN, UNCHANGED)
_STORED_BLOCK_BYTES = 0xFFFF  # the longest deflate block that is not compressed
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
# Number of bytes that are collected for one write, about a batch of small pages.
_MAX_PENDING_BYTES = 1 << 20


class WarcWriteError(StoreError):
    """A write failed, usually on a full disk; the file was truncated to complete records."""

    def __init__(self, path: Path, why: OSError) -> None:
        super().__init__(why.errno, why.strerror or str(why), str(path))
        self.path = path


@dataclass(slots=True)
class Written:
    """Counts of a ``WarcWriter`` since it was made; *bytes* are compressed bytes."""

    records: int = 0
    bytes: int = 0
    files: int = 0
    recovered: int = 0
    revisits: int = 0


class WarcWriter:
    """Writes WARC files to *directory*. Not thread-safe, except for ``sync``.

    A new file is started before a page that would make the file exceed *max_file_bytes*; a file has
    at least one page. *warcinfo* has the fields of each file's first record. With *payloads*, which
    the caller opens, commits and closes, known documents become revisit records. With *earlier*,
    which the caller opens and closes, so do all documents that earlier crawls have stored. *read*
    extracts the main text, which is then stored, too. The directory is not touched before ``open``,
    and the first file is created for the first page.
    """

    def __init__(
        self,
        *,
        directory: Path,
        prefix: str,
        max_file_bytes: int,
        warcinfo: Sequence[tuple[str, str]],
        payloads: StoredPayloads | None = None,
        earlier: StoredPayloads | None = None,
        read: Callable[[Page], MainText] | None = None,
        clock: TimeSource = wall_time,
    ) -> None:
        """Make the writer; the class says what its parameters are.

        directory: the directory of the files; it is not touched before ``open``.
        prefix: the beginning of their names.
        max_file_bytes: a page that would make a file larger begins a new one.
        warcinfo: the fields of each file's first record.
        payloads: the payloads of this job; None if documents are stored again each time.
        earlier: the payloads of earlier crawls, which are only read.
        read: extracts the main text of a page, which is then stored as well.
        clock: the time in epoch seconds.
        """
        self.written = Written()
        self._files = GrowingFiles(
            directory=directory, prefix=prefix, suffixes=_SUFFIXES, clock=clock
        )
        self._max_file_bytes = max_file_bytes
        self._warcinfo = tuple(warcinfo)
        self._payloads = payloads
        self._earlier = earlier
        self._read = read
        self._clock = clock
        # The gzip members of added pages that are still to be written, and their total length.
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        # The error because of which added pages are not in the file. ``flush`` raises it.
        self._flush_error: WarcWriteError | None = None

        # The current file, which ``_start_file`` begins. The descriptor is -1 if there is none.
        self._fd = -1
        self._path = directory  # until there is a file, errors name the directory
        self._final_path = ""  # the name that the file gets when it is complete
        self._size = 0  # bytes written to it
        self._began_at = 0.0
        self._warcinfo_id = ""  # record ID of its first record
        # The error because of which a file could not be completed; the next ``open`` recovers it.
        self._left_open: WarcWriteError | None = None
        # Protects _fd and _left_open, which the writing thread and ``sync`` use.
        self._fd_lock = threading.Lock()

    def open(self) -> list[str]:
        """Make the directory, complete leftover files, and return a line to log for each of them.

        Raises OSError already here, not at the first page, if the directory cannot be made or
        written to. Reads every leftover file once, in about 8 s per GB.
        """
        return [self._recover(path, fd) for path, fd in self._files.open()]

    def write(self, page: Page, why: str = "") -> None:
        """Add *page* and flush it to the file. Parameters and errors are those of ``add``."""
        self.add(page, why)
        self.flush()

    def add(self, page: Page, why: str = "") -> None:
        """Append the records of *page*; ``flush`` hands them to the operating system.

        Sets ``page.warc_record``. If the document is in another record, that is where it is.

        If *page* does not go through the processing modules, *why* is the reason. Raises
        WarcWriteError if records cannot be written; the file then ends where it ended before.
        """
        response = stored_response(page) if is_http(page) else None
        # The same conditions as in the content-seen test. A payload that was cut is not compared,
        # because the missing part may be different.
        is_comparable = page.is_document and not page.truncated and why != ROBOTS

        # A stored copy of the same payload, which a revisit record then refers to.
        sha1 = b""
        first_copy = None
        if page.status == NOT_MODIFIED and self._payloads:
            sha1 = self._payloads.digest_of(page.url, page.stored_at)
        elif response is not None and is_comparable:
            sha1 = response.sha1
        if sha1 and why in _SEEN and self._payloads:
            first_copy = self._payloads.find(sha1)
        if sha1 and first_copy is None and self._earlier:
            first_copy = self._earlier.find(sha1)

        document_id = new_record_id()
        text = None
        is_wanted = page.status == 200 and page.content_type in CONTENT_TYPES
        if self._read and is_wanted and not (why or page.flags or page.rights.left_out):
            text = self._read(page)

        def build_members() -> list[bytes]:
            records = page_records(
                page,
                response=response,
                document_id=document_id,
                warcinfo_id=self._warcinfo_id,
                why=why,
                first=first_copy,
                text=text,
            )
            # The length of a compressed body at the end of the first record. A revisit record has
            # no body.
            coded = response.coded if response is not None and first_copy is None else 0
            return [_member(records[0], coded), *[_member(record) for record in records[1:]]]

        gzip_members = build_members()
        length = sum(map(len, gzip_members))
        if self._fd >= 0 and self._size + self._pending_bytes + length > self._max_file_bytes:
            self.close()
        if self._fd < 0:
            self._start_file()
            gzip_members = build_members()  # again, because they name the file's first record
        elif self._pending_bytes + length > _MAX_PENDING_BYTES:
            self._write_pending()
        copy = FirstCopy(
            *(page.url, page.fetched_at, self._final_path, self._size + self._pending_bytes),
            length=len(gzip_members[0]),
        )
        self._pending += gzip_members
        self._pending_bytes += sum(map(len, gzip_members))

        if response is not None and is_comparable and self._payloads:
            prefix = b"" if first_copy is None else sha1_of(as_bytes(page.url))[:8]
            # After a visit that found the same bytes, a 304 still refers to what was there before.
            if not (prefix and why == UNCHANGED):
                self._payloads.add(prefix + response.sha1, copy)
        if first_copy is not None:
            self.written.revisits += 1
            copy = first_copy
        page.warc_record = None
        if page.is_document:
            page.warc_record = StoredRecord(document_id, copy.path, copy.offset, copy.length)

    def flush(self) -> None:
        """Hand all pages added since the last ``flush`` to the operating system, in one write.

        Raises WarcWriteError if some of them could not be written; the file then ends where it
        ended before.
        """
        # The error may also be of an earlier write, which ``add`` began because pages were many.
        with suppress(WarcWriteError):  # it is also in ``_flush_error``
            self._write_pending()
        error = self._flush_error
        self._flush_error = None
        if error is not None:
            raise error

    def sync(self) -> None:
        """fsync everything written so far. Blocks on the disk; may be called from any thread.

        Raises OSError. If a file could not be completed, its error is raised from then on.
        """
        with self._fd_lock:
            if self._left_open is not None:
                raise self._left_open
            if self._fd < 0:
                return  # nothing was written since the last file was closed and synced
            # The writing thread may close the file while a copy of its descriptor is synced.
            fd = os.dup(self._fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_path(self._path.parent)

    def close(self) -> None:
        """Complete the current file, if any: fsync it, rename it, and fsync the directory."""
        self._write_pending()
        if self._fd < 0:
            return
        path = self._path
        try:
            os.fsync(self._fd)
            path.rename(self._files.complete_path(path))
            sync_path(path.parent)
        except OSError as error:
            write_error = WarcWriteError(path, error)
            self._release_file(write_error)
            raise write_error from error
        self._release_file()

    def close_older(self, secs: float) -> None:
        """Complete the current file if it was started at least *secs* seconds ago."""
        if self._fd >= 0 and self._clock() - self._began_at >= secs:
            self.close()

    def _start_file(self) -> None:
        """Create a file and write its warcinfo record."""
        try:
            path, fd = self._files.begin()
        except OSError as error:
            raise WarcWriteError(self._path, error) from error
        with self._fd_lock:
            self._fd = fd
            self._path = path
            self._size = 0
        final_path = self._files.complete_path(path)
        self._final_path = str(final_path)
        self._began_at = self._clock()
        self._warcinfo_id = new_record_id()
        record = warcinfo_record(
            filename=final_path.name,
            at=self._began_at,
            fields=self._warcinfo,
            record_id=self._warcinfo_id,
        )
        try:
            self._append(_member(record), records=1)
        except WarcWriteError:
            if self._fd >= 0:  # ``_append`` has released it if it could not be truncated either
                self._release_file()
            with suppress(OSError):  # if this fails, the next ``open`` removes the file
                path.unlink()
            raise
        self.written.files += 1

    def _write_pending(self) -> None:
        """Write the pages that were added. On an error, they are dropped."""
        if not self._pending:
            return
        members = self._pending
        self._pending = []
        self._pending_bytes = 0
        try:
            self._append(b"".join(members), records=len(members))
        except WarcWriteError as error:
            self._flush_error = error
            # Documents must not become revisit records that refer to the dropped pages.
            if self._payloads:
                self._payloads.forget()
            raise

    def _append(self, members: bytes, *, records: int) -> None:
        """Write *members*, which contain this many *records*; on an error, remove them again."""
        try:
            write_all(self._fd, members)
        except OSError as error:
            write_error = WarcWriteError(self._path, error)
            self._cut_back(write_error)
            raise write_error from error
        self._size += len(members)
        self.written.records += records
        self.written.bytes += len(members)

    def _cut_back(self, write_error: WarcWriteError) -> None:
        """Truncate the file to its old size. If that fails as well, stop writing to the file."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._release_file(write_error)

    def _release_file(self, write_error: WarcWriteError | None = None) -> None:
        """Close the file. With a *write_error*, the next ``open`` recovers it."""
        with self._fd_lock:
            os.close(self._fd)
            self._fd = -1
            self._left_open = write_error or self._left_open

    def _recover(self, path: Path, fd: int) -> str:
        """Complete the file *path* of a dead process, locked as *fd*; return a line to log."""
        try:
            size = os.fstat(fd).st_size
            complete_size, pages = whole_length(path)
            if not pages:
                path.unlink()
                return f"{path}: removed, as it had no complete page in {size} bytes"
            os.ftruncate(fd, complete_size)
            os.fsync(fd)
            path.rename(final := self._files.complete_path(path))
            sync_path(path.parent)
        finally:
            os.close(fd)
        self.written.recovered += 1
        return f"{final}: pages recovered: {pages}, {size - complete_size} of {size} bytes cut off"


def _member(record: bytes, coded: int = 0) -> bytes:
    """Return *record* as a gzip member.

    The record may end with a body of *coded* bytes that is already compressed. It is stored as it
    is, as compressing it again would take 4.5 µs per kB and save 0.6 %.
    """
    level = _LEVEL if len(record) > _SHORT_BYTES else _SHORT_LEVEL
    if not coded:
        return igzip_lib.compress(record, level, igzip_lib.COMP_GZIP)
    # Compress the part before the body with raw deflate, then write the body in stored blocks, each
    # with a head of three fields: whether it is the last one, its size, and the complement of that.
    deflate = isal_zlib.compressobj(level, isal_zlib.DEFLATED, -isal_zlib.MAX_WBITS)
    start = len(record) - coded - len(TERMINATOR)
    view = memoryview(record)  # a body may have megabytes
    compressed = deflate.compress(view[:start]) + deflate.flush(isal_zlib.Z_SYNC_FLUSH)
    parts: list[bytes | memoryview] = [_GZIP_HEADER, compressed]
    for offset in range(start, len(record), _STORED_BLOCK_BYTES):
        block = view[offset : offset + _STORED_BLOCK_BYTES]
        size = len(block)
        is_last = offset + _STORED_BLOCK_BYTES >= len(record)
        parts += [struct.pack("<BHH", is_last, size, size ^ 0xFFFF), block]
    return b"".join([*parts, struct.pack("<II", isal_zlib.crc32(record), len(record) & 0xFFFFFFFF)])
