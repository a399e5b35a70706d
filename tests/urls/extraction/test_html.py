"""The link batch of a page."""

import time

import pytest
from broken_pages import PAGES, URL
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from text_tables import cases, each, lines, pieces, shown, table

from webcrawl.urls import normalize
from webcrawl.urls.extraction import html as extraction
from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS, MAX_TEXT_CHARS
from webcrawl.urls.extraction.html import MAX_METAS, extract
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS, KINDS
from webcrawl.urls.extraction.references import MAX_CANDIDATES, srcset_references


def extracted(html, *, url=URL, charset=None, limit=1000, **more):
    body = html if isinstance(html, bytes) else html.encode()
    return extract(body, url=url, charset=charset, limit=limit, **more)


def links(html, **more):
    return extracted(html, **more).links


def urls(html, **more):
    return [link.url for link in links(html, **more)]


def paths(html, *, kinds=KINDS, **more):
    return [url.removeprefix("http://a.test") for url in urls(html, kinds=kinds, **more)]


@cases(
    "html link",
    """
        <a href="/x">Text</a>                             | a /x Text
        <A HREF=y REL='NoFollow  UGC'>T                   | a /dir/y [nofollow ugc] T
        <map><area href="z" alt="no"></map>               | area /dir/z no
        <iframe src="//b.test/f"></iframe>                | iframe http://b.test/f
        <frameset><frame src=f></frameset>                | frame /dir/f
        <link rel="canonical" href="/c">                  | canonical /c [canonical]
        <link rel="nofollow Next" href="?p=2">            | next /dir/page.html?p=2 [nofollow next]
        <link rel="prev" href="p">                        | prev /dir/p [prev]
        <link rel="alternate" hreflang="de" href="/de">   | alternate /de [alternate]
        <meta http-equiv="Refresh" content="5; URL='/r'"> | refresh /r
        <svg><a href="/s"><text>drawn</text></a></svg>    | a /s drawn
    """,
)
def test_link_of_each_kind(html, link):
    assert shown(links(html)) == link


@each(
    "html repeats",
    # The same reference again, another reference to the same URL, another fragment.
    *table("""
        <a href=/x>1</a><a href=/x>2</a>             | a /x 2
        <a href=/x>1</a><a href=../x>2</a>           | a /x 2
        <a href=/x#a>1</a><a href=/x#b>2</a>         | a /x 2
        <link rel=canonical href=/x><a href=/x>2</a> | a /x 2
        <area href=/x alt=1><area href=/x alt=2>     | area /x 2
        <a href=/x>1</a><a href=/y>2</a>             |
        <a href=/x>1</a><a href=/x rel='ugc NoFollow'><img alt=2></a> | a /x [ugc nofollow] 2
        """),
    # What is no link is none twice.
    (2 * "<a href=javascript:x>1</a><a href=#a>2</a><a href='http://['>3</a>", ""),
    (2 * f"<a href=/{'x' * MAX_REFERENCE_CHARS}>1</a>", ""),
)
def test_links_are_counted_before_duplicates_are_dropped(html, repeats):
    for keeps in (False, True):
        found = extracted(html, keeps_repeats=keeps)
        assert found.count == len(found.links) + bool(repeats)
        assert shown(found.repeats) == repeats * keeps
        assert len({link.url for link in found.links}) == len(found.links)


def test_repeats_are_bounded_and_counted_all_the_same(monkeypatch):
    monkeypatch.setattr(extraction, "MAX_REFERENCES", 5)
    found = extracted(9 * "<a href=/x>1</a>", keeps_repeats=True)
    assert (len(found.links), len(found.repeats), found.count) == (1, 5, 9)


@each(
    "html",
        *lines("""
        no tag
        <p>
        <a>x</a>
        <a href>x</a>
        <a href="">x</a>
        <a href="#top">x</a>
        <a name=x>
        <a href="javascript:go()">x</a>
        <a href="mailto:a@b.test">x</a>
        <a href="ftp://a.test/">x</a>
        <a href="http://[">x</a>
        <link rel="stylesheet" href="s.css">
        <link rel="alternate stylesheet" href="s.css">
        <link rel="icon" href="i">
        <link href="x">
        <meta http-equiv="refresh" content="5">
        <meta http-equiv="refresh" content="x;url=y">
        <meta http-equiv="x" content="0;url=y">
        <meta name="refresh" content="0;url=y">
        <iframe></iframe>
        <frame src="f">
        <!-- <a href="x">x</a> -->
        <script>"<a href=x>"</script>
        <img src=x>
        <textarea><a href="x">x</a></textarea>
        <template><a href="x">x</a></template>
        """),
        "",
        f'<a href="/{"x" * MAX_REFERENCE_CHARS}">x</a>',

)  # fmt: skip
def test_elements_that_lead_to_no_page_give_no_links(html):
    assert links(html) == []


