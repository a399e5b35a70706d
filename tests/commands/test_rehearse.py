"""Rehearsals: the command line as it is, in virtual time, the same for the same seed."""

import json
import subprocess
import sys

import pytest
import warm
from crawling import ROOT, access_log, impolite
from text_tables import each

_SEEDS = "seeds=example.org,https://news.test/a/page?of=today"
_MODULE = """
import logging
import socket

class M:
    @classmethod
    def from_crawler(cls, crawler):
        assert crawler.settings.getbool("REHEARSAL")
        return cls()

    def process_item(self, item):
        try:
            socket.create_connection(("192.0.2.7", 80), 1)
        except PermissionError as error:
            logging.warning("%s", error)
        return item
"""


def rehearse(directory, *command, contacts=200, **options):
    words = ["--directory", directory, "--contacts", contacts, "--", *command]
    return warm.scrapy("rehearse", *words, **options)


@pytest.mark.long
def test_the_same_seed_is_the_same_crawl_whatever_the_order_of_sets(tmp_path):
    logs, said = [], []
    command = [sys.executable, "-m", "scrapy", "rehearse", "--directory", tmp_path / "rehearsal"]
    command += ["--contacts", "80", "--", "crawl", "web", "-a", _SEEDS]
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={"PATH": "", "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout + done.stderr)
        logs.append((tmp_path / "rehearsal" / "access.log").read_bytes())
    assert logs[0] == logs[1]
    assert said[0] == said[1]
    assert "simulating the 2 hosts of the seeds and 198 others" in said[0]
    assert "=== crawl summary ===" in said[0]
    assert "run the same command again" not in said[0]
    assert "the report is" in said[0]
    hits = access_log(tmp_path / "rehearsal" / "access.log")
    assert impolite(hits, min_delay=1.0) == []
    assert {"http://example.org/", "https://news.test/a/page?of=today"} <= set(map(_url, hits))
    assert all(hit.status < 400 for hit in hits if "today" in hit.target)


def _url(hit):
    return hit.origin + hit.target


def test_a_rehearsal_writes_only_its_own_files_and_contacts_no_machine(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "rehearsed_module.py").write_text(_MODULE)
    modules = {"webcrawl.pipelines.warc.WarcPipeline": 1, "rehearsed_module.M": 2}
    feeds = {str(tmp_path / "far.jsonl"): {"format": "jsonl"}, "s3://a/b.csv": {"format": "csv"}}
    done = rehearse(
        tmp_path / "rehearsal",
        *("crawl", "web", "-a", "seeds=example.org"),
        *("-s", f"WARC_DIR={tmp_path / 'warc'}", "-s", f"JOBDIR={tmp_path / 'job'}"),
        *("--set=OUTPUT_STORE=s3://bucket/x", "-s", f"FEEDS={json.dumps(feeds)}"),
        *("-s", "METRICS_PORT=9400"),
        *("-s", f"ITEM_PIPELINES={json.dumps(modules)}"),
        contacts=60,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}/own", "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "switched off: OUTPUT_STORE, the feed s3://a/b.csv" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "rehearsal"]
    assert (tmp_path / "rehearsal" / "feeds" / "far.jsonl").stat().st_size
    assert "only simulated sockets can be opened, none to 192.0.2.7" in done.stderr
    assert [*(tmp_path / "rehearsal" / "warc_dir").glob("*.warc.gz")]


def test_seeds_from_standard_input_and_feed_files_stay_in_the_rehearsal(tmp_path):
    options = ["-a", "seeds=-", "-O", str(tmp_path / "near.jsonl")]
    failed = rehearse(tmp_path / "own", "crawl", "web", *options, input="\n")
    assert failed.stderr == "rehearse: No seeds in -.\n"
    done = rehearse(tmp_path / "own", "crawl", "web", *options, contacts=20, input="a.test\n")
    assert done.returncode == 0, done.stderr
    assert "1 host of the seeds" in done.stdout
    assert "a.test" in (tmp_path / "own" / "feeds" / "near.jsonl").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


@each(
    "command why",
    (["crawl"], "Put a crawl command after --"),
    (["shell", "http://example.org/"], "Put a crawl command after --"),
    (["crawl", "nobody"], "There is no spider nobody"),
    (["crawl", "web", "-s", "ITEM_PIPELINES={a"], "ITEM_PIPELINES={a cannot be read"),
    (["crawl", "web"], "A rehearsal must know the seeds"),
    (["crawl", "web", "-a", "seeds=/no/such/file.txt"], "/no/such/file.txt"),
)
def test_a_command_that_cannot_be_rehearsed_is_refused(tmp_path, command, why):
    done = rehearse(tmp_path / "rehearsal", *command)
    assert done.returncode == 2
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_command_that_is_refused_has_no_report(tmp_path):
    done = rehearse(tmp_path, "crawl", "web", "-a", "seeds=example.org", "-s", "POLITENESS_KEY=x")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("webcrawl: POLITENESS_KEY must be")


def test_a_directory_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    done = rehearse(tmp_path, "crawl", "web", "-a", "seeds=example.org")
    assert done.returncode == 2
    assert "is not a rehearsal's directory" in done.stderr
    assert (tmp_path / "thesis.txt").exists()
