"""The check at the end of every session, that all was given back, sees what was not."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from conftest import Resources


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
