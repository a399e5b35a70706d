"""Links of every kind, when they are asked for."""

from __future__ import annotations

import time

import pytest

from webcrawl.urls import Link
from webcrawl.urls.extraction import html as extraction
from webcrawl.urls.extraction.html import MAX_METAS, extract
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS, KINDS, search_for
from webcrawl.urls.extraction.references import MAX_CANDIDATES, srcset_references

URL = "http://a.test/dir/page.html"


def links(html, *, kinds=KINDS, url=URL, limit=1000):
    body = html if isinstance(html, bytes) else html.encode()
    return extract(body, url=url, charset="utf-8", limit=limit, kinds=kinds).links


def paths(html, **more):
    return [link.url.removeprefix("http://a.test") for link in links(html, **more)]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<img src="/i" alt=" A  cat ">', [Link("http://a.test/i", "A cat", "img")]),
        ('<image src="/i">', [Link("http://a.test/i", "", "img")]),
        ('<img srcset="/1 1x, /2 2x" src=/3 alt=x>',
         [Link("http://a.test/3", "x", "img"), Link("http://a.test/1", "x", "img"),
          Link("http://a.test/2", "x", "img")]),
        ('<picture><source srcset="/w 100w"><img src=/i></picture>',
         [Link("http://a.test/w", "", "source"), Link("http://a.test/i", "", "img")]),
        ("<video src=/v poster=/p><source src=/s><track src=/t></video>",
         [Link("http://a.test/v", "", "video"), Link("http://a.test/p", "", "video"),
          Link("http://a.test/s", "", "source"), Link("http://a.test/t", "", "track")]),
        ("<audio src=/a></audio>", [Link("http://a.test/a", "", "audio")]),
        ("<script src=/s></script>", [Link("http://a.test/s", "", "script")]),
        ("<embed src=/e><object data=/o></object>",
         [Link("http://a.test/e", "", "embed"), Link("http://a.test/o", "", "object")]),
        ("<form action=/f?x=1#y></form>", [Link("http://a.test/f", "", "form")]),
        ("<form method=' GET ' action=/f rel=NoFollow></form>",
         [Link("http://a.test/f", "", "form", "nofollow")]),
        ("<link rel='alternate StyleSheet' href=/s>",
         [Link("http://a.test/s", "", "stylesheet", "alternate stylesheet")]),
        ("<link rel='shortcut icon' href=/i>",
         [Link("http://a.test/i", "", "icon", "shortcut icon")]),
        ("<link rel=apple-touch-icon href=/i>",
         [Link("http://a.test/i", "", "icon", "apple-touch-icon")]),
        ("<link rel=author href=/me><link href=/none>",
         [Link("http://a.test/me", "", "link", "author"), Link("http://a.test/none", "", "link")]),
        ("<link rel=sitemap href=/map.xml>",
         [Link("http://a.test/map.xml", "", "sitemap", "sitemap")]),
        ("<style>@import '/i.css'; p {background: url(/b)}</style><p style='x: url(\"/c\")'>",
         [Link("http://a.test/i.css", "", "css"), Link("http://a.test/b", "", "css"),
          Link("http://a.test/c", "", "css")]),
        ("<a href=/a style='x: url(/b)'>x</a>",
         [Link("http://a.test/a", "x", "a"), Link("http://a.test/b", "", "css")]),
        ("<svg><a xlink:href='/x'>drawn</a></svg>", [Link("http://a.test/x", "drawn", "a")]),
    ],
)  # fmt: skip
def test_link_of_each_kind(html, expected):
    assert links(html) == expected


@pytest.mark.parametrize(
    "html",
    [
        "<form method=post action=/f>", "<form method=DIALOG action=/f>", "<form>",
        "<form action=?x>",
        "<img>", "<img src>", "<img src=data:image/png;base64,xx>", "<source>", "<video></video>",
        "<object></object>", "<script>x</script>", "<style>url(#x)</style>", "<p style>",
        "<style>/* url(/x) */</style>", "<base href=/x style='y'>",
    ],
)  # fmt: skip
def test_what_is_no_link_of_any_kind(html):
    assert links(html) == []


def test_only_the_kinds_asked_for_are_found():
    html = """<a href=/a>x</a><img src=/img><link rel=next href=/next><link rel=icon href=/icon>
        <link rel=author href=/link><script src=/script></script><form action=/form></form>
        <style>@import url(/css)</style><object data=/object></object><iframe src=/iframe></iframe>
        <meta http-equiv=refresh content="0;url=/refresh">"""
    everything = paths(html)
    assert len(everything) == 11
    for path in everything:
        assert paths(html, kinds=frozenset({path[1:]})) == [path]
    assert paths(html, kinds=DEFAULT_KINDS) == ["/a", "/next", "/iframe", "/refresh"]
    assert paths(html, kinds=frozenset()) == []


