"""A link of a page, as contained in the page's link batch."""

from __future__ import annotations

import msgspec

#: How a link was written: the name of the element, ``refresh`` (meta refresh, ``Refresh`` header),
#: the relation of a ``<link>`` element or a ``Link`` header (``canonical``, ``next``, ...), or
#: ``css`` (``url()``); see ``kinds.KINDS``. In a sitemap the kind is ``loc`` for a page and
#: ``sitemap`` for another sitemap; in a feed it is ``item``. A sitemap that robots.txt lists is a
#: ``sitemap``, too. URLs that were not found in a document have ``seed`` or ``redirect``.
Kind = str


class Link(msgspec.Struct, gc=False):
    """A URL that a page points to.

    ``url`` is absolute and normalized. ``text`` is the anchor or alternative text, with white space
    collapsed and limited in length. ``rel`` is the lower-case relation list of the element, for
    example ``nofollow ugc``. ``modified`` is the time, in epoch seconds, at which the linked
    document last changed according to a sitemap or feed; 0.0 if unknown. A page has tens to
    thousands of links, so they are not tracked by the garbage collector. That is safe, because they
    contain only strings and a number.
    """

    url: str
    text: str = ""
    kind: Kind = "a"
    rel: str = ""
    modified: float = 0.0
