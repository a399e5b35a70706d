"""Documents with the links that they have, by the HTML Standard or by what Chromium does with them.

Each is read whole and, padded, on the thinned path. Where one of these has other links, or the
browser, the row says which, and why. They are frozen for ``make test``;
``test_documents_in_browser`` asks the browser again.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A document ``body``, and the paths, or URLs on other hosts, of its ``links``, in document
    order, by ``source``. Those on the ``thinned`` path and in the ``browser`` if they differ, and
    ``why``."""

    body: object
    links: list
    source: str
    thinned: object = None
    browser: object = None
    why: str = ""
    content_type: str = "text/html; charset=utf-8"


_BASE = "HTML 4.2.3: the first base element with an href, in tree order"
_FROZEN = "HTML 4.2.3, set the frozen base URL"
_IN_BODY = "HTML 13.2.6.4.7: a base is treated as in the head"
_FOREIGN = "HTML 13.2.6.5: an element of SVG or MathML"
_ROOT = "HTML 13.2.6.4.4, template; DOM, attach a shadow root"
_CONTENTS = "HTML 4.12.3: the contents of a template are not in the document"
_PRESCAN = "HTML 13.2.3.3, prescan"
_BOUND = "a base of more than 2,048 characters is ignored, as its links would all be too long"

BASES = {
    "the first": Case("<base href=/b/><base href=/c/><a href=x>", ["/b/x"], _BASE),
    "only with an href": Case("<base target=x><base href=/b/><a href=x>", ["/b/x"], _BASE),
    "behind the link": Case("<a href=x></a><base href=/b/>", ["/b/x"], _BASE),
    "of other links": Case(
        "<link rel=next href=n><meta http-equiv=refresh content='9999;url=r'>"
        "<iframe src=f></iframe><map><area href=a></map><base href=/b/>",
        ["/b/n", "/b/r", "/b/f", "/b/a"],
        _BASE,
    ),
    "in the body": Case("<body><p><base href=/b/><a href=x>", ["/b/x"], _IN_BODY),
    "in a list": Case("<ul><li><base href=/b/></ul><a href=x>", ["/b/x"], _IN_BODY),
    "in a table": Case("<table><tr><base href=/b/><td><a href=x></table>", ["/b/x"], _IN_BODY),
    "in a select": Case("<select><base href=/b/></select><a href=x>", ["/b/x"], _IN_BODY),
    "in an anchor": Case("<a href=x><base href=/b/></a>", ["/b/x"], _IN_BODY),
    "behind the body": Case("</body></html><base href=/b/><a href=x>", ["/b/x"], _IN_BODY),
    "in noscript": Case("<noscript><base href=/b/></noscript><a href=x>", ["/b/x"], _IN_BODY),
    "noscript in the body": Case(
        "<body><noscript><base href=/b/></noscript><a href=x>", ["/b/x"], _IN_BODY
    ),
    "put in front of its table": Case(
        "<table><tr><td><base href=/b/></td></tr><base href=/c/></table><a href=x>",
        ["/c/x"],
        "HTML 13.2.6.1, foster parent",
        thinned=["/b/x"],
        why="the thinned path keeps the order of the source",
    ),
    "in SVG": Case("<svg><base href=/b/></svg><a href=x>", ["/dir/x"], _FOREIGN),
    "deep in SVG": Case("<svg><g><g><base href=/b/></g></g></svg><a href=x>", ["/dir/x"], _FOREIGN),
    "in SVG, then in HTML": Case(
        "<svg><base href=/b/></svg><base href=/c/><a href=x>", ["/c/x"], _FOREIGN
    ),
    "in SVG that a paragraph ends": Case(
        "<svg><p><base href=/b/></svg><a href=x>", ["/b/x"], _FOREIGN
    ),
    "in HTML in SVG": Case(
        "<svg><foreignObject><base href=/b/></foreignObject></svg><a href=x>", ["/b/x"], _FOREIGN
    ),
    "in a description in SVG": Case(
        "<svg><desc><base href=/b/></desc></svg><a href=x>", ["/b/x"], _FOREIGN
    ),
    "in a title in SVG": Case(
        "<svg><title><base href=/b/></title></svg><a href=x>", ["/b/x"], _FOREIGN
    ),
    "in MathML": Case("<math><base href=/b/></math><a href=x>", ["/dir/x"], _FOREIGN),
    "in text in MathML": Case(
        "<math><mi><base href=/b/></mi></math><a href=x>", ["/b/x"], _FOREIGN
    ),
    "in an annotation": Case(
        "<math><annotation-xml><base href=/b/></annotation-xml></math><a href=x>",
        ["/dir/x"],
        _FOREIGN,
    ),
    "in an annotation of HTML": Case(
        "<math><annotation-xml encoding=text/html><base href=/b/></annotation-xml></math>"
        "<a href=x>",
        ["/b/x"],
        _FOREIGN,
        thinned=["/dir/x"],
        why="the thinned path takes every annotation for one of MathML",
    ),
    "in a template": Case("<template><base href=/b/></template><a href=x>", ["/dir/x"], _CONTENTS),
    "in a template, then outside": Case(
        "<template><base href=/b/></template><base href=/c/><a href=x>", ["/c/x"], _CONTENTS
    ),
    "in a shadow root": Case(
        "<div><template shadowrootmode=open><base href=/b/><a href=y></a></template></div>"
        "<a href=x>",
        ["/dir/y", "/dir/x"],
        "HTML 4.2.3: in the document, so not in a shadow tree",
    ),
    "in raw text": Case(
        "<!-- <base href=/b/> --><script>'<base href=/b/>'</script><style><base href=/b/></style>"
        "<title><base href=/b/></title><textarea><base href=/b/></textarea>"
        "<iframe><base href=/b/></iframe><noframes><base href=/b/></noframes><a href=x>",
        ["/dir/x"],
        "HTML 13.2.5, RAWTEXT and RCDATA states",
    ),
    "in an attribute": Case(
        "<div title='<base href=/b/>'></div><a href=x>", ["/dir/x"], "HTML 13.2.5.36 and following"
    ),
    "in an attribute with other tags": Case(
        "<div title='<p><base href=/b/>'></div><a href=x>",
        ["/dir/x"],
        "HTML 13.2.5.36 and following",
        thinned=["/b/x"],
        why="the thinned path takes tags in an attribute for tags",
    ),
    "of a frameset": Case("<base href=/b/><frameset><frame src=x></frameset>", ["/b/x"], _BASE),
    "in capitals": Case("<BASE HREF=/b/><a href=x>", ["/b/x"], "HTML 13.2.5.8"),
    "closed": Case("<base href='/b/' /><a href=x></a></base>", ["/b/x"], "HTML 13.2.5.40"),
    "with a character reference": Case(
        "<base href='/b&#47;?a&amp;b'><a href=x>", ["/b/x"], "HTML 13.2.5.72"
    ),
    "an older one": Case("<basefont href=/b/><a href=x>", ["/dir/x"], _BASE),
    "in the way of XML": Case("<div xml:base=/b/><a href=x></div>", ["/dir/x"], _BASE),
    "with spaces": Case("<base href='\n /b/ \t'><a href=x>", ["/b/x"], "URL 4.4"),
    "empty": Case("<base href=''><base href=/c/><a href=x>", ["/dir/x"], _FROZEN),
    "without a value": Case("<base href><base href=/c/><a href=x>", ["/dir/x"], _FROZEN),
    "a fragment": Case("<base href='#f'><base href=/c/><a href=x>", ["/dir/x"], _FROZEN),
    "a query": Case(
        "<base href='?q'><a href=x></a><a href='?r'></a>", ["/dir/x", "/dir/page.html?r"], _FROZEN
    ),
    "a file": Case("<base href=/b/c.html><a href=x>", ["/b/x"], _FROZEN),
    "relative": Case("<base href=../b/><a href=x>", ["/b/x"], _FROZEN),
    "relative to the document": Case(
        "<base href=b/><base href=c/><a href=x>",
        ["/dir/b/x"],
        _FROZEN + ": by the fallback base URL",
    ),
    "of another host": Case("<base href=//c.test/b/><a href=x>", ["http://c.test/b/x"], _FROZEN),
    "of another scheme": Case(
        "<base href=https://c.test/b/><a href=x></a><a href=//d.test/>",
        ["https://c.test/b/x", "https://d.test/"],
        _FROZEN,
    ),
    "without a path": Case("<base href=http://c.test><a href=x>", ["http://c.test/x"], _FROZEN),
    "with backslashes": Case(
        "<base href='\\\\c.test\\b\\'><a href=x>", ["http://c.test/b/x"], "URL 4.4"
    ),
    "with a password": Case(
        "<base href=http://u:p@c.test/b/><a href=x>",
        ["http://c.test/b/x"],
        _FROZEN + "; RFC 9110 4.2.4",
    ),
    "with a scheme and a path": Case("<base href=http:b/><a href=x>", ["/dir/b/x"], "URL 4.4"),
    "empty references": Case(
        "<base href=/b/><a href=''></a><map><area href='#y'></map>", ["/b/"], "HTML 2.4.3"
    ),
    "an empty frame": Case(
        "<base href=/b/><iframe src=''></iframe>", [], "HTML 4.8.5: about:blank"
    ),
    "a fragment in a frame": Case(
        "<base href=/b/><iframe src='#x'></iframe>",
        [],
        "HTML 4.8.5",
        browser=["/b/"],
        why="a mere fragment leads elsewhere only in an anchor",
    ),
    "in another encoding": Case(
        "<base href='/b/?é'><a href='?é'>".encode("latin-1"),
        ["/b/?%E9"],
        _FROZEN + ": in the document's encoding",
        content_type="text/html; charset=iso-8859-1",
    ),
    "no URL": Case(
        "<base href='http://['><base href=/c/><a href=x>",
        ["/dir/x"],
        _FROZEN,
        browser=[],
        why="Chromium takes about:blank for the base, against the standard",
    ),
    "of data": Case("<base href='data:,x'><base href=/c/><a href=x>", ["/dir/x"], _FROZEN),
    "of a script": Case(
        "<base href=' JavaScript:x'><base href=/c/><a href=x>", ["/dir/x"], _FROZEN
    ),
    "of nothing": Case(
        "<base href=about:blank><a href=x></a><a href=http://c.test/>", ["http://c.test/"], _FROZEN
    ),
    "of mail": Case(
        "<base href=mailto:a@a.test><a href=x></a><a href=http://c.test/>",
        ["http://c.test/"],
        _FROZEN,
    ),
    "of FTP": Case("<base href=ftp://c.test/b/><a href=x></a><a href=//d.test/>", [], _FROZEN),
    "of files": Case(
        "<base href=file:///b/><a href=x></a><a href=http://c.test/>", ["http://c.test/"], _FROZEN
    ),
    "of a socket": Case("<base href=wss://c.test/b/><a href=x>", [], _FROZEN),
    "of a blob": Case("<base href=blob:http://c.test/x><a href=x>", [], _FROZEN),
    "of a scheme of its own": Case(
        "<base href=foo:bar><a href=x></a><a href=http:/y>", ["http://y/"], _FROZEN
    ),
    "long": Case(
        f"<base href='/b/?{'b' * 3000}'><a href=x></a><a href=/y>",
        ["/dir/x", "/y"],
        "a bound of this crawler",
        browser=["/b/x", "/y"],
        why=_BOUND,
    ),
    "against the policy": Case(
        "<meta http-equiv=Content-Security-Policy content=\"base-uri 'none'\"><base href=/b/>"
        "<a href=x>",
        ["/b/x"],
        "CSP3 6.1.1",
        browser=["/dir/x"],
        why="content security policies are not read",
    ),
}

