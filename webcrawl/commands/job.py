"""Check or repair a job directory.

Reads everything that a crawl that does not run has on disk, its older checkpoints too: checksums,
order, counts, and that each part names what is there. Tells what is damaged, where, and what that
means for the crawl. Nothing is changed, but with --repair, which leaves older checkpoints alone.
Exit code: 0 sound, 1 damaged (what --repair made of it is said), 2 unusable input: no job, one that
is in use or that a later webcrawl wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy.exceptions import UsageError

from webcrawl.commands import job_first, offline, print_answer, progress_of
from webcrawl.wording import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings

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
        damaged = f"NOT repaired in {counted(left, 'place')}"
        lines.append(damaged if left else "repaired: the crawl can be resumed")
    return "".join(f"{line}\n" for line in lines)


def _lines(report: Report) -> Iterator[str]:
    if report.checkpoint:
        yield f"{report.jobdir}: checkpoint {report.checkpoint} of {report.written_at}"
    else:
        yield f"{report.jobdir}: no checkpoint can be read"
    for part, damaged in report.parts.items():
        state = f"DAMAGED in {counted(damaged, 'place')}" if damaged else "sound"
        yield f"  {part:<12}{state}"
    if report.damage_count:
        yield f"damaged in {counted(report.damage_count, 'place')}:"
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


def _options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--repair",
        action="store_true",
        help="keep what can be read, tell what is lost, put damaged files into JOBDIR/damaged",
    )
    add("--warc", action="store_true", help="check the stored pages, too: 8 s a gigabyte")


def _run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:
    from webcrawl.hive.launch.job_directories import jobdirs_of
    from webcrawl.jobs.check.repair import repair_job
    from webcrawl.jobs.check.whole import bytes_of, check_job

    if args[:1] != ["check"]:
        raise UsageError("say: scrapy job check [--repair] [JOBDIR]")
    job_first(args[1:], settings, alone=True)
    jobdir = Path(settings["JOBDIR"])
    jobdirs = jobdirs_of(jobdir)
    # To repair it the job is checked before, to find the damaged parts, and afterwards.
    total = sum(bytes_of(one, warc=opts.warc, kept=not opts.repair) for one in jobdirs)
    total *= 3 if opts.repair else 1
    done: list[tuple[Report | Repair, Report, str]] = []
    with progress_of(total) as on_progress:
        for one in jobdirs:
            if opts.repair:
                repair = repair_job(one, warc=opts.warc, on_progress=on_progress)
                done.append((repair, repair.found, repair_text(repair)))
            else:
                report = check_job(one, warc=opts.warc, kept=True, on_progress=on_progress)
                done.append((report, report, report_text(report)))
    results, reports, texts = zip(*done, strict=True)
    answer = results[0] if jobdirs == [jobdir] else results
    print_answer(answer, lambda: "".join(texts), as_json=opts.json)
    return 1 if any(report.damage_count for report in reports) else 0


Command = offline(_run, syntax="check [options] [JOBDIR]", options=_options, json=True)
