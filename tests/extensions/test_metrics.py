"""METRICS_PORT and LOG_JSON, by real crawls; what deploy/ asks for is what they serve."""

import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import quote, urlsplit

import pytest
import warm
from crawling import ROOT, printed, simulated, stats_of, wait_until
from patience import LIMIT_SECS
from prometheus_client.openmetrics import parser
from redis_server import free_port
from text_tables import each
from web_truth import allowed_urls

from webcrawl.crawl.figures.counts import Counts

DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text())
PANELS = [one["expr"] for panel in DASHBOARD["panels"] for one in panel["targets"]]
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


class Crawl:
    """A crawl that runs, and serves."""

    def __init__(self, web, log, settings):
        self.web, self.job, self.log = web, web.job, log
        with log.open("wb") as stream:
            self.process = warm.Popen(
                web.command(LOG_JSON=1, STATISTICS_INTERVAL_SECS=0.5, **settings),
                cwd=ROOT,
                stderr=stream,
            )
        wait_until((self.job / "ports.json").exists)
        self.port = json.loads((self.job / "ports.json").read_text())["metrics"]

    def get(self, path, **headers):
        """Status and text."""
        url = f"http://127.0.0.1:{self.port}/{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self):
        """By name, and by name with labels."""
        families = parser.text_string_to_metric_families(self.get("metrics", **OPENMETRICS)[1])
        return [sample for family in families for sample in family.samples]

    def value(self, name, **labels):
        found = (one.value for one in self.samples() if (one.name, one.labels) == (name, labels))
        return next(found, 0)

    def records(self):
        """All that it has written to standard error."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def crawling(directory, **settings):
    with simulated(directory, hosts=40, mean_pages=30, max_pages=100) as web:
        crawl = Crawl(web, directory / "stderr", settings)
        try:
            yield crawl
        finally:
            crawl.process.terminate()
            assert crawl.process.wait(LIMIT_SECS) == 0


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A crawl that was given a taken port and was asked in its course, when it has ended."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with crawling(tmp_path_factory.mktemp("crawl"), METRICS_PORT=port) as crawl:
            wait_until(lambda: crawl.value("webcrawl_pages_total") > 50)
            wait_until(lambda: " pages " in crawl.log.read_text())
            crawl.taken = port
            crawl.seen = crawl.samples()
            crawl.answers = {path: crawl.get(path) for path in ("metrics", "live", "ready", "x")}
    return crawl


def values(crawl, name):
    return {tuple(one.labels.values()): one.value for one in crawl.seen if one.name == name}


def test_a_scrape_has_what_the_stats_have(ended):
    pages = values(ended, "webcrawl_pages_total")[()]
    outcomes = values(ended, "webcrawl_outcomes_total")
    assert 50 < pages == outcomes[("http_2xx",)] <= Counts.of(stats_of(ended.job)).pages
    assert pages < values(ended, "webcrawl_contacts_total")[()] <= stats_of(ended.job)["contacts"]
    assert sum(values(ended, "webcrawl_cause").values()) == 1
    assert values(ended, "webcrawl_state")[("running",)] == 1
    assert values(ended, "webcrawl_hosts").keys() >= {("ready",), ("paused",), ("in_process",)}
    assert values(ended, "webcrawl_urls")[("waiting",)] > 0
    assert values(ended, "process_resident_memory_bytes")[()] > 50e6
    buckets = {
        float(one.labels["le"]): one.value
        for one in ended.seen
        if one.name == "webcrawl_latency_seconds_bucket" and one.labels["of"] == "download"
    }
    assert [*buckets.values()] == sorted(buckets.values())
    assert buckets[float("inf")] == values(ended, "webcrawl_latency_seconds_count")[("download",)]
    assert buckets[float("inf")] > pages / 2


def test_no_label_names_a_host(ended):
    labels = {word for one in ended.seen for word in one.labels.values()}
    hosts = {urlsplit(url).hostname for url in allowed_urls(ended.web.world, "webcrawl")}
    assert [word for word in labels if any(host in word for host in hosts)] == []
    assert len(ended.seen) < 500


@each("file", "grafana.json", "alerts.yml", "alerts_test.yml")
def test_each_metric_that_deploy_names_is_in_a_scrape(ended, file):
    text = (DEPLOY / file).read_text()
    named = {*re.findall(r"\b(?:webcrawl|process)_[a-z_]+\b", text)}
    # Of one whose labels have not come yet there is the type.
    types = re.findall("^# TYPE (.+) counter$", ended.answers["metrics"][1], re.MULTILINE)
    assert len(named) > 5
    assert named - {one.name for one in ended.seen} - {*types} == set()


def test_the_dashboard_has_at_most_ten_panels():
    assert 5 < len(DASHBOARD["panels"]) <= 10


def test_health_is_answered_while_it_crawls(ended):
    assert ended.answers["live"] == (200, "live\n")
    status, text = ended.answers["ready"]
    assert status == 200
    assert re.fullmatch(r"[\w ]+ since \d\d:\d\d:\d\d: .+\n", text)
    assert ended.answers["x"][0] == 404


def test_a_crawl_that_pauses_is_not_ready(tmp_path):
    with crawling(tmp_path, METRICS_PORT=free_port(), DISK_MIN_FREE_BYTES="999TB") as crawl:
        wait_until(lambda: crawl.get("ready")[0] == 503)
        wait_until(lambda: crawl.value("webcrawl_pause_seconds_total", pause="disk") > 0)
        wait_until(lambda: crawl.value("webcrawl_state", webcrawl_state="paused") == 1)
        assert crawl.get("ready")[1].startswith("paused: ")
        assert crawl.get("live")[0] == 200


def test_a_crawl_without_a_doctor_names_no_cause(tmp_path):
    with crawling(tmp_path, METRICS_PORT=free_port(), DOCTOR_CLASS="") as crawl:
        wait_until(lambda: " pages " in crawl.log.read_text())
        assert crawl.get("ready") == (200, "running\n")
        assert "webcrawl_cause" not in {one.name for one in crawl.samples()}
        assert printed("control", crawl.job, "state") == "running\n"
    texts = [one["message"] for one in crawl.records()]
    progress = [text for text in texts if re.match(r"0:00:\d\d \d+ pages", text)]
    assert all(text.endswith(" in process") for text in progress)
    assert "limited by" not in texts[-1]  # the summary


def test_a_port_that_is_taken_is_one_warning_and_another_port(ended):
    assert ended.port != ended.taken
    [record] = [one for one in ended.records() if one["logger"].endswith("metrics")]
    assert record["level"] == "WARNING"
    assert record["message"] == (
        f"Metrics are at http://127.0.0.1:{ended.port}/metrics, "
        f"because METRICS_PORT {ended.taken} is not available"
    )
    assert stats_of(ended.job)["metrics/address"] == f"127.0.0.1:{ended.port}"
    assert not (ended.job / "ports.json").exists()


def test_a_host_that_cannot_be_is_one_warning_and_no_metrics(tmp_path):
    with simulated(tmp_path, hosts=2, max_pages=2) as web:
        said = web.crawl(METRICS_PORT=free_port(), METRICS_HOST="192.0.2.1")
    assert said.count("Metrics are not served, because METRICS_HOST cannot be used: ") == 1


def test_all_of_standard_error_is_json_lines(ended):
    records = ended.records()
    keys = ["time", "level", "logger", "message"]
    assert {tuple(one)[:4] for one in records} == {tuple(keys)}
    assert {"web"} == {one["spider"] for one in records if "spider" in one}
    times = [datetime.fromisoformat(one["time"]) for one in records]
    assert None not in {time.utcoffset() for time in times}
    assert times == sorted(times)
    texts = [one["message"] for one in records]
    assert any("Spider opened" in text for text in texts)
    assert "end  stopped by a signal" in texts[-1]  # the summary
    assert any(re.match(r"0:00:\d\d \d+ pages", text) for text in texts)


def test_a_log_file_is_json_lines_with_tracebacks_as_text(tmp_path):
    log = tmp_path / "log"
    settings = {"JOBDIR": tmp_path / "log" / "job", "LOG_FILE": log, "LOG_LEVEL": "DEBUG"}
    words = [word for name, one in settings.items() for word in ("-s", f"{name}={one}")]
    done = warm.scrapy("crawl", "web", "-a", "seeds=a.test", "-s", "LOG_JSON=1", *words)
    assert done.returncode == 2
    records = [json.loads(line) for line in log.read_text().splitlines()]
    # What the user is told is plain on standard error, as that is no log here.
    assert records[-1]["message"] == done.stderr.rstrip("\n")
    [traceback] = [one["traceback"] for one in records if "traceback" in one]
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert "FatalError: JOBDIR" in traceback


@pytest.mark.long
def test_promtool_and_prometheus_understand_it(tmp_path):
    """Debian's package prometheus."""
    config = (DEPLOY / "prometheus.yml").read_text()
    own = free_port()
    (tmp_path / "alerts.yml").write_text((DEPLOY / "alerts.yml").read_text())
    with crawling(tmp_path, METRICS_PORT=free_port()) as crawl:
        checked = subprocess.run(
            ["promtool", "check", "metrics"],
            input=crawl.get("metrics")[1],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
        config = config.replace("localhost:9400", f"127.0.0.1:{crawl.port}").replace("15s", "1s")
        (tmp_path / "prometheus.yml").write_text(config)
        with (tmp_path / "prometheus.log").open("w") as log:
            server = subprocess.Popen(
                [
                    *("prometheus", "--config.file", tmp_path / "prometheus.yml"),
                    *("--storage.tsdb.path", tmp_path / "data"),
                    *("--web.listen-address", f"127.0.0.1:{own}"),
                ],
                stderr=log,
            )

        def ask(expression):
            url = f"http://127.0.0.1:{own}/api/v1/query?query={quote(expression)}"
            with urllib.request.urlopen(url) as answer:
                return json.load(answer)["data"]["result"]

        try:
            wait_until(lambda: "Server is ready" in (tmp_path / "prometheus.log").read_text())
            wait_until(lambda: ask("webcrawl_pages_total > 0"))
            [found] = ask("webcrawl_pages_total")
            assert found["metric"]["job"] == "webcrawl"
            assert 0 < float(found["value"][1]) <= crawl.value("webcrawl_pages_total")
            for panel in PANELS:
                ask(panel.replace("$__rate_interval", "1m").replace("$crawl", ".+"))
        finally:
            server.terminate()
            server.wait(LIMIT_SECS)
