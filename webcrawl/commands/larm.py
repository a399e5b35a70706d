"""Print a stored page from a LARM directory.

Writes the body of the page with this URL to standard output, as it was stored. DIRECTORY holds
LARM's store.log and page files, written by this crawler (JOBDIR/larm) or by LARM itself.

Examples:
  scrapy larm crawls/web/larm https://example.org/
  scrapy larm crawls/web/larm https://example.org/logo.png > logo.png

Exit codes:
  0  the page was printed
  2  unusable input, or the page is not there
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.commands import Options, Settings, UsageError, make_command, print_bytes
from webcrawl.errors import FatalError
from webcrawl.wording import COMMAND


def _run(args: list[str], _opts: Options, _settings: Settings) -> int:
    """Print the body of a page in a LARM directory; return the exit code."""
    from webcrawl.jobs.arguments import url
    from webcrawl.pipelines.larm.reader import body_of, find
    from webcrawl.pipelines.larm.rows import LarmError

    if len(args) != 2:
        raise UsageError(
            f"give a directory and a URL, for example: {COMMAND} larm crawls/web/larm URL"
        )
    url(args[1])  # only to check it
    directory = Path(args[0])
    try:
        stored = find(directory, args[1])
        if stored is None:
            raise FatalError(f"There is no page {args[1]} in {directory}.")
        body = body_of(directory, stored)
    except (LarmError, OSError) as error:
        raise FatalError(f"{error}.") from error
    print_bytes(body)
    return 0


Command = make_command(_run, syntax="DIRECTORY URL")
