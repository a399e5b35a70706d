"""Modules of users in a crawl: plain Scrapy pipelines and the base class, in their order."""

from __future__ import annotations

import asyncio
import json

from linked_site import Answer, crawl, served

PAGES = {
    "a.test/": Answer(
        "<title>One</title><h1>caf\u00e9</h1><a href=/2>x</a><a href=/3>y</a>".encode(),
        "text/html; charset=utf-8",
    ),
    "a.test/2": Answer("<title>Two</title>caf\xe9".encode("latin-1"), "text/html; charset=latin1"),
    "a.test/3": Answer(b"plain", "text/plain"),
}


def test_modules_run_in_their_order_and_get_what_the_one_before_returned(tmp_path, monkeypatch):
    monkeypatch.setenv("RECORD", str(tmp_path))
    modules = {f"user_modules.{name}": n for n, name in [(3, "Third"), (1, "First"), (2, "Second")]}
    feeds = json.dumps({str(tmp_path / "out.jsonl"): {"format": "jsonlines"}})
    settings = {"ITEM_PIPELINES": json.dumps(modules), "FEEDS": feeds}

    async def scenario() -> str:
        async with served(PAGES) as sites:
            stats = await crawl(sites, tmp_path / "job", "a.test", **settings)
            assert stats["item_scraped_count"] == 3
            assert stats["modules/second/pages"] == 2
            return f"http://a.test:{sites.port}"

    site = asyncio.run(scenario())
    first = sorted(json.loads((tmp_path / "first.json").read_text()), key=lambda page: page["url"])
    assert first == [
        {
            "url": f"{site}/",
            "title": "One",
            "heading": "caf\u00e9",
            "text": True,
            "links": ["2", "3"],
        },
        {"url": f"{site}/2", "title": "Two", "heading": None, "text": True, "links": []},
        {"url": f"{site}/3", "title": None, "heading": None, "text": False, "links": []},
    ]
    got = json.loads((tmp_path / "third.json").read_text())
    assert sorted(got) == [f"{site}/", f"{site}/2", "text/plain"]
    exported = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(item.get("made of", item.get("content_type")) for item in exported) == sorted(got)