def test_kind_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no such kind of link: applet, bogus"):
        search_for(frozenset({"a", "bogus", "applet"}))


def test_link_of_svg_does_not_disturb_the_usual_search():
    assert paths("<svg><a xlink:href=/x>x</a></svg><a href=/y>y</a>", kinds=DEFAULT_KINDS) == [
        "/x", "/y",
    ]  # fmt: skip


def test_base_is_found_behind_one_with_but_a_style():
    assert paths("<base style='x'><base href=/b/><a href=x>x</a>") == ["/b/x"]


def test_limit_holds_within_one_element():
    srcset = ", ".join(f"/{n} {n}x" for n in range(50))
    assert paths(f'<img srcset="{srcset}">', limit=3) == ["/0", "/1", "/2"]


def test_references_of_one_page_are_bounded(monkeypatch):
    monkeypatch.setattr(extraction, "MAX_REFERENCES", 5)
    html = "".join(f"<img src=/{n}>" for n in range(4)) + "<img srcset='/a, /b, /c'><img src=/z>"
    assert paths(html) == ["/0", "/1", "/2", "/3", "/a", "/b", "/c"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", []), (" , ,", []), ("a", ["a"]), ("a,", ["a"]), ("a,b", ["a,b"]),
        ("a,, b", ["a", "b"]),
        ("a 1x, b 2.5x,c 3x", ["a", "b", "c"]), ("a 100w,b 200w", ["a", "b"]),
        ("a 0w, b nonsense", ["a", "b"]), ("a (x, y) 1x, b", ["a", "b"]),
        ("a (never closed, b", ["a"]), ("a,,,, (b", ["a", "(b"]),
        ("data:,x 1x, b 2x", ["data:,x", "b"]), ("\ta\n1x\f,\rb", ["a", "b"]),
    ],
)  # fmt: skip
def test_srcset_is_read_as_the_standard_says(value, expected):
    assert list(srcset_references(value)) == expected


def test_candidates_of_one_srcset_are_bounded():
    assert len(list(srcset_references(", ".join(map(str, range(1000)))))) == MAX_CANDIDATES


def test_metas_are_found_by_name():
    html = """<meta name=Robots content=NoIndex><meta name=other content=x><meta name=robots>
        <p><meta name=mybot content='y'></p><a href=/x>x</a><meta name=robots content=z>"""
    found = extract(
        html.encode(),
        url=URL,
        charset=None,
        limit=1,
        meta_names=frozenset({"robots", "mybot", "]"}),
    )
    assert found.metas == [("robots", "NoIndex"), ("mybot", "y"), ("robots", "z")]
    assert [link.url for link in found.links] == ["http://a.test/x"]
    assert extract(html.encode(), url=URL, charset=None, limit=9).metas == []


def test_metas_are_bounded():
    html = b"<meta name=robots content='" + b"x" * 5000 + b"'>"
    names = frozenset({"robots"})
    metas = extract(html * 50, url=URL, charset=None, limit=9, meta_names=names).metas
    assert metas == [("robots", "x" * 1024)] * MAX_METAS


MIB = 1 << 20
TRAPS = {
    **{
        name: b"<a href=/x><%b src=/y action=/y data=/y>t" % name.encode() * (MIB // 40)
        for name in ["form", "object", "video", "audio", "img", "imgx", "source", "embed", "script"]
    },
    "styles": b"<font style='x: url(/%d)'>" * (MIB // 26),
    "style sheet": b"<style>" + b"url(x)" * (MIB // 6),
    "style sheets": b"<style>url(/x)</style>" * (MIB // 22),
    "candidates": b"<img srcset='" + b"".join(b"%x, " % n for n in range(MIB // 7)) + b"'>",
    "many candidates": b"".join(
        b"<img srcset='" + b"".join(b"%x%x, " % (m, n) for n in range(100)) + b"'>"
        for m in range(MIB // 800)
    ),
}


@pytest.mark.parametrize("body", TRAPS.values(), ids=TRAPS)
def test_page_made_to_take_long_takes_linear_time(body):
    """The bound has room for a slow machine: the worst takes 0.3 s."""
    started = time.thread_time()
    assert len(links(body, limit=5000)) <= 5000
    assert time.thread_time() - started < 2
