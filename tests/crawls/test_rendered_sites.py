"""What rendered pages ask of other sites, by the record of the servers."""

import asyncio
from collections import Counter

import warm
from asking_engine import page_that_fetches
from linked_site import Answer, crawl, served
from text_tables import each

VICTIM, EVIL, GOOD = "www.victim.test", "evil.test", "good.test"
SETTINGS = {
    "RENDER": "all",
    "RENDER_SHARE": 0.99,
    "RENDER_ENGINE": "asking_engine:AskingEngine",
    "POLITENESS_MIN_DELAY": 0.02,
    "POLITENESS_JITTER": 0,
}
_PORT = "{port}"


def site(host, pages):
    """The site *host*: a front page that links to *pages*, bodies by path."""
    links = "".join(f'<a href="{path}">x</a>' for path in pages)
    bodies = {"/": f"<title>{host}</title>{links}", **pages}
    return {host + path: Answer(body.encode()) for path, body in bodies.items()}


def asking(host, paths):
    """A page that fetches *paths* of *host*."""
    return page_that_fetches(f"http://{host}:{_PORT}{path}" for path in paths)


def crawled(pages, jobdir, *hosts, **settings):
    """Crawl *pages* to the end; return what was asked for, in order, and the stats."""

    async def main():
        async with served(pages) as sites:
            stats = await crawl(sites, jobdir, *hosts, **SETTINGS | settings)
            return sites, stats

    return asyncio.run(main())


@each(
    "engine base_pages",
    (SETTINGS["RENDER_ENGINE"], 1000),
    long=((SETTINGS["RENDER_ENGINE"], 10), ("chromium", 10)),
)
def test_rendered_pages_cost_another_site_no_more_than_links(jobdir, engine, base_pages):
    own = {f"/own/{number}": f"<p>page {number}" for number in range(120)}
    evil = {
        f"/{page}": asking(VICTIM, ["/shared", *(f"/{page}/{number}" for number in range(255))])
        for page in range(4)
    }
    sites, stats = crawled(
        site(VICTIM, own) | site(EVIL, evil),
        jobdir,
        EVIL,
        VICTIM,
        RENDER_ENGINE=engine,
        REPUTATION_BASE_PAGES=base_pages,
    )
    asked = [name.removeprefix(VICTIM) for name in sites.pages_asked if name.startswith(VICTIM)]
    assert {*own} <= {*asked}
    assert asked.count("/shared") == 1
    assert stats["render/outcome/over_page_limit"] >= 256 - 64
    foreign = [name not in {*own, "/"} for name in asked]
    by_page = Counter(name.split("/")[1] for name in asked if name not in {*own, "/", "/shared"})
    # The first page has also asked for what they share.
    assert {*by_page.values()} <= {63, 64}
    page = f"http://{EVIL}:{sites.port}/{min(by_page)}"
    assert "over_page_limit" in warm.scrapy("why", jobdir, page).stdout
    # The links of the front page are found once it is rendered.
    first = asked.index("/own/0")
    last = max(place for place, is_foreign in enumerate(foreign) if not is_foreign)
    counted = foreign[first : last + 1]
    assert counted.count(True) >= 25
    # Between two rounds of the domain's budget of pages, no page may be fetched for a moment.
    assert counted.count(True) <= len(counted) / 4 + (1 if base_pages == 1000 else 20)


def test_pages_that_wait_for_rendering_may_be_fetched_by_scripts(jobdir):
    """Applications fetch the pages that they link to."""
    evil = {f"/{page}": asking(EVIL, ["/0", "/1"]) + f"{page}" for page in range(2)}
    good = {f"/{page}": asking(EVIL, ["/0"]) + f"{page}" for page in range(5)}
    sites, stats = crawled(site(GOOD, good) | site(EVIL, evil), jobdir, EVIL, GOOD)
    asked = Counter(sites.pages_asked)
    assert {asked.pop(f"{EVIL}/{page}") for page in range(2)} == {2}
    assert {*asked.values()} == {1}
    assert stats["render/rendered"] == stats["render/pages"] == 9
