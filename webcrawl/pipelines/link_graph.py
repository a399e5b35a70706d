"""Writes the link graph: the pages of the crawl and the links between them, as Parquet files.

``scrapy pagerank`` ranks hosts with it, and any Parquet reader can query it. Files::

    JOBDIR/graph/nodes/part-*.parquet    one row per page of any status; none for duplicates
    JOBDIR/graph/edges/part-*.parquet    one row per link, even if several have the same URL, and
                                         one for the page's redirect

pipelines/parquet.py explains how the files grow. The edges of a page are written before its node. A
page that is fetched twice, for example after ``kill -9``, has all its rows twice.
"""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

from webcrawl.pipelines.module import ProcessingModule
from webcrawl.pipelines.parquet import ParquetFiles, schema_of
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from webcrawl.items import Page

DIRECTORY = "graph"
NODES = "nodes"
EDGES = "edges"
#: The kind of an edge to a redirect's target.
REDIRECT = "redirect"
_TEXT_CHARACTERS = 256


class LinkGraph(ProcessingModule):
    """Processing module that writes the nodes and edges of the link graph."""

    statuses = frozenset()
    off_loop = True
    output = ("", DIRECTORY)
    packages = ("pyarrow",)
    reads_repeats = True
    takes_refused = True

    _nodes: ParquetFiles
    _edges: ParquetFiles

    def open(self) -> None:
        """Open the files of nodes and edges."""
        self._nodes = ParquetFiles(directory=self.directory / NODES)
        self._edges = ParquetFiles(directory=self.directory / EDGES)
        self._nodes.open(
            schema_of(
                "url host domain status content_type depth via kind rank fetched_at bytes "
                "fingerprint links",
                status="int16", depth="int32", rank="int64", fetched_at="time", bytes="int64",
                fingerprint="uint64", links="int32",
            )
        )  # fmt: skip
        self._edges.open(schema_of("source target kind text nofollow", nofollow="bool_"))

    def process(self, page: Page) -> None:
        """Write the edges of *page*, then its node."""
        # Columns of nodes and edges are in the order of the schemas in ``open``.
        edges = [
            (
                page.url,
                link.url,
                link.kind,
                link.text[:_TEXT_CHARACTERS],
                page.robots.nofollow or "nofollow" in link.rel.split(),
            )
            for link in chain(page.links, page.repeats)
            if link.url != page.redirect_target  # which is also among the links
        ]
        if page.redirect_target:
            edges.append((page.url, page.redirect_target, REDIRECT, "", False))
        host = host_of(page.url)
        self._edges.write(edges)
        node = [
            page.url,
            host,
            registered_domain(host),
            page.status,
            page.content_type,
            page.depth,
            page.via,
            page.kind,
            page.rank,
            round(page.fetched_at * 1e6),
            len(page.body),
            page.content_fingerprint,
            len(edges),
        ]
        self._nodes.write([node])
        self.stats.inc("edges", len(edges))

    def sync(self) -> None:
        self._edges.sync()
        self._nodes.sync()

    def close(self) -> None:
        with closing(self._nodes):
            self._edges.close()
