"""Hives that render pages, with shards that move and a drone that is killed."""

import random

import pytest
from crawling import RIGS, simulated
from hive_crawl import HiveCrawl
from rendered_hive import SCRIPTED, SETTINGS, judge_rendering
from text_tables import each

pytestmark = pytest.mark.timeout(3600)


@pytest.mark.seeds(10)
@each(
    "engine size",
    (SCRIPTED, {"hosts": 40, "max_pages": 12}),
    ("chromium", {"hosts": 18, "max_pages": 6}),
)
def test_a_hive_that_is_disturbed_renders_as_one_process(tmp_path, monkeypatch, seed, engine, size):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    rng = random.Random(seed)
    given = SETTINGS | {"RENDER_ENGINE": engine}
    # No script is to be given up because the machine is busy: a page would lack its links.
    times = ("DOWNLOAD_TIMEOUT", "NET_CONNECT_TIMEOUT_SECS", "NET_FIRST_BYTE_TIMEOUT_SECS")
    given |= dict.fromkeys(times, 100)
    with (
        simulated(tmp_path, "rendered", seed=rng.randrange(1000), **size) as web,
        HiveCrawl(web, tmp_path, rng=rng, **given) as hive,
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
        print(judge_rendering(web))
