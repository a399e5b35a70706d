"""Pages that link to ports of a host that refuse or hang: the port that answers is crawled."""

import random
from collections import Counter
from itertools import pairwise

from crawling import stats_of
from text_tables import cases, each
from virtual_sites import VirtualSites

PAUSE = 0.2
PAGES = 150


def links_to(closed, good, where):
    """A page with links to *closed* ports, *where* they stand, and to all pages of *good*."""
    ports = [f"http://a.test:{1000 + number}/" for number in range(closed)]
    pages = [f"http://{good}/{number}" for number in range(PAGES)]
    urls = pages + ports if where == "last" else ports + pages
    if where == "mixed":
        random.Random(closed).shuffle(urls)
    return html(urls)


def html(urls):
    return "".join(f"<a href={url}>x</a>" for url in urls)


def sites_in(directory, closed, good, where, **options):
    served = {f"{good}/{number}": f"page {number} {'x' * number}" for number in range(PAGES)}
    return VirtualSites(
        directory, {"p.test:80/": links_to(closed, good, where), **served}, **options
    )


def of_host(contacts):
    return [contact for contact in contacts if contact.server.startswith("a.test:")]


def shortest_pause(contacts):
    return min(after.at - before.at for before, after in pairwise(of_host(contacts)))


@cases(
    "closed where good budget",
    """
     40 | first | a.test:8080 | 0
    """,
    long="""
    400 | mixed | a.test:80   | 4
     40 | last  | a.test:80   | 0
     40 | first | a.test:80   | 4
     40 | mixed | a.test:8080 | 4
    400 | first | a.test:80   | 4
    400 | first | a.test:8080 | 4
    400 | first | a.test:8080 | 0
    400 | mixed | a.test:8080 | 0
    400 | last  | a.test:8080 | 4
    """,
)
def test_closed_ports_do_not_starve_the_port_that_answers(tmp_path, closed, where, good, budget):
    sites = sites_in(tmp_path, closed, good, where)
    contacts = sites.crawl("http://p.test/", REPUTATION_BASE_PAGES=budget)
    pages = [hit for hit in of_host(contacts) if hit.path not in {"", "/robots.txt"}]
    assert len({hit.path for hit in pages}) == len(pages) == PAGES
    assert pages[-1].at - contacts[0].at < 60
    assert shortest_pause(contacts) >= PAUSE
    # Each closed port has had its turn, most of them when nothing else was left.
    refused = Counter(hit.server for hit in contacts if not hit.path)
    assert len(refused) == closed
    assert refused.total() < closed + 3
    assert sum(not hit.path and hit.at < pages[-1].at for hit in contacts) < 5
    outcomes = {"outcome/http_200": PAGES + 1, "outcome/connect_refused": closed}
    assert outcomes.items() <= stats_of(sites.job).items()


@each("good", "a.test:8080", long=("a.test:80",))
def test_ports_that_hang_do_not_starve_the_port_that_answers(tmp_path, good):
    sites = sites_in(tmp_path, 40, good, "first", hang=True)
    contacts = sites.crawl("http://p.test/", DOWNLOAD_TIMEOUT=60)
    at = [hit.at - contacts[0].at for hit in of_host(contacts) if hit.path]
    assert len(at) == PAGES + 1
    # A port that hangs takes half a minute; few have their turn before.
    assert at[-1] < 300
    assert shortest_pause(contacts) >= PAUSE
    outcomes = {"outcome/http_200": PAGES + 1, "outcome/first_byte_timeout": 40}
    assert outcomes.items() <= stats_of(sites.job).items()


@cases(
    "hang ports pages obey contacts",
    """
    0 |  40 |   5 | 0 | 128
    1 |   1 | 150 | 0 |   8
    """,
    long="""
    0 |   1 | 150 | 1 |   3
    0 |  40 |   1 | 1 | 120
    1 |  40 |   1 | 1 | 128
    0 | 400 |   1 | 1 | 128
    0 |   1 | 150 | 0 |   8
    1 |   1 | 150 | 1 |   3
    """,
)
def test_a_host_of_which_every_port_fails_is_given_up(
    tmp_path, *, hang, ports, pages, obey, contacts
):
    urls = [f"http://a.test:{1000 + n}/{m}" for n in range(ports) for m in range(pages)]
    sites = VirtualSites(tmp_path, {"p.test:80/": html(urls), "a.test:79/": ""}, hang=bool(hang))
    hits = of_host(sites.crawl("http://p.test/", ROBOTSTXT_OBEY=obey, DOWNLOAD_TIMEOUT=60))
    assert len(hits) == contacts
    assert shortest_pause(hits) >= PAUSE
    ended = stats_of(sites.job)
    outcomes = ("connect_refused", "first_byte_timeout", "host_failing")
    assert sum(ended.get(f"outcome/{name}", 0) for name in outcomes) == len(urls)


@each("killed_at", 60, long=(4, 5, 9))
def test_a_kill_while_ports_are_tried_shortens_no_pause(tmp_path, killed_at):
    sites = sites_in(tmp_path, 40, "a.test:8080", "first")
    before = sites.crawl("http://p.test/", killed_at=killed_at)
    contacts = sites.crawl("http://p.test/", began=before[-1].at + PAUSE / 4)
    assert shortest_pause(contacts) >= PAUSE
    pages = {hit.path for hit in contacts if hit.server == "a.test:8080"}
    assert len(pages - {"/robots.txt"}) == PAGES
