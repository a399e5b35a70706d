"""A crawl that visits its pages for weeks of virtual time, and is killed in between, stays flat."""

import csv
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crawling import wait_until

ROOT = Path(__file__).resolve().parents[2]
DAYS = 24


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_disk_and_memory_are_flat_in_the_last_two_thirds(tmp_path):
    words = ["--visits", "4000", "--days", str(DAYS), "--hosts", "20"]
    script = [sys.executable, ROOT / "benchmarks/soak_visits.py", tmp_path, *words]
    table = tmp_path / "days.csv"
    with subprocess.Popen(script, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}) as process:
        wait_until(lambda: table.exists() and table.read_text().count("\n") > 2, secs=600)
        process.send_signal(signal.SIGKILL)
    subprocess.run(script, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=True)
    rows = [*csv.DictReader(table.read_text().splitlines())]
    assert [int(row["day"]) for row in rows] == [*range(1, DAYS + 1)]
    assert int(rows[-1]["visits"]) > 3000
    # Of each day no more than what KEEP_DAYS=2 keeps.
    a_day = int(rows[0]["logs"])
    assert int(rows[-1]["logs"]) < 5 * a_day
