"""Main text, title, language and rights signals of pages; read back with DuckDB."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import sys
import time
from typing import Any, ClassVar

import duckdb
import pytest
import warm
from contracts.modules import ModuleContract, Run, a_page, run_module
from golden import golden
from text_tables import each, lines

from webcrawl.errors import FatalError
from webcrawl.pipelines import main_text as module
from webcrawl.pipelines.main_text import main_text
from webcrawl.pipelines.parquet import ParquetFiles, schema_of
from webcrawl.pipelines.text import TextDataset

ARTICLE = (
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und "
    "Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen. "
)
PAGE = f"""<!DOCTYPE html><html lang="en"><head><title> Menschen
  rechte </title><meta name="ROBOTS" content="noai, noimageai"><meta name="GPTBot" content="none">
<meta name="tdm-policy" content="https://a.test/tdm.json"><link rel="license" href="/licence">
<script>var hidden = "<p>script text</p>";</script><style>p {{ color: red }}</style></head>
<body><header><nav class="menu"><ul><li><a href="/">Home</a><li><a href="/x">Impressum</a></ul>
</nav></header><main><article><h1>Erklärung</h1><p>{ARTICLE}</p><!-- comment text -->
<p>{ARTICLE * 3}</p></article></main>
<footer>Footer text <a href="https://creativecommons.org/licenses/by/4.0/">CC</a></footer></body>"""


class TestParquet(ModuleContract):
    module = TextDataset


class TestJsonLines(ModuleContract):
    module = TextDataset
    settings: ClassVar[dict[str, Any]] = {"TEXT_FORMAT": "jsonl"}


def article_page(**values):
    headers = [
        (b"Content-Type", b"text/html"),
        (b"X-Robots-Tag", b"noai"),
        (b"x-robots-tag", b"otherbot: noindex"),
        (b"TDM-Reservation", b"1"),
    ]
    given = {"url": "http://a.test/dir/page", "robots_line": "Allow: /dir/", **values}
    return a_page(PAGE, headers=headers, **given)


def rows(jobdir, columns):
    duckdb.sql("set TimeZone = 'UTC'")
    return duckdb.sql(f"select {columns} from '{jobdir}/text/*.parquet' order by url").fetchall()


def test_flagged_pages_have_rows_only_if_they_are_wanted(tmp_path):
    pages = [article_page(), article_page(url="http://b.test/", flags="soft_error")]
    run_module(TextDataset, pages, tmp_path)
    assert rows(tmp_path, "url, flags") == [("http://a.test/dir/page", "")]
    run_module(TextDataset, pages[1:], tmp_path, FLAGGED_PAGES=1)
    assert rows(tmp_path, "url, flags")[1:] == [("http://b.test/", "soft_error")]


def test_what_a_page_says_is_in_its_row(tmp_path):
    plain = "Only\ntext, and no\x00thing else."
    pages = [
        article_page(),
        a_page(plain, url="http://b.test/", content_type="text/plain"),
        a_page("<p>gone", url="http://c.test/", status=404),
        a_page(b"GIF89a", url="http://d.test/", content_type="image/gif"),
    ]
    run_module(TextDataset, pages, tmp_path, TEXT_FORMAT="jsonl")
    written = [json.loads(one) for one in (tmp_path / "text/text.jsonl").read_text().splitlines()]
    for row in written:
        del row["language_score"], row["id"]
        assert row.pop("dump") == f"{tmp_path.name}-2025-06-15"
    text = json.dumps(written, ensure_ascii=False, indent=1) + "\n"
    assert text == golden("text.json", text)


def test_language_and_encoding_come_with_how_they_were_found(tmp_path):
    pages = [
        article_page(),  # whose <html lang> is wrong
        a_page(f"<html lang=de><p>{ARTICLE}".encode("utf-16"), url="http://b.test/"),
        a_page(b"<p>\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0!", url="http://c.test/"),
    ]
    run_module(TextDataset, pages, tmp_path)
    columns = "language, language_source, encoding, encoding_source"
    assert rows(tmp_path, columns) == [
        ("de", "text", "utf-8", "utf8"),
        ("de", "declared", "utf-16le", "bom"),
        ("ru", "text", "windows-1251", "guessed"),
    ]
    scores = [score for (score,) in rows(tmp_path, "language_score")]
    assert scores[1] == 1
    assert all(0 < score <= 1 for score in scores)


# Of datasets from before the columns of language and encoding (b74f2d2d). They have simhash, as all
# until 0.5.
OLD_TYPES = {
    "fetched_at": "time",
    "status": "int16",
    "truncated": "bool_",
    "simhash": "uint64",
    **dict.fromkeys(("robots", "licences"), "strings"),
}
OLD_COLUMNS = (
    "url host fetched_at status content_type title language text truncated simhash robots "
    "robots_line licences tdm_reservation tdm_policy"
)
OLD_ROW = (
    *("http://0.test/", "0.test", 1_750_000_000_000_000, 200, "text/html", "t", "en", "text"),
    *(False, 7, ["robots: noai"], "", [], "", ""),
)


def test_a_dataset_without_the_newer_columns_is_continued(tmp_path):
    schema = schema_of(OLD_COLUMNS, **OLD_TYPES)
    old = ParquetFiles(directory=tmp_path / "text", clock=lambda: 1_700_000_000)
    old.open(schema)
    old.write([OLD_ROW])
    old.close()
    other = ParquetFiles(directory=tmp_path / "other", clock=lambda: 1_700_000_001)
    other.open(schema)
    other.write([(OLD_ROW[0], "spool", *OLD_ROW[2:])])
    # As if that process had been killed here.
    (spool,) = (tmp_path / "other").glob("*.spool.open")
    shutil.copy(spool, tmp_path / "text")
    other.close()
    run_module(TextDataset, [article_page()], tmp_path)
    assert not list(tmp_path.glob("text/*.open"))
    found = duckdb.sql(
        "select host, language, encoding, language_source from "
        f"read_parquet('{tmp_path}/text/*.parquet', union_by_name = true) order by host"
    ).fetchall()
    assert found == [
        ("0.test", "en", None, None),
        ("a.test", "de", "utf-8", "text"),
        ("spool", "en", None, None),
    ]
    # A query that asks for the old columns alone needs no more than before.
    assert rows(tmp_path, "language, status")[0] == ("en", 200)


def test_lines_of_json_without_the_newer_columns_are_continued(tmp_path):
    (tmp_path / "text").mkdir()
    line = json.dumps(dict(zip(OLD_COLUMNS.split(), OLD_ROW, strict=True)))
    (tmp_path / "text" / "text.jsonl").write_text(line + "\n")
    run_module(TextDataset, [article_page()], tmp_path, TEXT_FORMAT="jsonl")
    found = duckdb.sql(
        f"select host, language, encoding from read_json('{tmp_path}/text/*.jsonl') order by host"
    ).fetchall()
    assert found == [("0.test", "en", None), ("a.test", "de", "utf-8")]


def test_lines_of_json_have_the_same(tmp_path):
    run_module(TextDataset, [article_page()], tmp_path)
    found = duckdb.sql(f"select * exclude (fetched_at, dump, id) from '{tmp_path}/text/*.parquet'")
    (row,) = found.fetchall()
    directory = tmp_path / "elsewhere"
    settings = {"TEXT_FORMAT": "jsonl", "TEXT_DIR": str(directory), "JOBDIR": None}
    run_module(TextDataset, [article_page()], tmp_path, **settings)
    line = json.loads((directory / "text.jsonl").read_text())
    assert line.pop("fetched_at") == "2025-06-15T15:06:40+00:00"
    assert line.pop("dump") == "crawl-2025-06-15"
    assert line.pop("id").startswith("<urn:uuid:")
    assert line == dict(zip(found.columns, row, strict=True))


def test_the_charset_and_the_bound_of_the_text_hold(tmp_path):
    body = f"<p>{ARTICLE}".encode("utf-16")
    run_module(TextDataset, [a_page(body)], tmp_path, TEXT_MAX_CHARS=20)
    assert rows(tmp_path, "text") == [("Alle Menschen sind f",)]


def test_a_page_that_is_all_navigation_has_its_whole_text():
    page = a_page("<title>x</title><body><nav><a href=/>Home of it all</a></nav></body>")
    assert "Home of it all" in main_text(page, max_chars=100).text


def test_elements_that_close_themselves_hide_nothing():
    body = '<html><head><script src="x"/><title>t</title></head><body><svg /><p>seen</p></body>'
    found = main_text(a_page(body, content_type="application/xhtml+xml"), max_chars=100)
    assert (found.title, found.text) == ("t", "seen")


@each("padding", "", "<p>" + "more " * 10_000, ids=["small", "padded"])
def test_text_of_a_shadow_root_is_text_of_the_page(padding):
    page = a_page(
        "<body><my-app><template class=x shadowrootmode='open'><p>Text of the root, with a"
        " <x-b><template shadowrootmode=closed>root</template></x-b> in it.</p></template>"
        f"<p>Text of the host.</p></my-app><p>Text behind it.</p>{padding}"
    )
    text = " ".join(main_text(page, max_chars=1000).text.split())
    assert "Text of the root, with a root in it." in text
    assert "Text of the host." in text
    assert "Text behind it." in text


def test_text_of_other_templates_is_none_of_the_page():
    for mode in ("", " shadowrootmode", " shadowrootmode=none", " title=shadowrootmode=open"):
        page = a_page(f"<body><div><template{mode}><p>hidden</p></template><p>shown</p></div>")
        assert main_text(page, max_chars=100).text == "shown"


def test_a_page_is_read_once_for_all_modules_and_then_forgotten(monkeypatch):
    page, other = a_page("<p>one"), a_page("<p>two")
    first = main_text(page, max_chars=100)
    assert main_text(other, max_chars=100).text == "two"
    monkeypatch.setattr(module, "_read", None)
    assert main_text(page, max_chars=100) is first
    before = len(module._results)
    del page, other
    gc.collect()
    assert len(module._results) <= before - 2


WORDS = "".join(
    f"<p>Sentence {n} says that all are free and equal in dignity.</p>" for n in range(90)
)


@each("tag", '<div class="x"">', "<a href=/o'neil>", '<p title="a"b">', '<p ="x>', "<p a = 'b''c'>")
def test_a_stray_quote_in_a_tag_opens_no_value(tag):
    page = a_page(f"<title>t</title><body><nav><a href=/>Menu</a></nav>{tag}{WORDS}")
    found = main_text(page, max_chars=200_000)
    assert "Sentence 0 " in found.text
    assert "Sentence 89 " in found.text
    assert not found.truncated


@each(
    "hidden",
    *lines("""
        <!-->
        <!-- > <p> --!>
        <script><!-- <script> </script> <p>hidden --></script>
        <svg><path d='>'/><title>hidden</title></svg>
        <style>p{}</STYLE >
        <?php hidden ?>
        </ hidden>
        <i title="<script>">
        <iframe><p>hidden</iframe>
    """),
)
def test_elements_without_text_hide_no_more_than_the_standard_says(hidden):
    found = main_text(
        a_page(f"<p>one {hidden}two <b>th</b>ree < four <i></i><svg-icon>five</svg-icon></p>"),
        max_chars=100,
    )
    assert found.text.split() == ["one", "two", "three", "<", "four", "five"]


def test_text_is_cut_and_not_markup(tmp_path):
    scripts = f"<script>{'x' * 700_000}</script>"
    pages = [
        a_page(scripts + WORDS, url="http://a.test/1"),
        a_page(f"<p>{'word ' * 200_000}", url="http://a.test/2"),
        a_page(WORDS, url="http://a.test/3", body_cut=True),
        a_page(f"<p class='{'x' * 50_000}'>" * 20 + WORDS, url="http://a.test/4"),
    ]
    run_module(TextDataset, pages, tmp_path)
    found = rows(tmp_path, "contains(text, 'Sentence 89 '), length(text), truncated")
    assert [(one[0], one[2]) for one in found] == [
        (True, False), (False, True), (True, True), (True, False),
    ]  # fmt: skip
    assert found[1][1] == 200_000


def test_next_to_no_main_text_is_no_main_text():
    # All of it is in what the extractor takes for the menu.
    page = a_page(f"<body><nav class=menu>{WORDS}</nav><main><p>Read on above.</p></main>")
    assert "Sentence 89 " in main_text(page, max_chars=200_000).text


@each("depth has_menu", (20, False), (100, True))
def test_a_menu_is_told_apart_in_all_but_deep_pages(depth, has_menu):
    menu = "<nav class=menu><ul><li><a href=/>Impressum</a></ul></nav>"
    body = f"{'<div>' * depth}<main>{WORDS * 12}</main>{'</div>' * depth}"
    text = main_text(a_page(f"<body>{menu}{body}"), max_chars=200_000).text
    assert text.count("Sentence 89 ") == 12
    assert ("Impressum" in text) == has_menu


@each("text", "Contact 2026", "Hallo Welt", "OK. Menu. Home. Login.")
def test_a_short_text_is_of_the_language_that_its_page_declares(text):
    page = a_page(f"<html lang=sl-SI><body><p>{text}</p>")
    assert main_text(page, max_chars=1000).language == "sl"
    long = (
        "Whereas recognition of the inherent dignity and of the equal and inalienable rights of "
        "all members of the human family is the foundation of freedom, justice and peace in the "
        "world, whereas disregard and contempt for human rights have resulted in barbarous acts"
    )
    page = a_page(f"<html lang=sl><body><p>{long}</p>")
    assert main_text(page, max_chars=1000).language == "en"


@each(
    "body",
    *[
        pytest.param(body, id=body[:12])
        for body in (
            "<div>" * 200_000 + "x",
            "<table><tr><td>" * 1700,
            "<div><object></div></object>" * 5000,
            "<p title='" + "<meta " * 100_000 + "'>",
            "<" * 1_000_000,
            "<font>" * 100_000,
            "<p " + " ".join(f"a{n}=1" for n in range(100_000)) + ">x",
            "<p " + " ".join(f'a{n}=">"' for n in range(100_000)) + ">x",
            "<ul><li>x" * 50_000,
            '<a "' * 200_000,
            "<!--" * 200_000,
            "<p>a word</p>" * 80_000,
            "<select>" + "<option>x" * 30_000,
            "<p><template shadowrootmode=open>x" * 30_000,
        )
    ],
)
def test_no_page_takes_a_second_to_parse(body):
    main_text(a_page("x"), max_chars=1, markdown=True)  # which imports it
    began = time.process_time()
    main_text(a_page(body), max_chars=200_000, markdown=True)
    assert time.process_time() - began < 1  # 0.1 s; without bounds 8 to 70 s


KILLED = """
import asyncio, os, signal, sys
from contracts.modules import Run, a_page
from webcrawl.pipelines.text import TextDataset

