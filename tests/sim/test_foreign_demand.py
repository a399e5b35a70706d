"""A site's own pages do not wait for what others ask of it, by the record of its server."""

from itertools import count

import pytest
from text_tables import each
from virtual_sites import VirtualSites

PAGES = 200
VICTIM = "http://v.test"
# Addresses at the victim that no page of its own names.
_MISSING = (f"{VICTIM}/missing/{number}" for number in count())


def html(urls):
    return "".join(f"<a href={url}>x</a>" for url in urls)


def victim():
    """A site of 200 pages: a front page, 19 sections, and the pages of each section."""
    sections = [f"/section/{number}" for number in range(19)]
    pages = {"v.test:80/": html(["/", *sections])}
    articles = [f"/article/{number}" for number in range(PAGES - len(pages) - len(sections))]
    for number, section in enumerate(sections):
        pages[f"v.test:80{section}"] = html(["/", section, *articles[number :: len(sections)]])
    for article in articles:
        pages[f"v.test:80{article}"] = f"the text of {article} {html(['/', article])}"
    return pages


OWN_URLS = [f"{VICTIM}{page.removeprefix('v.test:80')}" for page in victim()]


def missing(number):
    return [next(_MISSING) for _ in range(number)]


def sitemap(urls):
    entries = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    return f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{entries}</urlset>"


def feed(urls):
    items = "".join(f"<item><link>{url}</link></item>" for url in urls)
    return f"<rss version='2.0'><channel>{items}</channel></rss>"


def redirects(status="302 Found"):
    return {
        f"/away/{number}": f"HTTP/1.1 {status}\r\nLocation: {url}"
        for number, url in enumerate(missing(60))
    }


def heads(tag):
    return {f"/head/{number}": f"{tag % url} {number}" for number, url in enumerate(missing(60))}


# The pages of the attacker by the way in which they ask for URLs of the victim.
WAYS = {
    "links": lambda: {f"/links/{number}": html(missing(50)) for number in range(100)},
    "own URLs": lambda: {"/known": html(reversed(OWN_URLS)), "/more": html(missing(2000))},
    "redirects": redirects,
    "canonical": lambda: heads("<link rel=canonical href=%s>"),
    "hreflang": lambda: heads("<link rel=alternate hreflang=de href=%s>"),
    "refresh": lambda: heads("<meta http-equiv=refresh content='0;url=%s'>"),
    "sitemaps": lambda: {
        "/robots.txt": "User-agent: *\nDisallow:\nSitemap: http://a.test/map.xml\n"
        + "".join(f"Sitemap: {url}\n" for url in missing(100)),
        "/map.xml": sitemap(missing(1000)),
    },
    "feeds": lambda: {"/feed.xml": feed(missing(500))},
    "closed ports": lambda: {"/ports": html(f"{VICTIM}:{1000 + number}/" for number in range(60))},
}


def attacker(ways):
    pages = {path: body for way in ways for path, body in WAYS[way]().items()}
    front = html(path for path in pages if path != "/robots.txt")
    return {f"a.test:80{path}": body for path, body in {"/": front, **pages}.items()}


def hits_of_victim(contacts):
    """The paths that the victim was asked for; those at closed ports with the port."""
    hits = [hit for hit in contacts if hit.server.startswith("v.test:")]
    return [hit.path or hit.server for hit in hits]


def contacts_until_complete(hits):
    """How many of *hits* it took until all of the victim's own pages had been asked for."""
    return max(hits.index(page.removeprefix("v.test:80")) for page in victim()) + 1


@each("ways", [*WAYS], long=[[way] for way in WAYS])
@each("order", "last", long=("first",))
@each("budget", 0, long=(4,))
def test_own_pages_of_a_site_do_not_wait_for_what_another_asks(tmp_path, ways, order, budget):
    sites = VirtualSites(tmp_path, victim() | attacker(ways))
    before = []
    if order == "first":  # what it asks for waits, or is fetched, before the victim is a seed
        before = sites.crawl("http://a.test/", killed_at=60, REPUTATION_BASE_PAGES=budget)
    contacts = sites.crawl("http://a.test/", VICTIM, REPUTATION_BASE_PAGES=budget)
    hits = hits_of_victim(contacts)
    early = hits_of_victim(before)
    missed = {page.removeprefix("v.test:80") for page in victim()} - {*early}
    assert missed <= {*hits}
    until = max(hits.index(path, len(early)) for path in missed) + 1
    assert until - len(early) <= 1.4 * (PAGES + 1)
    # Only the page at which the process was killed is fetched twice.
    paths = [hit for hit in hits if hit.startswith("/")]
    assert len(paths) - len({*paths}) <= (order == "first")


@pytest.mark.long
def test_a_farm_of_many_domains_gets_a_third_of_the_contacts_at_most(tmp_path):
    farm = {f"farm{number}.test:80/": html(missing(5)) for number in range(2000)}
    sites = VirtualSites(tmp_path, victim() | farm)
    seeds = (f"http://{page.partition(':')[0]}/" for page in farm)
    hits = hits_of_victim(sites.crawl(*seeds, VICTIM, REPUTATION_BASE_PAGES=0))
    assert contacts_until_complete(hits) <= 1.5 * (PAGES + 1)
