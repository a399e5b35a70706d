"""A simulated web whose pages have text of known quality, and crawls of it in virtual time.

    python benchmarks/quality_web.py ORDERS crawl web -a seeds=... -s JOBDIR=...

A fifth of the pages are good: 60 % of those of a fifth of the hosts, 10 % of those of the others.
The words of a good page are taken from ``GOOD`` more often, but pages of both kinds overlap. A page
has eight links, half of them within its host. A third of its links lead to pages that are as good
as it is, the others to any. Good pages are linked to twice as often. Popularity has a Zipf
distribution apart from that. Each page also links to two of its host, so that almost all can be
reached. A twentieth of the hosts have seeds.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import accumulate, chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from scrapy.cmdline import execute

sys.path.extend(map(str, Path(__file__).parents[1].glob("tests/rigs/*/")))

import warm
from crawling import ROOT, access_log

from webcrawl.sim.process import SETTINGS, simulate
from webcrawl.sim.web import SimulatedWeb
from webcrawl.simweb import preset
from webcrawl.simweb.pages import key_of, url_of
from webcrawl.simweb.replies import HostReply

if TYPE_CHECKING:
    from webcrawl.simweb.host_spec import HostSpec

MODEL = ROOT / "tests/data/quality.bin"
GOOD, OTHER, COMMON = (
    line.split() for line in (ROOT / "tests/data/quality_words.txt").read_text().splitlines()
)
_HERE = Path(__file__)
_LINKS = 8
_MATCHING = 1 / 3
_SETTINGS = SETTINGS | {
    # So few that the order is not decided by the pauses of hosts, as in a crawl of a large web.
    "CONCURRENT_REQUESTS": 4,
    "POLITENESS_MIN_DELAY": 1,
    "CRAWLER_CONTACT": "https://example.org/crawler",
    "REPUTATION_BASE_PAGES": 0,
    "ITEM_PIPELINES": '{"webcrawl.pipelines.page_score.PageScore": 300}',
    "SCORE_MODEL": MODEL,
}


class Page(NamedTuple):
    """The number of a page's host, whether it is good, and its text."""

    host: int
    is_good: bool
    text: str


def a_text(rng: random.Random, *, is_good: bool) -> str:
    """A text of 120 words; a different share of them is from GOOD each time."""
    share = rng.uniform(0.4, 0.9) if is_good else rng.uniform(0.1, 0.6)
    lists = rng.choices((COMMON, GOOD, OTHER), (1.5, share, 1 - share), k=120)
    return " ".join(map(rng.choice, lists))


class QualityWeb:
    """*hosts* with *size* pages each, by their URLs, and their links."""

    def __init__(self, hosts: int, size: int, seed: int = 1) -> None:
        self._rng = rng = random.Random(seed)
        pages = {"mean_pages": float(size), "max_pages": size}
        self.world = preset("graph", hosts=hosts, network=44, seed=seed, **pages)
        self.pages: dict[str, Page] = {}
        for host in range(hosts):
            good = 0.6 if rng.random() < 0.2 else 0.1
            for number in range(size):
                is_good = rng.random() < good
                url = url_of(self.world, key_of(host, number))
                self.pages[url] = Page(host, is_good, a_text(rng, is_good=is_good))

        urls = [*self.pages]
        self._size, self._urls = size, urls
        self._sets: dict[tuple[Any, Any], tuple[list[str], list[float]]] = defaultdict(
            lambda: ([], [])
        )
        places = rng.sample(range(1, len(urls) + 1), len(urls))
        for (url, page), place in zip(self.pages.items(), places, strict=True):
            for one in product((page.host, None), (page.is_good, None)):
                found, weights = self._sets[one]
                found.append(url)
                weights.append((1 + page.is_good) / place)
        for _, weights in self._sets.values():
            weights[:] = accumulate(weights)
        self.links = {url: self._links(number, url) for number, url in enumerate(urls)}
        self.seeds = urls[: size * max(1, hosts // 20) : size]

    def _links(self, number: int, url: str) -> list[str]:
        host, is_good, _ = self.pages[url]
        first = number - number % self._size
        children = range(2 * number - first + 1, min(2 * number - first + 3, first + self._size))
        links = [self._urls[child] for child in children]
        for place in range(_LINKS):
            quality = is_good if self._rng.random() < _MATCHING else None
            found, weights = self._sets[host if place % 2 else None, quality]
            links += self._rng.choices(found, cum_weights=weights)
        return links

    def by_in_degree(self) -> list[str]:
        """The URLs, those with most links to them first."""
        return [url for url, _ in Counter(chain(*self.links.values())).most_common()]

    def body(self, url: str) -> bytes:
        links = "".join(f'<li><a href="{link}">{n}</a>' for n, link in enumerate(self.links[url]))
        return f"<title>{url}</title><p>{self.pages[url].text}</p><ul>{links}</ul>".encode()

    def crawl(self, directory: Path, *arguments: str, **settings: Any) -> list[str]:
        """Crawl to the end. What was asked for, in this order: URLs of pages or robots.txt."""
        directory.mkdir(exist_ok=True)
        orders, log = directory / "orders", directory / "access.log"
        hosts = len(self.pages) // self._size
        orders.write_bytes(msgspec.json.encode([hosts, self._size, str(log)]))
        seeds = directory / "seeds.txt"
        seeds.write_text("\n".join(self.seeds) + "\n")
        settings = _SETTINGS | {"JOBDIR": directory / "job"} | settings
        command = [sys.executable, str(_HERE), str(orders), "crawl", "web"]
        command += ["-a", f"seeds={seeds}", *arguments]
        command += [word for item in settings.items() for word in ("-s", "{}={}".format(*item))]
        environment = {"PYTHONPATH": f"{ROOT}:{_HERE.parent}", "PATH": ""}
        done = warm.run(command, timeout=3600, env=environment, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        return [hit.url for hit in access_log(log)]


class Oracle:
    """Prioritizer that knows which pages are good."""

    web: QualityWeb

    def __init__(self, *, levels: int) -> None:
        self.levels = levels

    def level(self, entry: Any) -> int:
        return 1 if self.web.pages[entry.url].is_good else self.levels


def main(orders: str, *command: str) -> None:
    import quality_web  # not __main__

    hosts, size, log = msgspec.json.decode(Path(orders).read_bytes())
    quality_web.Oracle.web = web = QualityWeb(hosts, size)
    with Path(log).open("wb", buffering=0) as file:
        servers = SimulatedWeb(web.world, log=file)
        original = servers._state.reply_to

        def reply_to(host: HostSpec, target: str, **options: Any) -> HostReply:
            url = f"{host.origin}{target}"
            if url not in web.pages:
                return original(host, target, **options)
            return HostReply(200, b"Content-Type: text/html\r\n", [web.body(url)])

        servers._state.reply_to = reply_to  # type: ignore[method-assign]
        simulate(1, servers)
        execute(["scrapy", *command])


if __name__ == "__main__":
    main(*sys.argv[1:])
