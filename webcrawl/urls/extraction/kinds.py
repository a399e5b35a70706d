"""The kinds of links that a crawl may follow, and how to search a page for them."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from webcrawl.urls.extraction.references import RELATIONS

DEFAULT_KINDS = frozenset(
    {"a", "area", "frame", "iframe", "refresh", "canonical", "next", "prev", "alternate", "sitemap"}
)
"""Kinds that lead to pages. All other kinds lead to resources of pages."""

CSS_KINDS = frozenset({"css", "stylesheet"})
"""Kinds that a style sheet can have."""

FEED_KINDS = frozenset({"item", "next", "prev"})
"""Kinds that a feed can have."""

SITEMAP_KINDS = frozenset({"loc", "alternate", "sitemap"})
"""Kinds that a sitemap can have: pages, their translations, other sitemaps."""

ATTRIBUTES: dict[str | None, str] = {
    "a": "href", "area": "href", "frame": "src", "iframe": "src", "script": "src",
    "embed": "src", "object": "data", "audio": "src", "track": "src",
}  # fmt: skip
"""Elements with a single attribute that is a reference."""

# Selectors of other elements. Elements with two reference attributes are selected without these, as
# the parser would find an element once for each.
_SELECTORS = {
    "img": "img,image,input[type=image i],link[imagesrcset],[background]",
    "source": "source",
    "video": "video",
    "css": "style,[style]",
}

KINDS = frozenset({*filter(None, ATTRIBUTES), *_SELECTORS, *RELATIONS, "form", "refresh", "link"})
"""All kinds that an HTML page can have. ``link`` is a ``<link>`` of any relation without a kind of
its own; ``css`` a ``url()`` in the page; ``form`` the target of a form that is sent by GET."""

_META_NAME = re.compile(r"[a-z0-9_-]+", re.ASCII)


class Search(msgspec.Struct, frozen=True):
    """How to search a page for some kinds of links."""

    query: str
    """Selector of all elements of interest."""
    elements: frozenset[str]
    """The requested kinds that are names of elements."""
    relations: frozenset[str]
    """The requested kinds that are relations of a ``<link>``."""
    refresh: bool
    styles: bool
    """Whether ``url()`` in ``<style>`` and ``style=`` counts."""
    meta_names: frozenset[str]


@lru_cache(maxsize=64)
def search_for(kinds: frozenset[str], meta_names: frozenset[str] = frozenset()) -> Search:
    """Return the search for *kinds*, and for ``<meta>`` elements with lower-case *meta_names*."""
    meta_names = frozenset(name for name in meta_names if _META_NAME.fullmatch(name))
    relations = kinds & {*RELATIONS, "link"}
    # Selecting by attributes, which most elements lack, takes half the time of selecting by names.
    # ``a`` comes first, as most matching elements are anchors.
    wanted = {"href": ["base"], "content": [f'meta[name="{name}" i]' for name in meta_names]}
    for name, attribute in [*ATTRIBUTES.items(), ("form", "action")]:
        if name in kinds:
            wanted.setdefault(attribute, []).append(str(name))
    if relations:
        wanted["href"].append("link" if "link" in kinds else "link[rel]")
    if "refresh" in kinds:
        wanted["content"].append("meta[http-equiv]")
    selectors = [
        f"[{name}]:is({','.join(sorted(found))})" for name, found in wanted.items() if found
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
