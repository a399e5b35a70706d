"""Show or update the public suffix list, which says which hosts form a domain.

Prints the date of the public suffix list that new crawls use. With --update, downloads today's list
to SUFFIX_LIST_FILE first; an existing file stays until the new one is complete. Crawls that were
started earlier keep their list.

Examples:
  scrapy suffixlist
  scrapy suffixlist --update

Exit codes:
  0  done
  1  the list could not be downloaded; nothing was changed
  2  unusable input
"""

from __future__ import annotations

import sys
from pathlib import Path

from webcrawl.commands import Group, Options, Settings, UsageError, make_command
from webcrawl.errors import FatalError

_URL = "https://publicsuffix.org/list/public_suffix_list.dat"
_TIMEOUT_SECS = 60.0
# Maximum size of a download; the list has 0.34 MB.
_MAX_BYTES = 16 << 20


def _options(group: Group) -> None:
    """Add the options of this command to *group*."""
    group.add_argument("--update", action="store_true", help="download today's list")
    group.add_argument("--url", default=_URL, help=f"download it from URL (default: {_URL})")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run this command and return its exit code."""
    import http.client

    from webcrawl.crawl.job.suffix_lists import suffix_list_of

    if args:
        raise UsageError("suffixlist takes only options: see --help")
    if not opts.url.startswith(("http://", "https://")):
        raise UsageError(f"--url must begin with http:// or https://, not {opts.url}")
    if opts.update:
        if not settings["SUFFIX_LIST_FILE"]:
            raise FatalError("SUFFIX_LIST_FILE is empty: name the file to write.")
        try:
            _update(Path(settings["SUFFIX_LIST_FILE"]), opts.url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            sys.stderr.write(f"suffixlist: {opts.url}: {error}; nothing was changed.\n")
            return 1
    print(f"New crawls use the public suffix list {suffix_list_of(settings).version}.")
    return 0


def _update(path: Path, url: str) -> None:
    """Download the list at *url* to the file *path*. Raises OSError, HTTPException, ValueError."""
    import urllib.request

    from webcrawl.storage.atomic import make_directory, write_atomic
    from webcrawl.urls.registered_domain import SuffixList

    request = urllib.request.Request(url, headers={"User-Agent": "webcrawl suffix list update"})  # noqa: S310  # the scheme was checked
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECS) as answer:  # noqa: S310  # as above
        body = answer.read(_MAX_BYTES)
    SuffixList(body.decode("utf-8"))  # raises ValueError if it is not a list
    make_directory(path.parent)
    write_atomic(path, body)


Command = make_command(_run, syntax="[options]", options=_options)
