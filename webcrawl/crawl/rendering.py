"""Rendering of a crawl's pages, built from the settings RENDER and RENDER_*."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Self

from webcrawl.clock import wall_time
from webcrawl.configuration.values import flag, number, share, whole
from webcrawl.crawl.lease.stored_exchange import stored_answer
from webcrawl.errors import FatalError
from webcrawl.frontier import SUBRESOURCE, Entry
from webcrawl.render.candidates import Verdicts, outline_of
from webcrawl.render.passes import RENDERING, Passes
from webcrawl.render.store import FILE, RenderStore
from webcrawl.render.worker import RenderOrder, RenderWorker
from webcrawl.urls import host_of, normalize
from webcrawl.urls.extraction.html import HTML_TYPES
from webcrawl.urls.registered_domain import domain_of, is_same_site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    from webcrawl.crawl.lease.services import ContactRules
    from webcrawl.crawl.shard.shards import Shards
    from webcrawl.hosts.host_rules import HostRules
    from webcrawl.hosts.records import HostRecords
    from webcrawl.items import Page
    from webcrawl.urls.filters.chain import FilterChain

_MODES = ("0", "auto", "all")
# Subresources that a domain, or all of them together, may request before RENDER_SHARE applies.
_FREE_REQUESTS = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RenderSettings:
    """The settings RENDER (``mode``) and RENDER_*."""

    mode: str
    engine: str
    wait_secs: float
    share: float
    processes: int

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read and check the settings. Raises FatalError."""
        mode = str(settings["RENDER"]).lower()
        if mode not in _MODES:
            raise FatalError(f"RENDER must be 0, auto or all, not {settings['RENDER']!r}.")
        if mode != "0" and settings.get("HIVE"):
            raise FatalError(
                "RENDER works in a single process so far: set RENDER=0, or use scrapy crawl "
                "without HIVE."
            )
        engine = str(settings["RENDER_ENGINE"])
        processes = whole(settings, "RENDER_PROCESSES", at_least=0)
        return cls(
            mode=mode,
            engine="" if engine == "chromium" else engine,
            wait_secs=number(settings, "RENDER_WAIT_SECS", at_least=0),
            share=share(settings, "RENDER_SHARE"),
            processes=processes or max(1, (os.cpu_count() or 1) // 2),
        )


@dataclasses.dataclass(kw_only=True, eq=False)
class SubresourceRequests:
    """Requests for subresources that wait in the frontier.

    There is an entry for each registered domain whose pages wait for the answer. So no domain waits
    until it is the turn of another one. The first entry that is handed out gets the answer.
    """

    filters: FilterChain
    rules: ContactRules
    shards: Shards
    #: Number of requests that this process has sent.
    sent: int = 0
    # By number: the domains that have an entry.
    _domains: dict[int, set[str]] = dataclasses.field(default_factory=dict, init=False)

    def submit(self, url: str, number: int, page_url: str) -> str:
        """Send the request *number* for the page *page_url*; return "", or why that is refused."""
        url = normalize(url) or ""
        refusal = self.filters.refusal(url, 0) if url else "scheme"
        if refusal is not None:
            return refusal

        domain = domain_of(page_url)
        domains = self._domains.setdefault(number, set())
        if domain in domains:
            return ""
        if not domains:
            self.sent += 1
            counters = self.shards.of(page_url).hosts.records.domains
            counter = counters.find(domain)
            counter.requested += 1
            counters.put(domain, counter)
        domains.add(domain)

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

    def end(self, number: int, page_url: str) -> None:
        """Forget the request *number*, or only its entry for the domain of *page_url* if given."""
        if page_url:
            self._domains.get(number, set()).discard(domain_of(page_url))
        else:
            self._domains.pop(number, None)

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

    def shape_of(self, page: Page) -> int | None:
        """Return the shape to keep *page* with (``Passes.keep``); None if it is not rendered."""
        mode = self.rules.url_policy(page.url).render or self.settings.mode
        is_html = page.is_document and page.content_type in HTML_TYPES
        if not is_html or mode == "0" or self.rules.lets_pass(RENDERING, page.url):
            return None

        shape = 0
        excess = self.requests.excess(page.url, self.settings.share)
        is_full = self.passes.is_full or excess > _FREE_REQUESTS
        if mode == "auto":
            outline = outline_of(page.body)
            if not outline.is_candidate:
                return None
            shape = outline.shape
            allowed = _FREE_REQUESTS + self.settings.share * self.stats.get_value("contacts", 0)
            # The share of a domain does not depend on what others have used.
            is_full |= excess > 0 and self.requests.sent > allowed
        if is_full:
            self.stats.inc_value("render/skipped")
            return None
        return shape


def passes_of(
    settings: BaseSettings,
    options: RenderSettings,
    *,
    jobdir: Path,
    requests: SubresourceRequests,
    count: Callable[[str], None],
) -> Passes:
    """Build the renderer of a crawl in *jobdir*; *count* counts a stat. Raises FatalError."""
    shards = requests.shards
    rules = requests.rules
    path = jobdir / "rendering"
    has_cookies = flag(settings, "COOKIES_ENABLED")

    def audience_of(url: str, page_url: str) -> str:
        """Return whether *page_url* gets *url* with the credentials of its host, "" without any."""
        if not (has_cookies or rules.hosts.added_for(url).headers):
            return ""
        return "own" if is_same_site(url, page_url) else "foreign"

    def records_of(url: str) -> tuple[HostRecords, str]:
        return shards.of(url).hosts.records, host_of(url)

    answers = "webcrawl.render.store:stored_answers", str(path / FILE)
    return Passes(
        store=RenderStore(path=path),
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
    )
