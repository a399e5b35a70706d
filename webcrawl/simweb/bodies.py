"""Bodies of documents, plain and gzipped.

A body is a list of parts: small parts made for the page (its title, its links) and pieces of
ready-made text. So it takes 0.1 ms to make a page of 240 kB, and 0.5 ms more to compress it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from isal import igzip

from webcrawl.simweb import chance
from webcrawl.simweb.distributions import HTML, Titles
from webcrawl.simweb.host_spec import CLIENT_RENDERED, Rendering
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import (
    PageSpec,
    charset_of,
    content_of,
    links_of,
    path_of,
    size_of,
    url_of,
)
from webcrawl.simweb.rendering import script_of
from webcrawl.simweb.text_stock import PIECE_BYTES, PIECES, SEPARATORS, Stock, stock

if TYPE_CHECKING:
    from webcrawl.simweb.world import World

# Headers of images of 64 by 64 pixels, up to the place where programs find the format and size.
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

# Level of ISA-L. Results are 10 % larger than with zlib's level 6, which servers use, but take a
# tenth of the time.
_GZIP_LEVEL = 2
_CHUNK_LINKS = 16  # links in one list, before text follows

# A part of a body: bytes, or the number of a piece of the stock.
_Part = bytes | int


def content_type_of(world: World, page: PageSpec) -> str:
    """Return the Content-Type header of *page* when it answers 200, or "" for none."""
    name = page.leaf.content_type
    if name != HTML:
        return name
    if not page.leaf.odd_charset:
        return "text/html; charset=utf-8"
    charset = charset_of(world, page)
    return f"{name}; charset={charset.label}" if charset.declared == "header" else name


def body_of(world: World, page: PageSpec, version: int = 0) -> list[bytes]:
    """Return the uncompressed body of *page*, in parts.

    Each *version*, which is below 2^40, has a different text and the same links.
    """
    index, content_number = content_of(world, page)
    # The draw follows from the world's seed and the page's content, and decides the text.
    text_draw = chance.draw(world.seed, chance.TEXT, index, version << 24 | content_number)
    if page.kind is PageKind.LARGE or page.leaf.content_type != HTML:
        return _binary(world, page, text_draw)
    if page.leaf.odd_charset:
        return [_foreign_html(world, page, text_draw)]
    if page.is_scripted:
        return [_scripted_html(world, page, text_draw)]

    # Some parts are numbers of ready-made pieces of text.
    text_stock = stock(world.seed)
    pieces = text_stock.modern if world.profile_spec.modern else text_stock.pieces
    parts = _html(world, page, text_draw)
    return [part if isinstance(part, bytes) else pieces[part] for part in parts]


def gzip_body_of(world: World, page: PageSpec, version: int = 0) -> bytes:
    """Return the body of *page*, compressed as one gzip member."""
    # mtime is fixed, so that the page has the same bytes at any time. The annotation is needed
    # because igzip has no types.
    packed: bytes = igzip.compress(b"".join(body_of(world, page, version)), _GZIP_LEVEL, mtime=0)
    return packed


def data_body_of(world: World, page: PageSpec, batch: int) -> bytes:
    """Return *batch* of the data that the script of *page* asks for, as JSON.

    An endless list has half of the links in each batch, and repeats them from the third batch on.
    """
    value = chance.draw(world.seed, chance.TEXT, *content_of(world, page))
    hrefs = hrefs_of(world, page)
    if page.host.rendering is Rendering.SCROLL:
        hrefs = hrefs[batch % 2 :: 2]
    text = stock(world.seed).pieces[value % PIECES].decode()
    return json.dumps({"links": hrefs, "text": text}).encode()


def hrefs_of(world: World, page: PageSpec) -> list[str]:
    """Return the links of *page* as they are written in its HTML.

    Duplicates have only absolute links, so that the same bytes have the same links at every URL.
    Most links of other pages are relative to the root, and some need normalizing.
    """
    keys = links_of(world, page)
    if page.kind is PageKind.DUPLICATE:
        return [url_of(world, key) for key in keys]
    host = page.host
    index = host.index
    hrefs = []
    for position, key in enumerate(keys, page.number):
        form = position & 31
        if key >> 32 == index:
            path = path_of(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)
            if form < 24:
                hrefs.append(path)
                continue
            url = host.origin + path
        else:
            other = world.host(key >> 32)
            url = other.origin + path_of(world, other, key >> 8 & 0xFFFFFF, key & 0xFF)
        if form == 28:
            url += "#top"
        elif form == 29:
            scheme, _, after_scheme = url.partition("://")
            url = f"{scheme.upper()}://{after_scheme.replace('site', 'SITE', 1)}"
        elif form == 30:
            scheme, _, after_scheme = url.partition("://")
            name, _, path = after_scheme.partition("/")
            url = f"{scheme}://{name}/./x/../{path}"
        hrefs.append(url)
    return hrefs


def _html(world: World, page: PageSpec, value: int) -> list[_Part]:
    """Return the parts of an HTML page in UTF-8; the draw *value* decides the text."""
    text_stock = stock(world.seed)
    size = size_of(world, page)
    title = _title(world, page, text_stock, value)
    head = (
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8">'
        f"<title>{title}</title></head>\n<body><h1>{title}</h1>\n"
    )
    hrefs = hrefs_of(world, page)

    # Links are written in chunks, with pieces of text between them.
    chunks = [head.encode()] if not hrefs else []
    for at in range(0, len(hrefs), _CHUNK_LINKS):
        chunks.append(
            (head + _link_list(text_stock, hrefs[at : at + _CHUNK_LINKS], value + at)).encode()
        )
        head = ""

    tail = b"</body></html>\n"
    fill_bytes = size - sum(map(len, chunks)) - len(tail)
    if fill_bytes < 0 and not hrefs:
        return [b"".join((chunks[0], tail))[:size]]

    # Spread the pieces evenly over the chunks, and fill up the rest with plain text.
    piece_count, remaining_bytes = divmod(max(fill_bytes, 0), PIECE_BYTES)
    parts: list[_Part] = []
    piece = value >> 20
    step = (value >> 40) | 1
    for at, chunk in enumerate(chunks, 1):
        parts.append(chunk)
        chunk_pieces = piece_count * at // len(chunks) - piece_count * (at - 1) // len(chunks)
        for _ in range(chunk_pieces):
            piece += step
            parts.append(piece % PIECES)
    offset = value % 100_000
    parts.append(text_stock.plain[offset : offset + remaining_bytes] + tail)
    return parts


def _scripted_html(world: World, page: PageSpec, value: int) -> bytes:
    """Return an HTML page with a script; the draw *value* decides the text.

    Pages that are complete without their scripts have links in their HTML, and text unless they
    are hostile.
    """
    kind = page.host.rendering
    text_stock = stock(world.seed)
    title = page.host.name  # documents of the kind HISTORY are the same at every URL
    if kind is not Rendering.HISTORY:
        title = _title(world, page, text_stock, value)
    content = ""
    if kind not in CLIENT_RENDERED:
        content = " ".join(f'<a href="{href}">{href}</a>' for href in hrefs_of(world, page))
    if kind is Rendering.HYDRATION:
        content += text_stock.pieces[value % PIECES].decode()
    owner, target = script_of(world, page)
    script_type = "module" if kind is Rendering.MODULES else "text/javascript"
    return (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f'<body><div id="app">{content}</div>\n'
        f'<script type="{script_type}" src="{owner.origin}{target}"></script></body></html>\n'
    ).encode()


def _title(world: World, page: PageSpec, text_stock: Stock, value: int) -> str:
    """Return the title of *page*; the draw *value* decides its words."""
    words = text_stock.words
    title_kinds = world.profile_spec.titles
    match title_kinds[page.host.index % len(title_kinds)]:
        case Titles.NUMBERED:
            return f"Entry {page.number}"
        case Titles.ONE:
            return "Home of all"
        case Titles.WORDS:
            return " ".join(words[(value >> shift) % len(words)] for shift in (0, 13, 26))
        case Titles.NAMED:
            host_index, number = content_of(world, page)
            return f"{words[value % len(words)]} {host_index}-{number}"


def _link_list(text_stock: Stock, hrefs: list[str], value: int) -> str:
    """Return HTML with links to *hrefs* and text between them, decided by the draw *value*."""
    separators = text_stock.separators
    texts = ['<ul><li><a href="']
    for href in hrefs:
        value += 0x9E37
        texts.append(href)
        texts.append(separators[value % SEPARATORS])
    texts[-1] = texts[-1].partition("</a>")[0] + "</a></li></ul>\n"
    # No URL of the simulated web has a character that must be escaped in HTML.
    return "".join(texts)


def _foreign_html(world: World, page: PageSpec, value: int) -> bytes:
    """Return an HTML page in an odd charset; the draw *value* decides the text."""
    text_stock = stock(world.seed)
    charset = charset_of(world, page)
    meta = f'<meta charset="{charset.label}">' if charset.declared == "meta" else ""
    title = f"{text_stock.foreign(charset.script, value, 12)} {page.host.index}-{page.number}"
    hrefs = hrefs_of(world, page)
    link_list = _link_list(text_stock, hrefs, value) if hrefs else ""
    text = f"<html><head>{meta}<title>{title}</title></head>\n<body>{link_list}<p>"
    char_bytes = 2 if charset.codec == "utf-16" else 1
    fill_bytes = size_of(world, page) - len(text) * char_bytes
    # The filler is limited, because larger pages would take time and test nothing more.
    filler = text_stock.foreign(charset.script, value, min(max(fill_bytes, 0), 60_000) // 2)
    return f"{text}{filler}</p></body></html>\n".encode(charset.codec)


def _binary(world: World, page: PageSpec, value: int) -> list[bytes]:
    """Return the parts of a document that is not HTML; the draw *value* decides its bytes."""
    text_stock = stock(world.seed)
    content_type = page.leaf.content_type
    size = size_of(world, page)
    # The first part differs for each page, so that different URLs have different bytes.
    first = (_MAGIC.get(content_type, b"") + b"%016x\n" % value)[:size]
    bytes_left = size - len(first)
    parts = [first]
    source = text_stock.plain if content_type in _TEXTUAL else text_stock.noise
    offset = value % (len(source) // 2)
    while bytes_left > 0:
        part = source[offset : offset + bytes_left]
        parts.append(part)
        bytes_left -= len(part)
        offset = 0
    return parts