_NAV = "<nav><a href=/1>1</a></nav>"

TEMPLATES = {
    "a shadow root": Case(
        f"<my-app><template shadowrootmode=open>{_NAV}</template><a href=/2>2</a></my-app>",
        ["/1", "/2"],
        _ROOT,
    ),
    "a closed one": Case(
        f"<div><template shadowrootmode=closed>{_NAV}</template></div>", ["/1"], _ROOT
    ),
    "in capitals": Case(
        f"<DIV><TEMPLATE CLASS=x SHADOWROOTMODE='Open' ID=y>{_NAV}</TEMPLATE></DIV>", ["/1"], _ROOT
    ),
    "one in one": Case(
        f"<x-a><template shadowrootmode=open><x-b><template shadowrootmode=open>{_NAV}</template>"
        "<a href=/2></a></x-b></template><a href=/3></a></x-a>",
        ["/1", "/2", "/3"],
        _ROOT,
    ),
    "two in a row": Case(
        f"<x-a><template shadowrootmode=open>{_NAV}</template></x-a>"
        "<x-a><template shadowrootmode=open><a href=/2></a></template></x-a>",
        ["/1", "/2"],
        _ROOT,
    ),
    "behind other children": Case(
        f"<x-a><p>text</p><br><template shadowrootmode=open>{_NAV}</template></x-a>", ["/1"], _ROOT
    ),
    "of the body": Case(f"<body><template shadowrootmode=open>{_NAV}</template>", ["/1"], _ROOT),
    "of a heading": Case(
        f"<h2><template shadowrootmode=open>{_NAV}</template></h2>", ["/1"], _ROOT
    ),
    "never closed": Case(f"<x-a><template shadowrootmode=open>{_NAV}", ["/1"], _ROOT),
    "behind an open anchor": Case(
        f"<a href=/0>0<div><template shadowrootmode=open>{_NAV}</template><a href=/2>2</a></div>",
        ["/0", "/1", "/2"],
        _ROOT,
    ),
    "of no mode": Case(
        f"<div><template shadowrootmode>{_NAV}</template>"
        f"<template shadowrootmode=x>{_NAV}</template>"
        f"<template data-shadowrootmode=open>{_NAV}</template>"
        f"<template title='shadowrootmode'>{_NAV}</template></div>",
        [],
        _ROOT,
    ),
    "of a list": Case(
        f"<ul><template shadowrootmode=open>{_NAV}</template></ul>",
        [],
        _ROOT,
        thinned=["/1"],
        why="the thinned path does not know of what element a template is a child",
    ),
    "a second one": Case(
        "<div><template shadowrootmode=open></template>"
        f"<template shadowrootmode=open>{_NAV}</template></div>",
        [],
        _ROOT,
        thinned=["/1"],
        why="the thinned path does not know of what element a template is a child",
    ),
    "of an anchor": Case(
        f"<a href=/0><template shadowrootmode=open>{_NAV}</template></a>",
        ["/0", "/1"],
        _ROOT,
        browser=["/0"],
        why="an open anchor may have been put around the template, see above",
    ),
    "a refresh in one": Case(
        "<div><template shadowrootmode=open><meta http-equiv=refresh content='9999;url=/r'>"
        "</template></div>"
        "<meta http-equiv=refresh content='9999;url=/s'>",
        ["/s"],
        "HTML 4.2.5.3: inserted into a document",
    ),
    "a template": Case(f"<template>{_NAV}</template><a href=/2>", ["/2"], _CONTENTS),
    "templates in templates": Case(
        f"<template><template>{_NAV}</template>{_NAV}</template><a href=/2></a></template>"
        "<a href=/3>",
        ["/2", "/3"],
        _CONTENTS,
    ),
    "a shadow root in a template": Case(
        f"<template><div><template shadowrootmode=open>{_NAV}</template></div>{_NAV}</template>"
        "<a href=/2>",
        ["/2"],
        _CONTENTS,
    ),
    "a template in a shadow root": Case(
        f"<div><template shadowrootmode=open><template>{_NAV}</template><a href=/2></a></template>"
        "</div>",
        ["/2"],
        _CONTENTS,
    ),
    "a template never closed": Case(f"<a href=/2></a><template>{_NAV}", ["/2"], _CONTENTS),
    "a template in an anchor": Case(
        f"<a href=/2>2<template>{_NAV}</template>3</a><a href=/3>", ["/2", "/3"], _CONTENTS
    ),
    "a template in text": Case(
        "<script>'<template>'</script><!-- <template> --><textarea><template></textarea>"
        "<i title='<template>'>x</i><a href=/2>",
        ["/2"],
        "HTML 13.2.5",
    ),
    "the end of one in text": Case(
        f"<template><script>'</template>'</script><style></template></style>{_NAV}"
        f"<svg><title>x</title></svg>{_NAV}</template></style><a href=/2>",
        ["/2"],
        "HTML 13.2.5",
    ),
    "a template of SVG": Case("<svg><template><a href=/1></a></template></svg>", ["/1"], _FOREIGN),
    "another name": Case(
        f"<templates>{_NAV}</templates><temp>{_NAV}</temp>", ["/1"], "HTML 13.2.5.8"
    ),
    "an anchor of SVG": Case("<svg><a href=/1><text>x</text></a></svg>", ["/1"], "SVG 2 16.4"),
    "an anchor in the way of XLink": Case(
        "<svg><g><a xlink:title=x xlink:href='/1'><text>x</text></a></g></svg><a href=/2>",
        ["/1", "/2"],
        "SVG 2 16.1.6",
    ),
    "XLink outside of SVG": Case("<a xlink:href=/1>x</a><a href=/2>", ["/2"], "HTML 13.2.6.5"),
}

