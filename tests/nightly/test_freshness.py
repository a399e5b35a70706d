"""How fresh policies of visits keep a crawl in virtual time, beside the best that can be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def test_greedy_visits_keep_documents_as_fresh_as_can_be_with_as_many_requests():
    script = [sys.executable, ROOT / "benchmarks/bench_freshness.py", "60"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(script, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    head, _, *rows = (line.strip("| ").split(" | ") for line in done.stdout.splitlines())
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}

    def share(policy, name):
        return float(found[policy][name].removesuffix(" %"))

    requests = [int(row["requests"].replace(",", "")) for row in found.values()]
    assert max(requests) < 1.1 * min(requests)
    assert share("Greedy", "of optimum by host") >= 95
    for other in ("Uniform", "Adaptive"):
        assert share("Greedy", "after a third") > share(other, "after a third") + 1
        assert share("Greedy", "fresh") > share(other, "fresh")
