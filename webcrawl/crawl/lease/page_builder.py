"""Builds a Page from a Scrapy response and the facts of its fetch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from itemadapter import ItemAdapter
from itemadapter.adapter import AdapterInterface
from scrapy.http import Response

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.items import Headers, Page, Truncation, replace_unprintable
from webcrawl.net.content_type import content_type_of
from webcrawl.net.outcomes import PERMANENT, REDIRECTS
from webcrawl.urls import HTTP_SCHEMES, normalize

_FIELDS = {field.name: field.metadata for field in fields(Page) if field.init} | {
    name: MappingProxyType({"serializer": replace_unprintable}) for name in ("text", "title")
}
_TEXT_AND_NUMBERS = [
    field.name
    for field in fields(Page)
    if field.init
    and field.type in {"str", "int", "float", "bool", "Truncation"}
    and field.name != "rendered"
]


def page_of(response: Response, fetch: Fetch, *, schemes: frozenset[str] = HTTP_SCHEMES) -> Page:
    """Return the Page of *response*, without its links.

    A redirect to a scheme that is not one of *schemes* has no target. The HTTP handler stores the
    headers and body as received in the meta (net/http/handler.py). Without them, as with a custom
    handler, Scrapy's versions are used, whose header fields are UTF-8.
    """
    entry = fetch.lease.entry
    request = response.request
    meta = response.meta
    target = _redirect_target(response, fetch.url, schemes)
    flags = response.flags

    # The methods of Headers would normalize the name again, so they are bypassed.
    content_type, charset = content_type_of(dict.get(response.headers, b"Content-Type", ()))
    return Page(
        url=fetch.url,
        status=response.status,
        headers=_wire_headers(response),
        body=response.body,
        wire_body=meta.get("wire_body", response.body),
        fetched_at=fetch.sent_wall,
        method="GET" if request is None else request.method,
        request_headers=list(meta.get("wire_request_headers", ())),
        wire_head=meta.get("wire_head", b""),
        wire_request=meta.get("wire_request", b""),
        protocol=response.protocol or "HTTP/1.1",
        tls=meta.get("tls", ""),
        reason=meta.get("wire_reason") or "",
        ip=meta["wire_address"] if "wire_address" in meta else str(response.ip_address or ""),
        download_seconds=fetch.took,
        truncated=truncation(flags),
        body_cut="body_cut" in flags,
        attempts=entry.attempts,
        content_type=content_type,
        charset=charset,
        redirect_target=target,
        redirect_permanent=bool(target) and response.status in PERMANENT,
        depth=entry.depth,
        via=entry.via,
        kind=entry.kind,
        rank=entry.rank,
        robots_line=fetch.robots_line,
        stored_at=0.0 if fetch.history is None else fetch.history.stored_at,
        flags=fetch.page.flags,
        rendered=(fetch.stored is not None and fetch.stored.html) or "",
    )


def _wire_headers(response: Response) -> Headers:
    """Return the header fields of *response* as received, or as Scrapy has them."""
    raw = response.meta.get("wire_headers")
    if raw is not None:
        return list(raw)
    return [(name, value) for name, values in response.headers.items() for value in values]


def truncation(flags: list[str]) -> Truncation:
    """Return why a body ended early, from the *flags* of its response; "" if it is complete."""
    if not flags:
        return ""
    if "truncated" in flags and "body_cut" not in flags:
        return "time" if "time" in flags else "length"
    return "disconnect" if "dataloss" in flags else ""


def _redirect_target(response: Response, url: str, schemes: frozenset[str]) -> str:
    """Return the URL to which *response* redirects *url*; "" if it does not redirect."""
    if response.status not in REDIRECTS:
        return ""
    location = response.headers.get(b"Location")
    if not location:
        return ""
    return normalize(location.strip(), url, schemes=schemes) or ""


class PageAdapter(AdapterInterface):
    """Adapter with which feed exports and ``scrapy parse`` read a Page.

    Iterating lists only the fields with text and numbers; all fields can be accessed by name.
    """

    @classmethod
    def is_item_class(cls, item_class: type) -> bool:
        """Return whether *item_class* is Page or a subclass."""
        return issubclass(item_class, Page)

    def get_field_meta(self, field_name: str) -> MappingProxyType[str, Any]:
        """Return the metadata of *field_name*, which tells a feed export how to write it."""
        return _FIELDS[field_name]

    def __getitem__(self, field_name: str) -> Any:
        if field_name not in _FIELDS:
            raise KeyError(field_name)
        return getattr(self.item, field_name)

    def __setitem__(self, field_name: str, value: Any) -> None:
        setattr(self.item, field_name, value)

    def __delitem__(self, field_name: str) -> None:
        raise KeyError(f"{field_name} is a field of every Page")

    def __iter__(self) -> Iterator[str]:
        return iter(_TEXT_AND_NUMBERS)

    def __len__(self) -> int:
        return len(_TEXT_AND_NUMBERS)


# It must come before the adapter for all dataclasses.
ItemAdapter.ADAPTER_CLASSES.appendleft(PageAdapter)  # type: ignore[attr-defined]  # a deque
