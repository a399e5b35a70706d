"""Pages that attack: all of them in one crawl with Chromium, and what users then do with its job.

A new surface that pages can reach adds its attacks here. Those on other sites by rendering are in
rigs/hostile/evil_pages.py and are judged by the servers' record, those on what is shown in
rigs/hostile/hostile_words.py, those on the parser in data/broken_pages.toml. What is open to a
crawl only while it runs is attacked by the same words in monitor/test_hostile_words.py.
"""

import asyncio
import csv
import gzip
import json
import os
import shutil
import subprocess
from contextlib import suppress
from urllib.parse import urlsplit

import hostile_words
import pytest
from broken_pages import PAGES, whole
from crawling import ROOT, crawl_of_urls, descendants, printed, wait_for_the_end_of, warc_urls
from evil_pages import EVIL_PAGES, EvilSite
from http_site import HttpSite, serving
from loopback import name_server, zone
from lxml import html
from namespaces import Cables
from text_tables import each

from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.wording import escape_controls

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

# An address of the public internet, in a namespace of the tests.
PUBLIC = "11.1.1.1"
_MODULES = ("warc.WarcPipeline", "search_index.SearchIndex", "text.TextDataset")
# Texts of links that want to be formulas, or rows of a table of their own.
_CELLS = ("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", 'x"\n=1,2,3', "x\r\nhttp://gone.test/,a,b")


def _parsed(handler):
    """The site of the pages for the parser, and of those for lists."""
    path = handler.path[1:]
    if path.isdigit():
        return 200, {}, whole([*PAGES.values()][int(path)][0])
    if path:
        return 404, {}, b""
    links = "".join(f"<a href=/{number}>x</a>" for number in range(len(PAGES)))
    cells = "".join(f'<a href="/?{cell}" rel="{cell}">{cell}</a>' for cell in map(_quoted, _CELLS))
    return 200, {}, (links + cells).encode()


def _quoted(cell):
    return cell.replace('"', "&quot;").replace("\r", "&#13;")


OTHERS = {"words.test": hostile_words.answer, "parser.test": _parsed}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """The directory of one crawl of all sites, and the evil sites by name."""
    directory = tmp_path_factory.mktemp("corpus")
    sites = {row.name: EvilSite(row, number) for number, row in enumerate(EVIL_PAGES)}

    def answer(handler):
        host = handler.headers["Host"]
        if other := OTHERS.get(host.partition(":")[0]):
            return other(handler)
        return next(site for site in sites.values() if site.serves(host)).answer(handler)

    with Cables(0), serving(HttpSite(answer, "0.0.0.0")) as server:
        subprocess.run(["ip", "address", "add", PUBLIC, "dev", "lo"], check=True)
        for site in sites.values():
            site.port = server.server_port
        asyncio.run(_crawl(directory, sites.values(), server.server_port))
        yield directory, sites


async def _crawl(directory, sites, port):
    addresses = {
        host: [f"300 A {PUBLIC if name in site.row.public else '127.0.0.1'}"]
        for site in sites
        for name, host in site.hosts.items()
    }
    addresses |= {host: ["300 A 127.0.0.1"] for host in OTHERS}
    policy = directory / "hosts.toml"
    policy.write_text("".join(site.tables for site in sites))
    policy.chmod(0o600)
    urls = [
        f"{site.origin(host)}/{path}"
        for site in sites
        for host, _, path in (seed.partition("/") for seed in site.row.seeds)
    ]
    async with name_server(zone(addresses)) as names:
        command = crawl_of_urls(
            directory,
            *urls,
            *(f"http://{host}:{port}/" for host in OTHERS),
            dns=f"127.0.0.1:{names.port}",
            RENDER="all",
            COOKIES_ENABLED=1,
            HOSTS_POLICY_FILE=policy,
            ITEM_PIPELINES=json.dumps({f"webcrawl.pipelines.{name}": 1 for name in _MODULES}),
        )
        # Not forked from another process, which is not in the namespace.
        done = await asyncio.to_thread(
            subprocess.run,
            [*command, "-o", f"{directory}/links.csv:links"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    wait_for_the_end_of([one for one in descendants(os.getpid()) if _is_browser(one)])
    assert done.returncode == 0, done.stderr
    assert "finished: nothing is left to fetch" in done.stderr


def _is_browser(process):
    with suppress(OSError):  # it has ended
        return b"chromium" in (process / "cmdline").read_bytes()
    return False


@each("name", *[row.name for row in EVIL_PAGES])
def test_a_page_learns_and_changes_nothing_of_another_site(crawled, name):
    _, sites = crawled
    assert sites[name].complaints() == []


def test_why_names_what_a_page_did_not_get(crawled):
    directory, sites = crawled
    site = sites["reaches into the network of the crawl"]
    said = printed("why", directory / "job", f"{site.origin('evil')}/")
    for path in ("admin", "moved", "conf.js"):
        assert f"not loaded  {site.origin('victim')}/{path}: private_address" in said


def test_archives_have_neither_preflights_nor_keys(crawled):
    directory, _ = crawled
    files = (directory / "job/warc").glob("*.gz")
    text = b"".join(gzip.decompress(file.read_bytes()) for file in files)
    assert b"X-Api-Key: (withheld)" in text
    assert [word for word in (b"OPTIONS /", b"k3y", b"T0KEN") if word in text] == []


def test_every_page_for_the_parser_is_read(crawled):
    directory, _ = crawled
    ends = {urlsplit(line.url)[1:3]: line for line in outcome_lines(directory / "job")}
    read = [line for (host, path), line in ends.items() if host.startswith("parser.test")
            and path[1:].isdigit() and line.outcome == "http_200" and line.passes]  # fmt: skip
    assert len(read) == len(PAGES)


def test_what_pages_say_is_shown_as_text(crawled, tmp_path):
    directory, sites = crawled
    printed("report", directory / "job", "-o", tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text("utf-8")
    assert html.fromstring(report).xpath(hostile_words.THEIRS) == []
    port = next(iter(sites.values())).port
    urls = [f"http://words.test:{port}{link}" for link in hostile_words.links()]
    texts = [report, *(printed("why", directory / "job", url) for url in urls[::9])]
    texts.append(printed("search", directory / "job", "Article"))
    assert [text for text in texts if escape_controls(text) != text] == []


def test_cells_of_lists_are_no_formulas_and_rows_are_whole(crawled):
    directory, _ = crawled
    with (directory / "links.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert {len(row) for row in rows} == {len(header)}
    assert [cell for row in rows for cell in row if cell[:1] in {*"=+-@\t\r"}] == []
    assert [row for row in rows if not row[0].startswith("http://")] == []
    assert sum(row[3].startswith("'") for row in rows) >= 4


@each("host", "words.test", "parser.test")
def test_a_purge_takes_what_was_named_and_nothing_else(crawled, tmp_path, host):
    directory, _ = crawled
    shutil.copytree(directory / "job", tmp_path / "job")
    before = warc_urls(tmp_path / "job/warc")
    printed("purge", tmp_path / "job", "--host", host)
    kept = [url for url in before if urlsplit(url).hostname != host]
    assert sorted(warc_urls(tmp_path / "job/warc")) == sorted(kept)
    assert len(kept) < len(before)
    printed("job", "check", tmp_path / "job", "--warc")
