"""Main text of a page: what it says without its navigation, its title, language and rights signals.

Used by ``text`` and ``search_index``; a page that both get is read once. The way of a document::

    body ─► at most MAX_BYTES, MAX_TAGS ─► lxml ─► title, signals
                                             └───► resiliparse: main text ─► language

Resiliparse's parser is quadratic in the depth of a document, and holds the interpreter: 50 kB of
``<div>`` take 8 s. So lxml reads the page first, without the interpreter, and stops at a depth of
256; scripts, comments and the attributes of tags longer than MAX_TAG_BYTES are left out before it,
as 100,000 attributes of one tag take lxml 70 s. In a page deeper than MAX_DEPTH navigation is not
looked for. A page of 42 kB takes 3 ms; the worst found holds the interpreter for 40 ms.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any, Final

import msgspec
from lxml import etree

from webcrawl.items import printable
from webcrawl.urls import normalize
from webcrawl.urls.extraction import charset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.items import Page

CONTENT_TYPES: Final = ("text/html", "application/xhtml+xml", "text/plain")
DEFAULT_MAX_CHARS: Final = 200_000
MAX_BYTES: Final = 1 << 19
MAX_TAGS: Final = 10_000
MAX_TAG_BYTES: Final = 512
MAX_DEPTH: Final = 64
MAX_TITLE_CHARS: Final = 500
MAX_SIGNALS: Final = 20
MAX_SIGNAL_CHARS: Final = 1000

# A comment, an element without text, or a tag; each goes on to the end of the page if it has none.
_TOKEN: Final = re.compile(
    rb"<!--.*?(?:-->|\Z)"
    rb"|<(script|style|svg|template|iframe)\b(?:[^<>]*+(?<=/)>|.*?(?:</\1\b|\Z))"
    rb"""|<([a-z][\w:-]*+)(?:[^"'>]++|"[^"]*+"?|'[^']*+'?)*+>?""",
    re.DOTALL | re.IGNORECASE,
)
_IS_DEEP: Final = etree.XPath(f"boolean({'/*' * MAX_DEPTH})")
_LICENCE: Final = re.compile(
    r"https?://creativecommons\.org/(?:licenses|publicdomain)/", re.IGNORECASE
)
_LANGUAGE_CHARS: Final = 5000
_CERTAIN: Final = 1200  # distance from a language up to which a text is of that language


class MainText(msgspec.Struct, frozen=True):
    """What a page says, and what it says about its use.

    ``language``: code of ISO 639-1 by the text, or as ``<html lang>`` says, or empty.
    ``robots``: ``name: content`` of meta elements for robots and of X-Robots-Tag headers.
    ``licences``: URLs of links with ``rel=license`` or to Creative Commons.
    ``tdm_reservation``, ``tdm_policy``: of the TDM Reservation Protocol, by header or element.
    """

    title: str = ""
    text: str = ""
    language: str = ""
    robots: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    tdm_reservation: str = ""
    tdm_policy: str = ""


# By the id of a page, as long as the page lives. A page goes from module to module, so two of them
# never read it at the same time.
_read_before: Final[dict[int, tuple[weakref.ref[Page], MainText]]] = {}


def main_text(page: Page, *, max_chars: int) -> MainText:
    """What *page* says, up to *max_chars* characters. 3 ms for a page of 42 kB; nothing is
    raised for what a page may be."""
    key = id(page)
    known = _read_before.get(key)
    if known is not None and known[0]() is page:
        return known[1]
    found = _read(page, max_chars)
    _read_before[key] = weakref.ref(page, lambda _: _read_before.pop(key, None)), found
    return found


def _read(page: Page, max_chars: int) -> MainText:
    source = charset.decode(page.body[:MAX_BYTES], page.codec)
    robots = [f"x-robots-tag: {one}" for one in _headers(page, b"x-robots-tag")]
    tdm = {
        name: next(_headers(page, name.encode()), "") for name in ("tdm-reservation", "tdm-policy")
    }
    title, text, licences, declared = "", source, [], ""
    if page.content_type != "text/plain":
        root = _tree(source)
        if root is None:
            text = ""
        else:
            title = " ".join(root.findtext(".//title", "").split())
            declared = root.get("lang", "")
            licences = _licences(root, page.url)
            for name, content in _metas(root):
                if "bot" in name:
                    robots.append(f"{name}: {content}")
                elif name in tdm:
                    tdm[name] = tdm[name] or content
            text = _text(root)
    text = printable(text[:max_chars])
    return MainText(
        title=printable(title[:MAX_TITLE_CHARS]),
        text=text,
        language=_language(text) or declared[:35].partition("-")[0].strip().lower(),
        robots=tuple(robots[:MAX_SIGNALS]),
        licences=tuple(dict.fromkeys(licences))[:MAX_SIGNALS],
        tdm_reservation=tdm["tdm-reservation"],
        tdm_policy=tdm["tdm-policy"],
    )


def _tree(source: str) -> Any:
    """The bounded tree of *source*; None if there is no element in it."""
    data = source.encode("utf-8", "replace").replace(b"\0", b"")
    tags = 0

    def bounded(token: re.Match[bytes]) -> bytes:
        nonlocal tags
        name = token[2]
        if name is None:
            return b" "
        tags += 1
        if tags > MAX_TAGS:
            return b""
        return b"<" + name + b">" if len(token[0]) > MAX_TAG_BYTES else token[0]

    data = _TOKEN.sub(bounded, data)
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError:  # there is nothing in it
        return None


def _text(root: Any) -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  # of `make modules`
    from resiliparse.parse.html import HTMLTree  # noqa: PLC0415  # of `make modules`

    tree = HTMLTree.parse(etree.tostring(root, encoding="unicode", method="html"))
    text: str = ""
    if not _IS_DEEP(root):
        text = extract_plain_text(tree, main_content=True, alt_texts=False)
    # Some pages are navigation only.
    return text.strip() or extract_plain_text(tree, alt_texts=False).strip()


def _language(text: str) -> str:
    from resiliparse.parse.lang import detect_fast  # noqa: PLC0415  # of `make modules`

    language: str = detect_fast(text[:_LANGUAGE_CHARS], cutoff=_CERTAIN)[0]
    return "" if language == "unknown" else language


def _headers(page: Page, name: bytes) -> Iterator[str]:
    for key, value in page.headers:
        if key.lower() == name:
            yield printable(value[:MAX_SIGNAL_CHARS].decode("latin-1"))


def _metas(root: Any) -> Iterator[tuple[str, str]]:
    for meta in root.iter("meta"):
        content = meta.get("content", "")
        if content:
            yield meta.get("name", "").strip().lower(), printable(content)


def _licences(root: Any, url: str) -> list[str]:
    found = (
        normalize(link.get("href", ""), url)
        for link in root.iter("a", "link", "area")
        if "license" in link.get("rel", "").lower().split()
        or _LICENCE.match(link.get("href", "").strip())
    )
    return [one for one in found if one]
