"""Precision and recall of the main text, by layout, in pages of made-up words.

    python benchmarks/page_layouts.py [PAGES]

Makes PAGES (20) pages of each layout in tests/data/layouts.txt.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.extend(map(str, Path(__file__).resolve().parents[1].glob("tests/rigs/*/")))

from layouts import Score, document, kinds

from webcrawl.items import Page
from webcrawl.pipelines.main_text import main_text


def main(pages: str = "20") -> None:
    scores = []
    print(f"{'layout':44} precision recall  foreign words kept")
    for kind, parts in kinds().items():
        score = Score()
        for seed in range(int(pages)):
            page = document(kind, parts, seed)
            score.add(page, text_of(page.html.encode()))
        scores.append(score)
        kept = f"{score.kept} of {score.foreign}"
        print(f"{kind:48} {score.precision:.3f}  {score.recall:.3f}  {kept}")
    precision = statistics.mean(score.precision for score in scores)
    recall = statistics.mean(score.recall for score in scores)
    below = sum(score.precision < 0.9 or score.recall < 0.95 for score in scores)
    kept = sum(score.kept for score in scores) / sum(score.foreign for score in scores)
    print(f"{len(scores)} layouts: precision {precision:.3f}, recall {recall:.3f}, {below} below")
    print(f".9 or .95; {kept:.1%} of the words that do not belong are in the texts")


def text_of(body: bytes) -> str:
    page = Page(
        url="http://a.test/dir/page.html", status=200, headers=[], body=body, wire_body=body,
        fetched_at=0.0, content_type="text/html",
    )  # fmt: skip
    return main_text(page, max_chars=200_000).text


if __name__ == "__main__":
    main(*sys.argv[1:])
