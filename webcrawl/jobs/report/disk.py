"""Says when the disk of a crawl is full, from its history and the size of its files."""

from __future__ import annotations

import os
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING

from webcrawl import settings
from webcrawl.doctor.history import DAY, HOUR, MINUTE, SECONDS, read_series
from webcrawl.hive.launch.crawl_stats import stats_of
from webcrawl.jobs.inspect.why_text import estimated_moment
from webcrawl.jobs.report.figures import size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# So many seconds of the last hour must have records. At each end of the hour, the median of so many
# minutes counts: what is written and deleted within minutes says nothing.
_MIN_SECS = 1800.0
_END_MINUTES = 10
_MAX_SECS = 366 * DAY
_MIN_FREE = "DISK_MIN_FREE_BYTES"
_OTHERS = " Of the {} by which it has filled in the last hour, {} are not of this crawl."


def disk_outlook(path: Path, jobdirs: Sequence[Path], *, crawl_secs: float) -> tuple[str, bool]:
    """Say when the disk of the crawl in *path* is full, and whether that needs attention.

    The disk fills as in the last hour or, if that is slower, as the job has grown on average of its
    running time, *crawl_secs*: what other programs write says little about the next days. Only if
    the crawl would have to pause within an hour, all counts. Returns "" for a crawl with too few
    records. Looks at all files of the crawl.
    """
    hour = read_series(jobdirs, MINUTE)
    hour = hour.since(float(hour.at.max(initial=0.0)) - HOUR)
    if not crawl_secs or hour.total(SECONDS) < _MIN_SECS:
        return "", False
    free = hour.columns["free disk"].tolist()
    now = float(hour.at[-1]) + MINUTE
    secs = float(hour.at[-_END_MINUTES] - hour.at[0])
    left = median(free[-_END_MINUTES:])
    filled = median(free[:_END_MINUTES]) - left
    grown = _size_of(path) / crawl_secs * secs
    if filled <= 0:
        return "The disk has not filled in the last hour.", False

    min_free = _min_free_bytes(jobdirs[0])
    room = max(left - min_free, 0.0)
    is_near = room <= filled  # whoever fills it
    used = filled if is_near else min(filled, grown)
    full_in = room * secs / max(used, 1.0)
    when = f"at {estimated_moment(now + min(full_in, _MAX_SECS), now)}"
    if full_in > _MAX_SECS:
        when = "in a year at the earliest"
    basis = "it fills as in the last hour" if used == filled else "the job grows as until now"
    pause = f", except for DISK_MIN_FREE_BYTES ({size(min_free)}), and the crawl will pause"
    text = f"The disk will be full{pause if min_free else ''} {when}, if {basis}."
    if filled > 2 * grown:
        text += _OTHERS.format(size(filled), size(filled - grown))
    return text, is_near or full_in < DAY


def _size_of(path: Path) -> int:
    """Return the number of bytes that the files in the directory *path* take on the disk."""
    sizes = {}  # by inode: checkpoints are links
    for directory, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # it was deleted
                file = os.lstat(os.path.join(directory, name))  # noqa: PTH118  # faster
                sizes[file.st_ino] = 512 * file.st_blocks
    return sum(sizes.values())


def _min_free_bytes(jobdir: Path) -> int:
    """Return the free space at which the crawl in *jobdir* pauses; 0 if it does not."""
    with suppress(ValueError, TypeError):
        return int(stats_of(jobdir).get(f"settings/{_MIN_FREE}", getattr(settings, _MIN_FREE)))
    return 0
