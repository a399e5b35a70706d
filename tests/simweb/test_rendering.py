"""Sites that need a browser: what they serve, and the truth about it."""

import json
import re

import ada_url
import pytest
from protego import Protego
from simweb_client import AGENT
from web_truth import browser_truth, subresources_of

from webcrawl.simweb import preset, start_in_process
from webcrawl.simweb.host_spec import CLIENT_RENDERED, Rendering
from webcrawl.simweb.replies import reply_to
from webcrawl.simweb.scripts import HOSTILE, SCRIPTS

WORLD = preset("rendered")
# Links of the document and of its open shadow roots, without fragments.
LINKS = """[document, ...Array.from(document.querySelectorAll("*"), one => one.shadowRoot)]
  .flatMap(root => root ? [...root.querySelectorAll("a[href]")] : [])
  .map(link => link.href.split("#")[0])"""
UNREADABLE = """texts => texts.filter(text => {
  try { new Function(text); } catch { return true; }
})"""


def truth(world, agent=None):
    for url, (page, links, gains) in browser_truth(world, agent).items():
        yield url, page, page.host.rendering if page.is_scripted else None, links, gains


def served(host, target):
    parts = reply_to(WORLD, host, target, gzip=False).parts
    return b"".join(parts).replace(b"\0", b"").decode("latin-1")


def test_served_bytes_have_the_links_of_the_truth():
    linking, shells = set(), {}
    for url, page, kind, links, gains in truth(WORLD):
        document = served(page.host, page.path)
        hrefs = re.findall(r'href="([^"]+)"', document)
        if kind:
            (owner, target), *others = subresources_of(WORLD, page)
            assert f' src="{owner.origin}{target}"' in document
            assert served(owner, target) in SCRIPTS.values()
        if kind in CLIENT_RENDERED:
            assert hrefs == []
            data = [json.loads(served(*one)) for one in others if one[0] is page.host]
            hrefs = [href for batch in data for href in batch["links"]]
        if kind is Rendering.HISTORY:
            assert shells.setdefault(owner, document) == document
        assert {ada_url.join_url(url, href).partition("#")[0] for href in hrefs} == links
        assert gains == (kind in CLIENT_RENDERED)
        linking |= {kind} if links else set()
    assert linking == {None, *Rendering} - {Rendering.LOGIN}


def test_forbidden_scripts_hide_the_links_from_a_polite_browser():
    seen = set()
    for _, page, kind, links, gains in truth(WORLD, AGENT):
        if kind in CLIENT_RENDERED:
            owner, target = subresources_of(WORLD, page)[0]
            rules = Protego.parse(served(owner, "/robots.txt") + served(owner, "/robots-moved.txt"))
            assert gains == rules.can_fetch(owner.origin + target, AGENT)
            seen.add((gains, bool(links)))
    assert seen == {(True, True), (True, False), (False, False)}


def test_a_tenth_of_the_pages_of_the_partly_rendered_web_gain():
    gains = [gains for *_, gains in truth(preset("partly-rendered", hosts=600))]
    assert sum(gains) / len(gains) == pytest.approx(0.1, abs=0.025)


@pytest.mark.long
def test_chromium_finds_the_links_of_the_truth():
    from browsing import chromium

    world = preset("rendered", addresses=1, http_port=0, https_port=0)
    rules = f"--host-resolver-rules=MAP * {world.address_list()[0]}"
    tried = dict.fromkeys(Rendering, 0)
    with start_in_process(world, log_path=None) as web, chromium(rules) as browser:
        tab = browser.new_page(ignore_https_errors=True)
        asked = set()
        tab.on("request", lambda request: asked.add(request.url))
        for url, page, kind, links, _ in truth(web.world):
            if kind not in {None, Rendering.HOSTILE} and tried[kind] < 10:
                tried[kind] += 1
                asked.clear()
                tab.goto(url, wait_until="networkidle")
                assert {*tab.evaluate(LINKS)} == links, url
                needed = subresources_of(web.world, page)
                assert asked == {url, *(host.origin + target for host, target in needed)}
        assert tab.evaluate(UNREADABLE, HOSTILE) == []
    assert sum(tried.values()) == 70
    assert len({*HOSTILE}) >= 30
