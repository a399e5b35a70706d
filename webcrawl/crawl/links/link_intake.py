"""Submission in the shard of the target: passes batches of links to the shard's eliminator.

submission.py makes the batches in the shard of the page. Decisions that need the target's records
are made here: whether its site belongs to a seed, its rank, and the reputation its domain gains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.frontier.entry import FOREIGN, Entry, decode, encode, encode_fields, join
from webcrawl.seen.eliminator import Eliminator
from webcrawl.urls import Link, host_of
from webcrawl.urls.filters.scope import whitelist_filter
from webcrawl.urls.registered_domain import registered_domain


class LinkSource(NamedTuple):
    """Where the links of a batch come from.

    url: the URL of the document; empty for seeds.
    depth: the depth of the links.
    rank: the rank of the document's host in the seed list; 0 if it has none.
    chain: the hops that led to the links, as in ``Entry``.
    at: when the links were found, epoch seconds.
    score: the score of the document, as in ``Entry``.
    """

    url: str
    depth: int
    rank: int
    chain: bytes
    at: float
    score: int = 0


class SeedFacts(NamedTuple):
    """Facts about a batch of seeds, in addition to its URLs.

    ranks: the ranks of the URLs in the seed list.
    hosts: hosts whose sites belong to the crawl, including hosts of refused seeds.
    """

    ranks: Sequence[int]
    hosts: Sequence[str]


def _by_shard(hosts: Sequence[str], number_of: Callable[[str], int]) -> dict[int, list[int]]:
    """Return the indexes of *hosts*, grouped by shard; *number_of* returns the shard of a host."""
    by_shard: dict[int, list[int]] = {}
    for i, host in enumerate(hosts):
        by_shard.setdefault(number_of(host), []).append(i)
    return by_shard


class LinkBatch(NamedTuple):
    """The links of one document, or some seeds, that passed the URL filters.

    ``hosts`` and ``fingerprints`` have one item for each link.
    """

    links: Sequence[Link]
    hosts: Sequence[str]
    fingerprints: Sequence[int]
    source: LinkSource
    seeds: SeedFacts | None = None

    def split(self, number_of: Callable[[str], int]) -> Iterator[tuple[int, LinkBatch]]:
        """Yield (shard, its part of the batch); *number_of* returns the shard of a host."""
        links_by_shard = _by_shard(self.hosts, number_of)
        sites_by_shard = {} if self.seeds is None else _by_shard(self.seeds.hosts, number_of)
        for number in sorted(links_by_shard.keys() | sites_by_shard.keys()):
            indexes = links_by_shard.get(number, [])
            is_whole = len(indexes) == len(self.hosts) and self.seeds is None
            yield number, self if is_whole else self.select(indexes, sites_by_shard.get(number, ()))

    def select(self, indexes: Sequence[int], seed_hosts: Sequence[int] = ()) -> LinkBatch:
        """Return a batch with only the links at *indexes*, and the hosts at *seed_hosts*."""
        seeds = self.seeds
        if seeds is not None:
            ranks = [seeds.ranks[i] for i in indexes]
            seeds = SeedFacts(ranks, [seeds.hosts[i] for i in seed_hosts])
        return LinkBatch(
            [self.links[i] for i in indexes],
            [self.hosts[i] for i in indexes],
            [self.fingerprints[i] for i in indexes],
            self.source,
            seeds,
        )


class LinkSink(Protocol):
    """Receiver of batches of links."""

    def submit(self, batch: LinkBatch) -> None:
        """Submit *batch*, which is on disk when this returns.

        Raises OSError when the disk is full. Links that are not on disk then do not count as
        submitted, and the same batch may be submitted again.
        """


@dataclass(kw_only=True, eq=False)
class LinkIntake:
    """Submits batches of links to an eliminator, with entries for URLs that may be new.

    *ranks* and *domains* are tables to which each seed is added. *domains* is None unless the crawl
    is limited to them. *key_of* returns a host's politeness key. *on_linked* is called for each
    document that links to other domains, with its own domain and these. *on_hint* is called for
    each URL of which a sitemap says that its document has changed, with an entry and the URL's
    fingerprint; None if no URL is visited again.
    """

    eliminator: Eliminator
    ranks: HostRanks
    domains: SeedDomains | None
    key_of: Callable[[str], str]
    on_linked: Callable[[str, Collection[str]], None]
    on_hint: Callable[[Entry, int], object] | None = None

    def __post_init__(self) -> None:
        # Refuses URLs outside *domains*; None if the crawl is not limited.
        self._whitelist = None if self.domains is None else whitelist_filter(self.domains)
        #: The number of links and seeds that were submitted in this run.
        self.submitted = 0
        #: Whether a URL is submitted apart by other domains and by its own one (``Entry.foreign``).
        self.tells_foreign = True
        #: Fingerprints of the foreign URLs that are being fetched or processed, and of all pages
        #: that waited for what they need when the crawl was stopped. Links of their own domain,
        #: seeds and Requests do not make them new, or they would be fetched twice.
        self.foreign_in_process: set[int] = set()
        #: The number of refused links, by the name of the filter.
        self.refused: Counter[str] = Counter()

    def submit(self, batch: LinkBatch) -> None:
        """Submit *batch*, see ``LinkSink.submit``.

        Raises FatalError when a crawl limited to the domains of its seeds has too many of them.
        """
        if batch.seeds is not None:
            self._submit_seeds(batch, batch.seeds)
            return
        self.submit_all((batch,))

    def submit_all(self, batches: Sequence[LinkBatch]) -> None:
        """Submit all *batches* in one write. They must not contain seeds."""
        batches = [scoped for batch in batches if (scoped := self._in_scope(batch)).links]
        if not batches:
            return

        source_hosts = [host_of(batch.source.url) for batch in batches]
        foreign_hosts = [*map(_foreign_hosts, batches, source_hosts)]
        entry_makers = [*map(self._entry_maker, batches, source_hosts, foreign_hosts)]
        # Before the links are submitted, because a hint matters only for a URL that is known.
        for batch, make_entry in zip(batches, entry_makers, strict=True):
            if self.on_hint is None:
                break
            for i, link in enumerate(batch.links):
                if link.modified:
                    self.on_hint(decode(make_entry(i)), batch.fingerprints[i])

        # The eliminator numbers the links of all batches from 0, and asks for the entries of those
        # that may be new.
        are_foreign: list[bool] = []
        for batch, is_foreign in zip(batches, foreign_hosts, strict=True):
            are_foreign += map(is_foreign.__getitem__, batch.hosts)
        if len(batches) == 1:
            self._submit(batches[0].fingerprints, entry_makers[0], are_foreign)
        else:
            encoders = [
                partial(make_entry, index)
                for make_entry, batch in zip(entry_makers, batches, strict=True)
                for index in range(len(batch.links))
            ]
            fps = [fp for batch in batches for fp in batch.fingerprints]
            self._submit(fps, lambda number: encoders[number](), are_foreign)

        for batch, source_host, is_foreign in zip(
            batches, source_hosts, foreign_hosts, strict=True
        ):
            self.submitted += len(batch.links)
            linked_hosts = [host for host, foreign in is_foreign.items() if foreign]
            # A page with a negative score may be an error page, which gives no reputation.
            if linked_hosts and batch.source.score >= 0:
                linked_domains = {*map(registered_domain, linked_hosts)}
                self.on_linked(registered_domain(source_host), linked_domains)

    def submit_entry(self, fingerprint: int, entry: Entry) -> None:
        """Submit *entry*, made from an ordinary Request. Raises OSError when the disk is full."""
        self._submit([fingerprint], lambda _: encode(entry), [False])

    def _submit(
        self,
        fps: Sequence[int],
        entry_of: Callable[[int], bytes],
        are_foreign: Sequence[bool],
    ) -> None:
        """Submit the URLs with fingerprints *fps*, and whether other domains have named them.

        ``entry_of(i)`` returns the encoded entry of the i-th one.
        """
        # A custom eliminator may know nothing of foreign URLs.
        if not (self.tells_foreign and getattr(self.eliminator, "tells_own", False)):
            self.eliminator.submit(fps, entry_of)
            return
        in_process = self.foreign_in_process
        if not in_process.isdisjoint(fps):
            pairs = zip(are_foreign, fps, strict=True)
            are_foreign = [flag or fp in in_process for flag, fp in pairs]
        self.eliminator.submit(fps, entry_of, are_foreign)

    def note_linked(self, domain: str, hosts: Collection[str]) -> None:
        """Record that pages of *domain* link to *hosts* by URLs that were submitted before."""
        domains = {registered_domain(host) for host in hosts if not self._is_outside(host)}
        if domains:
            self.on_linked(domain, domains)

    def _entry_maker(
        self, batch: LinkBatch, via_host: str, is_foreign: Mapping[str, bool]
    ) -> Callable[[int], bytes]:
        """Return a function that returns the encoded entry of the link of *batch* at an index.

        *via_host* is the host of the document. If it has a rank, its own links inherit it.
        *is_foreign* says whether a host of the links is in another domain.
        """
        links = batch.links
        hosts = batch.hosts
        source = batch.source
        own_key = self.key_of(via_host) if source.rank else ""
        # By host and kind of link, the fields of the entry that follow the URL.
        encoded_fields: dict[tuple[str, str], bytes] = {}

        def entry(i: int) -> bytes:
            """Return the encoded entry of the link with index *i*."""
            link = links[i]
            group = hosts[i], link.kind
            fields = encoded_fields.get(group)
            if fields is None:
                key = self.key_of(hosts[i])
                fields = encode_fields(
                    Entry(
                        url="",
                        host=key,
                        depth=source.depth,
                        # A host that is not in the seed list does not inherit the rank of the page
                        # that links to it.
                        rank=source.rank if key == own_key else self.ranks.rank(key),
                        via=source.url,
                        kind=link.kind,
                        discovered_at=source.at,
                        chain=source.chain,
                        foreign=FOREIGN if is_foreign[hosts[i]] else 0,
                        score=source.score,
                    )
                )
                encoded_fields[group] = fields
            return join(link.url, fields)

        return entry

    def _in_scope(self, batch: LinkBatch) -> LinkBatch:
        """Return *batch* without links that leave the domains of the seeds."""
        if self._whitelist is None:
            return batch
        refused = {host for host in {*batch.hosts} if self._is_outside(host)}
        if not refused:
            return batch
        kept = [i for i, host in enumerate(batch.hosts) if host not in refused]
        self.refused[self._whitelist.name] += len(batch.hosts) - len(kept)
        return batch.select(kept)

    def _is_outside(self, host: str) -> bool:
        """Return whether *host* is outside the domains that the crawl is limited to."""
        return self._whitelist is not None and self._whitelist.refuses("", host, None)

    def _submit_seeds(self, batch: LinkBatch, seeds: SeedFacts) -> None:
        """Submit *batch* of seeds, and record the ranks and domains of their hosts."""
        if self.domains is not None:
            self.domains.add(seeds.hosts)
        keys = [*map(self.key_of, batch.hosts)]
        if not keys:  # no seed was accepted; ``seeds.hosts`` includes those of refused seeds
            return
        self.ranks.add_many(zip(keys, seeds.ranks, strict=True))

        def entry(i: int) -> bytes:
            """Return the encoded entry of the seed with index *i*."""
            return encode(
                Entry(
                    url=batch.links[i].url,
                    host=keys[i],
                    rank=seeds.ranks[i],
                    kind="seed",
                    discovered_at=batch.source.at,
                )
            )

        self._submit(batch.fingerprints, entry, [False] * len(keys))
        self.submitted += len(keys)


def _foreign_hosts(batch: LinkBatch, source_host: str) -> dict[str, bool]:
    """Return whether each host of *batch* is in another domain than *source_host*."""
    domain = registered_domain(source_host)
    return {host: registered_domain(host) != domain for host in {*batch.hosts}}
