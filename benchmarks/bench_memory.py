"""What a crawl's memory is made of: `PYTHONPATH=. python benchmarks/bench_memory.py`.

Drives the durable parts of a crawl in one process, as the scheduler does, without a network: links
of pages go through eliminator and frontier, hosts are handed out, rest and are released, records,
tallies and contents are kept, checkpoints are taken. Time is simulated (--rate pages a second).
Hosts turn up with the URLs, one for each 20: 1 million discovered URLs are over 50,000 hosts, 10
million over 500,000. Prints the resident memory at each step, and at the end what each part gives
back when it is closed and dropped. Two million URLs take a minute on a quiet core.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import tempfile
import time
from pathlib import Path

from scrapy.crawler import Crawler
from scrapy.utils.project import get_project_settings
from xxhash import xxh3_64_intdigest

from webcrawl import settings
from webcrawl.clock import Clock
from webcrawl.crawl import builder
from webcrawl.extensions.process_limits import return_large_blocks
from webcrawl.frontier import Entry, encode
from webcrawl.frontier.entry import host_of
from webcrawl.spiders.web import WebSpider

_URLS_PER_HOST = 20
_LINKS = 40
# Links of a page to URLs that nobody has named before.
_NEW = 20
_ROBOTS_BYTES = 150


def megabytes() -> float:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


class Crawl:
    """The parts, and a crawl of a made-up web on them."""

    def __init__(self, directory: Path, *, rate: float, budget: int) -> None:
        self.rng = random.Random(1)
        self.now = 0.0
        self.step = 1 / rate
        builder.Clock = lambda: Clock(wall=lambda: 1.7e9, boot=lambda: self.now)
        values = {"JOBDIR": directory, "MEMORY_BUDGET": budget, "FRONTIER_BACK_QUEUES": 600}
        project = get_project_settings()
        project.setdict(values | {"CRAWLER_CONTACT": "bench@example.org"}, "cmdline")
        self.state = builder.AgentBuilder(Crawler(WebSpider, project)).state()
        self.job = self.state.resources.job
        (shard,) = self.state.shards
        self.clock, self.records = shard.clock, shard.hosts.records
        self.frontier, self.eliminator, self.content = (
            shard.frontier,
            shard.eliminator,
            shard.content,
        )
        self.discovered = self.pages = 0
        self.hosts = 100
        self.job.open(spider="web")
        self.state.open()

    def links_of(self, host: int) -> list[tuple[int, int]]:
        """(host, page) of a page's links: four in five to its own host, half of them new."""
        rng, links = self.rng, []
        for index in range(_LINKS):
            target = host if index % 5 else int(self.hosts * rng.random() ** 2)
            page = self.discovered + index if index % 2 else rng.randrange(5)
            links.append((target, page))
        self.discovered += _NEW
        if self.discovered > self.hosts * _URLS_PER_HOST:
            links.append((self.hosts, 0))
            self.hosts += 1
        return links

    def submit(self, host: int) -> None:
        links = self.links_of(host)
        urls = [f"https://www.site{to:07d}.test/section/page-{page}.html" for to, page in links]
        via = f"https://www.site{host:07d}.test/section/page-{self.pages}.html"
        self.eliminator.submit(
            [xxh3_64_intdigest(url.encode()) for url in urls],
            lambda index: encode(
                Entry(
                    urls[index],
                    name_of(links[index][0]),
                    1 + index % 4,
                    0,
                    via,
                    discovered_at=self.clock(),
                )
            ),
        )
        targets = {name_of(to)[4:] for to, _ in links}
        self.records.domains.link(name_of(host)[4:], targets)

    def take(self) -> None:
        while taken := self.eliminator.take(256):
            for data in taken:
                domain = host_of(data)[4:]
                counter = self.records.domains.find(domain)
                counter.admitted += 1
                self.records.domains.put(domain, counter)
            self.frontier.push(taken)

    def fetch(self) -> bool:
        lease = self.frontier.acquire()
        if lease is None:
            ready_at = self.frontier.ready_at()
            if ready_at is None:
                self.eliminator.merge()
                time.sleep(0.01)
            else:
                self.now += max(0.0, ready_at - self.clock())
            self.take()
            return False
        self.now += self.step
        host = lease.entry.host
        record = self.records.get(host)
        if not record.pages:
            self.records.put_robots(f"https://{host}", self.rng.randbytes(_ROBOTS_BYTES))
        record.took = [*record.took[-4:], 0.2]
        record.addresses = ["192.0.2.1"]
        record.pages += 1
        record.fresh += 1
        record.begun += 1
        self.records.put(record)
        counter = self.records.domains.find(host[4:])
        counter.pages += 1
        self.records.domains.put(host[4:], counter)
        fingerprint = self.rng.getrandbits(64)
        self.content.test(fingerprint)
        self.submit(int(host[8:15]))
        self.content.commit(fingerprint)
        self.frontier.release(host, rest=3.0, min_rest=0.0)
        self.frontier.finish(lease)
        self.pages += 1
        return True

    def checkpoint(self) -> None:
        self.job.publish(self.job.prepare({}))
        self.job.forget()

    def run(self, until: int) -> None:
        """Crawl until so many URLs have been discovered."""
        while self.discovered < until:
            if not self.fetch():
                continue
            if not self.pages % 100:
                self.records.flush()
                self.take()
                if self.frontier.front_size < 20_000:
                    self.eliminator.merge()
            if not self.pages % 6000:
                self.checkpoint()

    def report(self, began: float) -> None:
        stats = self.frontier.stats()
        queues = stats["frontier/hosts/ready"] + stats["frontier/hosts/snoozed"]
        print(
            f"{self.discovered:>12,} URLs {self.hosts:>8,} hosts {self.pages:>8,} pages "
            f"{megabytes():>6.0f} MB; {queues:,} back-end queues, "
            f"{self.eliminator.waiting:,} in T, {time.perf_counter() - began:.0f} s",
            flush=True,
        )

    def drop(self) -> None:
        """Close the parts one after the other, and print what each gives back."""
        (shard,) = self.state.shards
        self.state.resources.merging.shutdown()
        for name, part in {**shard.parts, "records": self.records, "job": self.job}.items():
            before = megabytes()
            part.close()
            vars(part).clear()
            gc.collect()
            print(f"{name:<12} gives back {before - megabytes():>6.0f} MB")
        self.state.resources.writing.shutdown()
        print(f"what is left: {megabytes():.0f} MB")


def name_of(host: int) -> str:
    return f"www.site{host:07d}.test"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--urls", type=int, nargs="+", default=[1_000_000, 10_000_000], help="when to report")
    add("--rate", type=float, default=100.0, help="simulated pages per second")
    add("--budget", type=int, default=settings.MEMORY_BUDGET, help="MEMORY_BUDGET")
    options = parser.parse_args()
    return_large_blocks()  # as the crawl does
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as directory:
        crawl = Crawl(Path(directory), rate=options.rate, budget=options.budget)
        crawl.submit(0)
        crawl.report(began)
        for urls in options.urls:
            crawl.run(urls)
            crawl.report(began)
        crawl.drop()


if __name__ == "__main__":
    main()
