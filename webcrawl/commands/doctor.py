"""Old name of scrapy why without a URL; it goes with webcrawl 0.5.

Examples:
  scrapy why crawls/web

Exit codes:
  0  done
  2  the job cannot be read
"""

from __future__ import annotations

import sys

from webcrawl.commands import Options, Settings, choose_job, make_command
from webcrawl.wording import COMMAND


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Explain the state of a crawl, as ``scrapy why`` does; return the exit code."""
    from webcrawl.commands.why import explain_crawl

    print(f"{COMMAND} doctor is now {COMMAND} why, without a URL", file=sys.stderr)
    return explain_crawl(choose_job(args, settings), as_json=opts.json)


Command = make_command(_run, json=True)
