"""Check of an eliminator and of the content-seen test: runs, filter, URL log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.seen.bloom import filter_path
from webcrawl.seen.bloom_file import read_filter
from webcrawl.seen.content import ContentSnapshot
from webcrawl.seen.levels import overlap, run_path
from webcrawl.seen.run_scan import scan_run
from webcrawl.seen.runs import Run
from webcrawl.seen.snapshots import BloomSnapshot, DiskSnapshot, decode_snapshot, tag_of
from webcrawl.seen.url_log import log_path, parse_record
from webcrawl.storage.record_log import HEADER_SIZE, count_packed

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings
    from webcrawl.seen.url_log import Span

_URLS: Final = "URLs that were seen may be taken for new ones and fetched again"
_DOCUMENTS: Final = "documents that were seen may be taken for new ones and stored again"
_LINKS: Final = "links that were found then are lost, unless they are found again"
_LATER: Final = "links that were found since the checkpoint are lost, unless they are found again"


def check_seen(path: Path, snapshot: bytes, findings: Findings) -> None:
    """The eliminator, of either kind, in the directory *path* as of *snapshot*."""
    state = state_of(path, snapshot)
    if isinstance(state, BloomSnapshot):
        check_filter(path, state, findings)
    else:
        _check_runs(path, state.runs, findings, _URLS)
    check_log(path, state, findings)


def state_of(path: Path, snapshot: bytes) -> DiskSnapshot | BloomSnapshot:
    """The state of the eliminator in *path*. CorruptRecordError, NewerFormatError."""
    kind: type[DiskSnapshot | BloomSnapshot]
    kind = BloomSnapshot if tag_of(snapshot) == "Bloom" else DiskSnapshot
    return decode_snapshot(snapshot, kind, path=path)


def check_filter(path: Path, state: BloomSnapshot, findings: Findings) -> None:
    """The filter that *state* names, if it names one."""
    if state.saved:
        with findings.catching(path, _URLS):
            read_filter(filter_path(path, state.saved))


def check_log(path: Path, state: DiskSnapshot | BloomSnapshot, findings: Findings) -> None:
    """The URL log in the directory *path* as of *state*."""
    last = spans_of(state)[-1].number
    for file, start, end in stretches(path, state):
        number = number_of(file)
        if number > last + 1 and not log_path(path, number - 1).exists():
            findings.add_since(file, 0, "a file of the log before this one is gone", _LATER)
        consequence = _LINKS if end else _LATER
        findings.records(file, consequence, parse_log_record, start=start, end=end)


def stretches(
    path: Path, state: DiskSnapshot | BloomSnapshot
) -> Iterator[tuple[Path, int, int | None]]:
    """Each part of the URL log, in order: its file, where it begins, and where it ends if *state*
    vouches for it; the others were written since and go on to the end of the file."""
    spans = spans_of(state)
    for span in spans:
        if span.end > span.start:
            yield log_path(path, span.number), span.start, span.end
    active = spans[-1]
    file = log_path(path, active.number)
    if file.exists() or active.end > HEADER_SIZE:
        yield file, max(active.end, HEADER_SIZE), None
    for file in sorted(path.glob("discovered-*.log")):
        if number_of(file) > active.number:
            yield file, HEADER_SIZE, None


def spans_of(state: DiskSnapshot | BloomSnapshot) -> list[Span]:
    """The parts of the URL log that *state* names, the last one being written."""
    return state.files if isinstance(state, BloomSnapshot) else [*state.pending, state.active]


def number_of(file: Path) -> int:
    """The number of a file of the URL log."""
    return int(file.stem.removeprefix("discovered-"))


def parse_log_record(payload: bytes) -> tuple[array[int], bytes]:
    """As ``parse_record``, but that the payloads must be as many as the fingerprints, or none."""
    fps, packed = parse_record(payload)
    if count_packed(packed) not in (0, len(fps)):
        raise ValueError("a record that is none of a URL log")
    return fps, packed


def check_content(path: Path, snapshot: bytes, findings: Findings) -> None:
    """The content-seen test in the directory *path* as of *snapshot*."""
    state = decode_snapshot(snapshot, ContentSnapshot, path=path)
    _check_runs(path, state.runs, findings, _DOCUMENTS)


def _check_runs(
    path: Path, runs: Sequence[tuple[int, int]], findings: Findings, consequence: str
) -> None:
    """Header, index, every block and its order, and that no fingerprint stands in two runs."""
    damage = findings.damage_count
    for number, count in runs:
        file = run_path(path, number)
        for block in scan_run(file, count=count):
            findings.on_progress(block.size)
            if block.wrong:
                findings.add(file, block.offset, block.wrong, consequence)
    if len(runs) < 2 or findings.damage_count > damage:
        return
    opened: list[Run] = []
    try:
        for number, count in runs:
            opened.append(Run.open(run_path(path, number), count=count))
        if overlap(opened):
            findings.add(path, 0, "a fingerprint stands in two runs", "counts are wrong")
    finally:
        for run in opened:
            run.close()
