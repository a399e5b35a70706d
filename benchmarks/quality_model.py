"""Train the small fastText model of the tests: labels __label__hq and __label__lq.

    python -m venv /tmp/fasttext && /tmp/fasttext/bin/pip install fasttext-wheel==0.9.2 'numpy<2'
    PYTHONPATH=. python benchmarks/quality_model.py /tmp/fasttext/bin/python

The texts are like those of the pages in benchmarks/quality_web.py, but others. With one thread
fastText always makes the same model. It is not trained in this process, because both packages are
called ``fasttext``: the one that a crawl uses cannot train.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

from quality_web import MODEL, a_text

TEXTS = 2000
TRAIN = """
import fasttext, sys
model = fasttext.train_supervised(
    sys.argv[1], dim=4, bucket=0, minCount=1, lr=0.5, epoch=50, thread=1, verbose=0
)
model.save_model(sys.argv[2])
"""


def main(python: str) -> None:
    rng = random.Random(2)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "texts.txt")
        lines = (
            f"__label__{'hq' if is_good else 'lq'} {a_text(rng, is_good=is_good)}\n"
            for is_good in [True, False] * (TEXTS // 2)
        )
        path.write_text("".join(lines))
        subprocess.run([python, "-c", TRAIN, str(path), str(MODEL)], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
