"""Check a job directory, or go back to an older checkpoint.

"scrapy job check JOBDIR" reads everything that a crawl that does not run has on disk, its older
checkpoints too: checksums, order, counts, and that each part names what is there. It tells what is
damaged, where, what that means for the crawl, and how to go on. Nothing is changed. Exit code: 0
sound, 1 damaged, 2 unusable input: no job, one that is in use or that a later webcrawl wrote.

"scrapy job restore JOBDIR" makes the job what it was at its newest sound checkpoint, or at the one
that --checkpoint names. Logs, stored pages and other output stay, and what is replaced is kept
below JOBDIR/damaged. Run the command of the crawl again to go on; what was fetched since then is
fetched again. Exit code: 0 done, 1 no sound checkpoint, nothing was changed, 2 unusable input.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.commands import (
    Group,
    Options,
    Settings,
    UsageError,
    job_first,
    offline,
    print_answer,
    progress_of,
)
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.jobs.check.findings import Finding
    from webcrawl.jobs.check.restore import Restored
    from webcrawl.jobs.check.whole import CheckReport

_SHOWN = 100


def report_text(report: CheckReport) -> str:
    """What was found, damage first."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: CheckReport) -> Iterator[str]:
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
    if report.advice:
        yield report.advice


def _findings(found: list[Finding], count: int) -> Iterator[str]:
    for one in found[:_SHOWN]:
        yield f"  {one.file}, byte {one.offset:,}: {one.what}"
        yield f"      {one.consequence}"
    if count > _SHOWN:
        yield f"  and {count - _SHOWN:,} more"


def _restored_text(result: Restored) -> str:
    from webcrawl.jobs.check.whole import NO_CHECKPOINT

    if not result.checkpoint:
        return f"{result.jobdir}: {NO_CHECKPOINT}\nnothing was changed\n"
    return (
        f"{result.jobdir} is back at checkpoint {result.checkpoint} of {result.written_at}\n"
        f"what it replaces is in {result.aside}: delete that once the crawl runs well again\n"
        "run the command of the crawl again: what was fetched since then is fetched again\n"
    )


def _options(group: Group) -> None:
    add = group.add_argument
    add("--warc", action="store_true", help="check the stored pages, too: 8 s a gigabyte")
    add(
        "--checkpoint",
        type=int,
        metavar="NUMBER",
        help="restore this one of JOBDIR/checkpoints (default: the newest that is sound)",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    commands = {"check": _check, "restore": _restore}
    if not args or args[0] not in commands:
        raise UsageError("say: scrapy job check [JOBDIR], or scrapy job restore [JOBDIR]")
    if opts.warc if args[0] == "restore" else opts.checkpoint is not None:
        raise UsageError("--warc is for check, and --checkpoint for restore")
    job_first(args[1:], settings, alone=True)
    return commands[args[0]](Path(settings["JOBDIR"]), opts)


def _check(jobdir: Path, opts: Options) -> int:
    from webcrawl.hive.launch.job_directories import jobdirs_of
    from webcrawl.jobs.check.whole import bytes_of, check_job

    jobdirs = jobdirs_of(jobdir)
    total = sum(bytes_of(one, warc=opts.warc, kept=True) for one in jobdirs)
    with progress_of(total) as on_progress:
        reports = [
            check_job(one, warc=opts.warc, kept=True, on_progress=on_progress) for one in jobdirs
        ]
    answer = reports[0] if jobdirs == [jobdir] else reports
    print_answer(answer, lambda: "".join(map(report_text, reports)), as_json=opts.json)
    return 1 if any(report.damage_count for report in reports) else 0


def _restore(jobdir: Path, opts: Options) -> int:
    from webcrawl.jobs.check.restore import candidates, restore_job
    from webcrawl.jobs.check.whole import bytes_of

    kept = candidates(jobdir, opts.checkpoint)
    # The first one that is sound is read twice.
    sizes = [bytes_of(path, warc=False, kept=False) for path in kept]
    with progress_of(sum(sizes[:1]) + sum(sizes)) as on_progress:
        result = restore_job(jobdir, kept, on_progress=on_progress)
    print_answer(result, lambda: _restored_text(result), as_json=opts.json)
    return 0 if result.checkpoint else 1


Command = offline(_run, syntax="check|restore [options] [JOBDIR]", options=_options, json=True)
