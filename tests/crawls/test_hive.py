"""A crawl by a hive of four drones, disturbed, judged by the server's record over all processes.

nightly/test_hive_chaos.py has each disturbance alone, and rounds drawn by lot.
"""

import os
import pickle
import random
from collections import Counter

from crawling import USER_AGENT, is_robots, simulated, stats_of
from hive_crawl import NAME, HiveCrawl, play
from web_truth import allowed_urls

from webcrawl.crawl.links.link_intake import LinkBatch, LinkSource
from webcrawl.frontier import Entry
from webcrawl.hive.bus.messages import EntryMessage, encode, encode_links
from webcrawl.hive.membership.keys import Keys
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.storage.record_log import pack_many
from webcrawl.urls import Link, host_of
from webcrawl.urls.registered_domain import registered_domain

SHARDS = 12


def test_a_hive_that_is_disturbed_is_complete_and_polite(tmp_path):
    disturbances = [
        (0.1, "kill the queen"),
        (0.2, "two join"),
        (0.3, "empty Redis"),
        (0.5, "pause a drone"),
        (0.7, "black hole"),
        (0.95, "one leaves"),
    ]
    assert play(tmp_path, disturbances, rng=random.Random(1), hosts=35)


class Bomb:
    """Makes the directory *path* where it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (str(self._path),)


def test_forged_messages_in_redis_make_no_storm_and_run_no_code(tmp_path):
    with (
        simulated(tmp_path, hosts=10, max_pages=8, mean_pages=4.0, seed=2) as web,
        HiveCrawl(web, tmp_path) as hive,
    ):
        url = min(allowed_urls(web.world, USER_AGENT))
        host = host_of(url)
        right = fingerprint(registered_domain(host)) % SHARDS
        source = LinkSource("", 1, 0, b"", 1.0)
        message = encode_links(LinkBatch([Link(url)], [host], [77], source))
        bomb = Entry(url, host, extra=pickle.dumps(Bomb(tmp_path / "exploded")))
        with hive.redis.client() as client:
            code = pack_many([encode(EntryMessage(bomb, None))])
            client.xadd(Keys(NAME).stream(right), {"b": code})
            for number in range(SHARDS):
                if number != right:
                    client.xadd(Keys(NAME).stream(number), {"b": pack_many([message])})
        hive.join(1)
        hive.end()
        stats = stats_of(hive.drones[0].job)
        assert stats["hive/foreign"] == SHARDS - 1
        assert stats["hive/requests/refused"] == 1
        assert not (tmp_path / "exploded").exists()
        robots = Counter(hit.origin for hit in web.hits() if is_robots(hit))
        assert max(robots.values()) <= 2
