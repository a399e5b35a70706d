"""From pages and seeds to entries, with a real eliminator, real filters and real host ranks."""

from functools import partial
from types import SimpleNamespace

import pytest
import seen_rig
import warc_checks
from disk import full_disk
from text_tables import cases, each

from webcrawl.crawl.links.link_intake import LinkIntake
from webcrawl.crawl.links.submission import MAX_SITEMAPS, LinkRules, LinkSubmitter
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.seeds.seed_reader import Seed
from webcrawl.frontier import Entry, decode
from webcrawl.frontier.entry import FOREIGN
from webcrawl.items import RobotsDirectives
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.urls import HTTP_SCHEMES, Link
from webcrawl.urls.equivalence import Equivalence
from webcrawl.urls.filters.chain import FilterChain, length_filter, scheme_filter
from webcrawl.urls.filters.table import FilterTable
from webcrawl.urls.registered_domain import POLITENESS_KEYS

NOW = 1_800_000_000.0


@pytest.fixture
def eliminator(tmp_path):
    disk = seen_rig.disk_eliminator(
        tmp_path / "seen", cache_size=64, buffer_size=256, log_file_bytes=1 << 20, tells_own=True
    )
    disk.open(None)
    yield disk
    disk.close()


@pytest.fixture
def ranks(tmp_path):
    hosts = HostRanks(path=tmp_path / "ranks")
    hosts.open(None)
    yield hosts
    hosts.close()


@pytest.fixture
def log(eliminator, tmp_path):
    """The file that submitted URLs are written to."""
    (path,) = (tmp_path / "seen").glob("discovered-*.log")
    return path


class Submitter(LinkSubmitter):
    """Submits to an eliminator, and tells what comes out of it. *domains*: of the seeds."""

    def __init__(self, eliminator, ranks, *, max_depth=3, key="host", domains=None, **rules):
        #: Each domain that linked to others, with these.
        self.linked = []
        self.intake = LinkIntake(
            eliminator=eliminator,
            ranks=ranks,
            domains=domains,
            key_of=POLITENESS_KEYS[key],
            on_linked=lambda *of: self.linked.append(of),
        )
        self._eliminator = eliminator
        given = [scheme_filter(HTTP_SCHEMES), length_filter(200)]
        rules = {
            "filters": FilterTable([FilterChain(given, max_depth=max_depth)]),
            "seed_filters": FilterTable([FilterChain(given)]),
            "equivalence": Equivalence(),
            "max_redirects": 3,
            "obeys_nofollow": True,
            "takes_robots_sitemaps": True,
            "follows": True,
            "keeps_cookies": False,
            "kinds_of": lambda _: None,
        } | rules
        super().__init__(sink=self.intake, rules=LinkRules(**rules), clock=lambda: NOW)

    def page(self, *found, chain=b"", score=0, **page):
        """Submit a page that has the links *found*."""
        return self.submit_page(page_of(*found, **page), chain=chain, score=score)

    def redirect(self, target, *, kind="redirect", chain=b"", **page):
        answer = page_of(Link(url=target, kind=kind), **page)
        answer.redirect_target = target
        return self.submit_page(answer, chain=chain)

    def sitemap(self, *names, chain=b"", **page):
        """Submit a sitemap index that names these."""
        return self.page(*(Link(name, kind="sitemap") for name in names), chain=chain, **page)

    def out(self):
        """All new entries, in the order in which the frontier gets them."""
        entries = []
        while self._eliminator.waiting:
            self._eliminator.merge()
            entries += [decode(payload) for payload in self._eliminator.take(100)]
        return entries

    def urls(self):
        return [entry.url for entry in self.out()]


@pytest.fixture
def new(eliminator, ranks):
    """Makes a submitter by other rules."""
    return partial(Submitter, eliminator, ranks)


@pytest.fixture
def links(new):
    return new()


def page_of(*found, **page):
    links = [link if isinstance(link, Link) else Link(url=link) for link in found]
    return warc_checks.page(**{"url": "http://a.test/", "links": links, **page})


def seed(url, rank):
    return Seed(url, rank)


def test_what_may_be_a_soft_error_gives_its_score_and_no_reputation(links):
    for score, name in ((-1, "a"), (0, "b")):
        links.page(f"http://{name}.test/", score=score)
    assert [entry.score for entry in links.out()] == [-1, 0]
    assert [others for _, others in links.linked] == [{"b.test"}]


