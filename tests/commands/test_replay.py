"""scrapy replay over the WARC files of a real crawl."""

import json
import os
import re
import signal
import subprocess
import sys

import duckdb
import pytest
import tantivy
import warm
from crawling import ROOT, clean_web, crawl_command, finish, refusal, warc_pages, warc_urls
from fastwarc.warc import ArchiveIterator, WarcRecordType
from patience import LIMIT_SECS
from text_tables import each

from webcrawl.pipelines.main_text import CONTENT_TYPES

MODULES = '''
import asyncio, json, os
from webcrawl.pipelines.module import ProcessingModule

class Record:
    """What it gets, a line a page."""
    def process_item(self, page):
        with open(os.environ["RECORD"], "a") as file:
            file.write(json.dumps([page.url, page.status, page.depth, page.kind, page.via,
                                   page.content_fingerprint, [link.url for link in page.links]]))
            file.write("\\n")
        return page

class Picky:
    def process_item(self, page):
        if page.url.endswith("/"):
            raise ValueError("not this one")
        return page

class Unfinished(ProcessingModule):
    def process(self, page):
        pass

    def close(self):
        raise OSError(28, "no room")

class Faulty(ProcessingModule):
    def process(self, page):
        pass

    def close(self):
        raise ValueError("no luck")

class Slow:
    async def process_item(self, page):
        return await asyncio.sleep(0.2, page)
'''


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """A crawl with a module that records its pages: the directory with job and record."""
    directory = tmp_path_factory.mktemp("crawl")
    (directory / "modules.py").write_text(MODULES)
    with clean_web(directory, hosts=16, mean_pages=5.0, max_pages=20) as (web, seeds):
        command = crawl_command(web, seeds, directory / "job", WARC_MAX_FILE_BYTES=200_000)
        modules = {"modules.Record": 50, "webcrawl.pipelines.warc.WarcPipeline": 100}
        command += ["-s", f"ITEM_PIPELINES={json.dumps(modules)}"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(directory))
            patch.setenv("RECORD", str(directory / "crawled"))
            finish(command)
    return directory


def command(crawled, *modules, options=(), files=None):
    if files is None:
        files = sorted((crawled / "job/warc").glob("*.warc.gz"))
        assert len(files) > 2
    pipelines = json.dumps({f"modules.{name}": n for n, name in enumerate(modules)})
    line = [sys.executable, "-m", "scrapy", "replay", "-s", f"ITEM_PIPELINES={pipelines}"]
    return [*line, *options, *map(str, files)]


def environment(crawled, record):
    return os.environ | {"PYTHONPATH": str(crawled), "RECORD": str(record)}


def replay(crawled, record, *modules, code=0, **more):
    done = warm.run(command(crawled, *modules, **more), env=environment(crawled, record))
    assert done.returncode == code, done.stderr
    return done


def lines(path):
    return sorted(path.read_text().splitlines())


def given(*modules, **settings):
    """The options that these modules of ours and *settings* are given by."""
    pipelines = {f"webcrawl.pipelines.{name}": n for n, name in enumerate(modules)}
    settings = {"ITEM_PIPELINES": json.dumps(pipelines), **settings}
    return [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]


def test_modules_get_every_page_of_the_crawl_as_they_got_it_then(crawled, tmp_path):
    before = {path: path.read_bytes() for path in (crawled / "job/warc").glob("*.warc*")}
    done = replay(crawled, tmp_path / "again", "Record")
    assert lines(tmp_path / "again") == lines(crawled / "crawled")
    pages = len(lines(crawled / "crawled"))
    assert done.stdout == f"{pages:,} pages of {len(before)} files, 0 failed\n"
    assert {path: path.read_bytes() for path in (crawled / "job/warc").glob("*.warc*")} == before


