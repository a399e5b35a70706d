"""Pages of the simulated web: paths, kinds, sizes, links.

A page is identified by a *key*, one integer: host number << 32 | page number << 8 | hop. Page 0 is
the root. The pages with numbers below ``HostSpec.trunk`` form a tree of HTML pages from the root,
and every other page is linked from one of them. So all pages of a host can be reached from its
root. Most links are random.

On hosts that speak FTP or Gopher, trunk pages are directories and menus, and other pages are
entries in them. They have no redirects, and all HTML is UTF-8.

Redirects have several hops: hop 0 is the page itself, the next ones have ``?hop=N`` added.
Duplicates get their bytes from a *content* that several pages share. Everything here is a pure
function of the World.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.simweb.chance import CONTENT, LINKS, PAGE, REDIRECT, SIZE, TEXT, draw, draws, unit
from webcrawl.simweb.distributions import HTML
from webcrawl.simweb.leaves import GONE, LISTING, TRUNK, Leaf, PageKind

if TYPE_CHECKING:
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.world import World

# Numbers from here on are contents of duplicates, not pages.
DUPLICATE_BASE = 1 << 23
# The page number of the entries to a host's endless URL spaces.
ENDLESS_NUMBER = (1 << 24) - 1

ENDLESS_PATHS = ("/calendar/?d=0", "/maze/")

# Bytes of a link in HTML, and of a page without links: a page has only as many links as fit.
_LINK_BYTES = 130
_PAGE_BYTES = 300

_LOCAL_LINKS = 0.8  # share of links that stay within the host
_BRANCHES = 4  # trunk pages below a trunk page

# robots.txt files forbid the first four.
DIRECTORIES = (
    *("private", "tmp", "cgi-bin", "archive"),
    *("news", "docs", "shop", "blog", "people", "caf%C3%A9", "reports", "music"),
    *("travel", "stories", "products", "papers"),
)
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "st", "tr")
_RIMES = ("a", "e", "i", "o", "u", "an", "el", "or", "is", "um", "en", "ar", "il", "os", "ul", "et")
WORDS = tuple(onset + rime + "ra" for onset in _ONSETS for rime in _RIMES)
# The lower 4 bits of the index choose a directory, the upper 8 a word.
_STEMS = tuple(f"/{directory}/{word}-" for word in WORDS for directory in DIRECTORIES)

_NUMBER = re.compile(r"[-=](\d{1,8})(?:\.[a-z0-9]+|/)?(?:\?hop=(\d{1,3}))?", re.ASCII)
_REDIRECT_STATUSES = (301, 302, 302, 302, 303, 307, 308, 301)


class Charset(NamedTuple):
    """Encoding of an HTML page, and how it is declared."""

    script: str  # an alphabet of the stock
    codec: str
    label: str
    declared: str  # in the "header", in a "meta" element, or ""


# The encodings of odd pages; all others are UTF-8 and declare it.
CHARSETS = (
    Charset("latin", "iso-8859-1", "iso-8859-1", "header"),
    Charset("latin", "cp1252", "windows-1252", "meta"),
    Charset("japanese", "shift_jis", "Shift_JIS", "header"),
    Charset("japanese", "euc_jp", "EUC-JP", "meta"),
    Charset("cyrillic", "koi8_r", "koi8-r", "header"),
    Charset("chinese", "gb18030", "gb18030", "meta"),
    Charset("korean", "euc_kr", "euc-kr", "header"),
    Charset("cyrillic", "utf-16", "utf-16", "header"),  # with byte order mark
    Charset("cyrillic", "cp1251", "windows-1251", ""),
    Charset("latin", "iso-8859-1", "utf-8", "header"),  # declares UTF-8 but is not
    Charset("latin", "utf-8", "x-sim-unknown", "header"),  # a charset that does not exist
)


class PageSpec(NamedTuple):
    """Properties of one URL, except its bytes."""

    host: HostSpec
    number: int
    hop: int
    leaf: Leaf
    path: str  # with the query, as it stands in the URL

    @property
    def kind(self) -> PageKind:
        """Kind of its answer."""
        return self.leaf.kind

    @property
    def has_links(self) -> bool:
        """Whether the answer is a 200 with HTML, so that links can be extracted."""
        return self.leaf.status == 200 and self.leaf.content_type == HTML


def key_of(index: int, number: int = 0, hop: int = 0) -> int:
    """Return the key of page *number* of host *index*."""
    return index << 32 | number << 8 | hop


def is_endless(key: int) -> bool:
    """Return whether *key* is an entry to an endless URL space."""
    return key >> 8 & 0xFFFFFF == ENDLESS_NUMBER


def leaf_of(world: World, host: HostSpec, number: int) -> Leaf:
    """Return the leaf of page *number* of *host*."""
    if number < host.trunk:
        return TRUNK if host.is_web else LISTING
    if number >= host.pages:
        return GONE
    leaf = world.leaves[draw(world.seed, PAGE, host.index, number) & 4095]
    if not host.is_web and (leaf.kind is PageKind.REDIRECT or leaf.odd_charset):
        return TRUNK
    return leaf


def path_of(world: World, host: HostSpec, number: int, hop: int = 0) -> str:
    """Return the path and query of a page, for any page number (even of pages that are gone)."""
    if number == 0:
        return "/"
    if number == ENDLESS_NUMBER:
        return ENDLESS_PATHS[hop]
    value = draw(world.seed, PAGE, host.index, number)
    stem = value >> 12 & 4095
    if not host.is_web:
        return _own_path(world, host, number, stem)
    style = value >> 24 & 15
    if number < host.trunk:
        extension = ".html"
        if host.guide:
            stem |= 4  # never a forbidden directory
            style |= 1  # never a query, which some forbid
    elif number < host.pages:
        extension = world.leaves[value & 4095].extension
    else:
        extension = ".html"
    if style < 3 and extension == ".html":
        if style == 0:
            return f"/{DIRECTORIES[stem & 15]}/view?id={number}"
        if style == 2:
            return f"{_STEMS[stem]}{number}/"
    path = f"{_STEMS[stem]}{number}{extension}"
    return f"{path}?hop={hop}" if hop else path


def url_of(world: World, key: int) -> str:
    """Return the URL of the page *key*, in a form that a crawler's normalizer does not change."""
    host = world.host(key >> 32)
    return host.origin + path_of(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)


