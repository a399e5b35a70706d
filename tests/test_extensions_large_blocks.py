"""Large blocks go back to the system when they are freed, whatever stands behind them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FREED = """
import sys
from scrapy import signals
from scrapy.utils.test import get_crawler
from webcrawl.extensions.large_blocks import LargeBlocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

if sys.argv[1] == "with":
    crawler = get_crawler()
    extension = LargeBlocks.from_crawler(crawler)
    crawler.signals.send_catch_log(signals.engine_started)
large = b"x" * (30 << 20)
del large
before = resident()
blocks, kept = [], []
for _ in range(100):
    blocks.append(b"x" * (1 << 20))
    kept.append(b"x" * 5000)
while_held = resident() - before
blocks.clear()
print(int(while_held), int(resident() - before))
"""


@pytest.mark.parametrize(("how", "least", "most"), [("with", 0, 20), ("without", 80, 120)])
def test_a_hundred_megabytes_are_given_back_only_with_the_extension(how, least, most):
    told = subprocess.run(
        [sys.executable, "-c", FREED, how],
        cwd=Path(__file__).parents[1],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    while_held, afterwards = map(int, told.split())
    assert while_held >= 100
    assert least <= afterwards <= most
