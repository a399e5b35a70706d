"""From the links of a page, or a batch of seeds, to the eliminator: one batch per page.

The path of every link runs through here: filters, fingerprint, and an entry only for those that
the eliminator does not know at once. No Scrapy Request is made for a link: a Request per link is
what makes a stock broad crawl slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webcrawl.errors import FatalError
from webcrawl.frontier.entry import Entry, encode
from webcrawl.seen.fingerprint import fingerprint, fingerprints
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Mapping, Sequence

    from webcrawl.frontier.ranks import HostRanks
    from webcrawl.items import Page
    from webcrawl.seed_domains import SeedDomains
    from webcrawl.seeds import Seed
    from webcrawl.seen.interface import Eliminator
    from webcrawl.urls.filters import FilterChain

# Kinds of links whose page is nothing but the way to another.
_FORWARDS = frozenset({"redirect", "refresh"})
_HOP_BYTES = 16


class LinkSubmitter:
    """Submits batches to the eliminator. Each batch is on disk when the call returns."""

    def __init__(
        self,
        *,
        eliminator: Eliminator,
        filters: FilterChain,
        form: Callable[[str], str],
        domains: SeedDomains | None,
        ranks: HostRanks,
        key_of: Callable[[str], str],
        max_redirects: int,
        awaits_seeds: bool,
        wall: Callable[[], float],
    ) -> None:
        """*form* gives what a URL is compared by, *key_of* its politeness key; *domains* are told
        of the seeds' hosts if the crawl is not to leave them; *max_redirects* is how many may
        follow one another. With *awaits_seeds* no page may be fetched until all seeds are read:
        a link to a domain whose seed comes later would be refused for good."""
        self._eliminator = eliminator
        self._filters = filters
        self.form = form
        self._domains = domains
        self._ranks = ranks
        self._key_of = key_of
        self._max_redirects = max_redirects
        self.awaits_seeds = awaits_seeds
        self._wall = wall
        self.submitted = 0

    def resume(self, facts: Mapping[str, Any]) -> None:
        """*facts* are those of the crawl that goes on. FatalError when it must not be narrowed: it
        has not kept the domains of the seeds that it has read."""
        if self._domains is not None and not facts.get("knows_domains"):
            raise FatalError(
                "This crawl was begun with URL_SCOPE open, and the domains of its seeds are not "
                "known: go on with that, or choose another JOBDIR."
            )

    @property
    def knows_domains(self) -> bool:
        """Whether the domains of the seeds are kept."""
        return self._domains is not None

    def rank_of(self, host: str) -> int:
        """The rank of *host* in the seed list, 0 when it is not known."""
        return self._ranks.rank(host)

    @property
    def refused(self) -> Counter[str]:
        """How many links and seeds each filter has refused, by the filter's name."""
        return self._filters.refused

    def submit_page(self, page: Page, *, chain: bytes = b"") -> None:
        """Submit the links of *page*, one level deeper; a redirect's target stays on its level.

        *chain* are the URLs that redirected to the page, as in ``Entry``. OSError when the disk is
        full: nothing of the batch counts as submitted then.
        """
        # A redirect is the only link of its page.
        is_redirect = bool(page.redirect_target)
        depth = page.depth if is_redirect else page.depth + 1
        urls = [link.url for link in page.links]
        refusals = self._filters.refusals(urls, depth, host_of(page.url))
        accepted = [link for link, why in zip(page.links, refusals, strict=True) if why is None]
        if is_redirect:
            chain += self._hop(page.url)
            why = self._redirect_refusal(page.redirect_target, chain)
            if why is not None:
                self._filters.refused[why] += 1
                return
        if not accepted:
            return
        own_host = self._key_of(page.url)
        key_of = self._key_of
        now = self._wall()

        def entry(i: int) -> bytes:
            url = accepted[i].url
            host = key_of(url)
            # A host the seed list does not name takes over nothing from the pages linking to it.
            rank = page.rank if host == own_host and page.rank else self._ranks.rank(host)
            return encode(
                Entry(
                    url=url,
                    host=host,
                    depth=depth,
                    rank=rank,
                    via=page.url,
                    kind=accepted[i].kind,
                    discovered_at=now,
                    chain=chain if is_redirect else b"",
                )
            )

        form = self.form
        names = fingerprints(form(link.url) for link in accepted)
        for i, link in enumerate(accepted):
            if link.kind in _FORWARDS and link.url != page.url:
                been = chain if is_redirect else self._hop(page.url)
                names[i] = forwarded(link.url, names[i], _forms(been))
        self._eliminator.submit(names, entry)
        self.submitted += len(accepted)

    def _hop(self, url: str) -> bytes:
        """*url* in a chain: the fingerprints of itself and of its form."""
        names = fingerprint(url), fingerprint(self.form(url))
        return b"".join(name.to_bytes(8, "little") for name in names)

    def _redirect_refusal(self, target: str, chain: bytes) -> str | None:
        """Why the redirect to *target* is not followed, None if it is; *chain* led there."""
        led = [chain[i : i + 8] for i in range(0, len(chain), _HOP_BYTES)]
        if fingerprint(target).to_bytes(8, "little") in led:
            return "redirect_loop"
        return "too_many_redirects" if len(led) > self._max_redirects else None

    def submit_seeds(self, seeds: Sequence[Seed]) -> None:
        """Submit *seeds* at depth 0 and remember the ranks of their hosts.

        FatalError when a crawl that is not to leave its seeds has too many of them.
        """
        if self._domains is not None:
            self._domains.add(host_of(seed.url) for seed in seeds)
        refusals = self._filters.refusals([seed.url for seed in seeds], 0)
        kept = [
            (seed, self._key_of(seed.url))
            for seed, why in zip(seeds, refusals, strict=True)
            if why is None
        ]
        if not kept:
            return
        self._ranks.add_many([(host, seed.rank) for seed, host in kept])
        now = self._wall()

        def entry(i: int) -> bytes:
            seed, host = kept[i]
            return encode(
                Entry(url=seed.url, host=host, rank=seed.rank, kind="seed", discovered_at=now)
            )

        form = self.form
        self._eliminator.submit(fingerprints(form(seed.url) for seed, _ in kept), entry)
        self.submitted += len(kept)


def _forms(chain: bytes) -> set[int]:
    """The fingerprints of the forms of the URLs in *chain*."""
    starts = range(8, len(chain), _HOP_BYTES)
    return {int.from_bytes(chain[i : i + 8], "little") for i in starts}


def forwarded(target: str, name: int, forms: Collection[int]) -> int:
    """The fingerprint of a URL that others forward to: *name*, that of its form, unless theirs,
    *forms*, has it.

    From a.test/?b&a to a.test/?a&b, by way of a cookie page or not: what is known by that name is
    a redirect, and the page behind it has not been fetched.
    """
    return fingerprint(f"forwarded to {target}") if name in forms else name
