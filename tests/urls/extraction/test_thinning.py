"""A thinned page has the links of the whole one."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from text_tables import each, lines, pieces, shown

from webcrawl.urls.extraction import html as extraction
from webcrawl.urls.extraction import thinning
from webcrawl.urls.extraction.html import extract
from webcrawl.urls.extraction.kinds import KINDS
from webcrawl.urls.extraction.thinning import (
    MAX_KEPT,
    MAX_MARKED,
    SAFE_BYTES,
    SAFE_TAG_BYTES,
    SAFE_TAGS,
    is_rich,
    thin,
)

URL = "http://a.test/"


def links_of(html, charset=None, **more):
    body = html if isinstance(html, bytes) else html.encode()
    return extract(body, url=URL, charset=charset, limit=10_000, **more).links


def whole_and_thinned(html, **more):
    found = []
    for answer in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(extraction, "is_rich", lambda _body, answer=answer: answer)
            found.append(links_of(html, "utf-8", **more))
    return found


attribute = st.sampled_from(
    ["class=c", "title='a > b'", 'title="a < b"', "data-x='{\"k\": [1]}'", "hidden", "id=i/"]
)
name = st.sampled_from(pieces("div DIV span b article abbr address strong time listing menu"))
text = st.sampled_from(["text", " ", "don't ", '"quoted" ', "&amp;", "1 > 0 ", "\n"])


INSIDE = [
    *("text", "<b>bo</b>ld", "<span>x</span> y", "", " <img src=x alt='an > image'>"),
    "<b><IMG alt=''><img alt='two &amp; more'>",
]
LEAVES = lines("""
    <!-- <a href=/no>no</a> -->
    <script>var x = '<a href=/no>' < 1</script>
    <STYLE>a > b {}</STYLE>
    <textarea><a href=/no></textarea>
    <!---->
    <!-->
    <link rel=next href=/next>
    <area href=/area>
    <br>
    <img src=x>
    <iframe src=/frame>fallback <a href=/no></a></iframe>
    <meta name=x content=y>
    <title>a < b</title>
""")


@st.composite
def elements(draw, depth=3):
    """HTML that is closed properly, as most is: there the two ways must agree exactly."""
    out = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            out.append(draw(st.sampled_from(LEAVES)))
        elif kind < 4 or depth == 0:
            out.append(draw(text))
        elif kind < 7:
            attributes = " ".join(draw(st.lists(attribute, max_size=2, unique=True)))
            href = f"href=/{draw(st.integers(0, 5))}"
            inside = draw(st.sampled_from(INSIDE))
            out.append(f"<a {attributes} {href} >{inside}</a>")
        else:
            tag = draw(name)
            attributes = " ".join(draw(st.lists(attribute, max_size=2, unique=True)))
            out.append(f"<{tag} {attributes}>{draw(elements(depth=depth - 1))}</{tag}>")
    return "".join(out)


@given(elements())
def test_thinned_page_has_the_same_links_and_texts(html):
    whole, thinned = whole_and_thinned(html)
    assert thinned == whole


@each(
    "html",
    *lines("""
        <a title='<b>x</b>' href=/x>text</a><a href=/y>y</a>
        <a title="don't > <i>" href='/x'>text</a><a href=/y>y</a>
        <a href=/x>one<a href=/y>two</a>
        <a/href=/x>one</a/>
        <frameset><frame src=/x></frameset>
        <base href=/b/><meta http-equiv=refresh content='0;url=r'><a href=x>x</a>
        <script src=s></script><a href=/x>x</a><SCRIPT>never closed <a href=/no>
        <style><a href=/no></style><a href=/x>x</a>
        <a href=/x>x</a><!-- never closed <a href=/no>
        <a href=/x>x</a><iframe src=/f>never closed <a href=/no>
        <a href=/x>x</a><a href=/never title='closed <p>x</p>
        <linkx href=/no rel=next><basement href=/no><arena href=/no><a-b href=/no>
        <scripture><a href=/x>x</a></scripture><sty><a href=/y>y</a>
        text < <a href=/x>1 < 2</a> & > text
        <svg><title/><path/></svg><a href=/x>x</a>
        <svg viewBox='0 0'><style/><a href=/x>x</a></svg><a href=/y>y</a>
        <svg/><title><a href=/no></title><a href=/x>x</a>
        <svg><font><xmp/><a href=/x>x</a>
        <svg><![CDATA[<a href=/no>]]><a href=/x>x</a></svg><![CDATA[<a href=/no>]]>
        <svg><![CDATA[</svg>]]></ ><!x><template><a href=/x>x</a></template></svg><a href=/y>y</a>
        <svg><svg></svg><title/><a href=/x>x</a></svg><script><a href=/no></script>
        <svg><iframe src=/f /><a href=/x>x</a></svg>
        <!-- --!><a href=/x>x</a><!--> --><a href=/y>y</a><!---><a href=/z>z</a>
        <!--!> <a href=/no> <!--><a href=/x>x</a>
        <script><!-- '<script></script>' <a href=/no> --></script><a href=/x>x</a>
        <script><!--> <script></script><a href=/x>x</a>
        <title></titles><a href=/no></title/><a href=/x>x</a>
        <titles><a href=/x>x</a>
        <!x <a href=/no>><?y <a href=/no>></ <a href=/no>></><a href=/x>x</a>
        <div <style><a href=/x>x</a><p title='<!--'><a href=/y>y</a>
        <iframe srcdoc='<p></iframe>' src=/f><a href=/no></iframe><a href=/x>x</a>
        <a href=/x>one<!-- c -->two<script>s</script>three</a>
        """),
    "<a\nhref=/x>one</a\n><A\tHREF=/y>two</A >",
    f"<iframe title='{'x' * SAFE_TAG_BYTES}' src=/f>in</iframe><a href=/x>x</a>",
)
def test_corner_cases_are_read_as_the_parser_reads_them(html):
    whole, thinned = whole_and_thinned(html)
    assert [link.url for link in thinned] == [link.url for link in whole]


@each("raw", "<script>s</script>", "<STYLE>s</STYLE>", "<svg><style>s</style></svg>")
def test_a_thinned_link_does_not_say_what_a_script_or_a_style_sheet_does(raw):
    _, thinned = whole_and_thinned(f"<a href=/x>one<b>two</b>{raw}three</a>{raw}")
    assert [link.text for link in thinned] == ["onetwothree"]


NASTY = """
    <svg> </svg> <svg/> <SVG_x='0'> <math> </Math> <g> </g> <mi> </mi> <mtext/> <desc> </desc>
    <foreignObject> <font> <path/> <title> <title/> </title> </titles> <style> <style/> </style>
    <p> </p> <span> <br> <script> <script/> </script> <textarea> </TextArea> <xmp> </xmp>
    <noembed> </noembed> <iframe_src=/f> <iframe/> </iframe> <!-- --> --!> <!--> <!---> <!x>
    <template> </template> <x-a> </x-a> <p><template_shadowrootmode=open>
    <?php_?> </> - ! > text <a_href=/1> <a_href=/2> <a_href=/3/> <area_href=/4> _
