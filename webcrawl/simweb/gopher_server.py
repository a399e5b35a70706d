"""Gopher hosts of the simulated web (RFC 1436): answer a selector with a menu or a document.

The server calls it for each connection. The content comes from pages.py, as for the web. Half of
the hosts end texts with a lone dot, as the standard requires.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from webcrawl.simweb.accesslog import AnswerEnd
from webcrawl.simweb.bodies import body_of
from webcrawl.simweb.host_spec import Behaviour
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import find_page, item_type, links_of, page, path_of, url_of

if TYPE_CHECKING:
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.pages import PageSpec
    from webcrawl.simweb.talks import Talk
    from webcrawl.simweb.world import World

_TYPES = "1h0gI9"
_MISSING = b"3That is not here\t\terror.host\t1\r\n.\r\n"


async def talk_gopher(talk: Talk) -> None:
    """Answer one request and log it."""
    selector = await talk.line()
    if selector is None:
        return
    found = _find(talk.world, talk.host, selector)
    target = found.path if found else "/0" + quote(selector, safe="/", encoding="latin-1")
    is_there = found is not None and found.leaf.status == 200
    parts = _answer(talk.world, found) if found and is_there else [_MISSING]
    outcome = AnswerEnd.CLOSED
    size = 0
    try:
        if talk.host.behaviour is Behaviour.SLOW:
            await asyncio.sleep(talk.world.slow_secs)
        for part in parts:
            await talk.say(part)
            size += len(part)
        outcome = AnswerEnd.OK
    finally:
        status = 200 if is_there else 404
        talk.log("GOPHER", target, status, size, outcome, is_over=outcome is AnswerEnd.OK)


def _find(world: World, host: HostSpec, selector: str) -> PageSpec | None:
    """Return the page with *selector*, of any type, because clients do not send the type."""
    if not selector:
        return page(world, host, 0)
    quoted = quote(selector.encode("latin-1"), safe="/")
    for kind in _TYPES:
        found = find_page(world, host, f"/{kind}{quoted}")
        if found is not None:
            return found
    return None


def _answer(world: World, found: PageSpec) -> list[bytes]:
    if found.kind is not PageKind.LISTING:
        parts = [part for part in body_of(world, found) if part]
        if item_type(found.leaf) == "0" and found.host.index & 1:
            parts.append(b"\r\n.\r\n")
        return parts or [b""]
    head = f"i{found.host.name}\t\terror.host\t1\r\n"
    lines = "".join([_item(world, key) for key in links_of(world, found)])
    return [f"{head}{lines}.\r\n".encode("latin-1")]


def _item(world: World, key: int) -> str:
    """Return the menu line for the page *key*."""
    host = world.host(key >> 32)
    text = f"{host.name} {key >> 8 & 0xFFFFFF}"
    if host.scheme != "gopher":
        return (
            f"h{text}\tURL:{url_of(world, key)}\t{host.name}\t{host.origin.rpartition(':')[2]}\r\n"
        )
    path = path_of(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)
    kind = path[1:2] or "1"
    selector = unquote_to_bytes(path[2:]).decode("latin-1")
    return f"{kind}{text}\t{selector}\t{host.name}\t{world.gopher_port}\r\n"
