"""Hives of four drones, disturbed: each disturbance alone, all of a kind, and rounds by lot."""

from __future__ import annotations

import random

import pytest
from hive_crawl import DISTURBANCES, draw, play


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_a_hive_is_complete_and_polite_after(tmp_path, disturbance):
    disturbances = [(0.2, disturbance), (0.6, disturbance)]
    play(tmp_path, disturbances, rng=random.Random(len(disturbance)))


def test_drones_that_join_and_leave_fetch_nothing_twice(tmp_path):
    disturbances = [(0.1, "two join"), (0.3, "one leaves"), (0.5, "two join")]
    disturbances += [(share, "one leaves") for share in (0.8, 0.9, 0.95)]
    play(tmp_path, disturbances, rng=random.Random(1))  # no loss explains a repetition


@pytest.mark.parametrize("seed", range(20))
def test_a_hive_is_complete_and_polite_after_disturbances_by_lot(tmp_path, seed):
    rng = random.Random(seed)
    play(tmp_path, draw(rng), rng=rng)