def test_many_batches_at_once_are_those_one_by_one(links):
    batches = []
    links.sink = SimpleNamespace(submit=batches.append)
    for number in range(3):
        found = [f"http://a{number}.test/{path}" for path in range(number)]
        links.page(*found, "http://same.test/", url=f"http://b{number}.test/")
    assert links.out() == []
    links.intake.submit_all(batches)
    assert [(entry.url, entry.via) for entry in links.out()] == [
        ("http://same.test/", "http://b0.test/"),
        ("http://a1.test/0", "http://b1.test/"),
        ("http://a2.test/0", "http://b2.test/"),
        ("http://a2.test/1", "http://b2.test/"),
    ]
    assert links.intake.submitted == 6
    assert [domain for domain, _ in links.linked] == ["b0.test", "b1.test", "b2.test"]
    links.intake.submit_all([])


def test_the_links_of_a_page_become_entries_one_level_deeper_in_document_order(links):
    links.page("http://b.test/2", Link(url="http://a.test/1", kind="iframe"), depth=1)
    via = "http://a.test/"
    assert links.out() == [
        Entry("http://b.test/2", "b.test", 2, 0, via, "a", 0, NOW, foreign=FOREIGN),
        Entry("http://a.test/1", "a.test", 2, 0, via, "iframe", 0, NOW),
    ]


@each("way", "link", "seed", "Request")
def test_what_its_own_site_names_while_it_is_fetched_for_others_is_not_fetched_twice(links, way):
    name = {
        "link": lambda: links.page("http://b.test/1", url="http://b.test/"),
        "seed": lambda: links.submit_seeds([seed("http://b.test/1", 1)]),
        "Request": lambda: links.intake.submit_entry(
            fp, Entry("http://b.test/1", "b.test", discovered_at=NOW)
        ),
    }[way]
    fp = fingerprint("http://b.test/1")
    links.page("http://b.test/1")
    assert links.urls() == ["http://b.test/1"]
    links.intake.foreign_in_process.add(fp)
    name()
    assert links.urls() == []
    links.intake.foreign_in_process.clear()
    name()
    assert links.urls() == ["http://b.test/1"]


def test_a_page_without_links_writes_nothing(links, eliminator, log):
    before = log.stat().st_size
    links.page()
    links.page("ftp://b.test/refused")
    assert log.stat().st_size == before
    assert eliminator.stats()["seen/submitted"] == 0
    assert links.intake.submitted == 0


def test_the_target_of_a_redirect_stays_on_its_level(links):
    links.redirect("http://b.test/", depth=3)
    (entry,) = links.out()
    assert (entry.depth, entry.kind) == (3, "redirect")
    assert links.refused == {}


def test_three_redirects_may_follow_one_another_and_a_fourth_is_refused(links):
    chain = b""
    for hop in range(3):
        links.redirect(f"http://b.test/{hop + 1}", url=f"http://b.test/{hop}", chain=chain)
        (entry,) = links.out()
        chain = entry.chain
        assert len(chain) == 16 * (hop + 1)
    why = links.redirect("http://b.test/4", url="http://b.test/3", chain=chain)
    assert links.out() == []
    assert links.refused == {"too_many_redirects": 1}
    assert why == "too_many_redirects"


@each("target", "http://b.test/0", "http://b.test/1")
def test_a_redirect_back_to_where_the_chain_has_been_is_a_loop(links, target):
    assert links.redirect("http://b.test/1", url="http://b.test/0") == ""
    (entry,) = links.out()
    assert links.redirect(target, url="http://b.test/1", chain=entry.chain) == "redirect_loop"
    assert links.out() == []
    assert links.refused == {"redirect_loop": 1}


SOURCE, SAME = "http://b.test/?b=2&a=1", "http://b.test/?a=1&b=2"


@each("target", SAME, "http://b.test/?b=2&a=1&utm_source=x")
def test_a_redirect_to_a_url_that_counts_as_the_same_is_followed_all_the_same(links, target):
    links.page(SOURCE)
    links.redirect(target, url=SOURCE)
    assert links.urls() == [SOURCE, target]
    # And once only.
    links.redirect(target, url=SOURCE)
    assert links.out() == []


def test_a_detour_to_a_url_that_counts_as_the_first_is_followed_to_its_end(links):
    cookies = "http://b.test/ok"
    links.page(SOURCE)
    links.redirect(cookies, url=SOURCE)
    _, entry = links.out()
    links.redirect(SAME, url=cookies, chain=entry.chain)
    assert links.urls() == [SAME]


