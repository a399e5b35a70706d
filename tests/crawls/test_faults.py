"""A whole crawl on a disk that fails; see nightly/test_faults.py for all kinds of failures."""

from __future__ import annotations

import random
from collections import Counter

from fault_rig import Lot, go_through


def test_a_crawl_is_complete_polite_and_sound_after_faults_drawn_by_lot(tmp_path):
    rng = random.Random(1)
    hit = Counter()
    go_through(tmp_path, Lot(rng), rng=rng, most=2, hit=hit, hosts=8, max_pages=7)
    assert hit
