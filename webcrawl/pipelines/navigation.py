"""Finds navigation by where the links of a page are, before its main text is searched for.

A page is split at the tags of its blocks, such as paragraphs, items and cells. Each segment between
them is a text, a line of links, or short, by its letters in and outside of links. Lines above the
first text or below the last one are navigation, with what is short between them. Between texts,
lines are navigation if they stand alone or say so: "Next", "Read also:". A list or table that has
more than lines is content, and so are lines below the last text if they are longer than all texts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import chain, pairwise

import msgspec

MARK = ".x-navigation"  # selects the elements around texts that are navigation

_PLAIN = (
    rb"</?(?:a(?:ddress|rticle|side)|blockquote|button|d(?:[dt]|etails|iv)|fieldset|fig(?:ure|caption)"
    rb"|footer|form|h(?:eade)?r|label|legend|li|main|nav|option|section|select|summary"
    rb"|t(?:body|foot|head))(?=[\s/>])[^<>]*+>"
)
# Tags of blocks, whose names (group 2) count, or tags of other blocks without text between them.
_BLOCK = re.compile(
    rb"(<(/?(?:a|[dou]l|h[1-6]|p|pre|t(?:able|[dhr])))(?=[\s/>])[^<>]*+>|%b(?:\s*+%b)*+)"
    % (_PLAIN, _PLAIN),
    re.IGNORECASE,
)
# An aside that Resiliparse would leave out, although it is content.
_NOTE = re.compile(
    rb"<aside\b(?=[^<>]{0,200}?\b(?:note|tip|info|warning|caution|danger|important|callout)\b)"
    rb"[^<>]*+>((?:[^<]++|<(?!/?aside\b))*+)</aside>",
    re.IGNORECASE,
)
_INLINE = re.compile(rb"<[^<>]*+>|&#?\w++;")
_NOT_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())
_LISTS = {b"ul", b"ol", b"dl", b"table"}
_LIST_ENDS = {b"/ul", b"/ol", b"/dl", b"/table"}
_CELLS = {b"td", b"th"}
_HEADINGS = set(b"h1 h2 h3 h4 h5 h6".split())
# Letters of links that lead elsewhere.
_LINK_WORDS = frozenset(
    "prev previous next up home contents index top backtotop readmore continuereading edit reply "
    "report quote share print email permalink more zurück weiter suivant précédent siguiente "
    "anterior назад далее".encode().split()
)
_LABEL = re.compile(rb"\W*+\w++(?:\s\w++){0,2}\s*+:")  # in front of links, such as "Read also:"
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
    """Part of a page between the tag of a block, *tag*, and the next. Sizes are in letters.

    ``texts``: where its texts are among the parts of the page.
    ``box``, ``outer_box``: where the innermost and outermost list or table around it begins, or 0.
    ``known_links``: links whose letters are in _LINK_WORDS; 2 in each cell of a pager.
    """

    tag: bytes = b""
    box: int = 0
    outer_box: int = 0
    row: int = 0
    texts: list[int] = []
    links: int = 0
    inside: int = 0
    outside: int = 0
    known_links: int = 0
    has_label: bool = False
    is_notice: bool = False
    kind: int = SHORT


def mark_navigation(page: bytes) -> bytes:
    """Return the HTML *page* with an element of MARK around each text that is navigation.

    Resiliparse takes lists of links, and lists near the top of the tree, for menus. Lists that are
    content are therefore put deeper, without links. Paragraphs that fill a table cell lose their
    tags, without which the cells of a row share a line.
    """
    page = _NOTE.sub(rb"<div>\1</div>", page)
    parts = _BLOCK.split(page)  # a text, a tag, its name, the next text, and so on
    segments, spans = _segments(parts)
    _classify(segments, parts)
    marked = _navigation(segments)
    for at in chain.from_iterable(segments[number].texts for number in marked):
        parts[at] = b"<b class=x-navigation>%b</b>" % parts[at]
    _save_lists(parts, segments, spans, marked)
    del parts[2::3]
    return b"".join(parts)


def _segments(parts: list[bytes]) -> tuple[list[_Segment], dict[int, int]]:
    """Return the segments of a page, and where its outermost boxes begin and end."""
    found: list[_Segment] = []
    spans: dict[int, int] = {}
    boxes = [0]
    row = 0
    links = 0
    tag = b""
    in_link = False
    segment = None
    for at in range(0, len(parts) - 1, 3):
        text = parts[at]
        if text and not text.isspace():
            if segment is None:
                segment = _Segment(tag, boxes[-1], boxes[:2][-1], row)
                found.append(segment)
            _count(segment, at, text, in_link=in_link)
        name = (parts[at + 2] or b"").lower()
        parts[at + 2] = name
        if name in (b"a", b"/a"):
            in_link = name == b"a"
            links += in_link
            continue
        if name in _LISTS:
            boxes.append(at + 1)
        elif name in _LIST_ENDS and len(boxes) > 1:
            box = boxes.pop()
            if len(boxes) == 1:
                spans[box] = at + 1
        elif name == b"tr":
            row += 1
        elif segment is None and name == b"p" and tag in _CELLS:
            parts[at + 1] = b""
        elif segment is None and tag == b"/p" and name[1:] in _CELLS:
            parts[at - 2] = b""
        if segment is not None:
            segment.links = links
            segment = None
        links = int(in_link)
        tag = name
    return found, spans


def _count(segment: _Segment, at: int, text: bytes, *, in_link: bool) -> None:
    """Add the *text*, part *at* of the page, to *segment*."""
    plain = _INLINE.sub(b" ", text) if b"<" in text or b"&" in text else text
    letters = plain.translate(None, _NOT_LETTERS)
    if in_link:
        segment.inside += len(letters)
        segment.known_links += letters.lower() in _LINK_WORDS
    else:
        segment.outside += len(letters)
    segment.texts.append(at)


def _find_notices(segments: list[_Segment], parts: list[bytes]) -> None:
    """Set ``is_notice`` of short *segments* with words of _NOTICES."""
    short = [one for one in segments if one.outside < _MAX_NOTICE and one.outside > one.inside]
    texts = (b"".join(parts[at] for at in one.texts) for one in short)
    letters = b" ".join([text.translate(None, _NOT_LETTERS) for text in texts]).lower()
    for words in _NOTICES:
        number = 0
        begin = 0
        while (found := letters.find(words, begin)) >= 0:
            number += letters.count(b" ", begin, found)
            short[number].is_notice = True
            begin = found + 1


def _classify(segments: list[_Segment], parts: list[bytes]) -> None:
    """Set the kinds of *segments*."""
    _find_notices(segments, parts)
    for one in segments:
        if one.inside and one.outside:
            one.has_label = _LABEL.match(_INLINE.sub(b" ", parts[one.texts[0]])) is not None
        is_line = one.inside and (
            one.outside <= max(one.inside * 0.55, 3 * one.links)
            or (one.has_label and one.outside < one.inside)
        )
        if one.tag in _HEADINGS:
            one.kind = HEADING
        elif is_line or one.is_notice:
            one.kind = LINE
        elif one.outside >= _MIN_TEXT or one.tag == b"pre":
            one.kind = TEXT
    _classify_boxes(segments)
    _classify_teasers(segments, parts)


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


def _classify_teasers(segments: list[_Segment], parts: list[bytes]) -> None:
    """Change the kinds of texts below links, and of headings above other links."""
    teasers = []
    for above, one in pairwise(segments):
        if not above.inside or above.kind not in (LINE, HEADING):
            continue
        if one.kind != TEXT and above.outside <= 3 and b"#" not in parts[above.texts[0] - 2]:
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
    lowest = max((number for number in lines if number < first), default=0)
    for number, one in enumerate(segments[:first]):
        is_apart = not one.box and one.tag != b"p"
        if one.kind == SHORT and (number < lowest or is_apart):
            marked.add(number)
    for number in lines:
        one = segments[number]
        is_short = _MIN_TITLE <= one.inside < _MIN_SENTENCE and one.outside <= max(
            3, one.inside * 0.2
        )
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
        if parts[begin + 1] != b"ul" or marked.issuperset(numbers):
            continue
        above = segments[numbers[0] - 1]
        if pure > 0.3 * len(numbers) and above.kind != TEXT and above.tag != b"p":
            continue
        for at in range(begin, end, 3):
            if parts[at + 1] in (b"a", b"/a"):
                parts[at] = b""
        parts[begin] = b"<div><div><div>" + parts[begin]
        parts[end] += b"</div></div></div>"
