"""The link batch of a page."""

from __future__ import annotations

import time

import pytest
from broken_pages import PAGES, URL
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from webcrawl.urls import Link, normalize
from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS, MAX_TEXT_CHARS
from webcrawl.urls.extraction.html import extract
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS, KINDS


def links(html, *, url=URL, charset=None, limit=1000, **more):
    body = html if isinstance(html, bytes) else html.encode()
    return extract(body, url=url, charset=charset, limit=limit, **more).links


def urls(html, **more):
    return [link.url for link in links(html, **more)]


@pytest.mark.parametrize(
    ("html", "link"),
    [
        ('<a href="/x">Text</a>', Link("http://a.test/x", "Text", "a")),
        ("<A HREF=y REL='NoFollow  UGC'>T", Link("http://a.test/dir/y", "T", "a", "nofollow ugc")),
        ('<map><area href="z" alt="no"></map>', Link("http://a.test/dir/z", "no", "area")),
        ('<iframe src="//b.test/f"></iframe>', Link("http://b.test/f", "", "iframe")),
        ("<frameset><frame src=f></frameset>", Link("http://a.test/dir/f", "", "frame")),
        ('<link rel="canonical" href="/c">', Link("http://a.test/c", "", "canonical", "canonical")),
        ('<link rel="nofollow Next" href="?p=2">',
         Link("http://a.test/dir/page.html?p=2", "", "next", "nofollow next")),
        ('<link rel="prev" href="p">', Link("http://a.test/dir/p", "", "prev", "prev")),
        ('<link rel="alternate" hreflang="de" href="/de">',
         Link("http://a.test/de", "", "alternate", "alternate")),
        ('<meta http-equiv="Refresh" content="5; URL=\'/r\'">',
         Link("http://a.test/r", "", "refresh")),
        ('<svg><a href="/s"><text>drawn</text></a></svg>', Link("http://a.test/s", "drawn", "a")),
    ],
)  # fmt: skip
def test_link_of_each_kind(html, link):
    assert links(html) == [link]


@pytest.mark.parametrize(
    "html",
    [
        "", "no tag", "<p>", "<a>x</a>", "<a href>x</a>", '<a href="">x</a>',
        '<a href="#top">x</a>', "<a name=x>", '<a href="javascript:go()">x</a>',
        '<a href="mailto:a@b.test">x</a>',
        '<a href="ftp://a.test/">x</a>', '<a href="http://[">x</a>',
        '<link rel="stylesheet" href="s.css">', '<link rel="alternate stylesheet" href="s.css">',
        '<link rel="icon" href="i">', '<link href="x">', '<meta http-equiv="refresh" content="5">',
        '<meta http-equiv="refresh" content="x;url=y">', '<meta http-equiv="x" content="0;url=y">',
        '<meta name="refresh" content="0;url=y">', "<iframe></iframe>", '<frame src="f">',
        '<!-- <a href="x">x</a> -->', '<script>"<a href=x>"</script>', "<img src=x>",
        '<textarea><a href="x">x</a></textarea>', '<template><a href="x">x</a></template>',
        f'<a href="/{"x" * MAX_REFERENCE_CHARS}">x</a>',
    ],
)  # fmt: skip
def test_what_is_no_link(html):
    assert links(html) == []


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ("0;url=/x", "/x"), ("0; URL = /x", "/x"), ("0 /x", "/x"), ("0,/x", "/x"),
        (' 1.5; url="/x"y', "/x"), (".5;url='/x", "/x"), ("0;/url=x", "/url=x"),
        ("0;url=/x y", "/x%20y"), ("10;   url=  /x  ", "/x"),
    ],
)  # fmt: skip
def test_refresh_is_read_as_browsers_read_it(content, path):
    content = content.replace('"', "&quot;")
    assert urls(f'<meta http-equiv=refresh content="{content}">') == ["http://a.test" + path]


def test_each_url_comes_once_and_in_document_order():
    html = """<link rel=canonical href=/c><a href=/2>two</a><a href=/1>one</a>
        <a href="http://A.test/2#part">again</a><a href=/c>c</a><area href=/3>"""
    assert [(link.url[-1], link.text) for link in links(html)] == [
        ("c", ""), ("2", "two"), ("1", "one"), ("3", ""),
    ]  # fmt: skip


