"""Modules of users in a crawl: plain Scrapy pipelines and the base class, in their order."""

import asyncio
import json
import re

import warm
from linked_site import Answer, command_for, crawl, served
from text_tables import each, lines, table

PAGES = {
    "a.test/": Answer(
        "<title>One</title><h1>caf\u00e9</h1><a href=/2>x</a><a href=/3>y</a>".encode(),
        "text/html; charset=utf-8",
    ),
    "a.test/2": Answer("<title>Two</title>caf\xe9".encode("latin-1"), "text/html; charset=latin1"),
    "a.test/3": Answer(b"plain", "text/plain"),
}


async def test_modules_run_in_their_order_on_what_the_one_before_returned(tmp_path, monkeypatch):
    monkeypatch.setenv("RECORD", str(tmp_path))
    modules = {f"user_modules.{name}": n for n, name in [(3, "Third"), (1, "First"), (2, "Second")]}
    feeds = json.dumps({str(tmp_path / "out.jsonl"): {"format": "jsonlines"}})
    settings = {"ITEM_PIPELINES": json.dumps(modules), "FEEDS": feeds}
    async with served(PAGES) as sites:
        stats = await crawl(sites, tmp_path / "job", "a.test", **settings)
    assert (stats["item_scraped_count"], stats["modules/second/pages"]) == (3, 2)
    site = f"http://a.test:{sites.port}"
    first = json.loads((tmp_path / "first.json").read_text())
    told = sorted(json.dumps(page, ensure_ascii=False) for page in first)
    assert told == lines(f"""
        {{"url": "{site}/", "title": "One", "heading": "café", "text": true, "links": ["2", "3"]}}
        {{"url": "{site}/2", "title": "Two", "heading": null, "text": true, "links": []}}
        {{"url": "{site}/3", "title": null, "heading": null, "text": false, "links": []}}
    """)
    got = json.loads((tmp_path / "third.json").read_text())
    assert sorted(got) == [f"{site}/", f"{site}/2", "text/plain"]
    exported = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(item.get("made of", item.get("content_type")) for item in exported) == sorted(got)


_FAULTY = """
from webcrawl.pipelines.module import ProcessingModule
class InOpen(ProcessingModule):
    def open(self): raise ValueError("no luck")
    def process(self, page): pass
class InProcess(ProcessingModule):
    def process(self, page): raise ValueError("no luck")
class InClose(ProcessingModule):
    def process(self, page): pass
    def close(self): raise ValueError("no luck")
class InInit(ProcessingModule):
    def __init__(self): raise ValueError("no luck")
    def process(self, page): pass
class Text(ProcessingModule):
    def process(self, page): pass
    def state(self): return "text"
class PlainOpen:
    def open_spider(self): raise ValueError("no luck")
class PlainProcess:
    def process_item(self, item): raise ValueError("no luck")
class PlainClose:
    def close_spider(self): raise ValueError("no luck")
class TakesSpider:
    def process_item(self, item, spider):
        assert spider.name == "web"
        return item
class Writer(ProcessingModule):
    output = ("", "notes")
    def open(self): (self.directory / "opened").touch()
    def process(self, page): pass
"""


@each(
    "module code where",
    *table(r"""
        InInit       | 1 | could not be created
        InOpen       | 1 | failed in open
        InProcess    | 4 | failed on http://a\.test:\d+/
        InClose      | 4 | failed to close
        PlainOpen    | 1 | failed in open
        PlainProcess | 4 | failed on http://a\.test:\d+/
        PlainClose   | 4 | failed to close
    """),
)
def test_a_faulty_module_and_its_page_are_named(tmp_path, monkeypatch, module, code, where):
    run = _crawled_with(module, tmp_path, monkeypatch)
    assert run.returncode == int(code)
    said = rf"(webcrawl:|The module) faulty\.{module} {where}: ValueError\('no luck'\)"
    assert re.search(said, run.stdout + run.stderr)
    assert 'raise ValueError("no luck")' in run.stdout + run.stderr


@each(
    "text why",
    ("class Torn\n    pass", "expected ':' (faulty.py, line 1)"),
    ("{}['key']", "KeyError('key')"),
)
def test_a_module_that_cannot_be_loaded_is_a_sentence(tmp_path, monkeypatch, text, why):
    monkeypatch.setitem(globals(), "_FAULTY", text)
    torn = _crawled_with("Torn", tmp_path, monkeypatch)
    assert torn.returncode == 2
    said = torn.stdout + torn.stderr
    assert f"ITEM_PIPELINES names 'faulty.Torn', which cannot be loaded: {why}.\n" in said
    assert "Traceback" not in said


def test_a_state_that_is_no_bytes_names_its_module(tmp_path, monkeypatch):
    run = _crawled_with("Text", tmp_path, monkeypatch)
    said = "state of the module faulty.Text must return bytes, not str"
    assert said in run.stdout + run.stderr


def test_the_directory_of_a_module_exists_when_it_is_opened(tmp_path, monkeypatch):
    run = _crawled_with("Writer", tmp_path, monkeypatch)
    assert run.returncode == 0
    assert (tmp_path / "job/notes/opened").exists()
    stores_none = "This crawl stores no pages: no module in ITEM_PIPELINES writes them"
    assert stores_none not in run.stderr
    assert stores_none in _crawled_with("InClose", tmp_path, monkeypatch).stderr


def test_a_pipeline_that_takes_the_spider_gets_it(tmp_path, monkeypatch):
    assert _crawled_with("TakesSpider", tmp_path, monkeypatch).returncode == 0


def _crawled_with(module, tmp_path, monkeypatch):
    (tmp_path / "faulty.py").write_text(_FAULTY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = {"ITEM_PIPELINES": json.dumps({f"faulty.{module}": 200}), "LOG_LEVEL": "INFO"}

    async def scenario():
        async with served(PAGES) as sites:
            command = command_for(sites, tmp_path / "job", "a.test", **settings)
            return await asyncio.to_thread(warm.run, command)

    return asyncio.run(scenario())