@each("content path",
        *table("""
        0;url=/x    | /x
        0; URL = /x | /x
        0 /x        | /x
        0,/x        | /x
        .5;url='/x  | /x
        0;/url=x    | /url=x
        0;url=/x y  | /x%20y
        """),
        (' 1.5; url="/x"y', "/x"),
        ("10;   url=  /x  ", "/x"))  # fmt: skip
def test_refresh_is_read_as_browsers_read_it(content, path):
    content = content.replace('"', "&quot;")
    assert urls(f'<meta http-equiv=refresh content="{content}">') == ["http://a.test" + path]


def test_each_url_comes_once_and_in_document_order():
    html = """<link rel=canonical href=/c><a href=/2>two</a><a href=/1>one</a>
        <a href="http://A.test/2#part">again</a><a href=/c>c</a><area href=/3>"""
    assert shown(links(html)) == "canonical /c [canonical], a /2 two, a /1 one, area /3"


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


@each("base", *SENSELESS)
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


@each("inside text",
        *table("""
        <img alt=' An  image '> | An image
        text <img alt=no>       | text
        <img>                   |
        <img alt>               |
        """),
        (" \n<b><img><img alt=' '><img alt=x></b>", "x"),
        ("", ""),
        (f"<img alt='{'long ' * 500}'>", ("long " * 500)[:MAX_TEXT_CHARS]))  # fmt: skip
def test_anchor_without_text_has_that_of_its_image(inside, text):
    html = f"<img alt=no><a href=/x>{inside}</a><img alt=no>"
    assert shown(links(html)) == shown(links(html + "<p>" * 2000)) == f"a /x {text}".strip()


def test_anchors_within_anchors_do_not_multiply_their_text():
    html = "".join(f"<a href=/{n}><table><td>" for n in range(300)) + "x" * 900
    texts = [link.text for link in links(html)]
    assert len(texts) == 300
    assert texts[0] == "x" * MAX_TEXT_CHARS
    assert texts[-1] == ""


def test_schemes_are_those_asked_for():
    html = "<a href=ftp://a.test/f>x</a><a href=/h>x</a>"
    assert urls(html, schemes=frozenset({"ftp"})) == ["ftp://a.test/f"]


@cases(
    "encoding declared head",
    """
        utf-8        | None         | ""
        utf-8-sig    | koi8-r       | ""
        windows-1251 | windows-1251 | ""
        koi8-r       | None         | <meta charset=koi8-r>
        utf-16       | None         | ""
    """,
)
def test_text_is_read_in_the_encoding_of_the_document(encoding, declared, head):
    body = f"{head}<a href=/x>Привет</a>".encode(encoding)
    assert shown(links(body, charset=declared)) == "a /x Привет"


def test_query_is_in_the_encoding_of_the_document_and_the_path_is_not():
    html = "<a href='/ж?q=ж'>x</a>"
    assert urls(html.encode("cp1251"), charset="windows-1251") == ["http://a.test/%D0%B6?q=%E6"]
    assert urls(html) == ["http://a.test/%D0%B6?q=%D0%B6"]


