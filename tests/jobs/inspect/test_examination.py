"""What `scrapy why` says of a crawl that runs, was killed, and has finished."""

from __future__ import annotations

import json
import re
import sys
import time

import msgspec
import pytest
import warm
from crawling import ROOT, clean_web, crawl_command, kill, run_crawl, start_crawl
from msgspec.structs import replace
from patience import LIMIT_SECS

from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.doctor.history import NAME, History
from webcrawl.doctor.record import Line, Record
from webcrawl.errors import FatalError
from webcrawl.jobs.inspect.examination import examinations, facts_of
from webcrawl.jobs.report.runs import runs_of
from webcrawl.states import State

T0 = 1_800_000_000


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
        # Nothing is said of a time before the run.
        (run,) = runs_of(job)
        assert began_at <= run.start <= found.diagnosis.since
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
    assert re.search(r" workers  at most \d of 200 were busy in the last hour \(CONC", said)
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


def test_only_the_end_of_a_long_history_is_read(tmp_path):
    """Its beginning, 8 MB in one file, has more busy workers and no end of a line."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/info.jsonl").touch()
    record = Record(state=State("running"), diagnosis=Diagnosis(Cause.POLITENESS, 0.0, ""))
    old, new = (
        msgspec.json.encode(Line(at, replace(record, busy=busy, workers=200)))
        for at, busy in ((1.0, 90), (2.0, 30))
    )
    lines = [old, b'{"at":1.5,"pages":' + b"1" * (8 << 20) + b"}", new]
    (tmp_path / "logs/stats.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (found,) = examinations(tmp_path)
    assert (found.at, found.busy) == (2.0, 30)
    (tmp_path / "logs/stats.jsonl").rename(tmp_path / "logs/stats-000001.jsonl")
    (found,) = examinations(tmp_path)  # the crawl has just begun the next file
    assert (found.at, found.busy) == (2.0, 30)


def test_workers_of_an_earlier_run_do_not_count(tmp_path):
    """It had more of them."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/info.jsonl").touch()
    record = Record(
        state=State("running"), diagnosis=Diagnosis(Cause.POLITENESS, 0.0, ""), workers=16
    )
    for began, busy in ((0, 32), (300, 7)):
        history = History(tmp_path / NAME, at=T0 + began)
        for at in range(began + 10, began + 300, 10):
            history.add(T0 + at, {}, replace(record, busy=busy))
    line = msgspec.json.encode(Line(T0 + 600.0, record))
    (tmp_path / "logs/stats.jsonl").write_bytes(line + b"\n")
    (found,) = examinations(tmp_path)
    assert dict(facts_of(found, T0 + 600.0))["workers"].startswith(
        "at most 7 of 16 were busy in the last hour"
    )
