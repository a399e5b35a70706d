"""References in style sheets."""

from text_tables import cases, shown

from webcrawl.urls.extraction.css import css_references, iter_css_links
from webcrawl.urls.extraction.document import MarkupDocument, resolve_links

URL = "http://a.test/dir/style.css"


def links(body, *, charset=None, limit=1000):
    found = resolve_links(iter_css_links(MarkupDocument(body, URL, charset)), URL, limit=limit)
    return [link for link in found if link is not None]


@cases(
    "text expected",
    r"""
        p { background: url(a) }                          | css a
        URL( 'a' ) Url("b")                               | css a, css b
        @font-face { src: url(a) format('woff'), url(b) } | css a, css b
        /* url(a) */ url(b)                               | css b
        content: 'url(a)'; x: url(b)                      | css b
        content: 'it\'s url(a)'                           |
        /* never closed url(a)                            |
        /***/* { x: url(a) } /* */url(b)                  | css a, css b
        url('a                                            |
        @import 'a\                                       |
        myurl(a) my-url(b)                                |
        url(a) @import 'b'; url(c)                        | css a, stylesheet b, css c
        url() url('') url(a b) url(a'b)                   | css, css
        url(a\)b) url('a\'b') url(\61 b) url(\000061b)     | css a)b, css a'b, css ab, css ab
        @import 'a'; @IMPORT url(b) screen; @import"d"    | stylesheet a, stylesheet b, stylesheet d
        '@import\nurl("c")'                               | stylesheet c
        "content: 'never closed\n x: url(a)"              | css a
        "url('a\\\nb') url(\\110000)"                     | "css ab, css \ufffd"
    """,
)
def test_references_are_read_as_the_standard_says(text, expected):
    assert shown(css_references(text)) == expected


def test_links_of_a_style_sheet():
    body = b"@import 'base.css'; p { x: url(/i.png) } q { x: url(/i.png) } r { x: url(#id) }"
    assert shown(links(body)) == "stylesheet /dir/base.css, css /i.png"
    assert links(body, limit=1) == links(body)[:1]
    assert links(body, limit=0) == []
    cyrillic = "url('/ж?ж')".encode("cp1251")
    assert shown(links(cyrillic, charset="windows-1251")) == "css /%D0%B6?%E6"


def test_references_are_bounded():
    assert links(b"url(a)" * 8 + b"url(b)", limit=2) == links(b"url(a)")
    assert links(b"url(%b) url() url(b)" % (b"x" * 9000)) == links(b"url(b)")
