"""Interface for forwarding links and Requests to shards held by other processes.

The splitter of a hive implements it; a process that holds all shards of its crawl does not need it.
"""

from __future__ import annotations

from typing import Protocol

from webcrawl.crawl.links.link_intake import LinkBatch
from webcrawl.frontier import Entry


class RemoteShards(Protocol):
    """Forwards links and ordinary Requests to other processes.

    Everything passed to a method is on disk when it returns. Methods raise OSError when the disk is
    full: then nothing was accepted, and the call may be repeated.
    """

    @property
    def is_full(self) -> bool:
        """Return whether sources of URLs should pause. New links are still accepted."""

    def submit(self, batch: LinkBatch) -> None:
        """Submit *batch*, see ``LinkSink.submit``. Shards of this process also get their parts."""

    def enqueue(self, entry: Entry, name: int | None) -> None:
        """Submit *entry* to the shard of its URL, which may be in this process or another.

        *name* is the fingerprint of the entry. Without it the entry bypasses the eliminator.
        """

    def tell(self, source: str, target: str, content: bytes) -> None:
        """Send *content* about a subresource from the shard of *source* to that of *target*.

        Nothing is sent if this process has lost the shard of *source*.
        """

    def note_all_seeds_read(self) -> None:
        """Tell all shards that all seeds have been submitted. May be called more than once."""