def test_text_dataset_and_search_index_have_each_page_of_the_warc_files(crawled, tmp_path):
    options = given(
        *("text.TextDataset", "search_index.SearchIndex"),
        TEXT_DIR=tmp_path / "text",
        SEARCH_DIR=tmp_path / "index",
    )
    done = replay(crawled, tmp_path, options=options)
    urls = set()
    for path in (crawled / "job/warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.response):
                http = record.http_headers
                kind = (http.get("Content-Type") or "").partition(";")[0]
                if http.status_code == 200 and kind in CONTENT_TYPES:
                    urls.add(record.headers["WARC-Target-URI"])
    # Not a robots.txt, nor a page that was seen before, which may be stored whole.
    urls &= {url for url, _ in warc_pages(crawled / "job/warc")}
    assert len(urls) > 20
    rows = duckdb.sql(f"select url from '{tmp_path}/text/*.parquet'").fetchall()
    assert sorted(url for (url,) in rows) == sorted(urls)
    searcher = tantivy.Index.open(str(tmp_path / "index")).searcher()
    assert searcher.num_docs == len(urls)
    done = warm.scrapy("search", "*", "--json", "--limit", "9999", "-s", *options[-1:])
    assert {hit["url"] for hit in json.loads(done.stdout)["hits"]} == urls


def test_a_graph_and_statistics_are_made_of_an_archive(crawled, tmp_path):
    options = given("link_graph.LinkGraph", "statistics.ContentTypes")
    done = replay(crawled, tmp_path, options=[*options, "-o", str(tmp_path / "made")])
    nodes = duckdb.sql(f"select url from '{tmp_path}/made/graph/nodes/*.parquet'").fetchall()
    pages = [json.loads(line) for line in lines(crawled / "crawled")]
    assert sorted(url for (url,) in nodes) == sorted(url for url, *_ in pages)
    counted = json.loads((tmp_path / "made/statistics/content_types.json").read_text())
    good = [url for url, status, *_ in pages if status == 200]
    assert sum(row["documents"] for row in counted.values()) == len(good)
    done = warm.scrapy("pagerank", tmp_path / "made")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"graph", "statistics"}
    done = replay(crawled, tmp_path, options=["-o", str(crawled / "job")], code=2)
    assert "is the job directory of a crawl" in done.stderr


def test_it_does_not_render():
    assert "replay renders no pages" in warm.scrapy("replay", "x.warc", "-s", "RENDER=all").stderr


def test_a_module_that_cannot_be_closed_is_exit_code_1(crawled, tmp_path):
    done = replay(crawled, tmp_path, "Unfinished", code=1)
    assert "The module unfinished could not be closed: [Errno 28] no room" in done.stderr
    faulty = replay(crawled, tmp_path, "Faulty", code=1)
    assert "The module modules.Faulty failed to close: ValueError('no luck')" in faulty.stderr
    assert done.stdout.endswith(" 1 failed\n")


def test_a_module_that_fails_on_some_pages_is_reported_and_stops_nothing(crawled, tmp_path):
    done = replay(crawled, tmp_path / "again", "Record", "Picky", code=1)
    recorded = lines(tmp_path / "again")
    assert recorded == lines(crawled / "crawled")
    failed = sum(json.loads(line)[0].endswith("/") for line in recorded)
    assert failed > 0
    assert done.stdout.endswith(f" files, {failed} failed\n")


def test_a_damaged_file_gives_its_readable_pages_and_the_next_file_all(crawled, tmp_path):
    first, *others = sorted((crawled / "job/warc").glob("*.warc.gz"))
    torn = tmp_path / "torn.warc.gz"
    torn.write_bytes(first.read_bytes()[:-100])
    done = replay(crawled, tmp_path / "again", "Record", files=[torn, *others], code=2)
    assert f"{torn} is damaged after byte" in done.stderr
    # Of the last page only what it was found by is gone: a robots.txt does not say that it is one.
    urls = {json.loads(line)[0] for line in lines(tmp_path / "again")}
    urls = {url for url in urls if not url.endswith("/robots.txt")}
    assert urls == {json.loads(line)[0] for line in lines(crawled / "crawled")}


