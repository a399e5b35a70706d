"""Explain what became of a URL, or where it waits.

From the job directory of a running or stopped crawl: what the URL is compared by, which filter
refuses it or where it waits and until when its host rests, when it was fetched and with what
outcome, the line of robots.txt that decides, the URL whose content it has. The rules are those that
the crawl was started with; what is given with -s goes before them. Exit code: 0 the crawl has
fetched the URL, given it up or will fetch it, 1 it is unknown or refused, 2 unusable input.
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.clock import wall_time
from webcrawl.commands import Options, Settings, UsageError, job_first, offline, print_answer


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.jobs.inspect.explanation import explain
    from webcrawl.jobs.inspect.job_view import ask
    from webcrawl.jobs.inspect.why_text import why_text

    args = job_first(args, settings)
    if len(args) != 1:
        no_job = f"; there is no crawl in {args[0]}" if args else ""
        raise UsageError(f"name one URL{no_job}")
    # As in pages, what is no UTF-8 is read as U+FFFD.
    url = args[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    explanation = ask(Path(settings["JOBDIR"]), lambda view: explain(url, view, settings))
    print_answer(explanation, lambda: why_text(explanation, now=wall_time()), as_json=opts.json)
    return 1 if explanation.state in {"refused", "unknown"} else 0


Command = offline(_run, syntax="[options] [JOBDIR] URL", json=True)
