"""A text dataset, judged by datatrove, datasets and polars."""

import asyncio
import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from contracts.modules import Run, a_page
from documents import articles

from webcrawl.pipelines.main_text import main_text
from webcrawl.pipelines.text import TextDataset
from webcrawl.pipelines.warc import WarcPipeline

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-datasets/bin/python"
DOCUMENTS = 2000


def pages():
    """Real articles, and copies of their texts in which up to a tenth of the words differ."""
    rng = random.Random(64)
    bodies = [body for _, body, _ in articles()]
    assert bodies, "this test needs article-extraction.tar in ../shared/data"
    texts = []
    for number, body in enumerate(bodies):
        page = a_page(body, url=f"http://a.test/{number}")
        texts.append(main_text(page, max_chars=200_000).text)
        yield page
    for number in range(len(bodies), DOCUMENTS):
        words = re.split(r"(?<=\s)", texts[number % len(texts)])
        rate = rng.choice((0, 0.01, 0.03, 0.1))
        changed = [rng.choice(words) if rng.random() < rate else word for word in words]
        text = "".join(changed).strip() or "x"
        yield a_page(text, url=f"http://a.test/{number}", content_type="text/plain")


async def write(directory):
    async with Run(WarcPipeline, directory) as warc, Run(TextDataset, directory) as text:
        for page in pages():
            await warc.process(page)
            await text.process(page)


@pytest.mark.timeout(3600)
def test_datatrove_decides_alike_by_columns_text_and_warc(tmp_path):
    asyncio.run(write(tmp_path))
    given = tmp_path / "text", tmp_path / "warc", tmp_path / "work"
    judge = ROOT / "tests/rigs/dataset_judge.py"
    answer = subprocess.run([PYTHON, judge, *given], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(answer.stdout.splitlines()[-1])
    print(found)
    assert set(found["rows"]) == {DOCUMENTS}
    assert found["other_verdicts"] == 0
    assert found["removed"] > 100
    assert found["is_same_removed"]
    # Of the verdicts of single filters 92.7 %, of the pages 84.5 % (2026-11-28). Most others are of
    # lines that occur twice in our text, and once or never in that of trafilatura.
    assert found["verdicts"]["agree"] >= 0.9 * sum(found["verdicts"].values())


def test_the_rules_for_words_are_those_of_spacy_and_datatrove():
    script = ROOT / "tests/rigs/word_rules.py"
    printed = subprocess.run([PYTHON, script], stdout=subprocess.PIPE, check=True).stdout
    assert printed == (ROOT / "webcrawl/pipelines/datasets/words.json").read_bytes()
