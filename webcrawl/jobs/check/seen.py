"""Checks the files of the duplicate URL eliminator and of the content-seen test."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from webcrawl.seen.bloom import filter_path
from webcrawl.seen.bloom_file import read_filter
from webcrawl.seen.content import ContentSnapshot
from webcrawl.seen.levels import run_path
from webcrawl.seen.runs import BLOCK_BYTES, Run
from webcrawl.seen.snapshots import BloomSnapshot, DiskSnapshot, decode_snapshot, tag_of
from webcrawl.seen.url_log import log_path, parse_record
from webcrawl.storage.record_log import HEADER_SIZE, count_packed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_URLS_FORGOTTEN = "URLs that were seen before may be treated as new and fetched again"
_DOCUMENTS_FORGOTTEN = "documents that were seen before may be treated as new and stored again"
_LINKS_LOST = "links found at that time are lost, unless they are found again"
_LATER_LINKS_LOST = "links found since the checkpoint are lost, unless they are found again"


def check_seen(path: Path, snapshot: bytes, findings: Findings) -> None:
    """Check the eliminator's files in the directory *path* against *snapshot*.

    The eliminator may be of either kind.
    """
    state: DiskSnapshot | BloomSnapshot
    if tag_of(snapshot) == "Bloom":
        state = decode_snapshot(snapshot, BloomSnapshot, path=path)
        if state.saved:
            with findings.catch_errors(path, _URLS_FORGOTTEN):
                read_filter(filter_path(path, state.saved))
    else:
        state = decode_snapshot(snapshot, DiskSnapshot, path=path)
        _check_runs(path, state.runs, findings, _URLS_FORGOTTEN)
    _check_log(path, state, findings)


def _check_log(path: Path, state: DiskSnapshot | BloomSnapshot, findings: Findings) -> None:
    """Check the URL log in the directory *path*, both the part in *state* and what follows it."""
    spans = (
        state.files if isinstance(state, BloomSnapshot) else [*state.untaken, state.open_section]
    )
    for span in spans:
        if span.end > span.start:
            file = log_path(path, span.number)
            findings.records(file, _LINKS_LOST, _parse_log_record, start=span.start, end=span.end)

    # Written since the checkpoint: the end of the last of these files, and later files.
    last = spans[-1]
    file = log_path(path, last.number)
    start = max(last.end, HEADER_SIZE)
    findings.records(file, _LATER_LINKS_LOST, _parse_log_record, start=start)
    for file in sorted(path.glob("discovered-*.log")):
        number = int(file.stem.removeprefix("discovered-"))
        if number > last.number + 1 and not log_path(path, number - 1).exists():
            findings.add_since(
                file, 0, "a file of the log before this one is missing", _LATER_LINKS_LOST
            )
        if number > last.number:
            findings.records(file, _LATER_LINKS_LOST, _parse_log_record)


def _parse_log_record(payload: bytes) -> None:
    """Parse a record of the URL log. ValueError if it is not valid.

    There must be as many payloads as fingerprints, or none.
    """
    fingerprints, packed_payloads = parse_record(payload)
    if count_packed(packed_payloads) not in (0, len(fingerprints)):
        raise ValueError("the record is not a URL log record")


def check_content(path: Path, snapshot: bytes, findings: Findings) -> None:
    """Check the files in the directory *path* of the content-seen test in *snapshot*."""
    state = decode_snapshot(snapshot, ContentSnapshot, path=path)
    _check_runs(path, state.runs, findings, _DOCUMENTS_FORGOTTEN)


def _check_runs(
    path: Path, runs: Sequence[tuple[int, int]], findings: Findings, consequence: str
) -> None:
    """Check each of *runs*, a number and a count, up to its first damaged block."""
    for number, count in runs:
        file = run_path(path, number)
        with findings.catch_errors(file, consequence), closing(Run.open(file, count=count)) as run:
            for _ in run.chunks(blocks=1):
                findings.on_progress(BLOCK_BYTES)
