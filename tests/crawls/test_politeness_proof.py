"""The proof of politeness: crawls of every kind of trouble, judged by the server's log.

What is due is computed from the simulated web itself, its robots.txt files and its Retry-After
headers, never from the crawler; and the judge is ``webcrawl.jobs.audit``, which knows nothing of
it.
"""

from __future__ import annotations

import dataclasses
import random
import re
import shutil
import signal
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
from crawling import (
    kill,
    run_crawl,
    simulated,
    start_crawl,
    wait_until,
)

from webcrawl.jobs.audit.access_logs import audit_logs
from webcrawl.jobs.audit.auditor import RequiredDelays
from webcrawl.jobs.audit.log_line import MICRO
from webcrawl.jobs.audit.report import as_text
from webcrawl.simweb import Faults, read_access_log
from webcrawl.simweb.robots import MOVED_PATH, PATH, robots_of

FLOOR = 0.1
SOUND = dataclasses.asdict(Faults.none())


def faults(**shares):
    return Faults(**SOUND | shares)


def crawl_delays(world):
    """The Crawl-delay of each host that has one, as its robots.txt says it."""
    found = {}
    for host in map(world.host, range(world.hosts)):
        for path in (PATH, MOVED_PATH) if host.answers else ():
            robots = robots_of(world, host, path)
            asked = re.search(rb"^Crawl-delay: ([0-9.]+)\r?$", robots.body, re.MULTILINE)
            if robots.status == 200 and asked:
                found[host.name] = float(asked[1])
    return found


def judged(log, *, delays, floor=FLOOR, key="host"):
    return audit_logs(
        [str(log)],
        key=key,
        delays=RequiredDelays(min_delay=floor, hosts=delays),
        agent="webcrawl",
        host="-",
        keep=10**6,
    )


def assert_polite(log, *, delays, floor=FLOOR, key="host", killed=False):
    """No host in *log* was hurried or asked twice at once; the judge's figures.

    Left out if the crawler was *killed*: two contacts for robots.txt that are nearer than its
    Crawl-delay, but not nearer than *floor*. It died before it had read what the first one brought.
    """
    auditor, tally = judged(log, delays=delays, floor=floor, key=key)
    print(*as_text(auditor, tally, key=key, top=5), sep="\n")
    assert (tally.unreadable, auditor.unjudged) == (0, 0)
    wrong = [
        f"{one.key}: {one.gap / MICRO:.6f} s of {one.due / MICRO} s, {one.before} {one.after}"
        for one in auditor.worst()
        if not (killed and _for_robots(one.before, one.after) and one.gap >= floor * MICRO)
    ]
    assert wrong == []
    assert auditor.concurrency == 1
    return auditor


def _for_robots(*contacts):
    return {urlsplit(contact.url).path for contact in contacts} <= {PATH, MOVED_PATH}


def stop_at_once(crawl):
    """The downloads are broken off, and what is in process goes back."""
    for _ in range(2):
        crawl.send_signal(signal.SIGINT)
        time.sleep(0.05)  # two that come together are one
    crawl.communicate(timeout=60)


def kill_at_random_moments(web, *, kills, rng, longest, **settings):
    """At most *longest* seconds after the first contact; returns when, in seconds of the epoch."""
    moments = []
    for _ in range(kills):
        crawl = web.start(**settings)
        time.sleep(rng.uniform(0.0, longest))
        kill(crawl)
        moments.append(time.time())
    return moments


def finish(web, **settings):
    """Crawl to the end; then the server is stopped and its record whole."""
    output = web.crawl(**{"POLITENESS_MIN_DELAY": FLOOR, **settings})
    assert "finished: nothing is left to fetch" in output
    web.web.stop()


