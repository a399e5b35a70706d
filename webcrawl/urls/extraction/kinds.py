"""Kinds of links that a crawl may follow, and how to search a page for them."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from webcrawl.urls.extraction.references import RELATIONS

#: Kinds of links to pages. All other kinds are links to resources of pages.
DEFAULT_KINDS = frozenset(
    {"a", "area", "frame", "iframe", "refresh", "canonical", "next", "prev", "alternate", "sitemap"}
)

#: Kinds of links that a style sheet can have.
CSS_KINDS = frozenset({"css", "stylesheet"})

#: Kinds of links that a feed can have.
FEED_KINDS = frozenset({"item", "next", "prev"})

#: Kinds of links that a sitemap can have: to pages, translations and other sitemaps.
SITEMAP_KINDS = frozenset({"loc", "alternate", "sitemap"})

#: Elements with a single attribute that contains a reference, and this attribute.
ATTRIBUTES: dict[str | None, str] = {
    "a": "href", "area": "href", "frame": "src", "iframe": "src", "script": "src",
    "embed": "src", "object": "data", "audio": "src", "track": "src",
}  # fmt: skip

# Selectors of other elements. The selectors of elements with two such attributes do not mention
# them, because the parser would find such an element once for each attribute.
_SELECTORS = {
    "img": "img,image,input[type=image i],link[imagesrcset],[background]",
    "source": "source",
    "video": "video",
    "css": "style,[style]",
}

#: All kinds of links that an HTML page can have. ``link`` is a ``<link>`` with a relation that has
#: no kind of its own, ``css`` is a ``url()`` in the page, and ``form`` is the target of a form that
#: is sent by GET.
KINDS = frozenset({*filter(None, ATTRIBUTES), *_SELECTORS, *RELATIONS, "form", "refresh", "link"})

_META_NAME = re.compile(r"[a-z0-9_-]+", re.ASCII)


class Search(msgspec.Struct, frozen=True):
    """How to search a page for some kinds of links."""

    #: CSS selector of all elements of interest.
    query: str
    #: Requested kinds that are names of elements.
    elements: frozenset[str]
    #: Requested kinds that are relations of a ``<link>``.
    relations: frozenset[str]
    refresh: bool
    #: Whether to search ``<style>`` and ``style=`` for ``url()``.
    styles: bool
    meta_names: frozenset[str]


@lru_cache(maxsize=64)
def search_for(kinds: frozenset[str], meta_names: frozenset[str]) -> Search:
    """Return a search for links of *kinds* and for ``<meta>`` elements called *meta_names*.

    *meta_names* are in lower case.
    """
    meta_names = frozenset(name for name in meta_names if _META_NAME.fullmatch(name))
    relations = kinds & {*RELATIONS, "link"}
    # Selecting by attributes, which most elements lack, takes half the time of selecting by names.
    # ``a`` comes first, because most matching elements are anchors.
    by_attribute = {"href": ["base"], "content": [f'meta[name="{name}" i]' for name in meta_names]}
    for name, attribute in [*ATTRIBUTES.items(), ("form", "action")]:
        if name in kinds:
            by_attribute.setdefault(attribute, []).append(str(name))
    if relations:
        by_attribute["href"].append("link" if "link" in kinds else "link[rel]")
    if "refresh" in kinds:
        by_attribute["content"].append("meta[http-equiv]")
    selectors = [
        f"[{name}]:is({','.join(sorted(elements))})"
        for name, elements in by_attribute.items()
        if elements
    ]
    selectors += [selector for kind, selector in _SELECTORS.items() if kind in kinds]
    return Search(
        query=",".join(selectors),
        elements=kinds & (KINDS - {*RELATIONS, "link", "refresh", "css"}),
        relations=relations,
        refresh="refresh" in kinds,
        styles="css" in kinds,
        meta_names=meta_names,
    )