"""


@examples(500)
@given(st.lists(st.sampled_from(pieces(NASTY)), max_size=10))
def test_no_link_is_lost_by_thinning_whatever_the_nesting(tokens):
    """More may be found, in what a parser ignores for its place in the tree."""
    html = "".join([*tokens, "<a href=/end>"])
    whole, thinned = whole_and_thinned(html)
    assert {link.url for link in whole} <= {link.url for link in thinned}


def test_rich_is_what_has_many_tags_or_a_long_one():
    assert not is_rich(b"<p>" * SAFE_TAGS)
    assert not is_rich(b"<p>".ljust(SAFE_BYTES // SAFE_TAGS) * SAFE_TAGS)
    assert is_rich(b"<p>".ljust(SAFE_BYTES // SAFE_TAGS) * SAFE_TAGS + b" ")
    assert is_rich(b"<p>" * (SAFE_TAGS + 1))
    assert not is_rich(b"")
    assert not is_rich(b"x" * (SAFE_TAG_BYTES // 2 - 1))
    for before in (0, 1, 700, SAFE_TAG_BYTES):
        assert is_rich(b"<".ljust(before, b"<")[:SAFE_TAGS] + b"x" * SAFE_TAG_BYTES)


def test_link_of_too_many_attributes_is_dropped_and_the_others_are_kept():
    names = b" ".join(b"a%d" % n for n in range(1000))
    long_value = b"v " * 2000
    body = (
        b"<a %s href=/many>many</a><a href=/few>few</a><a title='%s' href=/long>long</a>"
        b"<iframe %s src=/f></iframe>"
    ) % (names, long_value, names)
    links = links_of(body)
    assert shown(links) == "a /few few, a /long long"


def attributes(start, count):
    """Attributes of different names, as a parser that compares each with all before it dislikes."""
    return " ".join(f"{n:x}" for n in range(start, start + count))


MANY = [f"{attributes(250 * n, 249)} <" for n in range(400)]


@each(
    "html",
    "<a " + " ".join(MANY) + ">",
    "<a " + " ".join(MANY).replace("<", "x='>'<") + ">",
    "<a b=c='" + attributes(0, 99_000) + "'>",
    "<a ='" + attributes(0, 99_000) + "'>",
    "<a b=c\"d e='x > y' " + attributes(0, 99_000) + ">",
    " ".join("<a " + some.replace("<", "") for some in MANY) + " " * 3000 + ">",
    " ".join(f"<a x='{some[:-1]}' b=c'd e='x >" for some in MANY) + " " * 3000 + "'>",
    " ".join(f"<a x='{some[:-1]}' b=c'd e='x >" for some in MANY[:80]) + " " * 3000 + "'>",
)
def test_no_spelling_gets_a_tag_of_countless_attributes_to_the_tree_builder(html):
    assert is_rich(html.encode())
    tags = thin(html.encode()).decode()
    for kind in ("x=''", "href=/"):  # where it ends, whether a quote is open or not
        for tag in (tags, f"{tags}<a {kind}>"):
            started = time.thread_time()
            links_of(tag, "utf-8")
            assert time.thread_time() - started < 0.5


def test_tag_ends_where_the_standard_says():
    body = (
        b"<a href=/1 title='don't'>1</a><a href=/2\">2</a><a b=c\"d href='/3?x>y'>3</a>"
        b"<a =' href=/4>4</a><a href= >5</a><a href=/6 b=>6</a><a/href='/7'>7</a>"
        b"<a b='<'c=\"</\"href=/8 d>8</a><a href='/9>9</a>"
    )
    links = links_of(body + b" " * SAFE_BYTES)
    assert shown(links) == "a /1 1, a /2%22 2, a /3?x%3Ey 3, a /4 4, a /6 6, a /7 7, a /8 8"
    assert links == links_of(body)


def test_tags_in_pieces_do_not_get_a_page_through_unthinned():
    body = b"<a href='" + b"<font size=1>" * 5000
    assert len(thin(body)) < 8000
    some = thinning._CONTINUATIONS
    assert thin(b"<a " + b"<p" * some + b">").count(b"<") == some + 1
    assert thin(b"<a " + b"<p" * 5000) == b""


def test_what_is_not_finished_is_not_kept():
    elements = frozenset({"form"})
    assert thin(b"<form action='", elements) == b""
    assert thin(b"<p style='url(/x)'", styles=True) == b""
    assert thin(b"</p url(/x)><?url(x)>", styles=True) == b""
    assert thin(b"<p style='url(/x)'>text", styles=True) == b"<wbr  style='url(/x)'>"


def test_ends_of_anchors_that_have_not_begun_are_dropped():
    assert thin(b"</a><a href=x>y</a>z</a><p></a>") == b"<a href=x>y</a>"


def test_link_tags_of_one_page_are_bounded():
    assert thin(b"<a href=x>" * (MAX_KEPT + 5)).count(b"<a") == MAX_KEPT
    assert thin(b"</a>" * (MAX_MARKED - 1) + b"<a href=x><a href=y>") == b"<a href=x>"


@given(st.binary() | st.text("<a >/!-'\"=scriptxm", max_size=60).map(str.encode))
def test_thinning_never_raises_and_never_adds_text(body):
    assert len(thin(body)) <= len(body) + len("</iframe>") * body.count(b"<")


PIECES = lines("""
    <img src=/i alt='an image'>
    <IMG srcset='/1 1x, /2 2x'>
    <script src=/s></script>
    <script src='/s'>if (a < b) { '<a href=/no>' }</script>
    <object data=/o>inside</object>
    <form action=/f><input></form>
    <video src=/v poster='/p'><source src=/w></video>
    <audio src=/u></audio>
    <embed src=/e>
    <style>p { x: url(/c) } /* < */</style>
    <p style='x: url(/d)' title="a > b">x</p>
    <b STYLE='x: URL(/d)'>x</b>
    <picture><source srcset='/w1, /w2'><img src=/w3></picture>
    <image src=/w4>
    <trackless src=/no></trackless>
    <format action=/no></format>
    <track src=/t>
    <link rel=icon href=/icon>
    <p style='x: none'>x</p>
    <img data-src=/l1 data-srcset=/l2>
    <source data-srcset='/l3 1x'>
    <link rel=preload imagesrcset='/l4 1x, /l5 2x'>
    <svg><g></g><image href=/m1 /><IMAGE xlink:href='/m2'/></svg>
    <input src=/no>
    <input type=image src=/n1>
    <table BACKGROUND='/n2'><tr><td background = /n3>x</table>
    <div background=/no>x</div>
    <p><template><img src=/no></template></p>
    <x-a><template shadowrootmode=open><img src=/o1><base href=/no/></template></x-a>
""")


@given(st.lists(st.sampled_from(PIECES) | elements(depth=1), max_size=6).map("".join))
def test_thinned_page_has_the_same_links_of_every_kind(html):
    whole, thinned = whole_and_thinned(html, kinds=KINDS)
    assert [(link.url, link.kind) for link in thinned] == [(link.url, link.kind) for link in whole]
