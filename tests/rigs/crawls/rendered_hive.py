"""Hives that render pages of the simulated web, and what its record must say of them.

The links found are those that a browser finds, no host was hurried, and no script and no data were
requested more than twice. Every fourth host has its scripts requested anew for each page
(``no-cache``)."""

from collections import Counter

from crawling import USER_AGENT, impolite, pages_asked_for
from hive_crawl import MIN_DELAY
from web_truth import allowed_urls, browser_truth, is_endless_url, subresources_of

from webcrawl.crawl.shard.shards import Shards

SCRIPTED = "scripted_engine:ScriptedEngine"
SHARDS = 12
SETTINGS = {"HIVE_SHARDS": SHARDS, "RENDER": "all", "RENDER_SHARE": 0.9, "RENDER_PROCESSES": 1}


def judge_rendering(web):
    """Stops the server; returns what was asked of hosts of other shards, with how often."""
    hits = web.hits()
    assert impolite(hits, min_delay=MIN_DELAY) == []
    asked = Counter(url for url in pages_asked_for(hits) if not is_endless_url(url))
    number_of = Shards(number=SHARDS).number_of
    parts, crossing, revalidated = set(), set(), set()
    for page, _, _ in browser_truth(web.world, USER_AGENT).values():
        for host, target in subresources_of(web.world, page) if page.is_scripted else ():
            url = host.origin + target
            parts.add(url)
            if number_of(host.name) != number_of(page.host.name):
                crossing.add(url)
            if host.index % 4 == 2:
                revalidated.add(url)
    allowed = allowed_urls(web.world, USER_AGENT, browser=True)
    missing = sorted(allowed - asked.keys())
    assert not missing, missing[:5]
    assert asked.keys() - allowed - parts == set()
    assert {url: asked[url] for url in parts - allowed - revalidated if asked[url] > 2} == {}
    return {url: asked[url] for url in crossing if asked[url]}
