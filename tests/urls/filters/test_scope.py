"""What belongs to the crawl, by server, registered domain and regular expression."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import urls

from webcrawl.urls import SCHEMES
from webcrawl.urls.filters.chain import FilterChain, scheme_filter
from webcrawl.urls.filters.scope import (
    BAD_PORTS,
    MAX_PATTERNS,
    host_labels_filter,
    own_domain_filter,
    pattern_filter,
    patterns_from,
    port_filter,
    restrict_filter,
    whitelist_filter,
)


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("http://a.test/", None),
        ("http://a.test:8080/", None),
        ("http://a.test:25/", "port"),
        ("http://a.test:6667/x:80", "port"),
        ("http://a.test/x:25", None),
        ("http://a.test/x://y:25/", None),
        ("http://[::25]/", None),
        ("http://[::1]:25/", "port"),
        ("ftp://a.test:22/", "port"),
        ("gopher://a.test:7070/", None),
        ("http://a:25/", "port"),
        ("ftp://a:25/", "port"),
    ],
)
def test_ports_that_browsers_refuse_are_refused(url, refused):
    assert FilterChain([port_filter(frozenset())]).refusal(url, 0) == refused


@pytest.mark.parametrize(
    ("allowed", "bad", "passing"),
    [({25, 8080}, {8080}, {"", ":25", ":8080"}), ((), {81}, {"", ":25", ":8080"})],
)
def test_ports_may_be_allowed_and_bad(allowed, bad, passing):
    chain = FilterChain([port_filter(frozenset(allowed), frozenset(bad))])
    for port in ("", ":25", ":81", ":8080"):
        why = None if port in passing else "port"
        assert chain.refusal(f"http://a.test{port}/", 0) == why


def test_bad_ports_are_the_fetch_standard_s_and_eight_of_databases():
    assert {25, 110, 143, 6000, 10080} <= BAD_PORTS
    assert not {80, 443, 70, 7070, 8000, 8080, 8443} & BAD_PORTS
    assert len(BAD_PORTS) == 83 + 8


@pytest.mark.parametrize(
    ("host", "refused"),
    [
        ("a.test", None),
        ("www.a.b.c.d.e.f.co.uk", None),
        ("a.b.c.d.e.f.g.h.i.test", None),
        ("a.b.c.d.e.f.g.h.i.j.test", "host_labels"),
        ("www.www.a.test", None),
        ("www.www.www.a.test", "host_labels"),
        ("a.a.a", "host_labels"),
        ("1.1.1.1", None),
        ("[2001:db8:1:1:1:1:1:1]", None),
        ("localhost", None),
    ],
)
def test_hosts_that_a_name_server_makes_up_are_refused(host, refused):
    assert FilterChain([host_labels_filter(10)]).refusal(f"http://{host}/", 0) == refused


def test_whitelist_is_of_sites_and_may_grow():
    domains = {"a.com", "b.co.uk"}
    chain = FilterChain([whitelist_filter(domains)])
    assert chain.refusal("http://www.x.a.com/", 0) is None
    assert chain.refusal("https://news.b.co.uk:81/x", 0) is None
    assert chain.refusal("http://c.co.uk/", 0) == "whitelist"
    assert chain.refusal("http://notb.co.uk/", 0) == "whitelist"
    assert chain.refusal("http://bob.github.io/", 0) == "whitelist"
    domains.add("alice.github.io")
    assert chain.refusal("http://www.alice.github.io/", 0) is None
    assert chain.refusal("http://bob.github.io/", 0) == "whitelist"
    domains.add("c.co.uk")
    assert chain.refusal("http://c.co.uk/", 0) is None


def test_nielsen_s_mode_takes_only_links_within_the_page_s_own_domain():
    chain = FilterChain([whitelist_filter({"a.com", "b.com"}), own_domain_filter()])
    assert chain.refusal("http://www.a.com/", 0) is None, "a seed has no page"
    assert chain.refusal("http://www.a.com/", 1, "a.com") is None
    assert chain.refusal("http://a.com/", 1, "a.com") is None
    assert chain.refusal("http://b.com/", 1, "a.com") == "own_domain"
    assert chain.refusal("http://c.com/", 1, "c.com") == "whitelist"


def test_restriction_is_to_what_an_expression_matches_as_a_whole():
    chain = FilterChain(
        [restrict_filter(patterns_from([r"http://[^/]*\.uni-muenchen\.de.*", "https://a/"]))]
    )
    assert chain.refusal("http://www.uni-muenchen.de/x", 0) is None
    assert chain.refusal("https://a/", 0) is None
    assert chain.refusal("https://a/x", 0) == "restrict_to"
    assert chain.refusal("http://b.test/?http://www.uni-muenchen.de/", 0) == "restrict_to"


def test_expression_refuses_where_it_is_found():
    chain = FilterChain([pattern_filter(patterns_from(["/private/", r"\.cgi\b"]))])
    assert chain.refusal("http://a.test/x/private/y", 0) == "pattern"
    assert chain.refusal("http://a.test/x.cgi?y", 0) == "pattern"
    assert chain.refusal("http://a.test/private", 0) is None


def test_each_expression_has_its_own_flags_alternatives_and_groups():
    chain = FilterChain([pattern_filter(patterns_from(["(?i)/ONE/", r"(a|b)\1$", r"(c)\1"]))])
    urls = ["http://x.test/one/", "http://x.test/bb", "http://x.test/cc", "http://x.test/cA"]
    assert [why for _, why in chain.answers(urls, 0)] == ["pattern", "pattern", "pattern", None]


@pytest.mark.parametrize(
    ("expressions", "sentence"),
    [
        (["("], r"has '\(', no regular expression: missing \)"),
        (["a", "*"], r"has '\*', no regular expression: nothing to repeat"),
        (["x{99999999999}"], "no regular expression: the repetition number is too large"),
        ((MAX_PATTERNS + 1) * ["a"], "has more than 100 regular expressions"),
    ],
)
def test_what_is_no_expression_is_told(expressions, sentence):
    with pytest.raises(ValueError, match=sentence):
        patterns_from(expressions)


@given(st.text(st.characters(codec=None)) | urls(), st.text(st.characters(codec=None), max_size=9))
def test_no_text_makes_a_filter_raise(url, page_host):
    chain = FilterChain(
        [
            scheme_filter(SCHEMES),
            port_filter(frozenset()),
            host_labels_filter(3),
            whitelist_filter({"a.test"}),
            own_domain_filter(),
        ]
    )
    assert chain.refusal(url, 1, page_host) == chain.refusal(url, 1, page_host)
