"""Answers of hosts, as engines and the store get them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from scrapy.http import Response

from webcrawl.crawl.lease.stored_exchange import decode_exchange, place_in
from webcrawl.render.engine import Answer


def stored_answer(exchange: bytes) -> Answer:
    """Return the response in *exchange*. Raises UndecodableError."""
    stored = decode_exchange(exchange)
    return _answer(stored.headers, **stored.response)


def answer_of(response: Response) -> Answer:
    """Return *response*."""
    answer = _answer(response.headers.items(), response.status, response.body)
    return replace(answer, place=place_in(response.meta))


def _answer(headers: Any, status: int, body: bytes, **_: Any) -> Answer:
    pairs = [
        (name.decode("latin-1"), one.decode("latin-1")) for name, all_ in headers for one in all_
    ]
    return Answer(status, pairs, body)
