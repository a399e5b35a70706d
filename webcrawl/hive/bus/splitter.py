"""Host splitter: divides links between the shard of their page and the outbox to other shards.

A link to the shard of its page is submitted there. Every other link goes to the outbox of the
page's shard, even if the same process holds the target, because each shard's checkpoint stands on
its own.

A cache of fingerprints avoids sending a link twice (Broder et al., "Efficient URL Caching for World
Wide Web Crawling"). The reputation of a domain counts which other domains link to it. So if a link
is cached but its pair of domains is not, only the pair is sent. Link and pair enter the cache when
Redis has answered. So a link that is not sent is in the target's stream, or in a published
checkpoint of the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from webcrawl.crawl.links.link_intake import LinkBatch
from webcrawl.crawl.shard.shards import NotHeldError, Shards
from webcrawl.frontier import Entry
from webcrawl.hive.bus.large_bodies import LargeBodies
from webcrawl.hive.bus.messages import (
    EntryMessage,
    SeedsSent,
    SubresourceMessage,
    encode,
    encode_links,
)
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.seen.caches import UrlCache
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import registered_domain

# Most links in one message, which is a megabyte if all URLs have URL_MAX_LENGTH_BYTES.
_MAX_LINKS = 512
# Sources of URLs pause while an outbox has more unsent bytes than this.
_FULL_BYTES = 16 << 20
# Larger contents for renderers are put into HIVE_STORE.
_MAX_CONTENT = 1 << 16
# The shard whose holder reads the seeds.
_SEED_SHARD = 0

# The target, payload and cache keys of each message, for ``Outbox.append_all``.
_Messages: TypeAlias = "list[tuple[int, bytes, Sequence[int]]]"


class HostSplitter:
    """``RemoteShards`` that sends links through *outboxes*, which are keyed by held shard.

    *cache* has the fingerprints of links, and hashes of pairs of domains, that need not be sent
    again. *shards* are those of the process. *bodies* stores large contents for renderers.
    """

    def __init__(
        self,
        shards: Shards,
        *,
        outboxes: Mapping[int, Outbox],
        cache: UrlCache,
        bodies: LargeBodies,
    ) -> None:
        self._shards = shards
        self._outboxes = outboxes
        self._cache = cache
        self._bodies = bodies
        # Numbers of links: to the shard of their page, sent to others, and not sent because they
        # were in the cache.
        self._kept = 0
        self._sent = 0
        self._spared = 0

    @property
    def is_full(self) -> bool:
        """Whether the sources of URLs should pause. O(shards)."""
        return any(outbox.unsent > _FULL_BYTES for outbox in self._outboxes.values())

    def submit(self, batch: LinkBatch) -> None:
        """Submit the links of *batch* to the shard of their page, and send all others.

        Raises NotHeldError if this process holds no shard.
        """
        number, outbox = self._source(batch.source.url)
        shard = self._shards.find_held(number)  # None if it was given up meanwhile
        divide = self._divide_links if batch.seeds is None else self._divide_seeds
        own_links, messages = divide(batch, None if shard is None else number)
        if messages:
            outbox.append_all(messages)
        if shard is not None and own_links is not None:
            shard.submit(own_links)
            self._kept += len(own_links.links)

    def _source(self, url: str) -> tuple[int, Outbox]:
        """Return the shard of a document, or of the seeds, and its outbox.

        If that shard is no longer held, use any other: the document will be fetched again.
        """
        number = self._shards.number_of(host_of(url)) if url else _SEED_SHARD
        # First that shard, then all that have an outbox here.
        for candidate in chain((number,), self._outboxes):
            if candidate in self._outboxes:
                return candidate, self._outboxes[candidate]
        raise NotHeldError("this process holds no shard")

    def _divide_seeds(
        self, batch: LinkBatch, own_number: int | None
    ) -> tuple[LinkBatch | None, _Messages]:
        """Return the seeds for shard *own_number*, and messages with all other seeds."""
        by_target = dict(batch.split(self._shards.number_of))
        own_seeds = None if own_number is None else by_target.pop(own_number, None)
        self._sent += sum(len(seeds.links) for seeds in by_target.values())
        return own_seeds, [(target, encode_links(seeds), ()) for target, seeds in by_target.items()]

    def _divide_links(
        self, batch: LinkBatch, own_number: int | None
    ) -> tuple[LinkBatch | None, _Messages]:
        """Return a page's links to shard *own_number*, and messages with all other links.

        If *own_number* is None, because the page's shard is no longer held, all links are sent.
        Links in the cache are not sent. If such a link is the first from the page's domain to its
        host's domain, the pair is sent instead.
        """
        fingerprints = batch.fingerprints
        hosts = batch.hosts
        cache = self._cache
        targets = [*map(self._shards.number_of, hosts)]
        leaving = [index for index, target in enumerate(targets) if target != own_number]
        if not leaving:
            return batch, []

        # Positions in *leaving* of the links, and of the pairs of domains, not in the cache.
        domain = registered_domain(host_of(batch.source.url))
        pair_keys = [hash((domain, registered_domain(hosts[index]))) for index in leaving]
        uncached = {*cache.misses([fingerprints[index] for index in leaving])}
        # A page that may be a soft error (score -1) does not count for reputation.
        uncached_pairs = {*cache.misses(pair_keys)} if batch.source.score >= 0 else ()

        # By target: the indexes of links, and the cache keys to add on delivery.
        by_target: dict[int, tuple[list[int], list[int]]] = {}
        # Pairs may be lost in a crash, so any outbox will do; using one makes fewer messages.
        note_link = next(iter(self._outboxes.values())).note
        for position, index in enumerate(leaving):
            if position in uncached:
                indexes, cache_keys = by_target.setdefault(targets[index], ([], []))
                indexes.append(index)
                cache_keys += (fingerprints[index], pair_keys[position])
            elif position in uncached_pairs:
                note_link(targets[index], domain, hosts[index], pair_keys[position])

        self._sent += len(uncached)
        self._spared += len(leaving) - len(uncached)
        messages: _Messages = [
            (
                target,
                encode_links(batch, indexes[start : start + _MAX_LINKS]),
                # Two for each link: its own and that of its pair of domains.
                cache_keys[2 * start : 2 * (start + _MAX_LINKS)],
            )
            for target, (indexes, cache_keys) in by_target.items()
            for start in range(0, len(indexes), _MAX_LINKS)
        ]
        own_indexes = [index for index, target in enumerate(targets) if target == own_number]
        return batch.select(own_indexes) if own_indexes else None, messages

    def enqueue(self, entry: Entry, name: int | None) -> None:
        """Send *entry* to the shard of its host, submitted under the fingerprint *name*.

        If *name* is None, the entry is requeued. Raises NotHeldError if this process holds no
        shard.
        """
        outbox = self._request_outbox()
        outbox.note_requests()
        target = self._shards.number_of(host_of(entry.url))
        outbox.append_all([(target, encode(EntryMessage(entry, name)), ())])

    def tell(self, source: str, target: str, content: bytes) -> None:
        """See ``RemoteShards.tell``. A large *content* is stored first."""
        if len(content) <= _MAX_CONTENT:
            self._tell(source, SubresourceMessage(target, content))
        else:
            self._bodies.put(
                content,
                lambda name: self._tell(
                    source, SubresourceMessage(target, name.encode(), is_stored=True)
                ),
            )

    def _tell(self, source: str, message: SubresourceMessage) -> None:
        outbox = self._outboxes.get(self._shards.number_of(host_of(source)))
        # Otherwise the next holder of the shard is asked.
        if outbox is not None and outbox.is_open:
            target = self._shards.number_of(host_of(message.url))
            outbox.append_all([(target, encode(message), ())])

    def _request_outbox(self) -> Outbox:
        """Return the first outbox, preferably of a shard that is not leaving.

        The last checkpoint of a leaving shard may have been made already. If all shards are
        leaving, their last checkpoints are made only after the last page in process.
        """
        candidates = [
            (shard.is_leaving, shard.number)
            for shard in self._shards
            if shard.number in self._outboxes
        ]
        if not candidates:
            raise NotHeldError("this process holds no shard")
        _, number = min(candidates)  # False, for a shard that is not leaving, is less than True
        return self._outboxes[number]

    def note_all_seeds_read(self) -> None:
        """Tell each shard, including the one that read the seeds, that all seeds were sent."""
        _, outbox = self._source("")
        message = encode(SeedsSent())
        outbox.append_all([(target, message, ()) for target in range(self._shards.number)])

    def stats(self) -> dict[str, float]:
        """Return the stats of this splitter by name."""
        leaving = self._sent + self._spared
        return {
            "hive/links/leaving_share": round(leaving / max(1, self._kept + leaving), 4),
            "hive/cache/hit_share": round(self._spared / max(1, leaving), 4),
            "hive/links/kept": self._kept,
            "hive/links/sent": self._sent,
            "hive/links/spared": self._spared,
            "hive/outbox/bytes": sum(outbox.size for outbox in self._outboxes.values()),
            "hive/outbox/unsent": sum(outbox.unsent for outbox in self._outboxes.values()),
        }
