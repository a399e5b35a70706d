"""Replies of a working host to requests: status, headers, body.

Replies are pure functions of the World. ``webcrawl.simweb.connection`` adds faults and delays.
"""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from webcrawl.simweb import chance
from webcrawl.simweb.bodies import body_of, content_type_of, data_body_of, gzip_body_of
from webcrawl.simweb.changes import last_change, last_reported
from webcrawl.simweb.farm import farm_page
from webcrawl.simweb.host_spec import Behaviour, HostSpec, Rendering
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import (
    WORDS,
    PageSpec,
    content_of,
    find_page,
    page,
    redirect_status,
    redirect_target,
    url_of,
)
from webcrawl.simweb.preferences import TDM_PATH, preference_of
from webcrawl.simweb.rendering import DATA, SCRIPT
from webcrawl.simweb.robots import MOVED_PATH, PATH, SITEMAP_PATH, robots_of
from webcrawl.simweb.scripts import SCRIPTS
from webcrawl.simweb.text_stock import stock

if TYPE_CHECKING:
    from webcrawl.simweb.world import World

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}

_CALENDAR = re.compile(r"/calendar/\?d=(\d{1,15})", re.ASCII)
_MAZE = "/maze/"
#: Validators of a client's copy of a page: an ETag and a Last-Modified, either of which may be
#: empty.
Known: TypeAlias = "tuple[str, str]"
NONE = ("", "")
# Which of the two validators a host sends; hosts use these choices in turn.
_SENT_VALIDATORS = (slice(0, 2), slice(0, 1), slice(1, 2), slice(0, 0))
# Headers of scripts for caches; hosts use these in turn. The first use cache-busters instead.
_CACHING = (
    "",
    "Cache-Control: max-age=600\r\n",
    'Cache-Control: no-cache\r\nETag: "{name}"\r\n',
    "Expires: Fri, 31 Dec 2100 23:59:59 GMT\r\n",
)
_JAVASCRIPT = "Content-Type: text/javascript\r\nAccess-Control-Allow-Origin: *\r\n"
_MAX_LISTED = 50_000
_HTML = b"Content-Type: text/html; charset=utf-8\r\n"


class HostReply(NamedTuple):
    """Reply to a request: status, header lines (each with its line end), and the body in parts."""

    status: int
    headers: bytes
    parts: list[bytes]


def reply_to(
    world: World, host: HostSpec, target: str, *, gzip: bool, at: float = 0.0, known: Known = NONE
) -> HostReply:
    """Return the response of *host* to a GET of *target* (path and query).

    *gzip* says whether the client accepts gzip, *at* is the time in epoch seconds, and *known* are
    the validators of the client's copy.
    """
    if target in {PATH, MOVED_PATH}:
        return _robots(world, host, target)
    if host.behaviour is Behaviour.SERVER_ERROR:
        return status_page((500, 502, 503)[host.index % 3])
    found_page = find_page(world, host, target)
    if found_page is None or host.farm:
        answer = _subresource(world, host, target, known) if world.rendered else None
        return answer or _other_page(world, host, target, at)
    if found_page.kind is PageKind.REDIRECT:
        return _redirect(world, host, found_page)
    if found_page.kind is not PageKind.ERROR:
        return _document(world, found_page, gzip=gzip, at=at, known=known)
    return status_page(found_page.leaf.status)


def status_page(status: int, headers: str = "") -> HostReply:
    """Return an error page with *status* and extra *headers*.

    It has no links, so that a crawl finds no page only through an error.
    """
    phrase = HTTPStatus(status).phrase
    body = f"<html><head><title>{status} {phrase}</title></head><body>{phrase}</body></html>\n"
    return HostReply(status, f"Content-Type: text/html\r\n{headers}".encode(), [body.encode()])


def _robots(world: World, host: HostSpec, target: str) -> HostReply:
    """Return the reply to a request for robots.txt."""
    robots = robots_of(world, host, target)
    headers = f"Content-Type: {robots.content_type}\r\n"
    if robots.location:
        headers += f"Location: {robots.location}\r\n"
    return HostReply(robots.status, headers.encode(), [robots.body])


def _redirect(world: World, host: HostSpec, found_page: PageSpec) -> HostReply:
    """Return the response for a page that redirects."""
    key = redirect_target(world, found_page)
    location = url_of(world, key)
    if key >> 32 == host.index and not key >> 8 & 1:
        # Absolute and relative locations are both legal and common.
        location = location[len(host.origin) :]
    status = redirect_status(world, found_page)
    body = f'<html><body>Moved <a href="{location}">here</a></body></html>\n'
    headers = f"Content-Type: text/html\r\nLocation: {location}\r\n"
    return HostReply(status, headers.encode(), [body.encode()])


