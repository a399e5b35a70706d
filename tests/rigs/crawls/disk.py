"""Disks that fail as real ones do: full ones, and ones that lose power."""

import os
import resource
import stat
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest


@contextmanager
def file_size_limit(size_bytes):
    """A disk that fills up: no file of this process can grow beyond *size_bytes* within.

    A write over the limit stops short at it, as on a disk with a few bytes left, and the next one
    raises OSError (EFBIG). Python ignores the signal that comes with it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill_disk_of(process):
    """From now on *process* has a full disk: no file of it can grow, and new ones stay empty."""
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, hard))


@contextmanager
def full_disk(size_bytes, error=OSError):
    """A disk that is full at *size_bytes*. The code inside must raise *error* for that reason."""
    with file_size_limit(size_bytes), pytest.raises(error, match="File too large") as caught:
        yield caught


class PowerLoss:
    """What the disk holds of *root* if the power goes now: what was fsynced, and any part of the
    rest.

    Content belongs to the file (inode) and is durable as it was at the file's last fsync; names
    belong to the directory and are durable as they were at its last fsync. Of each change since
    then the disk has the old state, the new one, or for content something torn between: cut short
    or filled up with zeros.

    ``before_fsync`` is called at each fsync, before it takes effect: the moments when a missing
    one shows. The real fsync is not called: nothing would come of it but waiting.
    """

    def __init__(self, root, monkeypatch):
        self.before_fsync = lambda: None
        self._root = root
        self._contents = {}
        self._names = {}
        self._made = {}  # by ``lose``
        # A number must not go to another file while it means this one.
        self._held = {}
        monkeypatch.setattr(os, "fsync", self._fsync)
        for path in (root, *root.rglob("*")):
            self._remember(path)

    def close(self):
        for fd in self._held.values():
            os.close(fd)

    @property
    def known(self):
        """What of all this another process has to know to go on with the same disk."""
        return self._contents, self._names

    def go_on(self, known):
        """Go on from what an earlier process has ``known``: nothing was synced since. The numbers
        of files that are gone may be given to others: they get new ones, below zero."""
        contents, names = known
        paths = (self._root, *self._root.rglob("*"))
        here = {self._hold(path).st_ino: path.is_dir() for path in paths}
        lowest = min(0, *contents, *names, *chain.from_iterable(map(dict.values, names.values())))
        new = {}

        def number(inode):
            is_same = here.get(inode) == (inode in names)  # a file may have a directory's
            return inode if inode < 0 or is_same else new.setdefault(inode, lowest - len(new) - 1)

        self._contents = {number(inode): content for inode, content in contents.items()}
        self._names = {
            number(inode): {name: number(child) for name, child in children.items()}
            for inode, children in names.items()
        }

    def _fsync(self, fd):
        self.before_fsync()
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path.is_relative_to(self._root):
            self._remember(path)

    def _remember(self, path):
        info = self._hold(path)
        if stat.S_ISDIR(info.st_mode):
            self._names[info.st_ino] = _names(path)
            for child in path.iterdir():
                found = self._hold(child)
                if stat.S_ISDIR(found.st_mode):  # also when it is gone
                    self._names.setdefault(found.st_ino, {})
        else:
            self._contents[info.st_ino] = path.read_bytes()

    def _hold(self, path):
        info = path.stat()
        if info.st_ino not in self._held:
            self._held[info.st_ino] = os.open(path, os.O_RDONLY)
        return info

    def lose(self, target, rng):
        """Make *target* one of the directories that may be found after the power came back."""
        current = {path.stat().st_ino: path for path in (self._root, *self._root.rglob("*"))}
        self._made.clear()
        self._make(self._root.stat().st_ino, target, current, rng)
        return target

    def place_of(self, path):
        """Where ``lose`` has made the file that is *path*; None if it has not."""
        return self._made.get(path.stat().st_ino)

    def _make(self, inode, target, current, rng):
        path = current.get(inode)
        if inode in self._names or (path is not None and path.is_dir()):
            target.mkdir(exist_ok=True)
            old = self._names.get(inode, {})
            new = _names(path) if path is not None else old
            for name, found in _some_of(old, new, rng).items():
                self._make(found, target / name, current, rng)
        elif inode in self._made:
            os.link(self._made[inode], target)
        else:
            self._made[inode] = target
            old_bytes = self._contents.get(inode, b"")
            new_bytes = old_bytes if path is None else path.read_bytes()
            target.write_bytes(_torn(old_bytes, new_bytes, rng))


def _some_of(old, new, rng):
    """A state of a directory between *old* and *new*. A file that was renamed has its old name or
    its new one."""
    found = {}
    renamed = (old.keys() - new.keys(), new.keys() - old.keys())
    moved = {old[name] for name in renamed[0]} & {new[name] for name in renamed[1]}
    names = {inode: name for name, inode in sorted(old.items())}
    of_moved = {inode: rng.choice((old, new)) for inode in sorted(moved, key=names.__getitem__)}
    for name in sorted(old.keys() | new.keys()):
        inode = old[name] if name not in new else new[name]
        is_moved = inode in moved and not (name in old and name in new)
        state = of_moved[inode] if is_moved else rng.choice((old, new))
        if name in state:
            found[name] = state[name]
    return found


def _names(path):
    return {child.name: child.stat().st_ino for child in path.iterdir()}


def _torn(old, new, rng):
    """A state of a file between its durable content and its present one."""
    if old == new:
        return new
    shorter = min(len(old), len(new))
    same = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    at = rng.randrange(same, max(len(old), len(new)) + 1)
    return rng.choice(
        (
            old,
            new,
            new[:at],
            new[:at] + bytes(max(0, len(new) - at)),
            new[:at] + old[at:],
        )
    )


def item(number):
    """An item of a queue, all of one width: a number of them is no number of bytes."""
    return b"%05d" % number


def items(*bounds):
    return list(map(item, range(*bounds)))


def drain(queue):
    """All that is left in *queue*."""
    return [queue.pop() for _ in range(len(queue))]


def flipped(data, at, change=1):
    """Return *data* with the byte *at* changed."""
    return data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]


def flip(path, at, change=1):
    """Change the byte *at* of the file *path*."""
    path.write_bytes(flipped(path.read_bytes(), at, change))


def overwrite(path, data):
    """Write *data* to the file *path*: ext4 waits for the disk if a file is emptied before."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT), "wb") as file:
        file.write(data)
        file.truncate()
