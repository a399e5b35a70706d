"""Searches the full-text index of a crawl, which may be running.

A search finds the pages that were in the index at the crawl's last commit
(pipelines/search_index.py). It changes no file.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import msgspec

from webcrawl.configuration.decoding import json_decoder
from webcrawl.crawl.job.state_directory import DRONES
from webcrawl.errors import FatalError, require_package
from webcrawl.hosts.politeness.exclusions import host_in
from webcrawl.pipelines.module import output_directory
from webcrawl.pipelines.search_fields import (
    NAME_WEIGHT,
    NAMES,
    ONE_CHARACTER_WORD,
    PACKAGE,
    PRIOR,
    TEXT_FIELDS,
    WEIGHTS,
    build_analyzer,
    name_of,
    open_index,
    stored_fields,
)
from webcrawl.pipelines.search_index import SearchIndex
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import tantivy
    from scrapy.settings import BaseSettings

    from webcrawl.items import Page

#: Limit of the pages that a search returns or skips.
MAX_HITS = 10_000
_SNIPPET_CHARS = 200
# A snippet is taken from this much text, which begins before the first word of the query.
_WINDOW_CHARS = 4000
_CHARS_BEFORE = 100
# Tantivy's parser is recursive: thousands of brackets would crash the process.
_MAX_CHARACTERS = 2000
_MAX_BRACKETS = 50
# A word that ends in *, perhaps with its field; and the words that it stands for, at most.
_PREFIX = re.compile(r"(?<!\w)(?P<field>\w+:)?(?P<prefix>[^\W_]+)\*(?!\w)")
_MAX_EXPANSIONS = 50
# A condition on pages, perhaps excluding those that meet it.
_CONDITION = re.compile(r"(?<!\S)(?P<sign>-?)(?P<name>site|lang|type|after):(?P<value>[^\s\"()]+)")
_CONDITION_FIELDS = {"lang": "language", "type": "type"}
_decode = json_decoder(dict[str, Any])
# The number of a field in a term, as Tantivy prints it.
_FIELD = re.compile(r"field=(\d+)")
_MAX_COPY_BYTES = 1 << 24
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
    ``weight``: the weight of the page by its links, a factor of ``score``.
    ``has_copy``: whether ``stored_copy`` returns the page.
    ``explanation``: what each field adds to the score before it is multiplied, if asked for.
    """

    url: str
    host: str
    title: str
    language: str
    fetched_at: str
    score: float
    weight: float
    snippet: str
    highlights: list[tuple[int, int]]
    has_copy: bool
    explanation: dict[str, float] | msgspec.UnsetType = msgspec.UNSET

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
    explain: bool = False,
) -> SearchResult:
    """Search the indexes in *directories* as ``search`` does, and return the best pages of all.

    The *offset* best pages are skipped. Each index has its own word statistics. A page that is in
    several indexes is returned once, but counted in each.
    """
    results = [
        search(directory, words, limit=offset + limit, explain=explain) for directory in directories
    ]
    hits = sorted((hit for result in results for hit in result.hits), key=lambda hit: -hit.score)
    # The best hit of each URL replaces the others in the dict, because it comes last.
    by_url = {hit.url: hit for hit in reversed(hits)}
    best = [hit for hit in hits if by_url[hit.url] is hit]
    total = sum(result.total for result in results)
    return SearchResult(total, best[offset : offset + limit], results[0].not_searched)


def search(directory: Path, words: str, *, limit: int, explain: bool = False) -> SearchResult:
    """Search the index in *directory*, and return the *limit* best pages that have all *words*.

    *words* may contain phrases in quotes, ``OR``, ``-word``, ``title:word`` and ``prefix*``, or be
    only ``*`` for all pages; and the conditions ``site:``, ``lang:``, ``type:`` and ``after:``.
    What cannot be searched is left out. With *explain*, the hits say how their score was made.
    Raises FatalError if there is no index, or if nothing of *words* can be searched.
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
        other_words, conditions = _split_conditions(normalize("NFC", words), index.schema)
        words_query, not_searched = _parse_query(other_words, index, searcher)
        ranking = _ranking_query(words_query, other_words, index.schema)
        query = tantivy.Query.boolean_query([(tantivy.Occur.Must, ranking), *conditions])
        # the library's stub has no count
        answer: Any = searcher.search(query, limit, weight_by_field=PRIOR)

        @cache
        def snippets(field: str) -> tantivy.SnippetGenerator:
            generator = tantivy.SnippetGenerator.create(searcher, words_query, index.schema, field)
            generator.set_max_num_chars(_SNIPPET_CHARS)
            return generator

        words_pattern = re.compile(
            "|".join(map(re.escape, re.findall(r"\w+", other_words))) or "$", re.IGNORECASE
        )
        hits = [
            _hit(searcher.doc(address), score, snippets, words_pattern)
            for score, address in answer.hits
        ]
        if explain:
            for hit, (_, address) in zip(hits, answer.hits, strict=True):
                explanation = ranking.explain(searcher, address).to_json()
                hit.explanation = _by_field(_decode(explanation), index.schema)
    except FatalError:  # it is a ValueError, too
        raise
    except ValueError as error:
        raise FatalError(f"The search index in {directory} cannot be read: {error}.") from error
    return SearchResult(answer.count, hits, not_searched)


def _split_conditions(
    words: str, schema: tantivy.Schema
) -> tuple[str, list[tuple[tantivy.Occur, tantivy.Query]]]:
    """Return *words* without its conditions on pages, and these. Raises FatalError."""
    from tantivy import FieldType, Occur, Query  # noqa: PLC0415  # of `make modules`

    conditions: list[tuple[Occur, Query]] = []

    def take(match: re.Match[str]) -> str:
        """Add the condition in *match*, and return what replaces it."""
        value = match["value"]
        match match["name"]:
            case "site":  # and its subdomains
                host = host_in(value)
                if not host:
                    raise FatalError(f"site:{value} must have a host such as site:example.com.")
                query = Query.regex_query(schema, "host", rf"(.*\.)?{re.escape(host)}")
            case "after":
                try:
                    date = datetime.fromisoformat(value)
                except ValueError:
                    raise FatalError(
                        f"after:{value} must have a date such as after:2026-11-30."
                    ) from None
                first = date if date.tzinfo else date.replace(tzinfo=UTC)
                query = Query.range_query(schema, "date", FieldType.Date, lower_bound=first)
            case name:
                query = Query.term_query(schema, _CONDITION_FIELDS[name], value)
        conditions.append((Occur.MustNot if match["sign"] else Occur.Must, query))
        return ""

    parts = words.split('"')  # every second part is in quotes
    parts[::2] = [_CONDITION.sub(take, part) for part in parts[::2]]
    others = '"'.join(parts)
    return ("*" if conditions and not others.strip() else others), conditions


def _by_field(explanation: dict[str, Any], schema: tantivy.Schema) -> dict[str, float]:
    """Return what each field adds to a score, by Tantivy's *explanation* of it."""
    from tantivy import Query  # noqa: PLC0415  # as above

    names = {
        _FIELD.findall(str(Query.term_query(schema, name, "")))[0]: name
        for name in (*WEIGHTS, NAMES)
    }
    values: Counter[str] = Counter()

    def add(node: dict[str, Any]) -> None:
        """Add the values of the terms at or below *node*, with their weights."""
        if node["description"].startswith("BooleanClause"):
            for part in node.get("details", ()):
                add(part)
        else:
            numbers = _FIELD.findall(str(node))
            # The only constant is what a name adds.
            other = NAMES if node["description"] == "Const" else ""
            values[names[numbers[0]] if numbers else other] += node["value"]

    add(explanation)
    return {name: round(value, 3) for name, value in values.most_common()}


