"""A hive with a spider of Scrapy's own kind: Requests with callbacks cross between its drones."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import TYPE_CHECKING

from crawling import ROOT, Simulation, impolite, pages_asked_for, run_crawl, simulated
from hive_crawl import MIN_DELAY, HiveCrawl

if TYPE_CHECKING:
    from pathlib import Path

PORT = re.compile(r":\d+(?=/)")
SPIDER = ROOT / "tests" / "rigs" / "link_spider.py"


class LinkSimulation(Simulation):
    """The simulated web, crawled by the spider in *SPIDER*."""

    def command(self, job: Path | None = None, **settings):
        command = super().command(job, **settings)
        at = command.index("crawl")
        return [*command[:at], "runspider", str(SPIDER), *command[at + 2 :]]


def test_requests_with_callbacks_go_to_the_drone_of_their_host(tmp_path):
    values = {"hosts": 25, "max_pages": 10, "mean_pages": 5.0, "seed": 3}
    asked = []
    for drones in (1, 2):
        directory = tmp_path / str(drones)
        directory.mkdir()
        with simulated(directory, **values) as plain:
            web = LinkSimulation(plain.web, directory)
            with HiveCrawl(web, directory, rng=random.Random(1)) as hive:
                if drones == 1:
                    assert run_crawl(web.command(POLITENESS_MIN_DELAY=MIN_DELAY)).returncode == 0
                else:
                    for drone in hive.join(drones):
                        assert drone.process.wait(60) == 0
            record = web.hits()
        assert impolite(record, min_delay=MIN_DELAY) == []
        asked.append(Counter(PORT.sub("", url) for url in pages_asked_for(record)))
    assert len(asked[0]) > 50
    # Of two forms of a URL the one that is found first is asked for, and may lead elsewhere.
    assert len(asked[0].keys() ^ asked[1].keys()) <= 5
    # The start requests of both drones are the same, and each is sent once.
    seeds = {PORT.sub("", url) for url in web.seeds.read_text().split()}
    assert {asked[1][url] for url in seeds} == {1}