def test_a_meta_refresh_is_followed_to_what_counts_as_the_same_but_not_to_itself(links):
    links.page(SOURCE)
    links.page(Link(url=SOURCE, kind="refresh"), url=SOURCE)
    assert links.urls() == [SOURCE]
    links.page(Link(url=SAME, kind="refresh"), SAME, url=SOURCE)
    assert links.urls() == [SAME]


def test_sitemaps_stay_on_the_level_of_what_names_them_and_their_pages_do_not(links):
    links.page(
        Link("http://a.test/1.xml", kind="sitemap"), Link("http://a.test/p", kind="loc"), depth=2
    )
    assert [(e.url, e.kind, e.depth, len(e.chain)) for e in links.out()] == [
        ("http://a.test/1.xml", "sitemap", 2, 16),
        ("http://a.test/p", "loc", 3, 0),
    ]


def test_three_indexes_may_lead_to_one_another_redirects_aside(links):
    chain = b""
    for n in range(3):
        # A sitemap that has moved is a sitemap still.
        old, new = f"http://a.test/{n}.xml", f"http://a.test/moved{n}.xml"
        links.redirect(new, kind="sitemap", url=old, chain=chain)
        (entry,) = links.out()
        assert entry.kind == "sitemap"
        links.sitemap(f"http://a.test/{n + 1}.xml", url=new, chain=entry.chain)
        (entry,) = links.out()
        chain = entry.chain
        assert len(chain) == 16 * (n + 1)
    links.sitemap("http://a.test/4.xml", url="http://a.test/3.xml", chain=chain)
    assert links.out() == []
    assert links.refused == {"sitemap_nesting": 1}


def test_an_index_that_a_sitemap_redirects_back_to_is_a_loop(links):
    links.sitemap("http://a.test/1.xml", url="http://a.test/index.xml")
    (entry,) = links.out()
    links.redirect("http://a.test/index.xml", url="http://a.test/1.xml", chain=entry.chain)
    assert links.out() == []
    assert links.refused == {"redirect_loop": 1}


def test_sitemaps_of_robots_txt_are_normalized_filtered_and_bounded(new, ranks):
    ranks.add_many([("a.test", 7)])
    links = new(max_depth=1)
    via = "https://a.test/robots.txt"
    named = [
        *("HTTP://A.test:80/x.xml", "http://b.test/y z.xml", "/r.xml", "//["),
        "ftp://a.test/x.xml",
    ]
    links.submit_sitemaps(named, via=via, depth=1)
    assert [(e.url, e.host, e.depth, e.rank, e.via, e.kind) for e in links.out()] == [
        ("http://a.test/x.xml", "a.test", 1, 7, via, "sitemap"),
        ("http://b.test/y%20z.xml", "b.test", 1, 0, via, "sitemap"),
        ("https://a.test/r.xml", "a.test", 1, 7, via, "sitemap"),
    ]
    assert (links.sitemaps, links.refused) == (4, {"scheme": 1})
    links.submit_sitemaps(["http://a.test/z.xml"], via=via, depth=2)
    assert links.refused == {"scheme": 1, "depth": 1}
    links.submit_sitemaps([f"http://a.test/{n}.xml" for n in range(1200)], via=via, depth=0)
    assert links.sitemaps == 5 + MAX_SITEMAPS


def test_what_a_page_asks_not_to_follow_is_refused_by_that_name(links, new):
    one = page_of(Link("http://b.test/1", rel="nofollow"), Link("http://b.test/2", rel="noopener"))
    links.submit_page(one)
    assert links.urls() == ["http://b.test/2"]
    two = page_of("http://b.test/3", Link("http://b.test/4.xml", kind="sitemap"))
    two.robots = RobotsDirectives(nofollow=True)
    links.submit_page(two)
    assert links.out() == []
    assert links.refused == {"nofollow": 3}
    heedless = new(obeys_nofollow=False)
    heedless.submit_page(one)
    heedless.submit_page(two)
    assert len(heedless.out()) == 3


def test_urls_that_count_as_the_same_are_fetched_once_as_they_were_found(links):
    links.page("http://b.test/x?utm_source=mail&b=2&a=1", "http://b.test/x?a=1&b=2")
    assert links.urls() == ["http://b.test/x?utm_source=mail&b=2&a=1"]


