"""Large blocks go back to the system when they are freed, whatever stands behind them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FREED = """
import sys
from scrapy.utils.test import get_crawler
from webcrawl.extensions.large_blocks import LargeBlocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

if sys.argv[1] == "with":
    LargeBlocks.from_crawler(get_crawler())
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


def said_by(script, how):
    """What a process of its own says: the settings are for good."""
    return subprocess.run(
        [sys.executable, "-c", script, how],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.parametrize(("how", "least", "most"), [("with", 0, 20), ("without", 80, 120)])
def test_a_hundred_megabytes_are_given_back_only_with_the_extension(how, least, most):
    told = said_by(FREED, how)
    while_held, afterwards = map(int, told.split())
    assert while_held >= 100
    assert least <= afterwards <= most


FAULTS = """
import ctypes, resource, sys
from scrapy.utils.test import get_crawler
from selectolax.lexbor import LexborHTMLParser
from webcrawl.extensions.large_blocks import LargeBlocks

if sys.argv[1] == "with":
    LargeBlocks.from_crawler(get_crawler())
else:
    ctypes.CDLL(None).mallopt(-3, 128 * 1024)  # what it is in the beginning, kept there
body = b"<p>text <a href=x>y</a></p>" * 800
LexborHTMLParser(body)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    LexborHTMLParser(body)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 20)
"""


@pytest.mark.parametrize(("how", "least", "most"), [("with", 0, 10), ("without", 30, 1000)])
def test_the_memory_of_one_document_serves_the_next_only_with_the_extension(how, least, most):
    told = said_by(FAULTS, how)
    assert least <= int(told) <= most
