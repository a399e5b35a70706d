"""The search judged next to SQLite's FTS5, by the general indexes of five documentations."""

import importlib
from functools import partial

import pytest
from crawling import ROOT


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_search_wins_more_than_a_third_of_what_fts5_misses(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    judge = importlib.import_module("search_quality")
    job = judge.crawl("small", tmp_path)
    queries = {site: judge.queries_of(site) for site in judge.judged("small")}
    ours, _ = judge.measure(queries, judge.ours(job))["all"]
    theirs, _ = judge.measure(queries, partial(judge.fts5(job), title_weight=4))["all"]
    print(ours, theirs)
    assert 1 - ours < 2 / 3 * (1 - theirs)
