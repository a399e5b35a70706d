"""Entries of RSS and Atom feeds."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from holding import gives_way
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.urls import Link, normalize
from webcrawl.urls.extraction.document import MarkupDocument, resolved
from webcrawl.urls.extraction.feeds import iter_feed

URL = "http://a.test/dir/feed"


def links(text, *, limit=100, **more):
    body = text if isinstance(text, bytes) else text.encode()
    found = resolved(iter_feed(MarkupDocument(body, URL, **more)), URL, limit=limit)
    return [link for link in found if link is not None]


def test_rss_2():
    text = """<?xml version="1.0"?><rss version="2.0"><channel><title>Site</title>
        <link>http://a.test/</link><atom:link rel="self" href="http://a.test/feed"/>
        <image><title>Logo</title><url>/logo.png</url><link>http://a.test/logo</link></image>
        <item><title>One &amp;
          two</title><media:title>no</media:title><link>http://a.test/1?a=1&amp;b=2</link>
          <guid>http://a.test/guid</guid><comments>http://a.test/1/comments</comments>
          <description>&lt;a href="/no"&gt;</description></item>
        <item><link> <![CDATA[http://a.test/2?a=1&b=2]]>\n</link><title><![CDATA[<b>Two</b>]]></title>
        </item><item><title>No link</title><guid isPermaLink="false">http://a.test/no</guid></item>
        <item><guid>http://a.test/3</guid></item><item><guid>tag:x</guid></item><item><guid>4711</guid></item><item><title>Last
        </channel></rss>"""
    assert links(text) == [
        Link("http://a.test/1?a=1&b=2", "One & two", "item"),
        Link("http://a.test/2?a=1&b=2", "<b>Two</b>", "item"),
        Link("http://a.test/3", "", "item"),
    ]


def test_rss_1():
    text = """<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel rdf:about="http://a.test/">
        <link>http://a.test/</link><items><rdf:Seq><rdf:li resource="/1"/></rdf:Seq></items>
        </channel>
        <item rdf:about="http://a.test/1"><title>One</title><link>http://a.test/1</link></item>
        </rdf:RDF>"""
    assert links(text) == [Link("http://a.test/1", "One", "item")]


def test_atom():
    text = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/blog/"><title>Blog</title>
        <link href="http://a.test/"/><link rel="self" href="/feed"/><link rel="next" href="?p=2"/>
        <link rel='prev-archive' href='http://a.test/old'></link><link rel=next>
        <entry><link rel="edit" href="/no"/><link rel="alternate" href="1"/><title>One</title>
        </entry><entry xml:base="http://b.test/x/"><link href='2'/><link href='no'/></entry>
        <a10:entry><a10:link href="/3"/></a10:entry></feed>"""
    assert links(text) == [
        Link("http://a.test/blog/?p=2", "", "next"),
        Link("http://a.test/old", "", "prev"),
        Link("http://a.test/blog/1", "One", "item"),
        Link("http://b.test/x/2", "", "item"),
        Link("http://a.test/3", "", "item"),
    ]


def test_long_base_is_ignored_and_does_not_become_part_of_each_link():
    entries = "".join(f"<entry><link href='x{n}'/></entry>" for n in range(5000))
    feed = f"<feed xml:base='/{'é' * 4000}/'>{entries}</feed>"
    tracemalloc.start()
    try:
        urls = [link.url for link in links(feed, limit=5000)]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert urls == [f"http://a.test/dir/x{n}" for n in range(5000)]


def test_items_that_are_not_closed_are_told_apart():
    text = "<item><link>/1</link><title>One<item><link>/2</link><title>Two"
    assert links(text) == [
        Link("http://a.test/1", "One", "item"),
        Link("http://a.test/2", "Two", "item"),
    ]


def test_links_are_bounded():
    items = "".join(
        f"<item><link>/{n % 5}</link><title>{'x ' * 999}</title></item>" for n in range(9)
    )
    assert [link.url[-1] for link in links(items)] == ["0", "1", "2", "3", "4"]
    assert max(len(link.text) for link in links(items)) <= 256
    assert len(links(items, limit=2)) == 2
    assert links(items, limit=0) == []
    assert links(f"<item><link>/{'x' * 9000}</link></item>") == []
    assert links(f"<feed xml:base='/{'x' * 9000}'><item><link>y</link>")[0].url.endswith("/dir/y")


xml_like = st.lists(
    st.sampled_from(
        ["<item>", "</item>", "<entry xml:base='", "<link>", "<link href='", "' rel='", "next",
         "'>", "<guid>", "<title>", "<![CDATA[", "]]>", "<!--", "-->", "&amp;", "/x", "http://b.test/",
         ">", "<", " "]
    )
    | st.text(max_size=3)
).map("".join)  # fmt: skip


@given(xml_like.map(lambda text: text.encode("utf-8", "replace")) | st.binary())
def test_no_bytes_raise_and_all_links_are_normalized(body):
    for link in links(body):
        assert normalize(link.url) == link.url
        assert len(link.text) <= 256


def test_half_a_url_at_the_end_of_what_was_cut_is_left_out():
    text = "<rss><item><link>/1</link></item><item><link>/22"
    assert [link.url[-2:] for link in links(text)] == ["/1", "22"]
    assert [link.url[-2:] for link in links(text, cut=True)] == ["/1"]


def test_compressed_feeds_are_read_up_to_the_bound():
    text = b"<rss><item><link>/1</link></item>" + b" " * 99_999 + b"<item><link>/2</link></item>"
    packed = gzip.compress(text)
    assert len(links(packed)) == 2
    assert len(links(packed, max_bytes=99_999)) == 1


@pytest.mark.parametrize("piece", ["<item>", "<b>", "<link>", "<", "<item><link>/x</link></item>"])
def test_reading_a_feed_never_blocks_the_event_loop(piece):
    body = b"<rss>" + piece.encode() * 40_000
    assert gives_way(lambda: iter_feed(MarkupDocument(body, URL)), secs=0.04)
