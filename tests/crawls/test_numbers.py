"""Numbers for people: summary, progress line, table, monitor, report and ``hive status`` of three
crawls say what the servers' record and logs/info.jsonl say, and what a summary advises loses
nothing."""

import json
import math
import os
import re
import shlex
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
import warm
from crawling import RIGS, access_log, is_robots, simulated, stats_of, url_of_hit, wait_until
from faulty_crawl import Fault
from local_hive import Hive
from monitored import Monitor
from patience import SLOWNESS
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from reading_report import figure, report_of
from redis_server import free_port
from text_tables import cases
from virtual_crawl import VirtualCrawl
from web_truth import allowed_urls, fetchable_urls

from webcrawl.crawl.lease.outcome_log import INFO_LOG, is_given_up
from webcrawl.frontier import SUBRESOURCE
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.jobs.report.over_time import series_of

pytestmark = pytest.mark.long

AGENT = "webcrawl"
EVERY = {"STATISTICS_INTERVAL_SECS": 10, "STATS_FILE_INTERVAL_SECS": 10}
EVERY |= {"CHECKPOINT_INTERVAL_SECS": 60, "REDIRECT_MAX_TIMES": 100}
WORLD = {"redirects": 0.1, "errors": 0.1, "restricting": 0.3}
PROGRESS = re.compile(
    r"^(?P<at>\S+ \S+) \[webcrawl\] INFO: \d+:\d\d:\d\d (?P<pages>[\d,]+) pages? "
    r"\((?P<rate>[\d.,]+)/s\)(?:, (?P<visits>[\d,]+) visits? \((?P<visit_rate>[\d.,]+)/s\), "
    r"(?P<fresh>[\d,]+) URLs? seen within 7 days)?, (?P<given_up>[\d,]+) given up; "
    r"(?P<waiting>[\d,]+) waiting, (?P<in_process>[\d,]+) in process; (?P<bound>.*)$",
    re.MULTILINE,
)


class Truth:
    """What the servers and the logs of finished URLs below *job* say."""

    def __init__(self, job, hits):
        self.hits = hits
        lines = [line for jobdir in jobdirs_of(job) for line in outcome_lines(jobdir)]
        self.decoded = sum((line.decoded or line.bytes) - line.bytes for line in lines)
        # Parts of rendered pages are no URLs of the crawl, but their bytes count.
        self.lines = lines = [line for line in lines if line.kind != SUBRESOURCE]
        # A URL whose end a kill has hidden ends once more.
        self.ends = {line.url: line for line in lines if not line.visit}
        self.visits = [line for line in lines if line.visit]
        self.duplicates = sum(line.duplicate for line in self.ends.values())
        self.hosts = {hit.host for hit in hits}
        pages = [hit for hit in hits if not is_robots(hit)]
        self.bytes = sum(hit.size for hit in pages)
        self.decoded += self.bytes
        # To the second, as the report shows them.
        self.span = [int(min(hit.start for hit in pages)), int(max(line.at for line in lines))]
        self.answered = {url_of_hit(hit) for hit in pages if hit.status == 200}

    def count(self, kind, until=float("inf")):
        kinds = {"pages": "http_2", "redirects": "http_3"}
        found = [one.outcome for one in self.ends.values() if one.at <= until]
        if kind in kinds:
            return sum(one.startswith(kinds[kind]) for one in found)
        others = (*kinds.values(), "replaced", "purged")
        return sum(not one.startswith(others) for one in found)

    def waiting(self, at):
        """URLs that were known *at* a time, and had not come to their end."""
        known = (self.ends.get(one.via) for one in self.ends.values() if one.at > at)
        return sum(via is None or via.at <= at for via in known)


