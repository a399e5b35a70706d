"""Host splitter: divides links between the shard of their page and the outbox to other shards.

Links to the shard of their page are submitted there. All others go to the outbox of that shard,
even those to other shards of the same process, because each shard's checkpoint stands on its own.

A cache avoids sending a link twice, by its fingerprint (Broder et al., "Efficient URL Caching for
World Wide Web Crawling"). The target's reputation counts which domains link to it. So if the link
is cached but its pair of domains is not, only the pair is sent. Both enter the cache when Redis has
answered, so links that are not sent are in the target's stream or in a published checkpoint of it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from webcrawl.crawl.shard.shards import NotHeldError
from webcrawl.hive.bus.messages import SEEDS_SENT, encode_entry, encode_links
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webcrawl.crawl.links.link_intake import LinkBatch
    from webcrawl.crawl.shard.shards import Shards
    from webcrawl.frontier import Entry
    from webcrawl.hive.bus.outbox import Outbox
    from webcrawl.seen.caches import UrlCache

# Links in one message; with URLs of URL_MAX_LENGTH_BYTES these are a megabyte.
_LINKS = 512
# Sources of URLs pause while an outbox has more than this to send.
_FULL_BYTES = 16 << 20
# The shard whose holder reads the seeds.
_SEED_SHARD = 0

# For ``Outbox.append_all``.
_Messages: TypeAlias = "list[tuple[int, bytes, Sequence[int]]]"


class HostSplitter:
    """``RemoteShards`` that sends to other shards through *outboxes*, by number of held shard."""

    def __init__(self, shards: Shards, *, outboxes: Mapping[int, Outbox], cache: UrlCache) -> None:
        self._shards = shards
        self._outboxes = outboxes
        self._cache = cache
        self._kept = self._sent = self._spared = 0

    @property
    def is_full(self) -> bool:
        """Whether the sources of URLs should pause. O(shards)."""
        return any(outbox.unsent > _FULL_BYTES for outbox in self._outboxes.values())

    def submit(self, batch: LinkBatch) -> None:
        """Submit *batch* as ``LinkSink.submit`` does. NotHeldError if no shard is held."""
        number, outbox = self._source(batch.source.url)
        shard = self._shards.held(number)
        divide = self._divide_links if batch.seeds is None else self._divide_seeds
        own, messages = divide(batch, None if shard is None else number)
        if messages:
            outbox.append_all(messages)
        if shard is not None and own is not None:
            shard.submit(own)
            self._kept += len(own.links)

    def _source(self, url: str) -> tuple[int, Outbox]:
        """Return the shard of a document, or of the seeds, and its outbox.

        If that shard is no longer held, use any other: the document will be fetched again.
        """
        number = self._shards.number_of(host_of(url)) if url else _SEED_SHARD
        for candidate in chain((number,), self._outboxes):
            if candidate in self._outboxes:
                return candidate, self._outboxes[candidate]
        raise NotHeldError("this process holds no shard")

    def _divide_seeds(
        self, batch: LinkBatch, kept: int | None
    ) -> tuple[LinkBatch | None, _Messages]:
        """Return the seeds for the shard *kept*, and messages with all others."""
        parts = dict(batch.split(self._shards.number_of))
        own = None if kept is None else parts.pop(kept, None)
        self._sent += sum(len(part.links) for part in parts.values())
        return own, [(target, encode_links(part), ()) for target, part in parts.items()]

    def _divide_links(
        self, batch: LinkBatch, kept: int | None
    ) -> tuple[LinkBatch | None, _Messages]:
        """Return the links of a page to the shard *kept*, and messages with all others.

        Links in the cache are not sent; their hosts are noted if the pair of domains is new.
        """
        fps, hosts, cache = batch.fingerprints, batch.hosts, self._cache
        targets = [*map(self._shards.number_of, hosts)]
        leaving = [i for i, target in enumerate(targets) if target != kept]
        if not leaving:
            return batch, []
        domain = registered_domain(host_of(batch.source.url))
        pairs = [hash((domain, registered_domain(hosts[i]))) for i in leaving]
        missed = {*cache.misses([fps[i] for i in leaving])}
        unknown = {*cache.misses(pairs)} if batch.source.score >= 0 else ()
        # By target: the indexes of links, and the cache keys to add on delivery.
        by_target: dict[int, tuple[list[int], list[int]]] = {}
        # Notes may be lost in a crash, so any outbox will do; using one makes fewer messages.
        note = next(iter(self._outboxes.values())).note
        for n, i in enumerate(leaving):
            if n in missed:
                indexes, cache_keys = by_target.setdefault(targets[i], ([], []))
                indexes.append(i)
                cache_keys += (fps[i], pairs[n])
            elif n in unknown:
                note(targets[i], domain, hosts[i], pairs[n])
        self._sent += len(missed)
        self._spared += len(leaving) - len(missed)
        messages: _Messages = [
            (
                target,
                encode_links(batch, indexes[start : start + _LINKS]),
                cache_keys[2 * start : 2 * (start + _LINKS)],
            )
            for target, (indexes, cache_keys) in by_target.items()
            for start in range(0, len(indexes), _LINKS)
        ]
        own = [i for i, target in enumerate(targets) if target == kept]
        return batch.only(own) if own else None, messages

    def enqueue(self, entry: Entry, name: int | None) -> None:
        """Send *entry* as ``RemoteShards.enqueue`` does. NotHeldError if no shard is held."""
        outbox = self._request_outbox()
        outbox.note_requests()
        target = self._shards.number_of(host_of(entry.url))
        outbox.append_all([(target, encode_entry(entry, name), ())])

    def _request_outbox(self) -> Outbox:
        """Return the first outbox, preferably of a shard that is not leaving.

        The last checkpoint of a leaving shard may have been made already. If all are leaving, it is
        made only after the last page in process.
        """
        held = [
            (shard.is_leaving, shard.number)
            for shard in self._shards
            if shard.number in self._outboxes
        ]
        if not held:
            raise NotHeldError("this process holds no shard")
        _, number = min(held)
        return self._outboxes[number]

    def note_all_seeds_read(self) -> None:
        """Tell each shard, including the one that read the seeds, that all seeds were sent."""
        _, outbox = self._source("")
        messages = [(target, SEEDS_SENT, ()) for target in range(self._shards.number)]
        outbox.append_all(messages, barrier=True)

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
