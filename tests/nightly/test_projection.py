"""Projected ends of crawls of three webs in virtual time, against the true ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WEBS = ["three hosts", "found late", "host budget"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_most_true_ends_lie_in_the_range():
    script = [sys.executable, ROOT / "benchmarks/bench_projection.py", "-", *WEBS]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(script, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    head, _, *rows, _ = (line.strip("| ").split(" | ") for line in done.stdout.splitlines())
    assert [row[0] for row in rows] == WEBS
    for row in rows:
        shares = {name: int(one[:-1]) for name, one in zip(head, row, strict=True) if "%" in one}
        assert shares["in range"] >= 80
        assert shares["none"] <= 30
        assert shares["width"] <= 50
