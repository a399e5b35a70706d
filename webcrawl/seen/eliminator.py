"""Duplicate URL eliminator (Mercator, section 3.2, figure 4): a URL log and a set of fingerprints.

The scheduler submits each page's links and takes the new ones for the frontier. URLs that the set
(``DiskSet`` or ``BloomSet``) does not know are appended to the URL log U. A section of U ends when
the set is full or ``merge`` is called. Once the set has decided which of its URLs are new, ``take``
reads their payloads from U. Several sections may wait, so a submit never blocks and drops nothing;
``is_full`` says when feeders should pause.

The invariant: ``take`` returns every new URL exactly once, in first-seen order. Snapshots name a
section, with the position up to which it was taken, until all of it has been taken.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.clock import TimeSource, now
from webcrawl.seen.background import Background
from webcrawl.seen.disk_set import DiskSet
from webcrawl.seen.drain import Cursor, LogSection
from webcrawl.seen.fingerprint import finished_key, foreign_key, own_key
from webcrawl.seen.url_log import FILE_BYTES, Span, UrlLog, has_payloads, read_frames
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import HEADER_SIZE

if TYPE_CHECKING:
    from webcrawl.seen.bloom import BloomSet
    from webcrawl.seen.caches import UrlCache


class Eliminator:
    """Duplicate URL eliminator with its files in the directory *path*.

    *seen* is the set of fingerprints; *background* does its work in a thread. See ``UrlLog`` for
    *log_file_bytes*.

    All methods run in the crawl's own thread. For the guarantees see the docstring of the package,
    for checkpoints that of ``webcrawl.storage``.
    """

    def __init__(
        self, *, path: Path, background: Background, seen: DiskSet | BloomSet, log_file_bytes: int
    ) -> None:
        #: Called in the worker thread when work there has ended, because ``take`` may then return
        #: something. It must only schedule a call of ``take``, for example with
        #: ``call_soon_threadsafe``.
        self.on_merged: Callable[[], object] = lambda: None
        self._path = path
        self._background = background
        background.on_done = lambda: self.on_merged()  # noqa: PLW0108  # it is set later
        self._set = seen
        self.resize = seen.resize
        self._log = UrlLog(
            path=path, run_in_worker=background.run_in_worker, file_bytes=log_file_bytes
        )
        # The sections that have ended and have not been taken completely, oldest first.
        self._sections: deque[LogSection] = deque()
        self._left = 0  # number of payloads in the log after the last section
        # The error of work in the background that the next ``take`` or ``merge`` raises.
        self._failure: Exception | None = None
        self._submitted = 0
        self._noted = 0  # number of keys that ``note_finished`` has inserted
        # Directories that ``open`` created and whose names must be synced with the next snapshot.
        self._new_directories: list[Path] = []

    # Submitting

    @property
    def tells_own(self) -> bool:
        """Whether a URL is new again when its own domain names it after others; see ``DiskSet``."""
        return self._set.tells_own

    def submit(
        self,
        fps: Sequence[int],
        encode: Callable[[int], bytes],
        are_foreign: Sequence[bool] = (),
    ) -> int:
        """Submit the URLs with fingerprints *fps*, usually all links of a page.

        *are_foreign* says for each of them whether another domain has named it; empty if none was.
        It has no effect unless the set ``tells_own``.

        ``encode(i)`` returns the payload of the i-th URL. It is called only for URLs not known to
        be seen, and their number is returned. From then on they survive ``kill -9``. If this method
        raises an exception, for example OSError for a full disk, none of the URLs was added.
        """
        self._make_room()
        self._submitted += len(fps)
        if self.tells_own:
            # As ``own_key`` or ``foreign_key``; True is 1.
            flags = are_foreign or [False] * len(fps)
            fps = [(fp | 3) ^ (2 + is_foreign) for fp, is_foreign in zip(fps, flags, strict=True)]
        return self._append(fps, encode)

    def add(self, fp: int) -> bool:
        """Insert *fp* immediately, as one that its own domain has named; return whether it is new.

        ``take`` does not return it, as it has no payload. May block for a few reads of 8 kB.
        """
        self._make_room()
        self._submitted += 1
        key = own_key(fp) if self.tells_own else fp
        return not self._set.find(key) and bool(self._append((key,), None))

    def note_finished(self, fp: int) -> None:
        """Note that the foreign URL with *fp* is finished: its own domain cannot make it new."""
        self._make_room()
        self._noted += self._append((finished_key(fp),), None)

    def is_own(self, fp: int, *, in_memory: bool = False) -> bool:
        """Return whether the URL with *fp* has passed, or will pass, as one that its domain named.

        With *in_memory*, only recent URLs are known; otherwise this may block for a few reads of
        8 kB. False unless the set ``tells_own``.
        """
        key = own_key(fp)
        is_named = key in self._set if in_memory else self._set.find(key)
        # An own key does not pass if the foreign URL was finished before.
        return self.tells_own and is_named and not self._set.find(finished_key(fp))

    def knows(self, fp: int) -> bool:
        """Return whether *fp* was submitted before. May block for a few reads of 8 kB."""
        if not self.tells_own:
            return self._set.find(fp)
        return self._set.find(own_key(fp)) or self._set.find(foreign_key(fp))

    def _make_room(self) -> None:
        """End the current section if it is full."""
        if self._background.ended:
            self._settle()
        # A set that answers immediately is never full, but the log must continue in a new file.
        if self._set.is_full or (self._set.answers_at_once and self._log.is_large):
            self._seal()
            self._advance()

    def _append(self, fps: Sequence[int], encode: Callable[[int], bytes] | None) -> int:
        """Write those *fps* that may be new to the log; return their number.

        *encode* is None for fingerprints without payloads, see ``add``.
        """
        new_indexes = self._set.insert(fps)
        if new_indexes:
            new_fps = array("Q", [fps[index] for index in new_indexes])
            try:
                self._log.append(
                    new_fps, [encode(index) for index in new_indexes] if encode else ()
                )
            except BaseException:
                self._set.undo(new_fps)
                raise
            self._set.mark_seen(new_fps, with_payload=encode is not None)
            if encode is not None:
                self._left += len(new_indexes)
        return len(new_indexes)

    def certainly_seen(self, fp: int) -> bool:
        """Return whether *fp* is known to have been submitted; does not read the disk.

        With a set that ``tells_own``, by its own domain.
        """
        return (own_key(fp) if self.tells_own else fp) in self._set

    def _seal(self) -> None:
        """End the section of the log that is being written."""
        self._add_section(self._log.cut(), left=self._left)
        self._left = 0

    def _add_section(self, span: Span, *, left: int, cursor: Cursor | None = None) -> None:
        """Queue the section *span* of the log, which has *left* payloads after *cursor*."""
        path = self._log.file(span.number)
        section = LogSection(span=span, path=path, left=left, cursor=cursor)
        self._sections.append(section)
        self._set.seal(section)

    # Taking

    @property
    def waiting(self) -> int:
        """Number of payloads that ``take`` may still return.

        Until they are merged it is an upper bound. It is 0 only if none is left.
        """
        return self._left + sum([section.left for section in self._sections])

    @property
    def has_decided(self) -> bool:
        """Whether ``take`` should be called: it may return URLs or raise an error. O(1)."""
        if self._set.answers_at_once:
            return bool(self.waiting)
        return self._background.ended or bool(self._sections and self._sections[0].is_decided)

    @property
    def merging(self) -> bool:
        """Whether a merge is running or due."""
        return any(not section.is_decided for section in self._sections)

    @property
    def is_full(self) -> bool:
        """Whether feeders should pause until some URLs have been taken; submitting is safe."""
        return self._set.is_behind

    @property
    def last_merge_secs(self) -> float:
        """Duration of the last merge; 0.0 if no merges are needed."""
        return self._set.last_merge_secs

    def take(self, limit: int) -> list[bytes]:
        """Return at most *limit* payloads of new URLs, in first-seen order, each once.

        Reads no more than a few megabytes of the log. If work in the background failed, raises its
        error once (OSError, CorruptRecordError). Nothing is lost then, and the next call tries
        again.
        """
        self._settle()
        self._raise_failure()
        # If it is already known which URLs are new, they need not wait for the end of a section.
        if self._set.answers_at_once and not self._sections:
            self._seal_if_any()
        if not self._sections or not self._sections[0].is_decided:
            return []
        taken = self._sections[0].take(limit)
        self._retire()
        return taken

    def merge(self) -> None:
        """Start finding the new URLs among all submitted ones, unless a merge is running or due.

        Returns immediately; the worker does the merge.
        """
        self._settle()
        self._raise_failure()
        if not self.merging:
            self._seal_if_any()
            self._advance()

    def _seal_if_any(self) -> None:
        """End the current section of the log, unless it is empty."""
        span = self._log.span
        if span.end > span.start:
            self._seal()

    def _raise_failure(self) -> None:
        """Raise the error that stopped work in the background, if any, and forget it."""
        failure = self._failure
        self._failure = None
        if failure is not None:
            raise failure

    def _settle(self) -> None:
        """Install the result of finished background work, and start the next piece of work."""
        try:
            self._background.settle()
        except Exception as error:  # noqa: BLE001  # take() raises it
            self._failure = error
            self._set.work_failed()
        self._retire()
        self._advance()

    def _advance(self) -> None:
        """Start the next background work, unless a failure has not been reported yet."""
        if self._failure is None:
            # If T is full and no merge is due, T can be merged now, even while the section before
            # it is still being taken.
            if self._set.is_full and not self.merging:
                self._seal()
            self._set.work()

    def _retire(self) -> None:
        """Remove the sections that were completely taken."""
        while self._sections and self._sections[0].is_done:
            self._sections.popleft().close()
            self._set.retire()

    # State on disk

    def open(self, snapshot: bytes | None) -> None:
        """Recover from *snapshot* and the log written since. Blocks: about 1 s for a full T.

        Raises CorruptRecordError if data that the snapshot covers is damaged, NewerFormatError if a
        later webcrawl wrote the files. Then nothing is changed, except that unneeded files are
        deleted.
        """
        self._new_directories = make_directory(self._path)
        try:
            state = self._set.open(snapshot)
            cursor = state.taken_until
            for span in state.untaken:
                self._replay_section(span, cursor)
                cursor = None  # nothing of the later sections was taken
            self._recover(state.open_section, first=state.first_file)
        except BaseException:
            self.close()
            raise
        self._retire()
        self._advance()

    def _replay_section(self, span: Span, cursor: Cursor | None) -> None:
        """Submit the URLs of a section again; payloads before *cursor* were already taken."""
        offset = span.start  # of the record that is read next
        payloads_left = 0
        for frame in read_frames(self._log.file(span.number), start=offset, end=span.end):
            # Records before the cursor were taken, but a merge must see their fingerprints again.
            new_payloads = self._set.replay(frame.fps, with_payload=has_payloads(frame.packed))
            if cursor is None or offset >= cursor.offset:
                payloads_left += new_payloads
            offset = frame.end
        # At the cursor, part of the record's payloads was taken.
        self._add_section(span, left=payloads_left - (cursor.done if cursor else 0), cursor=cursor)

    def _recover(self, open_section: Span, *, first: int) -> None:
        """Submit again the URLs in U from the start of *open_section* on; continue writing there.

        *open_section* is the section that was being written at the snapshot; damage before its end
        is an error. *first* is the oldest file of U that is still needed.
        """
        # The section that is read extends from *start* to *end* in file *number*.
        number = open_section.number
        start = open_section.start
        end = open_section.start
        trusted_until = open_section.end
        while True:
            for record_end, fps, packed in self._log.recover(
                number, start=start, trusted_until=trusted_until
            ):
                # Sections end where the set is full, as in ``_make_room``.
                if self._set.is_full:
                    self._add_section(Span(number, start, end), left=self._left)
                    start = end
                    self._left = 0
                self._left += self._set.replay(fps, with_payload=has_payloads(packed))
                end = record_end

            # The log continues in the next file, if there is one. A section never spans two files.
            if not self._log.file(number + 1).exists():
                break
            if end > start:
                self._add_section(Span(number, start, end), left=self._left)
                self._left = 0
            number += 1
            start = HEADER_SIZE
            end = start
            trusted_until = start
        self._log.open(number=number, start=start, end=end, first=first)

    def snapshot(self) -> bytes:
        """Return the current state; its size does not grow with the crawl.

        Take the snapshot of the frontier, which has the URLs that were taken, at the same moment.
        """
        self._settle()
        untaken = [section.span for section in self._sections]
        taken_until = self._sections[0].cursor if untaken else None
        # The log is needed from the oldest of these files on.
        needed_files = [self._set.log_needed_from, *(span.number for span in untaken[:1])]
        open_section = self._log.snapshot(
            min([n for n in needed_files if n is not None], default=None)
        )
        return self._set.snapshot(untaken, taken_until, open_section)

    def written(self) -> list[Path]:
        """Return files and directories to fsync before the last snapshot may be published."""
        return [*self._set.written(), *self._log.written(), self._path, *self._new_directories]

    def forget(self) -> None:
        """Delete, in the worker, files not named by the last snapshot, which is now published."""
        self._new_directories = []
        self._background.delete([*self._set.forget(), *self._log.forget()])

    def stats(self) -> dict[str, float]:
        """Return counters and gauges since ``open``, by their names in Scrapy's stats."""
        stats = self._set.stats()
        # Finished URLs are not new ones. The set counts them only once they are merged.
        stats["seen/new"] = max(0, stats["seen/new"] - self._noted)
        return stats | {"seen/submitted": self._submitted, "seen/waiting": self.waiting}

    def close(self) -> None:
        """Wait for the worker and close all files. The directory can still be recovered."""
        self._set.close()
        for section in self._sections:
            section.close()
        self._sections.clear()
        self._log.close()


class DiskEliminator(Eliminator):
    """Duplicate URL eliminator on disk, exact at any size (Mercator); see ``DiskSet``.

    *buffer_size* is the number of entries of T. Each entry takes 16 bytes in the table and 9 in the
    list of arrivals, and as much again while T' is merged. *cache* is in front of T. *executor*
    needs only one worker thread and may be shared. *tells_own* is for a new set; see ``DiskSet``.
    """

    def __init__(
        self,
        *,
        path: Path,
        executor: Executor,
        cache: UrlCache,
        buffer_size: int,
        clock: TimeSource = now,
        log_file_bytes: int = FILE_BYTES,
        tells_own: bool = True,
    ) -> None:
        background = Background(executor=executor)
        seen = DiskSet(
            path=path,
            background=background,
            cache=cache,
            buffer_size=buffer_size,
            clock=clock,
            tells_own=tells_own,
        )
        super().__init__(path=path, background=background, seen=seen, log_file_bytes=log_file_bytes)
