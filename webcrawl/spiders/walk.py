"""The random walk spider: takes near-uniform samples of the URLs of the web.

    scrapy crawl walk -a seeds=seeds.txt -a steps=10000 -o sample.jsonl

It implements Henzinger, Heydon, Mitzenmacher and Najork, "On Near-Uniform URL Sampling" (WWW9,
2000), which ran on Mercator. Walkers follow random links. With a probability of 1/7, or if there is
no link to follow, a walker restarts at a random page of a random visited host. Each visited URL
becomes an item.

The shares of hosts and content types that are logged at the end use the paper's second method. The
visited URLs count once each for themselves. For the URLs that were only seen as links, each visited
URL counts by the inverse of its PageRank among the visited URLs. The errors are those of a sample
of hosts, plus the difference that the weights make to the shares.

Requests bypass the eliminator, but wait for their hosts like all others. The walk is kept in memory
and in each checkpoint: 200 bytes per URL and 8 per link. After kill -9 it continues from the last
checkpoint.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import msgspec
import numpy as np
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import BaseSettings

from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.configuration.values import component, whole_number
from webcrawl.crawl.links.link_extractor import link_kinds
from webcrawl.errors import FatalError
from webcrawl.net.content_type import content_type_of
from webcrawl.net.guard import followed_schemes
from webcrawl.randomness import generator
from webcrawl.scheduler import MercatorScheduler
from webcrawl.seen.fingerprint import fingerprints
from webcrawl.urls import host_of, normalize_seed
from webcrawl.urls.extraction.html import HTML_TYPES, extract
from webcrawl.urls.extraction.kinds import KINDS
from webcrawl.urls.filters.chain import FilterChain
from webcrawl.urls.filters.path_filters import action_filter
from webcrawl.urls.filters.scope import port_filter

logger = logging.getLogger(__name__)

_RESTART_PROBABILITY = 1 / 7
_MAX_LINKS = 1000
# Maximum number of lines read from the seed list, with one URL each.
_MAX_SEEDS = 100_000


class _Walk(msgspec.Struct):
    """State of a walk.

    steps: number of steps that were started.
    types: content types of the visited URLs.
    hosts: visited URLs by host.
    links: fingerprints of the links of the visited URLs, 8 bytes each.
    """

    steps: int = 0
    types: dict[str, str] = {}
    hosts: dict[str, list[str]] = {}
    links: dict[str, bytes] = {}


_decode = msgpack_decoder(_Walk)


class RandomWalkSpider(Spider):
    """The spider ``walk``: *walkers* (100) take *steps* (10,000) in all, starting at *seeds*."""

    name = "walk"

    def __init__(
        self, *, seeds: list[str], walkers: int, steps: int, settings: BaseSettings
    ) -> None:
        super().__init__()
        self._seeds = seeds
        self._walkers = walkers
        # Number of steps that all walkers take in all.
        self._steps = steps
        self._walk = _Walk()
        self._rng = generator("random walk")
        # Computes the PageRank of each page from the links.
        self._rank = component("WALK_PAGERANK", settings["WALK_PAGERANK"])
        schemes = followed_schemes(settings)
        kinds = link_kinds(settings) & KINDS
        self._extract = partial(extract, limit=_MAX_LINKS, schemes=schemes, kinds=kinds)
        # Refuses ports of other services, and links to logins, shopping carts and edit forms.
        self._filters = FilterChain([port_filter(frozenset()), action_filter()])

    @classmethod
    def from_crawler(cls, crawler: Crawler, seeds: str = "", **given: str) -> Self:
        """Build the spider; *seeds* is the name of a file.

        Raises FatalError for invalid arguments, and in a hive, because drones cannot share a walk.
        """
        values = BaseSettings({"walkers": "100", "steps": "10000", **given})
        lines = Path(seeds).read_text().split()[:_MAX_SEEDS] if Path(seeds).is_file() else []
        urls = [url for line in lines if (url := normalize_seed(line))]
        # More than two values means that *given* has an unknown argument.
        if crawler.settings.get("HIVE") or not urls or len(values) > 2:
            raise FatalError("walk needs seeds=FILE, and takes walkers=N and steps=N, but no HIVE.")
        counts = {name: whole_number(values, name, at_least=1) for name in ("walkers", "steps")}
        return super().from_crawler(crawler, seeds=urls, settings=crawler.settings, **counts)

    async def start(self) -> AsyncIterator[Any]:
        """Start the walkers, unless the crawl is resumed and their requests are waiting."""
        scheduler = cast("MercatorScheduler", self.crawler.engine.scheduler)
        if saved := scheduler.attach("walk", self):
            self._walk = _decode(saved)
        for _ in range(0 if scheduler.has_pending_requests() else self._walkers):
            for request in self.restart():
                yield request

    def snapshot(self) -> bytes:
        """Return the encoded state of the walk, for a checkpoint."""
        return msgspec.msgpack.encode(self._walk)

    def written(self) -> list[Path]:
        """Return an empty list, because the whole state is in the snapshot."""
        return []

    def forget(self) -> None:
        """Do nothing, because there are no files to delete."""

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        """Yield the item of a new URL, and the walker's next step."""
        content_type, charset = content_type_of(response.headers.getlist("Content-Type"))
        url = response.url
        host = host_of(response.url)
        walk = self._walk
        if url not in walk.types:
            walk.types[url] = content_type
            walk.hosts.setdefault(host, []).append(url)
            yield {"url": url, "host": host, "content_type": content_type}

        links: list[str] = []
        if content_type in HTML_TYPES:
            found_links = self._extract(response.body, url=url, charset=charset).links
            links = [link.url for link in found_links if "nofollow" not in link.rel]
            links = [link for link in links if self._filters.refusal(link, 0, host) is None]

        walk.links[url] = array("Q", fingerprints({*links})).tobytes()
        continues = links and self._rng.random() >= _RESTART_PROBABILITY
        yield from self._step(links) if continues else self.restart()

    def restart(self, _: object = None) -> Iterator[Request]:
        """Yield the walker's next step at a random page, after a dead end or by chance."""
        hosts = self._walk.hosts
        yield from self._step(hosts[self._rng.choice([*hosts])] if hosts else self._seeds)

    def _step(self, urls: list[str]) -> Iterator[Request]:
        """Yield a Request for a random one of *urls*, unless all steps were taken."""
        if self._walk.steps < self._steps:
            self._walk.steps += 1
            step = {"step": self._walk.steps}  # makes each Request unique
            url = self._rng.choice(urls)
            yield Request(url, errback=self.restart, cb_kwargs=step, dont_filter=True)

    def closed(self, reason: str) -> None:  # noqa: ARG002  # Scrapy passes it
        """Log the coverage, and the largest shares of hosts and content types with their errors."""
        walk = self._walk
        urls = [*self._walk.types]
        if not urls:
            return

        # Weights of the visited URLs, as the module's docstring says: the share of visited URLs is
        # divided evenly, and the rest in inverse proportion to PageRank.
        coverage, inverse = self._coverage_and_inverse_ranks(urls)
        weights = coverage / len(urls) + (1 - coverage) * inverse

        hosts = [*map(host_of, urls)]
        host_numbers = np.unique(hosts, return_inverse=True)[1]
        logger.info("visited %.1f %% of the URLs seen", 100 * coverage)
        for property_name, values in (("content type", [*walk.types.values()]), ("host", hosts)):
            for name, _ in Counter(values).most_common(10):
                has_value = np.array([value == name for value in values])
                share = weights @ has_value
                shift = has_value.mean() - inverse @ has_value  # what the weights change
                # The URLs of a host are not independent, so the error is that of a sample of hosts.
                # It concerns only the URLs that were not visited, hence the factor.
                by_host = np.bincount(host_numbers, weights * (has_value - share))
                error = ((1 - coverage) * (by_host @ by_host + shift**2)) ** 0.5
                logger.info("%s %s: %.1f %% ± %.1f", property_name, name, 100 * share, 100 * error)

    def _coverage_and_inverse_ranks(self, urls: list[str]) -> tuple[float, Any]:
        """Return the share of visited URLs, *urls*, among all URLs seen, and an array of weights.

        The weights, one for each of *urls*, are in inverse proportion to PageRank. Their sum is 1.
        """
        # The links between visited URLs, as pairs of indexes: of the page, and of the target. To
        # find the target of a link, its fingerprint is looked up among those of the visited URLs.
        # The modulo makes a position after the last one valid; the comparison then fails.
        links = [np.frombuffer(self._walk.links.get(url, b""), np.uint64) for url in urls]
        sources = np.repeat(np.arange(len(urls)), [*map(len, links)])
        targets = np.concatenate(links)
        visited, indexes = np.unique(np.array(fingerprints(urls), np.uint64), return_index=True)
        positions = np.searchsorted(visited, targets) % len(visited)
        is_visited = visited[positions] == targets

        ranking = self._rank(sources[is_visited], indexes[positions[is_visited]], len(urls))
        inverse = 1 / ranking.pagerank
        return len(visited) / len(np.union1d(visited, targets)), inverse / inverse.sum()
