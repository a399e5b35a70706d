"""One link of a page, as it travels in the page's link batch."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Kind: TypeAlias = str
"""How a link was written: the name of the element, ``refresh`` (meta refresh, ``Refresh`` header),
the relation of a ``<link>`` element or a ``Link`` header (``canonical``, ``next``, ...), ``css``
(``url()``); see ``kinds.KINDS``. In a sitemap it is ``loc`` for a page and ``sitemap`` for another
sitemap, in a feed ``item``. A sitemap that robots.txt names is a ``sitemap``, too. Entries that no
document named carry ``seed`` or ``redirect``."""


class Link(msgspec.Struct, gc=False):
    """A URL that a page points to.

    ``url`` is absolute and normalized. ``text`` is the anchor or alternative text with white space
    collapsed, cut at a bounded length. ``rel`` is the lower-case relation list of the element,
    ``nofollow ugc`` for instance. ``modified`` is when its document was changed last, epoch
    seconds, as a sitemap says; 0.0 if it does not. A page has tens to thousands of these, so they
    are kept out of the garbage collector: they hold nothing but strings and a number.
    """

    url: str
    text: str = ""
    kind: Kind = "a"
    rel: str = ""
    modified: float = 0.0
