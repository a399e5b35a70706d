"""Sitemaps: plain, compressed, as indexes and lists, broken and hostile."""

import gzip
import itertools
import time
import tracemalloc

from text_tables import cases, each, shown, table

from webcrawl.urls.extraction import markup
from webcrawl.urls.extraction.document import MarkupDocument, resolve_links
from webcrawl.urls.extraction.markup import CHUNK, MAX_PIECE, root_of
from webcrawl.urls.extraction.sitemap_reader import MAX_URLS, iter_sitemap

URL = "http://a.test/sitemap.xml"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
XMLNS = "http://www.sitemaps.org/schemas/sitemap/0.9"


NEW_YEAR = 1577923199.0  # the last second of 2020-01-01


def links(text, *, url=URL, limit=MAX_URLS, **more):
    body = text if isinstance(text, bytes) else text.encode()
    found = resolve_links(iter_sitemap(MarkupDocument(body, url, **more)), url, limit=limit)
    return [link for link in found if link is not None]


def paths(text, **more):
    return [link.url.removeprefix("http://a.test") for link in links(text, **more)]


def urlset(*locs):
    urls = "".join(f"<url><loc>{loc}</loc><lastmod>2020-01-01</lastmod></url>\n" for loc in locs)
    return f'{HEAD}<urlset xmlns="{XMLNS}">{urls}</urlset>'


def test_pages_of_a_urlset():
    found = links(urlset("http://a.test/x", " \n/y\t", "http://a.test/x"))
    assert shown(found) == "loc /x, loc /y"
    assert {link.modified for link in found} == {NEW_YEAR}


@each(
    "written modified",
    *table("""
        2020-01-01T12:00Z         | 1577880000.0
        2020-01-01T13:00:00+01:00 | 1577880000.0
        2020-01-01T12:00:00.5     | 1577880000.5
        1066-10-14                | 0.0
        9999-99-99                | 0.0
        yesterday                 | 0.0
        """),
    ("2020-01-01", NEW_YEAR),
    ("2" * 100_000, 0.0),
)
def test_when_a_page_was_modified(written, modified):
    lastmod = f"<lastmod>{written}</lastmod>"
    for page, found in (
        (f"{lastmod}<loc>/x</loc>", 0.0),
        (f"<loc>/x</loc>{lastmod}", float(modified)),
    ):
        text = f"<urlset><url>{page}</url><url><loc>/y</loc></url></urlset>"
        assert [link.modified for link in links(text)] == [found, 0.0]


def test_sitemaps_of_an_index():
    text = f"""{HEAD}<!-- <sitemap><loc>/no</loc></sitemap> --><sitemapindex xmlns="{XMLNS}">
        <sitemap><loc>http://a.test/1.xml.gz</loc><lastmod>x</lastmod></sitemap>
        <sitemap>
        <loc>http://a.test/2.xml</loc></sitemap></sitemapindex>"""
    assert shown(links(text)) == "sitemap /1.xml.gz, sitemap /2.xml"


def test_translations_count_and_images_do_not():
    text = """<urlset><url><loc>/x</loc><image:image><image:loc>/no.png</image:loc></image:image>
        <xhtml:link rel="alternate" hreflang='de' href="/de?a=1&amp;b=>" />
        <xhtml:link rel="alternate" hreflang="fr"/></url></urlset>"""
    assert shown(links(text)) == "alternate /de?a=1&b=%3E, loc /x"


@each(
    "text expected",
    *table("""
        <urlset><url><loc>/?a=1&amp;b=&#50;&#x33;</loc> | /?a=1&b=23
        <urlset><url><loc>/?a=1&copy=2&b=3&</loc>       | /?a=1&copy=2&b=3&
        <loc><![CDATA[/a?x&amp;y]]></loc>               | /a?x&amp;y
        <loc> <![CDATA[/a<b]]>/c<!-- no -->d </loc>     | /a%3Cb/cd
        <sm:URLSET><sm:Url><sm:LOC>/a</sm:LOC>          | /a
        <loc>/a</loc                                    | /a
        <loc>                                           |
        <loc></loc><loc>  </loc>                        |
        <loc>&#0;&#xD800;&#1114112;</loc>               | /%EF%BF%BD%EF%BF%BD%EF%BF%BD
        <loc>mailto:x@a.test</loc><loc>/ok</loc>        | /ok
        << < ><>&<loc>/a                                | /a
        <![CDATA[/no]]><url><loc>/a                     | /a
        <!DOCTYPE x [<!ENTITY e '/no'><!ENTITY f SYSTEM 'file:///etc/passwd'>]><loc>/&e;&f;</loc>
            | /&e;&f;
        """),
    (
        "<loc>/a<loc>/b</url><url><loc >/c</loc\n><loc/>/d<location>/no</location>",
        "/a, /b, /c, /d",
    ),
    (f"<loc>/{'x' * 9000}</loc>", ""),
)
def test_what_is_not_well_formed_is_read_to_the_end(text, expected):
    assert ", ".join(paths(text)) == expected


def test_list_of_urls():
    text = "\ufeff\n\nhttp://a.test/x\r\n  http://a.test/y \nno url\n/no\n" + "x" * 9000
    assert paths(text) == ["/x", "/y"]
    assert paths("http://a.test/" + "x" * 9000 + "\nhttp://a.test/z") == ["/z"]
    many = "".join(f"http://a.test/{n}\n" for n in range(20_000))
    assert paths(many) == [f"/{n}" for n in range(20_000)]


