"""Tell which pages of a crawl were added, have changed, moved or gone.

Since a time, or since the delta before, by the logs of a process or a hive, running or not; pages
that were visited again and have not changed are left out. Each URL is told once, as it was last: as
JSON lines, or as a Parquet file if FILE ends in .parquet. The last line on the standard output, or
on the standard error if the changes go to the former, is what the next delta takes as --since. Exit
code: 0 done, 2 unusable input, or nothing that could be written.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from webcrawl.commands import Group, Options, Settings, job_first, offline, progress
from webcrawl.wording import counted


def _options(group: Group) -> None:
    group.add_argument(
        "--since",
        required=True,
        metavar="TIME|TOKEN",
        help="a date or time, as 2026-11-26T10:15Z, an age, as 7d, 0 for all, or what the delta "
        "before has printed",
    )
    group.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard output")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.errors import needs
    from webcrawl.jobs.inspect.delta import delta, since, write_json, write_parquet
    from webcrawl.storage.atomic import replacing

    job_first(args, settings, alone=True)
    output: Path | None = opts.output
    write = write_json
    if output is not None and output.suffix == ".parquet":
        needs("pyarrow", of="A Parquet file")
        write = write_parquet
    with progress("lines") as on_progress, ExitStack() as stack:
        begin = since(opts.since)
        changes, token = delta(Path(settings["JOBDIR"]), begin, on_progress=on_progress)
        path = sys.stdout.fileno() if output is None else stack.enter_context(replacing(output))
        count = write(changes, stack.enter_context(open(path, "wb", closefd=output is not None)))
    sys.stderr.write(f"{counted(count, 'change')}; the next delta is --since\n")
    print(token, file=sys.stderr if output is None else sys.stdout)
    return 0


Command = offline(_run, syntax="[options] [JOBDIR] --since TIME|TOKEN", options=_options)
