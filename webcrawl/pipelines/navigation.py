"""Finds navigation by where the links of a page are, before its main text is searched for.

Elements ``nav``, ``footer`` and ``aside`` are removed if they have no paragraphs and are not notes.
The rest is split at the tags of its blocks, such as paragraphs, items and cells. Each segment
between them is a text, a line of links, or short, by its letters in and outside of links. Lines
above the first text or below the last one are navigation, with what is short between them. Between
texts, lines are navigation if they stand alone or say so: "Next", "Read also:". A list or table
that has more than lines is content, and so are lines below the last text if they are longer than
all texts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise

import msgspec

MARK = ".x-navigation"  # selects the elements around texts that are navigation

_PLAIN = (
    rb"</?(?:a(?:ddress|rticle|side)|blockquote|button|d(?:[dt]|etails|iv)|fieldset|fig(?:ure|caption)"
    rb"|footer|form|h(?:eade)?r|label|legend|li|main|nav|option|section|select|summary"
    rb"|t(?:body|foot|head))(?=[\s/>])[^<>]*+>"
)
# Tags of blocks, whose names (group 2) count, or tags of other blocks without text between them.
_BLOCK = re.compile(
    rb"(<(/?(?:[dou]l|h[1-6]|p|pre|t(?:able|itle|[dhr])))(?=[\s/>])[^<>]*+>|%b(?:\s*+%b)*+)"
    % (_PLAIN, _PLAIN)
)
# A menu, footer or aside without paragraphs, and without another one in it.
_MENU = re.compile(rb"<(nav|footer|aside)(?=[\s>])[^<>]*+>(?:[^<]++|<(?!/?\1[\s>]|p[\s>]))*+</\1>")
# An aside that Resiliparse would leave out, although it is content.
_NOTE = re.compile(
    rb"<aside\b(?=[^<>]{0,200}?\b(?:note|tip|info|warning|caution|danger|important|callout)\b)"
    rb"[^<>]*+>((?:[^<]++|<(?!/?aside\b))*+)</aside>"
)
_UPPER_NAME = re.compile(rb"</?[A-Z]\w*+")  # a tag to the end of its name
_TAG = re.compile(rb"<[^<>]*+>")
_LINK = re.compile(rb"<a(?=[\s>])[^<>]*+>")
_ENTITY = re.compile(rb"&#?\w++;")
# What marks the beginning and end of a link among letters.
_LINK_START = b"\1"
_LINK_END = b"\2"
_NOT_LETTERS = bytes(code for code in range(3, 128) if not chr(code).isalpha() and chr(code) != ":")
_LISTS = {b"ul", b"ol", b"dl", b"table"}
_LIST_ENDS = {b"/ul", b"/ol", b"/dl", b"/table"}
_CELLS = {b"td", b"th"}
_CELL_ENDS = {b"/td", b"/th"}
_HEADINGS = set(b"h1 h2 h3 h4 h5 h6".split())
# Letters of links that lead elsewhere.
_LINK_WORDS = frozenset(
    "prev previous next up home contents index top backtotop readmore continuereading edit reply "
    "report quote share print email permalink more zurück weiter suivant précédent siguiente "
    "anterior назад далее".encode().split()
)
# What sites put around and into their texts.
_NOTICES = (
    (
        "followus followme followhim followher signupfor signupto newsletter yourinbox reportingby "
        "editingby allrightsreserved usescookies usecookies usingcookies privacypolicy yourbrowser "
        "modernbrowser outdatedbrowser advertisement firstpublished lastupdated youmayalso "
        "youmightalso relatedarticles relatedposts mostread mostpopular likethisstory sharethis "
        "subscribenow subscribeto mayearna copyright ©"
    )
    .encode()
    .split()
)
_MIN_TEXT = 60  # letters outside of links that make a text
_MAX_NOTICE = 250
_MAX_TEASER = 300  # letters of a text below a link to more of it
_MAX_LABEL = 25
_MIN_TITLE = 8  # letters of a link that is the title of another page
_MIN_SENTENCE = 90  # letters of a link that is a sentence of the text
_MAX_PAGER_ROWS = 3
# Kinds of segments. KEPT are lines of a list or table that is content.
TEXT, LINE, SHORT, HEADING, KEPT = range(5)


class _Segment(msgspec.Struct):
    """Text of a page between the tag of a block, *tag*, and the next. Sizes are in letters.

    ``at``: where the text is among the parts of the page.
    ``letters``: its letters in lower case, with colons and the marks of links.
    ``box``, ``outer_box``: where the innermost and outermost list or table around it begins, or 0.
    ``known_links``: links whose letters are in _LINK_WORDS; 2 in each cell of a pager.
    """

    at: int
    tag: bytes
    letters: bytes
    box: int
    outer_box: int
    row: int
    links: int = 0
    inside: int = 0
    outside: int = 0
    known_links: int = 0
    is_notice: bool = False
    has_label: bool = False
    kind: int = SHORT


def mark_navigation(page: bytes) -> bytes:
    """Return the HTML *page* without menus, and with an element of MARK around other navigation.

    Resiliparse takes lists of links, and lists near the top of the tree, for menus. Lists that are
    content are therefore put deeper, without links. Paragraphs that fill a table cell lose their
    tags, without which the cells of a row share a line.
    """
    page = _UPPER_NAME.sub(lambda tag: tag[0].lower(), page.replace(b"\0", b""))
    page = _NOTE.sub(rb"<div>\1</div>", page)
    for source in (_MENU.sub(b" ", page), page):  # some pages are nothing but a menu
        parts = _BLOCK.split(source)  # a text, a tag, its name, the next text, and so on
        segments, spans = _segments(parts)
        if segments:
            break
    _classify(segments)
    marked = _navigation(segments)
    for number in marked:
        at = segments[number].at
        parts[at] = b"<b class=x-navigation>%b</b>" % parts[at]
    _save_lists(parts, segments, spans, marked)
    del parts[2::3]
    return b"".join(parts)


def _letters(texts: list[bytes]) -> list[bytes]:
    """Return the letters of each of *texts*, in lower case, with colons and the marks of links.

    No text has a zero byte. They are searched together, which is faster than one by one.
    """
    joined = b"\0".join(texts).replace(b"</a>", _LINK_END)
    joined = _TAG.sub(b" ", _LINK.sub(_LINK_START, joined))
    return _ENTITY.sub(b" ", joined).translate(None, _NOT_LETTERS).lower().split(b"\0")


def _segments(parts: list[bytes]) -> tuple[list[_Segment], dict[int, int]]:
    """Return the segments of a page, and where its outermost boxes begin and end."""
    found: list[_Segment] = []
    spans: dict[int, int] = {}
    boxes = [0]
    row = 0
    in_link = False
    above = b""
    letters = _letters(parts[::3])
    for at, tag, text in zip(range(0, len(parts), 3), [b"", *parts[2::3]], letters, strict=True):
        if tag in _LISTS:
            boxes.append(at - 2)
        elif tag in _LIST_ENDS and len(boxes) > 1:
            box = boxes.pop()
            if len(boxes) == 1:
                spans[box] = at - 2
        elif tag == b"tr":
            row += 1
        elif tag == b"p" and above in _CELLS and not parts[at - 3].strip():
            parts[at - 2] = b""
        elif above == b"/p" and tag in _CELL_ENDS and not parts[at - 3].strip():
            parts[at - 5] = b""
        above = tag
        if text and tag != b"title":
            segment = _Segment(at, tag, text, boxes[-1], boxes[:2][-1], row)
            if in_link or _LINK_START in text:
                in_link = _count(segment, in_link=in_link)
            else:
                segment.outside = len(text.rstrip(_LINK_END))
            if segment.inside or segment.outside:
                found.append(segment)
    return found, spans


def _count(segment: _Segment, *, in_link: bool) -> bool:
    """Count the letters and links of *segment*; return whether its last link goes on."""
    letters = segment.letters
    if in_link:
        letters = _LINK_START + letters
    before, *links = letters.split(_LINK_START)
    segment.links = len(links)
    segment.outside = len(before)
    for link in links:
        name, end, after = link.partition(_LINK_END)
        segment.inside += len(name)
        segment.outside += len(after)
        segment.known_links += name in _LINK_WORDS
        in_link = not end
    segment.has_label = 0 < letters.find(b":") <= _MAX_LABEL and segment.outside > 0
    return in_link


def _find_notices(segments: list[_Segment]) -> None:
    """Set ``is_notice`` of short *segments* with words of _NOTICES."""
    short = [one for one in segments if one.outside < _MAX_NOTICE and one.outside > one.inside]
    letters = b" ".join([one.letters for one in short])
    for words in _NOTICES:
        number = 0
        begin = 0
        while (found := letters.find(words, begin)) >= 0:
            number += letters.count(b" ", begin, found)
            short[number].is_notice = True
            begin = found + 1


def _classify(segments: list[_Segment]) -> None:
    """Set the kinds of *segments*."""
    _find_notices(segments)
    for one in segments:
        is_line = one.inside and (
            one.outside <= one.inside * 0.55 or (one.has_label and one.outside < one.inside)
        )
        if one.tag in _HEADINGS:
            one.kind = HEADING
        elif is_line or one.is_notice:
            one.kind = LINE
        elif one.outside >= _MIN_TEXT or one.tag == b"pre":
            one.kind = TEXT
    _classify_boxes(segments)
    _classify_teasers(segments)


def _classify_boxes(segments: list[_Segment]) -> None:
    """Change the kinds of *segments* in pagers, and in lists and tables that are content."""
    boxes: defaultdict[int, list[_Segment]] = defaultdict(list)
    for one in segments:
        boxes[one.box].append(one)
    boxes.pop(0, None)
    for cells in boxes.values():
        is_table = cells[0].tag in _CELLS
        is_small = is_table and cells[-1].row - cells[0].row < _MAX_PAGER_ROWS
        if is_small and sum(cell.known_links for cell in cells) > 1:
            for cell in cells:
                cell.kind = LINE
                cell.known_links = 2
        elif sum(cell.kind == LINE for cell in cells) < 0.7 * len(cells):
            for cell in cells:
                is_menu = is_small and cell.links > 1
                if cell.kind == LINE and not is_menu:
                    cell.kind = KEPT


def _classify_teasers(segments: list[_Segment]) -> None:
    """Change the kinds of texts below links, and of headings above other links."""
    teasers = []
    for above, one in pairwise(segments):
        if not above.inside or above.kind not in (LINE, HEADING):
            continue
        if one.kind != TEXT and above.outside <= 3:
            above.kind = LINE
        elif one.kind == TEXT and one.outside < _MAX_TEASER:
            teasers.append(one)
    texts = sum(one.outside for one in segments if one.kind == TEXT)
    if len(teasers) > 2 and 2 * sum(one.outside for one in teasers) < texts:
        for one in teasers:
            one.kind = SHORT


def _navigation(segments: list[_Segment]) -> set[int]:
    """Return the numbers of the *segments* that are navigation."""
    kinds = [one.kind for one in segments]
    texts = [number for number, kind in enumerate(kinds) if kind == TEXT]
    lines = [number for number, kind in enumerate(kinds) if kind == LINE]
    marked = {number for number in lines if segments[number].known_links > 1}
    if not texts:
        return marked
    first = texts[0]
    last = texts[-1]
    for number, one in enumerate(segments[:first]):
        if one.kind == SHORT and not one.box and one.tag != b"p":
            marked.add(number)
    for number in lines:
        one = segments[number]
        is_short = _MIN_TITLE <= one.inside < _MIN_SENTENCE and one.outside <= 3
        says_so = one.has_label or one.is_notice or one.known_links >= one.links
        if number < first or (number < last and (says_so or (is_short and not one.box))):
            marked.add(number)
    below = [number for number in lines if number > last]
    size = sum(segments[number].outside for number in texts)
    if below and sum(segments[number].inside for number in below) < 1.5 * size:
        marked.update(n for n in range(below[0], len(kinds)))
    # A heading or a label above navigation belongs to it.
    for number in range(len(kinds) - 2, -1, -1):
        one = segments[number]
        is_label = one.kind == SHORT and one.outside < _MAX_LABEL and not one.box
        is_heading = one.kind == HEADING and one.tag != b"h1"
        if number + 1 in marked and (is_label or is_heading):
            marked.add(number)
    return marked


def _save_lists(
    parts: list[bytes], segments: list[_Segment], spans: dict[int, int], marked: set[int]
) -> None:
    """Change lists that are content in *parts* so that Resiliparse keeps them."""
    lists: defaultdict[int, list[int]] = defaultdict(list)
    for number, one in enumerate(segments):
        lists[one.outer_box].append(number)
    for begin, end in spans.items():
        numbers = lists[begin]
        pure = sum(segments[n].inside > 5 * segments[n].outside for n in numbers)
        if marked.issuperset(numbers):
            continue
        above = segments[max(numbers[0] - 1, 0)]
        if pure > 0.3 * len(numbers) and above.kind != TEXT and above.tag != b"p":
            continue
        for at in range(begin + 2, end, 3):
            parts[at] = _LINK.sub(b"", parts[at])
        parts[begin] = b"<div><div><div>" + parts[begin]
        parts[end] += b"</div></div></div>"
