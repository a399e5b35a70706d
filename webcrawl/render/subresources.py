"""Requests of pages as the crawl sends them, and the part of the Fetch Standard that it decides.

Chromium itself decides by Access-Control-Allow-* which answers a page may read, and when a request
needs a preflight. It does not see Cross-Origin-Resource-Policy in answers that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from webcrawl.render.engine import Kind, Subresource
from webcrawl.urls import origin_of

# Fields that say who the crawl is, change what an answer is, or are no part of a script's request.
_NOT_SENT = re.compile(
    r"user-agent|from|authorization|cookie|range|if-.*|signature.*|proxy-.*|sec-.*|forwarded"
    r"|x-forwarded-.*|x-real-ip|origin|referer|host|connection|content-length|transfer-encoding"
    r"|accept-encoding|upgrade-insecure-requests"
)
_MAX_FIELDS = 16
_MAX_BYTES = 4096


def subresource_of(url: str, kind: Kind, headers: Mapping[str, str]) -> Subresource | str:
    """Return the request of Chromium with *headers* as it is sent, or why it is not sent."""
    fields = sorted(
        (name.lower(), value)
        for name, value in headers.items()
        if not _NOT_SENT.fullmatch(name.lower())
    )
    # Chromium itself sets "accept"; the others come from the page's scripts.
    set_by_page = sum(name != "accept" for name, _ in fields)
    if set_by_page > _MAX_FIELDS or sum(map(len, map("".join, fields))) > _MAX_BYTES:
        return "too many header fields"
    origin = headers.get("Origin", "")
    if origin == origin_of(url):  # Chromium names it for modules
        origin = ""
    is_preflight = "Access-Control-Request-Method" in headers
    return Subresource(
        url,
        kind,
        origin,
        tuple(fields),
        method="OPTIONS" if is_preflight else "GET",
        referer=headers.get("Referer", ""),
    )


def is_withheld(subresource: Subresource, policy: str, page_url: str) -> bool:
    """Return whether Cross-Origin-Resource-Policy *policy* keeps an answer from *page_url*.

    It applies to requests without Origin; the others need a permission anyway.
    """
    if subresource.origin or policy not in {"same-origin", "same-site"}:
        return False
    if policy == "same-site":
        # Takes 0.1 s and much memory in each process that drives an engine, and is rarely needed.
        from webcrawl.urls.registered_domain import is_same_site  # noqa: PLC0415

        return not is_same_site(subresource.url, page_url)
    return origin_of(subresource.url) != origin_of(page_url)
