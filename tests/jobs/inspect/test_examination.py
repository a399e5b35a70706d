"""What `scrapy why` says of a crawl that runs, was killed, and has finished."""

from __future__ import annotations

import json
import sys
import time

import pytest
import warm
from crawling import ROOT, clean_web, crawl_command, kill, run_crawl, start_crawl
from patience import LIMIT_SECS

from webcrawl.errors import FatalError
from webcrawl.jobs.inspect.examination import examinations


def asked(job, *options):
    done = warm.run([sys.executable, "-m", "scrapy", "why", str(job), *options], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.cures("use why JOBDIR")
def test_a_running_a_killed_and_a_finished_crawl_are_judged(tmp_path):
    job = tmp_path / "job"
    with clean_web(tmp_path, hosts=6, mean_pages=6.0, max_pages=20) as (web, seeds):
        command = crawl_command(
            web,
            seeds,
            job,
            STATISTICS_INTERVAL_SECS=0.2,
            STATS_FILE_INTERVAL_SECS=0.5,
            POLITENESS_MIN_DELAY=0.6,
            REPUTATION_BASE_PAGES=0,
        )
        began_at = time.time()
        crawl = start_crawl(command)
        until = time.monotonic() + LIMIT_SECS
        while time.monotonic() < until:
            try:
                (found,) = examinations(job)
            except FatalError:
                time.sleep(0.1)
                continue
            break
        assert found.state.name == "running"
        assert found.record.workers == 200
        assert found.busy <= 6
        assert began_at <= found.at <= time.time()
        kill(crawl)
        said = asked(job)
        assert "      state  stopped: killed; it can be resumed\n" in said
        assert " limited by  " in said
        done = run_crawl(command)
        assert done.returncode == 0, done.stdout
    said = asked(job)
    assert "      state  finished: nothing is left to fetch\n" in said
    old = warm.run([sys.executable, "-m", "webcrawl", "doctor", str(job)], cwd=ROOT)
    assert (old.returncode, "any more: use why JOBDIR." in old.stderr) == (2, True)
    assert "       time  " in said
    assert "limited by" not in said
    assert "    waiting  " not in said
    assert "no setting would change" not in said
    assert " of 200 were busy, so " in said
    (process,) = json.loads(asked(job, "--json"))["processes"]
    assert process["record"]["shards"] == {"running": 1}


def test_a_job_without_a_diagnosis_is_reported_in_a_sentence(tmp_path):
    with pytest.raises(FatalError, match="There is no crawl in JOBDIR"):
        examinations(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/info.jsonl").touch()
    (tmp_path / "logs/stats.jsonl").write_text('{"at":1.0,"pages":2}\n{"at":1.0,"doctor":7}\n')
    with pytest.raises(FatalError, match="There is no diagnosis of "):
        examinations(tmp_path)