def page(world: World, host: HostSpec, number: int, hop: int = 0) -> PageSpec:
    """Return page *number* of *host*."""
    return PageSpec(
        host, number, hop, leaf_of(world, host, number), path_of(world, host, number, hop)
    )


def find_page(world: World, host: HostSpec, target: str) -> PageSpec | None:
    """Return the page at *target* (path and query), or None if there is none (answer 404)."""
    if target == "/":
        return page(world, host, 0)
    # Directories also have numbers; the last number counts.
    start = target.rfind("/", 0, -1) if host.scheme == "ftp" else 0
    match = _NUMBER.search(target, start)
    if match is None or match.end() != len(target):
        return _top_directory(world, host, target) if host.scheme == "ftp" else None
    number, hop = int(match[1]), int(match[2] or 0)
    if not 0 < number < host.pages or path_of(world, host, number, hop) != target:
        return None
    found = page(world, host, number, hop)
    if hop and (found.kind is not PageKind.REDIRECT or hop >= _hops(world, host, number)):
        return None
    return found


def charset_of(world: World, page: PageSpec) -> Charset:
    """Return the encoding of the HTML of *page*, which has an odd charset."""
    value = draw(world.seed, TEXT, page.host.index, page.number)
    return CHARSETS[value % len(CHARSETS)]


