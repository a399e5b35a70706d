"""What belongs to the crawl, by server, registered domain and regular expression."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import urls
from text_tables import cases, table

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

FILTERS = {
    "port": port_filter(frozenset()),
    "host_labels": host_labels_filter(10),
    "restrict_to": restrict_filter(
        patterns_from([r"http://[^/]*\.uni-muenchen\.de.*", "https://a/"])
    ),
    "pattern": pattern_filter(patterns_from(["/private/", r"\.cgi\b"])),
}


@cases(
    "name url is_refused",
    """
        port        | http://a.test/          |
        port        | http://a.test:8080/     |
        port        | http://a.test:25/       | refused
        port        | http://a.test:6667/x:80 | refused
        port        | http://a.test/x:25      |
        port        | http://a.test/x://y:25/ |
        port        | http://[::25]/          |
        port        | http://[::1]:25/        | refused
        port        | ftp://a.test:22/        | refused
        port        | gopher://a.test:7070/   |
        port        | http://a:25/            | refused
        port        | ftp://a:25/             | refused
        host_labels | http://a.test/                   |
        host_labels | http://www.a.b.c.d.e.f.co.uk/    |
        host_labels | http://a.b.c.d.e.f.g.h.i.test/   |
        host_labels | http://a.b.c.d.e.f.g.h.i.j.test/ | refused
        host_labels | http://www.www.a.test/           |
        host_labels | http://www.www.www.a.test/       | refused
        host_labels | http://a.a.a/                    | refused
        host_labels | http://1.1.1.1/                  |
        host_labels | http://[2001:db8:1:1:1:1:1:1]/   |
        host_labels | http://localhost/                |
        restrict_to | http://www.uni-muenchen.de/x |
        restrict_to | https://a/                   |
        restrict_to | https://a/x                  | refused
        restrict_to | http://b.test/?http://www.uni-muenchen.de/ | refused
        pattern     | http://a.test/x/private/y    | refused
        pattern     | http://a.test/x.cgi?y        | refused
        pattern     | http://a.test/private        |
    """,
)
def test_each_filter_refuses_its_own(name, url, is_refused):
    """Ports that browsers refuse, hosts that a name server makes up, expressions that match as a
    whole or are found."""
    refusal = FilterChain([FILTERS[name]]).refusal(url, 0)
    assert refusal == (name if is_refused else None)


@cases(
    "allowed bad passing",
    """
        {25, 8080} | {8080} | {"", ":25", ":8080"}
        ()         | {81}   | {"", ":25", ":8080"}
    """,
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


def test_whitelist_is_of_sites_and_may_grow():
    domains = {"a.com", "b.co.uk"}
    chain = FilterChain([whitelist_filter(domains)])
    urls = [
        *("http://www.x.a.com/", "https://news.b.co.uk:81/x", "http://notb.co.uk/"),
        *("http://c.co.uk/", "http://www.alice.github.io/", "http://bob.github.io/"),
    ]

    def passing():
        return [number for number, (_, why) in enumerate(chain.answers(urls, 0)) if why is None]

    assert passing() == [0, 1]
    domains.add("alice.github.io")
    assert passing() == [0, 1, 4]
    domains.add("c.co.uk")
    assert passing() == [0, 1, 3, 4]


def test_nielsen_s_mode_takes_only_links_within_the_page_s_own_domain():
    chain = FilterChain([whitelist_filter({"a.com", "b.com"}), own_domain_filter()])
    assert chain.refusal("http://www.a.com/", 0) is None, "a seed has no page"
    for url, page_host, why in table("""
        http://www.a.com/ | a.com |
        http://a.com/     | a.com |
        http://b.com/     | a.com | own_domain
        http://c.com/     | c.com | whitelist
    """):
        assert chain.refusal(url, 1, page_host) == (why or None), url


def test_each_expression_has_its_own_flags_alternatives_and_groups():
    chain = FilterChain([pattern_filter(patterns_from(["(?i)/ONE/", r"(a|b)\1$", r"(c)\1"]))])
    urls = ["http://x.test/one/", "http://x.test/bb", "http://x.test/cc", "http://x.test/cA"]
    assert [why for _, why in chain.answers(urls, 0)] == ["pattern", "pattern", "pattern", None]


@cases(
    "expressions sentence",
    r"""
        ["("]              | has '\(', which is not valid: missing \)
        ["a", "*"]         | has '\*', which is not valid: nothing to repeat
        ["x{99999999999}"] | which is not valid: the repetition number is too large
        MANY               | has more than 100 regular expressions
    """,
    {"MANY": (MAX_PATTERNS + 1) * ["a"]},
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
