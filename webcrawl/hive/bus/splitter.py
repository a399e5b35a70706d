"""Host splitter: what a process finds, divided between its shard and the outbox to others.

Links to the shard of their page are submitted there, all others go to the outbox of that shard,
those to other shards of the same process, too: each shard's checkpoint stands for itself.

A cache spares what was sent already (Broder et al., "Efficient URL Caching for World Wide Web
Crawling"): a link whose fingerprint it holds. The target's reputation counts which domains link to
it, so the pair of the domains of page and link goes alone if the cache does not hold that. Both
enter the cache when Redis has answered, so what is spared is in the target's stream, or in a
published checkpoint of it.
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

# Links of one message: at URL_MAX_LENGTH_BYTES these are a megabyte.
_LINKS = 512
# Sources of URLs pause while an outbox has so much to send.
_FULL_BYTES = 16 << 20
# The shard whose holder reads the seeds.
_OF_SEEDS = 0

# For ``Outbox.append_all``.
_Messages: TypeAlias = "list[tuple[int, bytes, Sequence[int]]]"


class HostSplitter:
    """An ``RemoteShards`` of *shards* over *outboxes*, by the numbers of those that are held."""

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
        """As ``LinkSink.submit``. NotHeldError if the process holds no shard."""
        number, outbox = self._source(batch.source.url)
        shard = self._shards.held(number)
        divide = self._of_page if batch.seeds is None else self._of_seeds
        own, messages = divide(batch, None if shard is None else number)
        if messages:
            outbox.append_all(messages)
        if shard is not None and own is not None:
            shard.submit(own)
            self._kept += len(own.links)

    def _source(self, url: str) -> tuple[int, Outbox]:
        """The shard of a document, and its outbox. Of seeds it is the one whose cursor tells how
        far they were read. If that has gone, any: the document will be fetched again."""
        number = self._shards.number_of(host_of(url)) if url else _OF_SEEDS
        for one in chain((number,), self._outboxes):
            if one in self._outboxes:
                return one, self._outboxes[one]
        raise NotHeldError("this process holds no shard")

    def _of_seeds(self, batch: LinkBatch, kept: int | None) -> tuple[LinkBatch | None, _Messages]:
        """The seeds of the shard *kept*, and the messages of all others."""
        parts = dict(batch.split(self._shards.number_of))
        own = None if kept is None else parts.pop(kept, None)
        self._sent += sum(len(part.links) for part in parts.values())
        return own, [(target, encode_links(part), ()) for target, part in parts.items()]

    def _of_page(self, batch: LinkBatch, kept: int | None) -> tuple[LinkBatch | None, _Messages]:
        """The links of a page to the shard *kept*, and the messages of all others: the links that
        are not spared, and the hosts of those that are."""
        names, hosts, cache = batch.fingerprints, batch.hosts, self._cache
        targets = [*map(self._shards.number_of, hosts)]
        leaving = [i for i, target in enumerate(targets) if target != kept]
        if not leaving:
            return batch, []
        domain = registered_domain(host_of(batch.source.url))
        pairs = [hash((domain, registered_domain(hosts[i]))) for i in leaving]
        missed = {*cache.misses([names[i] for i in leaving])}
        unknown = {*cache.misses(pairs)} if batch.source.score >= 0 else ()
        # By target: the links, and what the cache learns when they are sent.
        found: dict[int, tuple[list[int], list[int]]] = {}
        # Any will do for what may be lost in a crash, and one has fewer messages.
        note = next(iter(self._outboxes.values())).note
        for n, i in enumerate(leaving):
            if n in missed:
                at, learnt = found.setdefault(targets[i], ([], []))
                at.append(i)
                learnt += (names[i], pairs[n])
            elif n in unknown:
                note(targets[i], domain, hosts[i], pairs[n])
        self._sent += len(missed)
        self._spared += len(leaving) - len(missed)
        messages: _Messages = [
            (
                target,
                encode_links(batch, at[start : start + _LINKS]),
                learnt[2 * start : 2 * (start + _LINKS)],
            )
            for target, (at, learnt) in found.items()
            for start in range(0, len(at), _LINKS)
        ]
        own = [i for i, target in enumerate(targets) if target == kept]
        return batch.only(own) if own else None, messages

    def enqueue(self, entry: Entry, name: int | None) -> None:
        """As ``RemoteShards.enqueue``. NotHeldError if the process holds no shard."""
        outbox = self._of_requests()
        outbox.note_requests()
        target = self._shards.number_of(host_of(entry.url))
        outbox.append_all([(target, encode_entry(entry, name), ())])

    def _of_requests(self) -> Outbox:
        """The first outbox; that of a shard that is leaving, whose last checkpoint may have been
        made, only if all are: then no page is in process any more when it is made."""
        held = [
            (one.is_leaving, one.number) for one in self._shards if one.number in self._outboxes
        ]
        if not held:
            raise NotHeldError("this process holds no shard")
        _, number = min(held)
        return self._outboxes[number]

    def seeds_are_read(self) -> None:
        """As ``RemoteShards.seeds_are_read``: each shard gets a message, the one that read them,
        too."""
        _, outbox = self._source("")
        messages = [(target, SEEDS_SENT, ()) for target in range(self._shards.number)]
        outbox.append_all(messages, barrier=True)

    def stats(self) -> dict[str, float]:
        """Under their names in the crawl's statistics."""
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
