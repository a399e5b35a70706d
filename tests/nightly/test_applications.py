"""Applications, as the crawler and as Debian's Chromium find them on loopback."""

import asyncio
import json
import re
from collections import Counter, defaultdict
from urllib.parse import urlsplit

import applications
import more_applications
import pytest
import unrendered
from applications import ApplicationSites
from crawling import RIGS, ROOT, USER_AGENT, simulated
from linked_site import Answer, Sites, crawl, open_sites, served
from shown import Shown, shown_in_browser
from starters import PATHS, starter
from text_tables import each
from unrendered import ROWS, UnrenderedSites
from web_truth import browser_truth

from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.simweb.host_spec import CLIENT_RENDERED

_LIMIT_SECS = 3600
pytestmark = [pytest.mark.long, pytest.mark.timeout(_LIMIT_SECS)]

SETTINGS = {
    "RENDER": "all",
    "RENDER_SHARE": 0.99,
    "RENDER_PROCESSES": 2,
    "POLITENESS_MIN_DELAY": 0.02,
    "ITEM_PIPELINES": json.dumps({"noting_module.Notes": 1}),
}
WAYS = applications.WAYS + more_applications.WAYS
_HOWTO = ROOT / "docs/howto/pages-that-need-javascript.md"
# Pages of a host, and how many of them are rendered, in the document's words.
_PAGES = 4
_RENDERED = {"none": 0, "one": 1, "two": 2, "all": _PAGES}
_ALL_HERE = "--host-resolver-rules=MAP *.test 127.0.0.1"


def noted(jobdir):
    """What the crawler noted of each page, by URL."""
    lines = (jobdir / "noted.jsonl").read_text().splitlines()
    return {one["url"]: one for one in map(json.loads, lines)}


def shown_to_crawler(jobdir):
    return {url: Shown({*one["links"]}, {*one["words"]}) for url, one in noted(jobdir).items()}


def crawled(sites, names, hosts, jobdir, judge=lambda _port: None, **settings):
    """Crawl *sites* from *hosts*, and return what *judge* returns for their port."""

    async def main():
        async with open_sites(sites, names):
            await crawl(sites, jobdir, *hosts, limit_secs=_LIMIT_SECS, **SETTINGS | settings)
            return await asyncio.to_thread(judge, sites.port)

    return asyncio.run(main())


def crawled_applications(apps, jobdir, judge=lambda _port: None):
    sites = ApplicationSites(apps)
    return crawled(sites, sites.pages, [app.host for app in apps], jobdir, judge)


def test_links_and_words_are_those_of_a_browser(jobdir):
    apps = applications.applications(300, WAYS)
    seen = crawled_applications(
        apps,
        jobdir,
        lambda port: shown_in_browser([f"http://{app.host}:{port}/" for app in apps], _ALL_HERE),
    )
    found = shown_to_crawler(jobdir)
    kinds = {app.host: app.kind for app in apps}
    lost = defaultdict(dict)
    for url, shown in seen.items():
        if lacking := shown.without(found[url]):
            lost[kinds[urlsplit(url).hostname]][url] = lacking
    share = 1 - sum(map(len, lost.values())) / len(apps)
    assert share >= 0.95, lost
    print(f"{share:.1%} of {len(apps)} applications of {len(WAYS)} kinds: {dict(lost)}")


@each("name", "react", "vue")
def test_starters_show_what_they_show_in_a_browser(jobdir, name):
    pages, host = starter(name), f"{name}.test"
    seen = crawled(
        Sites(pages),
        pages,
        [host],
        jobdir,
        lambda port: shown_in_browser([f"http://{host}:{port}{path}" for path in PATHS], _ALL_HERE),
        RENDER="auto",
    )
    found = shown_to_crawler(jobdir)
    assert {url: found[url] for url in seen} == seen
    # None of it is there without scripts.
    assert all(len(shown.links) >= len(PATHS) for shown in seen.values())
    assert [shown.words >= {"Not", "found"} for shown in seen.values()].count(True) == 1
    assert not any(one["without_scripts"] for one in noted(jobdir).values())


