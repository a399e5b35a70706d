"""A user's spider middleware sees every Page of the web spider, by what the servers were asked."""

import asyncio
import json
from pathlib import Path

from linked_site import crawl, pages_of, served

PAGES = pages_of("middlewares")


class Noting:
    """Writes down what comes through, whether it comes at once or in slices, and of one page makes
    nothing."""

    def __init__(self, path):
        self.path = path

    @classmethod
    def from_crawler(cls, crawler):
        return cls(Path(crawler.settings["NOTED"]))

    def process_spider_output(self, response, result):
        for page in result:
            yield from self.noted(page)

    async def process_spider_output_async(self, response, result):
        async for page in result:
            for kept in self.noted(page):
                yield kept

    def noted(self, page):
        with self.path.open("a") as file:
            file.write(json.dumps(page.url) + "\n")
        if not page.url.endswith("/one"):
            yield page


class Raising:
    """A bug of one page's. A robots.txt does not come here."""

    def process_spider_input(self, response):
        if response.url.endswith(("/one", "/robots.txt")):
            raise RuntimeError("a bug in a middleware")


def crawl_with(name, tmp_path):
    """Crawl with that middleware, and every URL is asked for once. The stats, and the URLs."""

    async def scenario():
        async with served(PAGES) as sites:
            settings = {
                "SPIDER_MIDDLEWARES": json.dumps(
                    {f"tests.crawls.test_spider_middlewares.{name}": 100}
                ),
                "NOTED": tmp_path / "noted",
            }
            stats = await crawl(sites, tmp_path / "job", "a.test", **settings)
            assert sorted(sites.pages_asked) == sorted(PAGES)
            return stats, [f"http://{page.replace('/', f':{sites.port}/', 1)}" for page in PAGES]

    return asyncio.run(scenario())


def test_every_page_goes_through_a_spider_middleware_and_it_may_take_one_away(tmp_path):
    stats, urls = crawl_with("Noting", tmp_path)
    lines = (tmp_path / "noted").read_text().splitlines()
    assert sorted(map(json.loads, lines)) == sorted(urls)
    assert stats["item_scraped_count"] == len(PAGES) - 1


def test_a_bug_in_a_spider_middleware_costs_its_page_and_no_other(tmp_path):
    stats, _ = crawl_with("Raising", tmp_path)
    assert stats["item_scraped_count"] == len(PAGES) - 1
    assert stats["critical/download"] == 1
