"""Searches the full-text index of a crawl, which may be running.

A search finds the pages that were in the index at the crawl's last commit
(pipelines/search_index.py). It changes no file.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import msgspec

from webcrawl.crawl.job.state_directory import DRONES
from webcrawl.errors import FatalError, require_package
from webcrawl.pipelines.module import output_directory
from webcrawl.pipelines.search_fields import (
    ONE_CHARACTER_WORD,
    PACKAGE,
    TEXT_FIELDS,
    build_analyzer,
    open_index,
)
from webcrawl.pipelines.search_index import SearchIndex
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import tantivy
    from scrapy.settings import BaseSettings

#: Limit of the pages that a search returns or skips.
MAX_HITS = 10_000
_SNIPPET_CHARS = 200
_TITLE_BOOST = 2.0
# Tantivy's parser is recursive: thousands of brackets would crash the process.
_MAX_CHARACTERS = 2000
_MAX_BRACKETS = 50
# A word that ends in *, perhaps with its field; and the words that it stands for, at most.
_PREFIX = re.compile(r"(?<!\w)(?P<field>\w+:)?(?P<prefix>[^\W_]+)\*(?!\w)")
_MAX_EXPANSIONS = 50
# The sign for similar words in other search engines.
_SIMILARITY_SIGN = re.compile(r"(?<=\w)~[\d.]*")
# What Tantivy says about a query such as -word, which finds all pages without the word.
_ONLY_EXCLUDED = "Invalid query: Only excluding terms given"
# Queries in which Tantivy leaves nothing to search for. The second one would find every page.
_EMPTY_QUERIES = (
    "Query(EmptyQuery)",
    "Query(BooleanQuery { subqueries: [(Should, AllQuery)], minimum_number_should_match: 1 })",
)


class SearchHit(msgspec.Struct):
    """A page that a search has found.

    ``highlights``: where the words are in the snippet, each as the positions of the first character
    and of the character after the last.
    """

    url: str
    title: str
    language: str
    fetched_at: str
    score: float
    snippet: str
    highlights: list[tuple[int, int]]

    def parts(self) -> Iterator[tuple[str, bool]]:
        """Yield the parts of the snippet, each with whether it is a found word."""
        position = 0
        for start, end in self.highlights:
            yield self.snippet[position:start], False
            yield self.snippet[start:end], True
            position = end
        yield self.snippet[position:], False


class SearchResult(msgspec.Struct):
    """Result of a search: the best pages, and the total number of pages found.

    ``not_searched``: what is wrong with the parts of the query that were left out.
    """

    total: int
    hits: list[SearchHit]
    not_searched: list[str]


def indexes_of(settings: BaseSettings) -> list[Path]:
    """Return the index directories of the job in *settings*, or of all drones of a hive."""
    index = output_directory(settings, *SearchIndex.output)
    if index.is_dir():
        return [index]
    _, folder = SearchIndex.output
    # If there is no index at all, the search will say that the job's own one is missing.
    return [*index.parent.glob(f"{DRONES}/*/{folder}/")] or [index]


def search_all(
    directories: Iterable[Path],
    words: str,
    *,
    limit: int,
    offset: int = 0,
    language: str = "",
    host: str = "",
) -> SearchResult:
    """Search the indexes in *directories* as ``search`` does, and return the best pages of all.

    The *offset* best pages are skipped. Each index has its own word statistics. A page that is in
    several indexes is returned once, but counted in each.
    """
    results = [
        search(directory, words, limit=offset + limit, language=language, host=host)
        for directory in directories
    ]
    hits = sorted((hit for result in results for hit in result.hits), key=lambda hit: -hit.score)
    # The best hit of each URL replaces the others in the dict, because it comes last.
    by_url = {hit.url: hit for hit in reversed(hits)}
    best = [hit for hit in hits if by_url[hit.url] is hit]
    total = sum(result.total for result in results)
    return SearchResult(total, best[offset : offset + limit], results[0].not_searched)


def search(directory: Path, words: str, *, limit: int, language: str, host: str) -> SearchResult:
    """Search the index in *directory*, and return the *limit* best pages that have all *words*.

    *words* may contain phrases in quotes, ``OR``, ``-word``, ``title:word`` and ``prefix*``, or be
    only ``*`` for all pages. What cannot be searched is left out. If *language* or *host* is not
    empty, only pages in that language or of that host are found. Raises FatalError if there is no
    index, or if nothing of *words* can be searched.
    """
    if len(words) > _MAX_CHARACTERS or words.count("(") > _MAX_BRACKETS:
        raise FatalError(
            f"The search has more than {_MAX_CHARACTERS:,} characters or more than "
            f"{_MAX_BRACKETS} opening brackets: shorten it."
        )
    require_package(PACKAGE, feature="The search")
    import tantivy  # noqa: PLC0415  # of `make modules`

    if not directory.is_dir() or not tantivy.Index.exists(str(directory)):
        raise FatalError(
            f"There is no search index in {directory}. Give a crawl that has one ({COMMAND} search "
            "crawls/web WORDS), or its directory (-s SEARCH_DIR=DIR), or build one: run a crawl or "
            "a replay with webcrawl.pipelines.search_index.SearchIndex in ITEM_PIPELINES."
        )

    try:
        index = open_index(directory)
        searcher = index.searcher()
        words_query, not_searched = _parse_query(normalize("NFC", words), index, searcher)
        conditions = [words_query]
        for name, value in (("language", language), ("host", host)):
            if value:
                conditions.append(tantivy.Query.term_query(index.schema, name, value))
        query = tantivy.Query.boolean_query(
            [(tantivy.Occur.Must, condition) for condition in conditions]
        )

        answer: Any = searcher.search(query, limit)  # the library's stub has no count

        @cache
        def snippets(field: str) -> tantivy.SnippetGenerator:
            generator = tantivy.SnippetGenerator.create(searcher, words_query, index.schema, field)
            generator.set_max_num_chars(_SNIPPET_CHARS)
            return generator

        hits = [_hit(searcher.doc(address), score, snippets) for score, address in answer.hits]
    except FatalError:  # it is a ValueError, too
        raise
    except ValueError as error:
        raise FatalError(f"The search index in {directory} cannot be read: {error}.") from error
    return SearchResult(answer.count, hits, not_searched)


def _parse_query(
    words: str, index: tantivy.Index, searcher: tantivy.Searcher
) -> tuple[tantivy.Query, list[str]]:
    """Return the query *words* as Tantivy reads it, and why parts of it are not searched.

    Raises FatalError if nothing can be searched.
    """
    parse = partial(
        index.parse_query_lenient,
        default_field_names=["title", "words", *TEXT_FIELDS],
        field_boosts={"title": _TITLE_BOOST},
        conjunction_by_default=True,
    )
    query, _ = parse(_with_prefixes(words, searcher))
    # The positions in errors are those in the query as the user wrote it.
    errors = map(str, parse(words)[1])
    outside_quotes = words.split('"')[::2]
    signs = _SIMILARITY_SIGN.findall(" ".join(outside_quotes))
    problems = dict.fromkeys([*(f"Similar words: '{sign}'" for sign in signs), *errors])
    problems.pop(_ONLY_EXCLUDED, None)  # such a query can be searched
    if str(query) in _EMPTY_QUERIES:
        raise FatalError(
            f"Nothing in the query can be searched ({'; '.join(problems) or 'it has no words'}). "
            "Put words with such signs in double quotes."
        )
    return query, [*problems]


def _with_prefixes(words: str, searcher: tantivy.Searcher) -> str:
    """Return the query *words*, in which indexed words replace ``prefix*`` outside quotes.

    The sign for similar words, as in ``word~``, is removed outside quotes. Tantivy would read it as
    one more word.
    """
    fold = build_analyzer()

    def expand(match: re.Match[str]) -> str:
        """Return the words for ``prefix*`` or ``field:prefix*``, or *prefix* if there are none."""
        field = match["field"] or ""
        prefix = match["prefix"]
        if ONE_CHARACTER_WORD.search(prefix):
            # In these scripts each character is indexed as a word. So a search for some characters
            # also finds longer words that contain them, and needs no *.
            return field + prefix
        folded = "".join(fold.analyze(prefix))
        found = searcher.terms_with_prefix("words", folded, limit=_MAX_EXPANSIONS)
        return f"({' OR '.join(field + term for term, _ in found) or field + prefix})"

    parts = words.split('"')  # every second part is in quotes
    parts[::2] = [_PREFIX.sub(expand, _SIMILARITY_SIGN.sub("", part)) for part in parts[::2]]
    return '"'.join(parts)


def _hit(
    document: tantivy.Document, score: float, snippets: Callable[[str], tantivy.SnippetGenerator]
) -> SearchHit:
    """Return *document* as a hit, with a snippet of its text."""
    fields = document.to_dict()
    name = next(name for name in TEXT_FIELDS if name in fields)
    snippet = snippets(name).snippet_from_doc(document)
    text = snippet.fragment()
    data = text.encode()
    # The library counts bytes, not characters.
    highlights = [
        (len(data[: span.start].decode()), len(data[: span.end].decode()))
        for span in snippet.highlighted()
    ]
    title = fields["title"][0]
    if title and text.startswith(f"{title} "):  # the field begins with the title
        cut = len(title) + 1
        text = text[cut:]
        highlights = [(start - cut, end - cut) for start, end in highlights if start >= cut]
    return SearchHit(
        url=fields["url"][0],
        title=title,
        language=fields["language"][0],
        fetched_at=fields["date"][0].isoformat(timespec="seconds"),
        score=round(score, 3),
        # Without a found word in the text, the snippet is the beginning of the text.
        snippet=text or fields[name][-1][:_SNIPPET_CHARS],
        highlights=highlights,
    )
