"""Searches the full-text index of a crawl, which may be running.

A search finds the pages that were in the index at the crawl's last commit
(pipelines/search_index.py). It changes no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.errors import FatalError, require_package
from webcrawl.hive.membership.report import DRONES
from webcrawl.pipelines.module import output_directory
from webcrawl.pipelines.search_index import PACKAGE, SearchIndex

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import tantivy
    from scrapy.settings import BaseSettings

_SNIPPET_CHARS = 200
_TITLE_BOOST = 2.0
# Tantivy's parser is recursive: thousands of brackets would crash the process.
_MAX_CHARACTERS = 2000
_MAX_BRACKETS = 50


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


class SearchResult(msgspec.Struct):
    """Result of a search: the best pages, and the total number of pages found."""

    total: int
    hits: list[SearchHit]


def indexes_of(settings: BaseSettings) -> list[Path]:
    """Return the index directories of the job in *settings*, or of all drones of a hive."""
    index = output_directory(settings, *SearchIndex.output)
    _, folder = SearchIndex.output
    return [index] if index.is_dir() else [*index.parent.glob(f"{DRONES}/*/{folder}/")] or [index]


def search_all(
    directories: Iterable[Path], words: str, *, limit: int, language: str, host: str
) -> SearchResult:
    """Search the indexes in *directories* as ``search`` does, and return the best pages of all.

    Each index has its own word statistics. A page that is in several indexes is returned once, but
    counted in each.
    """
    results = [
        search(directory, words, limit=limit, language=language, host=host)
        for directory in directories
    ]
    hits = sorted((hit for result in results for hit in result.hits), key=lambda hit: -hit.score)
    by_url = {hit.url: hit for hit in reversed(hits)}
    best = [hit for hit in hits if by_url[hit.url] is hit]
    return SearchResult(sum(result.total for result in results), best[:limit])


def search(directory: Path, words: str, *, limit: int, language: str, host: str) -> SearchResult:
    """Search the index in *directory*, and return the *limit* best pages that have all *words*.

    *words* may contain phrases in quotes, ``OR``, ``-word`` and ``title:word``, or be only ``*``
    for all pages; syntax errors are ignored. If *language* or *host* is not empty, only pages in
    that language or of that host are found. Raises FatalError if there is no index.
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
            f"There is no search index in {directory}. Give a crawl that has one (scrapy search "
            "crawls/web WORDS), or its directory (-s SEARCH_DIR=DIR), or build one: run a crawl or "
            "a replay with webcrawl.pipelines.search_index.SearchIndex in ITEM_PIPELINES."
        )

    try:
        index = tantivy.Index.open(str(directory))
        query, _ = index.parse_query_lenient(
            words, ["title", "text"], {"title": _TITLE_BOOST}, conjunction_by_default=True
        )
        conditions = [query]
        for name, value in (("language", language), ("host", host.lower())):
            if value:
                conditions.append(tantivy.Query.term_query(index.schema, name, value))
        query = tantivy.Query.boolean_query(
            [(tantivy.Occur.Must, condition) for condition in conditions]
        )

        searcher = index.searcher()
        answer: Any = searcher.search(query, limit)  # the library's stub has no count
        snippets = tantivy.SnippetGenerator.create(searcher, conditions[0], index.schema, "text")
        snippets.set_max_num_chars(_SNIPPET_CHARS)
        hits = [_hit(searcher.doc(address), score, snippets) for score, address in answer.hits]
    except ValueError as error:
        raise FatalError(f"The search index in {directory} cannot be read: {error}.") from error
    return SearchResult(answer.count, hits)


def _hit(document: tantivy.Document, score: float, snippets: tantivy.SnippetGenerator) -> SearchHit:
    """Return *document* as a hit, with a snippet of its text."""
    snippet = snippets.snippet_from_doc(document)
    text = snippet.fragment()
    data = text.encode()
    # The library counts bytes, not characters.
    highlights = [
        (len(data[: span.start].decode()), len(data[: span.end].decode()))
        for span in snippet.highlighted()
    ]
    fields = {name: values[0] for name, values in document.to_dict().items()}
    return SearchHit(
        url=fields["url"],
        title=fields["title"],
        language=fields["language"],
        fetched_at=fields["date"].isoformat(timespec="seconds"),
        score=round(score, 3),
        snippet=text or fields["text"][:_SNIPPET_CHARS],
        highlights=highlights,
    )
