"""Instructions that each part of a page takes, against those of the last release, in turn."""

import os
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / ".release"
ROWS = tomllib.loads((ROOT / "tests/data/page_parts.toml").read_text(encoding="utf-8"))["grown"]
# A part has grown if it takes more than both of these beyond what it may take.
SHARE = 1.02
INSTRUCTIONS = 10_000

# A function of extraction that calls one of the eliminator twice; both run the same loop.
TWO_PARTS = r"""
import pathlib, sys
sys.path.insert(0, "benchmarks")
import parts

def function(module, *lines):
    names = {}
    exec(compile("\n  ".join(lines), f"/webcrawl/{module}.py", "exec"), names)
    return names["call"]

loop = "for _ in range(count): pass"
inner = function("seen/disk_set", "def call(count):", loop)
outer = function("urls/extraction/html", "def call(inner, count):", *["inner(count)"] * 2, loop)
counter = parts.compile_counter(pathlib.Path(sys.argv[1]))
parts.tell_parts_apart(counter)
outer(inner, 1)
counter.start_counting()
outer(inner, int(sys.argv[2]))
counter.stop_counting()
"""


def grown_parts(before, now, allowed):
    """Sentences about the parts that take more *now* than *before* and what is *allowed*."""
    return [
        f"{part}: {now[part]:,} instructions a page, not {before[part] + allowed[part]:,}"
        for part in now
        if now[part] > SHARE * (before[part] + allowed[part])
        and now[part] > INSTRUCTIONS + before[part] + allowed[part]
    ]


def instructions_by_part(output):
    """The table that page_instructions.py prints for each of its checkouts."""
    tables = []
    for line in output.splitlines():
        if "million" in line:
            tables.append(Counter())
        else:
            instructions, part = line.split(maxsplit=1)
            tables[-1][part] = int(instructions.replace(",", ""))
    return tables


def test_a_part_has_grown_by_more_than_two_percent_and_ten_thousand_instructions():
    before = Counter(gates=1_000_000, logs=100_000)
    assert not grown_parts(before, Counter(gates=1_020_000, logs=110_000), Counter())
    assert grown_parts(before, Counter(gates=1_020_001, logs=110_001), Counter()) == [
        "gates: 1,020,001 instructions a page, not 1,000,000",
        "logs: 110,001 instructions a page, not 100,000",
    ]
    assert not grown_parts(before, Counter(gates=1_040_000), Counter(gates=20_000))
    assert grown_parts(before, Counter(new=10_001), Counter())


@pytest.mark.long
def test_a_part_is_counted_without_the_parts_that_it_calls(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from parts import instructions_by_part as read_profile

    def count(loops):
        profile = tmp_path / f"profile-{loops}"
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-line=no"]
        command += [f"--callgrind-out-file={profile}", sys.executable, "-c", TWO_PARTS]
        subprocess.run([*command, tmp_path, str(loops)], cwd=ROOT, capture_output=True, check=True)
        return read_profile(profile.read_text(encoding="utf-8"))

    grown = count(101_000)
    grown.subtract(count(1_000))
    assert grown["extraction"] > 100_000
    assert grown["eliminator"] == pytest.approx(2 * grown["extraction"], rel=0.01)
    assert grown.total() == pytest.approx(3 * grown["extraction"], rel=0.01)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_no_part_of_a_page_has_grown_since_the_last_release():
    assert RELEASE.is_dir(), "make test-long makes .release"
    script = ROOT / "benchmarks/page_instructions.py"
    done = subprocess.run(
        [sys.executable, script, "--parts", "--pages", "400", "--against", RELEASE],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, now = instructions_by_part(done.stdout)
    allowed = Counter()
    for row in ROWS:
        assert row["part"] in now, row
        allowed[row["part"]] += row["instructions"]
    assert not grown_parts(before, now, allowed)
