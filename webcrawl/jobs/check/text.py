"""Report of a check or repair as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.jobs.check.findings import Finding
    from webcrawl.jobs.check.repair import Repair
    from webcrawl.jobs.check.whole import Report

_SHOWN: Final = 100


def report_text(report: Report) -> str:
    """What was found, damage first."""
    return "".join(f"{line}\n" for line in _lines(report))


def repair_text(repair: Repair) -> str:
    """What was found, what could not be saved, and how the job is now."""
    lines = [*_lines(repair.found)]
    if repair.found.damage_count:
        if repair.lost:
            lines.append("lost:")
            lines += [f"  {one.part:<12}{one.what}" for one in repair.lost[:_SHOWN]]
        if len(repair.lost) > _SHOWN:
            lines.append(f"  and {len(repair.lost) - _SHOWN:,} more")
        if repair.asides:
            lines.append(f"the damaged files are kept in {' and '.join(repair.asides)}")
        if repair.advice:
            lines.append(repair.advice)
        left = repair.left.damage_count
        lines.append(
            f"NOT repaired in {left:,} places" if left else "repaired: the crawl can be resumed"
        )
    return "".join(f"{line}\n" for line in lines)


def _lines(report: Report) -> Iterator[str]:
    if report.checkpoint:
        yield f"{report.jobdir}: checkpoint {report.checkpoint} of {report.written_at}"
    else:
        yield f"{report.jobdir}: no checkpoint can be read"
    for part, damaged in report.parts.items():
        yield f"  {part:<12}{f'DAMAGED in {damaged:,} places' if damaged else 'sound'}"
    if report.damage_count:
        yield f"damaged in {report.damage_count:,} places:"
        yield from _findings(report.damage, report.damage_count)
    if report.note_count:
        yield "as a process leaves it that was killed, no damage:"
        yield from _findings(report.notes, report.note_count)
    if not report.damage_count:
        yield "sound"


def _findings(found: list[Finding], count: int) -> Iterator[str]:
    for one in found[:_SHOWN]:
        yield f"  {one.file}, byte {one.offset:,}: {one.what}"
        yield f"      {one.consequence}"
    if count > _SHOWN:
        yield f"  and {count - _SHOWN:,} more"
