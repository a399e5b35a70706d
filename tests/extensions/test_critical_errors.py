"""Crawls with bugs in modules, callbacks and middlewares, and what is kept of them."""

import json
import re
import subprocess

import pytest
import warm
from crawling import (
    RIGS,
    USER_AGENT,
    access_log,
    clean_web,
    crawl_command,
    damage_in,
    impolite,
    pages_asked_for,
    run_crawl,
    stats_of,
    url_of_hit,
    warc_pages,
)
from reading_report import report_of
from text_tables import cases, each
from web_truth import allowed_urls, fetchable_urls

BUGS = '''
import os

class Clumsy:
    """Fails on every page while the file BUG is there."""
    def process_item(self, page):
        if os.path.exists(os.environ["BUG"]):
            raise KeyError("a bug in a module")
        return page

class Middleware:
    def process_request(self, request):
        if os.path.exists(os.environ["BUG"]) and "robots.txt" not in request.url:
            raise ZeroDivisionError("a bug in a middleware")

class Callback:
    """Breaks the spider's callback."""
    def __init__(self):
        import webcrawl.crawl.task.page_reader as reader
        def broken(*args, **kwargs):
            raise RuntimeError("a bug \x1b[2J of a page")
        if os.path.exists(os.environ["BUG"]):
            reader.page_of = broken

class CallbackOnce:
    """Breaks it for every third page, the first time."""
    def __init__(self):
        import webcrawl.crawl.task.page_reader as reader
        real, met = reader.page_of, []
        def broken(response, *args, **kwargs):
            is_new = response.url not in met
            met.append(response.url)
            if is_new and len(set(met)) % 3 == 0:
                raise RuntimeError("a bug in a callback")
            return real(response, *args, **kwargs)
        reader.page_of = broken
'''


@pytest.fixture
def simulated(user_module, tmp_path, monkeypatch):
    user_module("bugs", BUGS)
    (tmp_path / "bug").touch()
    monkeypatch.setenv("BUG", str(tmp_path / "bug"))
    with clean_web(tmp_path, hosts=30, mean_pages=6.0, max_pages=30) as (web, _):
        yield web, tmp_path


def crawl(simulated, *, code=0, **settings):
    """The output of a crawl that ends with *code*."""
    web, path = simulated
    done = run_crawl(crawl_command(web, path / "seeds.txt", path / "job", **settings))
    assert done.returncode == code, done.stdout
    return done.stdout


def critical(path):
    return [
        json.loads(line) for line in (path / "job/logs/critical.jsonl").read_text().splitlines()
    ]


def asked(web):
    """What was asked for, politely. The job is sound."""
    assert damage_in(web.log_path.with_name("job")) == []
    web.stop()
    hits = access_log(web.log_path)
    assert impolite(hits, min_delay=0.05) == []
    return set(pages_asked_for(hits))


def is_complete(web):
    allowed = allowed_urls(web.world, USER_AGENT)
    return asked(web) == allowed


def pages_counted(path):
    stats = stats_of(path / "job").items()
    return sum(number for name, number in stats if name.startswith("crawl/outcome/http_2"))


def replay(path):
    files = sorted(map(str, (path / "job/critical").glob("*.warc.gz")))
    pipelines = "ITEM_PIPELINES=" + json.dumps({"bugs.Clumsy": 1})
    return warm.scrapy("replay", "-s", pipelines, *files)


def get_again(sentence, *options):
    """Run the commands that *sentence* names, with their words as a shell reads them."""
    for command in re.findall("`scrapy (.+?)`", sentence):
        words = subprocess.check_output(["sh", "-c", f"printf '%s\n' {command}"], text=True)
        done = warm.scrapy(*words.splitlines(), *options)
        assert done.returncode == 0, done.stderr


@each(
    "module has_warc",
    ("FailingModule", True),
    long=(("FailingPipeline", False),),
)
def test_a_module_that_fails_on_page_after_page_ends_the_crawl(
    simulated, monkeypatch, module, has_warc
):
    web, path = simulated
    record = path / "record"
    monkeypatch.setenv("RECORD", str(record))
    monkeypatch.setenv("PYTHONPATH", RIGS)
    modules = {f"failing_module.{module}": 2}
    if has_warc:
        modules["webcrawl.pipelines.warc.WarcPipeline"] = 1
    settings = {"ITEM_PIPELINES": json.dumps(modules), "MODULE_MAX_FAILURES": 30}
    said = crawl(simulated, code=4, **settings)
    last = said.splitlines()[-1]
    sentence = (
        rf"webcrawl: The module failing_module\.{module} failed on 30 pages in a row \(details: "
    )
    assert re.match(sentence, last), last
    assert f"`scrapy {'replay' if has_warc else 'frontier'} " in last
    assert "Crawl state saved (too_many_errors)" in said
    assert critical(path)[0]["error"] == "ConnectionRefusedError"
    # A page with status 503 is among them for each try.
    assert len(critical(path)) >= 30
    assert damage_in(path / "job") == []
    (path / "bug").unlink()
    options = ("-o", path / "again", "-s", f"ITEM_PIPELINES={json.dumps(modules)}")
    get_again(last, *options[: len(options) * has_warc])
    crawl(simulated, **settings)
    pages = len(fetchable_urls(web.world, USER_AGENT))
    assert is_complete(web)
    assert pages_counted(path) == pages
    # Of two URLs with one document the other may have come first now.
    processed = set(record.read_text().split())
    bodies = {
        url: body for url, body in warc_pages(path / "job/critical") if b"<html" in body[:200]
    }
    assert len(bodies) >= 20
    assert len(bodies.keys() & processed) > 0.8 * len(bodies)


