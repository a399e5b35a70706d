"""Remove stored pages from a crawl that is not running.

Removes the pages of hosts or URLs from the WARC files, text dataset, link graph, search index and
logs of a job, or of a hive on this machine, and excludes them from its next runs. A host stands for
all hosts below it as well. Another page with the same bytes keeps them. The next "scrapy delta"
reports the documents as gone. A purge cannot be undone: use --dry-run first.

If the command is stopped with Ctrl-C or killed, run it again to continue. JOBDIR/logs/purge.jsonl
says what was removed.

Examples:
  scrapy purge crawls/web --host example.org --dry-run
  scrapy purge crawls/web --list removed.txt

Exit codes:
  0  done
  1  nothing is stored of these hosts and URLs; they are excluded
  2  unusable input, a damaged or missing file, or a crawl that is running or was killed
"""

from __future__ import annotations

import os
import signal

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    choose_job,
    make_command,
    progress,
)
from webcrawl.errors import FatalError
from webcrawl.wording import COMMAND, counted

_NOT_REACHED = f"""\
not reached, because it is elsewhere or not a page:
  copies made by "{COMMAND} dataset": run it again
  later crawls that refer to these pages (WARC_DEDUP_FROM)
  files in OUTPUT_STORE, WACZ files, feeds, LARM files, and the output of your own modules
  consumers of deltas: the next delta reports the documents as gone (purged)
  links from other pages, and ranks that were made from them
  Redis' files (links between drones), checkpoints in HIVE_STORE, and drones on other machines
  the names of URLs and robots.txt files in the queues, checkpoints and host records
  texts of up to 40 bytes in the records of a --url's host, and in kept checkpoints
"""


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy purge``."""
    from webcrawl.jobs.arguments import host, rules_file, url

    for name, kind, text in (
        ("--host", host, "a host, or a domain with all hosts below it"),
        ("--url", url, "a URL"),
    ):
        add(name, action="append", type=kind, default=[], help=text)
    add(
        "--list",
        type=rules_file,
        metavar="FILE",
        help="a file with hosts and URLs, written as in EXCLUSION_FILE",
    )
    add("--with-aliases", action="store_true", help="also purge the other names of the hosts")
    add("--dry-run", action="store_true", help="only count; change nothing")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Remove the pages of --host, --url and --list from a stopped crawl; return the exit code."""
    from webcrawl.clock import wall_time
    from webcrawl.jobs.purge.purge import names_of_same_sites, purge

    signal.signal(signal.SIGINT, _end)
    jobdir = choose_job(args, settings)
    # The hosts and URLs to remove, a line each, as in the file --list.
    lines = [*opts.host, *opts.url]
    names = ", ".join(map(str, filter(None, [*lines, opts.list])))
    if not names:
        raise UsageError("say what to remove with --host, --list, or --url and a URL with scheme")
    if opts.list:
        lines.append(opts.list.read_text("utf-8", "replace"))
    aliases = names_of_same_sites(jobdir, "\n".join(lines))
    if opts.with_aliases:
        lines += aliases
    with progress("files read") as show:
        counts, missing, store_error = purge(
            jobdir,
            "\n".join(lines),
            settings,
            dry_run=opts.dry_run,
            at=round(wall_time(), 3),
            on_progress=show,
        )
    pages = counted(counts.pop("page"), "page")  # what is left are records, rows and lines
    removed = ", ".join(counted(number, unit) for unit, number in counts.items()) or "nothing"
    print(f"{pages} of {names}: {removed} {'to be removed' if opts.dry_run else 'removed'}")
    addresses = [host for host in opts.host if ":" in host or host[-1:].isdigit()]
    if addresses and not counts:
        print(f"{addresses[0]} stands for URLs with this address, not for names that lead to it")
    if aliases:
        treated = "purged, too" if opts.with_aliases else "not purged, see --with-aliases"
        print(f"the same site has the names {', '.join(aliases)}: {treated}")
    print(_NOT_REACHED, end="", flush=True)
    if missing:
        raise FatalError(
            f"{counted(len(missing), 'WARC file')} of this crawl cannot be found, such as "
            f"{min(missing)}. If they are elsewhere, run the same command with -s WARC_DIR=DIR; "
            "otherwise remove the pages from them yourself."
        )
    if store_error:
        raise FatalError(
            f"{store_error}. So drones elsewhere do not exclude the pages yet: run the same "
            "command again with -s HIVE_STORE=URL."
        )
    return 0 if counts else 1


def _end(*_: object) -> None:
    """End the process immediately, as kill -9 does."""
    # SQLite and other libraries swallow KeyboardInterrupt.
    os.write(2, b"\npurge: stopped by Ctrl-C. Run the same command again to continue.\n")
    os._exit(130)


Command = make_command(_run, _options)
