"""Explain what happened to a URL, or what it waits for.

Reads the job directory of a running or stopped crawl. Says how the URL is normalized, which filter
refuses it, or where it waits and how long its host pauses, when it was fetched and with which
outcome, which line of robots.txt applies, and which other URL has the same content. Uses the
settings with which the crawl was started; settings given with -s override them.

Examples:
  scrapy why crawls/web https://example.org/page.html
  scrapy why crawls/web https://example.org/ -s URL_MAX_DEPTH=5

Exit codes:
  0  the URL was fetched, was given up or will be fetched
  1  the URL is unknown or refused
  2  unusable input
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.clock import wall_time
from webcrawl.commands import Options, Settings, UsageError, make_command, print_answer, take_job


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run this command and return its exit code."""
    from webcrawl.jobs.inspect.explanation import explain
    from webcrawl.jobs.inspect.job_view import ask
    from webcrawl.jobs.inspect.why_text import why_text

    args = take_job(args, settings)
    if len(args) != 1:
        no_job = f"; there is no crawl in {args[0]}" if args else ""
        raise UsageError(f"give one URL{no_job}")
    # Bytes that are not UTF-8 are read as U+FFFD, as in pages.
    url = args[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    explanation = ask(Path(settings["JOBDIR"]), lambda view: explain(url, view, settings))
    print_answer(explanation, why_text(explanation, now=wall_time()), as_json=opts.json)
    return 1 if explanation.state in {"refused", "unknown"} else 0


Command = make_command(_run, syntax="[options] [JOBDIR] URL", json=True)
