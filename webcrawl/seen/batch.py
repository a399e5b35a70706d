"""A T' with its U': a full buffer on its way through merge and drain.

Held by the disk eliminator in order of arrival. The invariant: a batch has either a buffer, before
its merge, or a drain, after it; ``left`` is exact from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.seen.drain import Cursor, Drain
from webcrawl.seen.table import WITH_PAYLOAD

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.seen.merge import Merged
    from webcrawl.seen.runs import Run
    from webcrawl.seen.table import Buffer
    from webcrawl.seen.url_log import Span


class Batch:
    """*buffer* is what stands in *span* of the log; before *cursor* all has been taken."""

    def __init__(self, *, span: Span, buffer: Buffer, cursor: Cursor | None = None) -> None:
        self.span = span
        self.entries = len(buffer)
        self.buffer: Buffer | None = buffer
        self.drain: Drain | None = None
        self.run: Run | None = None
        self._cursor = cursor or Cursor(span.start, 0, 0)
        #: Payloads not taken yet; an upper bound before the merge.
        self.left = buffer.kinds.count(WITH_PAYLOAD, self._cursor.ordinal) - self._cursor.done

    @property
    def cursor(self) -> Cursor:
        """How far it has been taken."""
        return self._cursor if self.drain is None else self.drain.cursor

    @property
    def is_done(self) -> bool:
        """Whether it was merged and all its new payloads were taken."""
        return self.drain is not None and not self.left

    def install(self, merged: Merged, *, path: Path) -> None:
        """Take up what the merge found; *path* is the log file of the span."""
        if self.buffer is not None:
            self.buffer.close()
            self.buffer = None
        self.run = merged.run
        self.left = merged.marks.count(1, self._cursor.ordinal) - self._cursor.done
        self.drain = Drain(path=path, end=self.span.end, cursor=self._cursor, marks=merged.marks)

    def close(self) -> None:
        """Give back memory and files, but for the run's."""
        for part in (self.buffer, self.drain):
            if part is not None:
                part.close()
