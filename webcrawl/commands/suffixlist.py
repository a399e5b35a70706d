"""Show or update the public suffix list, by which hosts belong to domains.

Shows the date of the public suffix list that a new crawl takes. With --update it downloads the list
of today to SUFFIX_LIST_FILE; a file that is there stays until the new one is complete. Crawls that
have begun keep the list that they began with. Exit code: 0 done, 1 the list could not be
downloaded, and nothing was changed, 2 unusable input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from webcrawl.commands import Group, Options, Settings, UsageError, offline
from webcrawl.errors import FatalError

_URL = "https://publicsuffix.org/list/public_suffix_list.dat"
_TIMEOUT_SECS = 60.0
# The list of 2026 has 0.34 MB.
_MAX_BYTES = 16 << 20


def _options(group: Group) -> None:
    group.add_argument("--update", action="store_true", help="download the list of today")
    group.add_argument("--url", default=_URL, help=f"where from (default: {_URL})")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    import http.client

    from webcrawl.crawl.job.suffix_lists import suffix_list_of

    if args:
        raise UsageError("it takes options only: see --help")
    if not opts.url.startswith(("http://", "https://")):
        raise UsageError(f"--url must be http or https, not {opts.url}")
    if opts.update:
        if not settings["SUFFIX_LIST_FILE"]:
            raise FatalError("SUFFIX_LIST_FILE is empty: name the file to write.")
        try:
            _update(Path(settings["SUFFIX_LIST_FILE"]), opts.url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            sys.stderr.write(f"suffixlist: {opts.url}: {error}; nothing was changed.\n")
            return 1
    print(f"New crawls take the public suffix list {suffix_list_of(settings).version}.")
    return 0


def _update(path: Path, url: str) -> None:
    """Put the list at *url* into the file *path*. Raises OSError, HTTPException, ValueError."""
    import urllib.request

    from webcrawl.storage.atomic import make_directory, write_atomic
    from webcrawl.urls.registered_domain import SuffixList

    request = urllib.request.Request(url, headers={"User-Agent": "webcrawl suffix list update"})  # noqa: S310  # the scheme was checked
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECS) as answer:  # noqa: S310  # as above
        body = answer.read(_MAX_BYTES)
    SuffixList(body.decode("utf-8"))
    make_directory(path.parent)
    write_atomic(path, body)


Command = offline(_run, syntax="[options]", options=_options)