@cases(
    "html expected",
    """
        <img src="/i" alt=" A  cat "> | img /i A cat
        <image src="/i"> | img /i
        <img srcset="/1 1x, /2 2x" src=/3 alt=x> | img /3 x, img /1 x, img /2 x
        <picture><source srcset="/w 100w"><img src=/i></picture> | source /w, img /i
        <video src=/v poster=/p><source src=/s><track src=/t></video>
            | video /v, video /p, source /s, track /t
        <audio src=/a></audio> | audio /a
        <img src="data:,x" data-src=/1 data-srcset="/2 1x, /3 2x" alt=x>
            | img /1 x, img /2 x, img /3 x
        <source data-src=/1 data-srcset=/2> | source /1, source /2
        <svg><image href="/1" /><image xlink:href="/2" /></svg> | img /1, img /2
        <input type=IMAGE src=/i alt=Go> | img /i Go
        <link rel=preload href=/p imagesrcset="/1 1x, /2 2x">
            | link /p [preload], img /1 [preload], img /2 [preload]
        <table background=/b style='x: url(/c)'></table> | img /b, css /c
        <script src=/s></script> | script /s
        <embed src=/e><object data=/o></object> | embed /e, object /o
        <form action=/f?x=1#y></form> | form /f
        <form method=' GET ' action=/f rel=NoFollow></form> | form /f [nofollow]
        <link rel='alternate StyleSheet' href=/s> | stylesheet /s [alternate stylesheet]
        <link rel='shortcut icon' href=/i> | icon /i [shortcut icon]
        <link rel=apple-touch-icon href=/i> | icon /i [apple-touch-icon]
        <link rel=author href=/me><link href=/none> | link /me [author], link /none
        <link rel=sitemap href=/map.xml> | sitemap /map.xml [sitemap]
        <style>@import '/i.css'; p {background: url(/b)}</style><p style='x: url("/c")'>
            | css /i.css, css /b, css /c
        <a href=/a style='x: url(/b)'>x</a> | a /a x, css /b
        <svg><a xlink:href='/x'>drawn</a></svg> | a /x drawn
    """,
)
def test_link_of_each_kind_that_can_be_asked_for(html, expected):
    assert shown(links(html, kinds=KINDS)) == expected


@cases(
    "html",
    """
        <form method=post action=/f>
        <form method=DIALOG action=/f>
        <form>
        <form action=?x>
        <img>
        <img src>
        <img src=data:image/png;base64,xx>
        <source>
        <video></video>
        <object></object>
        <script>x</script>
        <style>url(#x)</style>
        <p style>
        <style>/* url(/x) */</style>
        <base href=/x style='y'>
        <input src=x>
        <div background=x>
        <link imagesrcset>
        <img data-src='' data-srcset>
    """,
)
def test_elements_without_links_give_none_of_any_kind(html):
    assert links(html, kinds=KINDS) == []


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
    assert paths(f"<style>{'url(/x)' * 5} url(/y)</style>") == ["/x"]


@cases(
    "value expected",
    r"""
        a                  | a
        a,                 | a
        a,b                | a,b
        a,, b              | a, b
        a 1x, b 2.5x,c 3x  | a, b, c
        a 100w,b 200w      | a, b
        a 0w, b nonsense   | a, b
        a (x, y) 1x, b     | a, b
        a (never closed, b | a
        a,,,, (b           | a, (b
        data:,x 1x, b 2x   | data:,x, b
        ""                 | ""
        " , ,"             | ""
        "\ta\n1x\f,\rb"    | a, b
    """,
)
def test_srcset_is_read_as_the_standard_says(value, expected):
    assert ", ".join(srcset_references(value)) == expected


def test_candidates_of_one_srcset_are_bounded():
    assert len(list(srcset_references(", ".join(map(str, range(1000)))))) == MAX_CANDIDATES


def test_metas_are_found_by_name():
    html = """<meta name=Robots content=NoIndex><meta name=other content=x><meta name=robots>
        <p><meta name=mybot content='y'></p><a href=/x>x</a><meta name=robots content=z>"""
    found = extracted(html, limit=1, meta_names=frozenset({"robots", "mybot", "]"}))
    assert found.metas == [("robots", "NoIndex"), ("mybot", "y"), ("robots", "z")]
    assert shown(found.links) == "a /x x"
    assert extracted(html).metas == []


def test_metas_are_bounded():
    html = b"<meta name=robots content='" + b"x" * 5000 + b"'>"
    names = frozenset({"robots"})
    metas = extracted(html * 50, meta_names=names).metas
    assert metas == [("robots", "x" * 1024)] * MAX_METAS


def numbered(unit, count):
    """*count* times *unit*, with the number of each in place of its ``#``."""
    return "".join(unit.replace("#", str(number)) for number in range(count))


