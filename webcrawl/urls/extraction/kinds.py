"""The kinds of links that a crawl may follow, and what a page must be searched for to find them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from webcrawl.urls.extraction.references import RELATIONS

DEFAULT_KINDS: Final = frozenset(
    {"a", "area", "frame", "iframe", "refresh", "canonical", "next", "prev", "alternate", "sitemap"}
)
"""What leads to pages. Everything else that can be asked for leads to what pages are made of."""

CSS_KINDS: Final = frozenset({"css", "stylesheet"})
"""Kinds that a style sheet can have."""

FEED_KINDS: Final = frozenset({"item", "next", "prev"})
"""Kinds that a feed can have."""

SITEMAP_KINDS: Final = frozenset({"loc", "alternate", "sitemap"})
"""Kinds that a sitemap can have: pages, their translations, other sitemaps."""

ATTRIBUTES: Final[dict[str | None, str]] = {
    "a": "href", "area": "href", "frame": "src", "iframe": "src", "script": "src",
    "embed": "src", "object": "data", "audio": "src", "track": "src",
}  # fmt: skip
"""The elements with a single attribute that refers to something."""

# What a kind needs from the page. Elements with two attributes that refer to something are asked
# for without them: the parser would find an element once for each.
_SELECTORS: Final = {name: f"{name}[{attribute}]" for name, attribute in ATTRIBUTES.items()} | {
    "refresh": "meta[http-equiv][content]",
    "link": "link[href]",
    "form": "form[action]",
    "img": "img",
    "source": "source",
    "video": "video",
    "css": "style,[style]",
}

KINDS: Final = frozenset(name for name in _SELECTORS if name) | frozenset(RELATIONS)
"""All kinds that an HTML page can have. ``link`` is a ``<link>`` of any relation without a kind of
its own; ``css`` a ``url()`` in the page; ``form`` the target of a form that is sent by GET."""

_META_NAME: Final = re.compile(r"[a-z0-9_-]+", re.ASCII)


class Search(msgspec.Struct, frozen=True):
    """How to search a page for some kinds of links."""

    query: str
    """Selector of all elements that matter."""
    elements: frozenset[str]
    """Kinds that are the names of elements, as asked for."""
    relations: frozenset[str]
    """Kinds that are relations of a ``<link>``, as asked for."""
    refresh: bool
    styles: bool
    """Whether ``url()`` in ``<style>`` and ``style=`` counts."""
    meta_names: frozenset[str]


@lru_cache(maxsize=64)
def search_for(kinds: frozenset[str], meta_names: frozenset[str] = frozenset()) -> Search:
    """The search for *kinds*, and for ``<meta>`` elements of the lower-case *meta_names*."""
    meta_names = frozenset(name for name in meta_names if _META_NAME.fullmatch(name))
    relations = kinds & {*RELATIONS, "link"}
    selectors = [selector for kind, selector in _SELECTORS.items() if kind in kinds - {"link"}]
    if relations:
        selectors.append("link[href]" if "link" in kinds else "link[href][rel]")
    selectors += [f'meta[name="{name}" i][content]' for name in sorted(meta_names)]
    return Search(
        query=",".join([*selectors, "base[href]"]),
        elements=frozenset(kinds & _SELECTORS.keys()) - {"link", "refresh", "css"},
        relations=relations,
        refresh="refresh" in kinds,
        styles="css" in kinds,
        meta_names=meta_names,
    )
