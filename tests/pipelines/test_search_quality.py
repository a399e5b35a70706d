"""The search judged next to SQLite's FTS5, by 40 queries over the same text of real documents."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from contracts.modules import Run, a_page
from crawling import ROOT

from webcrawl.jobs.search import search
from webcrawl.pipelines.main_text import main_text
from webcrawl.pipelines.search_index import SearchIndex

DOCS = {
    "py": Path("/usr/share/doc/python3.11/html"),
    "pg": Path("/usr/share/doc/postgresql-doc-15/html"),
    "rs": Path("/usr/share/doc/rust-doc/html"),
}
# Their pages repeat those of std, or are sources.
LEFT_OUT = ("core/", "src/")
MAX_CHARS = 1 << 20


def pages():
    for name, directory in DOCS.items():
        assert directory.is_dir(), "apt-get install python3.11-doc postgresql-doc-15 rust-doc"
        for path in sorted(directory.rglob("*.html")):
            inner = path.relative_to(directory).as_posix()
            if not inner.startswith(LEFT_OUT):
                yield a_page(path.read_bytes(), url=f"http://{name}.test/{inner}")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_as_many_right_pages_are_among_the_first_ten_as_with_fts5(tmp_path):
    database = sqlite3.connect(tmp_path / "fts.sqlite")
    database.execute(
        "CREATE VIRTUAL TABLE pages USING"
        " fts5(url UNINDEXED, title, text, tokenize='porter unicode61')"
    )

    async def fill():
        async with Run(SearchIndex, tmp_path, TEXT_MAX_CHARS=MAX_CHARS) as run:
            for page in pages():
                await run.process(page)
                found = main_text(page, max_chars=MAX_CHARS)
                row = page.url, found.title, found.text
                database.execute("INSERT INTO pages VALUES (?, ?, ?)", row)

    asyncio.run(fill())
    ours = theirs = 0
    for line in (ROOT / "tests/data/search_queries.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        words, _, names = line.partition(" | ")
        right = {"http://{}.test/{}".format(*name.split(":")) for name in names.split()}
        hits = search(tmp_path / "search", words, limit=10).hits
        query = " ".join(f'"{word}"' for word in words.split())
        rows = database.execute(
            "SELECT url FROM pages WHERE pages MATCH ? ORDER BY bm25(pages, 0, 2, 1) LIMIT 10",
            [query],
        ).fetchall()
        counts = len(right & {hit.url for hit in hits}), len(right & {url for (url,) in rows})
        print(*counts, len(right), words, sep="\t")
        ours, theirs = ours + counts[0], theirs + counts[1]
    print(ours, theirs)
    assert ours >= theirs