async def crawl():
    async with Run(TextDataset, sys.argv[1], TEXT_FORMAT=sys.argv[2]) as run:
        for n in range(20):
            await run.process(a_page(f"<p>text {n}", url=f"http://a.test/{n:02}"))
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(crawl())
"""


@each("kind", "parquet", "jsonl")
def test_no_page_that_was_taken_is_lost_when_the_process_is_killed(tmp_path, kind):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = warm.run([sys.executable, "-c", KILLED, str(tmp_path), kind], env=env)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run_module(TextDataset, [a_page(url="http://b.test/")], tmp_path, TEXT_FORMAT=kind)
    urls = duckdb.sql(f"select url from '{tmp_path}/text/*.{kind}' order by url").fetchall()
    assert urls == [(f"http://a.test/{n:02}",) for n in range(20)] + [("http://b.test/",)]


async def test_lines_of_json_are_written_by_one_process(tmp_path):
    async with Run(TextDataset, tmp_path, TEXT_FORMAT="jsonl"):
        with pytest.raises(FatalError, match=r"TEXT_DIR .* held by process .*another TEXT_DIR"):
            await Run(TextDataset, tmp_path, TEXT_FORMAT="jsonl").__aenter__()


def test_no_directory_at_all_is_one_sentence(tmp_path):
    with pytest.raises(FatalError, match="Neither TEXT_DIR nor JOBDIR is set"):
        asyncio.run(Run(TextDataset, tmp_path, JOBDIR=None).__aenter__())


TABLE = """<main><h1>Sizes</h1><p>{}</p><table><tr><th><p>name</p></th><th><p>size</p></th></tr>
<tr><td class=a><p>small</p></td><td><p>2 bytes</p></td></tr></table><pre>if x:\n\ty = 1</pre>
<ul><li>{}</li><li>second item</li></ul></main><div class="comment-list"><p>{}</p></div>"""


def test_tables_lists_and_code_survive_and_comments_do_not(tmp_path):
    page = a_page(TABLE.format(ARTICLE * 2, "first item " * 9, "I disagree with this. " * 9))
    run_module(TextDataset, [page], tmp_path, TEXT_MARKDOWN=True)
    ((text, markdown),) = rows(tmp_path, "text, markdown")
    assert "small\t\t2 bytes\n" in text
    assert "second item\n" in f"{text}\n"
    assert "I disagree" not in text + markdown
    for line in ("# Sizes", "```\nif x:\n\ty = 1\n```", "- second item"):
        assert line in markdown
    cells = [line.replace(" ", "") for line in markdown.splitlines() if line.startswith("|")]
    assert (cells[0], cells[-1]) == ("|name|size|", "|small|2bytes|")
