"""Fields of the search index, and the analyzers that divide their text into words.

Case and accents are folded in all of them. The fields::

    title           title of the page
    headings        headings, the terms that the page defines, and the fragments of its URLs
    names           the whole title, its parts, and each line of headings: the sorted words of each,
                    for queries with the same words
    path            words of the URL
    anchors         texts of links to the page from other hosts
    own_anchors     texts of links to the page from its own host
    text_CODE       title and text of a page in a language with a stemmer, whose CODE is ISO 639-1
    text_characters title and text in Chinese, Japanese, Korean and other scripts without spaces:
                    each character is a word, and adjacent characters are found as a phrase
    text            title and text of all other pages
    words           all words of title and text: for searches by prefix, and for words that are
                    written without their accents
    url, host, type, language, date
    copy            where the stored page may be shown: offset and path of its WARC record
    prior           weight of the page by the links to it (search_ranks.py)

The fields of the first group, and ``words``, are without stemming.
"""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from typing import TYPE_CHECKING, Any

from webcrawl.errors import FatalError
from webcrawl.items import replace_unprintable
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import tantivy

PACKAGE = "tantivy"
_STEMMERS = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "fi": "finnish", "fr": "french", "hu": "hungarian", "it": "italian",
    "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
_STEMMED = {code: f"text_{code}" for code in _STEMMERS}
#: All fields with title and text; a page has one of them.
TEXT_FIELDS = ("text", "text_characters", *_STEMMED.values())
#: Fields with the texts of links from other hosts, and from the page's own host.
ANCHORS = "anchors"
OWN_ANCHORS = "own_anchors"
NAMES = "names"
#: Field with the weight of a page, by which a search multiplies its score (see Tantivy's
#: ``weight_by_field``).
PRIOR = "prior"
#: The fields that come from the links to a page.
LINK_FIELDS = (ANCHORS, OWN_ANCHORS, PRIOR)
#: Weights of the fields in which a search looks for words. They were fitted by
#: benchmarks/search_quality.py.
WEIGHTS = {
    "title": 0.25, "headings": 0.8, "path": 1.0, ANCHORS: 1.0, OWN_ANCHORS: 0.62, "words": 0.31,
    **dict.fromkeys(TEXT_FIELDS, 0.25),
}  # fmt: skip
#: What is added to the score of pages if the query has the words of one of their names.
NAME_WEIGHT = 16.0
# Headings, and terms that the page defines, up to their end tags or the next of them.
_HEADING = re.compile(
    rb"<(?:h[1-6]|dt)(?=[\s/>])[^<>]*+>((?:[^<]++|<(?!/?(?:h[1-6]|d[dlt])[\s/>]))*+)", re.IGNORECASE
)
_TAG = re.compile(rb"<[^<>]*+>")
_MAX_HEADINGS_CHARS = 1 << 15
# Fragments of the page's URLs, as in page#fragment, and those that only number parts of the page.
_FRAGMENT = re.compile(
    rb"""<(?:h[1-6]|dt|section|a|span)\s++(?:[^<>\s]++\s++)*?(?:id|name)=["']?([^"'\s<>]+)"""
)
_NUMBER = re.compile(rb"(?:id|index)?[-_.\d]*")
# What divides a title into parts, as in "Search - Example".
_TITLE_SEPARATOR = re.compile(r"\s[-–—|·:(]\s*")  # noqa: RUF001  # dashes of titles
# Thai, Lao, Burmese, Khmer, Kana, Han and Hangul.
_SCRIPTS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
#: A character of a script without spaces between the words.
ONE_CHARACTER_WORD = re.compile(f"[{_SCRIPTS}]")
# The share of such characters in a page that is divided into characters is at least 1/_SHARE.
_SHARE = 10
_SAMPLE = 2000
# Longer words, in bytes of UTF-8, are not indexed.
_MAX_WORD = 255


def text_field(language: str, text: str) -> str:
    """Return the field for a page with this detected *language* and *text*."""
    sample = text[:_SAMPLE]
    if len(ONE_CHARACTER_WORD.findall(sample)) * _SHARE > len(sample):
        return "text_characters"
    return _STEMMED.get(language, "text")


def headings_of(markup: bytes) -> str:
    """Return the fragments, headings and defined terms of the HTML *markup*, one per line.

    Fragments are in lower case. They come first, because the end of long lists is cut off, and they
    define more terms. Takes 0.3 ms for a page of 70 kB.
    """
    headings = b"\n".join(b" ".join(one.split()) for one in _HEADING.findall(markup))
    names = dict.fromkeys(_FRAGMENT.findall(markup.lower()))
    fragments = [name for name in names if not _NUMBER.fullmatch(name)]
    lines = b"\n".join([*fragments, _TAG.sub(b"", headings)]).decode("utf-8", "replace")
    return replace_unprintable(unescape(lines))[:_MAX_HEADINGS_CHARS]