@pytest.mark.parametrize(
    ("hosts", "max_pages"), [(200, 8), pytest.param(2000, 40, marks=pytest.mark.long)]
)
def test_hosts_of_every_kind_are_crawled_politely_through_kills(tmp_path, hosts, max_pages):
    """Mixed delays, redirects between hosts, slow, throttling and broken servers; a few of them
    speak FTP or Gopher."""
    settings = {
        "POLITENESS_MIN_DELAY": FLOOR,
        "POLITENESS_DELAY_FACTOR": 1,
        "POLITENESS_BACKOFF_MAX_SECS": 0.5,
        "DOWNLOAD_TIMEOUT": 2,
        "CHECKPOINT_INTERVAL_SECS": 3,
    }
    with simulated(
        tmp_path,
        "mercator",
        ftp_port=0,
        gopher_port=0,
        ftp=0.03,
        gopher=0.03,
        hosts=hosts,
        mean_pages=3.0,
        max_pages=max_pages,
        redirects=0.3,
        crawl_delays=0.3,
        max_crawl_delay=1.0,
        endless=0.0,
        # Without the faults of name servers: they cost time and leave no line in the log.
        faults=dataclasses.replace(
            Faults(), slow=0.1, throttle=0.05, servfail=0.0, dns_timeout=0.0
        ),
        slow_secs=0.3,
        stall_secs=3.0,
    ) as web:
        settings["GOPHER_PORTS"] = web.world.gopher_port
        longest = 6.0 if hosts > 1000 else 1.5
        kill_at_random_moments(web, kills=2, rng=random.Random(3), longest=longest, **settings)
        finish(web, **settings)
    log = web.log
    delays = crawl_delays(web.world)
    auditor = assert_polite(log, delays=delays, killed=True)
    # The crawl was what it should have been.
    assert auditor.contacts > 4 * hosts
    assert len(auditor.keys) > 0.95 * hosts
    schemes = Counter(hit.origin.partition(":")[0] for hit in read_access_log(log))
    assert min(schemes[scheme] for scheme in ("http", "https", "ftp", "gopher")) > hosts / 20
    asked = sum(auditor.keys[name].contacts > 2 for name in delays if name in auditor.keys)
    assert asked > 0.075 * hosts
    # And the judge is not blind: pauses twice as long were not kept.
    assert judged(log, delays=delays, floor=2 * FLOOR)[0].violations > hosts / 20
    longer = {name: 3 * pause for name, pause in delays.items()}
    assert judged(log, delays=longer)[0].violations > 9


def test_a_server_that_still_answers_a_crawl_that_has_ended_is_not_asked(tmp_path):
    """However soon the crawl is resumed: it may take as long as DOWNLOAD_TIMEOUT lets it."""
    settings = {
        "POLITENESS_MIN_DELAY": FLOOR,
        "POLITENESS_DELAY_FACTOR": 0,
        "DOWNLOAD_TIMEOUT": 6,
    }
    with simulated(
        tmp_path,
        ftp_port=0,
        ftp=0.7,  # its server does not notice that it is hung up on
        hosts=40,
        mean_pages=2.0,
        max_pages=4,
        faults=faults(slow=0.7),
        slow_secs=3.0,
    ) as web:
        ended_at = []
        for end in kill, stop_at_once:
            crawl = web.start(**settings)
            time.sleep(1.0)
            ended_at.append(time.time())
            end(crawl)
        finish(web, **settings)
    assert_polite(web.log, delays={})
    hits = [*read_access_log(web.log)]
    for moment in ended_at:
        assert sum(hit.start < moment < hit.end for hit in hits) > 3


@pytest.mark.parametrize("dies_at_once", [False, True])
def test_a_copy_of_a_kept_checkpoint_knows_no_contacts_since(tmp_path, dies_at_once):
    """From its opening a host rests for POLITENESS_MAX_DELAY, or for the Crawl-delay last known."""
    longest = 1.5
    settings = {
        "POLITENESS_MIN_DELAY": FLOOR,
        "POLITENESS_MAX_DELAY": longest,
        "CHECKPOINTS_KEPT_INTERVAL_SECS": 0,
    }
    copy = tmp_path / "copy"
    with simulated(
        tmp_path, hosts=80, mean_pages=2.0, max_pages=3, crawl_delays=0.7, max_crawl_delay=6.0
    ) as web:
        crawl = start_crawl(web.command(**settings, CHECKPOINT_INTERVAL_SECS=1))
        wait_until(lambda: len([*web.job.glob("checkpoints/??????")]) == 2)
        kill(crawl)
        killed_at = time.time()
        shutil.copytree(max(web.job.glob("checkpoints/??????")), copy)
        command = web.command(copy, **settings, CHECKPOINT_INTERVAL_SECS=60)
        if dies_at_once:
            kill(start_crawl(command))
        done = run_crawl(command)
        assert done.returncode == 0, done.stdout
        assert "finished: nothing is left to fetch" in done.stdout
    hits = web.hits()
    delays = crawl_delays(web.world)
    assert_polite(web.log, delays=delays, killed=True)
    after = [hit.start for hit in hits if hit.start > killed_at]
    assert min(after) >= killed_at + longest
    last = {hit.host: hit.end for hit in hits if hit.start <= killed_at}
    assert sum(at + delays.get(host, 0.0) > min(after) for host, at in last.items()) > 0
