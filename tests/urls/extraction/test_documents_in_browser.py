"""The links and the base of documents are those that Chromium has with scripts off.

The documents are the 181 articles of ../shared/data and pages of Debian's packages python3.11-doc,
postgresql-doc-15 and rust-doc, where these are there, and 700 made ones, in which there is a
relative reference in front of all else, so that their links tell their base. Each is read as it is,
and padded beyond the bound of the thinner. What is there and how much of it agrees is printed (-s).
"""

import re
from collections import Counter
from typing import NamedTuple

import pytest
from browsing import Reader, chromium
from document_cases import BASES, ENCODINGS, IMAGES, TEMPLATES
from documents import PADDING, URL, articles, installed, made

from webcrawl.urls import normalize
from webcrawl.urls.extraction.html import extract
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS
from webcrawl.urls.extraction.references import refresh_target, relation_kind

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

MADE = 700
INSTALLED = 110  # of each package
_INNER_BASE = re.compile(rb"<(?:svg|math)\b.*<base\b", re.IGNORECASE | re.DOTALL)
#: Parts of made documents that are in SVG or MathML.
FOREIGN = {"svg", "g", "xlink", "foreign", "desc", "math", "mi"}


class Difference(NamedTuple):
    """A link *url* of one side alone: ``is_missing`` of the browser's. ``around`` are the elements
    that it was put into in a made document, and ``foreign`` the kinds of elements that are no links
    or bases, with their URLs. ``has_inner_base``: a base may be in SVG or MathML."""

    url: str
    is_missing: bool
    is_padded: bool
    around: list[str]
    foreign: dict[str | None, str]
    has_inner_base: bool


#: Differences between this crawler and Chromium, each with its reason.
FAMILIES = {
    # Selectors do not tell the element of HTML from one of SVG or MathML with its name. These are
    # in no real document of all that were looked at, and cost a request at most.
    "an element of SVG or MathML with the name of a link": lambda found: (
        not found.is_missing and found.url in found.foreign
    ),
    "a base of SVG or MathML": lambda found: "foreign base" in found.foreign.values(),
    # The thinned path knows neither the element around a template nor what it has had before.
    "thinned: a template in an element that cannot have a shadow root": lambda found: (
        found.is_padded and not found.is_missing and not {"list", "two"}.isdisjoint(found.around)
    ),
    # The thinned path takes SVG and MathML to last until their end tags, with no HTML in them.
    "thinned: in SVG or MathML": lambda found: (
        found.is_padded and not found.is_missing and not FOREIGN.isdisjoint(found.around)
    ),
    "thinned: a base of HTML in SVG or MathML": lambda found: (
        found.is_padded and found.has_inner_base
    ),
    # The thinned path cuts a document at each <, and looks for quotes where much depends on it.
    "thinned: tags in an attribute": lambda found: (
        found.is_padded and not found.is_missing and "quoted" in found.around
    ),
}


def links_of(read):
    """The links of the default kinds that the browser has, in the crawl's spelling."""
    found = set()
    for kind, url, written in read.links:
        name, _, relations = kind.partition(" ")
        target = url
        if name == "link":
            name = relation_kind(relations.lower().split())
        elif name == "refresh":
            target = normalize(refresh_target(written), read.base)
        elif name.endswith("frame") and not written.strip():
            continue
        if name in DEFAULT_KINDS and target is not None:
            found.add(normalize(target))
    return found - {None, URL}


def ours(body, content_type):
    charset = content_type.partition("charset=")[2]
    found = extract(body, url=URL, charset=charset, limit=1_000_000)
    return {link.url for link in found.links} - {URL}


def test_links_are_those_of_the_browser():
    shares = Counter()
    families = Counter()
    totals = Counter()
    unexplained = []
    documents = [*articles(), *installed(INSTALLED), *made(MADE)]
    with chromium() as browser:
        reader = Reader(browser)
        for name, body, content_type in documents:
            read = reader.read(body, url=URL, content_type=content_type)
            foreign = {
                normalize(url or ""): kind
                for kind, url, _ in read.links
                if kind.startswith("foreign")
            }
            has_inner_base = _INNER_BASE.search(body.replace(b"\0", b"")) is not None
            expected = links_of(read)
            source = name.partition("/")[0]
            totals[source] += 1
            for padding in (b"", PADDING):
                found = ours(body + padding, content_type)
                shares[source, bool(padding)] += found == expected
                reasons = set()
                for url in found ^ expected:
                    around = re.findall(r"[a-z]\w*", (re.search(r"\d((?:\.\w+)+)", url) or " ")[0])
                    difference = Difference(
                        url, url in expected, bool(padding), around, foreign, has_inner_base
                    )
                    reason = next((text for text, fits in FAMILIES.items() if fits(difference)), "")
                    reasons.add(reason)
                    if not reason:
                        unexplained.append((name, difference))
                families.update(reasons)
    for source, total in totals.items():
        whole, padded = shares[source, False], shares[source, True]
        print(f"{source}: {total} documents, {whole} agree, padded {padded}")
    for reason, count in families.items():
        print(f"{count} differ: {reason or 'unexplained'}")
    assert unexplained == []
    for source, total in totals.items():
        expected_share = 0.75, 0.5
        if source != "made":
            expected_share = 1, 1
        for is_padded in (False, True):
            assert shares[source, is_padded] >= expected_share[is_padded] * total, source


def test_rows_of_the_tables_say_what_the_browser_does():
    wrong = []
    with chromium() as browser:
        reader = Reader(browser)
        for table in (BASES, TEMPLATES, ENCODINGS, IMAGES):
            for name, case in table.items():
                expected = case.links if case.browser is None else case.browser
                for padding in (b"", PADDING):
                    read = reader.read(
                        case.body + padding, url=URL, content_type=case.content_type, until="load"
                    )
                    found = set(reader.asked) if table is IMAGES else links_of(read)
                    paths = {url.removeprefix("http://a.test") for url in found}
                    if paths != set(expected):
                        wrong.append((name, sorted(paths), expected))
    assert wrong == []
