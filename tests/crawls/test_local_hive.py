"""``scrapy hive --drones 2`` as a user runs it: killed, stopped, resumed, with live seeds."""

import json
import re
import signal
import time
import urllib.request
from contextlib import suppress

import psutil
import pytest
import redis
from crawling import RIGS, access_log, printed, simulated, wait_until
from local_hive import Hive
from monitored import Monitor
from patience import LIMIT_SECS
from reading_report import crawl_of
from redis_server import free_port
from web_truth import allowed_urls, fetchable_urls

from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.hive.membership.asking import HERE
from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.seen.url_trace import read_trace


@pytest.fixture
def web(tmp_path):
    with simulated(tmp_path, hosts=25, mean_pages=6, max_pages=30) as web:
        yield web


def test_a_hive_is_killed_stopped_and_resumed_and_fetches_all(web, tmp_path):
    settings = {"METRICS_PORT": free_port(), "MONITOR_PORT": free_port(), "KEEP_OPEN": 1}
    with Hive(web, tmp_path / "first", LOG_JSON=1, STATISTICS_INTERVAL_SECS=1, **settings) as hive:
        monitor = Monitor(web.job)
        # It is there before the drones are.
        wait_until(lambda: monitor.status("GET", "/") == 200, every=0.2)
        wait_until(lambda: hive.has_pages(20), every=0.5)
        wait_until(lambda: len(hive.metrics()) == 2)
        for address in hive.metrics():
            with urllib.request.urlopen(f"http://{address}/live") as answer:
                assert answer.read() == b"live\n"
        told = json.loads(printed("control", web.job, "state", "--json"))
        assert [one["drone"] for one in told] == ["drone 0", "drone 1"]
        # One may wait for what the other finds.
        assert {one["said"][:7] for one in told} <= {"running", "waiting"}
        both_are_paused_by(monitor)
        seeded = printed("control", web.job, "seeds", "http://127.0.0.1:1/seeded")
        assert seeded == "seeds: added to the live seeds of the hive\n"
        pid = hive.drones()[0].pid
        hive.drones()[0].kill()
        wait_until(lambda: "restarting in" in (tmp_path / "first").read_text())
        wait_until(lambda: len(hive.drones()) == 2)
        said = hive.ends(signal.SIGINT)
        assert re.search(r"drone \d died \(killed by SIGKILL\): restarting in 1 s", said)
        assert "stopping with checkpoints; send the signal again to stop immediately\n" in said
        assert "end  stopped by a signal" in said
        assert not psutil.pid_exists(pid)
    with pytest.raises(ConnectionRefusedError):
        monitor.status("GET", "/")
    assert not (web.job / "ports.json").exists()
    assert (web.job / "logs/monitor.log").read_text() == ""

    with Hive(web, tmp_path / "second", STATISTICS_INTERVAL_SECS=1) as hive:
        with hive.client() as client:
            # Its Redis is there before the drones are: the crawl cannot end before the seeds come.
            wait_until(lambda: answers(client), every=0.05)
            form = {"url": "http://127.0.0.1:1/form", "method": "POST", "page": "2"}
            client.lpush("web:start_urls", "http://127.0.0.1:1/live", json.dumps(form))
        said = hive.ends()
        assert re.search(rf"^hive {HERE}  0:\d\d:\d\d  8 shards", said, re.MULTILINE)
        assert re.search(r"^drone [01] +\d+ +\d", said, re.MULTILINE)
        assert "end  finished: nothing is left to fetch\n" in said
    live = [
        json.loads(path.read_text()).get("seeds/live", 0)
        for path in (web.job / "drones").glob("*/stats.json")
    ]
    assert sum(live) >= 2
    # Each drone has a trace of what its pages link to, its shards' own and others'.
    traces = [read_trace(path) for path in (web.job / "drones").glob("*/links.trace")]
    assert [0 < trace.leaves.sum() < len(trace.fps) for trace in traces] == [True, True]
    facts = json.loads((web.job / "store/hive.json").read_text())
    assert facts["seed"] != 0
    for job in (web.job / "drones").glob("*/"):
        assert read_checkpoint(job).own.facts["seed"] == facts["seed"]
    assert {trace.seed for trace in traces} == {facts["seed"]}
    found = crawl_of(web.job)
    assert (found.state, found.drones) == ("finished: nothing is left to fetch", 2)
    printed("report", web.job, "--csv", tmp_path / "tables")
    lines = [one for job in web.job.glob("drones/*") for one in outcome_lines(job)]
    assert (tmp_path / "tables/crawl.log").read_text().count("\n") == len(lines)
    # Each page counts once, whichever drones had it.
    pages = int(re.search(r"^ +pages  ([\d,]+) ", said, re.MULTILINE)[1].replace(",", ""))
    assert found.results.pages == pages == len(fetchable_urls(web.world, "webcrawl"))
    answers_of_all_drones(web.job, tmp_path, pages=pages)

    urls = json.loads(printed("frontier", web.job, "--refetch", "all", "--json"))["urls"]
    assert urls == sum(line.outcome.startswith("http_") for line in last_lines(web.job))
    with Hive(web, tmp_path / "third") as hive:
        said = hive.ends()
        assert re.search(rf"^ +visits  {urls:,} of URLs fetched before: ", said, re.MULTILINE)
        assert re.search(rf"^ +pages  {pages:,} ", said, re.MULTILINE)

    with Hive(web, tmp_path / "open", STATISTICS_INTERVAL_SECS=1, KEEP_OPEN=1) as hive:
        logs = [web.job / "drones" / one / "logs" for one in "01"]
        logs = [path for one in logs for path in one.glob("*.log")]
        waits = "nothing left: waiting for other drones or seeds"
        wait_until(lambda: all(waits in one.read_text() for one in logs), every=0.5)
        with hive.client() as client:
            client.lpush("web:start_urls", "http://127.0.0.1:1/later")
            wait_until(lambda: not client.llen("web:start_urls"))
        page = max(line.url for line in last_lines(web.job) if line.outcome == "http_200")
        due = printed("control", web.job, "due", page, "http://never.test/")
        assert due.startswith("due: 1 URL put back in line")
        wait_until(lambda: [line.url for line in visits(web.job)].count(page) == 2)
        said = hive.ends(signal.SIGINT)
        assert "end  stopped by a signal" in said
    # What was visited is not once more, though the streams of Redis are read anew.
    assert len(visits(web.job)) == urls + 1
    assert min(web.judge(min_delay=0.3).values()) == 2


