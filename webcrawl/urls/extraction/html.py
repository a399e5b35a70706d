"""Links of an HTML page, found in one pass of the Lexbor parser.

Called by the spider once per page; the result is the page's link batch. Invariants: no input makes
it raise an exception. Time and memory are linear in the length of the page, because pages with too
many tags for a browser-grade tree builder are thinned first (see ``thinning``). The result has
at most ``limit`` links, each URL once, in document order, and at most ``MAX_REFERENCES`` further
links to these URLs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

import msgspec
from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, LexborNode

from webcrawl.urls.extraction import charset as charsets
from webcrawl.urls.extraction.css import css_references
from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS, MAX_TEXT_CHARS
from webcrawl.urls.extraction.kinds import ATTRIBUTES, DEFAULT_KINDS, Search, search_for
from webcrawl.urls.extraction.reference_resolver import MAX_BASE_CHARS, ReferenceResolver
from webcrawl.urls.extraction.references import refresh_target, relation_kind, srcset_references
from webcrawl.urls.extraction.thinning import is_rich, thin
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES

#: Content types whose links are extracted here.
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})

#: Limit of distinct references per page; a single ``srcset`` may have many.
MAX_REFERENCES = 20_000

MAX_METAS = 32
MAX_META_CHARS = 1024

# Elements whose reference means the base, if there is one, when it is empty or only a fragment.
_HYPERLINKS = ("a", "area")

# The beginning of a base with a scheme other than http that the standard does not ignore.
_OTHER_SCHEME = re.compile(r"\s*(?!(?:https?|data|javascript):)[a-z][a-z0-9+.-]*:", re.IGNORECASE)

# The <base> elements that count: those in SVG and MathML do not, except in HTML inside these.
# ``:is()`` is not used, because Lexbor would then check only the parent.
_BASE = (
    "base[href]:not(svg base,math base),foreignObject base[href],desc base[href],title base[href],"
    "annotation-xml[encoding] base[href],mi base[href],mn base[href],mo base[href],ms base[href],"
    "mtext base[href]"
)

# Elements that can have a shadow root ("attach a shadow root"), and formatting elements: the tree
# builder puts a formatting element that was left open around the template.
_SHADOW_HOST = re.compile(
    "[a-z].*-.*|article|aside|blockquote|body|div|footer|h[1-6]|header|main|nav|p|section|span|"
    "a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u"
)

# The image attributes of elements other than ``<img>`` and ``<source>``. The HTML Standard's
# chapter on rendering lists those with a background; in a thinned page ``wbr`` stands for all of
# them.
_IMAGES: dict[str | None, str] = {
    "image": "href",
    "input": "src",
    "link": "imagesrcset",
    **dict.fromkeys(
        ("body", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "wbr"), "background"
    ),
}

# Methods of forms other than GET in the HTML Standard; any unknown method means GET.
_NOT_GET = frozenset({"post", "dialog"})


# The selector is shared, because making one takes longer than searching a small page, and pages are
# parsed only in the reactor thread. selectolax's type stub lacks the constructor's return type.
_find = LexborCSSSelector().find  # type: ignore[no-untyped-call]


class Extracted(msgspec.Struct, gc=False):
    """Links and ``<meta>`` elements extracted from a page."""

    links: list[Link]
    #: Number of links, including repeats.
    count: int
    #: Further links to the same URLs, in document order, if they are kept.
    repeats: list[Link]
    #: Lower-case name and content of the requested ``<meta>`` elements, in document order.
    metas: list[tuple[str, str]]


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
    query_codec: str = "",
) -> Extracted:
    """Return the links of the HTML document *body*, and its ``<meta>`` elements.

    The document was fetched from *url*. *charset* is the label in the Content-Type header, None or
    empty if there is none. *kinds* are the kinds of links to return (some of ``kinds.KINDS``), and
    *meta_names* the lower-case names of ``<meta>`` elements. ``<base>`` is respected. The text of a
    link is its content, or the alternative text of its image. References to the page itself, which
    are empty or only a fragment, and those with schemes other than *schemes* are left out.
    *header_links*, which have each URL once, come before the links of the page. There are at most
    *limit* links. Further links to the same URLs are counted; with *keeps_repeats* they are also
    returned, which takes time. *query_codec* encodes the queries of URLs, if not that of *body*.

    Takes 0.16 ms for a page of 20 kB and 40 links, so it is called in the reactor thread.
    """
    search = search_for(kinds, meta_names)
    codec = charsets.detect(body, declared=charset)
    source = _utf8(body, codec)
    nodes, tags = _matching_elements(source, search) if limit > 0 else ([], [])
    resolver, base_url = _resolver(
        nodes, tags, url=url, codec=query_codec or codec, schemes=schemes
    )
    resolve = resolver.resolve
    attribute_of = {} if search.styles else ATTRIBUTES
    # An anchor in a table in an anchor repeats the text of the inner anchor. So the total of all
    # texts is limited, in addition to each text.
    text_budget = 2 * len(source)
    targets: dict[str, str | None] = {}
    links = {link.url: link for link in header_links}
    repeats: list[Link] = []
    uncollected_repeats = 0
    references: Iterable[tuple[str, str | None]]
    for node, tag in zip(nodes, tags, strict=True):
        # Most elements have a single reference in a known attribute.
        attributes = node.attributes
        attribute = attribute_of.get(tag)
        if tag is not None and attribute in attributes:
            references = ((tag, attributes[attribute]),)
        elif len(targets) < MAX_REFERENCES:
            references = _references(tag, node, attributes, search)
        else:
            break

        for kind, raw_reference in references:
            is_own_page = not raw_reference or raw_reference[0] == "#"
            href = (base_url if kind in _HYPERLINKS else "") if is_own_page else raw_reference
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
                uncollected_repeats += 1
                continue

            # ``text_lexbor`` returns the same as ``text``, in half the time.
            text = (
                (node.text_lexbor() if text_budget > 0 else "")
                if kind == "a"
                else attributes.get("alt") or ""
            )
            text_budget -= len(text)
            text = " ".join(text.split()) if len(text) <= MAX_TEXT_CHARS else _shortened(text)
            text = text or (_alternative_text(node) if kind == "a" else "")

            rel = attributes.get("rel")
            link = Link(target, text, kind, " ".join(rel.lower().split()) if rel else "")
            links.setdefault(target, link)
            if is_repeat:
                repeats.append(link)
        if len(links) >= limit:
            break
    return Extracted(
        list(links.values())[:limit],
        len(links) + len(repeats) + uncollected_repeats,
        repeats,
        _metas(nodes, tags, search),
    )


def _utf8(body: bytes, codec: str) -> bytes:
    """Return *body* as UTF-8, which Lexbor expects; the result may contain errors."""
    if codec == "utf-8":
        return body[3:] if body.startswith(b"\xef\xbb\xbf") else body
    return charsets.decode(body, codec).encode("utf-8", "replace")


def _matching_elements(source: bytes, search: Search) -> tuple[list[LexborNode], list[str | None]]:
    """Return the elements of the page *source* that *search* matches, and their tag names.

    A page whose tree could take long to build is first thinned to its links. Templates are matched,
    too, because they may be shadow roots, in which links count.
    """
    query = search.query
    if is_rich(source):
        source = thin(source, search.elements, styles=search.styles)
    else:
        query += ",template"  # thinned pages have none
    root = LexborHTMLParser(source).root
    nodes = [] if root is None else _find(query, root)
    tags = [node.tag for node in nodes]
    if "template" in tags:
        nodes = list(_with_shadow_roots(nodes, query))
        tags = [node.tag for node in nodes]
    return nodes, tags


def _with_shadow_roots(nodes: list[LexborNode], query: str) -> Iterator[LexborNode]:
    """Yield *nodes*, with each declarative shadow root replaced by the matches of *query* in it.

    HTML Standard, "a start tag whose tag name is template": only the first template of an element
    that can have a shadow root counts. ``<base>`` and ``<meta>`` count only in the document, not in
    shadow roots.
    """
    seen_hosts: set[int] = set()
    # A stack with the next node at its end: matches in a template take the template's place.
    pending = nodes[::-1]
    while pending:
        node = pending.pop()
        if node.tag != "template":
            yield node
            continue

        host = node.parent
        mode = (node.attributes.get("shadowrootmode") or "").lower()
        if mode not in ("open", "closed") or host is None or host.mem_id in seen_hosts:
            continue
        if _SHADOW_HOST.fullmatch(host.tag or ""):
            seen_hosts.add(host.mem_id)
            for content in node.template_fragments():
                matches = _find(query, content)
                pending += [match for match in matches[::-1] if match.tag not in ("base", "meta")]


def _resolver(
    nodes: list[LexborNode],
    tags: list[str | None],
    *,
    url: str,
    codec: str,
    schemes: frozenset[str],
) -> tuple[ReferenceResolver, str]:
    """Return a resolver for references of the page *url*, and the base that ``<base>`` sets, or "".

    *nodes* and *tags* are the matching elements and their names. HTML Standard, "document base
    URL": the first ``<base href>`` counts. If it is not a URL, or is a ``data:`` or ``javascript:``
    URL, the base is the URL of the page. If it has any other scheme that is not in *schemes*, the
    base is ``about:blank``: relative references then lead nowhere.
    """
    page_resolver = ReferenceResolver(url, codec=codec, schemes=schemes)
    if "base" in tags:
        base = nodes[0].parser.css_first(_BASE)
        href = (base.attributes["href"] if base else None) or ""
        target = page_resolver.resolve(href) if href and len(href) <= MAX_REFERENCE_CHARS else None
        if target is None and _OTHER_SCHEME.match(href):
            target = "about:blank"
        if target is not None and len(target) <= MAX_BASE_CHARS:
            return ReferenceResolver(target, codec=codec, schemes=schemes), target
    return page_resolver, ""


def _references(
    tag: str | None, node: LexborNode, attributes: dict[str, str | None], search: Search
) -> Iterator[tuple[str, str | None]]:
    """Yield the kind and the raw reference of each link of *node* that *search* includes.

    *tag* and *attributes* are those of *node*.
    """
    if tag in search.elements:
        yield from _element_references(tag, attributes)
    elif tag == "link" and search.relations:
        kind = relation_kind((attributes.get("rel") or "").lower().split())
        if kind in search.relations:
            yield kind, attributes.get("href")
    elif (
        tag == "meta"
        and search.refresh
        and (attributes.get("http-equiv") or "").strip().lower() == "refresh"
    ):
        yield "refresh", refresh_target((attributes.get("content") or "")[:MAX_REFERENCE_CHARS])
    if tag in _IMAGES and "img" in search.elements:
        # The attribute of a ``<link>`` is a srcset; those of other elements have one reference.
        raw_image = attributes.get(_IMAGES[tag]) or attributes.get("xlink:href") or ""
        for reference in srcset_references(raw_image) if tag == "link" else (raw_image,):
            yield "img", reference
    if search.styles:
        style = node.text() if tag == "style" else attributes.get("style")
        if style:
            for style_link in itertools.islice(css_references(style), MAX_REFERENCES):
                if style_link is not None:
                    yield "css", style_link.url


def _alternative_text(anchor: LexborNode) -> str:
    """Return the alternative text of the first image in *anchor* that has one, or ""."""
    for image in _find("img[alt]", anchor):
        text = _shortened(image.attributes.get("alt") or "")
        if text:
            return text
    return ""


def _shortened(text: str) -> str:
    """Return the beginning of *text*, with white space collapsed."""
    return " ".join(text[: 2 * MAX_TEXT_CHARS].split())[:MAX_TEXT_CHARS]


def _element_references(
    tag: str | None, attributes: dict[str, str | None]
) -> Iterator[tuple[str, str | None]]:
    """Yield the kind and the raw reference of each link of an element whose kind is *tag*."""
    assert tag is not None
    if tag == "form":
        if (attributes.get("method") or "").strip().lower() not in _NOT_GET:
            # The values of the form would replace the query.
            yield tag, (attributes.get("action") or "").partition("#")[0].partition("?")[0]
        return
    # SVG still uses XLink for links. In a thinned page its images have become HTML images.
    attribute = ATTRIBUTES.get(tag, "src")
    yield tag, attributes.get(attribute) or attributes.get("xlink:href") or attributes.get("href")
    if tag == "video":
        yield tag, attributes.get("poster")
    elif tag in ("img", "source"):
        yield tag, attributes.get("data-src")  # used by scripts for lazy loading
        for candidates in ("srcset", "data-srcset"):
            for reference in srcset_references(attributes.get(candidates) or ""):
                yield tag, reference


def _metas(
    nodes: list[LexborNode], tags: list[str | None], search: Search
) -> list[tuple[str, str]]:
    """Return name and content of the requested ``<meta>`` elements among *nodes*."""
    metas: list[tuple[str, str]] = []
    if search.meta_names and "meta" in tags:
        for node, tag in zip(nodes, tags, strict=True):
            if tag == "meta" and len(metas) < MAX_METAS:
                attributes = node.attributes
                name = (attributes.get("name") or "").lower()
                if name in search.meta_names:
                    metas.append((name, (attributes.get("content") or "")[:MAX_META_CHARS]))
    return metas
