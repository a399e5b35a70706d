"""What the main job does with hosts, judged by the simulated web's own record."""

import json
import time
from collections import Counter

import pytest
from crawling import (
    access_log,
    pages_asked_for,
    simulated,
    start_crawl,
    wait_until,
)
from patience import LIMIT_SECS, SLOWNESS

from webcrawl.crawl.lease.outcome_log import INFO_LOG


@pytest.fixture
def web(tmp_path):
    values = {"mean_pages": 8.0, "max_pages": 16, "redirects": 0.2, "crawl_delays": 0.0}
    with simulated(tmp_path, hosts=40, **values) as web:
        yield web


def test_hosts_that_ask_not_to_be_crawled_are_let_alone_within_seconds(web, tmp_path):
    excluded, blocked = tmp_path / "excluded.txt", tmp_path / "blocked.txt"
    excluded.write_text("# nobody yet\n")
    blocked.touch()
    lists = {"EXCLUSION_FILE": excluded, "BLOCKLISTS": json.dumps({"own": str(blocked)})}
    crawl = start_crawl(web.command(POLITENESS_MIN_DELAY=0.8, **lists))
    wait_until(lambda: len(access_log(web.log)) >= 60)
    excluded.write_text("/site000[01]/\n")
    blocked.write_text("sim.test\n")
    written_at = time.time()
    _, errors = crawl.communicate(timeout=LIMIT_SECS)
    assert crawl.returncode == 0, errors
    assert [hit for hit in web.hits() if hit.start > written_at + 4 * SLOWNESS] == []
    stats = web.stats
    assert stats["outcome/excluded"] + stats["outcome/excluded_own"] > 50
    assert stats["exclusions/rules"] == stats["blocklists/own/rules"] == 1
    assert stats["frontier/waiting"] == 0


def test_at_most_three_redirects_are_followed_and_each_in_its_own_turn(web):
    web.crawl(REDIRECT_MAX_TIMES=3)
    hops = [url.partition("?hop=")[2] for url in pages_asked_for(web.hits())]
    assert max(int(hop) for hop in hops if hop) == 3
    stats = web.stats
    assert stats["urls/refused/too_many_redirects"] + stats.get("urls/refused/redirect_loop", 0) > 0
    log = (web.job / INFO_LOG).read_bytes().splitlines()
    refused = Counter(json.loads(line).get("redirect_refused") for line in log)
    for why in ("too_many_redirects", "redirect_loop"):
        assert refused[why] == stats.get(f"urls/refused/{why}", 0)
    assert stats["redirects/permanent"] + stats["redirects/temporary"] == sum(
        count for name, count in stats.items() if name.startswith("outcome/http_3")
    )