def answers(client):
    with suppress(redis.ConnectionError, redis.BusyLoadingError):
        return client.ping()


def both_are_paused_by(monitor):
    """And go on again, as the page saw it."""
    paused = dict.fromkeys(("drone 0", "drone 1"), "paused")
    assert told(monitor.command("pause")) == dict.fromkeys(paused, "pause: in force")
    wait_until(lambda: states(monitor) == paused, every=0.5)
    contacts = -1
    # What was under way may come to its end.
    while contacts < (contacts := len(access_log(monitor.log))):
        time.sleep(1)
    assert told(monitor.command("resume")) == dict.fromkeys(paused, "resume: in force")
    wait_until(lambda: "paused" not in states(monitor).values(), every=0.5)


def told(answer):
    status, drones = answer
    assert status == 200, drones
    return {one["drone"]: one["said"] for one in drones}


def states(monitor):
    return {one["name"]: one["state"]["name"] for one in monitor.state()["processes"]}


def last_lines(job):
    return {line.url: line for line in lines_of(job)}.values()


def visits(job):
    return [line for line in lines_of(job) if line.visit]


def lines_of(job):
    return [line for log in job.glob("drones/*") for line in outcome_lines(log)]


def answers_of_all_drones(job, path, *, pages):
    """Ask each command for the hive in *job*, as for a job of one process."""

    waiting = json.loads(printed("frontier", job, "--json"))
    assert (waiting["waiting"], waiting["finished"] >= pages) == (0, True)
    logs = [*job.glob("drones/*/logs/info.jsonl")]
    last = json.loads(logs[0].read_text().splitlines()[-1])["url"]
    assert json.loads(printed("why", job, last, "--json"))["state"] == "finished"
    assert printed("job", "check", job).count("\nsound\n") == len(logs) == 2
    assert printed("report", job, "-o", path / "r.html").startswith(f"{pages:,} pages; ")
    audited = json.loads(printed("politeness-audit", job, "--json"))
    assert audited["requests"] >= pages
    assert (audited["violations"], audited["own_log_of"]) == (0, str(job))
    replayed = printed("replay", job, "-o", path / "new", "-s", "ITEM_PIPELINES={}")
    assert int(replayed.split()[0].replace(",", "")) >= pages
    assert " documents from " in printed("wacz", job, "-o", path / "h.wacz")
    built = json.loads(printed("queue-build", job, "--queue", path / "queue", "--json"))
    assert built["pages"] >= pages


