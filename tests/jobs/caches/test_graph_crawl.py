"""Simulated crawls of link graphs: order, completeness, input."""

import gzip
from collections import Counter

import pytest
import warm
from crawling import printed
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.errors import FatalError
from webcrawl.jobs.caches.graph_crawl import crawl, read_graph
from webcrawl.seen.url_trace import read_trace


def crawled(path, *, hosts_at_once):
    """What a crawl of the graph *path* submits page by page, by the numbers of its pages."""
    graph = read_graph(path, on_progress=lambda *_: None)
    batches = []

    def submit(fps, leave):
        batches.append([*zip(fps, leave, strict=True)])

    crawl(graph, hosts_at_once=hosts_at_once, submit=submit, on_progress=lambda *_: None)
    return batches


def test_pages_near_the_seeds_come_first_and_hosts_take_turns(tmp_path):
    edges = "a/0 a/1\na/0 b/0\na/0 a/2\na/1 a/3\na/2 a/0\na/2 a/0\nb/0 b/1\nb/1 a/1\na/3 c/0\n"
    path = tmp_path / "edges"
    path.write_text(edges)
    # Numbers by first mention: a/0 is 0, a/1 1, b/0 2, a/2 3, a/3 4, b/1 5, c/0 6.
    # Those that leave the host of their page have a sign.
    links = ["0 2 6", "1 2! 3", "5", "4", "1!", "0 0", "6!"]  # of the seeds, a0, b0, a1, b1, a2, a3
    batches = crawled(path, hosts_at_once=3)
    told = [" ".join(f"{fp}{'!' * leaves}" for fp, leaves in batch) for batch in batches]
    assert told == links


@given(
    edges=st.lists(st.tuples(*2 * [st.integers(0, 999)]), min_size=1, max_size=60),
    hosts_at_once=st.integers(1, 12),
)
def test_pages_that_a_seed_leads_to_are_fetched_once(tmp_path_factory, edges, hosts_at_once):
    path = tmp_path_factory.mktemp("graph") / "edges"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in edges))
    names = [*dict.fromkeys(name for edge in edges for name in edge)]
    batches = crawled(path, hosts_at_once=hosts_at_once)
    seeds, *fetched = [[names[number] for number, _ in batch] for batch in batches]
    first = {name // 100: name for name in reversed(names)}
    assert sorted(seeds) == sorted(first.values())
    reached = {*seeds}
    while more := {to for of, to in edges if of in reached} - reached:
        reached |= more
    expected = [to for of, to in edges if of in reached]
    assert Counter(name for batch in fetched for name in batch) == Counter(expected)


def test_the_command_writes_the_trace_of_a_packed_graph(tmp_path):
    with gzip.open(tmp_path / "edges.gz", "wt") as file:
        file.write("# Nodes: 3\n\nhttp://a.test/ http://a.test/b 17\nhttp://a.test/ http://c.test/")
    trace = tmp_path / "trace"
    said = printed("urltrace", tmp_path / "edges.gz", "--crawl", trace)
    assert "leaving       1 (25.0%)" in said
    assert read_trace(trace).fps.tolist() == [0, 2, 1, 2]
    run = warm.scrapy("urltrace", tmp_path / "none", "--crawl", trace)
    assert (run.returncode, run.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"1 2\n\n3\n", "line 3: a link"),
        (b"\x1f\x8b\0", "cannot be read"),
        (b"1 2\n" + b"x" * 70_000, "a line longer than 65,536 bytes"),
        (gzip.compress(b"1" * 70_000 + b" 2\n1 2\n"), "a line longer than 65,536 bytes"),
    ],
)
def test_a_file_that_is_not_a_graph_is_reported(tmp_path, text, message):
    path = tmp_path / "edges"
    path.write_bytes(text)
    with pytest.raises(FatalError, match=message):
        read_graph(path, on_progress=lambda *_: None)
