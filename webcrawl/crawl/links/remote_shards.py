"""Interface for forwarding links and Requests to shards held by other processes.

The splitter of a hive implements it; a process that holds all shards of its crawl does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from webcrawl.crawl.links.link_intake import LinkBatch
    from webcrawl.frontier import Entry


class RemoteShards(Protocol):
    """Forwards links and ordinary Requests to other processes.

    What was accepted is durable when a call returns. Raises OSError when the disk is full: then
    nothing was accepted, and the same may be submitted again.
    """

    @property
    def is_full(self) -> bool:
        """Return whether sources of URLs should pause. New links are still accepted."""
        ...

    def submit(self, batch: LinkBatch) -> None:
        """Submit *batch* as ``LinkSink.submit``; shards of this process get their parts, too."""
        ...

    def enqueue(self, entry: Entry, name: int | None) -> None:
        """Submit *entry* to the shard of its URL, held or not, with the fingerprint *name*.

        Without a fingerprint it bypasses the eliminator.
        """
        ...

    def note_all_seeds_read(self) -> None:
        """Tell each shard, after all of its seeds, that there are no more.

        May be called more than once.
        """
        ...
