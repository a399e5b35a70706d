"""Spam farm: thousands of hosts with generated names under a few registered domains.

Every page links to other hosts of the farm and to more pages of its own host. All pages are
computed on request, so the farm is endless. Some pages of the rest of the simulated web link to it,
as guest books do. Two of its registered domains are reserved for examples by RFC 2606; the suffix
of the third is not in the public suffix list, like that of a new top-level domain.

Hosts of the farm have the numbers after ``World.hosts``. ``webcrawl.simweb.truth`` leaves them out.
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
# Links on a page: to roots of other hosts of the farm, and to pages of its own host.
_OTHERS = 12
_OWN = 6


def farm_name(number: int) -> str:
    """Return the name of the farm's host *number*, counted from 0."""
    domain = DOMAINS[number % len(DOMAINS)]
    one, two = _WORDS[number * 7 % 16], _WORDS[(number * 3 + 5) % 16]
    return f"{one}-{two}-{number}.{domain}"


def farm_number(name: str) -> int | None:
    """Return the number of the farm's host *name* (in lower case), or None for other names."""
    digits = name.partition(".")[0].rpartition("-")[2]
    if not (digits.isdecimal() and digits.isascii() and len(digits) <= 9):
        return None
    return int(digits) if farm_name(int(digits)) == name else None


def farm_page(world: World, host: HostSpec, target: str) -> bytes:
    """Return the page of *host* at *target*; every target has one."""
    page = zlib.crc32(target.encode("utf-8", "replace"))
    values = chance.draws(world.seed, chance.FARM, host.index, page, _OTHERS + _OWN)
    links = [
        world.host(world.hosts + 1 + value % world.farm_hosts).origin + "/"
        for value in values[:_OTHERS]
    ]
    links += [f"/offers/{value % 1_000_000_000}.html" for value in values[_OTHERS:]]
    made = stock(world.seed)
    text = made.plain[values[0] % 100_000 :][:1500].decode()
    items = "".join(
        f'<a href="{link}">{text[8 * i : 8 * i + 24]}</a>\n' for i, link in enumerate(links)
    )
    return (
        f"<!DOCTYPE html>\n<html><head><title>{host.name} {values[1]:x}</title></head>\n"
        f"<body>{items}<p>{text}</p></body></html>\n"
    ).encode()
