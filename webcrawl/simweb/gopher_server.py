"""Gopher hosts of the simulated web (RFC 1436): answer a selector with a menu or a document.

The server calls ``talk_gopher`` for each connection. The content comes from pages.py, as for the
web. Half of the hosts end texts with a line that contains only a dot, as the standard requires.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from webcrawl.simweb.accesslog import AnswerEnd
from webcrawl.simweb.bodies import body_of
from webcrawl.simweb.host_spec import Behaviour, HostSpec
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import PageSpec, find_page, item_type, links_of, page, path_of, url_of

if TYPE_CHECKING:
    from webcrawl.simweb.talks import Talk
    from webcrawl.simweb.world import World

_ITEM_TYPES = "1h0gI9"
_MISSING = b"3That is not here\t\terror.host\t1\r\n.\r\n"


async def talk_gopher(talk: Talk) -> None:
    """Answer the request of the connection *talk* and log it."""
    selector = await talk.line()
    if selector is None:
        return
    found_page = _find_page(talk.world, talk.host, selector)
    target = found_page.path if found_page else "/0" + quote(selector, safe="/", encoding="latin-1")
    exists = found_page is not None and found_page.leaf.status == 200
    parts = _content(talk.world, found_page) if found_page and exists else [_MISSING]

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
        status = 200 if exists else 404
        talk.log("GOPHER", target, status, size, outcome, is_over=outcome is AnswerEnd.OK)


def _find_page(world: World, host: HostSpec, selector: str) -> PageSpec | None:
    """Return the page of *host* with *selector*, or None if there is none.

    The item type is part of the path, but clients do not send it, so all types are tried.
    """
    if not selector:
        return page(world, host, 0)
    quoted = quote(selector.encode("latin-1"), safe="/")
    for item in _ITEM_TYPES:
        found_page = find_page(world, host, f"/{item}{quoted}")
        if found_page is not None:
            return found_page
    return None


def _content(world: World, found_page: PageSpec) -> list[bytes]:
    """Return the content of a page, in parts: a menu or a document."""
    if found_page.kind is not PageKind.LISTING:
        parts = [part for part in body_of(world, found_page) if part]
        if item_type(found_page.leaf) == "0" and found_page.host.index & 1:
            parts.append(b"\r\n.\r\n")
        return parts or [b""]
    head = f"i{found_page.host.name}\t\terror.host\t1\r\n"
    lines = "".join([_menu_line(world, key) for key in links_of(world, found_page)])
    return [f"{head}{lines}.\r\n".encode("latin-1")]


def _menu_line(world: World, key: int) -> str:
    """Return the menu line for the page with the key *key*."""
    host = world.host(key >> 32)
    text = f"{host.name} {key >> 8 & 0xFFFFFF}"
    if host.scheme != "gopher":
        return (
            f"h{text}\tURL:{url_of(world, key)}\t{host.name}\t{host.origin.rpartition(':')[2]}\r\n"
        )
    path = path_of(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)
    item = path[1:2] or "1"
    selector = unquote_to_bytes(path[2:]).decode("latin-1")
    return f"{item}{text}\t{selector}\t{host.name}\t{world.gopher_port}\r\n"
