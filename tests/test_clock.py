"""Epoch time of a process, while somebody sets the clock of the machine."""

from __future__ import annotations

import time

import pytest

from webcrawl.clock import Clock, since_boot


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_that_is_set_changes_nothing_for_this_process_and_the_next(jump):
    system, boot = [1_800_000_000.0], [50.0]

    def new_clock():
        return Clock(wall=lambda: system[0], boot=lambda: boot[0])

    clock = new_clock()
    assert clock() == 1_800_000_000
    boot[0] += 7
    system[0] += 7 + jump
    assert clock() == 1_800_000_007
    later = new_clock()
    assert later() == 1_800_000_007 + jump
    later.go_on(clock.offset)
    assert later() == 1_800_000_007


def test_a_new_one_says_what_the_machine_says():
    assert Clock()() == pytest.approx(time.time(), abs=1)
    assert since_boot() >= time.monotonic() - 1