MIB = 1 << 20
# Units of which 1 MiB is read.
TRAPS = {
    "depth": "<div>",
    "lists": "<ul><li>",
    "formatting": "<p><font size=#>x</p>",
    "attributes": "<a " + numbered("a# ", MIB // 8) + " href=/x>",
    "attributes, short": "<a " + numbered("a# ", 500) + " href=/x>",
    "anchors": "<a href=/#>t",
    "nesting": "<a href=/x><table><td>",
    "images": "<a href=/x><table><td><img alt=' '>",
    "images of one anchor": "<a href=/x>" + "<img alt=' '>" * (MIB // 13),
    "open tags": "<a ",
    "open quotes": '<a b">',
    "less than": "<",
    "comments": "<!--",
    "refresh": "<meta http-equiv=refresh content='" + "1" * MIB + "'>",
    "references": "<a href='?" + "й" * 8000 + "'>",
    "templates": "<template><a href=/x>",
    "shadow roots": "<p><template shadowrootmode=open><base href=/x>",
}
# Pages of so few tags that they are not thinned.
FEW_TAGS = {
    "formatting": ("<p><font size=#>x</p>", 330),
    "images": ("<a href=/#><table><td><img alt=' '>", 240),
    "shadow roots": ("<p><template shadowrootmode=open><a href=/x>", 320),
    "bases of SVG": ("<svg><g><base href=/x>", 320),
}
TRAPS_OF_EVERY_KIND = {
    **{
        name: f"<a href=/x><{name} src=/y action=/y data=/y>t"
        for name in pieces("form object video audio img imgx source embed script")
    },
    "styles": "<font style='x: url(/#)'>",
    "style sheet": "<style>" + "url(x)" * (MIB // 6),
    "style sheets": "<style>url(/x)</style>",
    "candidates": "<img srcset='" + numbered("#, ", MIB // 7) + "'>",
    "many candidates": "<img srcset='" + numbered("##, ", 100) + "'>",
}


@each(
    "unit count kinds",
    *(
        [
            pytest.param(unit, MIB // len(unit) or 1, kinds, id=name)
            for kinds, units in ((DEFAULT_KINDS, TRAPS), (KINDS, TRAPS_OF_EVERY_KIND))
            for name, unit in units.items()
        ]
        + [pytest.param(*few, KINDS, id=f"{name}, few tags") for name, few in FEW_TAGS.items()]
    ),
)
def test_page_made_to_take_long_takes_linear_time(unit, count, kinds):
    """Without the thinning the worst take minutes and gigabytes; with it, 0.3 s. The bound has
    room for a slow machine."""
    page = numbered(unit, count).encode("windows-1251")

    def is_quick():
        started = time.thread_time()
        assert len(links(page, charset="windows-1251", limit=5000, kinds=kinds)) <= 5000
        return time.thread_time() - started < 2

    # At the second try, if the collector went through all that the tests before have left.
    assert is_quick() or is_quick()


PIECES = r"""
    <a_href= <a> </a> < > " ' /x http:// <!-- --> \ <base_href= <script_src= <script> </script>
    <iframe_src= 0;url= _ <meta_http-equiv=refresh_content= <link_rel=next_href= <link_rel=x_href=
    é <img_src= <img_srcset=' <object_data= </object> <form_action= @import_ <video_poster= <style>
    </style> <p_style=' url( ) _1x, <svg> xlink:href= <meta_name=robots_content= &# &amp; <table>
    <td> # ? ( = /* */
"""
html_like = st.lists(
    st.sampled_from([*pieces(PIECES), "\n", "\x00"]) | st.text(max_size=3), max_size=40
).map("".join)


@examples(500)
@given(
    html_like.map(lambda text: text.encode("utf-8", "replace")) | st.binary(),
    st.none() | st.sampled_from(["utf-8", "windows-1251", "iso-2022-jp", "utf-16", "gb18030"]),
    st.just(DEFAULT_KINDS) | st.frozensets(st.sampled_from(sorted(KINDS))),
    st.integers(1, 5),
)
def test_no_bytes_raise_and_all_links_are_normalized(body, charset, kinds, limit):
    names = frozenset({"robots"})
    found = extracted(body, charset=charset, limit=limit, kinds=kinds, meta_names=names)
    assert len(found.links) <= limit
    assert len({link.url for link in found.links}) == len(found.links)
    for link in found.links:
        assert link.kind in kinds
        assert normalize(link.url) == link.url
        assert len(link.text) <= MAX_TEXT_CHARS
        assert link.text == " ".join(link.text.split())
        link.text.encode()


@each("page expected", *PAGES.values(), ids=PAGES)
def test_links_of_a_broken_page(page, expected):
    assert [url.removeprefix("http://a.test") for url in urls(page)] == expected
