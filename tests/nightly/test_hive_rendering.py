"""Hives that render pages with Chromium, disturbed: the links are those that a browser finds, and
subresources of other shards are asked for in the turns of their hosts."""

import random
from collections import Counter

import pytest
from crawling import RIGS, USER_AGENT, impolite, pages_asked_for, simulated, stats_of
from hive_crawl import MIN_DELAY, HiveCrawl
from web_truth import allowed_urls, browser_truth, is_endless_url, subresources_of

from webcrawl.crawl.shard.shards import Shards

pytestmark = [pytest.mark.timeout(3600)]

SCRIPTED = "scripted_engine:ScriptedEngine"
SHARDS = 12


@pytest.mark.seeds(10)
@pytest.mark.parametrize(
    ("engine", "size"),
    [
        (SCRIPTED, {"hosts": 40, "max_pages": 12}),
        ("chromium", {"hosts": 18, "max_pages": 6}),
    ],
)
def test_a_hive_renders_what_one_process_does(tmp_path, monkeypatch, seed, engine, size):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    rng = random.Random(seed)
    given = {"RENDER": "all", "RENDER_ENGINE": engine, "RENDER_SHARE": 0.9}
    with (
        simulated(tmp_path, "rendered", seed=rng.randrange(1000), **size) as web,
        HiveCrawl(web, tmp_path, rng=rng, RENDER_PROCESSES=1, **given) as hive,
    ):
        hive.join(rng.choice((2, 3)))
        hive.wait_for(rng.uniform(0.1, 0.4))
        if rng.random() < 0.5:
            hive.join(1)
        hive.wait_for(rng.uniform(0.4, 0.9))
        if hive.living:
            hive.kill(rng.choice(hive.living))
        if not hive.living:
            hive.join(1)
        hive.end()
        hits = web.hits()
        judge(web.world, hits)
        print(
            {
                d.job.name: {k: v for k, v in stats_of(d.job).items() if k.startswith("render/")}
                for d in hive.drones
                if not d.is_lost
            }
        )


def judge(world, hits):
    truth = browser_truth(world, USER_AGENT)
    shard_of = Shards(number=SHARDS).number_of
    parts, crossing, unstored = set(), set(), set()
    for page, _, _ in truth.values():
        for host, target in subresources_of(world, page) if page.is_scripted else ():
            url = host.origin + target
            parts.add(url)
            if shard_of(host.name) != shard_of(page.host.name):
                crossing.add(url)
            if host.index % 4 == 2:
                unstored.add(url)
    asked = Counter(url for url in pages_asked_for(hits) if not is_endless_url(url))
    assert impolite(hits, min_delay=MIN_DELAY) == []
    allowed = allowed_urls(world, USER_AGENT, browser=True)
    assert allowed - asked.keys() == set()
    assert asked.keys() - allowed - parts == set()
    assert crossing & asked.keys()
    often = {url: n for url, n in asked.items() if url in parts - unstored - allowed and n > 2}
    print(len(allowed), "pages,", len(parts), "parts", len(crossing & asked.keys()), "crossing")
    assert often == {}
