"""Pages of the simulated web: paths, kinds, sizes, links.

A page is identified by a *key*, one integer: host number << 32 | page number << 8 | hop. Page 0 is
the root. The trunk pages, whose numbers are below ``HostSpec.trunk``, form a tree of HTML pages
with the root page at the top. Every other page is linked from one of them. So all pages of a host
can be reached from its root. All other links are random.

On hosts that speak FTP or Gopher, trunk pages are directories and menus, and other pages are
entries in them. They have no redirects, and all HTML is UTF-8.

Redirects may have several hops: hop 0 is the page itself, and ``?hop=N`` is added to the next ones.
Duplicates have the bytes of a *content* that several pages share. Everything here is a pure
function of the World.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.simweb.chance import CONTENT, LINKS, PAGE, REDIRECT, SIZE, TEXT, draw, draws, unit
from webcrawl.simweb.distributions import HTML
from webcrawl.simweb.host_spec import HostSpec, Rendering
from webcrawl.simweb.leaves import GONE, LISTING, TRUNK, Leaf, PageKind

if TYPE_CHECKING:
    from webcrawl.simweb.world import World

# Page numbers from here on denote contents of duplicates instead of pages.
DUPLICATE_BASE = 1 << 23
# Page number of the entry pages to a host's endless URL spaces; the hop selects the space.
ENDLESS_NUMBER = (1 << 24) - 1

ENDLESS_PATHS = ("/calendar/?d=0", "/maze/")

# Bytes of a link in HTML, and of a page without links. They limit the links of a page to those that
# fit.
_LINK_BYTES = 130
_PAGE_BYTES = 300

_BRANCHES = 4  # number of trunk pages that each trunk page links to

# robots.txt files may forbid the first four.
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
    """Encoding of an HTML page, and how the page declares it."""

    script: str  # an alphabet of text_stock.py
    codec: str
    label: str
    declared: str  # in the "header", in a "meta" element, or ""


# The encodings of pages with an odd charset; all other pages are UTF-8 and declare it.
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
    """Properties of the page at one URL, except its bytes."""

    host: HostSpec
    number: int
    hop: int
    leaf: Leaf  # kind, status and content type; trunk pages have one, too
    path: str  # with the query, as written in the URL

    @property
    def kind(self) -> PageKind:
        """Kind of the page's answer."""
        return self.leaf.kind

    @property
    def is_scripted(self) -> bool:
        """Whether the page has a script of its host: all plain HTML of hosts with scripts."""
        return self.host.rendering is not None and self.leaf == TRUNK


def key_of(index: int, number: int = 0, hop: int = 0) -> int:
    """Return the key of page *number* of host *index*."""
    return index << 32 | number << 8 | hop


def leaf_of(world: World, host: HostSpec, number: int) -> Leaf:
    """Return kind, status and content type of page *number* of *host*."""
    if number < host.trunk:
        return TRUNK if host.is_web else LISTING
    if number >= host.pages:
        return GONE
    leaf = world.leaves[draw(world.seed, PAGE, host.index, number) & 4095]
    if not host.is_web and (leaf.kind is PageKind.REDIRECT or leaf.odd_charset):
        return TRUNK
    return leaf


def path_of(world: World, host: HostSpec, number: int, hop: int = 0) -> str:
    """Return the path and query of page *number* of *host*, even if the page does not exist."""
    if number == 0:
        return "/"
    if number == ENDLESS_NUMBER:
        return ENDLESS_PATHS[hop]
    value = draw(world.seed, PAGE, host.index, number)
    stem_index = value >> 12 & 4095
    if not host.is_web:
        return _directory_path(world, host, number, stem_index)

    style = value >> 24 & 15
    if number < host.trunk:
        extension = ".html"
        if host.guide:
            stem_index |= 4  # never a forbidden directory
            style |= 1  # never a query, which some forbid
    elif number < host.pages:
        extension = world.leaves[value & 4095].extension
    else:
        extension = ".html"

    # Some HTML pages have a query or end with a slash.
    if style < 3 and extension == ".html":
        if style == 0:
            return f"/{DIRECTORIES[stem_index & 15]}/view?id={number}"
        if style == 2:
            return f"{_STEMS[stem_index]}{number}/"
    path = f"{_STEMS[stem_index]}{number}{extension}"
    return f"{path}?hop={hop}" if hop else path


def url_of(world: World, key: int) -> str:
    """Return the URL of the page *key*, in a form that a crawler's normalizer does not change."""
    host = world.host(key >> 32)
    return host.origin + path_of(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)


