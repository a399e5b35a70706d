"""The link graph, read back with DuckDB."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pytest
from contracts.modules import ModuleContract, Run, a_page, run_module
from text_tables import table

from webcrawl.errors import FatalError
from webcrawl.items import Link, RobotsDirectives
from webcrawl.pipelines.link_graph import LinkGraph


class TestContract(ModuleContract):
    module = LinkGraph
    settings: ClassVar[dict[str, Any]] = {}


def ask(jobdir, name, columns):
    return duckdb.sql(
        f"select {columns} from read_parquet('{jobdir}/graph/{name}/*.parquet') order by all"
    ).fetchall()


def text_rows(jobdir, name, columns):
    """Return the rows of a table with each cell as text."""
    return [tuple(map(str, row)) for row in ask(jobdir, name, columns)]


def test_pages_and_links_come_back(tmp_path):
    links = [
        Link("http://b.test/", "to b"),
        Link("http://c.test/", "x" * 1000, rel="ugc nofollow"),
        Link("http://a.test/style.css", kind="stylesheet"),
    ]
    page = a_page(
        "<p>ü</p>",
        url="http://www.a.co.uk/x",
        links=links,
        depth=2,
        via="http://www.a.co.uk/",
        kind="a",
        rank=7,
        content_fingerprint=2**64 - 1,
        fetched_at=1_750_000_000.25,
    )
    moved = a_page(
        url="http://old.test/", status=301, redirect_target="http://new.test/", content_type=""
    )
    moved.links = [Link("http://new.test/", kind="redirect")]  # as crawls have it
    shy = a_page(url="http://shy.test/", links=links[:1], robots=RobotsDirectives(nofollow=True))
    run = run_module(LinkGraph, [page, moved, shy], tmp_path)
    columns = "source, target, kind, text[:6], length(text), nofollow"
    assert text_rows(tmp_path, "edges", columns) == table("""
        http://old.test/     | http://new.test/        | redirect   |        | 0   | False
        http://shy.test/     | http://b.test/          | a          | to b   | 4   | True
        http://www.a.co.uk/x | http://a.test/style.css | stylesheet |        | 0   | False
        http://www.a.co.uk/x | http://b.test/          | a          | to b   | 4   | False
        http://www.a.co.uk/x | http://c.test/          | a          | xxxxxx | 256 | True
    """)
    columns = (
        "url, host, domain, status, content_type, depth, via, kind, rank, bytes, fingerprint, "
        "links, epoch(fetched_at)"
    )
    assert text_rows(tmp_path, "nodes", columns)[1:] == table("""
        http://shy.test/ | shy.test | shy.test | 200 | text/html
            | 0 | | seed | 0 | 0 | 0 | 1 | 1750000000.0
        http://www.a.co.uk/x | www.a.co.uk | a.co.uk | 200 | text/html
            | 2 | http://www.a.co.uk/ | a | 7 | 9 | 18446744073709551615 | 3 | 1750000000.25
    """)
    assert ask(tmp_path, "nodes", "url, status, links")[0] == ("http://old.test/", 301, 1)
    assert run.stats["edges"] == 5
    assert run.stats["cpu_seconds"] > 0


def test_each_of_several_links_to_a_url_is_an_edge(tmp_path):
    page = a_page(url="http://a.test/", links=[Link("http://b.test/", "one")])
    page.repeats = [Link("http://b.test/", "two", rel="nofollow"), Link("http://b.test/", "two")]
    run_module(LinkGraph, [page], tmp_path)
    assert ask(tmp_path, "edges", "target, text, nofollow") == [
        ("http://b.test/", "one", False),
        ("http://b.test/", "two", False),
        ("http://b.test/", "two", True),
    ]
    assert ask(tmp_path, "nodes", "links") == [(3,)]


def test_a_link_graph_without_a_job_directory_ends_with_a_sentence(tmp_path):
    with pytest.raises(FatalError, match="JOBDIR"):
        Run(LinkGraph, tmp_path, JOBDIR="")


@pytest.mark.cures("{} needs {}: make modules (or pip install")
def test_without_pyarrow_the_sentence_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("webcrawl.errors.find_spec", lambda name: None)
    with pytest.raises(FatalError, match=r"^The module link_graph needs pyarrow: make modules"):
        Run(LinkGraph, tmp_path)
    monkeypatch.undo()
    Run(LinkGraph, tmp_path)


def test_what_drones_wrote_is_read_as_one(tmp_path, monkeypatch):
    """By the query of docs/howto/build-a-dataset.md."""
    page = (Path(__file__).resolve().parents[2] / "docs/howto/build-a-dataset.md").read_text()
    (one,) = re.findall(r"^    (select host, .*)$", page, re.MULTILINE)
    (of_drones,) = re.findall(r"`(from '.*')`", page)
    query = re.sub("from '.*'", of_drones, one)
    for drone, hosts in enumerate((["a", "a", "b"], ["c"])):
        pages = [a_page("", url=f"http://{host}.test/{n}") for n, host in enumerate(hosts)]
        run_module(LinkGraph, pages, tmp_path / f"crawls/web-hive/drones/{drone}")
    monkeypatch.chdir(tmp_path)
    assert sorted(duckdb.sql(query).fetchall()) == [("a.test", 2), ("b.test", 1), ("c.test", 1)]
