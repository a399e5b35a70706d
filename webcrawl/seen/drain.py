"""Stretches of the URL log, and the reader that returns their new URLs in order.

Used by ``take`` of the eliminators. The invariant: every marked payload is handed out once, in
order, and a new ``LogSection`` with a saved ``cursor`` continues with the next payload.

The log is read in the crawl's own thread. The section was written only seconds ago, so it is read
from the page cache, 100,000 URLs in about 50 ms, and ``take`` limits how much it reads.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import compress
from pathlib import Path
from typing import NamedTuple

from webcrawl.seen.url_log import Frame, Span, read_frames
from webcrawl.storage.record_log import CorruptRecordError, unpack

# take() returns after reading this many bytes, which takes 10 to 20 ms.
_SCAN_BYTES = 1 << 19


class Cursor(NamedTuple):
    """A position in a section: a record of the log, and how far it was taken.

    The record is at byte *offset* and its first fingerprint is the *ordinal*-th of the section;
    *done* of the record's payloads were handed out.
    """

    offset: int
    ordinal: int
    done: int


class LogSection:
    """A part of the URL log whose new payloads have not all been taken.

    *span* says where it is in the log, and *path* is the log file. *left* is the number of payloads
    from *cursor* on that may be new, exact once ``decide`` was called. Without a *cursor* nothing
    of it was taken.
    """

    def __init__(self, *, span: Span, path: Path, left: int, cursor: Cursor | None) -> None:
        self.span = span
        self.left = left
        #: How far the section has been taken.
        self.cursor = cursor or Cursor(span.start, 0, 0)
        self._path = path
        # One byte for each ordinal, 1 if the payload is new; None if all payloads are new.
        self._marks: bytes | None = None
        # The records from the cursor on; None until ``decide`` is called.
        self._records: Generator[Frame, None, None] | None = None
        self._next = self.cursor  # the first record not read yet
        self._payloads: list[bytes] = []  # those not taken yet of the record at the cursor
        # Number of new payloads of the next record that an earlier process has taken.
        self._already_taken = self.cursor.done
        # The error that ended reading; every ``take`` that has nothing to return raises it.
        self._error: OSError | CorruptRecordError | None = None

    @property
    def is_decided(self) -> bool:
        """Whether it is known which payloads are new."""
        return self._records is not None

    @property
    def is_done(self) -> bool:
        """Whether the new payloads are known and all of them were taken."""
        return self.is_decided and not self.left

    def decide(self, marks: bytes | None) -> None:
        """Set which payloads are new: those with a 1 in *marks* (a byte per ordinal), or all."""
        if marks is not None:
            # New payloads from the cursor's record on, without those of this record that were
            # already taken.
            self.left = marks.count(1, self.cursor.ordinal) - self.cursor.done
        self._marks = marks
        self._records = read_frames(self._path, start=self.cursor.offset, end=self.span.end)

    def take(self, limit: int) -> list[bytes]:
        """Return the next new payloads of a decided section, at most *limit*.

        There are fewer at the end, or if they are far apart in the log. Raises CorruptRecordError
        if the log is damaged and OSError if it cannot be read, but only after the payloads before
        that place have been taken. Every later call raises the error again.
        """
        payloads: list[bytes] = []
        # Beyond this offset no further record is read, as that would take too long.
        stop_offset = self._next.offset + _SCAN_BYTES
        while len(payloads) < limit:
            if not self._payloads and not self._try_read(has_some=bool(payloads)):
                break
            taken = self._payloads[: limit - len(payloads)]
            payloads += taken
            del self._payloads[: len(taken)]
            # The cursor stays at this record until all of its payloads are taken.
            if self._payloads:
                self.cursor = self.cursor._replace(done=self.cursor.done + len(taken))
            else:
                self.cursor = self._next
                if self._next.offset >= stop_offset:
                    break
        self.left -= len(payloads)
        return payloads

    def _try_read(self, *, has_some: bool) -> bool:
        """Call ``_read``; with *has_some*, return False instead of raising an error.

        Then the caller can return the payloads it has. The next call raises the error.
        """
        if self._error is None:
            try:
                return self._read()
            except (OSError, CorruptRecordError) as error:
                self._error = error
        if has_some:
            return False
        raise self._error

    def _read(self) -> bool:
        """Read the next record, keep its new payloads; return False at the end of the section."""
        frame = next(self._records, None)  # type: ignore[arg-type]  # they are open
        if frame is None:
            return False

        end, fps, packed = frame
        self.cursor = self._next._replace(done=self._already_taken)
        first = self._next.ordinal
        count = len(fps)
        self._next = Cursor(end, first + count, 0)
        marks = self._marks
        # A record without new URLs need not be unpacked.
        if marks is None or 1 in marks[first : first + count]:
            payloads = unpack(self._path, self.cursor.offset, packed)
            if marks is not None:
                payloads = list(compress(payloads, marks[first : first + count]))
            self._payloads = payloads[self._already_taken :] if self._already_taken else payloads
        self._already_taken = 0
        return True

    def close(self) -> None:
        """Close the file."""
        if self._records is not None:
            self._records.close()