def of_stamp(text):
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def of_clock(text):
    hours, minutes, seconds = map(int, text.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def numbers(text):
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def summary_of(said):
    """The rows of the summary by their first words, those without to the one above."""
    rows, name = {}, ""
    for line in said.partition("=== crawl summary ===\n")[2].splitlines():
        name = line[:10].strip() or name
        rows[name] = f"{rows.get(name, '')} {line[12:]}".strip()
    return rows


def progress_of(said):
    """Each progress line: when it was, and its numbers."""
    for found in PROGRESS.finditer(said):
        at = of_stamp(found["at"])
        words = found.groupdict(default="0")
        values = {one: numbers(words[one])[0] for one in words if one not in ("at", "bound")}
        yield at, values, words["bound"]


def wrong(found):
    """Those of the numbers *found*, pairs of what is shown and what is true, that differ."""
    return {name: pair for name, pair in found.items() if pair[0] != pytest.approx(pair[1])}


def of_summary(said, truth):
    rows = {name: numbers(text) for name, text in summary_of(said).items()}
    visits = rows.get("visits", [0])
    by_outcome = re.findall(r"(\d+)  [a-z]\w+", summary_of(said)["given up"])
    by_kind = Counter(line.visit for line in truth.visits)
    return {
        "summary pages": (rows["pages"][0], truth.count("pages")),
        "summary pages by servers": (rows["pages"][0], len(truth.answered & {*truth.ends})),
        "summary duplicates": (rows["pages"][1], truth.duplicates),
        "summary redirects": (rows["redirects"][0], truth.count("redirects")),
        "summary contacts": (rows["requests"][0], len(truth.hits)),
        "summary visits": (visits[0], len(truth.visits)),
        "summary visits by kind": (sorted(visits[1:]), sorted(by_kind.values())),
        "summary bytes": (rows["bytes"][0], truth.bytes),
        "summary given up": (rows["given up"][0], truth.count("given up")),
        "summary given up, summed": (sum(map(int, by_outcome)), truth.count("given up")),
    }


def of_whole_run(said, truth):
    """What only a crawl has that was never cut off."""
    rows = {name: numbers(text) for name, text in summary_of(said).items()}
    rate, secs = rows["speed"]
    return {
        "summary hosts": (rows["hosts"][0], len(truth.hosts)),
        "summary rate": (rate, pytest.approx(truth.count("pages") / secs, abs=0.06 + 6 / secs)),
        "summary decoded": (rows["bytes"][2], truth.decoded),
        "summary times decoded": (
            rows["bytes"][3],
            pytest.approx(truth.decoded / truth.bytes, abs=0.06),
        ),
        # Seeds and links that were found, but for robots.txt.
        "summary new links": (rows["links"][1], len(truth.ends)),
        "summary links are enough": (rows["links"][0] >= rows["links"][1], True),
    }


def of_report(path, truth):
    found = report_of(path)
    rows = {name: numbers(text) for name, text in found.summary}
    known = {row[0]: row[1] for row in figure(found, "crawl-report").table.rows}
    pages_over_time = series_of(jobdirs_of(path), secs=math.inf).total("pages")
    pages, given_up = truth.count("pages"), truth.count("given up")
    began_at = min(
        json.loads((jobdir / "logs/runs.jsonl").read_text().splitlines()[0])["at"]
        for jobdir in jobdirs_of(path)
    )
    return {
        "report pages": (rows["pages"][0], pages),
        "report given up": (
            rows["URLs failed"][0] + rows["not there or denied"][0],
            pytest.approx(100 * given_up / len(truth.ends), abs=0.11),
        ),
        "report hosts": (rows["hosts contacted"], [len(truth.hosts)]),
        "report known hosts": (known["hosts contacted"], len(truth.hosts)),
        "report known bytes": (known["bytes received"], truth.bytes),
        "report begin": (of_stamp(known["begin (UTC)"]), int(began_at)),
        "report begin before requests": (int(began_at) <= truth.span[0], True),
        "report end": (of_stamp(known["last URL (UTC)"]), truth.span[1]),
        "report received": (rows["received"][0], float(f"{truth.bytes / 1e6:.3g}")),
        "report duplicates": (rows["duplicates"][0], round(100 * truth.duplicates / pages, 1)),
        "report known pages": (known["pages"], pages),
        "report known redirects": (known["redirects"], truth.count("redirects")),
        "report known given up": (known["given up"], given_up),
        "report known duplicates": (known["duplicates"], truth.duplicates),
        "report known visits": (known["visits"], len(truth.visits)),
        "report pages over time": (round(pages_over_time), pages),
        "report waiting": (known["waiting"], 0),
        "report visits": ("revisits" in {x.name for x in found.rates}, bool(truth.visits)),
    }


def metrics_of(job):
    """The numbers of the page of metrics at the end of the last run, those of outcomes by label."""
    text = (job / "metrics.txt").read_text()
    samples = [x for family in text_string_to_metric_families(text) for x in family.samples]
    outcomes = "webcrawl_outcomes_total"
    return Counter(
        {x.labels["outcome"] if x.name == outcomes else x.name: x.value for x in samples}
    )


def of_metrics(shown, truth):
    given_up = [n for name, n in shown.items() if is_given_up(name.replace("xx", "00"))]
    return {
        "metrics pages": (shown["webcrawl_pages_total"], truth.count("pages")),
        "metrics pages by outcome": (shown["http_2xx"], truth.count("pages")),
        "metrics redirects": (shown["http_3xx"], truth.count("redirects")),
        "metrics given up": (sum(given_up), truth.count("given up")),
        "metrics duplicates": (shown["webcrawl_duplicates_total"], truth.duplicates),
        "metrics contacts": (shown["webcrawl_contacts_total"], len(truth.hits)),
        "metrics bytes": (shown["webcrawl_received_bytes_total"], truth.bytes),
    }


def of_gauges(path, truth):
    """URLs that wait or are parked by the report's chart, within each of its intervals of
    ten seconds."""
    found = {}
    for stamp, *levels in figure(report_of(path), "waiting").table.rows:
        at = int(of_stamp(stamp))
        true = [truth.waiting(second) for second in range(at - 10, at + 11)]
        is_true = min(true) - 2 <= sum(levels) <= max(true) + 2
        found[f"waiting at {stamp}"] = (is_true, True)
    return found


def of_progress(said, truth):
    found = {}
    lines = list(progress_of(said))
    for at, shown, bound in lines:
        # A line's time is in whole seconds.
        for name in ("pages", "given_up"):
            bounds = [truth.count(name.replace("_", " "), until) for until in (at - 1, at + 1)]
            is_true = bounds[0] <= shown[name] <= bounds[1]
            found[f"{name} at {at}"] = (is_true, True)
        found[f"nothing left at {at}"] = ("nothing left" in bound and shown["waiting"] > 0, False)
    for (before, was, _), (after, shown, _) in pairwise(lines):
        for name, rate in (("pages", "rate"), ("visits", "visit_rate")):
            true = (shown[name] - was[name]) / (after - before)
            near = pytest.approx(true, abs=0.51 if true >= 1 else 0.11)
            found[f"{rate} at {after}"] = (shown[rate], near)
    return found


def carried_out(said, truth, directory):
    """The commands that the summary names; each ends well."""
    commands = re.findall(r"^ +(?:report  |why  )?(scrapy [^:\n]+)", said, re.MULTILINE)
    for command in commands:
        words = shlex.split(command.replace(" URL", f" {min(truth.ends)}"))[1:]
        # Far from the project's directory, where they might leave files.
        env = os.environ | {"SCRAPY_SETTINGS_MODULE": "webcrawl.settings"}
        done = warm.scrapy(*words, cwd=directory, env=env)
        assert done.returncode == 0, (command, done)
    assert len(commands) > 1
    return commands


@cases(
    "budget advice",
    """
        {"BUDGET_HOST_PAGES": 12}                            | BUDGET_HOST_PAGES or _BYTES
        {"BUDGET_DOMAIN_PAGES": 12}                          | BUDGET_DOMAIN_PAGES or _BYTES
        {"REPUTATION_BASE_PAGES": 6, "REPUTATION_ROUNDS": 0} | REPUTATION_ROUNDS
    """,
)
def test_a_plain_crawl_says_what_is_true_and_its_advice_loses_nothing(tmp_path, budget, advice):
    crawl = VirtualCrawl(tmp_path, hosts=12, mean_pages=20, max_pages=60, **WORLD)
    crawl.run(1, **budget, **EVERY)
    truth = Truth(crawl.job, crawl.hits())
    said = crawl.said
    held = numbers(summary_of(said)["waiting"])
    assert held[0] == 0 < held[1] == numbers(summary_of(said)["end"])[0]
    whole = of_whole_run(said, truth)
    # New links are those that are parked, too.
    whole["summary new links"] = (whole["summary new links"][0], len(truth.ends) + held[1])
    began, ended = (re.search(rf"(\S+) \[\S+ INFO: {x}", said)[1] for x in ("Spider o", "Closing"))
    secs = of_clock(ended) - of_clock(began)
    whole["summary seconds"] = (numbers(summary_of(said)["speed"])[1], pytest.approx(secs, abs=2))
    assert wrong(of_summary(said, truth) | whole | of_report(crawl.job, truth)) == {}
    assert wrong(of_progress(said, truth)) == {}
    summary = dict(report_of(crawl.job).summary)
    assert numbers(summary["pages per second"]) == numbers(summary_of(said)["speed"])[:1]
    assert "..." not in said
    assert "\r" not in said

    assert f"raise {advice} and run again" in " ".join(said.split())
    ended = set(truth.ends)
    crawl.run(1, **EVERY)
    assert "end  finished: nothing is left to fetch\n" in crawl.said
    truth = Truth(crawl.job, crawl.hits())
    assert ended < set(truth.ends)
    assert wrong(of_gauges(crawl.job, truth)) == {}
    assert truth.answered >= fetchable_urls(crawl.world, AGENT)
    allowed = allowed_urls(crawl.world, AGENT)
    assert wrong(of_summary(crawl.said, truth) | of_report(crawl.job, truth)) == {}
    # Each command, and the same command again.
    assert any("--retry" in command for command in carried_out(crawl.said, truth, tmp_path))
    crawl.run(1, **EVERY)
    again = Truth(crawl.job, crawl.hits())
    assert again.ends.keys() >= truth.ends.keys() >= allowed
    assert numbers(summary_of(crawl.said)["hosts"]) == [len(again.hosts)]
    assert wrong(of_summary(crawl.said, again) | of_report(crawl.job, again)) == {}


def test_a_crawl_with_visits_and_kills_says_what_is_true(tmp_path):
    values = {"hosts": 8, "mean_pages": 20, "max_pages": 60, "changes_per_day": 0.5}
    crawl = VirtualCrawl(tmp_path, **values, **WORLD)
    revisit = {"REVISIT": 1, "REVISIT_FIRST_SECS": "1d", **EVERY}
    slow = {"STATISTICS_INTERVAL_SECS": 60, "STATS_FILE_INTERVAL_SECS": 600}
    slow |= {"CHECKPOINT_INTERVAL_SECS": 3600}
    for after in (60, 90):
        told = crawl.run(1, fault=Fault("kill", room="done", after=after), **revisit)
        assert told.has_failed
    crawl.run(1.4, **revisit | slow)
    truth = Truth(crawl.job, crawl.hits())
    rows = summary_of(crawl.said)
    shown = of_summary(crawl.said, truth) | of_report(crawl.job, truth)
    # What was on the wire at a kill has no end that somebody could have counted.
    lost = len(truth.hits) - shown.pop("summary contacts")[0]
    assert 0 <= lost <= 2 * 8
    received = shown.pop("summary bytes")[0]
    assert 0.9 * truth.bytes < received <= truth.bytes
    assert shown.pop("report known bytes")[0] == received
    del shown["report received"], shown["report hosts"]
    # Of the last interval before a kill there is no history.
    over_time, pages = shown.pop("report pages over time")
    assert 0.5 * pages < over_time <= pages
    # Of hosts that were only asked for robots.txt, the last before a kill are missing.
    hosts, asked = shown.pop("report known hosts")
    assert len({urlsplit(url).hostname for url in truth.answered}) <= hosts <= asked
    assert wrong(shown) == {}
    lines = list(progress_of(crawl.said))
    found = {}
    for (before, was, _), (after, line, bound) in pairwise(lines):
        true = (line["visits"] - was["visits"]) / (after - before)
        found[f"visits a second at {after}"] = (line["visit_rate"], pytest.approx(true, abs=0.51))
        idle = "nothing left" in bound
        found[f"nothing left at {after}"] = (idle and line["waiting"] > 0, False)
    assert wrong(found) == {}
    assert truth.visits
    assert any(line["visit_rate"] for _, line, _ in lines), crawl.said
    # What was counted only until a kill, or not since, is left out.
    assert "speed" not in rows
    assert "hosts" not in rows
    assert "new" not in rows["links"]
    assert numbers(rows["bytes"]) == [received]
    summary = dict(report_of(crawl.job).summary)
    assert "running time" not in summary
    assert "pages per second" not in summary
    assert (
        "Each URL is counted once, by its first result"
        in figure(report_of(crawl.job), "responsecode-report").lead
    )
    carried_out(crawl.said, truth, tmp_path)
    crawl.run(0.1, **revisit | slow)
    again = Truth(crawl.job, crawl.hits())
    assert again.ends.keys() >= truth.ends.keys()
    found = of_summary(crawl.said, again)
    assert found.pop("summary contacts")[0] == len(again.hits) - lost
    del found["summary bytes"]
    assert wrong(found) == {}
    # A kill may leave any line in the log twice: no number of URLs changes.
    before = report_of(crawl.job)
    log = crawl.job / INFO_LOG
    log.write_bytes(2 * log.read_bytes())
    after = report_of(crawl.job)
    assert after.summary[:-1] == before.summary[:-1]  # but for the space on the disk
    assert figure(after, "crawl-report") == figure(before, "crawl-report")


def test_a_hive_says_what_is_true_while_it_runs_and_at_its_end(tmp_path):
    with simulated(tmp_path, hosts=25, mean_pages=12, max_pages=60, **WORLD) as web:
        settings = {"STATISTICS_INTERVAL_SECS": 1, "STATS_FILE_INTERVAL_SECS": 1}
        settings |= {"MONITOR_PORT": free_port()}
        with Hive(web, tmp_path / "said", **settings) as hive:
            monitor = Monitor(web.job)
            wait_until(lambda: hive.has_pages(40), every=0.5)
            least = Truth(web.job, access_log(web.log))
            drones = hive.figures()
            wait_until(lambda: numbers(dict(monitor.state()["summary"])["pages"])[0] >= 40)
            page, at = monitor.state(), time.time()
            time.sleep(SLOWNESS)  # what they reported may be so old
            most = Truth(web.job, access_log(web.log))
            status = {x: sum(one[x] for one in drones) for x in ("pages", "given_up", "waiting")}
            assert status["pages"] <= most.count("pages")
            assert least.count("pages") - 40 <= status["pages"]
            assert status["given_up"] <= most.count("given up")
            shown = dict(page["summary"])
            assert numbers(shown["pages"])[0] <= most.count("pages")
            recent = numbers(re.sub("last minute", "", shown["pages per second"]))[0]
            # The first interval of ten seconds is not whole.
            secs = at - least.hits[0].start
            assert 0 < recent <= most.count("pages") / min(1, secs)
            said = hive.ends()
        truth = Truth(web.job, access_log(web.log))
        known, end = len(truth.ends), of_whole_run(said, truth)
        found = of_summary(said, truth) | end | of_report(web.job, truth)
        gauges = [row[1] for row in figure(report_of(web.job), "waiting").table.rows]
        carried_out(said, truth, tmp_path)
        # Run the same command again: nothing is lost, nothing is fetched again.
        with Hive(web, tmp_path / "again") as hive:
            again = {name: numbers(text) for name, text in summary_of(hive.ends()).items()}
        assert len(web.hits()) == len(truth.hits)
    assert wrong(found) == {}
    assert 0 < status["waiting"] < known
    assert len(gauges) > 1
    assert max(gauges) < known - 25
    # Of the hive's table the last one in which both drones are.
    *_, (pages, given_up) = re.findall(r"^all +8 +(\d+) +[\d.]+ +(\d+) ", said, re.MULTILINE)
    assert truth.count("pages") - 60 <= int(pages) <= truth.count("pages")
    assert truth.count("given up") - 30 <= int(given_up) <= truth.count("given up")
    ends = (truth.count("pages"), truth.count("given up"), truth.count("redirects"))
    assert (again["pages"][0], again["given up"][0], again["redirects"][0]) == ends


def test_a_rendered_crawl_with_retries_and_duplicates_says_what_is_true(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    settings = {"RENDER": "all", "RENDER_ENGINE": "scripted_engine:ScriptedEngine"}
    settings |= {"RENDER_PROCESSES": 2, "REDIRECT_MAX_TIMES": 100, "POLITENESS_MIN_DELAY": 0.02}
    settings |= {"METRICS_PORT": free_port(), "EXTENSIONS": '{"last_scrape.LastScrape": 0}'}
    world = {"hosts": 16, "mean_pages": 24.0, "max_pages": 40, "duplicates": 0.2, "errors": 0.2}
    with simulated(tmp_path, "rendered", **world) as web:
        # Stopped once, so that the second run has some of the numbers only from the first.
        web.crawl(CLOSESPIDER_PAGECOUNT=60, **settings)
        scraped = metrics_of(web.job)
        said = web.crawl(**settings)
        truth = Truth(web.job, access_log(web.log))
        stats = stats_of(web.job)
        found = of_summary(said, truth) | of_whole_run(said, truth) | of_report(web.job, truth)
    del found["summary rate"]  # of some seconds, in whole ones
    # What is of one run.
    last = metrics_of(web.job)
    found |= of_metrics(scraped + last, truth)
    # Pages that waited for what they need when the crawl was stopped may have been fetched again.
    found.pop("summary times decoded")
    for name in [one for one in found if re.search("bytes| decoded|received|contacts", one)]:
        shown, true = found.pop(name)
        assert shown == pytest.approx(true, rel=0.01), name
    assert wrong(found) == {}
    for name, stat in (("contacts", "contacts"), ("links_submitted", "links/submitted")):
        assert last[f"webcrawl_{name}_total"] == stats[stat] > 0
    assert stats["crawl/fetch/decoded_bytes"] == pytest.approx(truth.decoded, rel=0.01)
    assert sum(stats[name] for name in stats if name.startswith("crawl/retry/")) > 0
    assert stats["crawl/content/duplicates"] > 0
    assert stats["crawl/render/rendered"] > 0