def test_client_rendered_sites_show_what_they_show_in_a_browser(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    with simulated(tmp_path, "rendered", hosts=24, max_pages=4) as web:
        web.crawl(**SETTINGS)
        hosts = [web.world.host(index) for index in range(web.world.hosts)]
        rules = ",".join(f"MAP {host.name} {host.address}" for host in hosts)
        truth = browser_truth(web.world, USER_AGENT)
        urls = [url for url, one in truth.items() if one.gains and one.links]
        flags = f"--host-resolver-rules={rules}", "--ignore-certificate-errors"
        seen = shown_in_browser(urls, *flags, scrolls=False)
    found = shown_to_crawler(web.job)
    assert {truth[url].page.host.rendering for url in urls} == CLIENT_RENDERED
    lost = {url: shown.without(found[url]) for url, shown in seen.items()}
    assert not any(lost.values()), lost
    assert all(shown.links for shown in seen.values())


def test_the_rows_of_what_only_a_browser_shows_are_true(jobdir):
    sites = UnrenderedSites()
    hosts = [unrendered.host_of(row) for row in ROWS]
    seen = crawled(sites, hosts, hosts, jobdir, lambda port: [shown_of(row, port) for row in ROWS])
    found = shown_to_crawler(jobdir)
    # A row that is no longer true should go, and its line in the document be mended.
    untrue = []
    for row, (url, shown) in zip(ROWS, seen, strict=True):
        links, words = shown.without(found[url])
        if words != {"missing"} and links != {f"{url}l/x"}:
            untrue.append(row["kind"])
    assert untrue == []


def shown_of(row, port):
    """The URL of the page of *row*, and what a browser shows there."""
    url = f"http://{unrendered.host_of(row)}:{port}/"
    options = {name: row[name] for name in ("clicks", "waits") if name in row}
    # Service workers need a secure origin.
    flags = _ALL_HERE, f"--unsafely-treat-insecure-origin-as-secure={url.rstrip('/')}"
    (shown,) = shown_in_browser([url + row.get("at", "")], *flags, **options).values()
    return url, shown


def test_the_document_says_what_only_a_browser_shows_and_why():
    _, _, table = _HOWTO.read_text().partition("| a page's links and text come from")
    lines = table.partition("\n\n")[0].splitlines()
    for row in ROWS:
        assert any(row["kind"] in line and row["why"] in line for line in lines), row["kind"]


def test_auto_renders_as_many_pages_as_the_document_says(jobdir):
    rows = examples_of_auto()
    pages, links = {}, ""
    for number, (page, script, _) in enumerate(rows):
        host = f"auto{number}.test"
        pages[f"{host}/app.js"] = Answer(script.encode(), "text/javascript")
        pages |= {f"{host}/{path}": Answer(page.encode()) for path in range(_PAGES)}
        rules = "/l/" if script else "/app.js"
        pages[f"{host}/robots.txt"] = Answer(f"User-agent: *\nDisallow: {rules}".encode())
        links += "".join(f"<a href='http://{host}:{{port}}/{path}'>x</a>" for path in range(_PAGES))

    async def main():
        async with served(pages | {"hub.test/": Answer(links.encode())}) as sites:
            await crawl(sites, jobdir, "hub.test", **SETTINGS | {"RENDER": "auto"})

    asyncio.run(main())
    rendered = Counter(urlsplit(line.url).hostname for line in outcome_lines(jobdir) if line.passes)
    assert [rendered[f"auto{number}.test"] for number in range(len(rows))] == [
        _RENDERED[said] for _, _, said in rows
    ]


def examples_of_auto():
    """A page, its script, and how many pages like it are rendered, of each row of the document."""
    cell = r"(?:`([^`]*)`)?[^|`]*"
    row = re.compile(rf"^\| {cell} \| {cell}\| (none|one|two|all): ", re.MULTILINE)
    return row.findall(_HOWTO.read_text())


def test_rendering_takes_no_link_away(jobdir):
    apps = applications.applications(1000, WAYS)
    crawled_applications(apps, jobdir)
    found = noted(jobdir).values()
    assert {urlsplit(one["url"]).hostname for one in found} >= {app.host for app in apps}
    assert not [one for one in found if {*one["without_scripts"]} - {*one["links"]}]
