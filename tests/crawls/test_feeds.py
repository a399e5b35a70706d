"""Feeds of a job that is stopped, killed and resumed have every page, as the job's WARC files and
the simulated web's own record know them."""

import csv
import json
import marshal
import pickle
import re
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from crawling import (
    damage_in,
    finish,
    kill,
    run_crawl,
    simulated,
    start_crawl,
    unstored_documents,
    wait_until,
    warc_urls,
)
from local_hive import Hive
from text_tables import cases

from webcrawl.jobs.inspect.info_log import outcome_lines

FIELDS = ["url", "text"]
BATCHES = "part-%(batch_id)d.csv"
# What a write that kill -9 ends leaves: the beginning of an item.
CUT = {
    "jsonl": b'{"url": "http://cut.test/", "te',
    "csv": b'http://cut.test/,"a line\nand',
    "links": b'http://cut.test/,"a line\nand',
    "pickle": pickle.dumps({"url": "http://cut.test/"})[:-3],
    "marshal": marshal.dumps({"url": "http://cut.test/"})[:-3],
}
KILLED_WITH = 200  # pages under way at most, which are fetched again


def objects_in(path, load):
    """What *load* reads from the file, to its end."""
    with path.open("rb") as file, suppress(EOFError):
        while True:
            yield load(file)


def rows_in(path):
    csv.field_size_limit(1 << 24)  # of a whole page
    with path.open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file, strict=True)]


def urls_in(path, form):
    """The URLs of the items in a feed, read by those that read this format."""
    match form:
        case "jsonl":
            return [json.loads(line)["url"] for line in path.read_bytes().splitlines()]
        case "csv":
            return [row["url"] for row in rows_in(path)]
        case "links":
            return [row["source"] for row in rows_in(path)]
        case "pickle":
            return [item["url"] for item in objects_in(path, pickle.load)]
        case "marshal":
            return [item["url"] for item in objects_in(path, marshal.load)]


def set_options(feeds, **settings):
    """The words of a command line for *feeds* and *settings*."""
    words = ["-s", f"FEEDS={json.dumps(feeds)}"]
    for name, value in settings.items():
        words += ["-s", f"{name}={value}"]
    return words


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.long)])
def test_feeds_lose_nothing_when_a_job_is_stopped_killed_and_resumed(tmp_path, fast):
    feeds = {form: tmp_path / f"pages.{form}" for form in CUT}
    chosen = {
        str(path): {"format": form, "overwrite": True, "fields": FIELDS}
        for form, path in feeds.items()
        if form not in {"jsonl", "links"}
    }
    batch = {"format": "csv", "overwrite": True, "fields": FIELDS, "batch_item_count": 4}
    chosen[str(tmp_path / BATCHES)] = batch
    options = set_options(chosen, CHECKPOINT_INTERVAL_SECS=0.5, FAST_PATH_ENABLED=fast)
    options += ["-O", str(feeds["jsonl"]), "-O", f"{feeds['links']}:links"]
    for path in feeds.values():  # left by another crawl: this job overwrites it once
        path.write_bytes(b"an earlier crawl\n")

    with simulated(tmp_path, hosts=30, mean_pages=5.0, max_pages=12) as web:
        command = [*web.command(POLITENESS_MIN_DELAY=0.2), *options]
        finish([*command, "-s", "CLOSESPIDER_ITEMCOUNT=25"])
        first = {form: set(urls_in(path, form)) for form, path in feeds.items()}
        assert len(first["jsonl"]) >= 25

        size = feeds["jsonl"].stat().st_size
        crawl = start_crawl(command)
        wait_until(lambda: feeds["jsonl"].stat().st_size > 2 * size)
        kill(crawl)
        last, *_ = json.loads((web.job / "feeds.json").read_bytes())[str(tmp_path / BATCHES)]
        for form, path in [*feeds.items(), ("csv", last)]:
            with Path(path).open("ab") as file:
                file.write(CUT[form])

        finish(command)
        files = sorted((web.job / "warc").glob("*.warc.gz"))
        assert unstored_documents(web.world, files) == []
        assert damage_in(web.job) == []

    stored = set(warc_urls(web.job / "warc"))
    linking = set()
    for form, path in feeds.items():
        exported = Counter(urls_in(path, form))
        assert first[form] <= set(exported)
        if form == "links":
            linking = set(exported)
        else:
            assert set(exported) == stored
            assert sum(exported.values()) - len(stored) <= KILLED_WITH
    assert len(linking) > 0
    assert linking <= stored
    assert {url for path in tmp_path.glob("part-*.csv") for url in urls_in(path, "csv")} == stored


