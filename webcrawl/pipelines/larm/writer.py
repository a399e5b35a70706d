"""LARM writer: page files of 50 MB, links.log and store.log in one directory.

    pagefile_N.pfl   the bodies of pages, one after the other; N is 1 for the first
    links.log        a line for each link
    store.log        a line for each page, which says where its body is
    LOCK             the process that writes

The logs are LARM's (rows.py); they keep their names while they grow, as LARM's did. Of a page the
body is written first, then its links, then its line in store.log. Invariants: what store.log names
is there. A page whose ``write`` has returned is there after ``kill -9``. After an error the files
end where they ended before.

What a process that died left of its last page is cut off by the next ``open``: of the page file
what no line of store.log names, of links.log the lines of a page that store.log has not.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

from webcrawl.pipelines.larm.rows import LarmError, link_lines, page_file, parsed, store_line
from webcrawl.storage.append_file import AppendFile
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths
from webcrawl.storage.line_log import cut_torn_line
from webcrawl.storage.lock import DirectoryLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.items import Page
    from webcrawl.pipelines.larm.rows import StoredFile

LINKS = "links.log"
STORE = "store.log"
#: LARM's MAXLENGTH.
MAX_FILE_BYTES = 50_000_000

_TAIL_BYTES = 1 << 20  # more than a line has


class LarmWriter:
    """Writer of a LARM directory. Not thread-safe.

    *form* gives the normalized form of a URL. A page file that would have more than
    *max_file_bytes* with the next page is ended before; a larger page has a file of its own.
    """

    def __init__(
        self,
        *,
        directory: Path,
        form: Callable[[str], str],
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._directory = directory
        self._links, self._store = directory / LINKS, directory / STORE
        self._form = form
        self._max_file_bytes = max_file_bytes
        self._number = 1
        self._files: tuple[AppendFile, AppendFile, AppendFile] | None = None
        self._unsynced: list[Path] = []
        self._lock = DirectoryLock(path=directory / "LOCK")
        self._failure: OSError | None = None

    def open(self) -> None:
        """Make the directory, cut off what a killed process left, and go on behind it.

        OSError. LarmError if there is a store.log of something else, or a page file is gone,
        LockedError if another process writes there; nothing is changed then.
        """
        sync_paths(make_directory(self._directory))
        self._lock.acquire()
        try:
            last = self._recover()
            self._number = last.number if last else 1
            self._files = self._page_file(), AppendFile(self._links), AppendFile(self._store)
        except BaseException:
            self._lock.release()
            raise

    def write(self, page: Page) -> None:
        """Append *page*; the operating system has it on return. OSError if it could not be written:
        nothing of it is left then."""
        if self._failure is not None:
            raise self._failure
        assert self._files is not None
        pages, links, store = self._files
        if pages.size and pages.size + len(page.body) > self._max_file_bytes:
            pages = self._begin_next()
        line = store_line(page, self._form, number=self._number, offset=pages.size)
        files = pages, links, store
        ends = [file.size for file in files]
        try:
            pages.append(page.body)
            links.append(link_lines(page, self._form))
            store.append(line)
        except OSError as error:
            try:
                for file, size in zip(files, ends, strict=True):
                    file.cut(size)
            except OSError:
                self._failure = error
            raise

    def sync(self) -> None:
        """fsync what was written. Blocks. OSError, from then on also after ``write`` could not
        leave the files as they were."""
        if self._failure is not None:
            raise self._failure
        paths = [file.path for file in self._files or ()]
        sync_paths([*self._unsynced, *paths, self._directory])
        self._unsynced = []

    def close(self) -> None:
        """fsync and close. Idempotent."""
        try:
            if self._files is not None:
                self.sync()
        finally:
            for file in self._files or ():
                file.close()
            self._files = None
            self._lock.release()

    def _page_file(self) -> AppendFile:
        file = AppendFile(page_file(self._directory, self._number))
        # What store.log names is there after a power failure, if not with all its bytes.
        sync_path(self._directory)
        return file

    def _begin_next(self) -> AppendFile:
        """Begin the next page file. OSError: the old one goes on then."""
        assert self._files is not None
        old, links, store = self._files
        self._number += 1
        try:
            new = self._page_file()
        except OSError:
            self._number -= 1
            raise
        self._files = new, links, store
        old.close()
        self._unsynced.append(old.path)
        return new

    # What a killed process left

    def _recover(self) -> StoredFile | None:
        """Cut the files to whole pages; the last page that is left."""
        if self._store.exists():
            with self._store.open("rb") as file:
                first = file.readline(_TAIL_BYTES)
            if first.endswith(b"\n"):
                try:
                    parsed(first)
                except LarmError as error:
                    raise LarmError(f"{self._store} is of something else: {error}") from error
        cut_torn_line(self._store)
        cut_torn_line(self._links)
        last = self._last_page()
        number, end = (last.number, last.offset + last.size) if last else (1, 0)
        if page_file(self._directory, number).exists():
            os.truncate(page_file(self._directory, number), end)
        # Begun for a page that is not in store.log.
        page_file(self._directory, number + 1).unlink(missing_ok=True)
        self._cut_links(last)
        return last

    def _last_page(self) -> StoredFile | None:
        """The last page in store.log that its page file has. Lines after it are cut off: a power
        failure takes what was not synced. LarmError if a page file was taken away."""
        with self._store.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            last = None
            while end and last is None:
                start = max(0, end - _TAIL_BYTES)
                file.seek(start)
                lines = file.read(end - start).splitlines(keepends=True)
                # The first one may begin before that.
                while last is None and len(lines) > bool(start):
                    last = self._whole_page(lines[-1])
                    end -= 0 if last else len(lines.pop())
            file.truncate(end)
        return last

    def _whole_page(self, line: bytes) -> StoredFile | None:
        """The page that *line* of store.log names; None if it is not all there."""
        try:
            found = parsed(line)
        except LarmError:
            return None
        path = page_file(self._directory, found.number)
        if not path.exists():
            raise LarmError(f"{path}, which store.log names, is gone: bring it back")
        return found if path.stat().st_size >= found.offset + found.size else None

    def _cut_links(self, last: StoredFile | None) -> None:
        """Cut off the links of pages that are not in store.log: of one after ``kill -9``, of some
        after a power failure."""
        if not self._links.stat().st_size:
            return
        with self._links.open("r+b") as file:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines:
                end = len(lines) if last else 0
                missing = b""
                while last and end:
                    start = lines.rfind(b"\n", 0, end - 1) + 1
                    source = lines[start:end].partition(b"\t")[0]
                    if source != missing and (source == last.url.encode() or self._has(source)):
                        break
                    end, missing = start, source
            file.truncate(end)

    def _has(self, url: bytes) -> bool:
        """Whether store.log, which has a line, has *url*. Searched from its end."""
        with (
            self._store.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines,
        ):
            return lines.rfind(b"\t" + url + b"\t") >= 0
