"""Submission in the shard of the page: turns the links of a page, or some seeds, into one batch.

It filters and fingerprints every link. Decisions that need the target's records are made in the
target's shard: see link_intake.py. No Scrapy Request is made for a link, because Requests for all
links are what makes a crawl with Scrapy's own scheduler slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter, itemgetter

from msgspec.structs import replace

from webcrawl.clock import TimeSource
from webcrawl.crawl.links.link_intake import LinkBatch, LinkSink, LinkSource, SeedFacts
from webcrawl.crawl.seeds import Seed
from webcrawl.frontier import Entry
from webcrawl.hosts.aliases import ALIAS
from webcrawl.items import Page
from webcrawl.seen.fingerprint import fingerprint, fingerprints
from webcrawl.urls import SCHEMES, Link, normalize
from webcrawl.urls.equivalence import Equivalence
from webcrawl.urls.extraction.robots_meta import without_nofollow
from webcrawl.urls.filters.table import FilterTable

# Kinds of links with which a page only forwards to another.
_FORWARDS = frozenset({"redirect", "refresh"})
_HOP_BYTES = 16
_NO_FORM = bytes(8)
_kind = attrgetter("kind")
_modified = attrgetter("modified")
# Of an answer of the filters.
_refusal = itemgetter(1)
# Replaces the URL of a hop after which a cookie was set.
_PASSED = bytes(8)

#: The kind of a link to a sitemap.
SITEMAP = "sitemap"
#: Maximum number of sitemaps submitted for one robots.txt.
MAX_SITEMAPS = 1000
#: Maximum nesting of sitemap indexes; the protocol allows one.
MAX_SITEMAP_NESTING = 3


@dataclass(frozen=True, kw_only=True)
class LinkRules:
    """Rules for links that need no records of the target.

    filters, seed_filters: refuse links, and seeds.
    equivalence: knows the form in which URLs are compared.
    max_redirects: maximum number of redirects in a row.
    keeps_cookies: whether cookies are kept, so that a redirect that sets one may lead back to its
        own source.
    obeys_nofollow: whether links that a page asks crawlers not to follow are left out.
    takes_robots_sitemaps: whether sitemaps named by a robots.txt are submitted.
    kinds_of: returns the kinds of links to follow on pages of a URL's host, None for all.
    follows: whether links of documents and robots.txt files are submitted, not only seeds.
    """

    filters: FilterTable
    seed_filters: FilterTable
    equivalence: Equivalence
    max_redirects: int
    obeys_nofollow: bool
    takes_robots_sitemaps: bool
    follows: bool
    keeps_cookies: bool
    kinds_of: Callable[[str], frozenset[str] | None]


class LinkSubmitter:
    """Submits batches of links to *sink*. Each batch is on disk when the call returns.

    *clock* returns epoch seconds.
    """

    def __init__(
        self,
        *,
        sink: LinkSink,
        rules: LinkRules,
        clock: TimeSource,
    ) -> None:
        self.sink = sink
        self._filters = rules.filters
        self._rules = rules
        self.comparison_form = rules.equivalence.comparison_form
        self._clock = clock
        #: Number of sitemaps named by robots.txt files, including refused and known ones.
        self.sitemaps = 0

    @property
    def refused(self) -> Counter[str]:
        """Return how many links and seeds each filter has refused, by the filter's name."""
        return self._filters.refused + self._rules.seed_filters.refused

    @property
    def seeds_refused(self) -> Counter[str]:
        """Return how many seeds each filter has refused, by the filter's name."""
        return self._rules.seed_filters.refused

    def submit_page(
        self,
        page: Page,
        links: Sequence[Link] | None = None,
        *,
        chain: bytes = b"",
        score: int = 0,
        since: float = 0.0,
    ) -> str:
        """Submit *links* of *page* (by default all its links), one level deeper than the page.

        Returns why the page's redirect is not followed; "" if it is followed, or there is none.
        Targets of redirects and sitemaps get the page's own depth. Modification times after
        *since*, epoch seconds, are passed on as hints; with 0.0 none are. *chain* is the chain of
        hops to the page and *score* its score, as in ``Entry``. Raises OSError when the disk is
        full: then nothing counts as submitted.
        """
        if not self._rules.follows:
            return ""

        links = page.links if links is None else links
        source = LinkSource(page.url, page.depth, page.rank, chain, self._clock(), score)
        if page.redirect_target:
            return self._submit_redirect(page, links, source)

        links = self._allowed_links(page, links)
        if any(map(_modified, links)):
            links = [_keep_hint(link, since) for link in links]

        # The chain of a sitemap has the sitemap indexes that lead to it, and no redirects.
        sitemaps = [link for link in links if link.kind == SITEMAP]
        if sitemaps:
            links = [link for link in links if link.kind != SITEMAP]
            chain = _index_hops(chain) + _index_hop(page.url)
            if len(chain) > MAX_SITEMAP_NESTING * _HOP_BYTES:
                self._filters.refused["sitemap_nesting"] += len(sitemaps)
            else:
                self._submit(sitemaps, source._replace(chain=chain))

        self._submit(links, source._replace(depth=page.depth + 1, chain=b""))
        return ""

    def _submit_redirect(self, page: Page, links: Sequence[Link], source: LinkSource) -> str:
        """Submit the target of the redirect *page*, which is the only one of its *links*.

        Returns why the redirect is not followed; "" if it is.
        """
        redirect_chain = source.chain + self._hop(page.url)
        chain = redirect_chain
        # With the cookie, an earlier URL of the chain may answer differently, so that coming back
        # to it is not a loop.
        if self._rules.keeps_cookies and _sets_cookie(page):
            chain = _clear_urls(chain)
        why = self._redirect_refusal(page.redirect_target, chain)
        if why is None:
            self._submit(links, source._replace(chain=chain), redirect_chain=redirect_chain)
            return ""
        self._filters.refused[why] += 1
        return why

    def submit_sitemaps(self, urls: Sequence[str], *, via: str, depth: int) -> None:
        """Submit the sitemaps *urls*, which the robots.txt *via* names.

        *depth* is the depth of the URL for which the robots.txt was fetched. At most
        ``MAX_SITEMAPS`` are submitted; *urls* may be relative to *via*.
        """
        if not (self._rules.takes_robots_sitemaps and self._rules.follows):
            return
        kinds = self._rules.kinds_of(via)
        if kinds is not None and SITEMAP not in kinds:
            return

        normalized = (normalize(url, via, schemes=SCHEMES) for url in urls[:MAX_SITEMAPS])
        links = [Link(url, kind=SITEMAP) for url in dict.fromkeys(normalized) if url is not None]
        self.sitemaps += len(links)
        self._submit(links, LinkSource(via, depth, 0, b"", self._clock()))

    def submit_alias(self, url: str, entry: Entry) -> None:
        """Submit *url*, which names the same page as *entry* on the host that leads its site."""
        via = entry.via or entry.url
        source = LinkSource(via, entry.depth, 0, b"", self._clock(), entry.score)
        kind = SITEMAP if entry.kind == SITEMAP else ALIAS
        self._submit([Link(url, kind=kind)], source)

    def _allowed_links(self, page: Page, links: Sequence[Link]) -> Sequence[Link]:
        """Return those of *links* that the page and the settings for its host allow to follow."""
        kinds = self._rules.kinds_of(page.url)
        if kinds is not None:
            all_links = links
            links = [link for link in links if link.kind in kinds]
            self._filters.refused["link_kinds"] += len(all_links) - len(links)

        if not self._rules.obeys_nofollow:
            return links

        kept = [] if page.robots.nofollow else without_nofollow(links)
        if len(kept) < len(links):
            self._filters.refused["nofollow"] += len(links) - len(kept)
        return kept

    def _submit(
        self, links: Sequence[Link], source: LinkSource, *, redirect_chain: bytes = b""
    ) -> None:
        """Filter *links* of *source*, and submit those that are accepted.

        *redirect_chain* is the chain of URLs that redirect to the link.
        """
        originals = [link.url for link in links]
        via = source.url
        # A site may redirect to a URL that a filter rewrites to its source. Then the URL is left as
        # it is, or its page would never be fetched.
        urls, answers = self._filters.judge(
            originals, source.depth, via, is_hop=lambda url: _is_hop(url, redirect_chain)
        )
        if urls is not originals:
            # The page's own links stay as they were found.
            links = [replace(link, url=url) for link, url in zip(links, urls, strict=True)]

        # Usually no link is refused.
        if any(map(_refusal, answers)):
            accepted = [why is None for _, why in answers]
            links = [*compress(links, accepted)]
            urls = [*compress(urls, accepted)]
            answers = [*compress(answers, accepted)]
        if not links:
            return

        url_fps = fingerprints(self._rules.equivalence.comparison_forms(urls))
        chain = source.chain if redirect_chain else b""
        if chain or not _FORWARDS.isdisjoint(map(_kind, links)):
            url_fps = [
                self._target_fingerprint(link.url, form_fp, link.kind, via, chain)
                for link, form_fp in zip(links, url_fps, strict=True)
            ]
        self.sink.submit(LinkBatch(links, [host for host, _ in answers], url_fps, source))

    def _target_fingerprint(self, url: str, form_fp: int, kind: str, via: str, chain: bytes) -> int:
        """Return the fingerprint of *url*, whose comparison form has *form_fp*.

        The target of a redirect or refresh may have another one, see ``forward_fingerprint``. The
        other arguments are those of its ``Entry``.
        """
        if chain:
            # How often a redirect that set a cookie has led back to this URL.
            returns = _hops(chain).count(_PASSED + form_fp.to_bytes(8, "little"))
            return forward_fingerprint(url, form_fp, _form_fps(chain), returns)
        if kind in _FORWARDS and url != via:  # the page forwards to another URL
            return forward_fingerprint(url, form_fp, _form_fps(self._hop(via)))
        return form_fp

    def fingerprint_of(self, entry: Entry) -> int:
        """Return the fingerprint with which *entry*, made from a link, was submitted."""
        form_fp = fingerprint(self.comparison_form(entry.url))
        return self._target_fingerprint(entry.url, form_fp, entry.kind, entry.via, entry.chain)

    def _hop(self, url: str) -> bytes:
        """Return *url* as a hop of a chain: fingerprints of the URL and of its comparison form."""
        fps = fingerprint(url), fingerprint(self.comparison_form(url))
        return b"".join(fp.to_bytes(8, "little") for fp in fps)

    def _redirect_refusal(self, target: str, chain: bytes) -> str | None:
        """Return why the redirect to *target*, after *chain*, is not followed; None if it is."""
        if _is_hop(target, chain):
            return "redirect_loop"
        # Hops that are sitemap indexes are not redirects.
        redirects = (len(chain) - len(_index_hops(chain))) // _HOP_BYTES
        return "too_many_redirects" if redirects > self._rules.max_redirects else None

    def is_seed_refused(self, url: str) -> bool:
        """Return whether a filter for seeds refuses or rewrites *url*."""
        (form,), ((_, why),) = self._rules.seed_filters.judge([url], 0, "")
        return why is not None or form != url

    def submit_seeds(self, seeds: Sequence[Seed]) -> None:
        """Submit *seeds* at depth 0, and record the ranks of their hosts.

        Raises FatalError when a crawl that must not leave its seeds has too many of them.
        """
        urls, answers = self._rules.seed_filters.judge([seed.url for seed in seeds], 0, "")
        passed = [why is None for _, why in answers]
        kept = [*compress(urls, passed)]
        hosts = [host for host, _ in answers]
        self.sink.submit(
            LinkBatch(
                [Link(url) for url in kept],
                [*compress(hosts, passed)],
                fingerprints(self._rules.equivalence.comparison_forms(kept)),
                LinkSource("", 0, 0, b"", self._clock()),
                SeedFacts([seed.rank for seed in compress(seeds, passed)], hosts),
            )
        )


