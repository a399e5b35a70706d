"""Pages in Redis, taken by the consumer of docs/howto/build-a-dataset.md; a crawl waits for it."""

import json
import re
import subprocess
import sys
import textwrap
from collections import Counter

import pytest
from contracts.modules import Run, a_page, run_module
from crawling import ROOT, simulated, start_crawl, stats_of, wait_until, warc_urls
from golden import golden
from patience import LIMIT_SECS
from redis_server import RedisServer
from text_tables import each

from webcrawl.errors import FatalError, RemoteStoreError
from webcrawl.pipelines.redis_pages import RedisPages
from webcrawl.urls import Link

MODULE = "webcrawl.pipelines.redis_pages.RedisPages"
# Pages at which the crawl pauses, and one that waits already.
MOST = 5000
OTHER = "http://other.test/"


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path / "redis") as one, one.client() as client:
        yield one, client


def consumer(directory):
    """The program of docs/howto/build-a-dataset.md."""
    page = (ROOT / "docs/howto/build-a-dataset.md").read_text()
    (code,) = re.findall(r"    # consumer.py.*\n((?:    .*\n)+)", page)
    path = directory / "consumer.py"
    path.write_text(textwrap.dedent(code))
    return path


@pytest.mark.cures("start more consumers; the crawl then continues by itself.")
def test_a_crawl_is_as_fast_as_its_consumers_and_loses_no_page(tmp_path, server):
    redis, client = server
    modules = {"webcrawl.pipelines.warc.WarcPipeline": 100, MODULE: 200}
    settings = {
        "ITEM_PIPELINES": json.dumps(modules),
        "REDIS_URL": redis.url,
        "CONCURRENT_REQUESTS": 4,
        "ITEM_TIMEOUT_SECS": 1,
        # Few come at once, however busy the machine is.
        "POLITENESS_MIN_DELAY": 0.3,
        "POLITENESS_MAX_DELAY": 0.4,
    }
    with simulated(tmp_path, hosts=5, mean_pages=8.0, max_pages=12) as web:
        other = json.dumps({"url": OTHER, "status": 200, "body": ""})
        client.rpush("web:items", *[other] * (MOST - 10))
        crawl = start_crawl(web.command(**settings))
        wait_until(lambda: client.llen("web:items") >= MOST)
        with pytest.raises(AssertionError):  # only what is under way comes
            wait_until(lambda: client.llen("web:items") > MOST + 2 * 4, secs=0.6)
        command = [sys.executable, "-u", consumer(tmp_path), redis.url]
        printed = tmp_path / "taken"
        with printed.open("w") as file, subprocess.Popen(command, stdout=file) as taking:
            output = crawl.communicate(timeout=LIMIT_SECS)[1]
            wait_until(lambda: client.llen("web:items") == 0)
            taking.terminate()
        lines = printed.read_text().splitlines()
        taken = [line.split() for line in lines if OTHER not in line]
    assert "start more consumers" in output
    assert "finished: nothing is left" in output
    wanted = Counter(warc_urls(web.job / "warc"))
    assert Counter(url for url, status, _ in taken) <= wanted
    assert len(taken) == stats_of(web.job)["modules/redis/pages"] > 18
    assert {status for _, status, _ in taken} == {"200"}
    assert "items/overdue" not in stats_of(web.job)


def test_a_page_is_json_with_all_its_fields(tmp_path, server):
    redis, client = server
    links = [Link("http://a.test/x", "caf\u00e9")]
    one = a_page(bytes(range(256)), reason="\udcff", links=links)
    one.headers = [(b"X-Y", b"\xe9")]
    run = run_module(RedisPages, [one, a_page("", status=404)], tmp_path, REDIS_URL=redis.url)
    (key,) = client.keys()
    assert key.endswith(":items")
    (written,) = client.lrange(key, 0, -1)
    text = json.dumps(json.loads(written), ensure_ascii=False, indent=1) + "\n"
    assert text == golden("redis-page.json", text)
    assert run.stats["waiting"] == 1


async def test_a_page_that_redis_does_not_take_ends_the_crawl(tmp_path, server):
    redis, _ = server
    settings = {"REDIS_URL": redis.url, "REDIS_PARAMS": {"retry": None}}
    async with Run(RedisPages, tmp_path, **settings) as run:
        redis.kill()
        with pytest.raises(RemoteStoreError, match="Redis at REDIS_URL does not accept pages"):
            await run.process(a_page("x"))
    with pytest.raises(FatalError, match="start Redis, or correct REDIS_URL"):
        await run.module.open()


@each("settings", {"REDIS_URL": "nonsense"}, {"REDIS_PARAMS": {"x": 1}})
def test_a_setting_that_cannot_be_is_told_in_a_sentence(tmp_path, settings):
    with pytest.raises(FatalError, match=r"\.$"):
        run_module(RedisPages, [], tmp_path, **settings)
