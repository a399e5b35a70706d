"""Rendering of a crawl's pages, built from the settings RENDER and RENDER_*."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from webcrawl.clock import wall_time
from webcrawl.configuration.values import component, flag
from webcrawl.crawl.lease.services import ContactRules
from webcrawl.crawl.shard.shards import Shards
from webcrawl.crawl.task.renderer import Rendering, RenderSettings
from webcrawl.frontier import SUBRESOURCE, Entry
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.records import HostRecords
from webcrawl.items import Page
from webcrawl.render.answers import stored_answer
from webcrawl.render.candidates import Verdicts, outline_of
from webcrawl.render.passes import RENDERING, Passes
from webcrawl.render.store import FILE, RenderStore
from webcrawl.render.worker import RenderOrder, RenderWorker
from webcrawl.urls import host_of, normalize
from webcrawl.urls.extraction.html import HTML_TYPES
from webcrawl.urls.filters.chain import FilterChain
from webcrawl.urls.registered_domain import domain_of, is_same_site

# Subresources that a domain, or all of them together, may request before RENDER_SHARE applies.
_FREE_REQUESTS = 100


@dataclasses.dataclass(kw_only=True, eq=False)
class SubresourceRequests:
    """Requests for subresources that wait in the frontier.

    There is an entry for each registered domain whose pages wait for the answer. So no domain waits
    until it is the turn of another one. The first entry that is handed out gets the answer.
    """

    filters: FilterChain
    rules: ContactRules
    shards: Shards
    #: Called with the number of a request to a host of another process, and the page.
    ask: Callable[[int, str], object] = lambda *_: None
    #: Number of requests that this process has sent, or that wait.
    sent: int = 0
    # By number: the page for whose domain the request counts, and the domains that have an entry.
    _waiting: dict[int, tuple[str, set[str]]] = dataclasses.field(default_factory=dict, init=False)

    def submit(self, url: str, number: int, page_url: str) -> str:
        """Send the request *number* for the page *page_url*; return "", or why that is refused."""
        payer, domains = self._waiting.get(number, (page_url, set()))
        domain = domain_of(page_url)
        if domain in domains:
            return ""
        url = normalize(url) or ""
        # The filters are those of links; as a part of a page, the URL has no depth of its own.
        refusal = self.filters.refusal(url, 0) if url else "scheme"
        if refusal is not None:
            return refusal

        # A request counts once, for the domain that asked for it first.
        if not domains:
            self._count(payer, 1)
        self._waiting[number] = payer, domains
        domains.add(domain)

        if self.shards.find(url) is None:
            self.ask(number, page_url)
            return ""
        host = self.rules.key_of(url)
        entry = Entry(
            url,
            host,
            rank=self.shards.of(url).ranks.rank(host),
            via=page_url,
            kind=SUBRESOURCE,
            discovered_at=wall_time(),
            request=number,
        )
        self.shards.requeue(entry)
        return ""

    def end(self, number: int, page_url: str, *, was_sent: bool = False) -> None:
        """Forget the request *number*, or only its entry for the domain of *page_url* if given.

        If it is over and was not sent, it counts no more.
        """
        payer, domains = self._waiting.get(number, ("", set()))
        domains.discard(domain_of(page_url))
        # The request goes on for the pages of the other domains.
        if page_url and domains:
            return
        if self._waiting.pop(number, None) and not was_sent:
            self._count(payer, -1)

    def _count(self, page_url: str, requests: int) -> None:
        """Count *requests* more for the domain of *page_url*, unless another process has it."""
        shard = self.shards.find(page_url)
        if shard is None:
            return
        self.sent += requests
        domain = domain_of(page_url)
        counters = shard.hosts.records.domains
        counter = counters.find(domain)
        counter.requested += requests
        counters.put(domain, counter)

    def excess(self, page_url: str, share: float) -> float:
        """Return by how many requests the domain of *page_url* exceeds its *share*."""
        counters = self.shards.of(page_url).hosts.records.domains
        counter = counters.find(domain_of(page_url))
        return counter.requested - share * counter.pages


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RenderChoice:
    """Decides which pages are rendered, from the settings, *rules* and the pages."""

    settings: RenderSettings
    rules: HostRules
    passes: Passes
    requests: SubresourceRequests
    stats: StatsCollector

    def keep(self, page: Page, entry: Entry, exchange: Callable[[], bytes], place: str) -> str:
        """See ``PageChoice``."""
        shape = self.shape_of(page)
        if shape is None:
            return ""
        self.passes.keep(entry, exchange(), shape, place)
        return RENDERING

    def shape_of(self, page: Page) -> int | None:
        """Return the shape to keep *page* with (``Passes.keep``); None if it is not rendered."""
        # A host's policy comes before the setting: "0" (never), "auto", or for all pages.
        mode = self.rules.url_policy(page.url).render or self.settings.mode
        is_html = page.is_document and page.content_type in HTML_TYPES
        is_html &= self.requests.shards.find(page.url) is not None  # it may have been lost
        if not is_html or mode == "0" or self.rules.may_pass(RENDERING, page.url):
            return None

        shape = 0
        excess = self.requests.excess(page.url, self.settings.share)
        # Whether this page may not be rendered because others have used what it needs.
        is_full = self.passes.is_full or excess > _FREE_REQUESTS
        if mode == "auto":
            outline = outline_of(page.body)
            if not outline.is_candidate:
                return None
            shape = outline.shape
            allowed = _FREE_REQUESTS + self.settings.share * self.stats.get_value("contacts", 0)
            # When all domains together have used their share, one that has not may continue.
            is_full |= excess > 0 and self.requests.sent > allowed
        if is_full:
            self.stats.inc_value("render/skipped")
            return None
        return shape


def rendering_of(
    crawler: Crawler,
    *,
    rules: ContactRules,
    shards: Shards,
    filters: FilterChain,
    jobdir: Path,
    options: RenderSettings,
) -> Rendering:
    """Build the renderer of a crawl in *jobdir* (RENDER_BUILDER).

    Subresources are requested if *filters* let them pass.
    """
    requests = SubresourceRequests(filters=filters, rules=rules, shards=shards)
    passes = _passes_of(crawler, options, jobdir=jobdir, requests=requests)
    choice = RenderChoice(
        settings=options, rules=rules.hosts, passes=passes, requests=requests, stats=crawler.stats
    )
    return Rendering(passes, choice)


def _passes_of(
    crawler: Crawler, options: RenderSettings, *, jobdir: Path, requests: SubresourceRequests
) -> Passes:
    """Build the store and the workers of a crawl in *jobdir*. Raises FatalError."""
    shards = requests.shards
    rules = requests.rules
    path = jobdir / "rendering"
    has_cookies = flag(crawler.settings, "COOKIES_ENABLED")

    def audience_of(url: str, page_url: str) -> str:
        """Return whether *page_url* gets *url* with the credentials of its host, "" without any."""
        if not (has_cookies or rules.hosts.additions_for(url).headers):
            return ""
        return "own" if is_same_site(url, page_url) else "foreign"

    def records_of(url: str) -> tuple[HostRecords, str]:
        return shards.of(url).hosts.records, host_of(url)

    def count(name: str) -> None:  # before the crawl begins, there are no stats
        crawler.stats.inc_value(name)

    def tell(source: str, target: str, content: bytes) -> None:
        if shards.remote is not None:
            shards.remote.tell(source, target, content)

    if ":" in options.engine:  # another engine, which the worker processes load
        component("RENDER_ENGINE", options.engine.replace(":", "."))
    # The function that looks up answers, named for the worker processes, and its argument.
    answers = "webcrawl.render.store:stored_answers", str(path / FILE)
    passes = Passes(
        store=RenderStore(path=path),
        # Only the first worker, number 0, tries the hostile page.
        workers=[
            RenderWorker(RenderOrder(*answers, options.engine, check=not worker))
            for worker in range(options.processes)
        ],
        answer_of=stored_answer,
        submit=requests.submit,
        on_end=requests.end,
        audience_of=audience_of,
        verdicts=Verdicts(records_of=records_of, clock=wall_time),
        wait_secs=options.wait_secs,
        clock=wall_time,
        count=count,
        shard_of=lambda url: shards.number_of(host_of(url)),
        tell=tell,
    )
    requests.ask = passes.ask
    return passes
