"""robots.txt files of the simulated web.

The server sends these files, and the tests use the same bytes to decide which URLs
are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.simweb.chance import FAULT, draws
from webcrawl.simweb.host_spec import Behaviour, HostSpec, RobotsKind
from webcrawl.simweb.preferences import preference_of

if TYPE_CHECKING:
    from webcrawl.simweb.world import World

PATH = "/robots.txt"
MOVED_PATH = "/robots-moved.txt"
#: Path of a sitemap that some files name, but that exists only in a World with lastmod_recall.
SITEMAP_PATH = "/sitemap.xml"

_TEXT = "text/plain"

# Rules of each kind. {delay} is replaced by nothing or by a Crawl-delay line.
_RULES = {
    RobotsKind.EMPTY: "{delay}",
    RobotsKind.ALLOW_ALL: "# Welcome\nUser-agent: *\n{delay}Disallow:\n",
    RobotsKind.PREFIX: (
        "User-agent: *\n{delay}Disallow: /private/\nDisallow: /tmp/\nDisallow: /cgi-bin/\n"
        "\nSitemap: {origin}{sitemap}\n"
    ),
    RobotsKind.WILDCARD: (
        "User-agent: *  # everyone\n{delay}Disallow: /*.pdf$\nDisallow: /*.gif$\nDisallow: /*?\n"
        "Disallow: /private*\n"
    ),
    RobotsKind.OVERRIDE: (
        "User-agent: *\n{delay}Disallow: /archive/\nAllow: /archive/b\nAllow: /archive/s\n"
        "Disallow: /tmp\nAllow: /tmp/view\n"
    ),
    RobotsKind.AGENTS: (
        "User-agent: badbot\nUser-agent: scraper\nDisallow: /\n\n"
        "User-agent: googlebot\nDisallow:\n\n"
        "User-agent: webcrawl\n{delay}Disallow: /private/\nDisallow: /tmp/\nDisallow: /archive/\n\n"
        "User-agent: *\n{delay}Disallow: /\n"
    ),
    RobotsKind.BOM_CRLF: (
        "\ufeffUser-agent: *\r\n{delay}Disallow: /private/   # not yet\r\n\r\n"
        "disallow:/cgi-bin/\r\nNonsense: line\r\njunk without a colon\r\n"
    ),
    RobotsKind.BIG: "User-agent: *\n{delay}Disallow: /private/\nDisallow: /archive/\n",
    RobotsKind.REDIRECT: "User-agent: *\n{delay}Disallow: /tmp/\nDisallow: /private/\n",
    RobotsKind.DENY_ALL: "User-agent: *\n{delay}Disallow: /\n",
}
_FILLER = "# {number:06d} " + "nothing under this path is of any use for a crawler " * 2 + "\n"
BIG_BYTES = 600_000


class RobotsFile(NamedTuple):
    """Answer to a request for robots.txt."""

    status: int
    content_type: str
    body: bytes
    location: str = ""


_UNAVAILABLE = RobotsFile(503, _TEXT, b"Service Unavailable\n")
_MISSING = RobotsFile(404, _TEXT, b"Not Found\n")
_FIXED = {
    RobotsKind.UNAVAILABLE: _UNAVAILABLE,
    RobotsKind.MISSING: _MISSING,
    RobotsKind.FORBIDDEN: RobotsFile(403, _TEXT, b"Forbidden\n"),
    RobotsKind.HTML: RobotsFile(
        200, "text/html", b"<!DOCTYPE html><title>Oops</title><p>Page not found: <b>sorry</b></p>"
    ),
}


def robots_of(world: World, host: HostSpec, path: str = PATH) -> RobotsFile:
    """Return the robots.txt of *host* at *path* (PATH or MOVED_PATH), without network faults."""
    kind = host.robots
    has_sitemap = world.lastmod_recall and host.is_web
    preferred = preference_of(world, host).robots
    if (has_sitemap or preferred) and kind is RobotsKind.MISSING:
        kind = RobotsKind.EMPTY
    if host.behaviour is Behaviour.SERVER_ERROR:
        return _UNAVAILABLE

    # A robots.txt that redirects has its rules at MOVED_PATH, all others at PATH.
    if (path == MOVED_PATH) != (kind is RobotsKind.REDIRECT):
        return _MISSING if path == MOVED_PATH else RobotsFile(301, _TEXT, b"", MOVED_PATH)
    if kind in _FIXED:
        return _FIXED[kind]

    if kind is RobotsKind.BINARY:
        noise = draws(world.seed, FAULT, host.index, 1, 64)
        # No line ends and no colons, so that nothing can be read as a rule.
        safe_bytes = (1 + value % 9 for value in noise)
        return RobotsFile(200, "application/octet-stream", b"\x7fELF" + bytes(safe_bytes))

    delay = ""
    if host.crawl_delay and kind is not RobotsKind.EMPTY:
        line_end = "\r\n" if kind is RobotsKind.BOM_CRLF else "\n"
        delay = f"Crawl-delay: {host.crawl_delay:g}{line_end}"
    text = _RULES[kind].format(delay=delay, origin=host.origin, sitemap=SITEMAP_PATH)
    if has_sitemap and kind is not RobotsKind.PREFIX:
        text += f"\nSitemap: {host.origin}{SITEMAP_PATH}\n"
    if kind is RobotsKind.BIG:
        line = _FILLER.format(number=0)
        text += "".join(
            _FILLER.format(number=number) for number in range(BIG_BYTES // len(line) + 1)
        )
    return RobotsFile(200, _TEXT, f"{preferred}{text}".encode())
