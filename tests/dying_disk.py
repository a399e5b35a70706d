"""A process's view of its disk, which can end with the process at any call that changes a file.

While it is installed, everything that webcrawl does to files below one directory goes through
here. ``arm`` says at which call from now on something happens:

- ``kill``: the process is no more. The call was made, was not made, or was made in part, and
  nothing that the process would still do on its way out (``finally``, other threads) is done.
- ``power``: the same, and the machine goes down with it: see ``disk.PowerLoss``.
- ``full``: the disk is full for a number of calls; a write may stop short first, as on a real one.

A change that a caller makes by another way than the calls in ``_REPLACED`` is not seen.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disk import PowerLoss

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    import pytest

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Killed(BaseException):
    """What a dead process gets for an answer. Nothing may catch it."""


class DyingDisk:
    """The disk below *root*. Threads of the process share it."""

    def __init__(self, root: Path, *, patch: pytest.MonkeyPatch, rng: random.Random) -> None:
        self.root = root
        self.dead = False
        self.was_full = False  # at any time of this process
        self.before_fsync: Callable[[], None] = lambda: None
        self._rng = rng
        self._patch = patch
        self._kind = ""
        self._left = self._lasting = 0
        self._guard = threading.RLock()
        self._open: dict[int, str] = {}
        self._untracked = False
        self._real = {name: getattr(os, name) for name in _REPLACED}
        with self.untracked():
            self._power = PowerLoss(root, patch)
        for name, function in _REPLACED.items():
            patch.setattr(os, name, function.__get__(self))
        patch.setattr(Path, "open", self._path_open(Path.open))

    def close(self) -> None:
        """Before the patches are taken back."""
        self._power.close()

    # --- what is to happen

    def arm(self, kind: str, *, after: int, lasting: int = 1) -> None:
        """*kind* happens at the *after*-th change from now; ``full`` for *lasting* changes."""
        self._kind, self._left, self._lasting = kind, after, lasting

    def disarm(self) -> None:
        self._kind = ""

    @property
    def armed(self) -> str:
        """What is still to happen, or goes on, or has killed the process."""
        return self._kind

    def bury(self) -> None:
        """The dead process's descriptors are closed; the next one may begin."""
        for fd in [*self._open]:
            os.close(fd)
        self.dead = self.was_full = False
        self.disarm()

    def lose_power(self, target: Path) -> None:
        """What the disk holds after a power failure is put into *target*, the new root."""
        with self.untracked():
            self._power.lose(target, self._rng)
            self._power.close()
            self.root = target
            self._power = PowerLoss(target, self._patch)
            self._patch.setattr(os, "fsync", self._fsync)

    @property
    def open_files(self) -> list[str]:
        """What the process holds open."""
        return sorted(self._open.values())

    @contextmanager
    def untracked(self) -> Iterator[None]:
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
        perform: Callable[[], Any],
        *,
        part: Callable[[], Any] | None = None,
        takes_room: bool = True,
    ) -> Any:
        """Do it, unless this is where the process or the disk comes to its end."""
        with self._guard:
            if self.dead:
                raise Killed
            if not self._kind or (self._kind == "full" and not takes_room):
                return perform()
            self._left -= 1
            if self._left > 0:
                return perform()
            if self._kind != "full":
                self._die(perform, part)
            if not self._lasting:
                self.disarm()
                return perform()
            self._lasting -= 1
            self.was_full = True
            if part is not None and self._rng.random() < 0.5:
                return part()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _die(self, perform: Callable[[], Any], part: Callable[[], Any] | None) -> None:
        how = self._rng.choice(("before", "in part", "after"))
        if how == "in part" and part is not None:
            part()
        elif how == "after":
            perform()
        self.dead = True
        raise Killed

    def _is_here(self, path: Any) -> bool:
        return f"{os.fspath(path)}{os.sep}".startswith(f"{self.root}{os.sep}")

    # --- the calls

    def _os_open(self, path: Any, flags: int, mode: int = 0o777, **kwargs: Any) -> int:
        def perform() -> int:
            fd: int = self._real["open"](path, flags, mode, **kwargs)
            if not self._untracked:
                self._open[fd] = os.fspath(path)
            return fd

        with self._guard:
            if not self._is_here(path):
                return int(self._real["open"](path, flags, mode, **kwargs))
            if self._untracked or not flags & _WRITES:
                return perform()
            creates = bool(flags & os.O_CREAT) and not Path(path).exists()
            return int(self._change(perform, takes_room=creates))

    def _path_open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """``Path.open`` does not go through ``os.open``. Only opening is a change then."""

        def path_open(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if "r" in mode or not self._is_here(path):
                return real(path, mode, *args, **kwargs)
            return self._change(lambda: real(path, mode, *args, **kwargs))

        return path_open

    def _close(self, fd: int) -> None:
        with self._guard:
            self._open.pop(fd, None)
            self._real["close"](fd)

    def _write(self, fd: int, data: Any) -> int:
        write: Callable[[int, Any], int] = self._real["write"]
        if fd not in self._open:
            return write(fd, data)
        length = memoryview(data).nbytes

        def part() -> int:
            return write(fd, data[: self._rng.randrange(1, length)])

        return int(self._change(lambda: write(fd, data), part=part if length > 1 else None))

    def _ftruncate(self, fd: int, length: int) -> None:
        if fd not in self._open:
            self._real["ftruncate"](fd, length)
        else:
            self._change(lambda: self._real["ftruncate"](fd, length), takes_room=False)

    def _fsync(self, fd: int) -> None:
        if fd not in self._open:  # above the root: nothing would come of it but waiting
            return
        self.before_fsync()

        def perform() -> None:
            with self.untracked():
                self._power._fsync(fd)

        self._change(perform)

    def _unlink(self, path: Any, **kwargs: Any) -> None:
        self._rename("unlink", path, **kwargs)

    def _replace(self, path: Any, *args: Any, **kwargs: Any) -> None:
        self._rename("replace", path, *args, **kwargs)

    def _mkdir(self, path: Any, *args: Any, **kwargs: Any) -> None:
        self._rename("mkdir", path, *args, **kwargs)

    def _rename(self, name: str, path: Any, *args: Any, **kwargs: Any) -> None:
        def perform() -> None:
            self._real[name](path, *args, **kwargs)

        with self._guard:
            if self._is_here(path) and not self._untracked:
                self._change(perform, takes_room=name != "unlink")
            else:
                perform()


_REPLACED: dict[str, Any] = {
    "open": DyingDisk._os_open,
    "close": DyingDisk._close,
    "write": DyingDisk._write,
    "ftruncate": DyingDisk._ftruncate,
    "fsync": DyingDisk._fsync,
    "unlink": DyingDisk._unlink,
    "replace": DyingDisk._replace,
    "mkdir": DyingDisk._mkdir,
}
