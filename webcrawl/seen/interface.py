"""What the crawl may ask of a duplicate URL eliminator, whichever it is.

Called by the scheduler and the dupefilter. Everything is called in the crawl's own thread; see
the package docstring for the guarantees and ``webcrawl.storage`` for how a checkpoint is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class Eliminator(Protocol):
    """A duplicate URL eliminator (Mercator, section 3.2) on one directory."""

    on_merged: Callable[[], object]
    """Called in the worker thread when work there has ended: ``take`` may have something now.
    It must only arrange that, for example with ``call_soon_threadsafe``."""

    last_merge_secs: float
    """How long the last merge took; 0.0 when answers need no merge."""

    @property
    def waiting(self) -> int:
        """Payloads that may still come out of ``take``: an upper bound until they are merged,
        and 0 only when none is left. O(1)."""

    @property
    def merging(self) -> bool:
        """Whether a merge is running or due."""

    @property
    def is_full(self) -> bool:
        """Whether feeders should pause until some has been taken. Submitting is still safe."""

    def submit(self, fps: Sequence[int], encode: Callable[[int], bytes]) -> int:
        """Submit the URLs with fingerprints *fps*, a page's links at once.

        ``encode(i)`` gives the payload of the i-th; it is called only for those not known to be
        seen, whose number is returned. They survive ``kill -9`` from then on. Whatever it raises,
        OSError for a full disk for one, nothing of the batch was taken in.
        """

    def certainly_seen(self, fp: int) -> bool:
        """Whether *fp* is known to have been submitted, without looking further."""

    def add(self, fp: int) -> bool:
        """Test and insert at once, exactly as far as the implementation goes; true when new.

        Nothing comes out of ``take`` for it. May block for a few reads of 8 kB.
        """

    def take(self, limit: int) -> list[bytes]:
        """At most *limit* payloads of new URLs, in first-seen order, each once.

        Raises what stopped work in the background (OSError, CorruptRecordError), once; nothing
        is lost then, and the work is tried again at the next call.
        """

    def merge(self) -> None:
        """Begin to find the new ones among all that were submitted. Returns at once."""

    def open(self, snapshot: bytes | None) -> None:
        """Recover from *snapshot* and the logs written since. Blocks."""

    def snapshot(self) -> bytes:
        """The state now, taken at the same moment as that of whoever keeps what was taken."""

    def written(self) -> list[Path]:
        """What must be fsynced before that snapshot may be published."""

    def forget(self) -> None:
        """That snapshot was published: delete what it no longer names, in the worker thread."""

    def stats(self) -> dict[str, int | float]:
        """Counters and gauges since ``open``, by their names in Scrapy's stats."""

    def check(self) -> list[str]:
        """Read everything on disk; what is wrong with it. Blocks, for minutes if it is large."""

    def close(self) -> None:
        """Wait for the worker and close all files. The directory stays recoverable."""
