"""Say what binds a crawl, and which setting would change that.

From what the running crawl has written last, with its age, or from all that one has written that
has ended: its state, what binds it since when and what shows it, the shares of its time by cause,
and how many workers it needs. Exit code: 0 done, 2 unusable job.
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.clock import wall_time
from webcrawl.commands import Options, Settings, job_first, offline, print_answer


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.jobs.inspect.examination import examination_text, examinations

    job_first(args, settings, alone=True)
    found = examinations(Path(settings["JOBDIR"]))
    now = wall_time()
    print_answer(
        {"processes": found},
        lambda: "\n".join(examination_text(one, now=now) for one in found),
        as_json=opts.json,
    )
    return 0


Command = offline(_run, syntax="[options] [JOBDIR]", json=True)