def page(world: World, host: HostSpec, number: int, hop: int = 0) -> PageSpec:
    """Return the properties of page *number* of *host*."""
    return PageSpec(
        host, number, hop, leaf_of(world, host, number), path_of(world, host, number, hop)
    )


def find_page(world: World, host: HostSpec, target: str) -> PageSpec | None:
    """Return the page at *target* (path and query), or None if there is none (answer 404)."""
    if target == "/":
        return page(world, host, 0)
    # Names of directories also have numbers; only the last number in the path counts.
    start = target.rfind("/", 0, -1) if host.scheme == "ftp" else 0
    match = _NUMBER.search(target, start)
    if match is None or match.end() != len(target):
        return _top_directory(world, host, target) if host.scheme == "ftp" else None
    number = int(match[1])
    hop = int(match[2] or 0)
    if not 0 < number < host.pages or path_of(world, host, number, hop) != target:
        return None
    found_page = page(world, host, number, hop)
    if hop and (found_page.kind is not PageKind.REDIRECT or hop >= _hops(world, host, number)):
        return None
    return found_page


def charset_of(world: World, page: PageSpec) -> Charset:
    """Return the encoding of the HTML of *page*, which has an odd charset."""
    value = draw(world.seed, TEXT, page.host.index, page.number)
    return CHARSETS[value % len(CHARSETS)]