@cases(
    "feed instead",
    """
        items.json             | items-%(time)s.json
        ftp://me:secret@a.test/a.csv | ftp://***@a.test/a-%(time)s.csv
    """,
)
def test_a_new_job_refuses_a_feed_that_it_could_not_continue(tmp_path, feed, instead):
    with simulated(tmp_path, hosts=2, max_pages=2) as web:
        feeds = {feed: {"format": feed.rpartition(".")[2]}}
        done = run_crawl([*web.command(LOG_ENABLED=0), *set_options(feeds)])
    assert done.returncode == 2
    assert re.fullmatch(
        rf"webcrawl: The feed \S+ cannot be continued .*, {re.escape(instead)}\.\n", done.stdout
    )
    assert not web.job.exists()


@cases(
    "form fields has",
    """
        links | ["url"]         | format csv, not links: choose csv
        csv   | ["text", "url"] | columns .* not .*: choose its columns
    """,
)
def test_a_resumed_job_does_not_mix_what_is_in_a_feed(tmp_path, form, fields, has):
    path = tmp_path / "items"
    with simulated(tmp_path, hosts=3, max_pages=4) as web:
        first = set_options({str(path): {"format": "csv", "fields": ["url"]}})
        finish([*web.command(), *first, "-s", "CLOSESPIDER_ITEMCOUNT=1"])
        before = path.read_bytes()
        other = set_options({str(path): {"format": form, "fields": fields}})
        done = run_crawl([*web.command(LOG_ENABLED=0), *other])
        assert done.returncode == 2
        said = f"webcrawl: The feed {path} has the {has}, or name another file.\n"
        assert re.fullmatch(said, done.stdout)
        assert path.read_bytes() == before
        finish([*web.command(), *first])
        assert set(urls_in(path, "csv")) == set(warc_urls(web.job / "warc"))


def test_a_job_without_a_feed_appends_to_the_file_of_another_tool(tmp_path):
    """Its next run has no reason to remove anything."""
    path = tmp_path / "items.jsonl"
    with simulated(tmp_path, hosts=3, max_pages=4) as web:
        finish([*web.command(), "-s", "CLOSESPIDER_ITEMCOUNT=1"])
        path.write_bytes(b'{"url": "http://a.test/"}\n{"url": "http://b.test/"}')
        before = path.read_bytes()
        finish([*web.command(), "-o", str(path)])
    assert path.read_bytes().startswith(before)
    assert path.stat().st_size > len(before)


def test_a_job_of_an_earlier_version_keeps_what_it_exported(tmp_path):
    """It has no record of its feeds, and in a file the beginning of an item."""
    with simulated(tmp_path, hosts=12, mean_pages=4.0, max_pages=8) as web:
        lines, array = tmp_path / "items.jsonl", tmp_path / "items.json"
        options = ["-O", str(lines), "-s", "CLOSESPIDER_ITEMCOUNT=9"]
        finish([*web.command(), *options])
        (web.job / "feeds.json").unlink()
        array.write_text("[]")
        lines.write_bytes(lines.read_bytes() + CUT["jsonl"])
        # A page whose item was stored when the crawl stopped is fetched again if it is not there.
        before = {line.url for line in outcome_lines(web.job)}
        said = finish([*web.command(), "-O", str(lines), "-O", str(array)])
    (new,) = tmp_path.glob("items-20*.json")
    exported = set(urls_in(lines, "jsonl"))
    assert exported == set(warc_urls(web.job / "warc"))
    assert array.read_text() == "[]"
    assert {page["url"] for page in json.loads(new.read_bytes())} == exported - before
    assert f"The feed {array} cannot be continued" in said


def test_each_drone_of_a_hive_has_feeds_of_its_own(tmp_path):
    feeds = {str(tmp_path / "pages.csv"): {"format": "csv", "overwrite": True, "fields": FIELDS}}
    with simulated(tmp_path, hosts=25, mean_pages=5.0, max_pages=12) as web:
        settings = {"FEEDS": json.dumps(feeds)}
        files = [tmp_path / f"pages-{number}.csv" for number in range(2)]
        with Hive(web, tmp_path / "first", **settings) as hive:
            wait_until(lambda: all(path.exists() for path in files))
            hive.ends(signal.SIGINT)
        with Hive(web, tmp_path / "second", **settings) as hive:
            hive.ends()
        stored = {url for job in web.job.glob("drones/*/warc") for url in warc_urls(job)}
    assert sorted(tmp_path.glob("pages*")) == files
    assert {url for path in files for url in urls_in(path, "csv")} == stored
