"""Sites that need a browser: what they serve, and the truth about it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from urllib.parse import urldefrag

import ada_url
import pytest
from browsing import chromium
from protego import Protego
from simweb_client import AGENT, hosts_of

from webcrawl.simweb import allowed_urls, browser_truth, preset, reachable_urls, start_in_process
from webcrawl.simweb.host_spec import CLIENT_RENDERED, Rendering
from webcrawl.simweb.pages import find_page
from webcrawl.simweb.rendering import subresources_of
from webcrawl.simweb.replies import reply_to
from webcrawl.simweb.scripts import HOSTILE, SCRIPTS

WORLD = preset("rendered")
TRUTH = browser_truth(WORLD, None)
# Links of the document and of its open shadow roots, in the browser.
LINKS = """() => [document, ...Array.from(document.querySelectorAll("*"), one => one.shadowRoot)]
  .flatMap(root => root ? Array.from(root.querySelectorAll("a[href]"), link => link.href) : [])"""


def page_at(world, url):
    origin, name, target = re.fullmatch(r"(https?://([^:]+):\d+)(/.*)", url).groups()
    host = world.find(name)
    assert host.origin == origin
    return find_page(world, host, target)


def served(host, target, *, status=200):
    reply = reply_to(WORLD, host, target, gzip=False)
    assert reply.status == status
    return b"".join(reply.parts).replace(b"\0", b"").decode("latin-1")


def absolute(hrefs, base):
    return {urldefrag(ada_url.join_url(base, href)).url for href in hrefs}


def scripted():
    for url, found in TRUTH.items():
        page = page_at(WORLD, url)
        if page.is_scripted:
            yield url, page, found


def test_bytes_of_pages_have_the_links_of_the_truth_or_their_data_have():
    kinds = Counter()
    for url, found in TRUTH.items():
        page = page_at(WORLD, url)
        kind = page.host.rendering if page.is_scripted else None
        hrefs = re.findall(r'href="([^"]+)"', served(page.host, page.path))
        assert found.gains == (kind in CLIENT_RENDERED)
        if found.gains:
            assert hrefs == []
            for host, target in subresources_of(WORLD, page):
                if target.startswith("/api/"):
                    hrefs += json.loads(served(host, target))["links"]
        assert absolute(hrefs, url) == found.links
        kinds[kind] += bool(hrefs)
    assert kinds[Rendering.LOGIN] == 0
    assert all(kinds[kind] for kind in {None, *Rendering} - {Rendering.LOGIN})


def test_pages_name_scripts_that_are_served():
    directories, sources = set(), defaultdict(list)
    for _, page, _ in scripted():
        (source,) = re.findall(
            r'<script type="[a-z/]+" src="([^"]+)"', served(page.host, page.path)
        )
        owner, target = subresources_of(WORLD, page)[0]
        assert source == owner.origin + target
        assert (owner is page.host) == (page.host.rendering is not Rendering.MODULES)
        assert served(owner, target) in SCRIPTS.values()
        directories.add(target.split("/")[1])
        sources[page.host.rendering, owner.index % 4 == 0, "?_=" in source].append(source)
    assert {"private", "news"} < directories
    for (kind, has_busters, busted), found in sources.items():
        assert busted == (has_busters and kind is not Rendering.HISTORY)
    busted = sources[Rendering.JSON, True, True]
    assert len(set(busted)) == len(busted) > len({one.partition("?")[0] for one in busted})


def test_documents_of_the_history_kind_are_the_same_at_every_url():
    bodies = defaultdict(list)
    for _, page, _ in scripted():
        bodies[page.host.index, page.host.rendering].append(served(page.host, page.path))
    for (_, kind), found in bodies.items():
        assert len(set(found)) == (1 if kind is Rendering.HISTORY else len(found))


def test_endless_lists_repeat_links_and_logins_give_no_data():
    host = next(hosts_of(WORLD, rendering=Rendering.SCROLL))
    assert served(host, "/api/0/") != served(host, "/api/1/") == served(host, "/api/77/")
    served(next(hosts_of(WORLD, rendering=Rendering.LOGIN)), "/api/0/", status=401)
    served(next(hosts_of(WORLD, rendering=None)), "/api/0/", status=404)
    served(host, "/news/unknown.js", status=404)


def test_scripts_are_revalidated_by_etag():
    headers = set()
    for host in hosts_of(WORLD):
        reply = reply_to(WORLD, host, "/x/json.js", gzip=False)
        headers |= {line.partition(b":")[0] for line in reply.headers.splitlines()}
        etag = re.search(r'ETag: (".*")', reply.headers.decode())
        if etag:
            again = reply_to(WORLD, host, "/x/json.js", gzip=False, known=(etag[1], ""))
            assert (again.status, again.parts) == (304, [])
    assert {b"ETag", b"Cache-Control", b"Expires"} < headers


def test_forbidden_scripts_hide_the_links_from_a_polite_browser():
    def allows(host, target):
        status, _, _ = reply = reply_to(WORLD, host, "/robots.txt", gzip=False)
        if status == 301:
            reply = reply_to(WORLD, host, "/robots-moved.txt", gzip=False)
        if status >= 400:
            return status < 500
        rules = Protego.parse(b"".join(reply.parts).decode("utf-8-sig", "replace"))
        return rules.can_fetch(host.origin + target, AGENT)

    polite = browser_truth(WORLD, AGENT)
    seen = Counter()
    for url, found in polite.items():
        page = page_at(WORLD, url)
        if page.is_scripted and page.host.rendering in CLIENT_RENDERED:
            is_allowed = all(allows(*one) for one in subresources_of(WORLD, page))
            assert found.gains == is_allowed
            assert found.links == (TRUTH[url].links if is_allowed else set())
            seen[is_allowed] += 1
    assert min(seen[True], seen[False]) > 5
    allowed = allowed_urls(WORLD, AGENT, browser=True)
    assert polite.keys() < allowed < reachable_urls(WORLD, browser=True)
    assert allowed_urls(WORLD, AGENT) < allowed


def test_all_hostile_scripts_are_met():
    paths = {target for _, page, _ in scripted() for _, target in subresources_of(WORLD, page)}
    assert len(set(HOSTILE)) == len(HOSTILE) >= 30
    assert sum("/hostile-" in path for path in paths) > 10


def test_a_tenth_of_the_pages_of_the_partly_rendered_web_gain():
    truth = browser_truth(preset("partly-rendered", hosts=600), None)
    share = sum(found.gains for found in truth.values()) / len(truth)
    assert share == pytest.approx(0.1, abs=0.025)


@pytest.mark.long
def test_chromium_finds_the_links_of_the_truth(tmp_path):
    world = preset("rendered", addresses=1, http_port=0, https_port=0)
    rules = f"--host-resolver-rules=MAP * {world.address_list()[0]}"
    tried, wrong = Counter(), []
    with start_in_process(world, log_path=tmp_path / "log") as web, chromium(rules) as browser:
        tab = browser.new_page(ignore_https_errors=True)
        asked = set()
        tab.on("request", lambda request: asked.add(request.url))
        for url, found in browser_truth(web.world, None).items():
            page = page_at(web.world, url)
            kind = page.host.rendering
            if not page.is_scripted or kind is Rendering.HOSTILE or tried[kind] == 12:
                continue
            tried[kind] += 1
            asked.clear()
            tab.goto(url, wait_until="networkidle")
            links = {urldefrag(link).url for link in tab.evaluate(LINKS)}
            needed = {host.origin + target for host, target in subresources_of(web.world, page)}
            if links != found.links or asked != needed | {url}:
                wrong.append((kind, url, links ^ found.links, asked ^ needed))
        unreadable = """texts => texts.filter(text => {
          try { new Function(text); } catch { return true; }
        })"""
        assert tab.evaluate(unreadable, HOSTILE) == []
    assert wrong == []
    assert {*tried.values()} == {12}