def _keep_hint(link: Link, since: float) -> Link:
    """Return *link*, keeping its modification time only if it is after *since*.

    With 0 for *since*, and for links to sitemaps, no time is kept, because then it is not known
    which times the sitemap gave at the last visit.
    """
    is_hint = since and link.modified > since and link.kind != SITEMAP
    return link if is_hint or not link.modified else replace(link, modified=0.0)


def _is_hop(url: str, chain: bytes) -> bool:
    """Return whether *url* is one of the hops in *chain*."""
    fp = fingerprint(url).to_bytes(8, "little")
    return any(chain.startswith(fp, start) for start in range(0, len(chain), _HOP_BYTES))


def _index_hop(url: str) -> bytes:
    """Return the sitemap index *url* as a hop of a chain.

    The hop has no comparison form: another URL with the same form is not the same sitemap.
    """
    return fingerprint(url).to_bytes(8, "little") + _NO_FORM


def _hops(chain: bytes) -> list[bytes]:
    """Split *chain* into its hops."""
    return [chain[i : i + _HOP_BYTES] for i in range(0, len(chain), _HOP_BYTES)]


def _index_hops(chain: bytes) -> bytes:
    """Return the hops of *chain* that are sitemap indexes, not redirects."""
    return b"".join(hop for hop in _hops(chain) if hop.endswith(_NO_FORM))


def _form_fps(chain: bytes) -> set[int]:
    """Return the fingerprints of the comparison forms of the URLs in *chain*."""
    return {int.from_bytes(hop[8:], "little") for hop in _hops(chain)}


def _sets_cookie(page: Page) -> bool:
    return any(name.lower() == b"set-cookie" for name, _ in page.headers)


def _clear_urls(chain: bytes) -> bytes:
    """Remove the URLs from *chain*, because after a cookie was set, a redirect back is no loop."""
    return b"".join(_PASSED + hop[8:] for hop in _hops(chain))


def forward_fingerprint(target: str, form_fp: int, forms: Collection[int], returns: int = 0) -> int:
    """Return the fingerprint of the URL *target*, to which other URLs forward.

    Usually it is *form_fp*, the fingerprint of the target's comparison form. But a forwarding URL
    may have the same form, such as a.test/?b&a, which forwards to a.test/?a&b. Then *form_fp*, one
    of *forms*, already belongs to the redirect, and the page behind it needs another fingerprint.
    So does a URL to which redirects that set cookies have come back, each time (*returns*).
    """
    if returns:
        return fingerprint(f"return {returns} to {target}")
    return fingerprint(f"forwarded to {target}") if form_fp in forms else form_fp
