"""Make top1m.csv, a list of seeds, from the Tranco list of today, or from a list at hand.

    webcrawl-seeds                               download the current list to this directory
    python seeds/refresh.py                      in a clone: replace seeds/top1m.csv with it
    webcrawl-seeds --from top-1m.csv.zip         a local .zip, .gz or .csv of rank,domain lines

Standard library only. The old file stays until the new one is complete and checked.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import os
import re
import shutil
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TRANCO = "https://tranco-list.eu/top-1m.csv.zip"
TIMEOUT = 60.0  # seconds without a byte
_OF_CLONE = Path(__file__).resolve().with_name("top1m.csv")
ROW = re.compile(rb"([0-9]+),([^\s,]+)\r?\n?")


class RefreshError(Exception):
    """Why there is no new list; one sentence."""


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    try:
        _refresh(options)
    except (RefreshError, OSError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        print(f"{options.out} was not changed: {error}", file=sys.stderr)
        return 1
    print(f"{options.out}: {options.count} domains from {options.source or options.url}")
    if options.out == _OF_CLONE:
        print("Put source and date into seeds/README.md.")
    return 0


def _refresh(options: argparse.Namespace) -> None:
    """Build the list beside its place, then move it there."""
    out: Path = options.out
    if not out.parent.is_dir():
        raise RefreshError(f"{out.parent} is not a directory")
    with tempfile.TemporaryDirectory(prefix=".refresh-", dir=out.parent) as name:
        scratch = Path(name)
        source = options.source
        if source is None:
            source = scratch / "download"
            _download(options.url, source)
        fresh = scratch / "list"
        with _opened(source) as rows, fresh.open("wb") as file:
            _copy_rows(rows, file, count=options.count)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(out)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make a list of a million domains.")
    parser.add_argument("--from", dest="source", type=Path, help="a local list, not the web")
    parser.add_argument("--url", default=TRANCO, help="where to download (default: %(default)s)")
    default = _OF_CLONE if _OF_CLONE.exists() else Path("top1m.csv")
    help_ = "the file to make or replace (default: %(default)s)"
    parser.add_argument("--out", type=Path, default=default, help=help_)
    parser.add_argument("--count", type=int, default=1_000_000, help="rows that it must have")
    return parser.parse_args(argv)


def _download(url: str, path: Path) -> None:
    if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
        raise RefreshError(f"{url} is no http or https URL")
    request = urllib.request.Request(url, headers={"User-Agent": "webcrawl seed list refresh"})  # noqa: S310 - the scheme was checked
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as body, path.open("wb") as file:  # noqa: S310 - as above
            shutil.copyfileobj(body, file)
            expected = body.headers["Content-Length"]
    except urllib.error.HTTPError as error:
        error.close()
        raise RefreshError(f"{url} answered {error.code} {error.reason}") from error
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
    ) as error:
        why = getattr(error, "reason", None) or error
        raise RefreshError(f"cannot download {url}: {why}") from error
    if expected is not None and path.stat().st_size != int(expected):
        raise RefreshError(f"the download of {url} broke off")


@contextmanager
def _opened(source: Path) -> Iterator[Iterable[bytes]]:
    """The rows of *source*, which its content shows to be a zip of one file, gzip or plain."""
    with source.open("rb") as file:
        magic = file.read(2)
        file.seek(0)
        if magic == b"PK":
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
                if len(names) != 1:
                    raise RefreshError(f"{source} holds {len(names)} files instead of one list")
                with archive.open(names[0]) as rows:
                    yield rows
        elif magic == b"\x1f\x8b":
            with gzip.open(file) as rows:
                yield rows
        else:
            yield file


def _copy_rows(rows: Iterable[bytes], file: BinaryIO, *, count: int) -> None:
    """Copy the first *count* rows, each checked, with plain line ends."""
    number = 0
    for number, row in enumerate(rows, start=1):
        if number > count:
            return
        match = ROW.fullmatch(row)
        if match is None or int(match[1]) != number:
            raise RefreshError(f"line {number} is not '{number},domain': {row[:60]!r}")
        file.write(b"%d,%s\n" % (number, match[2].lower()))
    if number < count:
        raise RefreshError(f"the list has {number} rows instead of {count}")


if __name__ == "__main__":
    sys.exit(main())