def test_references_are_resolved_against_the_first_base():
    html = "<base target=x><base href='/b/?q'><base href=/no/><a href=x>x</a>"
    assert urls(html) == ["http://a.test/b/x"]
    assert urls("<a href=x>x</a><base href=//b.test>") == ["http://b.test/x"]


def test_empty_references_lead_to_the_base_where_there_is_one():
    for empty in ("<a href='' alt=x>", "<area href>", "<a href=#y>"):
        assert urls(empty) == []
        assert urls(f"<base href='/b/?q'>{empty}") == ["http://a.test/b/?q"]
    assert urls("<base href=/b/><iframe src=''></iframe>") == []


SENSELESS = ["", "javascript:x", "http://[", "data:,x", "x" * 9000, "/é" * 500 + "/"]


@pytest.mark.parametrize("base", SENSELESS)
def test_base_that_makes_no_sense_is_ignored(base):
    assert urls(f'<base href="{base}"><a href=x>x</a>') == ["http://a.test/dir/x"]


def test_references_are_decoded():
    assert urls('<a href="?a=1&amp;b=%20&lt;&#x41;">x</a>') == [
        "http://a.test/dir/page.html?a=1&b=%20%3CA"
    ]
    assert urls("<a href='\n /x\t/y '>x</a>") == ["http://a.test/x/y"]


def test_number_of_links_is_bounded():
    html = "".join(f"<a href=/{n % 50}>x</a>" for n in range(500))
    assert urls(html, limit=3) == ["http://a.test/0", "http://a.test/1", "http://a.test/2"]
    assert len(urls(html)) == 50
    assert urls(html, limit=0) == []


def test_text_is_collapsed_and_bounded():
    html = "<a href=/1>  two\n <b>bold</b>\twords </a><a href=/2>" + "long " * 500 + "</a>"
    first, second = links(html)
    assert first.text == "two bold words"
    assert second.text == ("long " * 500)[:MAX_TEXT_CHARS]


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        ("<img alt=' An  image '>", "An image"), (" \n<b><img><img alt=' '><img alt=x></b>", "x"),
        ("text <img alt=no>", "text"), ("<img>", ""), ("<img alt>", ""), ("", ""),
        (f"<img alt='{'long ' * 500}'>", ("long " * 500)[:MAX_TEXT_CHARS]),
    ],
)  # fmt: skip
def test_anchor_without_text_has_that_of_its_image(inside, text):
    html = f"<img alt=no><a href=/x>{inside}</a><img alt=no>"
    assert links(html) == links(html + "<p>" * 2000) == [Link("http://a.test/x", text.strip())]


def test_anchors_within_anchors_do_not_multiply_their_text():
    html = "".join(f"<a href=/{n}><table><td>" for n in range(300)) + "x" * 900
    texts = [link.text for link in links(html)]
    assert len(texts) == 300
    assert texts[0] == "x" * MAX_TEXT_CHARS
    assert texts[-1] == ""


def test_schemes_are_those_asked_for():
    html = "<a href=ftp://a.test/f>x</a><a href=/h>x</a>"
    assert urls(html, schemes=frozenset({"ftp"})) == ["ftp://a.test/f"]


@pytest.mark.parametrize(
    ("encoding", "declared", "head"),
    [
        ("utf-8", None, ""),
        ("utf-8-sig", "koi8-r", ""),
        ("windows-1251", "windows-1251", ""),
        ("koi8-r", None, "<meta charset=koi8-r>"),
        ("utf-16", None, ""),
    ],
)
def test_text_is_read_in_the_encoding_of_the_document(encoding, declared, head):
    body = f"{head}<a href=/x>Привет</a>".encode(encoding)
    assert links(body, charset=declared) == [Link("http://a.test/x", "Привет", "a")]


def test_query_is_in_the_encoding_of_the_document_and_the_path_is_not():
    html = "<a href='/ж?q=ж'>x</a>"
    assert urls(html.encode("cp1251"), charset="windows-1251") == ["http://a.test/%D0%B6?q=%E6"]
    assert urls(html) == ["http://a.test/%D0%B6?q=%D0%B6"]


