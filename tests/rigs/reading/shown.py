"""What pages show in Debian's Chromium: links and words, those in frames and shadow roots, too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from browsing import chromium
from noting_module import words_of
from playwright.sync_api import TimeoutError  # noqa: A004  # its own

_BROWSERS = 3
_UNSHOWN = {"SCRIPT", "STYLE", "NOSCRIPT"}
_HREF = "function () { return this.href }"


class Shown(NamedTuple):
    """URLs of links, without fragments, and words; both of a page, or what one page lacks."""

    links: set[str]
    words: set[str]

    def without(self, other: Shown) -> Shown:
        return Shown(self.links - other.links, self.words - other.words)

    def __bool__(self) -> bool:
        return bool(self.links or self.words)


def shown_in_browser(urls, *flags, **options):
    """What each of *urls* shows in a browser with *flags*, by URL; *options* as in ``_shown_at``.

    Browsers wait most of the time, so there are a few.
    """
    shares = [urls[number::_BROWSERS] for number in range(min(_BROWSERS, len(urls)))]

    def shown_by_one(share):
        with chromium(*flags) as browser:
            return {url: _shown_at(url, browser, **options) for url in share}

    shown = {}
    with ThreadPoolExecutor(_BROWSERS) as threads:
        for part in threads.map(shown_by_one, shares):
            shown |= part
    return shown


def _shown_at(url, browser, *, scrolls=True, clicks="", waits=1.5):
    """What *url* shows in a new window of *browser*.

    The page was scrolled to its end if the browser *scrolls*. First it *clicks* on that element,
    and at last it *waits*, in seconds.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    visited = []
    page.on("request", lambda asked: _note_visit(asked, visited))
    page.goto(url, wait_until="commit")
    if clicks:
        page.click(clicks)
    _settle(page, scrolls=scrolls)
    page.wait_for_timeout(1000 * waits)
    shown = _shown_in(context.new_cdp_session(page))
    context.close()
    # Another document has taken the place of this one: what it had is not there any more.
    left = {one for one in visited if one.partition("#")[0] != url.partition("#")[0]}
    return Shown(left, set()) if left else shown


def _note_visit(asked, visited):
    is_of_page = asked.is_navigation_request() and asked.frame.parent_frame is None
    if is_of_page and asked.url.startswith("http"):
        visited.append(asked.url)


def _settle(page, *, scrolls):
    """Scroll until nothing more comes."""
    height = -1
    for _ in range(20 if scrolls else 1):
        with suppress(TimeoutError):  # a document that is opened and never closed
            page.wait_for_load_state("networkidle", timeout=5000)
        page.wait_for_timeout(200)
        if not scrolls:
            break
        now = page.evaluate(
            "[scrollTo(0, scrollY + 800), document.documentElement?.scrollHeight, scrollY].join()"
        )
        if now == height:
            break
        height = now


def _shown_in(session):
    """Links and words of the document of *session*."""
    shown = Shown(set(), set())
    pending = [session.send("DOM.getDocument", {"depth": -1, "pierce": True})["root"]]
    while pending:
        node = pending.pop()
        name = node["nodeName"]
        if name in _UNSHOWN:
            continue
        if name == "A":
            found = session.send("DOM.resolveNode", {"nodeId": node["nodeId"]})["object"]
            asked = {"objectId": found["objectId"], "functionDeclaration": _HREF}
            url = session.send("Runtime.callFunctionOn", asked)["result"]["value"]
            if url.startswith("http"):
                shown.links.add(url.partition("#")[0])
        if name == "#text":
            shown.words.update(words_of(node["nodeValue"]))
        pending += node.get("children", ())
        # Fields of forms have one of the browser's own.
        roots = node.get("shadowRoots", ())
        pending += [root for root in roots if root["shadowRootType"] != "user-agent"]
        pending += [node["contentDocument"]] if "contentDocument" in node else []
    return shown
