"""Scores of pages by a fastText model, and a crawl that follows the links of good pages first."""

import asyncio
import importlib
import re
import struct
from statistics import mean
from typing import Any, ClassVar

import duckdb
import pytest
from contracts.modules import ModuleContract, Run, a_page, run_module
from crawling import ROOT
from text_tables import cases

from webcrawl.errors import FatalError
from webcrawl.pipelines.page_score import PageScore
from webcrawl.pipelines.text import TextDataset
from webcrawl.settings import FRONTIER_PRIORITIZER

MODEL = ROOT / "tests/data/quality.bin"
SETTINGS = {"SCORE_MODEL": str(MODEL), "SCORE_LABEL": "__label__hq"}
WHOLE = MODEL.read_bytes()
# The kind of model is the eighth argument: word vectors have no labels.
VECTORS = WHOLE[:36] + struct.pack("<i", 1) + WHOLE[40:]
CUT_HEAD, CUT_WORDS, CUT_MATRIX, TEXT = WHOLE[:70], WHOLE[:500], WHOLE[:-10], b"theory " * 50
BAD = "buy cheap " * 50
GOOD = "measured evidence compared history temperature " * 50


class TestPageScore(ModuleContract):
    module = PageScore
    settings: ClassVar[dict[str, Any]] = SETTINGS


def scores(directory, *bodies, **settings):
    async def score():
        async with Run(PageScore, directory, **SETTINGS | settings) as run:
            return [run.module.score(a_page(f"<p>{body}</p>")) for body in bodies]

    return asyncio.run(score())


def test_a_score_grows_with_the_probability_of_the_label(tmp_path):
    texts = ("", BAD, "buy\ncheap\n\ntheory", "theory", GOOD)
    assert scores(tmp_path, *texts) == sorted(scores(tmp_path, *texts))
    assert scores(tmp_path, texts[0], texts[1], texts[-1]) == [0, 0, 100]
    one, other = (scores(tmp_path, "buy theory", SCORE_LABEL=f"__label__{q}") for q in ("hq", "lq"))
    assert one[0] + other[0] == 100


@cases(
    "content said",
    """
        None       | .*No such file or directory
        b""        | cannot mmap an empty file
        TEXT       | it is not a complete fastText model
        CUT_HEAD   | it is not a complete fastText model
        CUT_WORDS  | it is not a complete fastText model
        CUT_MATRIX | it is not a complete fastText model
        VECTORS    | Model needs to be supervised for prediction!
    """,
    known=globals(),
)
def test_a_bad_model_ends_the_crawl(tmp_path, content, said):
    path = tmp_path / "model.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FatalError, match=f"^SCORE_MODEL {path} cannot be used: {said}"):
        scores(tmp_path, SCORE_MODEL=str(path))


@pytest.mark.cures("set FRONTIER_PRIORITIZER=webcrawl.frontier.prioritizer.ScorePrioritizer")
def test_bad_settings_end_the_crawl_and_unused_scores_are_reported(tmp_path, caplog):
    for model in ("", None):
        with pytest.raises(FatalError, match="page_score needs SCORE_MODEL, the file of a model"):
            Run(PageScore, tmp_path, SCORE_MODEL=model)
    labels = "must be a label of the model, not 'good', such as .'__label__hq', '__label__lq'"
    with pytest.raises(FatalError, match=labels):
        scores(tmp_path, SCORE_LABEL="good")
    scores(tmp_path, FRONTIER_PRIORITIZER=FRONTIER_PRIORITIZER)
    prioritizer = re.search("not used: set FRONTIER_PRIORITIZER=(.*)", caplog.text)[1]
    caplog.clear()
    scores(tmp_path, FRONTIER_PRIORITIZER=prioritizer)
    assert "not used" not in caplog.text


def test_rows_of_the_text_dataset_have_the_score_of_their_text(tmp_path):
    pages = [a_page(f"<p>{body}</p>") for body in (BAD, GOOD)]
    run_module(TextDataset, pages, tmp_path, **SETTINGS)
    query = f"select score from '{tmp_path}/text/*.parquet' order by 1"
    assert duckdb.sql(query).fetchall() == [(0,), (100,)]


def test_a_crawl_follows_links_of_good_pages_first(tmp_path, monkeypatch):
    """In virtual time, on a web of the benchmark."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    web = importlib.import_module("quality_web").QualityWeb(60, 3)
    prioritizer = "webcrawl.frontier.prioritizer.ScorePrioritizer"
    settings = {"FRONTIER_PRIORITIZER": prioritizer}
    # Only what waits because all workers are busy can be put in order.
    settings |= {"CONCURRENT_REQUESTS": 1, "POLITENESS_MIN_DELAY": 0.1, "POLITENESS_MAX_DELAY": 0.2}
    asked = [url for url in web.crawl(tmp_path, **settings) if url in web.pages]
    first_via = {link: url for url in reversed(asked) for link in web.links[url]}
    places = {True: [], False: []}
    for place, url in enumerate(asked):
        if url not in web.seeds:
            places[web.pages[first_via[url]].is_good].append(place)
    assert mean(places[True]) < mean(places[False]) - 10  # breadth first they are equal