def content_of(world: World, page: PageSpec) -> tuple[int, int]:
    """Return the pair that determines the bytes of *page*; equal pairs have identical bytes.

    A third of the duplicates are documents found on many hosts (their first number is above every
    host number). The rest are found under about three URLs of one host.
    """
    index, number = page.host.index, page.number
    if page.kind is not PageKind.DUPLICATE:
        return index, number
    value = draw(world.seed, CONTENT, index, number)
    if value % 3 == 0:
        return world.hosts, DUPLICATE_BASE + (value >> 8) % max(1, world.hosts // 50)
    copies = max(1, round(page.host.pages * world.duplicates / 3))
    return index, DUPLICATE_BASE + (value >> 8) % copies


def size_of(world: World, page: PageSpec) -> int:
    """Return the size of the body in bytes, before any gzip.

    HTML may become larger if its required links need more.
    """
    leaf = page.leaf
    if leaf.kind is PageKind.LARGE:
        return world.large_bytes
    profile = world.profile_spec
    quantile = unit(draw(world.seed, SIZE, *content_of(world, page)))
    small, trunk = profile.small, world.trunk_documents
    if page.number < page.host.trunk:
        quantile = small + quantile * (1.0 - small)
    elif trunk < 1.0 - small:
        # Trunk pages are never small, so more leaves are, and the distribution of all is right.
        at = quantile * (1.0 - trunk)
        if at < small:
            quantile = at
        else:
            rest = 1.0 - small
            quantile = (at - trunk * small / rest) / (1.0 - trunk / rest)
    return profile.size(quantile, leaf.content_type)


def redirect_target(world: World, page: PageSpec) -> int:
    """Return the key of a redirect's target: a page, its next hop, or a page that is gone."""
    host, number, hop = page.host, page.number, page.hop
    value = draw(world.seed, REDIRECT, host.index, number)
    sort = value & 15
    if hop + 1 < _hops(world, host, number):
        return key_of(host.index, number, hop + 1)
    if sort == 13:
        return key_of(host.index, number)  # a loop, of one hop or more
    if sort == 14:
        return key_of(host.index, host.pages + (value >> 8) % 64)
    if sort < 4:
        rank0 = int(world.hosts ** unit(value)) - 1
        other = world.host(world.index_of(rank0))
        return key_of(other.index, (value >> 8 & 0xFFFF) * other.pages >> 16 if sort else 0)
    return key_of(host.index, (value >> 8 & 0xFFFF) * host.pages >> 16)


def redirect_status(world: World, page: PageSpec) -> int:
    """Return the status of a redirect: 301, 302, 303, 307 or 308."""
    value = draw(world.seed, REDIRECT, page.host.index, page.number)
    return _REDIRECT_STATUSES[value >> 28 & 7]


def links_of(world: World, page: PageSpec) -> list[int]:
    """Return the keys of the links on a page that ``has_links``, in order, with repeats."""
    index, number = content_of(world, page)
    host = page.host
    if page.kind is PageKind.LISTING and host.scheme == "ftp":
        return _trunk_links(host, number)  # a directory links only to its entries
    size = size_of(world, page)
    wanted = min(world.profile_spec.links(size), max(0, size - _PAGE_BYTES) // _LINK_BYTES)
    base = index << 32
    if index == world.hosts:  # found on many hosts, so it can only link to popular ones
        keys: list[int] = []
        local = 0.0
    else:
        keys = _trunk_links(host, number) if number < host.trunk else []
        local = _LOCAL_LINKS * max(wanted, len(keys)) - len(keys)
        if number < host.trunk:
            keys += [world.index_of(rank0) << 32 for rank0 in world.guided_ranks(host, number)]
    missing = wanted - len(keys)
    if missing <= 0:
        return keys
    threshold = int(0x10000 * min(max(local / missing, 0.0), 1.0))
    hosts, pages = world.hosts, host.pages
    append = keys.append
    for value in draws(world.seed, LINKS, index, number, missing):
        at = value >> 16 & 0xFFFFFF
        if value & 0xFFFF < threshold:
            append(base | (at * at * pages >> 48) << 8)  # squared: the first pages are popular
            continue
        # The popularity of hosts follows a Zipf distribution with exponent 1.
        rank0 = int(hosts ** (at / 0x1000000)) - 1
        other = world.index_of(rank0) << 32
        if not value >> 62:
            other |= ((value >> 40 & 0x3FFFFF) * world.page_count(rank0) >> 22) << 8
        append(other)
    return keys


def _own_path(world: World, host: HostSpec, number: int, stem: int) -> str:
    """Return the path of a page of a host that speaks FTP or Gopher.

    FTP: directories are nested like the tree of ``_trunk_links``. Gopher: an item type, then a
    selector that only the server understands.
    """
    leaf = leaf_of(world, host, number)
    if host.scheme == "gopher":
        return f"/{item_type(leaf)}{_STEMS[stem]}{number}{leaf.extension}"
    if number <= _BRANCHES and number < host.trunk:
        # Below the root are different directories that robots.txt files mention.
        return f"/{DIRECTORIES[(host.index + number) & 15]}/"
    if number < host.trunk:
        above = path_of(world, host, (number - 1) // _BRANCHES)
        return f"{above}{WORDS[stem >> 4]}-{number}/"
    above = path_of(world, host, number % host.trunk)
    return f"{above}{WORDS[stem >> 4]}-{number}{leaf.extension}"


def _top_directory(world: World, host: HostSpec, target: str) -> PageSpec | None:
    for number in range(1, min(_BRANCHES + 1, host.trunk)):
        if path_of(world, host, number) == target:
            return page(world, host, number)
    return None


def item_type(leaf: Leaf) -> str:
    """Return the Gopher item type of a page of a Gopher host."""
    if leaf.kind is PageKind.LISTING:
        return "1"
    if leaf.content_type == HTML:
        return "h"
    return {"text/plain": "0", "image/gif": "g"}.get(
        leaf.content_type, "I" if leaf.content_type.startswith("image/") else "9"
    )


def _trunk_links(host: HostSpec, number: int) -> list[int]:
    """Return the links that make a host reachable.

    They lead to pages of the host, to its endless URL spaces, and to the spam farm.
    """
    base = host.index << 32
    first = _BRANCHES * number + 1
    below = range(first, min(first + _BRANCHES, host.trunk))
    hanging = range(host.trunk + number, host.pages, host.trunk)
    keys = [base | other << 8 for other in itertools.chain(below, hanging)]
    if host.endless and number == 0:
        keys += [key_of(host.index, ENDLESS_NUMBER, sort) for sort in range(len(ENDLESS_PATHS))]
    if host.spammed_by is not None and number == 0:
        keys.append(key_of(host.spammed_by))
    return keys


def _hops(world: World, host: HostSpec, number: int) -> int:
    """Return how many URLs a redirect page has; 1 for a plain redirect."""
    value = draw(world.seed, REDIRECT, host.index, number)
    sort = value & 15
    if sort in {10, 11, 12}:
        return 2 + (value >> 4 & 3)
    if sort == 13:
        return 1 + (value >> 4 & 3)
    return 12 if sort == 15 else 1
