"""``python -m webcrawl`` in an empty directory: the processes that it starts are this project's."""

import json
import os
import subprocess
import sys

import pytest
from crawling import ROOT, simulated
from redis_server import free_port

pytestmark = pytest.mark.long


def said_by(*words, directory):
    """What the command says to its end, which is a good one."""
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("SCRAPY")}
    done = subprocess.run(
        words,
        cwd=directory,
        env=inherited | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    # Advice names the command as it was called.
    assert "scrapy crawl" not in done.stdout
    assert "scrapy report" not in done.stdout
    return done.stdout


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


@pytest.fixture
def web(tmp_path):
    with simulated(tmp_path, hosts=6, mean_pages=3, max_pages=6) as web:
        yield web


def called(web, *words, job, **settings):
    command = web.command(job, **settings)
    at = command.index("scrapy")
    return [*command[:at], "webcrawl", *words, *command[at + 2 :]]


def test_drones_and_monitor(web, empty):
    port = free_port()
    words = called(web, "hive", "--drones", "2", job="crawls/web", HIVE_SHARDS=4, MONITOR_PORT=port)
    said = said_by(*words, directory=empty)
    assert "python -m webcrawl report crawls/web: " in said
    assert (empty / "crawls/web/logs/monitor.log").read_text() == ""
    web.judge(min_delay=0.05)


def test_the_process_that_renders(web, empty):
    said = said_by(*called(web, "crawl", job="crawls/web", RENDER="all"), directory=empty)
    assert f"New crawl in {empty}/crawls/web\n" in said
    assert json.loads((empty / "crawls/web/stats.json").read_text())["render/pages"] > 0


def test_a_rehearsal_and_its_report(empty):
    crawl = ("crawl", "web", "-a", "seeds=example.org")
    words = (sys.executable, "-m", "webcrawl", "rehearse", "--contacts", "50", "--", *crawl)
    said = said_by(*words, directory=empty)
    assert "crawl summary" in said
    assert [*(empty / "crawls/rehearsal").rglob("report.html")]
