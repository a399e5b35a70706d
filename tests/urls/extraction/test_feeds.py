"""Entries of RSS and Atom feeds."""

import gzip
import tracemalloc

from text_tables import shown

from webcrawl.urls.extraction.document import MarkupDocument, resolve_links
from webcrawl.urls.extraction.feeds import iter_feed

URL = "http://a.test/dir/feed"


def links(text, *, limit=100, **more):
    body = text if isinstance(text, bytes) else text.encode()
    found = resolve_links(iter_feed(MarkupDocument(body, URL, **more)), URL, limit=limit)
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
    assert shown(links(text)) == ("item /1?a=1&b=2 One & two, item /2?a=1&b=2 <b>Two</b>, item /3")


def test_rss_1():
    text = """<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel rdf:about="http://a.test/">
        <link>http://a.test/</link><items><rdf:Seq><rdf:li resource="/1"/></rdf:Seq></items>
        </channel>
        <item rdf:about="http://a.test/1"><title>One</title><link>http://a.test/1</link></item>
        </rdf:RDF>"""
    assert shown(links(text)) == "item /1 One"


def test_atom():
    text = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/blog/"><title>Blog</title>
        <link href="http://a.test/"/><link rel="self" href="/feed"/><link rel="next" href="?p=2"/>
        <link rel='prev-archive' href='http://a.test/old'></link><link rel=next>
        <entry><link rel="edit" href="/no"/><link rel="alternate" href="1"/><title>One</title>
        </entry><entry xml:base="http://b.test/x/"><link href='2'/><link href='no'/></entry>
        <a10:entry><a10:link href="/3"/></a10:entry></feed>"""
    assert shown(links(text)) == (
        "next /blog/?p=2, prev /old, item /blog/1 One, item http://b.test/x/2, item /3"
    )


def test_xml_base_is_relative_to_that_of_the_element_around_it():
    text = """<feed xml:base="http://b.test/one/"><link rel="next" href="p2" xml:base="pages/"/>
        <link rel="prev" href="p0"/>
        <entry xml:base="two/"><link href="1"/></entry>
        <entry xml:base="/three/"><link href="2" xml:base="four/"/></entry>
        <entry xml:base="http://c.test/"><link href="3" xml:base="five/six"/></entry>
        <entry><link href="4" xml:base="../"/></entry><entry><link href="5"/></entry></feed>"""
    paths = "next one/pages/p2, prev one/p0, item one/two/1, item three/four/2"
    expected = f"{paths}, item C/five/3, item 4, item one/5"
    found = shown(links(text)).replace("http://b.test/", "").replace("http://c.test/", "C/")
    assert found == expected


def test_links_in_the_source_and_in_the_content_of_an_entry_are_not_its_own():
    source = (
        "<source><title>Other</title><link href='/other'/><guid>http://a.test/g</guid></source>"
    )
    xhtml = "<content type='xhtml'><div><link href='/style'/><title>x</title>{}</div></content>"
    text = f"""<feed><entry>{source}<link href="/1"/><title>One</title></entry>
        <entry>{xhtml.format("<source src='x'/>")}<link href="/2"/></entry>
        <entry><content src="/c"/><summary/><source/><link href="/3"/></entry>
        <entry><summary type="xhtml"><link href="/no"/></summary></entry>
        <entry><content><link href="/no"/><entry><link href="/4"/></entry>
        <item><source url="/rss">Other</source><content:encoded>x</content:encoded>
        <media:content url="/v"><link>/5</link></item></feed>"""
    assert shown(links(text)) == "item /1 One, item /2, item /3, item /4, item /5"


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
    assert shown(links(text)) == "item /1 One, item /2 Two"


def test_links_are_bounded():
    items = "".join(
        f"<item><link>/{n % 5}</link><title>{'x ' * 999}</title></item>" for n in range(9)
    )
    assert "".join(link.url[-1] for link in links(items)) == "01234"
    assert max(len(link.text) for link in links(items)) <= 256
    assert len(links(items, limit=2)) == 2
    assert links(items, limit=0) == []
    assert links(f"<item><link>/{'x' * 9000}</link></item>") == []
    assert links(f"<feed xml:base='/{'x' * 9000}'><item><link>y</link>")[0].url.endswith("/dir/y")


def test_half_a_url_at_the_end_of_what_was_cut_is_left_out():
    text = "<rss><item><link>/1</link></item><item><link>/22"
    assert shown(links(text)) == "item /1, item /22"
    assert shown(links(text, cut=True)) == "item /1"


def test_compressed_feeds_are_read_up_to_the_bound():
    text = b"<rss><item><link>/1</link></item>" + b" " * 99_999 + b"<item><link>/2</link></item>"
    packed = gzip.compress(text)
    assert len(links(packed)) == 2
    assert len(links(packed, max_bytes=99_999)) == 1


def test_updated_is_when_an_entry_has_changed():
    text = """<feed><updated>2026-11-01T00:00:00Z</updated>
        <entry><link href="/1"/><updated> 2026-11-02T10:00:00+01:00 </updated></entry>
        <entry><updated>2026-11-03</updated><updated>2020-01-01</updated><link href="/2"/></entry>
        <entry><link href="/3"/><source><updated>2026-11-04</updated></source></entry>
        <entry><link href="/4"/><updated>yesterday</updated></entry></feed>"""
    found = [(link.url, link.modified) for link in links(text)]
    assert found == [
        ("http://a.test/1", 1793610000.0),
        ("http://a.test/2", 1793750399.0),
        ("http://a.test/3", 0.0),
        ("http://a.test/4", 0.0),
    ]
