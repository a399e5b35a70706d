"""What the URL filters cost per link, all of them together.

    python tests/benchmarks/bench_filters.py [--pages 5000] [--rounds 9]

Pages of 40 links as in a broad crawl (seeded, so the same every time): 70 % of a page's links stay
on its host, 25 % lead to the 20,000 hosts that everybody links to (Pareto), 5 % to any of a
million, which nobody has asked about for long. Paths have one to five segments of 12,000 words; a
quarter of the links has a query; one in thirty is something that a filter refuses. Rounds go
through the rows in turn. CPU time of ``FilterChain.refusals``, which the crawl calls once for each
page: median, least and most of the rounds, and what was refused.

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
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from webcrawl.frontier.ranks import HostRanks
from webcrawl.seed_domains import SeedDomains
from webcrawl.url_rules import filters_of

if TYPE_CHECKING:
    from webcrawl.urls.filters import FilterChain

LINKS = 40
SEEDS = 1_000_000
POPULAR = 20_000
SCHEMES = frozenset({"http", "https", "ftp", "gopher"})

Page = tuple[str, int, list[str]]  # host, depth of its links, links


def host_name(number: int) -> str:
    return f"www.site{number}.{('com', 'org', 'co.uk', 'de')[number % 4]}"


def crawl_like(rng: random.Random, count: int) -> list[Page]:
    """Pages with their links, normalized."""
    words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=n % 9 + 3)) for n in range(12_000)]
    in_flight = [host_name(rng.randrange(SEEDS)) for _ in range(300)]

    def link(host: str) -> str:
        draw = rng.random()
        if draw > 0.95:
            host = host_name(rng.randrange(SEEDS))
        elif draw > 0.7:
            host = host_name(min(int(rng.paretovariate(1.0)), POPULAR))
        path = "/".join(rng.choices(words, k=min(int(rng.paretovariate(1.2)), 5)))
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

    pages = []
    for _ in range(count):
        host = rng.choice(in_flight) if rng.random() < 0.9 else host_name(rng.randrange(SEEDS))
        pages.append((host, rng.randrange(1, 8), [link(host) for _ in range(LINKS)]))
    return pages


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        table = HostRanks(path=Path(directory) / "domains", capacity=1 << 20)
        table.open(None)
        domains = SeedDomains(table=table, capacity=1 << 20)
        for start in range(0, SEEDS, 10_000):
            domains.add(host_name(n) for n in range(start, start + 10_000))
        print(f"{len(domains):,} domains, {options.pages:,} pages of {LINKS} links")
        pages = crawl_like(random.Random(4), options.pages)
        chains = rows(domains)
        costs: dict[str, list[float]] = {name: [] for name in chains}
        for _ in range(options.rounds):
            for name, chain in chains.items():
                started = time.process_time()
                for host, depth, links in pages:
                    chain.refusals(links, depth, host)
                spent = time.process_time() - started
                costs[name].append(1e6 * spent / (LINKS * options.pages))
        for name, chain in chains.items():
            spent_us = costs[name]
            links = LINKS * options.pages * options.rounds
            refused = ", ".join(f"{why} {n / links:.2%}" for why, n in chain.refused.most_common())
            print(
                f"{name:20} {statistics.median(spent_us):.2f} µs a link "
                f"({min(spent_us):.2f} to {max(spent_us):.2f}); refused: {refused}"
            )
        table.close()


if __name__ == "__main__":
    main()
