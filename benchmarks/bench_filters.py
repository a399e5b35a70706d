"""What the URL filters cost per link, all of them together.

    python benchmarks/bench_filters.py [--pages 5000] [--rounds 9]

Pages of 40 links as in a broad crawl (seeded, others in each round, the same every time). 70 % of a
page's links stay on its host: two in five of these are its menu, the others lead to its pages, to
some far oftener than to others. 25 % lead to the 20,000 hosts that everybody links to (Pareto):
half of them to the first page, a quarter to one of five pages, the others to pages of which nobody
has heard. 5 % lead to any of a million hosts, half of them to the first page. Paths have one to
five segments of 12,000 words; a quarter of the links has a query; one in thirty of the URLs is
something that a filter refuses. So about as many links as in a real crawl are to URLs that came
lately ("almost 80 %" in a cache of 50,000: Broder, Najork and Wiener, "Efficient URL Caching"); how
many is printed. Rounds go through the rows in turn. CPU time of ``FilterChain.refusals``, which the
crawl calls once for each page: median, least and most of the rounds, and what was refused.

default
    The filters that settings.py has on: scheme, port, length, labels of the host, segments,
    repeated and growing segments, parameters, known paths.
rules and whitelist
    The same with 5,000 refused names of segments, 1,000 refused extensions, a depth, and the
    registered domains of a million seeds as the whitelist (``URL_SCOPE=seeds``).
Nielsen
    The same with ``URL_SCOPE=domain``: links within the page's own registered domain only.
expressions
    The second row with ten expressions of which one must match, and ten that must not be found.
... news
    The same with a chain that is made anew for each round and links of which none comes twice: what
    a URL costs that has not come lately.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.crawl.links.url_rules import filters_of
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.seeds.ranks import HostRanks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.urls.filters.chain import FilterChain

LINKS = 40
# How many of them are the same on all pages of a host.
MENU = 11
IN_FLIGHT = 300
SEEDS = 1_000_000
POPULAR = 20_000
SCHEMES = frozenset({"http", "https", "ftp", "gopher"})

_LETTERS = "abcdefghijklmnoprstuvw"

Page = tuple[str, int, list[str]]  # host, depth of its links, links


def host_name(number: int) -> str:
    return f"www.site{number}.{('com', 'org', 'co.uk', 'de')[number % 4]}"


class Web:
    """Links, normalized."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._words = ["".join(rng.choices(_LETTERS, k=n % 9 + 3)) for n in range(12_000)]
        # First pages and five others of the hosts that everybody links to.
        self._popular = [
            [f"https://{host_name(n)}/", *(self.page(host_name(n)) for _ in range(5))]
            for n in range(POPULAR + 1)
        ]
        self._sites = [self._site() for _ in range(IN_FLIGHT)]

    def page(self, host: str) -> str:
        """The URL of some page of *host*."""
        rng = self._rng
        path = "/".join(rng.choices(self._words, k=min(int(rng.paretovariate(1.2)), 5)))
        path += rng.choice(("", "/", ".html", ".php", "-2024-05-03"))
        query = rng.choice(("", "", "", f"?id={rng.randrange(10**6)}&lang=en"))
        if rng.random() < 1 / 30:
            path, query = rng.choice(
                (
                    (f"{path}/login", "?next=x"),
                    ("/".join(["img"] * 6), ""),
                    ("calendar/2047-03", ""),
                    (path, "?" + "&".join(f"f{n}=1" for n in range(20))),
                    ("x" * 2100, ""),
                )
            )
        return f"https://{host}/{path}{query}"

    def _site(self) -> tuple[str, list[str]]:
        host = host_name(self._rng.randrange(SEEDS))
        size = min(int(20 * self._rng.paretovariate(0.7)), 2000)
        return host, [self.page(host) for _ in range(size)]

    def pages(self, count: int) -> Iterator[Page]:
        """*count* pages of the hosts in flight, each of which has some hundred and then ends."""
        rng = self._rng
        for _ in range(count):
            at = rng.randrange(IN_FLIGHT)
            if rng.random() < 1 / 100:
                self._sites[at] = self._site()
            host, urls = self._sites[at]
            links = [self._link(urls) for _ in range(LINKS - MENU)]
            yield host, rng.randrange(1, 8), [*urls[:MENU], *links]

    def news(self, count: int) -> Iterator[Page]:
        """*count* pages, no link of which has come before."""
        rng = self._rng
        for _ in range(count):
            host = host_name(rng.randrange(SEEDS))
            others = [host_name(min(int(rng.paretovariate(1.0)), POPULAR)) for _ in range(10)]
            others += [host_name(rng.randrange(SEEDS)) for _ in range(2)]
            links = [self.page(one) for one in [*others, *[host] * (LINKS - len(others))]]
            rng.shuffle(links)
            yield host, rng.randrange(1, 8), links

    def _link(self, urls: list[str]) -> str:
        rng = self._rng
        draw = rng.random() * (LINKS - MENU) / LINKS
        if draw < 0.05:
            host = host_name(rng.randrange(SEEDS))
            return f"https://{host}/" if rng.random() < 0.5 else self.page(host)
        if draw < 0.3:
            number = min(int(rng.paretovariate(1.0)), POPULAR)
            if rng.random() < 0.25:
                return self.page(host_name(number))
            return self._popular[number][rng.choice((0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5))]
        return urls[min(int(rng.paretovariate(0.5)), len(urls)) - 1]


