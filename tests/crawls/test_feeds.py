"""Feeds of a job that is stopped, killed and resumed have every page, as the job's WARC files and
the simulated web's own record know them."""

import csv
import json
import marshal
import pickle
from collections import Counter
from contextlib import suppress
from pathlib import Path

from crawling import (
    damage_in,
    finish,
    kill,
    simulated,
    start_crawl,
    unstored_documents,
    wait_until,
    warc_urls,
)
from text_tables import each

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


@each("fast", True, long=(False,))
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
