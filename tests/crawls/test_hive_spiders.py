"""A hive with a spider of Scrapy's own kind: Requests with callbacks cross between its drones."""

import re
from collections import Counter

import pytest
from crawling import (
    ROOT,
    Simulation,
    impolite,
    pages_asked_for,
    run_crawl,
    simulated,
    stats_of,
)
from hive_crawl import MIN_DELAY, HiveCrawl
from patience import LIMIT_SECS

PORT = re.compile(r":\d+(?=/)")
SPIDER = ROOT / "tests/rigs/loaded/link_spider.py"
ODD = """
from fractions import Fraction
from pathlib import Path
from scrapy import Request, Spider

class Odd(Spider):
    name = "odd"
    async def start(self):
        url = Path(self.seeds).read_text().split()[0]
        yield Request(url, meta={"value": Fraction(1, 3)})
    def parse(self, response):
        self.logger.info("value is %r", response.meta["value"])
"""


class LinkSimulation(Simulation):
    """The simulated web, crawled by the spider in the file *spider*."""

    def __init__(self, web, directory, *, spider=SPIDER):
        super().__init__(web, directory)
        self._spider = spider

    def command(self, job=None, **settings):
        command = super().command(job, **settings)
        at = command.index("crawl")
        return [*command[:at], "runspider", str(self._spider), *command[at + 2 :]]


def test_requests_with_callbacks_go_to_the_drone_of_their_host(tmp_path):
    values = {"hosts": 15, "max_pages": 10, "mean_pages": 5.0, "seed": 3}
    asked = []
    for drones in (1, 2):
        directory = tmp_path / str(drones)
        directory.mkdir()
        with simulated(directory, **values) as plain:
            web = LinkSimulation(plain.web, directory)
            with HiveCrawl(web, directory) as hive:
                if drones == 1:
                    assert run_crawl(web.command(POLITENESS_MIN_DELAY=MIN_DELAY)).returncode == 0
                else:
                    for drone in hive.join(drones):
                        assert drone.process.wait(LIMIT_SECS) == 0
            record = web.hits()
        assert impolite(record, min_delay=MIN_DELAY) == []
        asked.append(Counter(PORT.sub("", url) for url in pages_asked_for(record)))
    assert len(asked[0]) > 30
    # Of two forms of a URL the one that is found first is asked for, and may lead elsewhere.
    assert len(asked[0].keys() ^ asked[1].keys()) <= 5
    # The start requests of both drones are the same, and each is sent once.
    seeds = {PORT.sub("", url) for url in web.seeds.read_text().split()}
    assert {asked[1][url] for url in seeds} == {1}


@pytest.mark.long
@pytest.mark.cures("Put plain data into its meta and cb_kwargs")
def test_a_request_with_an_object_in_meta_is_refused_with_a_sentence(tmp_path):
    spider = tmp_path / "odd_spider.py"
    spider.write_text(ODD)
    with simulated(tmp_path, hosts=2, max_pages=2, seed=3) as plain:
        web = LinkSimulation(plain.web, tmp_path, spider=spider)
        with HiveCrawl(web, tmp_path) as hive:
            (drone,) = hive.join(1)
            assert drone.process.wait(LIMIT_SECS) == 0
        first = web.seeds.read_text().split()[0]
        spider.write_text(ODD.replace("Fraction(1, 3)", "str(Fraction(1, 3))"))
        (tmp_path / "mended").mkdir()
        with HiveCrawl(web, tmp_path / "mended") as hive:
            (mended,) = hive.join(1)
            assert mended.process.wait(LIMIT_SECS) == 0
        assert pages_asked_for(web.hits()).count(first) == 1
    assert "because a hive cannot send it: Fraction is not plain (None, bool" in drone.said
    assert stats_of(drone.job)["hive/requests/refused"] == 1
    assert "a hive cannot send it" not in mended.said
