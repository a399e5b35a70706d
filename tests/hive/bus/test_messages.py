"""Messages come back as they went, and nothing else is taken for one."""

import contextlib

import msgspec
import pytest
from disk import flipped
from hypothesis import given
from hypothesis import strategies as st
from strategies import entries, examples, urls
from text_tables import cases

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.crawl.links.link_intake import LinkBatch, LinkSource, SeedFacts
from webcrawl.hive.bus.messages import (
    MAX_BYTES,
    EntryMessage,
    LinkedHosts,
    SeedsSent,
    decode,
    encode,
    encode_hosts,
    encode_links,
)
from webcrawl.urls import Link, host_of

_NAMES = st.integers(1, 2**64 - 1)


@st.composite
def batches(draw):
    kinds = st.sampled_from(["a", "a", "a", "img", "redirect"])
    links = draw(st.lists(st.builds(Link, url=urls(), kind=kinds), max_size=5))
    count = len(links)
    seeds = None
    if draw(st.booleans()):
        ranks = st.lists(st.integers(0, 10**9), min_size=count, max_size=count)
        seeds = SeedFacts(draw(ranks), draw(st.lists(urls().map(host_of), max_size=3)))
    depths = st.integers(0, 1000)
    source = LinkSource(
        draw(urls() | st.just("")),
        draw(depths),
        draw(st.integers(0, 10**9)),
        b"chain of 16 byte" * draw(st.integers(0, 3)),
        draw(st.floats(0, 4e9)),
        draw(st.integers(-1, 100)),
    )
    names = draw(st.lists(_NAMES, min_size=count, max_size=count))
    return LinkBatch(links, [host_of(link.url) for link in links], names, source, seeds)


@given(batches())
@examples(100)
def test_links_come_back_as_they_went(batch):
    got = decode(encode_links(batch))
    assert got._replace(fingerprints=list(got.fingerprints)) == batch


@given(entries(), _NAMES | st.none())
@examples(100)
def test_an_entry_comes_back_as_it_went(entry, name):
    assert decode(encode(EntryMessage(entry, name))) == EntryMessage(entry, name)


HOSTS = st.lists(urls().map(host_of), min_size=1, max_size=5)


@given(st.dictionaries(urls().map(host_of), HOSTS, max_size=3))
@examples(100)
def test_hosts_that_domains_link_to_come_back_as_they_went(linked):
    assert decode(encode_hosts(linked)) == LinkedHosts(linked)


def test_hosts_that_one_domain_links_to_are_read_as_earlier_versions_sent_them():
    earlier = msgspec.msgpack.encode([4, "a.test", ["b.test"]])
    assert decode(earlier) == LinkedHosts({"a.test": ["b.test"]})


@cases(
    "domain hosts",
    """
        ""     | ["a.test"]
        a.test | []
        a.test | [""]
    """,
)
def test_links_from_or_to_no_host_are_refused(domain, hosts):
    with pytest.raises(UndecodableError):
        decode(encode_hosts({domain: hosts}))


def test_the_end_of_the_seeds_comes_back():
    assert decode(encode(SeedsSent())) == SeedsSent()


def test_text_and_relation_of_a_link_do_not_travel():
    source = LinkSource("http://b.test/", 1, 0, b"", 1.0)
    link = Link("http://a.test/", text="here", rel="next")
    got = decode(encode_links(LinkBatch([link], ["a.test"], [1], source)))
    assert got.links == [Link("http://a.test/")]


@given(st.binary(max_size=64))
@examples(100)
def test_bytes_that_are_no_message_are_refused(data):
    with pytest.raises(UndecodableError):
        decode(data)


@given(
    batches().map(encode_links) | entries().map(lambda one: encode(EntryMessage(one, 1))),
    st.data(),
)
@examples(100)
def test_a_message_with_a_byte_changed_or_cut_raises_nothing_else(message, data):
    at = data.draw(st.integers(0, len(message) - 1))
    with pytest.raises(UndecodableError):
        decode(message[:at])
    for bit in range(8):
        with contextlib.suppress(UndecodableError):
            decode(flipped(message, at, 1 << bit))


LINKS = [
    *(1, ["http://a.test/"], [], (1).to_bytes(8, "little"), "http://b.test/", 1, 0, 0, 0),
    *(b"", 1.0),
]


def test_the_links_that_the_next_tests_damage_are_good():
    assert isinstance(decode(msgspec.msgpack.encode(LINKS)), LinkBatch)


@cases(
    "field value",
    r"""
        0  | 5
        1  | ["http://a.test/", "http://c.test/"]
        1  | ["of no host"]
        2  | ["a", "a"]
        3  | b"\0\0\0\0\0\0\0\0"
        3  | b"\0\0\0\0\0\0\0"
        5  | -1
        6  | 0x40_0000_0000_0000
        9  | b"half a hop"
        10 | NAN
        10 | -1.0
    """,
    {"NAN": float("nan")},
)
def test_links_that_cannot_be_are_refused(field, value):
    damaged = [*LINKS[:field], value, *LINKS[field + 1 :]]
    with pytest.raises(UndecodableError):
        decode(msgspec.msgpack.encode(damaged))


@pytest.mark.parametrize(
    "message",
    [
        msgspec.msgpack.encode([*LINKS, [1, 2], []]),
        msgspec.msgpack.encode([2, ["nowhere", "a.test"]]),
        encode(SeedsSent()) + bytes(MAX_BYTES),
    ],
)
def test_what_is_no_message_is_refused(message):
    with pytest.raises(UndecodableError):
        decode(message)


def test_fields_of_later_versions_are_skipped():
    message = msgspec.msgpack.encode([*LINKS, None, [], 0, [], "a later field"])
    assert isinstance(decode(message), LinkBatch)
