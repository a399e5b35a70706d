"""Columns that are computed from the text, and those that name the record in a WARC file.

tests/nightly/test_datasets.py has datatrove judge them.
"""

import asyncio
import hashlib
import io
import re

import duckdb
import numpy as np
import pytest
from contracts.modules import Run, a_page, run_module
from fastwarc.warc import ArchiveIterator
from text_tables import each

from webcrawl.jobs.replay.warc_reader import stored_pages
from webcrawl.pipelines.datasets.minhash import minhash
from webcrawl.pipelines.datasets.signals import signals_of
from webcrawl.pipelines.datasets.words import words_in
from webcrawl.pipelines.text import TextDataset
from webcrawl.pipelines.warc import WarcPipeline

SENTENCE = "The cats of Mr. Smith don't eat with us."
COLUMNS = "url, id, dump, date, file_path, warc_offset, warc_length"


# What datatrove's MinhashDedupSignature (0.10.1) computes with its default values.
@each(
    "text first digest",
    (
        "All human beings are born free, and equal in dignity: 3.5 of 10 can't know it.",
        163983454571963721,
        "b847b2aff10adc84",
    ),
    (
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Straße №5 — «Ça va»?",
        56712973527839536,
        "2d3ed1c96b2c5e6a",
    ),
)
def test_minhash_is_that_of_datatrove(text, first, digest):
    values = minhash(text)
    assert (len(values), values[0]) == (112, first)
    assert hashlib.sha1(np.array(values, "<u8").tobytes()).hexdigest()[:16] == digest


# What datatrove's PIIFormatter (0.10.1) makes of it.
def test_addresses_are_counted_and_by_setting_replaced(tmp_path):
    given = "Ask <a.b@c.test>, d@e.test or x@[1.2.3.4]: 8.8.8.8, not 10.0.0.1, 1.02.3.4 or @home."
    replaced = (
        "Ask <email@example.com>, firstname.lastname@example.org or email@example.com: "
        "22.214.171.124, not 10.0.0.1, 1.02.3.4 or @home."
    )
    page = a_page(f"{given} {'Some more words. ' * 9}", content_type="text/plain")
    for settings, expected in {"0": given, "1": replaced}.items():
        run_module(TextDataset, [page], tmp_path / settings, TEXT_REPLACE_ADDRESSES=settings)
        (file,) = (tmp_path / settings / "text").glob("*.parquet")
        query = f"select text, email_addresses, ip_addresses from '{file}'"
        ((text, *counts),) = duckdb.sql(query).fetchall()
        assert (text.partition(" Some")[0], counts) == (expected, [3, 1])


def test_text_of_four_words_has_no_minhash():
    assert minhash("too few words here") is minhash("") is None


def test_words_are_those_of_spacy():
    given = "Mr. Smith's cats (don't) cost $5.50, e.g. at https://a.test/x?y=1... well-known!"
    expected = (
        "Mr. Smith 's cats ( do n't ) cost $ 5.50 , e.g. at https://a.test/x?y=1 ... well - known !"
    )
    assert words_in(given) == expected.split()


@each(
    "text expected",
    ("", {"characters": 0, "words": 0, "gopher_top_2_gram": 0, "c4_sentences": 0}),
    (
        SENTENCE,
        {
            "characters": 40,
            "words": 10,
            "gopher_word_length": 3.1,
            "gopher_stop_words": 2,
            "gopher_words_with_letters": 10 / 11,
            "c4_sentences": 1,
            "fineweb_punctuated_lines": 1.0,
            "fineweb_short_lines": 0.0,
        },
    ),
    (
        f"{SENTENCE} Is it so? Yes.\n- one ...\n- one ...\n# two",
        {
            "gopher_bullet_lines": 0.5,
            "gopher_ellipsis_lines": 0.5,
            "gopher_duplicate_lines": 0.25,
            "gopher_duplicate_paragraphs": 0.0,
            "c4_lines": 1,
            "c4_sentences": 3,
            "fineweb_short_lines": 0.75,
        },
    ),
    (
        "Lorem ipsum for you.\nAn f() { is here.\nOur privacy policy.\nUse JavaScript now.",
        {"c4_lines": 0, "c4_lorem_ipsum_lines": 1, "c4_curly_bracket_lines": 1},
    ),
    (
        "a b c d e a b c d e a b c d e",
        {
            "gopher_top_2_gram": 9 / 29,
            "gopher_top_4_gram": 21 / 29,
            "gopher_duplicate_5_grams": 10 / 29,
            "gopher_duplicate_10_grams": 10 / 29,
        },
    ),
)
def test_signals_are_the_numbers_of_the_filters(text, expected):
    found = signals_of(text)
    assert {name: getattr(found, name) for name in expected} == pytest.approx(expected)


def rows(jobdir):
    query = f"select {COLUMNS} from '{jobdir}/text/*.parquet' order by url"
    return duckdb.sql(query).fetchall()


def test_a_row_names_the_record_of_its_page_in_a_crawl_and_a_replay(tmp_path):
    pages = [a_page(f"<p>{n} {SENTENCE}", url=f"http://a.test/{n}") for n in range(3)]

    async def crawl():
        async with Run(WarcPipeline, tmp_path) as warc, Run(TextDataset, tmp_path) as text:
            for page in pages:
                await warc.process(page)
                await text.process(page)

    asyncio.run(crawl())
    found = rows(tmp_path)
    (path,) = tmp_path.glob("warc/*.warc.gz")
    for url, record_id, dump, date, file_path, offset, length in found:
        assert (file_path, date) == (str(path), "2025-06-15T15:06:40Z")
        assert dump == f"{tmp_path.name}-2025-06-15"
        member = path.read_bytes()[offset : offset + length]
        (record,) = ArchiveIterator(io.BytesIO(member))
        assert (record.record_id, record.headers["WARC-Target-URI"]) == (record_id, url)

    run_module(TextDataset, [each.page for each in replayed(path)], tmp_path / "again")
    again = rows(tmp_path / "again")
    assert [(row[:2], row[3:]) for row in again] == [(row[:2], row[3:]) for row in found]


def replayed(path):
    return list(stored_pages(path, start=0, max_bytes=1 << 20))


def test_a_row_without_warc_files_has_an_id_of_its_own(tmp_path):
    run_module(TextDataset, [a_page(), a_page(url="http://b.test/")], tmp_path)
    found = rows(tmp_path)
    assert found[0][1] != found[1][1]
    assert all(re.fullmatch(r"<urn:uuid:[0-9a-f-]{36}>", row[1]) for row in found)
    assert {row[4:] for row in found} == {(None, None, None)}


@each("order", (WarcPipeline, TextDataset), (TextDataset, WarcPipeline))
def test_text_in_front_of_warc_files_is_warned_of(tmp_path, caplog, order):
    crawler = Run(order[0], tmp_path).crawler
    order[1].from_crawler(crawler)
    sentence = "give WarcPipeline a lower number than TextDataset in ITEM_PIPELINES."
    assert (sentence in caplog.text) == (order[0] is TextDataset)
