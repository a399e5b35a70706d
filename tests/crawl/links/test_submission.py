"""From pages and seeds to entries, with a real eliminator, real filters and real host ranks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import seen_rig
from disk import file_size_limit

from webcrawl.crawl.links.link_intake import LinkIntake
from webcrawl.crawl.links.submission import MAX_SITEMAPS, LinkRules, LinkSubmitter
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.seeds.seed_reader import Seed
from webcrawl.frontier import Entry, decode
from webcrawl.items import Page, RobotsDirectives
from webcrawl.storage.record_log import read_records
from webcrawl.urls import HTTP_SCHEMES, Link
from webcrawl.urls.equivalence import Equivalence
from webcrawl.urls.filters.chain import FilterChain, length_filter, scheme_filter
from webcrawl.urls.filters.table import FilterTable
from webcrawl.urls.registered_domain import POLITENESS_KEYS

NOW = 1_800_000_000.0


@pytest.fixture
def eliminator(tmp_path):
    disk = seen_rig.disk_eliminator(
        tmp_path / "seen", cache_size=64, buffer_size=256, log_file_bytes=1 << 20
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


def submitter(
    eliminator,
    ranks,
    *,
    max_bytes=200,
    max_depth=3,
    key="host",
    filters=None,
    domains=None,
    obeys_nofollow=True,
    linked=lambda *_: None,
):
    key_of = POLITENESS_KEYS[key]
    intake = LinkIntake(
        eliminator=eliminator, ranks=ranks, domains=domains, key_of=key_of, linked=linked
    )
    given = [scheme_filter(HTTP_SCHEMES), length_filter(max_bytes)]
    rules = LinkRules(
        filters=filters or FilterTable([FilterChain(given, max_depth=max_depth)]),
        seed_filters=FilterTable([FilterChain(given)]),
        comparison_form=Equivalence().comparison_form,
        max_redirects=3,
        obeys_nofollow=obeys_nofollow,
    )
    made = LinkSubmitter(sink=intake, rules=rules, clock=lambda: NOW)
    made.intake = intake
    return made


@pytest.fixture
def links(eliminator, ranks):
    return submitter(eliminator, ranks)


def page(*found, url="http://a.test/", depth=0, rank=0):
    return Page(
        url=url,
        status=200,
        headers=[],
        body=b"",
        wire_body=b"",
        fetched_at=NOW,
        depth=depth,
        rank=rank,
        links=[link if isinstance(link, Link) else Link(url=link) for link in found],
    )


def redirect(target, *, url, depth=0):
    answer = page(Link(url=target, kind="redirect"), url=url, depth=depth)
    answer.redirect_target = target
    return answer


def seed(url, rank):
    return Seed(url, rank, "seeds.csv", rank)


def out(eliminator):
    """All new entries, in the order in which the frontier gets them."""
    entries = []
    while eliminator.waiting:
        eliminator.merge()
        entries += [decode(payload) for payload in eliminator.take(100)]
    return entries


def test_what_may_be_a_soft_error_gives_its_score_and_no_reputation(eliminator, ranks):
    told = []
    linked = submitter(eliminator, ranks, linked=lambda *domains: told.append(domains))
    for score, name in ((-1, "a"), (0, "b")):
        linked.submit_page(page(Link(f"http://{name}.test/")), score=score)
    assert [entry.score for entry in out(eliminator)] == [-1, 0]
    assert [others for _, others in told] == [{"b.test"}]


def test_many_batches_at_once_are_those_one_by_one(eliminator, ranks):
    told = []
    linked = submitter(eliminator, ranks, linked=lambda *domains: told.append(domains))
    batches = []
    linked._sink = SimpleNamespace(submit=batches.append)
    for number in range(3):
        found = [Link(f"http://a{number}.test/{path}") for path in range(number)]
        linked.submit_page(page(*found, Link("http://same.test/"), url=f"http://b{number}.test/"))
    linked.intake.submit_all(batches)
    assert [(entry.url, entry.via) for entry in out(eliminator)] == [
        ("http://same.test/", "http://b0.test/"),
        ("http://a1.test/0", "http://b1.test/"),
        ("http://a2.test/0", "http://b2.test/"),
        ("http://a2.test/1", "http://b2.test/"),
    ]
    assert linked.intake.submitted == 6
    assert [domain for domain, _ in told] == ["b0.test", "b1.test", "b2.test"]
    linked.intake.submit_all([])


def test_the_links_of_a_page_become_entries_one_level_deeper_in_document_order(links, eliminator):
    links.submit_page(
        page("http://b.test/2", Link(url="http://a.test/1", kind="iframe"), depth=1, rank=0)
    )
    assert out(eliminator) == [
        Entry("http://b.test/2", "b.test", 2, 0, "http://a.test/", "a", 0, NOW),
        Entry("http://a.test/1", "a.test", 2, 0, "http://a.test/", "iframe", 0, NOW),
    ]


def test_a_page_is_one_batch_in_the_url_log(links, eliminator, tmp_path):
    urls = [f"http://b.test/{n}" for n in range(50)]
    links.submit_page(page(*urls))
    (log,) = (tmp_path / "seen").glob("discovered-*.log")
    assert len(list(read_records(log))) == 1
    assert [entry.url for entry in out(eliminator)] == urls


def test_a_page_without_links_writes_nothing(links, eliminator, tmp_path):
    (log,) = (tmp_path / "seen").glob("discovered-*.log")
    before = log.stat().st_size
    links.submit_page(page())
    links.submit_page(page("ftp://b.test/refused"))
    assert log.stat().st_size == before
    assert eliminator.stats()["seen/submitted"] == 0
    assert links.intake.submitted == 0


def test_the_target_of_a_redirect_stays_on_its_level(links, eliminator):
    links.submit_page(redirect("http://b.test/", url="http://a.test/", depth=3))
    (entry,) = out(eliminator)
    assert (entry.depth, entry.kind) == (3, "redirect")
    assert links.refused == {}


def test_three_redirects_may_follow_one_another_and_a_fourth_is_refused(links, eliminator):
    chain = b""
    for hop in range(3):
        links.submit_page(
            redirect(f"http://b.test/{hop + 1}", url=f"http://b.test/{hop}"), chain=chain
        )
        (entry,) = out(eliminator)
        chain = entry.chain
        assert len(chain) == 16 * (hop + 1)
    why = links.submit_page(redirect("http://b.test/4", url="http://b.test/3"), chain=chain)
    assert out(eliminator) == []
    assert links.refused == {"too_many_redirects": 1}
    assert why == "too_many_redirects"


@pytest.mark.parametrize("target", ["http://b.test/0", "http://b.test/1"])
def test_a_redirect_back_to_where_the_chain_has_been_is_a_loop(links, eliminator, target):
    assert links.submit_page(redirect("http://b.test/1", url="http://b.test/0")) == ""
    (entry,) = out(eliminator)
    why = links.submit_page(redirect(target, url="http://b.test/1"), chain=entry.chain)
    assert why == "redirect_loop"
    assert out(eliminator) == []
    assert links.refused == {"redirect_loop": 1}


@pytest.mark.parametrize(
    "target", ["http://b.test/?a=1&b=2", "http://b.test/?b=2&a=1&utm_source=x"]
)
def test_a_redirect_to_a_url_that_counts_as_the_same_is_followed_all_the_same(
    links, eliminator, target
):
    source = "http://b.test/?b=2&a=1"
    links.submit_page(page(source))
    links.submit_page(redirect(target, url=source))
    assert [entry.url for entry in out(eliminator)] == [source, target]
    # And once only.
    links.submit_page(redirect(target, url=source))
    assert out(eliminator) == []


def test_a_detour_to_a_url_that_counts_as_the_first_is_followed_to_its_end(links, eliminator):
    source, cookies, target = "http://b.test/?b=2&a=1", "http://b.test/ok", "http://b.test/?a=1&b=2"
    links.submit_page(page(source))
    links.submit_page(redirect(cookies, url=source))
    _, entry = out(eliminator)
    links.submit_page(redirect(target, url=cookies), chain=entry.chain)
    assert [entry.url for entry in out(eliminator)] == [target]


def test_a_meta_refresh_to_a_url_that_counts_as_the_same_is_followed(links, eliminator):
    source, target = "http://b.test/?b=2&a=1", "http://b.test/?a=1&b=2"
    links.submit_page(page(source))
    links.submit_page(page(Link(url=target, kind="refresh"), target, url=source))
    assert [entry.url for entry in out(eliminator)] == [source, target]


def test_a_page_that_loads_itself_again_is_fetched_once(links, eliminator):
    source = "http://b.test/?b=2&a=1"
    links.submit_page(page(source))
    links.submit_page(page(Link(url=source, kind="refresh"), url=source))
    assert [entry.url for entry in out(eliminator)] == [source]


def sitemap(*names, url, kind="sitemap", **more):
    return page(*(Link(name, kind="sitemap") for name in names), url=url, **more)


def test_sitemaps_stay_on_the_level_of_what_names_them_and_their_pages_do_not(links, eliminator):
    index = sitemap("http://a.test/1.xml", url="http://a.test/index.xml", depth=2)
    index.links.append(Link("http://a.test/p", kind="loc"))
    links.submit_page(index)
    entries = out(eliminator)
    assert [(e.url, e.kind, e.depth) for e in entries] == [
        ("http://a.test/1.xml", "sitemap", 2),
        ("http://a.test/p", "loc", 3),
    ]
    assert [len(e.chain) for e in entries] == [16, 0]


def test_three_indexes_may_lead_to_one_another_redirects_aside(links, eliminator):
    chain = b""
    for n in range(3):
        # A sitemap that has moved is a sitemap still.
        moved = redirect(f"http://a.test/moved{n}.xml", url=f"http://a.test/{n}.xml")
        moved.links[0].kind = "sitemap"
        links.submit_page(moved, chain=chain)
        (entry,) = out(eliminator)
        assert entry.kind == "sitemap"
        links.submit_page(sitemap(f"http://a.test/{n + 1}.xml", url=entry.url), chain=entry.chain)
        (entry,) = out(eliminator)
        chain = entry.chain
        assert len(chain) == 16 * (n + 1)
    links.submit_page(sitemap("http://a.test/4.xml", url="http://a.test/3.xml"), chain=chain)
    assert out(eliminator) == []
    assert links.refused == {"sitemap_nesting": 1}


def test_an_index_that_a_sitemap_redirects_back_to_is_a_loop(links, eliminator):
    links.submit_page(sitemap("http://a.test/1.xml", url="http://a.test/index.xml"))
    (entry,) = out(eliminator)
    links.submit_page(
        redirect("http://a.test/index.xml", url="http://a.test/1.xml"), chain=entry.chain
    )
    assert out(eliminator) == []
    assert links.refused == {"redirect_loop": 1}


def test_sitemaps_of_robots_txt_are_normalized_filtered_and_bounded(eliminator, ranks, tmp_path):
    ranks.add_many([("a.test", 7)])
    links = submitter(eliminator, ranks, max_depth=1)
    via = "https://a.test/robots.txt"
    named = [
        "HTTP://A.test:80/x.xml",
        "http://b.test/y z.xml",
        "/r.xml",
        "//[",
        "ftp://a.test/x.xml",
    ]
    links.submit_sitemaps(named, via=via, depth=1)
    assert [(e.url, e.host, e.depth, e.rank, e.via, e.kind) for e in out(eliminator)] == [
        ("http://a.test/x.xml", "a.test", 1, 7, via, "sitemap"),
        ("http://b.test/y%20z.xml", "b.test", 1, 0, via, "sitemap"),
        ("https://a.test/r.xml", "a.test", 1, 7, via, "sitemap"),
    ]
    assert (links.sitemaps, links.refused) == (4, {"scheme": 1})
    links.submit_sitemaps(["http://a.test/z.xml"], via=via, depth=2)
    assert links.refused == {"scheme": 1, "depth": 1}
    many = [f"http://a.test/{n}.xml" for n in range(1200)]
    links.submit_sitemaps(many, via=via, depth=0)
    assert links.sitemaps == 5 + MAX_SITEMAPS


def test_what_a_page_asks_not_to_follow_is_refused_by_that_name(links, eliminator, ranks):
    one = page(Link("http://b.test/1", rel="nofollow"), Link("http://b.test/2", rel="noopener"))
    links.submit_page(one)
    assert [entry.url for entry in out(eliminator)] == ["http://b.test/2"]
    two = page("http://b.test/3", Link("http://b.test/4.xml", kind="sitemap"))
    two.robots = RobotsDirectives(nofollow=True)
    links.submit_page(two)
    assert out(eliminator) == []
    assert links.refused == {"nofollow": 3}
    heedless = submitter(eliminator, ranks, obeys_nofollow=False)
    heedless.submit_page(one)
    heedless.submit_page(two)
    assert len(out(eliminator)) == 3


def test_some_of_the_links_of_a_page_can_be_submitted_by_themselves(links, eliminator):
    one = page("http://b.test/1", "http://b.test/2", "http://b.test/3")
    links.submit_page(one, one.links[1:2])
    assert [entry.url for entry in out(eliminator)] == ["http://b.test/2"]


def test_urls_that_count_as_the_same_are_fetched_once_as_they_were_found(links, eliminator):
    links.submit_page(page("http://b.test/x?utm_source=mail&b=2&a=1", "http://b.test/x?a=1&b=2"))
    assert [entry.url for entry in out(eliminator)] == ["http://b.test/x?utm_source=mail&b=2&a=1"]


def test_within_the_domains_of_the_seeds_others_are_refused(eliminator, ranks, tmp_path):
    table = HostRanks(path=tmp_path / "domains")
    table.open(None)
    domains = SeedDomains(table)
    told: list[tuple[str, set[str]]] = []
    links = submitter(
        eliminator,
        ranks,
        filters=FilterTable([]),
        domains=domains,
        linked=lambda *of: told.append(of),
    )
    links.submit_seeds([seed("http://www.a.co.uk/", 1), seed("http://b.com/", 2)])
    links.submit_page(
        page("http://x.a.co.uk/", "http://b.com/2", "http://c.com/", url="http://www.a.co.uk/")
    )
    assert [entry.url for entry in out(eliminator)] == [
        "http://www.a.co.uk/",
        "http://b.com/",
        "http://x.a.co.uk/",
        "http://b.com/2",
    ]
    assert (links.refused, links.intake.refused) == ({}, {"whitelist": 1})
    links.submit_page(page("http://c.com/", url="http://www.a.co.uk/"))
    assert links.intake.submitted == 4
    assert told == [("a.co.uk", {"b.com"})]
    links.intake.note_linked("b.com", ["x.a.co.uk", "www.a.co.uk", "www.c.com"])
    links.intake.note_linked("b.com", ["c.com"])
    assert told[1:] == [("b.com", {"a.co.uk"})]
    table.close()


def test_a_link_on_a_page_that_was_redirected_to_begins_no_chain(links, eliminator):
    links.submit_page(page("http://b.test/"), chain=b"12345678")
    (entry,) = out(eliminator)
    assert entry.chain == b""


def test_with_the_domain_as_key_hosts_of_one_domain_share_a_queue(eliminator, ranks):
    links = submitter(eliminator, ranks, key="domain")
    links.submit_page(page("http://www.b.co.uk/", "http://news.b.co.uk/", "http://10.0.0.1/"))
    assert [entry.host for entry in out(eliminator)] == ["b.co.uk", "b.co.uk", "10.0.0.1"]


def test_a_link_that_was_submitted_before_comes_out_once(links, eliminator):
    links.submit_page(page("http://b.test/", "http://b.test/1"))
    links.submit_page(page("http://b.test/1", "http://b.test/2", url="http://c.test/"))
    assert [entry.url for entry in out(eliminator)] == [
        "http://b.test/",
        "http://b.test/1",
        "http://b.test/2",
    ]
    links.submit_page(page("http://b.test/", "http://b.test/2"))
    assert out(eliminator) == []
    assert links.intake.submitted == 6


def test_links_within_the_host_take_over_its_rank_and_others_have_their_own(
    links, eliminator, ranks
):
    ranks.add_many([("b.test", 5)])
    links.submit_page(
        page("http://a.test/1", "http://b.test/", "http://unknown.test/", rank=42),
    )
    assert [(e.host, e.rank) for e in out(eliminator)] == [
        ("a.test", 42),
        ("b.test", 5),
        ("unknown.test", 0),
    ]


def test_a_page_of_no_rank_asks_the_list_for_its_own_host_too(links, eliminator, ranks):
    ranks.add_many([("a.test", 9)])
    links.submit_page(page("http://a.test/1", rank=0))
    assert [e.rank for e in out(eliminator)] == [9]


def test_refused_links_are_counted_by_filter_and_not_submitted(links, eliminator):
    long = "http://b.test/" + "x" * 200
    links.submit_page(page("mailto:a@b.test", "ftp://b.test/", long, "http://b.test/", depth=2))
    links.submit_page(page("http://b.test/deep", depth=3))
    assert links.refused == {"scheme": 2, "length": 1, "depth": 1}
    assert links.intake.submitted == 1
    assert eliminator.stats()["seen/submitted"] == 1
    assert [entry.url for entry in out(eliminator)] == ["http://b.test/"]


def test_seeds_are_at_depth_0_and_make_the_ranks_of_their_hosts(links, eliminator, ranks):
    links.submit_seeds([seed("http://b.test/", 2), seed("https://c.test:8443/x", 7)])
    assert out(eliminator) == [
        Entry("http://b.test/", "b.test", 0, 2, "", "seed", 0, NOW),
        Entry("https://c.test:8443/x", "c.test", 0, 7, "", "seed", 0, NOW),
    ]
    assert (ranks.rank("b.test"), ranks.rank("c.test")) == (2, 7)
    links.submit_page(page("http://c.test/other", url="http://b.test/", rank=2))
    assert [e.rank for e in out(eliminator)] == [7]


def test_a_seed_that_is_met_twice_comes_out_once_with_the_first_rank(links, eliminator, ranks):
    links.submit_seeds([seed("http://b.test/", 2), seed("http://b.test/", 1)])
    assert [e.rank for e in out(eliminator)] == [2]
    assert ranks.rank("b.test") == 1
    assert links.intake.submitted == 2


def test_refused_seeds_are_counted_and_give_no_rank(links, eliminator, ranks):
    long = "http://b.test/" + "x" * 200
    links.submit_seeds([seed(long, 1)])
    links.submit_seeds([])
    assert links.refused == {"length": 1}
    assert ranks.rank("b.test") == 0
    assert eliminator.stats()["seen/submitted"] == 0


def test_a_batch_is_on_disk_when_the_call_returns(links, ranks, eliminator, tmp_path):
    links.submit_seeds([seed("http://b.test/", 2)])
    links.submit_page(page("http://c.test/"))
    # As after kill -9: nothing was closed, nothing is in a snapshot.
    restarted = seen_rig.disk_eliminator(tmp_path / "seen", cache_size=64, buffer_size=256)
    restarted.open(None)
    assert [entry.url for entry in out(restarted)] == ["http://b.test/", "http://c.test/"]
    restarted.close()


def test_on_a_full_disk_nothing_of_the_batch_counts(links, eliminator, tmp_path):
    (log,) = (tmp_path / "seen").glob("discovered-*.log")
    with file_size_limit(log.stat().st_size), pytest.raises(OSError, match="too large"):
        links.submit_page(page("http://b.test/"))
    assert links.intake.submitted == 0
    assert eliminator.waiting == 0
    links.submit_page(page("http://b.test/"))
    assert [entry.url for entry in out(eliminator)] == ["http://b.test/"]


def test_hosts_are_politeness_keys(links, eliminator):
    links.submit_page(
        page("http://b.test:8080/", "http://[2001:db8::1]/", "http://b.test./", "http://B.test/")
    )
    assert [e.host for e in out(eliminator)] == ["b.test", "2001:db8::1", "b.test", "b.test"]


def test_domains_that_a_page_links_to_are_told_once(eliminator, ranks):
    told = []
    links = submitter(eliminator, ranks, linked=lambda *of: told.append(of))
    links.submit_page(
        page(
            *("http://www.b.com/1", "http://news.b.com/2", "http://c.org/"),
            *("http://shop.a.com/", "ftp://refused.net/"),
            url="http://www.a.com/",
        )
    )
    links.submit_page(page("http://www.a.com/own", url="http://www.a.com/"))
    assert told == [("a.com", {"b.com", "c.org"})]
