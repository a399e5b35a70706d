"""Small applications, as the crawler and as Debian's Chromium find them on loopback."""

import asyncio
import json
import re
from collections import defaultdict
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from applications import WAYS, ApplicationSites, applications
from browsing import chromium
from linked_site import crawl, open_sites
from playwright.sync_api import TimeoutError  # noqa: A004  # its own

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SETTINGS = {
    "RENDER": "all",
    "RENDER_SHARE": 0.99,
    "RENDER_PROCESSES": 2,
    "POLITENESS_MIN_DELAY": 0.02,
    "ITEM_PIPELINES": json.dumps({"noting_module.Notes": 1}),
}
_WORD = re.compile(r"\bw\d+q\d+\b")
_UNSHOWN = {"SCRIPT", "STYLE", "NOSCRIPT"}


def seen_by_browser(apps, port):
    """Links and words of each application, by its host, after scrolling to its end."""
    seen = {}
    with chromium("--host-resolver-rules=MAP *.test 127.0.0.1") as browser:
        for app in apps:
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            visited = []
            page.on("request", lambda asked, visited=visited: note_visit(asked, visited))
            start = f"http://{app.host}:{port}/"
            page.goto(start, wait_until="commit")
            settle(page)
            links, words = shown_in(context.new_cdp_session(page))
            # Another document has taken the place of this one: what it had is not there any more.
            left = {url for url in visited if url.partition("#")[0] != start}
            seen[app.host] = (left or links, set() if left else words)
            context.close()
    return seen


def note_visit(asked, visited):
    if asked.is_navigation_request() and asked.frame.parent_frame is None:
        visited.append(asked.url)


def settle(page):
    """Scroll until nothing more comes."""
    height = -1
    for _ in range(20):
        with suppress(TimeoutError):  # a document that is opened and never closed
            page.wait_for_load_state("networkidle", timeout=5000)
        page.wait_for_timeout(200)
        now = page.evaluate(
            "[scrollTo(0, scrollY + 800), document.documentElement?.scrollHeight, scrollY].join()"
        )
        if now == height:
            break
        height = now
    page.wait_for_timeout(1500)


def shown_in(session):
    """URLs of links and words, frames and shadow roots of all kinds included."""
    links, words = set(), set()
    root = session.send("DOM.getDocument", {"depth": -1, "pierce": True})["root"]
    pending = [(root, root.get("baseURL", ""))]
    while pending:
        node, base = pending.pop()
        base = node.get("baseURL", base)
        if node["nodeName"] in _UNSHOWN:
            continue
        if node["nodeName"] == "A":
            found = session.send("DOM.resolveNode", {"nodeId": node["nodeId"]})["object"]
            asked = {
                "objectId": found["objectId"],
                "functionDeclaration": "function () { return this.href }",
            }
            url = session.send("Runtime.callFunctionOn", asked)["result"]["value"]
            links.add(url.partition("#")[0])
        words.update(_WORD.findall(node["nodeValue"]))
        inner = [*node.get("children", ()), *node.get("shadowRoots", ())]
        inner += [node["contentDocument"]] if "contentDocument" in node else []
        pending += [(one, base) for one in inner]
    return links, words


def crawled(apps, jobdir, judge):
    """What the crawler noted of each host, and what *judge* says of the same sites."""

    async def main():
        sites = ApplicationSites(apps)
        async with open_sites(sites, sites.pages):
            await crawl(sites, jobdir, *(app.host for app in apps), **SETTINGS)
            return await asyncio.to_thread(judge, apps, sites.port)

    judged = asyncio.run(main())
    lines = map(json.loads, (jobdir / "noted.jsonl").read_text().splitlines())
    return {urlsplit(one["url"]).hostname: one for one in lines}, judged


def test_links_and_words_are_those_of_a_browser(jobdir):
    apps = applications(300)
    found, seen = crawled(apps, jobdir, seen_by_browser)
    lost = defaultdict(dict)
    for app in apps:
        links, words = seen[app.host]
        links -= {*found[app.host]["links"]}
        words -= {*found[app.host]["words"]}
        if links or words:
            lost[app.kind][app.host] = links | words
    share = 1 - sum(map(len, lost.values())) / len(apps)
    assert share >= 0.95, lost
    print(f"{share:.1%} of {len(apps)} applications of {len(WAYS)} kinds: {dict(lost)}")


def test_rendering_takes_no_link_away(jobdir):
    apps = applications(1000)
    found, _ = crawled(apps, jobdir, lambda *_: None)
    assert found.keys() >= {app.host for app in apps}
    assert not [one for one in found.values() if {*one["without_scripts"]} - {*one["links"]}]
