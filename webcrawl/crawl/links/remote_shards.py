"""Remote shards: forwards links and Requests to shards held by other processes.

The splitter of a hive is one; a process that holds all shards of its crawl has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from webcrawl.crawl.links.link_intake import LinkBatch
    from webcrawl.frontier import Entry


class RemoteShards(Protocol):
    """Way of links and ordinary Requests to other processes.

    What was taken is durable when a call returns. OSError when the disk is full: nothing was taken
    then, and the same may come again.
    """

    @property
    def is_full(self) -> bool:
        """Whether the sources of URLs should pause. What comes is still taken."""
        ...

    def submit(self, batch: LinkBatch) -> None:
        """As ``LinkSink.submit``: for the shards of this process, too, which get their parts."""
        ...

    def enqueue(self, entry: Entry, name: int | None) -> None:
        """Submit *entry* to the shard of its URL, held or not, under the fingerprint *name*; None:
        past the eliminator."""
        ...

    def seeds_are_read(self) -> None:
        """There are no more seeds: each shard is told, after all of its seeds. May be called more
        than once."""
        ...
