"""Duplicate URL eliminator (Mercator, section 3.2, figure 4): a URL log and a set of fingerprints.

The scheduler submits each page's links and takes the new ones for the frontier. URLs that the set
(``DiskSet`` or ``BloomSet``) does not know are appended to the URL log U. A stretch of U ends when
the set is full or ``merge`` is called. Once the set has decided which of its URLs are new, ``take``
reads their payloads from U. Several stretches may wait, so a submit never blocks and drops nothing;
``is_full`` tells when feeders should pause.

The invariant: ``take`` returns every new URL exactly once, in first-seen order, and snapshots name
a stretch, with the position up to which it was taken, until all of it was.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING

from webcrawl.clock import TimeSource, now
from webcrawl.seen.background import Background
from webcrawl.seen.disk_set import DiskSet
from webcrawl.seen.drain import Stretch
from webcrawl.seen.url_log import FILE_BYTES, Span, UrlLog, has_payloads, read_frames
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from webcrawl.seen.bloom import BloomSet
    from webcrawl.seen.caches import UrlCache
    from webcrawl.seen.drain import Cursor


class Eliminator:
    """Duplicate URL eliminator on one directory.

    All methods run in the crawl's own thread. See the package docstring for the guarantees,
    ``webcrawl.storage`` for checkpoints.
    """

    def __init__(
        self, *, path: Path, background: Background, seen: DiskSet | BloomSet, log_file_bytes: int
    ) -> None:
        #: Called in the worker thread when work there has ended, as ``take`` may have something.
        #: It must only arrange that it is called, for example with ``call_soon_threadsafe``.
        self.on_merged: Callable[[], object] = lambda: None
        self._path = path
        self._background = background
        background.on_done = self._call_on_merged
        self._set = seen
        #: Methods of the set; ``knows`` tells whether a fingerprint was submitted before.
        self.resize, self.knows = seen.resize, seen.find
        self._log = UrlLog(path=path, aside=background.aside, file_bytes=log_file_bytes)
        self._stretches: deque[Stretch] = deque()
        self._left = 0  # number of payloads in the log after the last stretch
        self._failure: Exception | None = None
        self._submitted = 0
        self._made: list[Path] = []

    def _call_on_merged(self) -> None:
        self.on_merged()

    # Submitting

    def submit(self, fps: Sequence[int], encode: Callable[[int], bytes]) -> int:
        """Submit the URLs with fingerprints *fps*, usually all links of a page.

        ``encode(i)`` returns the payload of the i-th; it is called only for those not known to be
        seen, whose number is returned. From then on they survive ``kill -9``. If it raises, for
        example OSError for a full disk, none of the batch was added.
        """
        self._make_room()
        self._submitted += len(fps)
        return self._append(fps, encode)

    def add(self, fp: int) -> bool:
        """Test and insert *fp* immediately; return whether it is new. ``take`` does not return it.

        May block for a few reads of 8 kB.
        """
        self._make_room()
        self._submitted += 1
        return not self._set.find(fp) and bool(self._append((fp,), None))

    def _make_room(self) -> None:
        if self._background.ended:
            self._settle()
        if self._set.is_full or (self._set.answers_at_once and self._log.is_large):
            self._seal()
            self._advance()

    def _append(self, fps: Sequence[int], encode: Callable[[int], bytes] | None) -> int:
        new = self._set.insert(fps)
        if new:
            fresh = array("Q", [fps[index] for index in new])
            try:
                self._log.append(fresh, [encode(index) for index in new] if encode else ())
            except BaseException:
                self._set.undo(fresh)
                raise
            self._set.mark_seen(fresh, with_payload=encode is not None)
            if encode is not None:
                self._left += len(new)
        return len(new)

    def certainly_seen(self, fp: int) -> bool:
        """Return whether *fp* is known to have been submitted, without looking on disk."""
        return fp in self._set

    def _seal(self) -> None:
        """End the stretch of the log that is being written."""
        self._add_stretch(self._log.cut(), left=self._left)
        self._left = 0

    def _add_stretch(self, span: Span, *, left: int, cursor: Cursor | None = None) -> None:
        path = self._log.file(span.number)
        stretch = Stretch(span=span, path=path, left=left, cursor=cursor)
        self._stretches.append(stretch)
        self._set.seal(stretch)

    # Taking

    @property
    def waiting(self) -> int:
        """Number of payloads that ``take`` may still return.

        It is an upper bound until they are merged, and 0 only if none is left.
        """
        return self._left + sum([stretch.left for stretch in self._stretches])

    @property
    def has_decided(self) -> bool:
        """Whether ``take`` may return something now, or must report how a merge ended. O(1)."""
        if self._set.answers_at_once:
            return bool(self.waiting)
        return self._background.ended or bool(self._stretches and self._stretches[0].is_decided)

    @property
    def merging(self) -> bool:
        """Whether a merge is running or due."""
        return any(not stretch.is_decided for stretch in self._stretches)

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

        Reads no more than a few megabytes of the log. Raises, once, what stopped work in the
        background (OSError, CorruptRecordError); nothing is lost then, and the next call tries
        again.
        """
        self._settle()
        self._raise_failure()
        if self._set.answers_at_once and not self._stretches:
            self._seal_if_any()
        if not self._stretches or not self._stretches[0].is_decided:
            return []
        taken = self._stretches[0].take(limit)
        self._retire()
        return taken

    def merge(self) -> None:
        """Begin to find the new URLs among all submitted ones, unless a merge is running or due.

        Returns immediately.
        """
        self._settle()
        self._raise_failure()
        if not self.merging:
            self._seal_if_any()
            self._advance()

    def _seal_if_any(self) -> None:
        span = self._log.span
        if span.end > span.start:
            self._seal()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _settle(self) -> None:
        """Install what the worker has done and give it the next thing to do."""
        try:
            self._background.settle()
        except Exception as error:  # noqa: BLE001  # take() raises it
            self._failure = error
            self._set.work_failed()
        self._retire()
        self._advance()

    def _advance(self) -> None:
        if self._failure is None:
            # Feeders pause while the last T' is being taken, but the worker can go on.
            if self._set.is_full and not self.merging:
                self._seal()
            self._set.work()

    def _retire(self) -> None:
        while self._stretches and self._stretches[0].is_done:
            self._stretches.popleft().close()
            self._set.retire()

    # State on disk

    def open(self, snapshot: bytes | None) -> None:
        """Recover from *snapshot* and the log written since. Blocks: about 1 s for a full T.

        Raises CorruptRecordError for damage in data that the snapshot covers, NewerFormatError for
        files of a later version. Nothing is changed then, except that unneeded files are deleted.
        """
        self._made = make_directory(self._path)
        try:
            state = self._set.open(snapshot)
            cursor = state.cursor
            for span in state.pending:
                self._replay_stretch(span, cursor)
                cursor = None
            self._recover(state.active, first=state.first)
        except BaseException:
            self.close()
            raise
        self._retire()
        self._advance()

    def _replay_stretch(self, span: Span, cursor: Cursor | None) -> None:
        place, left = span.start, 0
        for frame in read_frames(self._log.file(span.number), start=place, end=span.end):
            held = self._set.replay(frame.fps, with_payload=has_payloads(frame.packed))
            if cursor is None or place >= cursor.offset:
                left += held
            place = frame.end
        self._add_stretch(span, left=left - (cursor.done if cursor else 0), cursor=cursor)

    def _recover(self, active: Span, *, first: int) -> None:
        """Submit again the URLs in U from the start of *active* on, then continue writing there."""
        number, start, end = active.number, active.start, active.start
        trusted_until = active.end
        while True:
            for offset, fps, packed in self._log.recovered(
                number, start=start, trusted_until=trusted_until
            ):
                if self._set.is_full:
                    self._add_stretch(Span(number, start, end), left=self._left)
                    start, self._left = end, 0
                self._left += self._set.replay(fps, with_payload=has_payloads(packed))
                end = offset
            if not self._log.file(number + 1).exists():
                break
            if end > start:
                self._add_stretch(Span(number, start, end), left=self._left)
                self._left = 0
            number += 1
            start = end = trusted_until = HEADER_SIZE
        self._log.open(number=number, start=start, end=end, first=first)

    def snapshot(self) -> bytes:
        """Return the state now; its size does not grow with the crawl.

        It must be taken at the same moment as that of the frontier, which has the URLs that were
        taken.
        """
        self._settle()
        pending = [stretch.span for stretch in self._stretches]
        cursor = self._stretches[0].cursor if pending else None
        needed = [self._set.log_needed_from, *(span.number for span in pending[:1])]
        active = self._log.snapshot(min([n for n in needed if n is not None], default=None))
        return self._set.snapshot(pending, cursor, active)

    def written(self) -> list[Path]:
        """Return the files to fsync before that snapshot may be published."""
        return [*self._set.written(), *self._log.written(), self._path, *self._made]

    def forget(self) -> None:
        """Delete files, in the worker, that the last snapshot (now published) does not name."""
        self._made = []
        self._background.delete([*self._set.forget(), *self._log.forget()])

    def stats(self) -> dict[str, float]:
        """Return counters and gauges since ``open``, by their names in Scrapy's stats."""
        return {
            "seen/submitted": self._submitted,
            "seen/waiting": self.waiting,
            **self._set.stats(),
        }

    def close(self) -> None:
        """Wait for the worker and close all files. The directory can still be recovered."""
        self._set.close()
        for stretch in self._stretches:
            stretch.close()
        self._stretches.clear()
        self._log.close()


class DiskEliminator(Eliminator):
    """Duplicate URL eliminator on disk, exact at any size (Mercator); see ``DiskSet``.

    *buffer_size* is the number of entries of T, which take 16 bytes each for the table and 9 for
    the order, and as much again while T' is merged. *executor* needs only one worker thread, and
    may be shared.
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
    ) -> None:
        background = Background(executor=executor)
        seen = DiskSet(
            path=path, background=background, cache=cache, buffer_size=buffer_size, clock=clock
        )
        super().__init__(path=path, background=background, seen=seen, log_file_bytes=log_file_bytes)
