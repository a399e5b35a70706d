"""kill -9 between any two lines: what an action leaves that is cut off there, wherever it is."""

import importlib
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import warm

ROOT = Path(__file__).parents[3]
# More than the steps of the clock by which a system dates its files.
_COARSE_NS = 50_000_000


def die_between_lines(action, start, out):
    """Run *action* ("module:function", called with a path) on copies of the directory *start*.

    Each copy, in *out*, is what would be left of a process that ended within webcrawl before a
    line: no ``finally`` was run, no buffer written. There is one copy for each state the files are
    ever in between two lines, in their order; the last one is of a process that ran to its end.
    """
    run = warm.run(
        [sys.executable, __file__, action, start, out],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    assert run.returncode == 0, run.stderr
    return sorted(out.iterdir())


def _main(action, start, out):
    module, _, function = action.partition(":")
    act = getattr(importlib.import_module(module), function)
    # A process that is killed leaves the same files whether it had synced them or not.
    os.fsync = lambda fd: None
    living = out / "99999"
    shutil.copytree(start, living)
    tree, changes = _Tree(living), _Changes()

    def line(number):
        assert threading.active_count() == 1, "another thread writes on"
        if tree.has_shared_memory or changes.may_be_there():
            if tree.has_changed():
                _copy(living, out / f"{number:05d}")
            changes.forget()

    _trace(line)
    act(living)
    sys.settrace(None)
    os._exit(0)


def _copy(tree, to):
    """A copy in which names of one file are names of one file, too."""
    copies = {}

    def copy(source, target):
        inode = os.stat(source).st_ino  # noqa: PTH116  # copytree gives strings
        if inode in copies:
            os.link(copies[inode], target)
        else:
            shutil.copy2(source, target)
            copies[inode] = target

    shutil.copytree(tree, to, copy_function=copy)


class _Changes:
    """What this process may have changed: the system counts its writes, Python tells the rest."""

    def __init__(self):
        self._counts = os.open("/proc/self/io", os.O_RDONLY)
        self._calls = 0
        self._known = ()
        sys.addaudithook(self._take_note)

    def _take_note(self, event, _):
        self._calls += event.startswith(("open", "os.", "shutil.", "sqlite3."))

    def _so_far(self):
        return self._calls, os.pread(self._counts, 200, 0).split()[7]

    def may_be_there(self):
        return self._known != self._so_far()

    def forget(self):
        self._known = self._so_far()


class _Tree:
    """All that is below *directory*. A file is read again only where it may have changed: where its
    inode, size or time is another one, or the time too near to that of the last reading to tell."""

    def __init__(self, directory):
        self._directory = str(directory)
        self._contents = {}
        # By path: inode, size and time of a file, and when it was read.
        self._read = {}

    @property
    def has_shared_memory(self):
        """Whether there is a file of SQLite that changes without a write."""
        return any(path.endswith("-shm") for path in self._contents)

    def has_changed(self):
        """Since the last time."""
        before, self._contents = self._contents, {}
        self._look(self._directory, before)
        return before != self._contents

    def _look(self, directory, before):
        with os.scandir(directory) as entries:
            for entry in entries:
                path = entry.path
                if entry.is_dir():
                    self._contents[path] = None
                    self._look(path, before)
                    continue
                stat = entry.stat()
                stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
                last, read_at = self._read.get(path, (None, 0))
                if path in before and stamp == last and stat.st_mtime_ns + _COARSE_NS < read_at:
                    self._contents[path] = before[path]
                    continue
                self._read[path] = (stamp, time.time_ns())
                self._contents[path] = Path(path).read_bytes()


def _trace(at_line):
    """Call *at_line* before each line of webcrawl that is run, with its number in that order."""
    inside = str(ROOT / "webcrawl")
    number = 0

    def trace(frame, event, _):
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
