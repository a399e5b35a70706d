"""The links of an HTML page, in one pass of the Lexbor parser.

Called by the spider once per page; the answer is the page's link batch. Invariants: whatever the
bytes are, nothing is raised; time and memory are linear in the length of the page, because a page
with more tags than a browser-grade tree builder can take safely is thinned first (see
``thinning``); the answer has at most ``limit`` links, each URL once, in document order, and at most
``MAX_REFERENCES`` further links to these URLs.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import msgspec
from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser

from webcrawl.urls.extraction import charset as charsets
from webcrawl.urls.extraction.css import css_references
from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS, MAX_TEXT_CHARS
from webcrawl.urls.extraction.kinds import ATTRIBUTES, DEFAULT_KINDS, Search, search_for
from webcrawl.urls.extraction.reference_resolver import MAX_BASE_CHARS, ReferenceResolver
from webcrawl.urls.extraction.references import refresh_target, relation_kind, srcset_references
from webcrawl.urls.extraction.thinning import is_rich, thin
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from selectolax.lexbor import LexborNode

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
"""Content types whose links are extracted here."""

MAX_REFERENCES = 20_000
"""Different references of one page that are looked at: one ``srcset`` has many of them."""

MAX_METAS = 32
MAX_META_CHARS = 1024

# Elements whose empty reference, or mere fragment, means the base, where there is one.
_HYPERLINKS = ("a", "area")

# What a base begins with that is neither of HTTP nor one that the standard ignores.
_OTHER_SCHEME = re.compile(r"\s*(?!(?:https?|data|javascript):)[a-z][a-z0-9+.-]*:", re.IGNORECASE)

# The first that counts: those of SVG and MathML do not, but what these hold of HTML does. Without
# ``:is()``, of which Lexbor looks no further than the parent.
_BASE = (
    "base[href]:not(svg base,math base),foreignObject base[href],desc base[href],title base[href],"
    "annotation-xml[encoding] base[href],mi base[href],mn base[href],mo base[href],ms base[href],"
    "mtext base[href]"
)

# "Attach a shadow root": what can have one. And formatting elements: while the tree is built, one
# that was left open is put around the template.
_SHADOW_HOST = re.compile(
    "[a-z].*-.*|article|aside|blockquote|body|div|footer|h[1-6]|header|main|nav|p|section|span|"
    "a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u"
)

# Where elements other than ``<img>`` and ``<source>`` have images. The HTML Standard says in its
# chapter on rendering which have a background; in a thinned page ``wbr`` stands for all of them.
_IMAGES: dict[str | None, str] = {
    "image": "href",
    "input": "src",
    "link": "imagesrcset",
    **dict.fromkeys(
        ("body", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "wbr"), "background"
    ),
}

# The HTML Standard's methods that are not GET; anything unknown means GET.
_NOT_GET = frozenset({"post", "dialog"})


# Making one costs more than a small page's search; pages are read in the reactor's thread alone.
# selectolax's type stub forgets the constructor's return type
_find = LexborCSSSelector().find  # type: ignore[no-untyped-call]


class Extracted(msgspec.Struct, gc=False):
    """Result of one pass over a page."""

    links: list[Link]
    count: int
    """Number of links before duplicates were dropped."""
    repeats: list[Link]
    """The duplicates, in document order, if they are kept."""
    metas: list[tuple[str, str]]
    """Lower-case name and content of the ``<meta>`` elements asked for, in document order."""


def extract(
    body: bytes,
    *,
    url: str,
    charset: str | None,
    limit: int,
    schemes: frozenset[str] = HTTP_SCHEMES,
    kinds: frozenset[str] = DEFAULT_KINDS,
    meta_names: frozenset[str] = frozenset(),
    header_links: Iterable[Link] = (),
    keeps_repeats: bool = False,
) -> Extracted:
    """Links of the HTML document *body* that was fetched from *url*, and its ``<meta>`` elements.

    *charset* is the label of the Content-Type header, None or empty without one. Taken are the
    *kinds* of links asked for (some of ``kinds.KINDS``), and the contents of ``<meta>`` whose names
    are among the lower-case *meta_names*; ``<base>`` counts. The text of a link is what it says,
    or what stands for its image. References to the page itself, empty or by fragment, and what is
    not of *schemes*, are left out. *header_links*, each URL once, come before those of the page.
    Further links to a URL are counted, and kept with *keeps_repeats*, which takes time. 0.16 ms for
    a page of 20 kB and 40 links, so it is called in the reactor thread.
    """
    search = search_for(kinds, meta_names)
    codec = charsets.detect(body, declared=charset)
    source = _utf8(body, codec)
    nodes, tags = _matches(source, search) if limit > 0 else ([], [])
    resolver, based = _resolver(nodes, tags, url=url, codec=codec, schemes=schemes)
    resolve = resolver.resolve
    attribute_of = {} if search.styles else ATTRIBUTES
    # An anchor in a table in an anchor repeats its text, so the sum is bounded, not only each text.
    text_budget = 2 * len(source)
    targets: dict[str, str | None] = {}
    links = {link.url: link for link in header_links}
    repeats: list[Link] = []
    repeated = 0
    references: Iterable[tuple[str, str | None]]
    for node, tag in zip(nodes, tags, strict=True):
        attributes = node.attributes
        attribute = attribute_of.get(tag)
        if tag is not None and attribute in attributes:
            references = ((tag, attributes[attribute]),)
        elif len(targets) < MAX_REFERENCES:
            references = _references(tag, node, attributes, search)
        else:
            break
        for kind, written in references:
            is_here = not written or written[0] == "#"
            href = (based if kind in _HYPERLINKS else "") if is_here else written
            if not href:
                continue
            if href in targets:
                target = targets[href]
            else:
                target = None if len(href) > MAX_REFERENCE_CHARS else resolve(href)
                targets[href] = target
            if target is None:
                continue
            is_repeat = target in links
            if is_repeat and (not keeps_repeats or len(repeats) >= MAX_REFERENCES):
                repeated += 1
                continue
            text = (
                (node.text() if text_budget > 0 else "")
                if kind == "a"
                else attributes.get("alt") or ""
            )
            text_budget -= len(text)
            text = " ".join(text[: 2 * MAX_TEXT_CHARS].split())[:MAX_TEXT_CHARS]
            text = text or (_alternative(node) if kind == "a" else "")
            rel = attributes.get("rel")
            link = Link(target, text, kind, " ".join(rel.lower().split()) if rel else "")
            links.setdefault(target, link)
            if is_repeat:
                repeats.append(link)
        if len(links) >= limit:
            break
    return Extracted(
        list(links.values())[:limit],
        len(links) + len(repeats) + repeated,
        repeats,
        _metas(nodes, tags, search),
    )


def _utf8(body: bytes, codec: str) -> bytes:
    """Lexbor takes bytes as UTF-8, whatever is wrong with them; anything else is decoded first."""
    if codec == "utf-8":
        return body[3:] if body.startswith(b"\xef\xbb\xbf") else body
    return charsets.decode(body, codec).encode("utf-8", "replace")


def _matches(source: bytes, search: Search) -> tuple[list[LexborNode], list[str | None]]:
    """The elements that *search* is looking for, and their names."""
    query = search.query
    if is_rich(source):
        source = thin(source, search.elements, styles=search.styles)
    else:
        query += ",template"  # there is none in a thinned page
    root = LexborHTMLParser(source).root
    nodes = [] if root is None else _find(query, root)
    tags = [node.tag for node in nodes]
    if "template" in tags:
        nodes = list(_with_shadow_roots(nodes, query))
        tags = [node.tag for node in nodes]
    return nodes, tags


def _with_shadow_roots(nodes: list[LexborNode], query: str) -> Iterator[LexborNode]:
    """*nodes* with the matches in declarative shadow roots in place of their templates.

    HTML Standard, "a start tag whose tag name is template": the first template of an element that
    can have a shadow root. ``<base>`` and ``<meta>`` count in the document alone, not in these.
    """
    hosts: set[int] = set()
    pending = nodes[::-1]
    while pending:
        node = pending.pop()
        if node.tag != "template":
            yield node
            continue
        host = node.parent
        mode = (node.attributes.get("shadowrootmode") or "").lower()
        if mode not in ("open", "closed") or host is None or host.mem_id in hosts:
            continue
        if _SHADOW_HOST.fullmatch(host.tag or ""):
            hosts.add(host.mem_id)
            for content in node.template_fragments():
                found = _find(query, content)
                pending += [one for one in found[::-1] if one.tag not in ("base", "meta")]


def _resolver(
    nodes: list[LexborNode],
    tags: list[str | None],
    *,
    url: str,
    codec: str,
    schemes: frozenset[str],
) -> tuple[ReferenceResolver, str]:
    """Resolver for the page, and its base where ``<base>`` names one that can be fetched.

    HTML Standard, "document base URL": that of the first ``<base href>``, whatever it is; but what
    is no URL, or of ``data:`` or ``javascript:``, leaves the base that the page has without.
    """
    page = ReferenceResolver(url, codec=codec, schemes=schemes)
    if "base" in tags:
        base = nodes[0].parser.css_first(_BASE)
        href = (base and base.attributes["href"]) or ""
        target = page.resolve(href) if href and len(href) <= MAX_REFERENCE_CHARS else None
        if target is None and _OTHER_SCHEME.match(href):
            target = "about:blank"  # as with that one, a relative reference leads nowhere
        if target is not None and len(target) <= MAX_BASE_CHARS:
            return ReferenceResolver(target, codec=codec, schemes=schemes), target
    return page, ""


def _references(
    tag: str | None, node: LexborNode, attributes: dict[str, str | None], search: Search
) -> Iterator[tuple[str, str | None]]:
    """Kind and raw reference of all that an element refers to and *search* is looking for."""
    if tag in search.elements:
        yield from _element_references(tag, attributes)
    elif tag == "link" and search.relations:
        kind = relation_kind((attributes.get("rel") or "").lower().split())
        if kind in search.relations:
            yield kind, attributes.get("href")
    elif tag == "meta" and search.refresh and _is_refresh(attributes):
        yield "refresh", refresh_target((attributes.get("content") or "")[:MAX_REFERENCE_CHARS])
    if tag in _IMAGES and "img" in search.elements:
        written = attributes.get(_IMAGES[tag]) or attributes.get("xlink:href") or ""
        for reference in srcset_references(written) if tag == "link" else (written,):
            yield "img", reference
    if search.styles:
        style = node.text() if tag == "style" else attributes.get("style")
        if style:
            for found in itertools.islice(css_references(style), MAX_REFERENCES):
                if found is not None:
                    yield "css", found.url


def _is_refresh(attributes: dict[str, str | None]) -> bool:
    return (attributes.get("http-equiv") or "").strip().lower() == "refresh"


def _alternative(anchor: LexborNode) -> str:
    """The text for the first image of an anchor without text that has an alternative."""
    for image in _find("img[alt]", anchor):
        text = (image.attributes.get("alt") or "")[: 2 * MAX_TEXT_CHARS]
        if text and not text.isspace():
            return " ".join(text.split())[:MAX_TEXT_CHARS]
    return ""


def _element_references(
    tag: str | None, attributes: dict[str, str | None]
) -> Iterator[tuple[str, str | None]]:
    assert tag is not None
    if tag == "form":
        if (attributes.get("method") or "").strip().lower() not in _NOT_GET:
            # What the form is filled with takes the place of the query.
            yield tag, (attributes.get("action") or "").partition("#")[0].partition("?")[0]
        return
    # In SVG, links are still written in the way of XLink. Its images are of HTML in a thinned page.
    attribute = ATTRIBUTES.get(tag, "src")
    yield tag, attributes.get(attribute) or attributes.get("xlink:href") or attributes.get("href")
    if tag == "video":
        yield tag, attributes.get("poster")
    elif tag in ("img", "source"):
        yield tag, attributes.get("data-src")  # where scripts that load images late have it
        for candidates in ("srcset", "data-srcset"):
            for reference in srcset_references(attributes.get(candidates) or ""):
                yield tag, reference


def _metas(
    nodes: list[LexborNode], tags: list[str | None], search: Search
) -> list[tuple[str, str]]:
    metas: list[tuple[str, str]] = []
    if search.meta_names:
        for node, tag in zip(nodes, tags, strict=True):
            if tag == "meta" and len(metas) < MAX_METAS:
                attributes = node.attributes
                name = (attributes.get("name") or "").lower()
                if name in search.meta_names:
                    metas.append((name, (attributes.get("content") or "")[:MAX_META_CHARS]))
    return metas
