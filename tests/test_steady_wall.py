"""Epoch time of a process, while somebody sets the clock of the machine."""

from __future__ import annotations

import pytest

from webcrawl.steady_wall import steady_wall


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_that_is_set_changes_nothing(jump):
    system, monotonic = [1_800_000_000.0], [50.0]
    wall = steady_wall(wall=lambda: system[0], clock=lambda: monotonic[0])
    assert wall() == 1_800_000_000
    monotonic[0] += 7
    system[0] += 7 + jump
    assert wall() == 1_800_000_007
