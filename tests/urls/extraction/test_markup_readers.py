"""Readers of style sheets, feeds, sitemaps, PDF and headers: any bytes, and long documents."""

import gzip

from holding import gives_way
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each, pieces

from webcrawl.urls import normalize
from webcrawl.urls.extraction.css import iter_css_links
from webcrawl.urls.extraction.document import MAX_TEXT_CHARS, MarkupDocument, resolve_links
from webcrawl.urls.extraction.feeds import iter_feed
from webcrawl.urls.extraction.header_links import extract_header_links
from webcrawl.urls.extraction.markup import root_of
from webcrawl.urls.extraction.pdf import iter_pdf
from webcrawl.urls.extraction.sitemap_reader import iter_sitemap

URL = "http://a.test/dir/document"
READERS = {"CSS": iter_css_links, "feed": iter_feed, "sitemap": iter_sitemap, "PDF": iter_pdf}

# What each looks for.
PIECES = {
    "CSS": r"""url( ) ' " \ /* */ @import _ a""",
    "feed": """<item> </item> <entry_xml:base=' <link> <link_href=' '_rel=' next '> <guid> <title>
        <![CDATA[ ]]> <!-- --> &amp; /x http://b.test/ > < _""",
    "sitemap": """<loc> </loc> <url> <sitemap> <xhtml:link_href=' <![CDATA[ ]]> <!-- --> <!DOCTYPE
        <? &amp; &# ; < > /x http://a.test/ " _ sm: <image:loc> \ufeff""",
    "PDF": r"/URI_ ( ) \ /ObjStm stream x\x9c < > 4",
    "header": r"""< > ; , rel = " \ /x next _""",
}


def links_of(kind, body, charset):
    if kind == "header":
        return extract_header_links([body, body[::-1]], body, url=URL, limit=5)
    document = MarkupDocument(body, URL, charset)
    root_of(document)
    return [
        link for link in resolve_links(READERS[kind](document), URL, limit=5) if link is not None
    ]


@each("kind", *PIECES)
@given(
    st.data(),
    st.booleans(),
    st.none() | st.sampled_from(["utf-8", "iso-2022-jp", "utf-16", "gb18030", "big5"]),
)
def test_no_bytes_raise_and_all_links_are_normalized(kind, data, packed, charset):
    piece = st.sampled_from([*pieces(PIECES[kind]), "\n"]) | st.text(max_size=3)
    text = st.lists(piece).map("".join).map(lambda text: text.encode("utf-8", "replace"))
    body = data.draw(text | st.binary())
    if packed:
        body = gzip.compress(body)[: len(body) + 10]
    found = links_of(kind, body, charset)
    assert len({link.url for link in found}) == len(found) <= 5
    for link in found:
        assert normalize(link.url) == link.url
        assert len(link.text) <= MAX_TEXT_CHARS


# A long document is its start and nothing but one of the pieces.
LONG = {
    ("CSS", ""): r"""' "a" /**/ a{} url(#) url(x) url( \ @import""",
    ("feed", "<rss>"): "<item> <b> <link> < <item><link>/x</link></item>",
    ("sitemap", "<urlset>"): "<a> <loc> <loc>/x</loc> < _",
    ("sitemap", "x"): "\\nx",
    ("PDF", ""): "/URI_( /URI_(x) /URI() /ObjStm /ObjStm_stream\\nx\x9c (",
}


@each(
    "kind start piece",
    *[(*document, piece) for document, text in LONG.items() for piece in pieces(text)],
)
def test_reading_a_long_document_never_blocks_the_event_loop(kind, start, piece):
    unit = piece.replace(r"\n", "\n")
    body = (start + unit * (200_000 // len(unit))).encode("latin-1")
    for data in (body, gzip.compress(body, 1)):
        assert gives_way(lambda data=data: READERS[kind](MarkupDocument(data, URL)), secs=0.04)
