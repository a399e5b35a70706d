"""From the bytes of a page to the URLs worth fetching.

A link passes through these modules in this order, and nothing enters the frontier without passing
all of them::

    page bytes ─► charset ─► extraction ─► normalizer ─► filters ─► host
                                (Link)     (one spelling   (refused,   (the politeness
                                            per URL)        by name)    key)

``normalize`` returns the one spelling under which the crawl knows a URL, or None if it cannot be
fetched. It never changes which server is contacted. ``host_of`` returns the key for politeness,
robots rules and shards. ``registered_domain`` groups hosts by their registration. Everything here
is pure computation: no disk, no network, no Scrapy. Nothing that a page or a seed list can contain
makes it raise.
"""

from __future__ import annotations

from webcrawl.urls.host import host_of, origin_of
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES, SCHEMES, normalize, normalize_seed

__all__ = ["HTTP_SCHEMES", "SCHEMES", "Link", "host_of", "normalize", "normalize_seed", "origin_of"]
