"""Check a job directory for damage, or restore an older checkpoint.

"job check" reads all files of a stopped crawl, including its older checkpoints. It verifies
checksums, order and counts, and that all files exist that other files refer to. It says what is
damaged and where, what that means for the crawl, and what to do. It changes nothing.

"job restore" takes the job back to its newest sound checkpoint, or to the one that --checkpoint
names. Logs, stored pages and other output stay. Replaced files are kept in JOBDIR/damaged. Then run
the crawl's command again; pages fetched since that checkpoint are fetched again.

Examples:
  scrapy job check crawls/web
  scrapy job restore crawls/web --checkpoint 17

Exit codes:
  0  no damage; restored
  1  damage was found; there is no sound checkpoint, and nothing was changed
  2  unusable input: no job, one that is in use, or one of a later webcrawl
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    choose_job,
    make_command,
    print_answer,
    progress_in_bytes,
)
from webcrawl.wording import COMMAND, counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.jobs.check.findings import Finding
    from webcrawl.jobs.check.restore import Restored
    from webcrawl.jobs.check.whole import CheckReport

_MAX_SHOWN = 100


def report_text(report: CheckReport) -> str:
    """Return the findings in *report* as text, damage first."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: CheckReport) -> Iterator[str]:
    """Yield the lines of the text about *report*."""
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
        yield "left behind by a killed process, not damage:"
        yield from _findings(report.notes, report.note_count)

    if not report.damage_count:
        yield "sound"
    if report.advice:
        yield report.advice


def _findings(findings: list[Finding], count: int) -> Iterator[str]:
    """Yield lines about the first of *findings*, and how many of *count* are not shown."""
    for finding in findings[:_MAX_SHOWN]:
        yield f"  {finding.file}, byte {finding.offset:,}: {finding.what}"
        yield f"      {finding.consequence}"
    if count > _MAX_SHOWN:
        yield f"  and {count - _MAX_SHOWN:,} more"


def _restored_text(result: Restored) -> str:
    """Return *result* as text, with advice on what to do next."""
    from webcrawl.jobs.check.whole import NO_CHECKPOINT

    if not result.checkpoint:
        return f"{result.jobdir}: {NO_CHECKPOINT}\nnothing was changed\n"
    return (
        f"{result.jobdir} is back at checkpoint {result.checkpoint} of {result.written_at}\n"
        f"the replaced files are in {result.aside}; delete it once the crawl runs well again\n"
        "run the crawl's command again; pages fetched since then are fetched again\n"
    )


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy job``."""
    from webcrawl.jobs.arguments import whole

    add(
        "--warc",
        action="store_true",
        help="with check: also check the stored pages (8 s per gigabyte)",
    )
    add(
        "--checkpoint",
        type=whole(0),
        metavar="NUMBER",
        help="with restore: the checkpoint in JOBDIR/checkpoints to restore (default: the newest "
        "sound one)",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Check a job or restore a checkpoint of it, as *args* say; return the exit code."""
    commands = {"check": _check, "restore": _restore}
    if not args or args[0] not in commands:
        raise UsageError(f"usage: {COMMAND} job check [JOBDIR], or {COMMAND} job restore [JOBDIR]")
    has_other_option = opts.warc if args[0] == "restore" else opts.checkpoint is not None
    if has_other_option:
        raise UsageError("--warc is for check, and --checkpoint for restore")
    return commands[args[0]](choose_job(args[1:], settings), opts)


def _check(jobdir: Path, opts: Options) -> int:
    """Check the jobs in *jobdir*, print what was found, and return the exit code."""
    from webcrawl.hive.launch.job_directories import jobdirs_of
    from webcrawl.jobs.check.whole import check_job

    jobdirs = jobdirs_of(jobdir)
    with progress_in_bytes() as on_progress:
        reports = [
            check_job(directory, warc=opts.warc, kept=True, on_progress=on_progress)
            for directory in jobdirs
        ]
    # As JSON, a job is one report, and a hive is a list of those of its drones.
    answer = reports[0] if jobdirs == [jobdir] else reports
    print_answer(answer, "".join(map(report_text, reports)), as_json=opts.json)
    return 1 if any(report.damage_count for report in reports) else 0


def _restore(jobdir: Path, opts: Options) -> int:
    """Restore a checkpoint of the job in *jobdir*, print which, and return the exit code."""
    from webcrawl.jobs.check.restore import candidates, restore_job

    checkpoints = candidates(jobdir, opts.checkpoint)
    with progress_in_bytes() as on_progress:
        result = restore_job(jobdir, checkpoints, on_progress=on_progress)
    print_answer(result, _restored_text(result), as_json=opts.json)
    return 0 if result.checkpoint else 1


Command = make_command(_run, _options, syntax="check|restore [options] [JOBDIR]", json=True)