_LINK = "<a href='/é?é'>"
_XML = "<?xml version='1.0'?>" + _LINK
_LATIN = ["/%C3%A9?%E9"]
_UTF8 = ["/%C3%A9?%C3%A9"]
_NO_LABEL = "text/html"


def _encoded(start, link, source=_PRESCAN, codec="latin-1", **more):
    return Case((start + _LINK).encode(codec), link, source, content_type=_NO_LABEL, **more)


ENCODINGS = {
    "XML in UTF-16LE": Case(_XML.encode("utf-16-le"), _UTF8, _PRESCAN, content_type=_NO_LABEL),
    "XML in UTF-16BE": Case(_XML.encode("utf-16-be"), _UTF8, _PRESCAN, content_type=_NO_LABEL),
    "XML that says something else": _encoded("<?xml encoding='koi8-r'?>", _UTF8, codec="utf-16-le"),
    "its first three characters": _encoded("<?x?>", _UTF8, codec="utf-16-be"),
    "another instruction in UTF-16": _encoded("<?y?>", [], codec="utf-16-le"),
    "a space in front": _encoded(" <?xml version='1.0'?>", [], codec="utf-16-le"),
    "UTF-16 with a mark": _encoded("\ufeff", _UTF8, "Encoding 6.1, BOM sniff", codec="utf-16-le"),
    "UTF-16 by the header": Case(
        _LINK.encode("utf-16-le"), _UTF8, "HTML 13.2.3.2", content_type="text/html; charset=utf-16"
    ),
    "the header first": Case(_XML.encode("utf-16-le"), [], "HTML 13.2.3.2"),
    "a meta element": _encoded("<meta charset=latin1>", _LATIN),
    "after a slash": _encoded("<meta/charset=latin1>", _LATIN),
    "its content": _encoded(
        "<meta content='text/html; charset=latin1' http-equiv=Content-Type>", _LATIN
    ),
    "the content of others": _encoded(
        "<meta name=description content='charset=koi8-r'>"
        "<meta http-equiv=x content='9999; charset=koi8-r'>"
        "<meta data-charset=koi8-r><meta property=charset=koi8-r><meta charset=latin1>",
        _LATIN,
    ),
    "both": _encoded(
        "<meta http-equiv=content-type content='text/html; charset=koi8-r' charset=latin1>", _LATIN
    ),
    "a bracket in the content": _encoded(
        "<meta content='> charset=latin1' http-equiv=content-type>", _LATIN
    ),
    "a word without a value": _encoded(
        "<meta http-equiv=content-type content='charset charset=latin1'>", _LATIN
    ),
    "one that names none": _encoded(
        "<meta charset=x><meta charset=''><meta charset=latin1>", _LATIN
    ),
    "in a comment": _encoded("<!-- <meta charset=koi8-r> --><meta charset=latin1>", _LATIN),
    "UTF-16 in ASCII": _encoded("<meta charset=utf-16le>", _UTF8, codec="utf-8"),
    "an XML declaration": _encoded(
        "<?xml version='1.0' encoding=\"latin1\"?>", _LATIN, "HTML 13.2.3.3, get an XML encoding"
    ),
    "a meta element first": _encoded(
        "<?xml version='1.0' encoding='koi8-r'?><meta charset=latin1>", _LATIN
    ),
    "an XML declaration in UTF-16": _encoded(
        "<?xml encoding='utf-16'?><meta charset=latin1>", _LATIN
    ),
}