def _document(
    world: World, found_page: PageSpec, *, gzip: bool, at: float, known: Known
) -> HostReply:
    """Return the response for a document: 200, or 304 if *known* has its current validator."""
    content_type = content_type_of(world, found_page)
    index, number = content_of(world, found_page)
    etag = f'"{index:x}-{number:x}"'
    version = 0
    headers = f"ETag: {etag}\r\n"
    preference = preference_of(world, found_page.host)
    if world.changes_per_day:
        version = last_change(world, found_page, at)
        etag = f'"{index:x}-{number:x}-{version:x}"'
        modified = formatdate(version, usegmt=True)
        lines = f"ETag: {etag}\r\n", f"Last-Modified: {modified}\r\n"
        headers = "".join(lines[_SENT_VALIDATORS[found_page.host.index % len(_SENT_VALIDATORS)]])
        if known[0] == etag or (not known[0] and known[1] == modified):
            return HostReply(304, headers.encode(), [])

    if preference.header:
        headers += f"{preference.header}\r\n"
    if content_type:
        headers += f"Content-Type: {content_type}\r\n"

    compressible = world.profile_spec.modern and found_page.kind is not PageKind.LARGE
    if compressible and content_type.startswith(("text/", "application/json")):
        headers += "Vary: Accept-Encoding\r\n"
        if gzip:
            headers += "Content-Encoding: gzip\r\n"
            return HostReply(200, headers.encode(), [gzip_body_of(world, found_page, version)])
    body = body_of(world, found_page, version)
    if preference.head:
        body = [b"".join(body).replace(b"<head>", f"<head>{preference.head}".encode(), 1)]
    return HostReply(200, headers.encode(), body)


def _subresource(world: World, host: HostSpec, target: str, known: Known) -> HostReply | None:
    """Return the reply for *target* if it is a script or the data of a page with a script."""
    match = SCRIPT.fullmatch(target)
    if match and match[1] in SCRIPTS:
        headers = _JAVASCRIPT + _CACHING[host.index % 4].format(name=match[1])
        if f"ETag: {known[0]}\r\n" in headers:
            return HostReply(304, headers.encode(), [])
        return HostReply(200, headers.encode(), [SCRIPTS[match[1]].encode()])

    match = DATA.fullmatch(target)
    found_page = find_page(world, host, match[2]) if match else None
    if not (match and found_page and found_page.is_scripted):
        return None
    if host.rendering is Rendering.LOGIN:
        return status_page(401)
    body = data_body_of(world, found_page, int(match[1]))
    return HostReply(200, b"Content-Type: application/json\r\n", [body])


def _sitemap(world: World, host: HostSpec, at: float) -> list[bytes]:
    """Return the sitemap of *host*, with the modification times that the host reports at *at*."""
    entries = ['<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">']
    for number in range(min(host.pages, _MAX_LISTED)):
        listed_page = page(world, host, number)
        if listed_page.leaf.status == 200:
            modified = last_reported(world, listed_page, at)
            date = time.strftime("<lastmod>%Y-%m-%dT%H:%M:%SZ</lastmod>", time.gmtime(modified))
            entries.append(
                f"<url><loc>{host.origin}{listed_page.path}</loc>{date if modified else ''}</url>"
            )
    return ["\n".join([*entries, "</urlset>\n"]).encode()]


def _endless_links(host: HostSpec, target: str) -> list[str]:
    """Return the links of the endless page *target*; none for other pages.

    Each leads to a page that no earlier page links to, except the last, which is the root.
    """
    match = _CALENDAR.fullmatch(target)
    if match:
        day = int(match[1])
        return [f"/calendar/?d={day + 1}", f"/calendar/?d={day + 7}", "/"]
    if target.startswith(_MAZE) and target.endswith("/") and "//" not in target:
        depth = target.count("/")
        words = (WORDS[(host.index + depth * 7) % 256], WORDS[(host.index + depth * 11 + 5) % 256])
        return [*(f"{target}{word}/" for word in words), "/"]
    return []


def _other_page(world: World, host: HostSpec, target: str, at: float) -> HostReply:
    """Return the reply for a *target* that is not a page: a sitemap, or an endless page, or 404.

    Hosts of the spam farm have a page for every target.
    """
    if host.farm:
        return HostReply(200, _HTML, [farm_page(world, host, target)])
    if target == TDM_PATH and (file := preference_of(world, host).tdm):
        return HostReply(200, b"Content-Type: application/json\r\n", [file.encode()])
    if world.lastmod_recall and target == SITEMAP_PATH:
        return HostReply(200, b"Content-Type: application/xml\r\n", _sitemap(world, host, at))
    links = _endless_links(host, target) if host.endless else []
    if not links:
        return status_page(404)
    text_stock = stock(world.seed)
    value = chance.draw(world.seed, chance.ENDLESS, host.index, len(target))
    items = "".join(f'<li><a href="{link}">{link}</a></li>\n' for link in links)
    text = text_stock.plain[value % 100_000 :][: 500 + value % 4000].decode()
    body = (
        f"<!DOCTYPE html>\n<html><head><title>{host.name} {target}</title></head>\n"
        f"<body><ul>\n{items}</ul><p>{text}</p></body></html>\n"
    )
    return HostReply(200, _HTML, [body.encode()])
