"""The check at the end of every session, that all was given back, sees what was not."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import warm
from conftest import Resources
from crawling import RIGS

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
    own = {"PYTHONPATH": RIGS, "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    run = warm.run(command, cwd=tmp_path, env=os.environ | own)
    assert run.returncode == 1
    assert run.stdout.count("A tester ended with -9.") >= 2
    assert "4 failed, 2 passed" in run.stdout


def test_a_time_out_while_a_process_starts_gives_it_to_no_later_caller(monkeypatch):
    def ended(code):
        return warm.run([sys.executable, "-c", f"raise SystemExit({code})"]).returncode

    assert ended(1) == 1
    orders = warm._server._orders
    cut_short = SimpleNamespace(sendmsg=orders.sendmsg, recv=Mock(side_effect=TimeoutError))
    with monkeypatch.context() as patch:
        patch.setattr(warm._server, "_orders", cut_short)
        with pytest.raises(TimeoutError):
            ended(2)
    assert (ended(3), ended(4)) == (3, 4)


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