@cache
def build_analyzer(stemmer: str = "", *, by_character: bool = False) -> tantivy.TextAnalyzer:
    """Return an analyzer that folds case and accents, and stems if *stemmer* is given.

    With *by_character*, each character of scripts without spaces is a word.
    """
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415  # `make modules`

    tokenizer = Tokenizer.simple()
    if by_character:
        # Tantivy writes \x{0e00} for \u0e00, and "--" between a set and what is not in it.
        scripts = re.sub(r"\\u(....)", r"\\x{\1}", _SCRIPTS)
        tokenizer = Tokenizer.regex(rf"[{scripts}]|[\w--[{scripts}]]+")
    filters = [Filter.remove_long(_MAX_WORD)]
    if stemmer:  # it knows the accents of its language, so they are folded after it
        filters += [Filter.lowercase(), Filter.stemmer(stemmer)]
    filters += [Filter.ascii_fold(), Filter.lowercase()]

    builder = TextAnalyzerBuilder(tokenizer)
    for one in filters:
        builder = builder.filter(one)
    return builder.build()


def name_of(text: str) -> str:
    """Return the folded words of *text* in alphabetical order, as they are in the field NAMES."""
    return " ".join(sorted(build_analyzer().analyze(text)))


def open_index(directory: Path, *, create: bool = False) -> tantivy.Index:
    """Open the index in *directory*; with *create*, make one if there is none.

    Raises FatalError if it was made by an older version, and ValueError if it cannot be used.
    """
    import tantivy  # noqa: PLC0415  # installed by `make modules`

    if create and not tantivy.Index.exists(str(directory)):
        index = tantivy.Index(_schema(), path=str(directory))
    else:
        index = tantivy.Index.open(str(directory))
    try:
        # An index of an older version has no such field: ValueError.
        tantivy.Query.term_query(index.schema, NAMES, "")
    except ValueError as error:
        raise FatalError(
            f"The search index in {directory} was made by an older version. Move it away, and "
            f"build it again from the stored pages: {COMMAND} replay JOBDIR "
            f"-s SEARCH_DIR={directory} "
            """-s 'ITEM_PIPELINES={"webcrawl.pipelines.search_index.SearchIndex": 1}'."""
        ) from error

    index.register_tokenizer("folded", build_analyzer())
    index.register_tokenizer("characters", build_analyzer(by_character=True))
    for code, field in _STEMMED.items():
        index.register_tokenizer(field, build_analyzer(_STEMMERS[code]))
    return index


def _schema() -> tantivy.Schema:
    """Return the schema of an index.

    A page has its title and text in one of the fields ``text...``, for its language, with the
    positions of words for phrases. They are also in ``words``, which has the words of all pages.
    """
    import tantivy  # noqa: PLC0415  # installed by `make modules`

    builder = tantivy.SchemaBuilder()
    # These values are not divided into words; for "basic", only the pages that have them are kept.
    for name in ("url", "host", "language", "type", "copy"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(NAMES, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("words", tokenizer_name="folded", index_option="freq")
    builder.add_text_field("path", tokenizer_name="folded")
    for name, tokenizer in (
        *((field, "folded") for field in ("title", "headings", ANCHORS, OWN_ANCHORS, "text")),
        ("text_characters", "characters"),
        *((field, field) for field in _STEMMED.values()),
    ):
        builder.add_text_field(name, stored=True, tokenizer_name=tokenizer)
    builder.add_date_field("date", stored=True, indexed=True, fast=True)
    builder.add_float_field(PRIOR, stored=True, fast=True)
    return builder.build()


def stored_fields(searcher: tantivy.Searcher, schema: tantivy.Schema, url: str) -> dict[str, Any]:
    """Return the stored fields of the page with this *url*, each as a list; {} if there is none."""
    from tantivy import Query  # noqa: PLC0415  # installed by `make modules`

    hits = searcher.search(Query.term_query(schema, "url", url), 1, count=False).hits
    return searcher.doc(hits[0][1]).to_dict() if hits else {}


def build_document(fields: Mapping[str, Any]) -> tantivy.Document:
    """Return the document of a page with these stored *fields*, each as a list.

    The fields that are not stored are made from them.
    """
    from tantivy import Document  # noqa: PLC0415  # installed by `make modules`

    texts = next(fields[name] for name in TEXT_FIELDS if name in fields)
    (title,) = fields["title"]
    (headings,) = fields["headings"]
    lines = [title, *_TITLE_SEPARATOR.split(title), *headings.splitlines()]
    names = {name_of(line) for line in lines} - {""}
    return Document(words=texts, path=fields["url"], names=[*names], **fields)
