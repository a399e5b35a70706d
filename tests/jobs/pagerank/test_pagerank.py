"""Ranks of hosts and pages by a crawl's link graph; the tables are read back with DuckDB."""

import random

import duckdb
import numpy as np
import pytest
import warm
from contracts.modules import a_page, run_module
from crawling import printed
from text_tables import each

from webcrawl.errors import FatalError
from webcrawl.items import Link
from webcrawl.jobs.pagerank.link_tables import LinkTables
from webcrawl.pipelines.link_database import edge_directories
from webcrawl.pipelines.link_graph import LinkGraph
from webcrawl.pipelines.pagerank import rank
from webcrawl.urls import host_of


def web(seed, pages=300, hosts=20):
    rng = random.Random(seed)

    def url():
        return f"http://h{int(hosts * rng.random() ** 2)}.test/{rng.randrange(30)}"

    found = []
    for _ in range(pages):
        links = [Link(url(), rel=rng.choice(["", "nofollow"])) for _ in range(rng.randrange(12))]
        moved = url() if rng.random() < 0.1 else ""
        found.append(a_page(url=url(), links=links, redirect_target=moved))
    return found


@pytest.fixture(scope="module")
def jobdir(tmp_path_factory):
    """A job of two drones."""
    path = tmp_path_factory.mktemp("job")
    for drone in (1, 2):
        run_module(LinkGraph, web(drone), path / "drones" / str(drone))
    return path


def ask(query):
    return duckdb.sql(query).fetchall()


def solved(pairs, names):
    """PageRank as the solution of its equations, without iteration."""
    number = len(names)
    at = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((number, number))
    for source, target in pairs:
        matrix[at[target], at[source]] = 1.0
    sums = matrix.sum(axis=0)
    matrix = np.where(sums > 0, matrix / np.maximum(sums, 1), 1 / number)
    shares = np.linalg.solve(np.eye(number) - 0.85 * matrix, np.full(number, 0.15 / number))
    return dict(zip(names, shares, strict=True))


@each("what", "host", "page")
def test_ranks_and_graph_are_those_of_the_links(jobdir, tmp_path, what):
    output = tmp_path / "ranks.csv"
    (jobdir / "graph/pagerank.work/tables-killed").mkdir(parents=True)
    printed("pagerank", jobdir, "-o", output, *["--pages"] * (what == "page"))
    column = "host" if what == "host" else "url"
    name = "regexp_extract({0}, '//([^/]*)', 1)" if what == "host" else "{0}"
    expected = ask(
        f"select {name.format('source')} a, {name.format('target')} b, count(*), "
        f"count(*) filter (not nofollow) from '{jobdir}/drones/*/graph/edges/*.parquet' "
        "group by a, b order by a, b"
    )
    graph = f"{jobdir}/graph/{what}_graph.parquet"
    assert ask(f"select * from '{graph}' order by source, target") == expected
    ranked = ask(f"select {column}, rank, pagerank, in_degree, out_degree from "
                 f"'{jobdir}/graph/{what}s.parquet' order by rank")  # fmt: skip
    names = sorted({one for row in expected for one in row[:2]})
    pairs = {(a, b) for a, b, _, followed in expected if followed and a != b}
    assert {row[0]: row[2] for row in ranked} == pytest.approx(solved(pairs, names), abs=1e-8)
    assert [row[1] for row in ranked] == [*range(1, len(names) + 1)]
    assert sorted(ranked, key=lambda row: -row[2]) == ranked
    for one, _, _, into, out in ranked:
        assert into == sum(b == one for _, b in pairs)
        assert out == sum(a == one for a, _ in pairs)
    lines = output.read_text().splitlines()
    assert lines == [f"rank,{column}", *(f"{row[1]},{row[0]}" for row in ranked)]
    assert not [*jobdir.rglob("*.tmp"), *jobdir.rglob("pagerank.work")]


def test_graph_without_links_has_equal_shares(monkeypatch):
    nothing = np.empty(0, np.int64)
    assert rank(nothing, nothing, 4).pagerank == pytest.approx([0.25] * 4)
    rng = np.random.default_rng(3)
    sources, targets = rng.integers(0, 50, (2, 400))
    at_once = rank(sources, targets, 50)
    monkeypatch.setattr("webcrawl.pipelines.pagerank._LINKS_PER_STEP", 7)
    for one, other in zip(at_once, rank(sources, targets, 50), strict=True):
        assert one == pytest.approx(other)


def test_too_many_pairs_are_refused(jobdir, tmp_path):
    with (
        LinkTables.of(
            edge_directories(jobdir),
            name_of=host_of,
            work_parent=tmp_path,
            on_progress=lambda _: None,
        ) as tables,
        pytest.raises(FatalError, match=r"links, but at most 3 can be ranked"),
    ):
        tables.rank(limit=3)


@each(
    "damage sentence",
    (None, "There is no link graph in {}: run a crawl or a replay with "),
    (lambda path: path.unlink(), "The link graph has no links yet"),
    (lambda path: path.write_bytes(b"PAR1"), "The link graph in {0} cannot be ranked: {0}/"),
)
def test_a_graph_that_cannot_be_ranked_is_reported_and_keeps_old_ranks(tmp_path, damage, sentence):
    if damage is not None:
        run_module(LinkGraph, web(1, pages=5), tmp_path)
        (tmp_path / "graph" / "ranks.csv").write_text("rank,host\n1,a.test\n")
        damage(next(tmp_path.glob("graph/edges/*.parquet")))
    run = warm.scrapy("pagerank", tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith(f"pagerank: {sentence.format(tmp_path)}")
    assert run.stderr.count("\n") == 1
    if damage is not None:
        assert "a.test" in (tmp_path / "graph" / "ranks.csv").read_text()
