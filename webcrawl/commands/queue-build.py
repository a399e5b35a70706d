"""Build the next seed list of an offline crawl (-a offline=1) from stored pages.

Reads WARC files and LARM directories, collects the links that were not found before, sorts them by
domain and writes them as the next segment of the queue. URLs that earlier crawls left unfetched are
included. Pages that an earlier run of this command has read are not read again.

Examples:
  scrapy queue-build --queue queue --seeds seeds.txt
  scrapy queue-build --queue queue crawls/web

Exit codes:
  0  done
  2  unusable input, or a source could not be read to its end
"""
# ruff: noqa: N999  # Scrapy names a command after its module

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    make_command,
    print_answer,
    progress,
    sources_or_job,
    web_crawler,
)
from webcrawl.wording import counted

if TYPE_CHECKING:
    from webcrawl.jobs.queue.building import Built


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy queue-build``."""
    add("--queue", metavar="DIR", help="directory of the queue; created if it does not exist")
    add(
        "--seeds",
        metavar="FILE",
        default="",
        help="seeds to add to the segment (several files separated by commas, - for standard "
        "input); needed for a new queue, and with URL_SCOPE they say which domains are in scope",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Write the next segment of an offline crawl from stored pages; return the exit code."""
    from webcrawl.crawl.seeds import split_sources
    from webcrawl.hive.launch.job_directories import is_crawl
    from webcrawl.jobs.queue.building import build
    from webcrawl.jobs.queue.queue_directory import QueueDirectory
    from webcrawl.jobs.replay.sources import sources_of

    if not opts.queue:
        raise UsageError("give the directory of the queue with --queue DIR")
    # While there are no pages yet, the first segment is made from the seeds only.
    is_first = not args and not is_crawl(Path(settings["JOBDIR"]))
    sources = [] if is_first else sources_of(sources_or_job(args, settings))
    queue = QueueDirectory(path=Path(opts.queue))
    # The queue keeps the seen URLs in a job of its own, which no crawl runs.
    job_settings = {"JOBDIR": str(queue.path / "state"), "CHECKPOINTS_KEPT": 0}
    settings.setdict(job_settings, priority="cmdline")
    with progress("pages") as on_progress:
        result = build(
            web_crawler(settings),
            sources,
            queue=queue,
            seeds=split_sources(opts.seeds),
            on_progress=on_progress,
        )
    print_answer(result, _text(result), as_json=opts.json)
    for sentence in result.unreadable:
        sys.stderr.write(f"queue-build: {sentence}\n")
    return 2 if result.unreadable else 0


def _text(result: Built) -> str:
    """Return *result* as text: numbers of pages, links and URLs, and the new segment."""
    pages = counted(result.pages, "new page")
    links = counted(result.links, "link")
    urls_found = f"{counted(result.new, 'new URL')}, {result.refused:,} refused by filters"
    lines = [f"{pages} in {counted(result.sources, 'source')}, {links}: {urls_found}\n"]
    if result.remainder:
        lines.append(f"{counted(result.remainder, 'URL')} handed back by crawls\n")
    if result.unsayable:
        lines.append(f"{counted(result.unsayable, 'unusual URL')} left out\n")
    if result.segment is None:
        lines.append("nothing new, so no segment was written\n")
    else:
        urls = result.segment.urls
        domains = counted(result.segment.domains, "domain")
        lines.append(f"{result.segment.path}: {counted(urls, 'URL')} of {domains}\n")
    return "".join(lines)


Command = make_command(
    _run, _options, syntax="[options] --queue DIR [JOBDIR|WARC|LARM ...]", json=True
)
