"""Bodies of documents, plain and gzipped.

A body is a list of parts: small ones made for the page (its title, its links) and pieces of the
stock. So a page of 240 kB takes 0.1 ms, and 0.5 ms more with gzip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isal import igzip

from webcrawl.simweb import chance
from webcrawl.simweb.distributions import HTML, Titles
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import (
    charset_of,
    content_of,
    links_of,
    path_of,
    size_of,
    url_of,
)
from webcrawl.simweb.text_stock import PIECE_BYTES, PIECES, SEPARATORS, Stock, stock

if TYPE_CHECKING:
    from webcrawl.simweb.pages import PageSpec
    from webcrawl.simweb.world import World

# Headers of images of 64 by 64 pixels, up to where programs find format and size.
_JPEG = (
    b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    b"\xff\xc0\0\x0b\x08\0@\0@\1\1\x11\0\xff\xda\0\x08\1\1\0\0\x3f\0"
)
_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0@\0\0\0@\x08\2\0\0\0%\x0b\xe6\x89\0\1\0\0IDAT"
_WEBP = b"RIFF \0\0\0WEBPVP8L\x14\0\0\0/?\xc0\x0f\0\7\x10\x11\xfd\x0f\0\t\xe1\xff{-\xa2\xff\xa9\x1f"
_MAGIC = {
    "image/gif": b"GIF89a@\0@\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0@\0@\0\0\x08\0;",
    "image/jpeg": _JPEG,
    "image/jpg": _JPEG,
    "image/png": _PNG,
    "image/webp": _WEBP,
    "application/pdf": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n",
    "application/zip": b"PK\x03\x04",
    "application/postscript": b"%!PS-Adobe-2.0\n",
    "audio/mpeg": b"ID3\x03\x00",
}
_TEXTUAL = frozenset({"text/plain", "text/htm", "application/postscript", ""})

# A level of ISA-L: 10 % larger than zlib's level 6, which servers use, in a tenth of the time.
_GZIP_LEVEL = 2
_CHUNK_LINKS = 16  # links in one run, before text follows

# A part is bytes, or the number of a piece of the stock.
_Part = bytes | int


def content_type_of(world: World, page: PageSpec) -> str:
    """Return the Content-Type header of a 200 answer, or "" for none."""
    name = page.leaf.content_type
    if name != HTML:
        return name
    if not page.leaf.odd_charset:
        return "text/html; charset=utf-8"
    charset = charset_of(world, page)
    return f"{name}; charset={charset.label}" if charset.declared == "header" else name


def body_of(world: World, page: PageSpec, version: int = 0) -> list[bytes]:
    """Return the body of a 200 answer, uncompressed, in parts.

    Each *version*, below 2^40, has a different text and the same links.
    """
    index, number = content_of(world, page)
    value = chance.draw(world.seed, chance.TEXT, index, version << 24 | number)
    if page.kind is PageKind.LARGE or page.leaf.content_type != HTML:
        return _binary(world, page, value)
    if page.leaf.odd_charset:
        return [_foreign_html(world, page, value)]
    made = stock(world.seed)
    pieces = made.modern if world.profile_spec.modern else made.pieces
    return [part if isinstance(part, bytes) else pieces[part] for part in _html(world, page, value)]


def gzip_body_of(world: World, page: PageSpec, version: int = 0) -> bytes:
    """Return the body of a 200 answer as one gzip member."""
    # mtime is fixed, so that a page has the same bytes at any time. igzip has no types.
    packed: bytes = igzip.compress(b"".join(body_of(world, page, version)), _GZIP_LEVEL, mtime=0)
    return packed


def hrefs_of(world: World, page: PageSpec) -> list[str]:
    """Return the links of *page* as they are written in it.

    Duplicates have only absolute links, so that the same bytes mean the same links at every URL.
    Other pages mostly have links relative to the root, and some that need normalizing.
    """
    keys = links_of(world, page)
    if page.kind is PageKind.DUPLICATE:
        return [url_of(world, key) for key in keys]
    host = page.host
    index = host.index
    found = []
    for count, key in enumerate(keys, page.number):
        form = count & 31
        if key >> 32 == index:
            path = path_of(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)
            if form < 24:
                found.append(path)
                continue
            url = host.origin + path
        else:
            other = world.host(key >> 32)
            url = other.origin + path_of(world, other, key >> 8 & 0xFFFFFF, key & 0xFF)
        if form == 28:
            url += "#top"
        elif form == 29:
            scheme, _, rest = url.partition("://")
            url = f"{scheme.upper()}://{rest.replace('site', 'SITE', 1)}"
        elif form == 30:
            scheme, _, rest = url.partition("://")
            name, _, path = rest.partition("/")
            url = f"{scheme}://{name}/./x/../{path}"
        found.append(url)
    return found


def _html(world: World, page: PageSpec, value: int) -> list[_Part]:
    made = stock(world.seed)
    size = size_of(world, page)
    title = _title(world, page, made, value)
    head = (
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8">'
        f"<title>{title}</title></head>\n<body><h1>{title}</h1>\n"
    )
    hrefs = hrefs_of(world, page)
    chunks = [head.encode()] if not hrefs else []
    for at in range(0, len(hrefs), _CHUNK_LINKS):
        chunks.append((head + _run(made, hrefs[at : at + _CHUNK_LINKS], value + at)).encode())
        head = ""
    tail = b"</body></html>\n"
    left = size - sum(map(len, chunks)) - len(tail)
    if left < 0 and not hrefs:
        return [b"".join((chunks[0], tail))[:size]]
    whole, rest = divmod(max(left, 0), PIECE_BYTES)
    parts: list[_Part] = []
    piece, step = value >> 20, (value >> 40) | 1
    for at, chunk in enumerate(chunks, 1):
        parts.append(chunk)
        share = whole * at // len(chunks) - whole * (at - 1) // len(chunks)
        for _ in range(share):
            piece += step
            parts.append(piece % PIECES)
    offset = value % 100_000
    parts.append(made.plain[offset : offset + rest] + tail)
    return parts


def _title(world: World, page: PageSpec, made: Stock, value: int) -> str:
    words, kinds = made.words, world.profile_spec.titles
    match kinds[page.host.index % len(kinds)]:
        case Titles.NUMBERED:
            return f"Entry {page.number}"
        case Titles.ONE:
            return "Home of all"
        case Titles.WORDS:
            return " ".join(words[(value >> shift) % len(words)] for shift in (0, 13, 26))
        case Titles.NAMED:
            index, number = content_of(world, page)
            return f"{words[value % len(words)]} {index}-{number}"


def _run(made: Stock, hrefs: list[str], value: int) -> str:
    """Return a sequence of links with text between them."""
    separators = made.separators
    texts = ['<ul><li><a href="']
    for href in hrefs:
        value += 0x9E37
        texts.append(href)
        texts.append(separators[value % SEPARATORS])
    texts[-1] = texts[-1].partition("</a>")[0] + "</a></li></ul>\n"
    # No URL here has a character that must be escaped in HTML.
    return "".join(texts)


def _foreign_html(world: World, page: PageSpec, value: int) -> bytes:
    made = stock(world.seed)
    charset = charset_of(world, page)
    meta = f'<meta charset="{charset.label}">' if charset.declared == "meta" else ""
    title = f"{made.foreign(charset.script, value, 12)} {page.host.index}-{page.number}"
    hrefs = hrefs_of(world, page)
    run = _run(made, hrefs, value) if hrefs else ""
    text = f"<html><head>{meta}<title>{title}</title></head>\n<body>{run}<p>"
    width = 2 if charset.codec == "utf-16" else 1
    left = size_of(world, page) - len(text) * width
    # Limited, because pages of several hundred kB in these charsets would only take time.
    fill = made.foreign(charset.script, value, min(max(left, 0), 60_000) // 2)
    return f"{text}{fill}</p></body></html>\n".encode(charset.codec)


def _binary(world: World, page: PageSpec, value: int) -> list[bytes]:
    made = stock(world.seed)
    name = page.leaf.content_type
    size = size_of(world, page)
    # The first part differs for each page, so that different URLs have different bytes.
    first = (_MAGIC.get(name, b"") + b"%016x\n" % value)[:size]
    left = size - len(first)
    parts = [first]
    source = made.plain if name in _TEXTUAL else made.noise
    offset = value % (len(source) // 2)
    while left > 0:
        part = source[offset : offset + left]
        parts.append(part)
        left -= len(part)
        offset = 0
    return parts