@each("encoding", "utf-8", "utf-8-sig", "utf-16", "windows-1251")
def test_encoding_is_found(encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?><urlset><url><loc>/ж</loc></url></urlset>'
    assert paths(text.encode(encoding)) == ["/%D0%B6"]


def test_compressed_is_read_like_plain():
    text = urlset(*(f"/{n}" for n in range(12_000))).encode()
    assert len(text) > 10 * CHUNK
    expected = [f"/{n}" for n in range(12_000)]
    assert paths(text) == expected
    assert paths(gzip.compress(text)) == expected
    assert paths(gzip.compress(text[:70_000]) + gzip.compress(text[70_000:])) == expected
    assert paths(gzip.compress(text) + b"garbage") == expected


def test_cut_and_damaged_compression_gives_what_came_before():
    packed = gzip.compress(urlset(*(f"/{n}" for n in range(12_000))).encode())
    half = paths(packed[: len(packed) // 2])
    assert 1000 < len(half) < 12_000
    assert half == [f"/{n}" for n in range(len(half) - 1)] + half[-1:]
    damaged = bytearray(packed)
    damaged[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)
    assert len(paths(bytes(damaged))) > 1000
    assert paths(b"\x1f\x8b") == paths(b"\x1f\x8bgarbage") == paths(b"") == []


def test_pages_are_limited():
    body = urlset(*(f"/{n}" for n in range(MAX_URLS + 10)))
    assert len(links(body)) == MAX_URLS
    assert paths(body, limit=2) == ["/0", "/1"]
    assert links(body, limit=0) == []


def test_size_is_limited():
    body = b"<loc>/a</loc>" + b" " * (3 * CHUNK) + b"<loc>/b</loc>"
    for data in (body, gzip.compress(body)):
        assert paths(data, max_bytes=3 * CHUNK) == ["/a"]


def test_members_of_compression_are_limited():
    packed = gzip.compress(b"") * 50_000 + gzip.compress(b"<loc>/a</loc>")
    started = time.thread_time()
    assert paths(packed) == []
    assert time.thread_time() - started < 1


def test_memory_is_bounded_and_links_come_in_slices():
    bomb = gzip.compress(b"<urlset>" + (b"<loc>/a</loc>" * 10_000 + b" " * (30 << 20)))
    tracemalloc.start()
    try:
        found = resolve_links(iter_sitemap(MarkupDocument(bomb, URL)), URL, limit=MAX_URLS)
        assert sum(link is not None for link in found) == 1
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()
    body = urlset(*(f"/{n}" for n in range(MAX_URLS))).encode()
    started = time.thread_time()
    assert len(list(itertools.islice(iter_sitemap(MarkupDocument(body, URL)), 10))) == 10
    assert time.thread_time() - started < 0.05


def test_long_urls_of_short_references_do_not_add_up():
    body = ("<urlset>" + "".join(f"<loc>x{n}</loc>" for n in range(6_000))).encode()
    tracemalloc.start()
    try:
        document = MarkupDocument(body, f"http://a.test/{'d' * 2000}/")
        found = resolve_links(iter_sitemap(document), document.url, limit=MAX_URLS)
        assert sum(link is not None for link in found) == 6_000
        assert tracemalloc.get_traced_memory()[1] < 3 << 20  # of 12 MB that they have
    finally:
        tracemalloc.stop()


def test_work_is_limited(monkeypatch):
    monkeypatch.setattr(markup, "MAX_TAGS", 5000)
    assert paths("<a>" * 4000 + "<loc>/a</loc>") == ["/a"]
    assert paths("<a>" * 200_000 + "<loc>/a</loc>") == []
    assert paths("<loc>/a</loc>" * 12 + "<loc>/b</loc>", limit=3) == ["/a"]
    assert paths("x\n" * 12 + "http://a.test/b\n", limit=3) == []


def test_half_a_url_at_the_end_of_what_was_cut_is_left_out():
    assert paths("<urlset><url><loc>/a</loc><loc>/ab", cut=True) == ["/a"]
    assert paths("http://a.test/a\nhttp://a.test/ab", cut=True) == ["/a"]


def test_an_error_page_in_place_of_a_sitemap_has_no_links():
    assert links("<html><head><link rel=alternate href=/feed></head><a href=/x>x</a>") == []


def test_long_text_is_cut_and_what_follows_is_found():
    assert paths(b"<loc>" + b"x" * (4 * MAX_PIECE) + b"</loc><loc>/y</loc>") == ["/y"]


@cases(
    "body root",
    r"""
        SITEMAP                       | urlset
        PACKED                        | urlset
        b"<!-- x --><sm:SitemapIndex>" | sitemapindex
        b"<rss version='2.0'>"        | rss
        b"<?xml?><rdf:RDF xmlns=x>"   | rdf
        b"<feed\nxmlns=x>"            | feed
        b"<feedback>"                 | ""
        b"<html><body>"               | html
        b""                           | ""
        b"\xff\xfe<\0u\0r\0l\0s\0e\0t\0>\0" | urlset
        LATE                          | ""
    """,
    {
        "SITEMAP": urlset("/x").encode(),
        "LATE": b" " * 5000 + b"<rss>",
        "PACKED": gzip.compress(urlset("/x").encode(), mtime=0),
    },
)
def test_root_element_tells_documents_apart(body, root):
    assert root_of(MarkupDocument(body, URL)) == root