@pytest.mark.long
@pytest.mark.cures("end a hive with scrapy hive stop, and write the URLs that are left with")
def test_hive_stop_and_the_last_drone_end_the_redis_of_a_killed_supervisor(web, tmp_path):
    with Hive(web, tmp_path / "refused", CLOSESPIDER_FEW_HOSTS=5) as hive:
        assert "CLOSESPIDER_FEW_HOSTS is only for a single-process crawl: end" in hive.ends(code=2)
    slow = {"POLITENESS_MIN_DELAY": 1, "POLITENESS_MAX_DELAY": 1}
    with Hive(web, tmp_path / "stopped", **slow) as hive:
        wait_until(lambda: hive.has_pages(5), every=0.5)
        hive.stop()
        hive.ends()
        printed("frontier", web.job, "--export", tmp_path / "left.csv")
        assert (tmp_path / "left.csv").read_text().count(",") > 0
    with Hive(web, tmp_path / "killed", **slow) as hive:
        wait_until(lambda: hive.has_pages(5), every=0.5)
        (server,), drones = hive.redis(), hive.drones()
        hive.ends(signal.SIGKILL, code=-signal.SIGKILL)
        for drone in drones:
            assert server.is_running()
            drone.terminate()
        psutil.wait_procs([server, *drones], timeout=LIMIT_SECS)
        assert not any(map(psutil.pid_exists, [one.pid for one in (server, *drones)]))


@pytest.mark.long
def test_a_module_that_fails_on_page_after_page_ends_the_hive(web, tmp_path, monkeypatch):
    record = tmp_path / "record"
    bug = tmp_path / "bug"
    bug.touch()
    for name, value in (("RECORD", record), ("BUG", bug), ("PYTHONPATH", RIGS)):
        monkeypatch.setenv(name, str(value))
    modules = {"webcrawl.pipelines.warc.WarcPipeline": 1, "failing_module.FailingModule": 2}
    settings = {"ITEM_PIPELINES": json.dumps(modules), "MODULE_MAX_FAILURES": 15}
    with Hive(web, tmp_path / "first", **settings) as hive:
        said = hive.ends(code=4)
    assert re.search(r"^drone \d: .*FailingModule failed on 15 pages in a row", said, re.MULTILINE)
    assert "/warc/*.warc.gz`" in said
    logs = (web.job / "drones").glob("*/logs/critical.jsonl")
    failed = {json.loads(one)["url"] for log in logs for one in log.read_text().splitlines()}
    assert len(failed) >= 10
    bug.unlink()
    with Hive(web, tmp_path / "second", **settings) as hive:
        said = hive.ends()
    urls = web.judge(min_delay=0.3)
    assert set(urls) == allowed_urls(web.world, "webcrawl")
    assert record.read_text().split()


def test_what_a_drone_says_of_its_input_ends_the_hive(web, tmp_path):
    web.seeds.write_text("\n")
    with Hive(web, tmp_path / "said", drones=1) as hive:
        said = hive.ends(code=2)
    assert re.search(r"^drone 0: .*No seeds in ", said, re.MULTILINE)
    assert "crawl summary" not in said
    assert not web.job.exists()  # and so any crawl may have it
