"""CPU time and memory of a process and all its descendants, from /proc."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
# Memory that files do not back: a program file mapped by six processes would count six times.
_OWN_MEMORY = re.compile(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)


class Usage(NamedTuple):
    """CPU seconds since their start, of ended descendants too, and bytes of memory now."""

    cpu_secs: float
    memory: int


def usage_of(pid: int) -> Usage:
    """Return what process *pid* and its descendants use. Takes about 20 us for each process."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _read(folder / "stat")):
            one = int(folder.name)
            fields = stat.rpartition(")")[2].split()  # the name before it may contain anything
            children.setdefault(int(fields[1]), []).append(one)
            ticks[one] = sum(map(int, fields[11:15]))
    tree = [pid]
    for parent in tree:
        tree += children.get(parent, [])
    status = "".join(_read(Path(f"/proc/{one}/status")) for one in tree)
    kilobytes = sum(map(int, _OWN_MEMORY.findall(status)))
    return Usage(sum(ticks.get(one, 0) for one in tree) / _TICKS, kilobytes << 10)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # the process has ended
        return ""
