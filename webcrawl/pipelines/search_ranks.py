"""Adds the links between pages to the search index: the texts of links, and a weight of each page.

The crawl indexes a page before it knows all links to it. ``add_links`` therefore reads the link
graph (link_graph.py) when the crawl has ended, and replaces the documents in the index to which
links were added since the last time. The weight of a page grows with the number of other hosts that
link to it: it is (1 + hosts) ** _EXPONENT.

DuckDB collects the links in bounded memory. Links with ``nofollow`` and links of a page to itself
do not count. A link to a redirect counts for its target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webcrawl.errors import FatalError
from webcrawl.pipelines.link_database import link_database
from webcrawl.pipelines.search_fields import (
    ANCHORS,
    OWN_ANCHORS,
    PRIOR,
    build_document,
    open_index,
    stored_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import duckdb

_MAX_ANCHORS = 200
# Links within a host change the figures of benchmarks/search_quality.py by 0.002 at most.
_EXPONENT = 0.1
_HEAP_BYTES = 64 << 20
_ROWS_AT_ONCE = 1 << 10
# The texts of links, and the redirects, which have none.
_CREATE_EDGES = """
    create table edges as
    select distinct source, target, text, kind = 'redirect' as is_redirect from links
    where not nofollow and kind in ('a', 'area', 'redirect')
"""
_CREATE_ANCHORS = """
    create macro host_of(url) as split_part(url, '/', 3);
    create table anchors as
    with redirects as (
        select source, any_value(target) as target from edges where is_redirect group by source
    ), resolved as (
        select edges.source, coalesce(redirects.target, edges.target) as target, text
        from edges left join redirects on edges.target = redirects.source where not is_redirect
    )
    select source, target, text, host_of(source) as source_host,
        source_host <> host_of(target) as is_foreign
    from resolved where source <> target;
"""
# The most frequent texts come first, those from other hosts before the others.
_SELECT_PAGES = """
    with texts as (
        select target, text, is_foreign, count(*) as times from anchors where text <> ''
        group by target, text, is_foreign
        qualify row_number() over (
            partition by target order by is_foreign desc, times desc, text
        ) <= ?
    ), lists as (
        select target, list(text order by times desc, text) filter (is_foreign) as anchors,
            list(text order by times desc, text) filter (not is_foreign) as own_anchors
        from texts group by target
    ), counts as (
        select target, count(distinct source_host) filter (is_foreign) as hosts
        from anchors group by target
    )
    select target, coalesce(anchors, []), coalesce(own_anchors, []), (1 + hosts) ** ?
    from counts left join lists using (target)
"""


def add_links(
    indexes: Iterable[Path],
    graphs: Iterable[Path],
    *,
    work_parent: Path,
    on_progress: Callable[[int], object],
) -> int:
    """Add the links in *graphs* to the search *indexes*; return how many documents were replaced.

    Temporary files are in *work_parent*. *on_progress* is called with the number of links read.
    Raises FatalError if a crawl is writing to an index; OSError, CorruptRecordError, duckdb.Error
    or ValueError.
    """
    with link_database(
        graphs,
        ["source", "target", "text", "kind", "nofollow"],
        create=_CREATE_EDGES,
        work_parent=work_parent,
        on_progress=on_progress,
    ) as (db, _):
        db.execute(_CREATE_ANCHORS)
        return sum(_update(index, _pages_of(db)) for index in indexes)


def _pages_of(db: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the URL of each page with links to it, and the fields that its document gets."""
    rows = db.execute(_SELECT_PAGES, [_MAX_ANCHORS, _EXPONENT])
    while block := rows.fetchmany(_ROWS_AT_ONCE):
        for url, anchors, own_anchors, weight in block:
            # A search multiplies the score by log2(2 + prior).
            yield url, {ANCHORS: anchors, OWN_ANCHORS: own_anchors, PRIOR: [2.0**weight - 2.0]}


def _update(directory: Path, pages: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """Write the fields of *pages* to the index; return how many documents were replaced."""
    index = open_index(directory)
    try:
        writer = index.writer(_HEAP_BYTES, 1)
    except ValueError as error:
        raise FatalError(
            f"The search index in {directory} is being written: wait until the crawl ends."
        ) from error
    searcher = index.searcher()
    replaced = 0
    for url, links in pages:
        fields = stored_fields(searcher, index.schema, url)
        old = {name: fields.get(name, []) for name in links}
        if fields and old != links:
            writer.delete_documents_by_term("url", url)
            writer.add_document(build_document(fields | links))
            replaced += 1
    writer.commit()
    writer.wait_merging_threads()
    return replaced
