"""Judges a text dataset with the tools of its users; runs in .venv-datasets, and prints JSON.

.venv-datasets/bin/python tests/rigs/reading/dataset_judge.py \
    TEXT_DIRECTORY WARC_DIRECTORY DATASET WORK
"""

import collections
import json
import random
import sys
from importlib import import_module
from pathlib import Path

import datasets
import numpy as np
import polars as pl
from datatrove.data import Document
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets, MinhashDedupCluster
from datatrove.pipeline.extractors import Trafilatura
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.formatters import PIIFormatter
from datatrove.pipeline.readers import ParquetReader, WarcReader
from huggingface_hub import DatasetCard

FILTERS = GopherRepetitionFilter(), GopherQualityFilter(), C4QualityFilter(), FineWebQualityFilter()
BUCKETS = 14
# What texts with addresses, and with what looks like one, consist of.
PIECES = (
    *("a", "B.c", "x_y", "a-b", "\u00e9", "\u4e2d", "..", "com", "@", "@", "@mail.example.com"),
    *("info@example.org", "1.2.3.4", "8.8.8.8", "10.0.0.1", "256.1.1.1", "01.2.3.4", "[1.2.3.4]"),
    *("@[8.8.8.8]", "5", *".-!,;<>/' \n"),
)
TEXTS = 100_000
TOP, DUPLICATE = FILTERS[0].top_n_grams, FILTERS[0].dup_n_grams
# By filter: its reasons in its order, each with a column and its limits.
LIMITS = [
    [
        ("dup_para_frac", "gopher_duplicate_paragraphs", 0, 0.3),
        ("dup_para_char_frac", "gopher_duplicate_paragraph_characters", 0, 0.2),
        ("dup_line_frac", "gopher_duplicate_lines", 0, 0.3),
        ("dup_line_char_frac", "gopher_duplicate_line_characters", 0, 0.2),
        *((f"top_{n}_gram", f"gopher_top_{n}_gram", 0, most) for n, most in TOP),
        *((f"duplicated_{n}_n_grams", f"gopher_duplicate_{n}_grams", 0, x) for n, x in DUPLICATE),
    ],
    [
        ("gopher_short_doc", "words", 50, 1e9),
        ("gopher_long_doc", "words", 0, 100_000),
        ("gopher_below_avg_threshold", "gopher_word_length", 3, 1e9),
        ("gopher_above_avg_threshold", "gopher_word_length", 0, 10),
        ("gopher_too_many_hashes", "gopher_hashes_per_word", 0, 0.1),
        ("gopher_too_many_ellipsis", "gopher_ellipses_per_word", 0, 0.1),
        ("gopher_too_many_bullets", "gopher_bullet_lines", 0, 0.9),
        ("gopher_too_many_end_ellipsis", "gopher_ellipsis_lines", 0, 0.3),
        ("gopher_below_alpha_threshold", "gopher_words_with_letters", 0.8, 1),
        ("gopher_enough_stop_words", "gopher_stop_words", 2, 8),
    ],
    [
        ("lorem_ipsum", "c4_lorem_ipsum_lines", 0, 0),
        ("curly_bracket", "c4_curly_bracket_lines", 0, 0),
        ("too_few_sentences", "c4_sentences", 5, 1e9),
    ],
    [
        ("line_punct_ratio", "fineweb_punctuated_lines", 0.12, 1),
        ("short_line_ratio", "fineweb_short_lines", 0, 0.67),
        ("char_dup_ratio", "fineweb_duplicate_characters", 0, 0.01),
        ("list_ratio", "fineweb_line_breaks_per_word", 0, 0.3),
    ],
]


def by_columns(row):
    """The reason of each filter to drop *row*, by its columns; "" if it does not."""
    return [
        next((reason for reason, name, least, most in rows if not least <= row[name] <= most), "")
        for rows in LIMITS
    ]


def by_filters(text):
    """The same, by the filters."""
    answers = [each.filter(Document(text=text, id="")) for each in FILTERS]
    return ["" if answer is True else answer[1] for answer in answers]


def clusters(rows, directory):
    """The clusters of more than one row that datatrove's three stages find, as sets of IDs."""
    MinhashDedupSignature(f"{directory}/sigs").run(rows)
    for bucket in range(BUCKETS):
        MinhashDedupBuckets(f"{directory}/sigs", f"{directory}/pairs").run(None, bucket, BUCKETS)
    found = f"{directory}/found"
    MinhashDedupCluster(f"{directory}/pairs", found, save_cluster_id=True).run(None, 0, 1)
    data = b"".join(path.read_bytes() for path in sorted(Path(found).glob("*.clusters")))
    by_cluster = collections.defaultdict(set)
    for number, cluster in np.frombuffer(data, "<u4").reshape(-1, 2).tolist():
        by_cluster[cluster].add(rows[number].id)
    return {frozenset(ids) for ids in by_cluster.values()}


def other_replacements():
    """How many of TEXTS random texts datatrove's formatter changes otherwise."""
    # The module needs nothing of the crawler, which is not installed here.
    sys.path.append(str(Path(__file__).parents[3] / "webcrawl/pipelines/datasets"))
    replace_addresses = import_module("addresses").replace_addresses
    rng = random.Random(5)
    formatter = PIIFormatter()
    count = 0
    for _ in range(TEXTS):
        text = "".join(rng.choices(PIECES, k=rng.randrange(25)))
        formatter.emails_replacer._replace_i = 0  # ours begin again with each text
        formatter.ip_replacer._replace_i = 0
        count += formatter.format(text) != replace_addresses(text)[0]
    return count


def main(text_directory, warc_directory, made, work):
    rows = list(ParquetReader(text_directory).run())
    pages = [row for row in rows if row.metadata["content_type"] == "text/html"]
    verdicts = {row.id: by_filters(row.text) for row in pages}
    other = sum(verdicts[row.id] != by_columns(row.metadata) for row in pages)

    stored = list(WarcReader(warc_directory, glob_pattern="*.warc.gz").run())
    read = {document.id for document in stored}
    extracted = Trafilatura(timeout=30).run(stored)
    from_warc = {document.id: document.text for document in extracted}
    causes = collections.Counter()
    alike = 0
    for row in pages:
        theirs = by_filters(from_warc[row.id]) if row.id in from_warc else ["no text"] * 4
        alike += any(verdicts[row.id]) == any(theirs)
        for here, there in zip(verdicts[row.id], theirs, strict=True):
            causes["agree" if bool(here) == bool(there) else f"{here or 'kept'}/{there}"] += 1
    frame = pl.read_parquet(f"{made}/data/*.parquet")
    marked = frame.group_by("cluster").agg("id", pl.col("is_representative").sum())
    assert marked["is_representative"].unique().to_list() == [1]
    groups = {frozenset(ids) for ids in marked["id"] if len(ids) > 1}
    loaded = datasets.load_dataset(made, cache_dir=f"{work}/cache")
    card = DatasetCard.load(Path(made, "README.md")).data
    print(
        json.dumps(
            {
                "rows": [len(rows), frame.height, *(split.num_rows for split in loaded.values())],
                "columns": [frame.columns == split.column_names for split in loaded.values()],
                "splits": [*loaded],
                "card": [card.license, card.language],
                "pages": len(pages),
                "read_by_datatrove": len(read & verdicts.keys()),
                "other_verdicts": other,
                "other_replacements": other_replacements(),
                "clusters": len(groups),
                "other_clusters": len(groups ^ clusters(rows, f"{work}/text")),
                "verdicts": causes,
                "pages_with_one_fate": alike,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