def test_within_the_domains_of_the_seeds_others_are_refused(new, tmp_path):
    table = HostRanks(path=tmp_path / "domains")
    table.open(None)
    links = new(filters=FilterTable([]), domains=SeedDomains(table))
    www = "http://www.a.co.uk/"
    links.submit_seeds([seed(www, 1), seed("http://b.com/", 2)])
    found = ["http://x.a.co.uk/", "http://b.com/2"]
    links.page(*found, "http://c.com/", url=www)
    assert links.urls() == [www, "http://b.com/", *found]
    assert (links.refused, links.intake.refused) == ({}, {"whitelist": 1})
    links.page("http://c.com/", url=www)
    assert links.intake.submitted == 4
    assert links.linked == [("a.co.uk", {"b.com"})]
    links.intake.note_linked("b.com", ["x.a.co.uk", "www.a.co.uk", "www.c.com"])
    links.intake.note_linked("b.com", ["c.com"])
    assert links.linked[1:] == [("b.com", {"a.co.uk"})]
    table.close()


def test_a_link_on_a_page_that_was_redirected_to_begins_no_chain(links):
    links.page("http://b.test/", chain=b"12345678")
    (entry,) = links.out()
    assert entry.chain == b""


@cases(
    "key urls hosts",
    """
        domain | ["http://www.b.co.uk/", "http://news.b.co.uk/", "http://10.0.0.1/"]
        | ["b.co.uk", "b.co.uk", "10.0.0.1"]
        host | ["http://b.test:8080/", "http://[2001:db8::1]/", "http://b.test./", "http://B.test/"]
        | ["b.test", "2001:db8::1", "b.test", "b.test"]
    """,
)
def test_hosts_are_politeness_keys(new, key, urls, hosts):
    links = new(key=key)
    links.page(*urls)
    assert [entry.host for entry in links.out()] == hosts


def test_links_within_the_host_take_over_its_rank_and_others_have_their_own(links, ranks):
    ranks.add_many([("a.test", 9), ("b.test", 5)])
    links.page("http://a.test/1", "http://b.test/", "http://unknown.test/", rank=42)
    links.page("http://a.test/2")  # of no rank: the list is asked
    assert [entry.rank for entry in links.out()] == [42, 5, 0, 9]


def test_refused_links_are_counted_by_filter_and_not_submitted(links, eliminator):
    long = "http://b.test/" + "x" * 200
    links.page("mailto:a@b.test", "ftp://b.test/", long, "http://b.test/", depth=2)
    links.page("http://b.test/deep", depth=3)
    assert links.refused == {"scheme": 2, "length": 1, "depth": 1}
    assert links.intake.submitted == eliminator.stats()["seen/submitted"] == 1
    assert links.urls() == ["http://b.test/"]


def test_seeds_are_at_depth_0_and_make_the_ranks_of_their_hosts(links, ranks):
    links.submit_seeds([seed("http://b.test/", 2), seed("https://c.test:8443/x", 7)])
    assert links.out() == [
        Entry("http://b.test/", "b.test", 0, 2, "", "seed", 0, NOW),
        Entry("https://c.test:8443/x", "c.test", 0, 7, "", "seed", 0, NOW),
    ]
    assert (ranks.rank("b.test"), ranks.rank("c.test")) == (2, 7)
    links.page("http://c.test/other", url="http://b.test/", rank=2)
    assert [entry.rank for entry in links.out()] == [7]


def test_a_seed_that_is_met_twice_comes_out_once_with_the_first_rank(links, ranks):
    links.submit_seeds([seed("http://b.test/", 2), seed("http://b.test/", 1)])
    assert [entry.rank for entry in links.out()] == [2]
    assert ranks.rank("b.test") == 1
    assert links.intake.submitted == 2


def test_refused_seeds_are_counted_and_give_no_rank(links, ranks):
    links.submit_seeds([seed("http://b.test/" + "x" * 200, 1)])
    links.submit_seeds([])
    assert links.refused == {"length": 1}
    assert ranks.rank("b.test") == 0
    assert links.out() == []


def test_on_a_full_disk_nothing_of_the_batch_counts(links, eliminator, log):
    with full_disk(log.stat().st_size):
        links.page("http://b.test/")
    assert links.intake.submitted == eliminator.waiting == 0
    links.page("http://b.test/")
    assert links.urls() == ["http://b.test/"]


def test_domains_that_a_page_links_to_are_told_once(links):
    links.page(
        *("http://www.b.com/1", "http://news.b.com/2", "http://c.org/"),
        *("http://shop.a.com/", "ftp://refused.net/"),
        url="http://www.a.com/",
    )
    links.page("http://www.a.com/own", url="http://www.a.com/")
    assert links.linked == [("a.com", {"b.com", "c.org"})]
