"""From the links of a page, or a batch of seeds, to the eliminator: one batch per page.

The path of every link runs through here: filters, fingerprint, and an entry only for those that
the eliminator does not know at once. No Scrapy Request is made for a link: a Request per link is
what makes a stock broad crawl slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.frontier.entry import Entry, encode
from webcrawl.seen.fingerprint import fingerprint, fingerprints

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from webcrawl.frontier.ranks import HostRanks
    from webcrawl.items import Page
    from webcrawl.seeds import Seed
    from webcrawl.seen.interface import Eliminator
    from webcrawl.urls.filters import FilterChain


class LinkSubmitter:
    """Submits batches to the eliminator. Each batch is on disk when the call returns."""

    def __init__(
        self,
        *,
        eliminator: Eliminator,
        filters: FilterChain,
        ranks: HostRanks,
        key_of: Callable[[str], str],
        max_redirects: int,
        wall: Callable[[], float],
    ) -> None:
        """*key_of* gives a URL's politeness key; *max_redirects* is how many may follow one
        another."""
        self._eliminator = eliminator
        self._filters = filters
        self._ranks = ranks
        self._key_of = key_of
        self._max_redirects = max_redirects
        self._wall = wall
        self.submitted = 0

    @property
    def refused(self) -> Counter[str]:
        """How many links and seeds each filter has refused, by the filter's name."""
        return self._filters.refused

    def submit_page(self, page: Page, *, chain: bytes = b"") -> None:
        """Submit the links of *page*, one level deeper; a redirect's target stays on its level.

        *chain* are the fingerprints of the URLs that redirected to the page, 8 bytes each. OSError
        when the disk is full: nothing of the batch counts as submitted then.
        """
        refusal = self._filters.refusal
        accepted: list[tuple[str, str, int]] = []
        for link in page.links:
            depth = page.depth if link.kind == "redirect" else page.depth + 1
            if refusal(link.url, depth) is None:
                accepted.append((link.url, link.kind, depth))
        if page.redirect_target:
            chain += fingerprint(page.url).to_bytes(8, "little")
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
            url, kind, depth = accepted[i]
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
                    kind=kind,
                    discovered_at=now,
                    chain=chain if kind == "redirect" else b"",
                )
            )

        self._eliminator.submit(fingerprints(url for url, _, _ in accepted), entry)
        self.submitted += len(accepted)

    def _redirect_refusal(self, target: str, chain: bytes) -> str | None:
        """Why the redirect to *target* is not followed, None if it is; *chain* led there."""
        led = [chain[i : i + 8] for i in range(0, len(chain), 8)]
        if fingerprint(target).to_bytes(8, "little") in led:
            return "redirect_loop"
        return "too_many_redirects" if len(led) > self._max_redirects else None

    def submit_seeds(self, seeds: Sequence[Seed]) -> None:
        """Submit *seeds* at depth 0 and remember the ranks of their hosts."""
        refusal = self._filters.refusal
        kept = [(seed, self._key_of(seed.url)) for seed in seeds if refusal(seed.url, 0) is None]
        if not kept:
            return
        self._ranks.add_many([(host, seed.rank) for seed, host in kept])
        now = self._wall()

        def entry(i: int) -> bytes:
            seed, host = kept[i]
            return encode(
                Entry(url=seed.url, host=host, rank=seed.rank, kind="seed", discovered_at=now)
            )

        self._eliminator.submit(fingerprints(seed.url for seed, _ in kept), entry)
        self.submitted += len(kept)
