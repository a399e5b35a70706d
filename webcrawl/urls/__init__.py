"""From the bytes of a page to the URLs worth asking for.

A link passes through these modules in this order, and nothing enters the frontier
without having passed all of them::

    page bytes ─► charset ─► extraction ─► normalizer ─► filters ─► host
                                (Link)     (one spelling   (refused,   (the politeness
                                            per URL)        by name)    key)

``normalize`` answers with the one spelling under which the crawl knows a URL, or None for
what cannot be fetched. It never changes which server is contacted. ``host_of`` gives the key
under which politeness, robots rules and shards are kept; ``registered_domain`` groups hosts by
their registration. Everything here is pure computation: no disk, no network, no Scrapy, and
nothing that a page or a seed list can contain makes it raise.
"""

from __future__ import annotations

from webcrawl.urls.host import host_of, origin_of
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES, SCHEMES, normalize, normalize_seed

__all__ = ["HTTP_SCHEMES", "SCHEMES", "Link", "host_of", "normalize", "normalize_seed", "origin_of"]