_LATE = "written by lazysizes, lozad and others, whose scripts put it into src"
_RENDERING = "HTML 15.3.2 and 15.3.9: background"

# Links of the kinds img and source. The browser's are what it asks for.
IMAGES = {
    "late": Case(
        "<img src='data:,x' data-src=/1><img data-srcset='/2 1x, /3 2x'>"
        "<picture><source data-srcset=/4><img src=/5></picture>",
        ["/1", "/2", "/3", "/4", "/5"],
        _LATE,
        browser=["/5"],
        why="scripts are off",
    ),
    "candidates of a preload": Case(
        "<link rel=preload as=image imagesrcset='/1 1x, /2 9x'>",
        ["/1", "/2"],
        "HTML 4.2.4",
        browser=["/1"],
        why="it takes the candidate that fits its screen",
    ),
    "of SVG": Case(
        "<svg><image href=/1 /><g><IMAGE HREF=/2></g></svg>", ["/1", "/2"], "SVG 2 12.3"
    ),
    "of SVG in the way of XLink": Case(
        "<svg><image xlink:href=/1 /></svg>", ["/1"], "SVG 2 16.1.6"
    ),
    "of SVG in both": Case("<svg><image href=/1 xlink:href=/2 /></svg>", ["/1"], "SVG 2 16.1.6"),
    "under another name": Case("<image src=/1>", ["/1"], "HTML 13.2.6.4.7"),
    "with a reference of SVG": Case(
        "<img href=/1>",
        ["/1"],
        "a price of the thinned path",
        browser=[],
        why="on the thinned path an image of SVG is an img",
    ),
    "a button": Case(
        "<input type=image src=/1><input type=IMAGE src=/2>", ["/1", "/2"], "HTML 4.10.5.1.19"
    ),
    "another field": Case("<input src=/1><input type=text src=/2>", [], "HTML 4.10.5.1.19"),
    "a background": Case("<body background=/1>", ["/1"], _RENDERING),
    "backgrounds of a table": Case(
        "<TABLE BACKGROUND = '/1' style=x><THEAD BACKGROUND=/2><tr background=/3>"
        "<th background=/4>x</thead>"
        "<tbody background=/5><tr><td width=1 background=/6>x"
        "<tfoot background=/7><tr><td>x</table>",
        ["/1", "/2", "/3", "/4", "/5", "/6", "/7"],
        _RENDERING,
    ),
    "a background of others": Case("<div background=/1>x</div><p background=/2>x", [], _RENDERING),
    "in a shadow root": Case(
        "<div><template shadowrootmode=open><img src=/1></template></div>", ["/1"], _ROOT
    ),
    "in a template": Case(
        "<template><img src=/1><table background=/2></table></template>", [], _CONTENTS
    ),
}
