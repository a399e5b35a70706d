"""Writes a LARM directory: page files of 50 MB, links.log and store.log.

    pagefile_N.pfl   the bodies of pages, one after the other; N is 1 for the first
    links.log        one line per link
    store.log        one line per page, which says where its body is
    LOCK             locked by the process that writes

The logs are LARM's (rows.py). As in LARM, all files have their final names while they grow. For
each page, its body is written first, then its links, then its line in store.log. Invariants: every
page that store.log lists exists. A page whose ``write`` has returned survives ``kill -9``. After an
error the files end where they ended before.

If a process died while it was writing a page, the next ``open`` removes that page. It cuts off the
end of the page file that store.log does not list, and the lines in links.log of pages that are not
in store.log.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

from webcrawl.pipelines.larm.rows import (
    LarmError,
    StoredFile,
    link_lines,
    page_file,
    parse_store_line,
    store_line,
)
from webcrawl.storage.append_file import AppendFile
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths
from webcrawl.storage.line_log import cut_torn_line
from webcrawl.storage.lock import DirectoryLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.items import Page

LINKS = "links.log"
STORE = "store.log"
#: LARM's MAXLENGTH.
MAX_FILE_BYTES = 50_000_000

_TAIL_BYTES = 1 << 20  # longer than any line


class LarmWriter:
    """Writes pages to a LARM *directory*. Not thread-safe.

    *form* returns the normalized form of a URL. A new page file is started before a page that would
    make the file exceed *max_file_bytes*; a page that is larger gets its own file.
    """

    def __init__(
        self,
        *,
        directory: Path,
        form: Callable[[str], str],
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        """Prepare to write to *directory*, which ``open`` makes.

        form: returns the normalized form of a URL.
        max_file_bytes: a page that would make a page file larger begins a new one.
        """
        self._directory = directory
        self._links = directory / LINKS
        self._store = directory / STORE
        self._form = form
        self._max_file_bytes = max_file_bytes
        self._number = 1  # of the current page file
        # The current page file, links.log and store.log; None before ``open`` and after ``close``.
        self._files: tuple[AppendFile, AppendFile, AppendFile] | None = None
        # Earlier page files that were written to since the last ``sync``.
        self._unsynced: list[Path] = []
        self._lock = DirectoryLock(path=directory / "LOCK")
        # The error of a ``write`` whose parts could not be removed. Nothing is written after it.
        self._failure: OSError | None = None

    def open(self) -> None:
        """Make the directory, cut off the incomplete page of a killed process, and open the files.

        Raises OSError. Raises LarmError if store.log is not a log of LARM or a page file is
        missing, and LockedError if another process is writing to the directory. In both cases
        nothing is changed.
        """
        sync_paths(make_directory(self._directory))
        self._lock.acquire()
        try:
            last = self._recover()
            self._number = last.number if last else 1
            self._files = self._open_page_file(), AppendFile(self._links), AppendFile(self._store)
        except BaseException:
            self._lock.release()
            raise

    def write(self, page: Page) -> None:
        """Append *page* and hand it to the operating system.

        Raises OSError if *page* could not be written; then no part of it is left in the files.
        """
        if self._failure is not None:
            raise self._failure
        assert self._files is not None
        pages, links, store = self._files
        # A page that is too large for any file becomes the only one in its file.
        if pages.size and pages.size + len(page.body) > self._max_file_bytes:
            pages = self._begin_next()

        line = store_line(page, self._form, number=self._number, offset=pages.size)
        files = pages, links, store
        old_sizes = [file.size for file in files]
        # The line in store.log comes last, because a page that it lists must be complete.
        try:
            pages.append(page.body)
            links.append(link_lines(page, self._form))
            store.append(line)
        except OSError as error:
            try:
                for file, size in zip(files, old_sizes, strict=True):
                    file.cut(size)
            except OSError:
                self._failure = error
            raise

    def sync(self) -> None:
        """fsync everything that was written. Blocks.

        Raises OSError. If a ``write`` failed and could not restore the files, its error is raised
        from then on.
        """
        if self._failure is not None:
            raise self._failure
        paths = [file.path for file in self._files or ()]
        sync_paths([*self._unsynced, *paths, self._directory])
        self._unsynced = []

    def close(self) -> None:
        """fsync and close all files. Idempotent."""
        try:
            if self._files is not None:
                self.sync()
        finally:
            for file in self._files or ():
                file.close()
            self._files = None
            self._lock.release()

    def _open_page_file(self) -> AppendFile:
        """Open the current page file, and make its name durable."""
        file = AppendFile(page_file(self._directory, self._number))
        # After a power failure, a file that store.log lists then exists, although it may be
        # incomplete.
        sync_path(self._directory)
        return file

    def _begin_next(self) -> AppendFile:
        """Start the next page file. On an OSError the old one stays in use."""
        assert self._files is not None
        old, links, store = self._files
        self._number += 1
        try:
            new = self._open_page_file()
        except OSError:
            self._number -= 1
            raise
        self._files = new, links, store
        old.close()
        self._unsynced.append(old.path)
        return new

    # --- recovery of the files of a killed process

    def _recover(self) -> StoredFile | None:
        """Truncate the files after their last complete page, and return that page, if any."""
        # Change nothing if store.log is a file of another program.
        if self._store.exists():
            with self._store.open("rb") as file:
                first_line = file.readline(_TAIL_BYTES)
            if first_line.endswith(b"\n"):
                try:
                    parse_store_line(first_line)
                except LarmError as error:
                    raise LarmError(f"{self._store} is not a log of LARM: {error}") from error

        cut_torn_line(self._store)
        cut_torn_line(self._links)
        last = self._recover_last_page()
        number, end = (last.number, last.offset + last.size) if last else (1, 0)
        if page_file(self._directory, number).exists():
            os.truncate(page_file(self._directory, number), end)
        # The next file, if it exists, was started for a page that is not in store.log.
        page_file(self._directory, number + 1).unlink(missing_ok=True)
        self._cut_links(last)
        return last

    def _recover_last_page(self) -> StoredFile | None:
        """Return the last page in store.log whose body is complete in its page file.

        Lines after it are cut off: their bodies were not synced before a power failure. Raises
        LarmError if a page file is missing.
        """
        with self._store.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            last = None
            while end and last is None:
                start = max(0, end - _TAIL_BYTES)
                file.seek(start)
                lines = file.read(end - start).splitlines(keepends=True)
                # Unless the block begins with the log, its first line may lack its beginning.
                torn_lines = 1 if start else 0
                while last is None and len(lines) > torn_lines:
                    last = self._complete_page(lines[-1])
                    if last is None:
                        end -= len(lines.pop())
            file.truncate(end)
        return last

    def _complete_page(self, line: bytes) -> StoredFile | None:
        """Return the page that *line* of store.log lists, or None if it is not complete."""
        try:
            stored = parse_store_line(line)
        except LarmError:
            return None  # a power failure can leave zero bytes instead of a line
        path = page_file(self._directory, stored.number)
        if not path.exists():
            raise LarmError(f"{path}, which store.log lists, is missing: restore it")
        return stored if path.stat().st_size >= stored.offset + stored.size else None

    def _cut_links(self, last: StoredFile | None) -> None:
        """Cut off the links of pages that are not in store.log, whose last page is *last*.

        After ``kill -9`` this concerns one page, after a power failure perhaps several.
        """
        if not self._links.stat().st_size:
            return
        with self._links.open("r+b") as file:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines:
                # Go back from the end, a line at a time, to a link of a page that is in store.log.
                # Without any such page, all links are cut off.
                end = len(lines) if last else 0
                missing_url = b""  # the URL of the last page that was searched for in vain
                while last and end:
                    start = lines.rfind(b"\n", 0, end - 1) + 1
                    source = lines[start:end].partition(b"\t")[0]
                    if source != missing_url and (
                        source == last.url.encode() or self._is_stored(source)
                    ):
                        break
                    end = start
                    missing_url = source
            file.truncate(end)

    def _is_stored(self, url: bytes) -> bool:
        """Return whether store.log, which must not be empty, lists *url*. Searches from the end."""
        with (
            self._store.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines,
        ):
            return lines.rfind(b"\t" + url + b"\t") >= 0
