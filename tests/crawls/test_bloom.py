"""The main job with Nielsen's Bloom filter in place of the exact eliminator."""

from __future__ import annotations

import pytest
from crawling import run_crawl, simulated

# Far above the number of URLs: of a hundred none is lost.
SETTINGS = {
    "SEEN_ELIMINATOR": "webcrawl.seen.bloom.BloomEliminator",
    "SEEN_BLOOM_CAPACITY": 1_500,
    "POLITENESS_MAX_DELAY": 0.3,
}


@pytest.fixture
def web(tmp_path):
    with simulated(tmp_path, hosts=30, mean_pages=5.0, max_pages=14) as web:
        yield web


def test_a_job_of_the_other_eliminator_is_refused_with_a_sentence(web):
    settings = {"LOG_LEVEL": "CRITICAL", "CLOSESPIDER_PAGECOUNT": 5}
    web.crawl(**settings)
    done = run_crawl(web.command(**settings, **SETTINGS))
    assert done.returncode == 2, done.stdout
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"webcrawl: The crawl in JOBDIR {web.job} cannot be resumed: ")
    assert "disk" in line
    web.crawl(**settings)
