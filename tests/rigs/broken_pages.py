"""Broken pages, as people and programs write them, and the links that a browser would show.

Each is a name, the page, and the paths of its links by ``a`` and ``area`` in document order. They
have nothing but what is broken; ``whole`` makes of one a page of ordinary length with that in its
middle. Read by the tests and by benchmarks/bench_extraction.py.
"""

from __future__ import annotations

URL = "http://a.test/dir/page.html"

PAGES = {
    "no quotes": ("<a href=/1>x</a><a href=/2/>y</a><a href = /3 >z</a>", ["/1", "/2/", "/3"]),
    "nothing closed": (
        "<html><body><p><a href=/1>x<p><a href=/2>y<td><a href=/3>z",
        ["/1", "/2", "/3"],
    ),
    "wrong nesting": ("<b><a href=/1><i>x</b></a></i><p></b><a href=/2>y</p></a>", ["/1", "/2"]),
    "anchor in anchor": ("<a href=/1>x<a href=/2>y</a></a>", ["/1", "/2"]),
    "anchor around blocks": ("<a href=/1><div><p>x</p><table><tr><td>y</table></div></a>", ["/1"]),
    "no html at all": ("just text <a href=/1>x</a> and more", ["/1"]),
    "two bodies": (
        "<body><a href=/1>x</a></body></html><html><body><a href=/2>y</a>",
        ["/1", "/2"],
    ),
    "links in the head": (
        "<head><a href=/1>x</a><title>t</title></head><a href=/2>y",
        ["/1", "/2"],
    ),
    "table without rows": ("<table><a href=/1>x</a><tr><a href=/2>y</a></table>", ["/1", "/2"]),
    "links in a select": (
        "<a href=/1>x</a><select><option>o</select><a href=/2>y</a>",
        ["/1", "/2"],
    ),
    "quote never closed": (
        '<a href="/1>x</a><p>"</p><a href="/2">y</a>',
        ["/1%3Ex%3C/a%3E%3Cp%3E", "/2"],
    ),
    "quote in the middle": ("<a href=/1\"x>x</a><a title=don't href=/2>y</a>", ["/1%22x", "/2"]),
    "missing space": ('<a class="x"href="/1">x</a><a id=y class=""href=/2>y</a>', ["/1", "/2"]),
    "attribute twice": ("<a href=/1 href=/no>x</a>", ["/1"]),
    "upper case": ("<A HREF='/1'>x</A><AREA HREF='/2'>", ["/1", "/2"]),
    "entities": (
        "<a href='/?a=1&b=2&amp;c=3&copy=4&lt=5'>x</a><a href='/&eacute;&#x31'>y</a>",
        ["/?a=1&b=2&c=3&copy=4&lt=5", "/%C3%A91"],
    ),
    "white space": (
        "<a href=' \n/1\t'>x</a><a href='/a\nb'>y</a><a\nhref\n=\n/2>z</a>",
        ["/1", "/ab", "/2"],
    ),
    "space within": ("<a href='/a b?c d'>x</a>", ["/a%20b?c%20d"]),
    "backslashes": (r"<a href='\1\2'>x</a><a href='..\3'>y</a>", ["/1/2", "/3"]),
    "dots": (
        "<a href='../../../1'>x</a><a href='./2'>y</a><a href='a/../3'>z</a>",
        ["/1", "/dir/2", "/dir/3"],
    ),
    "comment with arrows": (
        "<!-- <a href=/no>x</a> --><a href=/1>y</a><!-- > <a href=/no> -->",
        ["/1"],
    ),
    "short comments": (
        "<!--><a href=/1>x</a><!---><a href=/2>y</a><!----><a href=/3>z</a>",
        ["/1", "/2", "/3"],
    ),
    "comment ended by bang": ("<!-- <a href=/no> --!><a href=/1>x</a>", ["/1"]),
    "comment never closed": ("<a href=/1>x</a><!-- <a href=/no>y</a>", ["/1"]),
    "conditional comments": (
        "<!--[if IE]><a href=/no><![endif]--><![if !IE]><a href=/1>y</a><![endif]>",
        ["/1"],
    ),
    "CDATA in HTML": ("<![CDATA[<a href=/no>x</a>]]><a href=/1>y</a>", ["/1"]),
    "script with tags": (
        "<script>document.write('<a href=/no>x</a>')</script><a href=/1>y</a>",
        ["/1"],
    ),
    "script never closed": ("<a href=/1>x</a><script>var x = '<a href=/no>'", ["/1"]),
    "text areas": (
        "<textarea><a href=/no></textarea><title><a href=/no></title><a href=/1>x",
        ["/1"],
    ),
    "templates": ("<template><a href=/no>x</a></template><a href=/1>y</a>", ["/1"]),
    "noscript": ("<noscript><a href=/1>x</a></noscript><a href=/2>y</a>", ["/1", "/2"]),
    "null bytes": (b"<a href=/1>x\x00</a><a\x00href=/no>y</a><a href=/2>z</a>", ["/1", "/2"]),
    "wrong encoding": ("<meta charset=utf-8><a href='/é'>x</a>".encode("latin-1"), ["/%EF%BF%BD"]),
    "XML declaration": (
        "<?xml?><html xmlns='http://www.w3.org/1999/xhtml'><a href='/1' /><a href='/2' />",
        ["/1", "/2"],
    ),
    "SVG and MathML": (
        "<svg><a href=/1><text>x</text></a></svg><math><mi><a href=/2>y</math>",
        ["/1", "/2"],
    ),
    "less than in text": ("1 < 2 <a href=/1>x < y</a> <3 <a href=/2>y</a> << ", ["/1", "/2"]),
    "slashes in tags": ("<a/href=/1/>x</a><a / href=/2>y</a / >", ["/1/", "/2"]),
    "map": ("<map><area href=/1><area href=/2></map><img usemap=#x>", ["/1", "/2"]),
    "base in the body": ("<a href=1>x</a><base href=/b/><a href=2>y</a>", ["/b/1", "/b/2"]),
    "cut in a tag": ("<a href=/1>x</a><a href='/no", ["/1"]),
    "deep": ("<div>" * 700 + "<a href=/1>x</a>", ["/1"]),
    "many formats": ("<p><font size=1><b><i><u>" * 30 + "<a href=/1>x</a>", ["/1"]),
    "schemes": (
        "<a href=HTTP://a.test/1>x</a><a href=http:2>y</a><a href=http:/3><a href=//b.test/4>",
        ["/1", "/dir/2", "/3", "http://b.test/4"],
    ),
    "no links": (
        "<a href='#x'>x</a><a href='javascript:x()'><a href=mailto:x@a.test>z</a><a>w",
        [],
    ),
}


def whole(page):
    """*page* in the middle of a page of some 20 kB with 40 links: as long as pages of the web were
    in Mercator's days, and a tenth of today's."""
    body = page.encode() if isinstance(page, str) else page
    return _BEFORE.encode() + body + _AFTER.encode()


_TEXT = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt. "
)
_BEFORE = (
    "<!DOCTYPE html><html lang=en><head><title>A page</title><link rel=stylesheet href=/s.css>"
    "<script src=/s.js></script></head><body><ul class='menu menu-main'>"
    + "".join(
        f"<li class=item><a class='menu-link' href='/menu/{n}/'>Part {n}</a></li>"
        for n in range(20)
    )
    + "</ul><main>"
    + "".join(f"<p id=p{n}>{_TEXT * 4}</p>" for n in range(20))
)
_AFTER = (
    "".join(
        f"<p>{_TEXT * 4}<a href='article-{n}.html?from=here'>Article {n}</a>"
        f"<img src=/img/{n}.png alt='Picture {n}'></p>"
        for n in range(20)
    )
    + "</main><footer><p>The end</footer></body></html>"
)