def test_a_module_that_fails_on_every_page_stops_nothing_and_loses_none(simulated):
    web, path = simulated
    pipelines = json.dumps({"webcrawl.pipelines.warc.WarcPipeline": 1, "bugs.Clumsy": 2})
    said = crawl(simulated, code=4, ITEM_PIPELINES=pipelines, MODULE_MAX_FAILURES=0)
    assert is_complete(web)
    failed = stats_of(path / "job")["critical/bugs.Clumsy"]
    assert failed > 100
    assert f"bugs.Clumsy failed on {failed:,} pages: see logs/critical.jsonl" in said
    assert f" reprocess  scrapy replay {path / 'job/warc'}/*.warc.gz\n" in said
    alarm = f"bugs.Clumsy failed on {failed:,} pages: see logs/critical.jsonl"
    assert alarm in "\n".join(report_of(path / "job").alarms)
    # Five tracebacks are enough.
    logged = said.count("ERROR: The module bugs.Clumsy failed on http")
    assert logged < 10
    assert logged + stats_of(path / "job")["log/left_out"] == failed
    assert "messages like this were left out (LOG_LEVEL=DEBUG logs all): The module" in said
    lines = critical(path)
    # A hundred of one kind are kept; the others are counted.
    assert len(lines) == 100
    assert {(line["where"], line["error"], line["saved"]) for line in lines} == {
        ("bugs.Clumsy", "KeyError", True)
    }
    assert all("raise KeyError" in line["traceback"] for line in lines)
    hits = {url_of_hit(hit) for hit in access_log(web.log_path)}
    assert {line["url"] for line in lines} <= hits
    again = replay(path)
    assert again.returncode == 1
    assert again.stdout == "100 pages of 1 file, 100 failed\n"
    (path / "bug").unlink()
    mended = replay(path)
    assert mended.returncode == 0, mended.stderr
    assert mended.stdout == "100 pages of 1 file, 0 failed\n"


@each("module", "FailingModule", long=("FailingPipeline",))
def test_a_crawl_whose_module_fails_on_all_its_pages_ends_with_4_and_they_come_again(
    simulated, monkeypatch, module
):
    path = simulated[1]
    monkeypatch.setenv("RECORD", str(path / "record"))
    monkeypatch.setenv("PYTHONPATH", RIGS)
    settings = {
        "ITEM_PIPELINES": json.dumps({f"failing_module.{module}": 1}),
        "MODULE_MAX_FAILURES": 1000,
    }
    said = crawl(simulated, code=4, **settings)
    assert "finished: nothing is left to fetch" in said
    (command,) = re.findall("^ reprocess  (scrapy frontier .*)$", said, re.MULTILINE)
    failed = {one["url"] for one in critical(path)}
    (path / "bug").unlink()
    get_again(f"`{command}`")
    assert "reprocess" not in crawl(simulated, **settings)
    # Of two URLs with one document the other may have come first now.
    missing = failed - {*(path / "record").read_text().split()}
    assert len(missing) < 0.1 * len(failed)


@pytest.mark.long
def test_a_page_that_a_callback_failed_on_gives_its_links_when_retried(simulated):
    web, path = simulated
    extensions = json.dumps({"bugs.CallbackOnce": 50})
    crawl(simulated, BREAKER_MAX_ERRORS=0, EXTENSIONS=extensions)
    assert is_complete(web)
    stats = stats_of(path / "job")
    assert stats["critical/callback"] == stats["retry/other"] > 30


@cases(
    "bug setting where error",
    """
        bugs.Callback   | EXTENSIONS             | callback | RuntimeError
    """,
    long="bugs.Middleware | DOWNLOADER_MIDDLEWARES | download | ZeroDivisionError",
)
@pytest.mark.cures("{} (details: {}). Fix the cause{} and run the same command again.")
def test_too_many_errors_end_the_crawl_and_it_goes_on_once_mended(
    simulated, bug, setting, where, error
):
    web, path = simulated
    settings = {"BREAKER_MAX_ERRORS": 5, setting: json.dumps({bug: 50})}
    said = crawl(simulated, code=4, **settings)
    last = said.splitlines()[-1]
    assert re.match(r"webcrawl: 5 unexpected errors within \d+ s \(details: ", last), last
    assert "\x1b" not in said
    assert "Crawl state saved (too_many_errors)" in said
    assert 5 <= stats_of(path / "job")[f"critical/{where}"] < 60
    for found in critical(path):
        assert (found["where"], found["error"]) == (where, error)
        assert found["url"].startswith("http")
    assert damage_in(path / "job") == []
    (path / "bug").unlink()
    get_again(last)
    crawl(simulated, **settings)
    assert is_complete(web)
