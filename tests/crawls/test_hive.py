"""A crawl by a hive of four drones, disturbed, judged by the server's record over all processes.

nightly/test_hive_chaos.py has each disturbance alone, and rounds drawn by lot.
"""

from __future__ import annotations

import random

from hive_crawl import play


def test_a_hive_that_is_disturbed_is_complete_and_polite(tmp_path):
    disturbances = [
        (0.1, "kill the queen"),
        (0.2, "two join"),
        (0.3, "empty Redis"),
        (0.5, "pause a drone"),
        (0.7, "black hole"),
        (0.95, "one leaves"),
    ]
    assert play(tmp_path, disturbances, rng=random.Random(1), hosts=50)