def chain_of(domains: SeedDomains, **values: object) -> FilterChain:
    settings = Settings()
    settings.setmodule("webcrawl.settings")
    settings.update(values)
    return filters_of(settings, schemes=SCHEMES, domains=domains, this_year=2026)


def rows(domains: SeedDomains) -> dict[str, FilterChain]:
    rules = {
        "URL_REFUSED_SEGMENTS": [f"refused{n}" for n in range(5000)],
        "URL_REFUSED_EXTENSIONS": [f"x{n}" for n in range(1000)],
        "URL_MAX_DEPTH": 50,
    }
    expressions = {
        "URL_RESTRICT_TO": [rf"https?://([a-z0-9-]+\.)*site{n}?[0-9]*\..*" for n in range(10)],
        "URL_REFUSE": [rf"/refused-{n}/[0-9]+" for n in range(10)],
    }
    return {
        "default": chain_of(domains),
        "rules and whitelist": chain_of(domains, URL_SCOPE="seeds", **rules),
        "Nielsen": chain_of(domains, URL_SCOPE="domain", **rules),
        "expressions": chain_of(domains, URL_SCOPE="seeds", **rules, **expressions),
    }


def cost(chain: FilterChain, pages: list[Page]) -> float:
    """CPU time for each link, in µs."""
    started = time.process_time()
    for host, depth, links in pages:
        chain.refusals(links, depth, host)
    return 1e6 * (time.process_time() - started) / (LINKS * len(pages))


def repeated(pages: list[Page]) -> float:
    """The share of links that are not the first to their URL."""
    urls = [url for _, _, links in pages for url in links]
    return 1 - len(set(urls)) / len(urls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        table = HostRanks(path=Path(directory) / "domains", capacity=1 << 20)
        table.open(None)
        domains = SeedDomains(table)
        for start in range(0, SEEDS, 10_000):
            domains.add(host_name(n) for n in range(start, start + 10_000))
        print(f"{len(table):,} domains, {options.pages:,} pages of {LINKS} links")
        web = Web(random.Random(4))
        chains = rows(domains)
        costs: dict[str, list[float]] = {name: [] for name in chains}
        costs |= {f"{name}, news": [] for name in chains}
        shares = []
        for _ in range(options.rounds):
            pages = list(web.pages(options.pages))
            shares.append(repeated(pages))
            for name, chain in chains.items():
                costs[name].append(cost(chain, pages))
            pages = list(web.news(options.pages))
            for name, chain in rows(domains).items():
                costs[f"{name}, news"].append(cost(chain, pages))
        print(f"{statistics.median(shares):.0%} of the links came before in the same round")
        links = LINKS * options.pages * options.rounds
        for name, spent_us in costs.items():
            refused = chains[name].refused if name in chains else Counter()
            told = ", ".join(f"{why} {n / links:.2%}" for why, n in refused.most_common())
            print(
                f"{name:25} {statistics.median(spent_us):.2f} µs a link "
                f"({min(spent_us):.2f} to {max(spent_us):.2f})"
                + (f"; refused: {told}" * bool(told))
            )
        table.close()


if __name__ == "__main__":
    main()
