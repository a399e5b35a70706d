"""Starts programs that have no network and see no files but the system's and their own.

The program runs in namespaces: a network without interfaces that work, a tree of files that has the
system's programs (read-only) and one directory, its own processes only. As root these are plain
namespaces, and the program runs as ``nobody``; else they are user namespaces. Chromium's own
sandbox works inside of both. The commands are those of util-linux 2.38 or newer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from webcrawl.render.process_tree import read_file

_NOBODY = 65534
# In the names of directories, the id of the process that uses the directory follows.
_PREFIX = "webcrawl-render-"
# Seconds that the namespaces may take to set up.
_TRY_SECS = 20.0

# The program's end of two pipes is 3 and 4, as Chromium wants them.
_RUN = """
cd "$own"
ulimit -c 0; ulimit -f 409600; ulimit -d 2000000
exec "$@" 3<&0 4>&1 </dev/null >&2
"""
# In a user namespace, mounts cannot be made read-only, but there the files belong to nobody.
_ENTER = f"""
set -eu
own=/own program=$1
shift
mount -t tmpfs -o mode=755 none /tmp
cd /tmp
mkdir -p proc dev/shm tmp etc old own
chmod 1777 dev/shm tmp
mount -t tmpfs -o mode=777,size=256m none own
for path in /usr /bin /sbin /lib /lib32 /lib64 /etc/alternatives /etc/chromium.d /etc/fonts \
    /etc/ld.so.cache "$program"; do
  if [ -L "$path" ]; then cp -P "$path" ".$path"
  elif [ -d "$path" ]; then
    mkdir -p ".$path"
    mount --rbind "$path" ".$path"
    mount -o remount,bind,ro ".$path" || true
  elif [ -e "$path" ]; then touch ".$path"; mount --bind "$path" ".$path"
  fi
done
for device in full null random urandom zero; do
  touch "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
mount -t proc proc proc
pivot_root . old
umount -l /old
{_RUN}
"""
_PLAIN = f"own=$1; shift; {_RUN}"
# Ends a program when its parent process ends, even if that is killed. A change of the user clears
# this (prctl(2)), so it is needed before and after.
ENDS_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]
_START = ["nice", "-n", "10", *ENDS_WITH_PARENT]
_NAMESPACES = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child"]
_USERS = ["--user", "--map-root-user"]
_LEAVE_USERS = f"unshare --user --map-user={_NOBODY} --map-group={_NOBODY}".split()
_LEAVE_ROOT = f"""
    setpriv --reuid {_NOBODY} --regid {_NOBODY} --clear-groups --bounding-set -all --inh-caps -all
""".split()
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_WARNING = (
    "This machine does not allow namespaces, so only the rendering engine's own rules keep pages "
    "from the network and from files: allow user namespaces, or render on another machine."
)


def packets_of(pid: int) -> int:
    """Return how many packets were sent in the network namespace of process *pid*."""
    # Two lines of headings, then "interface: ..." with the packets sent in the tenth column.
    counters = read_file(Path(f"/proc/{pid}/net/dev")).splitlines()[2:]
    return sum(int(line.partition(":")[2].split()[9]) for line in counters)


class Isolation:
    """Home of a program, and the command that runs it in namespaces.

    ``warning`` is a sentence if this machine does not allow namespaces, else "". The program then
    sees the network and all files that its user may read, and its own rules have to do. It never
    runs as root.
    """

    def __init__(self, executable: str) -> None:
        """Try the namespaces; if they are not allowed, make a directory.

        Directories of processes that were killed are deleted. *executable* is the program's path.
        """
        self._program = str(Path(executable).resolve().parent)
        self._as_root = os.geteuid() == 0
        # With a warning, ``command`` would not use the namespaces that are tried here.
        self.warning = ""
        #: The program's home; in the namespaces it is in memory.
        self.directory = "/own"
        try:
            tried = subprocess.run(  # noqa: S603  # all words are ours
                self.command(["true"]),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRY_SECS,
                check=False,
            ).returncode
        except (OSError, subprocess.TimeoutExpired):
            tried = 1
        # Directories of killed processes: none has the process id in the directory's name.
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if not read_file(Path("/proc", left.name.split("-")[2], "cmdline")):
                shutil.rmtree(left, ignore_errors=True)
        if tried:
            self.warning = _WARNING
            self.directory = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
            if self._as_root:
                os.chown(self.directory, _NOBODY, _NOBODY)
        names = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
        #: Environment of the program. It has no variables of the crawl, so no keys.
        self.environment = {"PATH": _PATH, "LANG": "C.UTF-8"} | dict.fromkeys(names, self.directory)

    def command(self, program: list[str]) -> list[str]:
        """Return the command that runs *program*, with pipes for its descriptors 3 and 4.

        The command's standard input and output are the other ends.
        """
        program = [*ENDS_WITH_PARENT, *program]
        # *enter* creates the namespaces, a script sets them up, and *leave* gives up its rights.
        leave = _LEAVE_ROOT if self._as_root else []
        if self.warning:
            return [*_START, *leave, "sh", "-c", _PLAIN, "sh", self.directory, *program]
        enter = _NAMESPACES if self._as_root else [*_NAMESPACES, *_USERS]
        leave = leave or _LEAVE_USERS
        return [*_START, *enter, "sh", "-c", _ENTER, "sh", self._program, *leave, *program]

    def remove(self) -> None:
        """Delete the directory, if there is one outside of memory. The program must have ended."""
        if self.warning:
            shutil.rmtree(self.directory, ignore_errors=True)
