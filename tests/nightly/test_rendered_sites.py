"""Pages that need a browser, with Chromium: in an archive's replay, and hostile ones in a crawl."""

import io
import re
import subprocess
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from browsing import Tab, chromium
from crawling import (
    RIGS,
    USER_AGENT,
    damage_in,
    descendants,
    impolite,
    pages_asked_for,
    printed,
    simulated,
    wait_for_the_end_of,
)
from patience import slowness_now
from PIL import Image
from pywb_server import pywb_of
from recording_engine import noted_in
from warc_checks import complaints, records
from web_truth import allowed_urls, browser_truth, is_endless_url, reachable_urls

from webcrawl.render.engine import Bounds
from webcrawl.simweb.host_spec import Rendering
from webcrawl.simweb.rendering import script_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

_OF_SCRIPTS = re.compile(r"/api/\d+/$|/hostile-\d+\.js(\?_=\d+)?$")
# Also in open shadow roots. pywb misreads schemes in capitals.
LINKS = """() => [document, ...Array.from(document.querySelectorAll("*"), one => one.shadowRoot)]
  .flatMap(root => root ? [...root.querySelectorAll("a[href]")] : [])
  .map(link => link.href.replace(/^http:..[0-9]+mp_.(?=http)/i, "").split("#")[0])"""


def hostile_hosts(truth):
    pages = [one.page for one in truth.values() if one.page.is_scripted]
    return {page.host.name for page in pages if page.host.rendering is Rendering.HOSTILE}


def policy(directory, **renders):
    """A file of tables of hosts and domains with what each says of rendering."""
    path = directory / "hosts.toml"
    path.write_text("".join(f'["{name}"]\nrender = "{how}"\n' for name, how in renders.items()))
    return path


def is_blank(png):
    """Whether less than two pixels in a thousand are dark."""
    image = Image.open(io.BytesIO(png)).convert("L")
    return sum(image.histogram()[:128]) < 0.002 * image.width * image.height


def test_replayed_pages_show_their_links_by_their_own_scripts(tmp_path):
    with simulated(tmp_path, "rendered", hosts=14, max_pages=6) as web:
        truth = browser_truth(web.world, USER_AGENT)
        off = policy(tmp_path, **dict.fromkeys(hostile_hosts(truth), "0"))
        web.crawl(RENDER="all", HOSTS_POLICY_FILE=off)
        (file,) = (web.job / "warc").glob("*.warc.gz")
    assert complaints(file) == {}
    stored = records(file)
    answers = [one.headers for one in stored if one.kind == "response"]
    urls = {headers["WARC-Record-ID"]: headers["WARC-Target-URI"] for headers in answers}
    doms = {urls[one.headers["WARC-Refers-To"]]: one for one in stored if one.kind == "conversion"}
    assert {one.headers["WARC-Target-URI"]: one for one in doms.values()} == doms
    linking = {url: page for url, page in truth.items() if page.gains and page.links}
    assert linking.keys() <= {url for url, one in doms.items() if b"<li><a href=" in one.body}
    printed("wacz", web.job, "-o", tmp_path / "crawl.wacz")
    shown = set()
    rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with pywb_of(tmp_path, tmp_path / "crawl.wacz") as pywb, chromium(rules) as browser:
        for url, page in linking.items():
            tab = Tab(browser)
            tab.page.goto(pywb.page(url))
            root = tab.page.frame_locator("iframe").locator(":root")
            root.locator("a[href]").first.wait_for(state="attached")
            tab.page.wait_for_load_state("networkidle")
            links = tab.page.frame(name="replay_iframe").evaluate(LINKS)
            assert {*map(str.lower, links)} == {*map(str.lower, page.links)}, url
            assert not is_blank(root.screenshot())
            assert {urlsplit(asked).hostname for asked in tab.asked} == {"127.0.0.1"}
            shown.add(page.page.host.rendering)
            tab.page.close()
    assert len(shown) >= 4


def test_hostile_pages_stay_within_bounds_and_lose_no_links(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    monkeypatch.setenv("RENDERINGS", str(tmp_path / "renderings.jsonl"))
    size = {"hosts": 14, "mean_pages": 80.0, "max_pages": 80}
    with simulated(tmp_path, "rendered", **size) as web:
        truth = browser_truth(web.world, USER_AGENT)
        hostile = dict.fromkeys(hostile_hosts(truth), "all")
        crawl = web.start(
            RENDER="all",
            RENDER_ENGINE="recording_engine:RecordingEngine",
            RENDER_PROCESSES=2,
            EXTENSIONS='{"recording_engine.Unlimited": 0}',
            HOSTS_POLICY_FILE=policy(tmp_path, **{"sim.test": "0"} | hostile),
        )
        output, started = None, set()
        while output is None:
            started.update(descendants(crawl.pid))
            with suppress(subprocess.TimeoutExpired):
                output = crawl.communicate(timeout=2)[1]
        assert "finished: nothing is left to fetch" in output
        wait_for_the_end_of(started)
        assert damage_in(web.job) == []
        hits = web.hits()
    assert impolite(hits, min_delay=0.05) == []
    # The links of these pages are there without their scripts, and the scripts ask for more.
    asked, world = {*pages_asked_for(hits)}, web.world
    allowed = allowed_urls(world, USER_AGENT)
    assert allowed <= asked
    others = {one for one in asked - allowed if not is_endless_url(one)}
    assert not others & reachable_urls(world)
    assert {urlsplit(one).hostname for one in others} == hostile.keys()
    assert [one for one in others if not _OF_SCRIPTS.search(one)] == []

    noted = [one for one in noted_in(tmp_path / "renderings.jsonl") if one.url in truth]
    scripts = [script_of(world, truth[one.url].page)[1] for one in noted]
    assert len({script.partition("?")[0] for script in scripts}) >= 30
    bounds, passes = Bounds(), [one.rendering for one in noted]
    # What the page shows is read after the bound, by processes that may have to wait for a core.
    slowness = slowness_now()
    assert max(one.cpu_secs for one in passes) < bounds.cpu_secs + 5 * slowness
    assert max(one.wall_secs for one in passes) < bounds.wall_secs + 15 * slowness
    assert max(one.memory for one in passes) < 1.25 * bounds.memory
    assert max(one.requests for one in passes) <= bounds.requests
    assert max(one.bytes for one in passes) <= bounds.bytes
    assert max(Counter(one.url for one in noted).values()) <= 4
