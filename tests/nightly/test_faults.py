"""Whole crawls on disks that fail: complete, polite and sound after every fault.

Each life comes to these calls soon; ``python tests/rigs/fault_rig.py --minutes 20`` hits all calls
at any moment.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from fault_rig import Fault, Given, go_through

if TYPE_CHECKING:
    from pathlib import Path

FOR_GOOD = 10**9
FAULTS = {
    "processes that die": [
        Fault("kill", "replace", "manifest", 2),
        Fault("kill", "write", "runs", 5),
        Fault("kill", "link", "kept", 3),
        Fault("kill", "unlink", "snapshot", 1),
        Fault("kill", "create", "warc", 1),
        Fault("kill", "write", "done", 60),
        Fault("broken", "truncate", "warc", 1, FOR_GOOD),  # nothing can be opened
    ],
    "power failures": [
        Fault("power", "write", "done", 150),
        Fault("power", "fsync", "manifest", 1),
        Fault("power", "write", "info", 30),
        Fault("power", "unlink", "manifest", 2),
        Fault("power", "fsync", "warc", 2),
        Fault("power", "mkdir", "kept", 1),
    ],
    "disks that are full": [
        Fault("full", "mkdir", "job", 3, FOR_GOOD),
        Fault("limit", after=3000),
        Fault("limit", after=30_000),
        Fault("full", "write", "warc", 3, FOR_GOOD),
        Fault("full", "fsync", "snapshot", 2, 30),
        Fault("full", "create", "stats", 1, FOR_GOOD),
        Fault("full", "write", "urls", 2),
    ],
    "disks that are broken": [
        Fault("broken", "write", "done", 90),
        Fault("broken", "create", "done", 1, FOR_GOOD),
        Fault("broken", "write", "warc", 5, FOR_GOOD),
        Fault("broken", "fsync", "info", 1),
        Fault("broken", "fsync", "back", 1),
        Fault("broken", "replace", "manifest", 1, 30),
        Fault("broken", "link", "kept", 5),
    ],
}


@pytest.mark.parametrize("trouble", FAULTS)
def test_a_crawl_is_complete_polite_and_sound_after(tmp_path: Path, trouble: str) -> None:
    faults = FAULTS[trouble]
    hit = Counter[Fault]()
    rng = random.Random(len(trouble))
    go_through(tmp_path, Given(faults), rng=rng, most=len(faults), hit=hit, max_pages=40)
    assert hit == Counter(faults)
