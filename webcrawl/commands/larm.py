"""LARM: print a page of the log storage of its module.

Writes the body of the page to standard output, as it was stored. DIRECTORY has LARM's store.log and
page files, of this crawler (JOBDIR/larm) or of LARM; the page is named by its URL. Exit code: 0
done, 2 unusable input or no such page.
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.commands import Options, Settings, UsageError, offline, print_bytes
from webcrawl.errors import FatalError


def _run(args: list[str], _opts: Options, _settings: Settings) -> int:
    from webcrawl.pipelines.larm.reader import body_of, find
    from webcrawl.pipelines.larm.rows import LarmError

    if len(args) != 2:
        raise UsageError("name a directory and a URL, for example: scrapy larm crawls/web/larm URL")
    directory = Path(args[0])
    try:
        stored = find(directory, args[1])
        if stored is None:
            raise FatalError(f"{directory} has no page {args[1]}.")
        body = body_of(directory, stored)
    except (LarmError, OSError) as error:
        raise FatalError(f"{error}.") from error
    print_bytes(body)
    return 0


Command = offline(_run, syntax="DIRECTORY URL")
