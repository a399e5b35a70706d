"""URLs: extracting links from pages, normalizing and filtering them.

A link passes through these modules in this order, and no URL enters the frontier without passing
all of them::

    page bytes ─► charset ─► extraction ─► normalizer ─► filters ─► host
                                (Link)     (one spelling   (refused,   (the politeness
                                            per URL)        by name)    key)

``normalize`` returns the one spelling under which the crawl knows a URL, or None if it cannot be
fetched. It never changes which server is contacted. ``host_of`` returns the key for politeness,
robots rules and shards. ``registered_domain`` groups hosts by their registered domain. Everything
here is pure computation: no disk, no network, no Scrapy. No content of a page or a seed list makes
it raise an exception.
"""

from __future__ import annotations

from webcrawl.urls.host import host_of, origin_of
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES, SCHEMES, normalize, normalize_seed
