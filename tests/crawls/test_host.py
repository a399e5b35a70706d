"""What the main job does with hosts, judged by the simulated web's own record."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest
from crawling import (
    access_log,
    clean_web,
    crawl_command,
    is_robots,
    pages_asked_for,
    run_crawl,
    start_crawl,
    stats_of,
    wait_until,
)

from webcrawl.crawl.outcome_log import INFO_LOG


@pytest.fixture
def web(tmp_path):
    with clean_web(
        tmp_path, hosts=40, mean_pages=8.0, max_pages=40, redirects=0.2, crawl_delays=0.0
    ) as (web, _):
        yield web


@pytest.fixture
def command(web, tmp_path):
    def line(**settings):
        return crawl_command(web, tmp_path / "seeds.txt", tmp_path / "job", **settings)

    return line


def test_hosts_that_ask_not_to_be_crawled_are_let_alone_within_seconds(web, command, tmp_path):
    excluded = tmp_path / "excluded.txt"
    excluded.write_text("# nobody yet\n")
    crawl = start_crawl(command(EXCLUSION_FILE=excluded, POLITENESS_MIN_DELAY=0.8))
    wait_until(lambda: len(access_log(web.log_path)) >= 60)
    excluded.write_text("sim.test\n")
    written_at = time.time()
    _, errors = crawl.communicate(timeout=60)
    assert crawl.returncode == 0, errors
    web.stop()
    late = [hit for hit in access_log(web.log_path) if hit.start > written_at + 4]
    assert late == []
    stats = stats_of(tmp_path / "job")
    assert stats["outcome/excluded"] > 50
    assert stats["exclusions/rules"] == 1
    assert stats["frontier/waiting"] == 0


def test_robots_txt_is_not_asked_for_again_after_a_restart(web, command, tmp_path):
    # What a kill cuts off rests for ten times the restart, which is long on a busy machine.
    line = command(POLITENESS_MIN_DELAY=0.4, POLITENESS_MAX_DELAY=2)
    for _ in range(2):
        crawl = start_crawl(line)
        # The records of hosts are a second or two behind a kill -9.
        time.sleep(3.5)
        crawl.kill()
        crawl.communicate()
    done = run_crawl(line)
    assert done.returncode == 0, done.stdout
    web.stop()
    hits = access_log(web.log_path)
    asked = Counter(f"{hit.origin}{hit.target}" for hit in hits if is_robots(hit))
    again = sum(count - 1 for count in asked.values())
    assert again < len(asked) / 2, f"{again} of {len(asked)} asked for again"
    clean = run_crawl(line)
    assert clean.returncode == 0
    assert len(access_log(web.log_path)) == len(hits)


def test_at_most_three_redirects_are_followed_and_each_in_its_own_turn(web, command, tmp_path):
    done = run_crawl(command(REDIRECT_MAX_TIMES=3))
    assert done.returncode == 0, done.stdout
    web.stop()
    hops = [url.partition("?hop=")[2] for url in pages_asked_for(access_log(web.log_path))]
    numbers = [int(hop) for hop in hops if hop]
    assert max(numbers) == 3
    stats = stats_of(tmp_path / "job")
    assert stats["urls/refused/too_many_redirects"] + stats.get("urls/refused/redirect_loop", 0) > 0
    log = (tmp_path / "job" / INFO_LOG).read_bytes().splitlines()
    refused = Counter(json.loads(line).get("redirect_refused") for line in log)
    for why in ("too_many_redirects", "redirect_loop"):
        assert refused[why] == stats.get(f"urls/refused/{why}", 0)
    assert stats["redirects/permanent"] + stats["redirects/temporary"] == sum(
        count for name, count in stats.items() if name.startswith("outcome/http_3")
    )


def test_a_crawl_waiting_for_its_last_hosts_says_so(web, command, tmp_path):
    line = command(POLITENESS_MIN_DELAY=1.5, STATISTICS_INTERVAL_SECS=0.5, CLOSESPIDER_TIMEOUT=8)
    done = run_crawl(line)
    assert done.returncode == 0, done.stdout
    assert "; politeness-bound" in done.stdout
    assert "politeness-bound for" in done.stdout
    assert stats_of(tmp_path / "job")["politeness/bound_secs"] > 1


def test_by_default_nothing_inside_a_network_is_contacted(web, command, tmp_path):
    done = run_crawl(command(ALLOW_PRIVATE_ADDRESSES=0))
    assert done.returncode == 2, done.stdout
    assert "as there was nothing to fetch (address_forbidden " in done.stdout
    web.stop()
    assert access_log(web.log_path) == []
    stats = stats_of(tmp_path / "job")
    outcomes = {name for name in stats if name.startswith("outcome/")}
    assert outcomes == {"outcome/address_forbidden"}


def test_a_crawl_is_resumed_with_its_own_politeness_key_only(command, tmp_path):
    assert run_crawl(command(CLOSESPIDER_TIMEOUT=1)).returncode == 0
    done = run_crawl(command(POLITENESS_KEY="domain"))
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == (
        f"webcrawl: JOBDIR {tmp_path / 'job'} holds a crawl with POLITENESS_KEY host, not domain: "
        "go on with that, or choose another JOBDIR."
    )
