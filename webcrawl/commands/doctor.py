"""Say what limits the speed of a crawl, and which setting would change that.

Prints the state of the crawl, what limits it, since when and by which evidence, how its time was
spent, and how many workers it needs. For a running crawl it uses the latest measurements and says
how old they are; for a stopped one, it uses all of them. A finished crawl is not limited by
anything any more, so only its state, time and workers are shown.

Examples:
  scrapy doctor crawls/web
  scrapy doctor crawls/web --json

Exit codes:
  0  done
  2  the job cannot be read
"""

from __future__ import annotations

from webcrawl.clock import wall_time
from webcrawl.commands import Options, Settings, job_of, make_command, print_answer


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run this command and return its exit code."""
    from webcrawl.jobs.inspect.examination import examination_text, examinations

    results = examinations(job_of(args, settings))
    now = wall_time()
    print_answer(
        {"processes": results},
        "\n".join(examination_text(result, now=now) for result in results),
        as_json=opts.json,
    )
    return 0


Command = make_command(_run, json=True)
