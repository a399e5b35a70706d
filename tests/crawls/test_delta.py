"""A consumer of deltas holds what a fresh export has, the search index, and the servers serve."""

import asyncio
import json
import signal
import subprocess
from collections import defaultdict
from datetime import UTC, datetime

import pytest
import warc_checks
import warm
from linked_site import Answer, command_for, crawl, served
from patience import LIMIT_SECS
from virtual_crawl import VirtualCrawl

from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.jobs.search import search

DAY = 86_400.0
MODULES = ("warc.WarcPipeline", "search_index.SearchIndex")
SETTINGS = {
    "ITEM_PIPELINES": json.dumps({f"webcrawl.pipelines.{name}": 1 for name in MODULES}),
    "OUTAGE_HOSTS": 0, "FRONTIER_RETRY_TIMES": 0, "CHECKPOINT_INTERVAL_SECS": 1,
}  # fmt: skip
TWENTY = [f"a.test/{number}" for number in range(20)]


class Consumer:
    """What the deltas of *job* say, each taken twice: URLs with the time of their document."""

    def __init__(self, job):
        self._job = job
        self._token = "0"
        self.pages = {}
        self.kinds = defaultdict(list)  # by URL, what was told

    async def take(self):
        for takes in range(2):
            words = ("delta", self._job, "--since", self._token)
            done = await asyncio.to_thread(warm.scrapy, *words)
            assert done.returncode == 0, done.stderr
            for one in map(json.loads, done.stdout.splitlines()):
                url, change = one["url"], one["change"]
                self.kinds[url] += [change] * takes
                self.pages.pop(url, None)
                if change in ("added", "changed"):
                    self.pages[url] = one["fetched_at"], one["content"]
        self._token = done.stderr.splitlines()[-1]


def page(text):
    return Answer(f"<title>{text}</title><p>{text} is here".encode())


async def killed_after(sites, job, visits):
    """Crawl, and kill -9 when so many more pages were asked for."""
    most = len(sites.pages_asked) + visits
    process = warm.Popen(command_for(sites, job, "a.test", **SETTINGS), stderr=subprocess.DEVNULL)
    async with asyncio.timeout(LIMIT_SECS):
        while len(sites.pages_asked) < most:  # noqa: ASYNC110  # by its requests
            await asyncio.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.wait)


def stored(job):
    """The documents in the WARC files, by URL and time."""
    found = {}
    for path in (job / "warc").glob("*.warc.gz*"):
        for one in warc_checks.records(path):
            if one.headers["WARC-Type"] == "response":
                at = datetime.fromisoformat(one.headers["WARC-Date"]).astimezone(UTC)
                found[one.headers["WARC-Target-URI"], at.timestamp()] = one.content
    return found


async def test_a_consumer_holds_what_is_served_over_kills(tmp_path):
    job = tmp_path / "job"
    links = "".join(f'<a href="/{number}">{number}</a>' for number in range(20))
    start = {name: page(f"first of {name}") for name in TWENTY}
    consumer = Consumer(job)
    async with served({"a.test/": Answer(links.encode()), **start}) as sites:
        url = f"http://a.test:{sites.port}/{{}}".format

        async def goes_on(**pages):
            sites.pages |= {f"a.test/{name[1:]}": answer for name, answer in pages.items()}
            said = await asyncio.to_thread(warm.scrapy, "frontier", job, "--refetch", "all")
            assert said.returncode == 0, said.stderr
            for visits in (4, 9):
                await killed_after(sites, job, visits)
                await consumer.take()
            await crawl(sites, job, "a.test", **SETTINGS)
            await consumer.take()

        await killed_after(sites, job, 8)
        await consumer.take()
        assert 0 < len(consumer.pages) < 21
        await crawl(sites, job, "a.test", **SETTINGS)
        await consumer.take()
        assert len(consumer.pages) == 21

        gone, shy = Answer(b"", status=410), b'<meta name="robots" content="noindex">'
        await goes_on(
            _1=page("second"), _2=gone, _3=gone, _4=Answer(b"", "", ("Location: /20",), status=301),
            _5=Answer(b"", status=503), _6=page("second of 6"), _20=page("the new place"),
            _7=Answer(b"%PDF-1.4", "application/pdf"), _8=page("second of 8"),
        )  # fmt: skip
        assert consumer.kinds[url(4)] == ["added", "moved"]
        assert url(5) in consumer.pages
        await goes_on(
            _2=start["a.test/2"], _4=start["a.test/4"], _6=start["a.test/6"], _5=gone,
            _8=Answer(shy + page("second of 8").body),
        )  # fmt: skip
        assert consumer.kinds[url(2)] == ["added", "gone", "changed"]
        assert consumer.kinds[url(3)] == ["added", "gone"]
        assert consumer.kinds[url(8)] == consumer.kinds[url(6)] == ["added", "changed", "changed"]
        assert consumer.kinds[url(9)] == ["added"]

        fresh = Consumer(job)
        await fresh.take()
        assert fresh.pages == consumer.pages
        documents = stored(job)
        held = {name: documents[name, at] for name, (at, _) in consumer.pages.items()}
        bodies = {name: one.body for name, one in sites.pages.items() if one.status == 200}
        assert held == {f"http://a.test:{sites.port}{name[6:]}": bodies[name] for name in bodies}
        hits = search(job / "search", "*", limit=100).hits
        assert {hit.url for hit in hits} == held.keys() - {url(7), url(8)}


async def test_what_robots_txt_denies_for_a_day_is_gone(tmp_path):
    crawl = VirtualCrawl(tmp_path, hosts=4, mean_pages=4, max_pages=8, restricting=0.0)
    settings = {"REVISIT": 1, "REVISIT_FIRST_SECS": "1d"}
    consumer = Consumer(crawl.job)
    crawl.run(0.1, **settings)
    await consumer.take()
    was = dict(consumer.pages)
    crawl._world["restricting"] = 1.0
    crawl.run(2.5, **settings)
    denied = defaultdict(list)
    for line in outcome_lines(crawl.job):
        if line.outcome == "robots_denied":
            denied[line.url].append((line.visit, line.at))
    assert denied
    for visits in denied.values():
        (first, began), (last, ended) = visits
        assert (first, last) == ("failed", "gone")
        assert ended - began == pytest.approx(1.1 * DAY, abs=0.1 * DAY)
    await consumer.take()
    assert was.keys() - consumer.pages.keys() == denied.keys() & was.keys() != set()
