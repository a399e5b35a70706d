"""Spam farm: thousands of hosts with generated names under a few registered domains.

Every page links to other hosts of the farm and to more pages of its own host. All pages are
computed on request, so the farm is endless. Some other pages of the simulated web link to it, like
guest books full of spam. RFC 2606 reserves two of its registered domains for examples. The suffix
of the third domain is not in the public suffix list, like that of a new top-level domain.

Hosts of the farm have numbers above ``World.hosts``.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from webcrawl.simweb import chance
from webcrawl.simweb.text_stock import stock

if TYPE_CHECKING:
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.world import World

DOMAINS = ("example.com", "example.net", "farm.internal")
_WORDS = (
    *("cheap", "best", "free", "super", "casino", "loans", "pills", "watches"),
    *("shoes", "offers", "deals", "online", "shop", "bonus", "credit", "luxury"),
)
# Number of links on a page to roots of other hosts of the farm, and to pages of its own host.
_FARM_LINKS = 12
_LOCAL_LINKS = 6


def farm_name(number: int) -> str:
    """Return the name of host *number* of the farm, counted from 0."""
    domain = DOMAINS[number % len(DOMAINS)]
    first_word = _WORDS[number * 7 % 16]
    second_word = _WORDS[(number * 3 + 5) % 16]
    return f"{first_word}-{second_word}-{number}.{domain}"


def farm_number(name: str) -> int | None:
    """Return the number of the farm host called *name* (lower case), or None for other names."""
    digits = name.partition(".")[0].rpartition("-")[2]
    if not (digits.isdecimal() and digits.isascii() and len(digits) <= 9):
        return None
    return int(digits) if farm_name(int(digits)) == name else None


def farm_page(world: World, host: HostSpec, target: str) -> bytes:
    """Return the HTML of the page of *host* at *target*; every target has a page."""
    page_number = zlib.crc32(target.encode("utf-8", "replace"))
    values = chance.draws(
        world.seed, chance.FARM, host.index, page_number, _FARM_LINKS + _LOCAL_LINKS
    )
    links = [
        world.host(world.hosts + 1 + value % world.farm_hosts).origin + "/"
        for value in values[:_FARM_LINKS]
    ]
    links += [f"/offers/{value % 1_000_000_000}.html" for value in values[_FARM_LINKS:]]

    text_stock = stock(world.seed)
    text = text_stock.plain[values[0] % 100_000 :][:1500].decode()
    items = "".join(
        f'<a href="{link}">{text[8 * number : 8 * number + 24]}</a>\n'
        for number, link in enumerate(links)
    )
    return (
        f"<!DOCTYPE html>\n<html><head><title>{host.name} {values[1]:x}</title></head>\n"
        f"<body>{items}<p>{text}</p></body></html>\n"
    ).encode()
