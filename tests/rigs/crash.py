"""kill -9 between any two lines: runs an action again and again, each time dying a little later."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import warm

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ROOT = Path(__file__).parent.parent.parent
DIED = 9


def die_between_lines(action: str, start: Path, out: Path) -> list[Path]:
    """Run *action* ("module:function", called with a path) on copies of the directory *start*.

    Each copy, in *out*, is what is left of a process that ended within webcrawl before a line: no
    ``finally`` was run, no buffer written. There is one copy for each state the files are ever
    in between two lines, in their order; the last one is of a process that ran to its end.
    """
    run = warm.run(
        [sys.executable, __file__, action, start, out],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return sorted(out.iterdir())


def _main(action: str, start: Path, out: Path) -> None:
    module, _, function = action.partition(":")
    act: Callable[[Path], None] = getattr(importlib.import_module(module), function)
    # A process that is killed leaves the same files whether it had synced them or not.
    os.fsync = lambda fd: None

    def in_child(name: str, trace: Callable[[Path], None]) -> int:
        """A process of its own, with no thread in it, is safe to fork, which takes 1 ms."""
        copy = out / name
        shutil.copytree(start, copy)
        child = os.fork()
        if not child:
            trace(copy)
            act(copy)
            sys.settrace(None)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    reading, writing = os.pipe()
    assert in_child("99999", lambda copy: _watch(copy, writing)) == 0
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in map(int, lines):
            assert in_child(f"{line:05d}", lambda _, line=line: _die_before(line)) == DIED


def _watch(directory: Path, pipe: int) -> None:
    """Write to *pipe* the numbers of the lines that find *directory* changed."""
    last: dict[Path, bytes | None] = {}

    def line(number: int) -> None:
        nonlocal last
        files = {path: path.is_file() for path in directory.rglob("*")}
        now = {path: path.read_bytes() if is_file else None for path, is_file in files.items()}
        if now != last:
            os.write(pipe, b"%d\n" % number)
        last = now

    _trace(line)


def _die_before(line: int) -> None:
    _trace(lambda number: os._exit(DIED) if number == line else None)


def _trace(at_line: Callable[[int], None]) -> None:
    """Call *at_line* before each line of webcrawl that is run, with its number in that order."""
    inside = str(ROOT / "webcrawl")
    number = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal number
        if not frame.f_code.co_filename.startswith(inside):
            return None
        if event == "line":
            at_line(number)
            number += 1
        return trace

    sys.settrace(trace)


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