def content_of(world: World, page: PageSpec) -> tuple[int, int]:
    """Return a pair of numbers that identifies the content of *page*.

    Pages with the same pair have identical bytes. A third of the duplicates are documents that are
    found on many hosts; the first number of their pair is above every host number. The others are
    found under about three URLs of one host.
    """
    index = page.host.index
    number = page.number
    if page.kind is not PageKind.DUPLICATE:
        return index, number
    value = draw(world.seed, CONTENT, index, number)
    if value % 3 == 0:
        return world.hosts, DUPLICATE_BASE + (value >> 8) % max(1, world.hosts // 50)
    copies = max(1, round(page.host.pages * world.duplicates / 3))
    return index, DUPLICATE_BASE + (value >> 8) % copies


def size_of(world: World, page: PageSpec) -> int:
    """Return the size of the body of *page* in bytes, before compression.

    An HTML page may become larger if its required links need more space.
    """
    leaf = page.leaf
    if leaf.kind is PageKind.LARGE:
        return world.large_bytes
    profile = world.profile_spec
    quantile = unit(draw(world.seed, SIZE, *content_of(world, page)))
    small = profile.small
    trunk_share = world.trunk_documents
    if page.number < page.host.trunk:
        quantile = small + quantile * (1.0 - small)
    elif trunk_share < 1.0 - small:
        # Trunk pages are never small. So more of the leaves are small, which makes the distribution
        # over all pages right.
        leaf_quantile = quantile * (1.0 - trunk_share)
        if leaf_quantile < small:
            quantile = leaf_quantile
        else:
            large = 1.0 - small
            quantile = (leaf_quantile - trunk_share * small / large) / (1.0 - trunk_share / large)
    return profile.size(quantile, leaf.content_type)


def redirect_target(world: World, page: PageSpec) -> int:
    """Return the key of the target of *page*, a redirect.

    The target is another page, the next hop of this page, or a page that does not exist.
    """
    host = page.host
    number = page.number
    hop = page.hop
    value = draw(world.seed, REDIRECT, host.index, number)
    choice = value & 15
    if hop + 1 < _hops(world, host, number):
        return key_of(host.index, number, hop + 1)
    if choice == 13:
        return key_of(host.index, number)  # a loop, of one hop or more
    if choice == 14:
        return key_of(host.index, host.pages + (value >> 8) % 64)
    if choice < 4:
        rank0 = int(world.hosts ** unit(value)) - 1
        other = world.host(world.index_of(rank0))
        return key_of(other.index, (value >> 8 & 0xFFFF) * other.pages >> 16 if choice else 0)
    return key_of(host.index, (value >> 8 & 0xFFFF) * host.pages >> 16)


def redirect_status(world: World, page: PageSpec) -> int:
    """Return the HTTP status of *page*, a redirect: 301, 302, 303, 307 or 308."""
    value = draw(world.seed, REDIRECT, page.host.index, page.number)
    return _REDIRECT_STATUSES[value >> 28 & 7]


def links_of(world: World, page: PageSpec) -> list[int]:
    """Return the keys of the pages that *page* links to, in order, with repeats.

    The page must be answered with a 200 and HTML.
    """
    index, number = content_of(world, page)
    host = page.host
    if host.rendering is Rendering.LOGIN and page.is_scripted:
        return []
    if page.kind is PageKind.LISTING and host.scheme == "ftp":
        return _trunk_links(host, number)  # a directory links only to its entries
    size = size_of(world, page)
    link_count = min(world.profile_spec.links(size), max(0, size - _PAGE_BYTES) // _LINK_BYTES)
    host_bits = index << 32
    if index == world.hosts:  # content of many hosts, so it can only link to popular hosts
        keys: list[int] = []
        local_count = 0.0
    else:
        keys = _trunk_links(host, number) if number < host.trunk else []
        local_count = world.local_links * max(link_count, len(keys)) - len(keys)
        if number < host.trunk:
            keys += [world.index_of(rank0) << 32 for rank0 in world.guided_ranks(host, number)]

    # The remaining links are random: a share of them leads to pages of the same host.
    random_count = link_count - len(keys)
    if random_count <= 0:
        return keys
    threshold = int(0x10000 * min(max(local_count / random_count, 0.0), 1.0))
    hosts = world.hosts
    pages = host.pages
    append = keys.append
    for value in draws(world.seed, LINKS, index, number, random_count):
        fraction24 = value >> 16 & 0xFFFFFF
        if value & 0xFFFF < threshold:
            # Squared, so that the first pages of a host are popular.
            append(host_bits | (fraction24 * fraction24 * pages >> 48) << 8)
            continue
        # The popularity of hosts follows a Zipf distribution with exponent 1.
        rank0 = int(hosts ** (fraction24 / 0x1000000)) - 1
        target = world.index_of(rank0) << 32
        if not value >> 62:
            target |= ((value >> 40 & 0x3FFFFF) * world.page_count(rank0) >> 22) << 8
        append(target)
    return keys


def _directory_path(world: World, host: HostSpec, number: int, stem_index: int) -> str:
    """Return the path of page *number* of *host*, which speaks FTP or Gopher.

    FTP directories are nested like the tree of ``_trunk_links``. A Gopher path is an item type,
    then a selector that only the server understands.
    """
    leaf = leaf_of(world, host, number)
    if host.scheme == "gopher":
        return f"/{item_type(leaf)}{_STEMS[stem_index]}{number}{leaf.extension}"
    if number <= _BRANCHES and number < host.trunk:
        # The directories below the root are different ones that robots.txt files mention.
        return f"/{DIRECTORIES[(host.index + number) & 15]}/"
    if number < host.trunk:
        parent = path_of(world, host, (number - 1) // _BRANCHES)
        return f"{parent}{WORDS[stem_index >> 4]}-{number}/"
    parent = path_of(world, host, number % host.trunk)
    return f"{parent}{WORDS[stem_index >> 4]}-{number}{leaf.extension}"


def _top_directory(world: World, host: HostSpec, target: str) -> PageSpec | None:
    """Return the FTP directory *target* if it is directly below the root, else None."""
    for number in range(1, min(_BRANCHES + 1, host.trunk)):
        if path_of(world, host, number) == target:
            return page(world, host, number)
    return None


def item_type(leaf: Leaf) -> str:
    """Return the Gopher item type of a page with the properties *leaf*."""
    if leaf.kind is PageKind.LISTING:
        return "1"
    if leaf.content_type == HTML:
        return "h"
    return {"text/plain": "0", "image/gif": "g"}.get(
        leaf.content_type, "I" if leaf.content_type.startswith("image/") else "9"
    )


def _trunk_links(host: HostSpec, number: int) -> list[int]:
    """Return the links of trunk page *number* that make other pages of *host* reachable.

    The root page also links to the host's endless URL spaces and to the spam farm.
    """
    base = host.index << 32
    first_child = _BRANCHES * number + 1
    children = range(first_child, min(first_child + _BRANCHES, host.trunk))
    leaves = range(host.trunk + number, host.pages, host.trunk)
    keys = [base | page_number << 8 for page_number in itertools.chain(children, leaves)]
    if host.endless and number == 0:
        keys += [key_of(host.index, ENDLESS_NUMBER, space) for space in range(len(ENDLESS_PATHS))]
    if host.spammed_by is not None and number == 0:
        keys.append(key_of(host.spammed_by))
    return keys


def _hops(world: World, host: HostSpec, number: int) -> int:
    """Return the number of hops of page *number* of *host*, a redirect; usually 1."""
    value = draw(world.seed, REDIRECT, host.index, number)
    choice = value & 15
    if choice in {10, 11, 12}:
        return 2 + (value >> 4 & 3)
    if choice == 13:
        return 1 + (value >> 4 & 3)
    return 12 if choice == 15 else 1
