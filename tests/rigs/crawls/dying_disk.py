"""A process's view of its disk, which can end with the process at any call that changes a file.

While it is installed, everything that webcrawl does to files below one directory goes through
here. ``arm`` says at which call from now on something happens:

- ``kill``: the process is no more. The call was made, was not made, or was made in part, and
  nothing that the process would still do on its way out (``finally``, other threads) is done.
- ``power``: the same, and the machine goes down with it: see ``disk.PowerLoss``.
- ``full``: the disk is full for a number of calls; a write may stop short first, as on a real one.
- ``broken``: the disk refuses a number of calls, whatever they are.

Which calls count is what ``counts`` says. A change that a caller makes by another way than the
calls in ``_ON_DESCRIPTORS`` and ``_ON_NAMES`` and ``Path.open`` is not seen, so nothing that SQLite
does.
"""

import errno
import io
import os
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from disk import PowerLoss

_ON_DESCRIPTORS = ("open", "close", "dup", "write", "ftruncate", "fsync")
_ON_NAMES = ("unlink", "rmdir", "replace", "rename", "link", "mkdir")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


_ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO}


class Killed(BaseException):
    """What a dead process gets for an answer. Nothing may catch it."""


def _killed():
    raise Killed


class DyingDisk:
    """The disk below *root*. Threads of the process share it."""

    def __init__(self, root, *, patch, rng):
        self.root = root
        self.dead = False
        self.was_full = False  # at any time of this process
        # Told of each call by its name and the path; whether it is one that ``arm`` counts.
        self.counts = lambda call, path: True
        # What becomes of the thread that makes the call at which the process ends.
        self.end = _killed
        self._rng = rng
        self._patch = patch
        self._kind = ""
        self._left = self._lasting = 0
        self._guard = threading.RLock()
        self._paths = {}
        self._objects = set()  # of the open ones, those that a file object closes
        self._untracked = False
        self._real = {name: getattr(os, name) for name in (*_ON_DESCRIPTORS, *_ON_NAMES)}
        with self.untracked():
            self.power = PowerLoss(root, patch)
        for name in _ON_DESCRIPTORS:
            patch.setattr(os, name, getattr(self, f"_{name}"))
        for name in _ON_NAMES:
            patch.setattr(os, name, partial(self._rename, name))
        patch.setattr(Path, "open", self._path_open(Path.open))

    def close(self):
        """Before the patches are taken back."""
        self.power.close()

    # --- what is to happen

    def arm(self, kind, *, after, lasting=1):
        """*kind* happens at the *after*-th change that counts from now; ``full`` and ``broken`` for
        that one and the next ones of any kind, *lasting* in all."""
        self._kind, self._left, self._lasting = kind, after, lasting

    def disarm(self):
        self._kind = ""

    def bury(self):
        """The dead process's descriptors are closed; the next one may begin."""
        for fd in self._paths.keys() - self._objects:
            os.close(fd)
        self._paths.clear()
        self._objects.clear()
        self.dead = self.was_full = False
        self.disarm()

    def lose_power(self, target):
        """What the disk holds after a power failure is put into *target*, the new root."""
        with self.untracked():
            self.power.lose(target, self._rng)
            self.power.close()
            self.root = target
            self.power = PowerLoss(target, self._patch)
            self._patch.setattr(os, "fsync", self._fsync)

    @contextmanager
    def untracked(self):
        """Within, files are opened by the test, not by the process."""
        with self._guard:
            self._untracked, before = True, self._untracked
            try:
                yield
            finally:
                self._untracked = before

    # --- what happens

    def _change(
        self,
        call,
        path,
        perform,
        *,
        part=None,
        takes_room=True,
    ):
        """Do it, unless this is where the process or the disk comes to its end."""
        with self._guard:
            if self.dead:
                raise Killed
            counted = self.counts(call, path)
            if not self._kind or (self._kind == "full" and not takes_room):
                return perform()
            if self._left > 0:
                self._left -= counted
                if self._left > 0 or not counted:
                    return perform()
            if self._kind not in _ERRORS:
                self._die(perform, part)
            if not self._lasting:
                self.disarm()
                return perform()
            self._lasting -= 1
            self.was_full = True
            if self._kind == "full" and part is not None and self._rng.random() < 0.5:
                return part()
            number = _ERRORS[self._kind]
            raise OSError(number, os.strerror(number), path)

    def _die(self, perform, part):
        how = self._rng.choice(("before", "in part", "after"))
        if how == "in part" and part is not None:
            part()
        elif how == "after":
            perform()
        self.dead = True
        self.end()

    def _is_here(self, path):
        return f"{path}{os.sep}".startswith(f"{self.root}{os.sep}")

    # --- the calls

    def _open(self, path, flags, mode=0o777, *, dir_fd=None):
        where = _where(path, dir_fd)

        def perform():
            fd = self._real["open"](path, flags, mode, dir_fd=dir_fd)
            if not self._untracked:
                self._paths[fd] = where
            return fd

        with self._guard:
            if not self._is_here(where):
                return self._real["open"](path, flags, mode, dir_fd=dir_fd)
            if self._untracked or not flags & _WRITES:
                return perform()
            creates = bool(flags & os.O_CREAT) and not Path(where).exists()
            call = "create" if creates else "open"
            return self._change(call, where, perform, takes_room=creates)

    def _path_open(self, real):
        """``Path.open`` does not go through ``os.open``, nor its writes through ``os.write``."""

        def path_open(path, mode="r", *args, encoding=None, **kwargs):
            if "r" in mode or self._untracked or not self._is_here(os.fspath(path)):
                return real(path, mode, *args, encoding=encoding, **kwargs)
            raw = _DyingFile(path, mode.replace("b", ""), disk=self)
            buffered = io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding=encoding)

        return path_open

    def _close(self, fd):
        with self._guard:
            self._paths.pop(fd, None)
            self._real["close"](fd)

    def _dup(self, fd):
        with self._guard:
            copy = self._real["dup"](fd)
            if fd in self._paths:
                self._paths[copy] = self._paths[fd]
            return copy

    def _write(self, fd, data):
        write = self._real["write"]
        if fd not in self._paths:
            return write(fd, data)
        length = memoryview(data).nbytes

        def part():
            return write(fd, data[: self._rng.randrange(1, length)])

        perform = partial(write, fd, data)
        return self._change("write", self._paths[fd], perform, part=part if length > 1 else None)

    def _ftruncate(self, fd, length):
        truncate = self._real["ftruncate"]
        if fd not in self._paths:
            truncate(fd, length)
        else:
            where = self._paths[fd]
            self._change("truncate", where, lambda: truncate(fd, length), takes_room=False)

    def _fsync(self, fd):
        if fd not in self._paths:  # above the root: nothing would come of it but waiting
            return

        def perform():
            with self.untracked():
                self.power._fsync(fd)

        self._change("fsync", self._paths[fd], perform)

    def _rename(self, name, path, *args, **kwargs):
        def perform():
            self._real[name](path, *args, **kwargs)

        where = _where(args[0] if name == "link" else path, kwargs.get("dir_fd"))
        with self._guard:
            if self._is_here(where) and not self._untracked:
                self._change(name, where, perform, takes_room=name not in {"unlink", "rmdir"})
            else:
                perform()


def _where(path, dir_fd):
    """The whole path of what a call names."""
    if dir_fd is None:
        return os.fspath(path)
    return os.fspath(Path(f"/proc/self/fd/{dir_fd}").readlink() / path)


class _DyingFile(io.FileIO):
    """What ``Path.open`` gives for writing, below its buffers."""

    def __init__(self, path, mode, *, disk):
        self._disk = disk
        super().__init__(path, mode, opener=os.open)
        disk._objects.add(self.fileno())

    def write(self, data):
        return self._disk._write(self.fileno(), data)

    def close(self):
        if not self.closed:
            self._disk._objects.discard(self.fileno())
            self._disk._paths.pop(self.fileno(), None)
        super().close()
