"""WARC writer: one gzip member per record, whole pages only, a final name at the end.

A file is called ``<prefix>-<time>-<serial>.warc.gz.open`` while it grows, and loses the ``.open``
when it is complete. So files named ``*.warc.gz`` are complete. Invariants: a file with a final name
has only whole sets of records (see records.py). What was added before ``flush`` returned is in the
file even if the process is killed on the next line. After an error the file ends where it ended
before, or is not written to any more.

If the process dies in ``flush``, the next ``open`` cuts off the incomplete set. If it dies before
the rename, ``open`` renames the file. Between the rename and the fsync of the directory, a power
failure may bring back the ``.open`` name, and ``open`` renames again. Files of a running process
are locked (flock) and left alone, so several processes may share a directory.
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
from webcrawl.pipelines.warc.messages import stored_response
from webcrawl.pipelines.warc.payloads import FirstCopy
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
from webcrawl.storage.growing_files import GrowingFiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webcrawl.items import Page
    from webcrawl.pipelines.warc.payloads import StoredPayloads

_SUFFIXES = (".warc.gz.open", ".warc.gz")

# Compression level of ISA-L. It compresses real pages of 20 kB to 23.9 % in 32 µs; level 3 takes
# twice and zlib's level 6 six times as long, for 23.2 and 21.5 %.
_LEVEL = 2
# The level for a robots.txt whose first record is at most _SHORT_BYTES. It saves 30 µs and costs
# half a kB per host.
_SHORT_LEVEL = 0
_SHORT_BYTES = 2048
# Reasons that a page is not processed for which its document may already be stored.
_SEEN = (CONTENT_SEEN, UNCHANGED)
_STORED_BYTES = 0xFFFF  # the longest deflate block that is not compressed
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
# Bytes that are collected for one write, about a batch of small pages.
_HELD_BYTES = 1 << 20


class WarcWriteError(StoreError):
    """The error of a failed write, usually a full disk. The file was cut back to whole records."""

    def __init__(self, path: Path, why: OSError) -> None:
        super().__init__(why.errno, why.strerror or str(why), str(path))
        self.path = path


@dataclass(slots=True)
class Written:
    """Counts of a ``WarcWriter`` since it was made; bytes are compressed bytes."""

    records: int = 0
    bytes: int = 0
    files: int = 0
    recovered: int = 0
    revisits: int = 0


class WarcWriter:
    """Writer of WARC files in *directory*. Not thread-safe, except for ``sync``.

    The next file is started before a page that would exceed *max_file_bytes*; a file has at least
    one page. *warcinfo* has the fields of each file's first record. With *payloads*, which the
    caller opens, commits and closes, known documents become revisit records. Nothing is touched
    before ``open``, and there is no file before the first page.
    """

    def __init__(
        self,
        *,
        directory: Path,
        prefix: str,
        max_file_bytes: int,
        warcinfo: Sequence[tuple[str, str]],
        payloads: StoredPayloads | None = None,
        clock: TimeSource = wall_time,
    ) -> None:
        self.written = Written()
        self._files = GrowingFiles(
            directory=directory, prefix=prefix, suffixes=_SUFFIXES, clock=clock
        )
        self._max_file_bytes = max_file_bytes
        self._warcinfo = tuple(warcinfo)
        self._payloads = payloads
        self._clock = clock
        self._warcinfo_id = ""
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        # Why pages that were added are not in the file.
        self._flush_error: WarcWriteError | None = None
        self._fd = -1
        self._path = directory
        self._size = 0
        self._began_at = 0.0
        # Why a file was left to the next ``open``, which cuts and syncs it, if one was.
        self._left_open: WarcWriteError | None = None
        # Protects _fd and _left_open between the writing thread and sync.
        self._fd_lock = threading.Lock()

    def open(self) -> list[str]:
        """Make the directory and finish leftover files. Returns a line to log for each of them.

        Raises OSError if the directory cannot be made or written to, rather than at the first page.
        Reads every leftover file once: about 8 s per GB.
        """
        return [self._recover(path, fd) for path, fd in self._files.open()]

    def write(self, page: Page, why: str = "") -> None:
        """Add *page* and flush. Parameters and errors are those of ``add``."""
        self.add(page, why)
        self.flush()

    def add(self, page: Page, why: str = "") -> None:
        """Append the records of *page*; they are handed to the operating system by ``flush``.

        *why* says why it does not go through the processing modules, if it does not. Raises
        WarcWriteError if they cannot be written; the file then ends where it ended before.
        """
        response = stored_response(page) if is_http(page) else None
        first = None
        # A payload that was cut may continue differently.
        if response is not None and why in _SEEN and not page.truncated and self._payloads:
            first = self._payloads.find(response.sha1)
        if response is not None and page.status == NOT_MODIFIED and page.stored_at:
            first = FirstCopy(page.url, page.stored_at)

        def build_members() -> list[bytes]:
            records = page_records(
                page, response=response, warcinfo_id=self._warcinfo_id, why=why, first=first
            )
            if why == ROBOTS and len(records[0]) <= _SHORT_BYTES:
                return [_member(record, level=_SHORT_LEVEL) for record in records]
            plain = response.coded if response is not None and first is None else 0
            return [_member(records[0], plain), *[_member(record) for record in records[1:]]]

        gzip_members = build_members()
        length = sum(map(len, gzip_members))
        if self._fd >= 0 and self._size + self._pending_bytes + length > self._max_file_bytes:
            self.close()
        if self._fd < 0:
            self._start_file()
            gzip_members = build_members()  # again, as they name the file's first record
        elif self._pending_bytes + length > _HELD_BYTES:
            self._write_pending()
        self._pending += gzip_members
        self._pending_bytes += sum(map(len, gzip_members))
        if first is not None:
            self.written.revisits += 1
        elif (
            response is not None
            and self._payloads
            # as in the content-seen test
            and page.is_document
            and not page.truncated
            and why != ROBOTS
        ):
            self._payloads.add(response.sha1, FirstCopy(page.url, page.fetched_at))

    def flush(self) -> None:
        """Hand what was added since the last ``flush`` to the operating system, in one write.

        Raises WarcWriteError if some of it could not be written; the file then ends where it ended
        before.
        """
        with suppress(WarcWriteError):
            self._write_pending()
        lost, self._flush_error = self._flush_error, None
        if lost is not None:
            raise lost

    def sync(self) -> None:
        """fsync what was written so far. Blocks on the disk; may be called from any thread.

        Raises OSError, from then on also for a file that could not be finished.
        """
        with self._fd_lock:
            if self._left_open is not None:
                raise self._left_open
            if self._fd < 0:
                return  # nothing was written, or a finished file, which was synced when it ended
            fd = os.dup(self._fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_path(self._path.parent)

    def close(self) -> None:
        """Finish the current file, if there is one: fsync, final name, fsync of the directory."""
        self._write_pending()
        if self._fd < 0:
            return
        path = self._path
        try:
            os.fsync(self._fd)
            path.rename(self._files.whole(path))
            sync_path(path.parent)
        except OSError as error:
            refusal = WarcWriteError(path, error)
            self._release_file(refusal)
            raise refusal from error
        self._release_file()

    def close_older(self, secs: float) -> None:
        """Close a file that was started at least *secs* ago."""
        if self._fd >= 0 and self._clock() - self._began_at >= secs:
            self.close()

    def _start_file(self) -> None:
        try:
            path, fd = self._files.begin()
        except OSError as error:
            raise WarcWriteError(self._path, error) from error
        with self._fd_lock:
            self._fd, self._path, self._size = fd, path, 0
        self._began_at = self._clock()
        self._warcinfo_id = new_record_id()
        record = warcinfo_record(
            filename=self._files.whole(path).name,
            at=self._began_at,
            fields=self._warcinfo,
            record_id=self._warcinfo_id,
        )
        try:
            self._append(_member(record), records=1)
        except WarcWriteError:
            if self._fd >= 0:
                self._release_file()
            with suppress(OSError):  # then the next ``open`` removes it
                path.unlink()
            raise
        self.written.files += 1

    def _write_pending(self) -> None:
        if not self._pending:
            return
        members, self._pending, self._pending_bytes = self._pending, [], 0
        try:
            self._append(b"".join(members), records=len(members))
        except WarcWriteError as error:
            self._flush_error = error
            if self._payloads:
                self._payloads.forget()
            raise

    def _append(self, members: bytes, *, records: int) -> None:
        try:
            write_all(self._fd, members)
        except OSError as error:
            refusal = WarcWriteError(self._path, error)
            self._cut_back(refusal)
            raise refusal from error
        self._size += len(members)
        self.written.records += records
        self.written.bytes += len(members)

    def _cut_back(self, refusal: WarcWriteError) -> None:
        """Cut the file back to its old end. If that fails, too, it is not written to any more."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._release_file(refusal)

    def _release_file(self, refusal: WarcWriteError | None = None) -> None:
        """Close the file. With a *refusal* it is left to the next ``open``."""
        with self._fd_lock:
            os.close(self._fd)
            self._fd = -1
            self._left_open = refusal or self._left_open

    def _recover(self, path: Path, fd: int) -> str:
        """Finish the file *path* of a dead process, whose lock is *fd*. Returns a line to log."""
        try:
            size = os.fstat(fd).st_size
            whole, pages = whole_length(path)
            if not pages:
                path.unlink()
                return f"{path}: removed, as it had no complete page in {size} bytes"
            os.ftruncate(fd, whole)
            os.fsync(fd)
            path.rename(final := self._files.whole(path))
            sync_path(path.parent)
        finally:
            os.close(fd)
        self.written.recovered += 1
        return f"{final}: pages recovered: {pages}, {size - whole} of {size} bytes cut off"


def _member(record: bytes, coded: int = 0, *, level: int = _LEVEL) -> bytes:
    """Return *record* as a gzip member.

    A body of *coded* bytes at its end is stored as it is: compressing it again would take 4.5 µs
    per kB and save 0.6 %.
    """
    if not coded:
        return igzip_lib.compress(record, level, igzip_lib.COMP_GZIP)
    deflate = isal_zlib.compressobj(level, isal_zlib.DEFLATED, -isal_zlib.MAX_WBITS)
    start = len(record) - coded - len(TERMINATOR)
    view = memoryview(record)  # a body may have megabytes
    head = deflate.compress(view[:start]) + deflate.flush(isal_zlib.Z_SYNC_FLUSH)
    parts: list[bytes | memoryview] = [_GZIP_HEADER, head]
    for at in range(start, len(record), _STORED_BYTES):
        block = view[at : at + _STORED_BYTES]
        size, is_last = len(block), at + _STORED_BYTES >= len(record)
        parts += [struct.pack("<BHH", is_last, size, size ^ 0xFFFF), block]
    return b"".join([*parts, struct.pack("<II", isal_zlib.crc32(record), len(record) & 0xFFFFFFFF)])
