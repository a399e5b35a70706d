"""Check of the logs of JSON lines, which the crawl itself does not need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.storage.line_log import numbered

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

LOGS: Final = ("logs/info.jsonl", "logs/critical.jsonl", "logs/stats.jsonl")
#: Longer ones nobody writes: see crawl/outcome_log.py, critical_errors.py.
MAX_LINE_BYTES: Final = 1 << 20
_LINE: Final = "what became of that URL is not told; the crawl itself does not read it"
_CUT: Final = "the next start cuts it off: it was being written when the process or the power died"

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def check_logs(jobdir: Path, findings: Findings, *, trusted: bool = True) -> None:
    """Every line of every log of the job; *trusted* as in ``Checkpoint``."""
    for name in LOGS:
        active = jobdir / name
        for file in [*numbered(active), active]:
            if file.exists():
                check_log(file, findings, may_be_torn=file == active or not trusted)


def check_log(path: Path, findings: Findings, *, may_be_torn: bool) -> None:
    """Every line of one file; the last one may be torn in the file that is appended to, and after
    a power failure in any."""
    offset = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            findings.on_progress(len(line))
            what = damage_of(line)
            if what and may_be_torn and not line.endswith(b"\n") and not file.read(1):
                findings.note(path, offset, "the last line has no end", _CUT)
            elif what:
                findings.add(path, offset, what, _LINE)
            offset += len(line)


def damage_of(line: bytes) -> str:
    """What is wrong with *line*; empty if nothing is."""
    if not line.endswith(b"\n"):
        return "a line without an end"
    try:
        _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"a line that is no JSON object ({error})"
    return ""
