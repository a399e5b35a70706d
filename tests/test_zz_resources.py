"""The check at the end of every session, that all was given back, sees what was not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import warm
from conftest import Resources
from crawling import ROOT

_TESTS = """
import os, signal
def test_good(): print("seen")
def test_bad(): assert os.getpid() != os.getppid() and 0
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
"""


def test_testers_report_what_fails_and_who_died(tmp_path):
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(_TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--assert=plain",
        "-p",
        "testers",
        "--testers=2",
        ".",
    ]
    own = {"PYTHONPATH": str(ROOT / "tests/rigs"), "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    run = warm.run(command, cwd=tmp_path, env=os.environ | own)
    assert run.returncode == 1
    assert run.stdout.count("A tester ended with -9.") >= 2
    assert "4 failed, 2 passed" in run.stdout


def test_leftovers_of_each_kind_would_be_seen():
    before = Resources()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="forgotten thread")
    thread.start()
    code = [sys.executable, "-c", "input()"]
    with (
        tempfile.TemporaryDirectory() as directory,
        (Path(directory) / "forgotten file").open("wb"),
        subprocess.Popen(code, stdin=subprocess.PIPE) as child,
    ):
        left = Resources().beyond(before)
        child.communicate(b"\n")
    release.set()
    thread.join()
    assert left["threads"] == ["forgotten thread"]
    assert left["temporary"] == [directory]
    assert any("forgotten file" in descriptor for descriptor in left["descriptors"])
    assert any(process.startswith(f"{child.pid} ") for process in left["processes"])
