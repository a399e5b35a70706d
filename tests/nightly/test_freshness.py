"""How fresh policies of visits keep documents, beside equal visits and the best that can be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def rows_of(*arguments):
    """The rows of all tables that the benchmark prints, without their heads."""
    script = [sys.executable, ROOT / "benchmarks/bench_freshness.py", *arguments]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(script, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "%" in line]
    return [[number_of(cell) for cell in line] for line in lines]


def number_of(cell):
    try:
        return float(cell.removesuffix(" %").replace(",", ""))
    except ValueError:
        return cell


def test_greedy_visits_are_never_worse_than_equal_ones_and_near_the_optimum():
    rows = rows_of("5")
    assert len(rows) == 2 * 3 * 4
    for equal, greedy, optimum, _ in zip(*[iter(rows)] * 4, strict=True):
        assert (equal[1], greedy[1]) == ("equal visits", "Greedy")
        visits, fresh, age, seen = greedy[2:6]
        assert visits == pytest.approx(equal[2], rel=0.05)
        assert fresh >= equal[3]
        assert age <= equal[4]
        assert seen >= equal[5]
        assert fresh > 0.95 * optimum[3]


def test_whole_crawls_are_as_fresh_as_simulated():
    rows = rows_of("1", "--crawls")
    assert len(rows) == 3 * 2 * 2
    for crawled, simulated in zip(rows[::2], rows[1::2], strict=True):
        assert (crawled[3], simulated[3]) == ("crawled", "simulated")
        assert crawled[4] == pytest.approx(simulated[4], rel=0.06)
        assert crawled[5] == pytest.approx(simulated[5], abs=1)
        assert crawled[7] == pytest.approx(simulated[7], abs=2)