MIB = 1 << 20
TRAPS = {
    "depth": b"<div>" * (MIB // 5),
    "lists": b"<ul><li>" * (MIB // 8),
    "formatting": b"".join(b"<p><font size=%d>x</p>" % n for n in range(MIB // 25)),
    "formatting, few tags": b"".join(b"<p><font size=%d>x</p>" % n for n in range(330)),
    "attributes": b"<a " + b" ".join(b"a%d" % n for n in range(MIB // 8)) + b" href=/x>",
    "attributes, short": b"".join(
        b"<a " + b" ".join(b"a%d" % n for n in range(500)) + b" href=/x>" for _ in range(360)
    ),
    "anchors": b"".join(b"<a href=/%d>t" % n for n in range(MIB // 14)),
    "nesting": b"<a href=/x><table><td>" * (MIB // 22),
    "images": b"<a href=/x><table><td><img alt=' '>" * (MIB // 36),
    "images, few tags": b"".join(b"<a href=/%d><table><td><img alt=' '>" % n for n in range(240)),
    "images of one anchor": b"<a href=/x>" + b"<img alt=' '>" * (MIB // 13),
    "open tags": b"<a " * (MIB // 3),
    "open quotes": b'<a b">' * (MIB // 6),
    "less than": b"<" * MIB,
    "comments": b"<!--" * (MIB // 4),
    "refresh": b"<meta http-equiv=refresh content='" + b"1" * MIB + b"'>",
    "references": b"<a href='?" + b"\xe9" * 8000 + b"'>",
}


@pytest.mark.parametrize("body", TRAPS.values(), ids=TRAPS)
def test_page_made_to_take_long_takes_linear_time(body):
    """Without the thinning the worst take minutes and gigabytes; with it, 0.1 s. The bound has
    room for a slow machine."""
    started = time.thread_time()
    assert len(links(body, charset="windows-1251", limit=5000)) <= 5000
    assert time.thread_time() - started < 2


html_like = st.lists(
    st.sampled_from(
        ["<a href=", "<a>", "</a>", "<", ">", '"', "'", "/x", "http://", "<!--", "-->", "\\",
         "<base href=", "<script src=", "<script>", "</script>", "<iframe src=", "0;url=", " ",
         "<meta http-equiv=refresh content=", "<link rel=next href=", "<link rel=x href=", "é",
         "<img src=", "<img srcset='", "<object data=", "</object>", "<form action=", "@import ",
         "<video poster=", "<style>", "</style>", "<p style='", "url(", ")", " 1x,", "<svg>",
         "xlink:href=", "<meta name=robots content=", "\x00", "\n", "&#", "&amp;", "<table>",
         "<td>", "#", "?", "(", "=", "/*", "*/"]
    ) | st.text(max_size=3),
    max_size=40,
).map("".join)  # fmt: skip


@examples(500)
@given(
    html_like.map(lambda text: text.encode("utf-8", "replace")) | st.binary(),
    st.none() | st.sampled_from(["utf-8", "windows-1251", "iso-2022-jp", "utf-16", "gb18030"]),
    st.just(DEFAULT_KINDS) | st.frozensets(st.sampled_from(sorted(KINDS))),
    st.integers(1, 5),
)
def test_no_bytes_raise_and_all_links_are_normalized(body, charset, kinds, limit):
    names = frozenset({"robots"})
    found = extract(body, url=URL, charset=charset, limit=limit, kinds=kinds, meta_names=names)
    assert len(found.links) <= limit
    assert len({link.url for link in found.links}) == len(found.links)
    for link in found.links:
        assert link.kind in kinds
        assert normalize(link.url) == link.url
        assert len(link.text) <= MAX_TEXT_CHARS
        assert link.text == " ".join(link.text.split())
        link.text.encode()


@pytest.mark.parametrize(("page", "expected"), PAGES.values(), ids=PAGES)
def test_links_of_a_broken_page(page, expected):
    assert [url.removeprefix("http://a.test") for url in urls(page)] == expected
