"""Process beside a running crawl that looks through its log for URLs to be visited again.

``python -m webcrawl.control.visiting JOBDIR WORD...``, the words being those of ``scrapy frontier
--refetch``; without one the URLs are lines of standard input. It hands the visits to the crawl by
its socket, some at a time, and prints how many there were. What waits already is left out, so that
it may be run again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from webcrawl.control.unix_socket import send
from webcrawl.crawl.job.control_journal import Request
from webcrawl.errors import FatalError
from webcrawl.frontier import encode
from webcrawl.jobs.inspect.requeueing import answered, named_in, push
from webcrawl.wording import counted

# In a request: entries have at most 20 kB, and a third more in JSON.
_VISITS = 36


def main(jobdir: Path, words: list[str]) -> str:
    """What was done. FatalError with one sentence."""

    def pushed(entries: list[bytes]) -> None:
        for start in range(0, len(entries), _VISITS):
            send(jobdir, Request("visit", {"entries": entries[start : start + _VISITS]}))

    takes = answered(words) if words else named_in(sys.stdin)
    done = push(jobdir, takes, pushed, on_progress=lambda *_: None, encoded=encode)
    return f"{counted(done.urls, 'URL')} put back in line, already waiting: {done.waiting:,}"


if __name__ == "__main__":
    try:
        sys.stdout.write(main(Path(sys.argv[1]), sys.argv[2:]))
    except FatalError as error:
        sys.exit(str(error))
