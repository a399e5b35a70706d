"""Explain why a crawl is not faster, what happened to a URL, or what waits on a host.

Reads the job directory of a running or stopped crawl. Without a URL, prints the state of the crawl,
what limits its speed, since when and by which evidence, which setting would change that, how its
time was spent, and how many workers it needs. It uses the latest measurements and says how old they
are. Nothing limits a finished crawl any more.

With a URL, says how the URL is normalized, which filter
refuses it, or where it waits and how long its host pauses, when it was fetched and with which
outcome, which line of robots.txt applies, and which other URL has the same content. Uses the
settings with which the crawl was started; settings given with -s override them.

With a HOST (a name or address, without a slash), says whether it is ready for its next request or
how long it pauses, and where its URLs wait.

Examples:
  scrapy why crawls/web
  scrapy why crawls/web https://example.org/page.html
  scrapy why crawls/web example.org
  scrapy why crawls/web https://example.org/ -s URL_MAX_DEPTH=5

Exit codes:
  0  done; the URL was fetched, was given up or will be fetched
  1  the URL or host is unknown, or the URL is refused
  2  unusable input
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.clock import wall_time
from webcrawl.commands import Options, Settings, UsageError, make_command, print_answer, take_job


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Explain the state of a crawl, or of one URL or host; return the exit code."""
    from webcrawl.jobs.inspect.answers import answer_about

    args = take_job(args, settings)
    if not args:
        return _explain_crawl(Path(settings["JOBDIR"]), as_json=opts.json)
    if len(args) != 1:
        raise UsageError(f"give one URL or host; there is no crawl in {args[0]}")
    # Bytes that are not UTF-8 are read as U+FFFD, as in pages.
    question = args[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    answer = answer_about(question, Path(settings["JOBDIR"]), settings)
    print_answer(answer.data, answer.text, as_json=opts.json)
    return 1 if answer.state in {"refused", "unknown"} else 0


def _explain_crawl(job: Path, *, as_json: bool) -> int:
    """Print what limits the crawl in *job*; return the exit code."""
    from webcrawl.jobs.inspect.examination import examination_text, examinations

    results = examinations(job)
    now = wall_time()
    text = "\n".join(examination_text(result, now=now) for result in results)
    print_answer({"processes": results}, text, as_json=as_json)
    return 0


Command = make_command(_run, syntax="[options] [JOBDIR] [URL|HOST]", json=True)
