"""The full-text index: what it has, what it leaves out, and what kill -9 leaves; scrapy search."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import sys
from types import SimpleNamespace
from unicodedata import combining, normalize

import msgspec
import pytest
import tantivy
import warm
from contracts.modules import ModuleContract, Run, a_page, run_module
from crawling import ROOT
from text_tables import cases, table

from webcrawl.errors import DiskError, FatalError, StoreError
from webcrawl.items import Link, RobotsDirectives
from webcrawl.jobs.purge.files import purge_index
from webcrawl.jobs.search import search
from webcrawl.pipelines.link_graph import LinkGraph
from webcrawl.pipelines.search_fields import NAME_WEIGHT, ONE_CHARACTER_WORD
from webcrawl.pipelines.search_index import SearchIndex
from webcrawl.pipelines.search_ranks import add_links
from webcrawl.storage.record_log import HEADER_SIZE, RecordLog

GERMAN = "Alle Menschen sind frei und gleich an Würde und Rechten geboren, wo immer sie leben."
ENGLISH = "All human beings are born free and equal in dignity and rights, wherever they live."


class TestContract(ModuleContract):
    module = SearchIndex


def a_text(number, text, title="", host="a.test", **more):
    body = f"<title>{title}</title><body><p>{text}</p></body>"
    return a_page(body, url=f"http://{host}/{number}", **more)


def found(jobdir, words, *, limit=10, **more):
    return search(jobdir / "search", words, limit=limit, **more)


def urls(jobdir, words, **more):
    return {hit.url for hit in found(jobdir, words, **more).hits}


def index(jobdir, *pages, **settings):
    """A crawl of *pages* in *jobdir*."""
    return run_module(SearchIndex, pages, jobdir, **settings)


def documents(jobdir):
    return tantivy.Index.open(str(jobdir / "search")).searcher().num_docs


@pytest.mark.cures("was made by an older version. Move it away, and build it again")
def test_an_index_of_an_older_version_gets_a_sentence(tmp_path):
    fields = tantivy.SchemaBuilder()
    fields.add_text_field("text", stored=True)
    (tmp_path / "search").mkdir()
    tantivy.Index(fields.build(), path=str(tmp_path / "search"))
    sentence = f"older version.* scrapy replay JOBDIR -s SEARCH_DIR={tmp_path}/search "
    with pytest.raises(FatalError, match=sentence):
        index(tmp_path)
    with pytest.raises(FatalError, match=sentence):
        urls(tmp_path, "*")
    (tmp_path / "search").rename(tmp_path / "old")
    index(tmp_path, a_text(1, "one"))
    assert urls(tmp_path, "*") == {"http://a.test/1"}


@cases(
    "text words",
    """
        The naïve résumé of Ångström | naive resume angstrom NAÏVE Ångstrom
        In the runners' opinions, running | runner opinion run runs
        Wir haben die Häuser gebaut, in denen alle wohnen sollen | haus gebaute hauser
        Les naïvetés sont restées dans les chevaux fatigués | naivete restée fatiguée
        Los niños corrían por las calles de la ciudad vieja | ninos correr calle
        Поезда приходят в города и уходят из них ночью | город поездов ночь
        οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια | ανθρωποι ελευθερων
        İstanbul'da bütün insanlar hür ve eşit doğarlar | istanbul insan butun
        東京大学で自然言語処理を研究しています | 東京 大学 言語処理 京大
        人人生而自由在尊严和权利上一律平等 | 自由 权利 平等
        모든 인간은 태어날 때부터 자유로우며 서울에서 산다 | 인간 서울 자유
        มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน | อิสระ มนุษย์
        Mọi người sinh ra đều được tự do và bình đẳng | nguoi tu do
        compilation of incompatible libraries | compil* comp* lib* incompatib* title:inc*
    """,  # noqa: RUF001  # Greek letters
    {},
)
def test_words_are_found_by_their_other_forms(tmp_path, text, words):
    index(tmp_path, a_text(1, f"{text}.", title="Inca"), a_text(2, "None of this"))
    for word in words.split():
        assert urls(tmp_path, word) == {"http://a.test/1"}, word


def test_pages_are_found_by_their_words(tmp_path):
    pages = [
        a_text(1, ENGLISH, "Rights of men"),
        a_text(2, GERMAN, "Menschenrechte"),
        a_text(3, "rights are only mentioned in passing " + ENGLISH, host="b.test"),
        a_page("plain words", url="http://a.test/4", content_type="text/plain"),
        a_text(5, "gone rights", status=404),
    ]
    index(tmp_path, *pages)
    assert documents(tmp_path) == 4
    assert [hit.url for hit in found(tmp_path, "rights").hits] == [
        "http://a.test/1",  # in its title
        "http://b.test/3",
    ]
    for words, wanted in table("""
        BORN rights                     | http://a.test/1 http://b.test/3
        rights mentioned                | http://b.test/3
        "dignity and rights" -mentioned | http://a.test/1
        title:menschenrechte OR plain   | http://a.test/2 http://a.test/4
    """):
        assert urls(tmp_path, words) == {*wanted.split()}, words
    assert found(tmp_path, "*", limit=1).total == 4
    assert found(tmp_path, 'unbalanced ( " : [').total == 0
    (hit,) = found(tmp_path, "würde").hits
    assert (hit.title, hit.language) == ("Menschenrechte", "de")
    assert hit.fetched_at == "2025-06-15T15:06:40+00:00"
    assert [hit.snippet[start:end] for start, end in hit.highlights] == ["Würde"]


def test_conditions_restrict_the_pages(tmp_path):
    pages = [
        a_text(1, ENGLISH),
        a_text(2, GERMAN),
        a_text(3, ENGLISH, host="b.test"),
        a_page("plain words", url="http://a.test/4", content_type="text/plain"),
        a_text(5, GERMAN, host="xn--bcher-kva.test", fetched_at=1.0),
    ]
    index(tmp_path, *pages)
    for words, wanted in table("""
        lang:de -site:bücher.test  | http://a.test/2
        rights site:b.test         | http://b.test/3
        site:TEST -site:b.test -lang:de type:html | http://a.test/1
        type:text                  | http://a.test/4
        "site:b.test"              |
        site:xn--bcher-kva.test    | http://xn--bcher-kva.test/5
        site:bücher.test           | http://xn--bcher-kva.test/5
        lang:de after:2025-06-15   | http://a.test/2
        after:2025-06-15T16:00     |
    """):
        assert urls(tmp_path, words) == {*wanted.split()}, words
    assert len(urls(tmp_path, "after:2025-06-15T15:06:40+00:00")) == 4
    for words in ("rights after:june", "site:a.tes* rights"):
        with pytest.raises(FatalError, match=r"(after:june|site:a.tes\*) must have a \w+ such as"):
            urls(tmp_path, words)


def test_a_word_is_found_in_74_languages_in_capitals_and_without_accents(tmp_path):
    table = (ROOT / "tests/data/languages.tsv").read_text().splitlines()
    texts = {file: text for _, file, text in (line.split("\t") for line in table)}
    index(tmp_path, *(a_text(file, text) for file, text in texts.items()))
    missed = []
    for file, text in texts.items():
        words = sorted((word.strip(".,;:") for word in re.split("[\\s፡]+", text)), key=len)
        word = words[2 * len(words) // 3]
        word = word[:6] if ONE_CHARACTER_WORD.search(word) else word
        bare = "".join(one for one in normalize("NFKD", word) if not combining(one))
        missed += [
            (file, form)
            for form in {word, word.upper(), *([bare] if bare.isascii() else [])}
            if f"http://a.test/{file}" not in urls(tmp_path, form, limit=99)
        ]
    assert missed == []


def test_accents_are_ignored_in_the_scripts_that_the_guide_names(tmp_path):
    wanted = table("""
        deu_1996      | Würde       | wurde       | yes
        ell_monotonic | δικαιωμάτων | δικαιωματων | yes
        arb           | إلى         | الى         | yes
        rus           | ёлка        | елка        | yes
        rus           | йод         | иод         | no
        bel           | правоў      | правоу      | no
        ydd           | האָבן       | האבן        | no
        hin           | उपेक्षा     | उपक्षा      | no
    """)
    languages = (ROOT / "tests/data/languages.tsv").read_text().splitlines()
    texts = {file: text for _, file, text in (line.split("\t") for line in languages)}
    for number, (file, word, bare, is_found) in enumerate(wanted):
        index(tmp_path, a_text(number, f"{texts[file]} {word}"))
        page = f"http://a.test/{number}"
        assert page in urls(tmp_path, word), word
        assert (page in urls(tmp_path, bare)) == (is_found == "yes"), bare


def test_a_purge_keeps_what_finds_the_other_pages(tmp_path):
    index(tmp_path, a_text(1, "naïve compilation"), a_text(2, "naive compilers"))
    meta = tmp_path / "search/meta.json"
    purge_index(meta, lambda url: url == "http://a.test/2", lambda _: True)
    assert [urls(tmp_path, words) for words in ("compil*", "NAIVE")] == [{"http://a.test/1"}] * 2


def test_a_page_replaces_what_was_there_of_its_url(tmp_path):
    index(tmp_path, a_text(1, "first"), a_text(1, "second"))
    assert (urls(tmp_path, "first"), urls(tmp_path, "second")) == (set(), {"http://a.test/1"})
    index(tmp_path, a_text(1, "third"), a_text(2, "other"))
    assert (urls(tmp_path, "second"), documents(tmp_path)) == (set(), 2)


def linked(jobdir, *sources):
    """A crawl of pages in *jobdir* that link to others: each a URL and the links as (URL, text)."""
    pages = [
        a_page(url=url, links=[Link(target, text, **more) for target, text, more in links])
        for url, links in sources
    ]
    moved = a_page(url="http://b.test/old", status=301, redirect_target="http://a.test/2")
    run_module(LinkGraph, [*pages, moved], jobdir)
    graphs = [jobdir / "graph/edges"]
    return add_links([jobdir / "search"], graphs, work_parent=jobdir, on_progress=lambda _: None)


def test_pages_are_found_and_ranked_by_the_links_to_them(tmp_path):
    index(tmp_path, *(a_text(n, "same words") for n in range(4)), a_text(1, "same", host="b.test"))
    two, three = "http://a.test/2", "http://a.test/3"
    nofollow = {"rel": "nofollow"}
    replaced = linked(
        tmp_path,
        ("http://b.test/1", [("http://b.test/old", "Größe", {}), (three, "paid", nofollow)]),
        ("http://a.test/1", [(two, "own", {}), (three, "another", {}), (three, "", {})]),
        (three, [(two, "own", {}), (three, "itself", {})]),
    )
    assert replaced == 2
    expected = {"grosse": two, "own": two, "another": three, "paid": "", "itself": ""}
    for words, url in expected.items():
        assert urls(tmp_path, words) == ({url} if url else set()), words
    hits = found(tmp_path, "same words", explain=True).hits
    assert hits[0].url == two
    assert hits[0].weight > hits[1].weight == 1
    for hit in hits:
        assert hit.score == pytest.approx(hit.weight * sum(hit.explanation.values()), abs=0.01)
    # The crawl goes on: what is known of links is kept, and added to.
    index(tmp_path, a_text(2, "new words"), a_text(5, "fresh"))
    assert urls(tmp_path, "grosse new") == {two}
    assert linked(tmp_path, (three, [("http://a.test/5", "late", {})])) == 1
    assert urls(tmp_path, "late fresh") == {"http://a.test/5"}


def test_a_page_with_the_name_that_is_searched_for_comes_first(tmp_path):
    page = "<title>{}</title><h1>{}</h1><p>{}"
    texts = [
        page.format("Sun flower, sun flower", "Sun flower: sun flower", "Sun flower. " * 20),
        page.format("About - Plants", "Flower of the sun", "A sun is a flower. " * 20),
        page.format("Flowers (Sun-Flower)", "More", "A flower is a sun. " * 20),
    ]
    index(tmp_path, *(a_page(text, url=f"http://a.test/{n}") for n, text in enumerate(texts)))
    first = {"sun flower": 2, '"Sun Flower"': 2, "flower of the sun": 1}
    for words, number in first.items():
        hit, *others = found(tmp_path, words, explain=True).hits
        assert hit.url == f"http://a.test/{number}", words
        assert "names" in hit.explanation
        assert all("names" not in other.explanation for other in others)


def test_a_page_that_defines_a_term_comes_first(tmp_path):
    page = "<title>Module</title><p id=apple>{}"
    texts = [
        page.format("Use Basket.add to add to a basket. " * 9),
        page.format("<dt id=fruit.Basket.add>add(...) puts one more into it"),
        page.format("<a name='the-end'></a><h2 id=id7>Its end</h2> fruit"),
    ]
    index(tmp_path, *(a_page(text, url=f"http://a.test/{n}") for n, text in enumerate(texts)))
    assert urls(tmp_path, "add basket") == {"http://a.test/0", "http://a.test/1"}
    (hit,) = found(tmp_path, "add fruit basket", explain=True).hits
    assert hit.url == "http://a.test/1"
    assert hit.explanation["names"] == NAME_WEIGHT
    assert urls(tmp_path, "the end") == {"http://a.test/2"}
    assert urls(tmp_path, "apple") == urls(tmp_path, "id7") == set()


@pytest.mark.cures("is being written: wait until the crawl ends")
async def test_links_are_not_added_while_a_crawl_writes_the_index(tmp_path):
    page = ("http://a.test/1", [("http://a.test/2", "own", {})])
    async with Run(SearchIndex, tmp_path) as run:
        await run.process(a_text(2, "words"))
        with pytest.raises(FatalError, match="is being written: wait until the crawl ends"):
            await asyncio.to_thread(linked, tmp_path, page)
    assert await asyncio.to_thread(linked, tmp_path, page) == 1


def test_pages_with_noindex_are_left_out_and_taken_out(tmp_path):
    index(tmp_path, a_text(1, "secret"))
    shy = RobotsDirectives(noindex=True)
    pages = [a_text(n, "secret", robots=shy) for n in (1, 2)]
    run = index(tmp_path, *pages)
    assert documents(tmp_path) == 0
    assert run.stats["left_out"] == 2


def test_flagged_pages_are_left_out_and_taken_out_unless_they_are_wanted(tmp_path):
    index(tmp_path, a_text(1, "secret"))
    pages = [a_text(n, "secret", flags="soft_error") for n in (1, 2)]
    index(tmp_path, *pages)
    assert documents(tmp_path) == 0
    index(tmp_path, *pages, FLAGGED_PAGES=1)
    assert documents(tmp_path) == 2


async def test_a_running_crawl_can_be_searched_as_of_its_last_checkpoint(tmp_path):
    async with Run(SearchIndex, tmp_path) as run:
        await run.process(a_text(1, "one"))
        assert await run.checkpoint() == [None]
        await run.process(a_text(2, "one more"))
        assert urls(tmp_path, "one") == {"http://a.test/1"}
        assert await run.checkpoint() == [None]
        assert len(urls(tmp_path, "one")) == 2
        with pytest.raises(FatalError, match=r"cannot be used: .*Lock.*another SEARCH_DIR"):
            await Run(SearchIndex, tmp_path).__aenter__()


async def test_the_log_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("webcrawl.pipelines.search_index.MAX_LOG_BYTES", 5000)
    async with Run(SearchIndex, tmp_path) as run:
        for number in range(20):
            await run.process(a_text(number, "words " * 100))
            assert (tmp_path / "search/uncommitted.log").stat().st_size < 6000
        assert run.stats["commits"] >= 2
    assert documents(tmp_path) == 20


KILLED = """
import asyncio, os, signal, sys
from contracts.modules import Run, a_page
from webcrawl.pipelines.search_index import SearchIndex

