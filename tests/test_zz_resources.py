"""Last of all files: what the tests before it took from the system they have given back."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from conftest import Resources


def test_nothing_is_left_over_from_the_whole_session(at_session_start):
    gc.collect()
    assert Resources().beyond(at_session_start) == {
        "threads": [],
        "processes": [],
        "descriptors": [],
        "temporary": [],
    }


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
    assert any(f"pid={child.pid}," in process for process in left["processes"])
