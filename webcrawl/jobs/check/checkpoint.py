"""Check of the checkpoint: CURRENT, its manifest and its snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.crawl.jobdir import read_checkpoint
from webcrawl.errors import FatalError
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.crawl.jobdir import Checkpoint
    from webcrawl.jobs.check.findings import Findings

_ALL: Final = "the crawl cannot be resumed, and its queues cannot be told from what is left over"
#: Without these there is no crawl.
NEEDED: Final = ("shards/00/frontier", "shards/00/seen")


def check_checkpoint(jobdir: Path, findings: Findings) -> Checkpoint | None:
    """The live checkpoint of the job; None when it is damaged.

    Raises FatalError when there never was one, NewerFormatError.
    """
    try:
        checkpoint = read_checkpoint(jobdir)
    except CorruptRecordError as error:
        findings.add(error.path, error.offset, error.why, _ALL)
        return None
    if checkpoint is None:
        # The first one is there without CURRENT while it is being published.
        if {path.name for path in jobdir.glob("manifest-*.json")} <= {"manifest-000001.json"}:
            raise FatalError(f"There is no crawl in JOBDIR {jobdir}: name another one.")
        findings.add(jobdir / "CURRENT", 0, "the file is gone", _ALL)
        return None
    for name in NEEDED:
        if name not in checkpoint.snapshots:
            findings.add(jobdir / "CURRENT", 0, f"its checkpoint has no part {name}", _ALL)
    return checkpoint