def _parse_query(
    words: str, index: tantivy.Index, searcher: tantivy.Searcher
) -> tuple[tantivy.Query, list[str]]:
    """Return the query *words* as Tantivy reads it, and why parts of it are not searched.

    Raises FatalError if nothing can be searched.
    """
    parse = partial(
        index.parse_query_lenient,
        default_field_names=[*WEIGHTS],
        field_boosts=WEIGHTS,
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


def _ranking_query(query: tantivy.Query, words: str, schema: tantivy.Schema) -> tantivy.Query:
    """Return a query that finds the same pages as *query*, which was made of *words*.

    It adds to the scores of pages with the same words as a name.
    """
    from tantivy import Occur, Query  # noqa: PLC0415  # of `make modules`

    name = Query.term_query(schema, NAMES, name_of(words), index_option="basic")
    return Query.boolean_query(
        [(Occur.Must, query), (Occur.Should, Query.const_score_query(name, NAME_WEIGHT))]
    )


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
    document: tantivy.Document,
    score: float,
    snippets: Callable[[str], tantivy.SnippetGenerator],
    words: re.Pattern[str],
) -> SearchHit:
    """Return *document* as a hit, with a snippet of its text where *words* are found."""
    from tantivy import Document  # noqa: PLC0415  # of `make modules`

    fields = document.to_dict()
    name = next(name for name in TEXT_FIELDS if name in fields)
    body = fields[name][-1]
    match = words.search(body)
    start = max(match.start() - _CHARS_BEFORE, 0) if match else 0
    start = body.rfind(" ", 0, start) + 1
    window = Document(**{name: body[start : start + _WINDOW_CHARS]})
    snippet = snippets(name).snippet_from_doc(window)
    text = snippet.fragment()
    data = text.encode()
    # The library counts bytes, not characters.
    highlights = [
        (len(data[: span.start].decode()), len(data[: span.end].decode()))
        for span in snippet.highlighted()
    ]
    return SearchHit(
        url=fields["url"][0],
        host=fields["host"][0],
        title=fields["title"][0],
        language=fields["language"][0],
        fetched_at=fields["date"][0].isoformat(timespec="seconds"),
        score=round(score, 3),
        weight=round(math.log2(2.0 + fields.get(PRIOR, [0.0])[0]), 3),
        # Without a found word in the text, the snippet is the beginning of the text.
        snippet=text or body[:_SNIPPET_CHARS],
        highlights=highlights,
        has_copy="copy" in fields,
    )


def stored_copy(directories: Iterable[Path], url: str) -> Page | None:
    """Return the stored page of *url*, or None if there is none, or if it may not be shown.

    One of the indexes in *directories* must have it. The owner may forbid to show it
    (``noarchive``), or refuse the purpose of the crawl. Raises FatalError, OSError or ValueError.
    """
    from webcrawl.jobs.replay.warc_reader import (  # noqa: PLC0415  # only this needs it
        DamagedWarcError,
        stored_pages,
    )

    for directory in directories:
        index = open_index(directory)
        for copy in stored_fields(index.searcher(), index.schema, url).get("copy", ()):
            offset, _, name = copy.partition(" ")
            for path in (Path(name), Path(f"{name}.open")):
                with suppress(FileNotFoundError, DamagedWarcError):
                    pages = stored_pages(path, start=int(offset), max_bytes=_MAX_COPY_BYTES)
                    stored = next(pages, None)
                    # After a purge, another page can be there.
                    if stored is not None and stored.page.url == url:
                        return stored.page
    return None