def test_progress_is_logged_as_of_a_crawl(crawled, tmp_path):
    done = replay(crawled, tmp_path, "Slow", options=["-s", "STATISTICS_INTERVAL_SECS=0.1"])
    assert "Overridden settings" not in done.stderr
    told = re.findall(
        r"\[webcrawl\] INFO: 0:00:\d\d (\d+) pages \(\d+/s\), 0 failed; ([\d.]+) of ([\d.]+) MB\n",
        done.stderr,
    )
    assert len(told) >= 2
    assert int(told[0][0]) < int(told[-1][0]) <= len(lines(crawled / "crawled"))
    assert float(told[0][1]) <= float(told[-1][1]) <= float(told[0][2])


@pytest.mark.cures("to continue, give --from {} {} and the files after it")
def test_a_replay_that_is_stopped_says_how_to_resume_it(crawled, tmp_path):
    files = sorted((crawled / "job/warc").glob("*.warc.gz"))
    process = warm.Popen(
        command(crawled, "Record", "Slow"),
        cwd=ROOT,
        env=environment(crawled, tmp_path / "again"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "again").exists() or len(lines(tmp_path / "again")) < 8:
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    try:
        out, _ = process.communicate(timeout=LIMIT_SECS)
    finally:
        process.kill()
    assert process.returncode == 0
    last = out.splitlines()[-1]
    assert last.startswith("stopped; to continue, give --from ")
    offset, path = last.split()[5:7]
    rest = files[[str(one) for one in files].index(path) :]
    replay(crawled, tmp_path / "again", "Record", options=["--from", offset], files=rest)
    # Pages that were in process are processed again, and none is missing.
    assert set(lines(tmp_path / "again")) == set(lines(crawled / "crawled"))


def test_pages_go_through_a_chain_of_storages_and_come_back_from_larms(crawled, tmp_path):
    """ITEM_PIPELINES is the storage chain that LARM wished for."""
    directory = tmp_path / "larm"
    storages = ("larm.LarmPipeline", "warc.WarcPipeline")
    options = given(*storages, LARM_DIR=directory, WARC_DIR=tmp_path / "warc")
    done = replay(crawled, tmp_path, options=options)
    rows = [line.split("\t") for line in (directory / "store.log").read_text().splitlines()]
    assert sorted(row[1] for row in rows) == sorted(warc_urls(tmp_path / "warc"))
    done = replay(crawled, tmp_path / "again", "Record", files=[directory])
    # LARM's logs have no depth, and not all kinds of links.
    again, before = (
        sorted([one[0], one[1], one[4], *one[5:]] for one in map(json.loads, lines(path)))
        for path in (tmp_path / "again", crawled / "crawled")
    )
    assert again == before
    *_, size, _, number, offset = row = next(row for row in rows if row[4] == "200")
    with (directory / f"pagefile_{number}.pfl").open("rb") as file:
        file.seek(int(offset))
        body = file.read(int(size))
    done = warm.scrapy("larm", directory, row[1])
    assert (done.returncode, done.stdout.encode()) == (0, body)
    done = warm.scrapy("larm", directory, "http://nowhere.test/")
    assert done.returncode == 2
    assert done.stderr == f"larm: There is no page http://nowhere.test/ in {directory}.\n"


@each(
    "arguments sentence",
    (
        ["no.warc.gz"],
        "replay: There is no file no.warc.gz: give a job, WARC files or LARM directories.",
    ),
    (["-s", "JOBDIR=no-job"], "replay: There is no file no-job: give a job, WARC files or"),
    (["README.md"], "README.md is damaged after byte 0: "),
)
def test_bad_input_is_one_sentence(arguments, sentence):
    assert sentence in refusal("replay", *arguments)