async def crawl():
    async with Run(SearchIndex, sys.argv[1]) as run:
        for n in range(20):
            await run.process(a_page(f"<p>text {n}", url=f"http://a.test/{n}"))
            if n == 10:
                await run.checkpoint()
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(crawl())
"""


async def test_no_page_that_was_taken_is_lost_when_the_process_is_killed(tmp_path):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = warm.run([sys.executable, "-c", KILLED, str(tmp_path)], env=env)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert documents(tmp_path) == 11
    log = tmp_path / "search/uncommitted.log"
    left = log.read_bytes()
    with log.open("ab") as file:
        file.write(b"\x50\0\0\0torn")
    async with Run(SearchIndex, tmp_path) as run:
        assert documents(tmp_path) == 20
        assert log.stat().st_size == HEADER_SIZE
        await run.process(a_text(20, "more"))
    # Killed between the commit and the end of the log.
    log.write_bytes(left)
    async with Run(SearchIndex, tmp_path):
        assert documents(tmp_path) == 21


async def test_an_index_that_cannot_be_written_refuses_checkpoint_and_pages(tmp_path):
    class Broken:
        def commit(self):
            raise ValueError("no room")

        def delete_documents_by_term(self, *_):
            raise ValueError("no room")

    async with Run(SearchIndex, tmp_path) as run:
        await run.process(a_text(1, "one"))
        writer = run.module._writer
        run.module._writer = Broken()
        with pytest.raises(StoreError, match="no room"):
            await run.process(a_text(2, "two"))
        (error,) = await run.checkpoint()
        assert isinstance(error, StoreError)
        run.module._writer = writer


def test_a_disk_that_is_full_at_the_start_is_no_unusable_input(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ValueError('IoError { Os { code: 28, kind: StorageFull, message: "No space" } }')

    monkeypatch.setattr("webcrawl.pipelines.search_index.open_index", refuse)
    with pytest.raises(DiskError, match=f"The disk of SEARCH_DIR {tmp_path}/search is full"):
        index(tmp_path)


def test_an_index_that_cannot_be_written_at_the_start_is_no_unusable_input(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ValueError("An error occurred in a thread: 'An index writer was killed'")

    index(tmp_path, a_text(1, "one"))
    with RecordLog.open(tmp_path / "search/uncommitted.log") as log:
        log.append(msgspec.msgpack.encode({"url": ["http://a.test/"]}))
    broken = SimpleNamespace(writer=lambda *_: SimpleNamespace(delete_documents_by_term=refuse))
    monkeypatch.setattr("webcrawl.pipelines.search_index.open_index", lambda *_, **__: broken)
    with pytest.raises(DiskError, match=r"^SEARCH_DIR .* cannot be written .*was killed"):
        index(tmp_path)


def test_a_damaged_log_is_one_sentence(tmp_path):
    index(tmp_path, a_text(1, "one"))
    (tmp_path / "search/uncommitted.log").write_bytes(b"no record log")
    with pytest.raises(FatalError, match=r"uncommitted.log: damaged .*: delete that file"):
        index(tmp_path)


# --- the command


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    jobdir = tmp_path_factory.mktemp("job")
    evil = a_text(2, "born \x9b31m evil", "\x1b[2J bad title")
    odd = a_text(4, "thin\u2009spaces\xa0and soft\xadhyphens", "नम\u200dस्ते\xa0»")
    index(jobdir, a_text(1, ENGLISH, "Rights"), evil, a_text(3, GERMAN), odd)
    return jobdir


def command(jobdir, *words):
    return warm.scrapy("search", *words, "-s", f"JOBDIR={jobdir}")


@pytest.mark.cures("use lang:CODE among the words")
@pytest.mark.cures("use site:NAME among the words")
def test_what_options_said_is_a_word_of_the_query(indexed):
    for option, word, found in (
        ("--language", "lang:de", "1 page"),
        ("--host", "site:A.TEST", "4 pages"),
    ):
        done = command(indexed, "*", option, word.partition(":")[2])
        assert f"there is no option {option} any more: use {word[:5]}" in done.stderr
        assert command(indexed, "*", word).stdout.endswith(f"\n\n{found} found\n")


def test_the_command_prints_titles_urls_and_snippets(indexed):
    done = command(indexed, "born", "free")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Rights\nhttp://a.test/1\n{ENGLISH[:-1]}\n\n1 page found\n"
    done = command(indexed, "born", "--limit", "1")
    assert done.stdout.endswith("\n\n2 pages found\n")
    assert command(indexed, "born", "site:A.TEST").stdout.endswith("\n\n2 pages found\n")
    explained = command(indexed, "born", "--explain", "--limit", "1").stdout
    assert re.search(r"^[\d.]+ = 1 \* \(.*[\d.]+ text_en.*\)$", explained, re.MULTILINE)
    assert command(indexed, "nowhere").stdout == "0 pages found\n"
    assert command(indexed, "nowhere").returncode == 1


@pytest.mark.parametrize(
    ("query", "pages", "said"),
    table("""
        born foo:bar      | 2 | Field does not exist: 'foo'
        born foo:bar -x:y | 2 | Field does not exist: 'foo'; Field does not exist: 'x'
        born title:       | 2 | Syntax Error: expected word at position 11
        born (            | 2 | Syntax Error: expected word at position 6; expected ')' at 6
        bor* title:       | 2 | Syntax Error: expected word at position 11
        born~2            | 2 | Similar words: '~2'
        "born free"~1     | 1 |
        "born~2"          | 0 |
        nowhere~          | 0 | Similar words: '~'
        born [a TO b]     | 2 | Unsupported query: Range query need to target a specific field.
        -born             | 2 |
        foo:bar           |   | Field does not exist: 'foo'
        foo:bar OR x:y    |   | Field does not exist: 'foo'; Field does not exist: 'x'
        title:            |   | Syntax Error: expected word at position 6
        (((               |   | Syntax Error: expected word at position 3; expected ')' at 3
        title:/born/      |   | Unsupported query: Regex queries are not allowed.
        !?                |   | it has no words
        ... !!!           |   | it has no words
    """),
)
def test_what_cannot_be_searched_is_reported(indexed, query, pages, said):
    done = command(indexed, f" {query}" if query[0] == "-" else query, "--json")
    said = said.replace("; expected ')' at", "; Syntax Error: expected ')' at position")
    if pages:
        result = json.loads(done.stdout)
        assert (done.returncode, result["total"]) == (not result["total"], int(pages))
        assert "; ".join(result["not_searched"]) == said
        lines = [f"search: not searched: {one}\n" for one in said.split("; ") if one]
        assert done.stderr == "".join(lines)
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert f"search: Nothing in the query can be searched ({said}). Put" in done.stderr
        assert "Traceback" not in done.stderr


def test_text_is_shown_as_text(indexed):
    shown = command(indexed, "thin").stdout
    assert shown.splitlines()[:3] == [
        *("नम\u200dस्ते »", "http://a.test/4"),
        "thin spaces and soft\xadhyphens",
    ]


def test_a_directory_of_products_may_be_named_as_a_job(indexed, tmp_path):
    done = warm.scrapy("search", indexed, "--", "site:a.test")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("4 pages found\n")


def test_the_command_prints_json(indexed):
    done = command(indexed, "würde", "--json", "lang:de", "site:A.test")
    result = json.loads(done.stdout)
    assert (result["total"], result["hits"][0]["url"]) == (1, "http://a.test/3")


def test_a_terminal_gets_the_words_highlighted_and_nothing_of_the_page_obeyed(indexed):
    leader, follower = pty.openpty()
    line = [sys.executable, "-m", "scrapy", "search", "born", "-s", f"JOBDIR={indexed}"]
    process = warm.Popen(line, stdout=follower, stderr=follower)
    os.close(follower)
    shown = b""
    try:
        while data := os.read(leader, 4096):
            shown += data
    except OSError:  # its end, on Linux
        pass
    os.close(leader)
    assert process.wait() == 0
    assert b"\x1b[1mborn\x1b[0m" in shown
    assert b"\x1b[2J" not in shown
    assert "\x9b".encode() not in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["crawls/nosuch", "x"], "search: There is no crawl in crawls/nosuch."),
        (["x", "-s", "JOBDIR=nowhere"], "search: There is no search index in nowhere/search. Give"),
        ([], "give the words to search for"),
        (["x", "--limit", "10001"], "'10001' is not a whole number from 1 to 10,000"),
        (["(" * 20_000], "has more than 2,000 characters or more than 50 opening brackets"),
        (["(a " * 51], "has more than 2,000 characters or more than 50 opening brackets"),
        (["x" * 2001], "has more than 2,000 characters or more than 50 opening brackets"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence):
    done = warm.scrapy("search", *words)
    assert done.returncode == 2
    assert sentence in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
