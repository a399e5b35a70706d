"""Writes WACZ packages (WACZ 1.1.1): ZIP files of WARC files, their index, pages and hashes.

WARC files are stored in the ZIP file without compression, so that replay tools can read a record by
its offset. The index consists of separately compressed blocks of lines, and a second index lists
the blocks (ZipNum), as in packages written by wacz and ArchiveWeb.page.
"""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from contextlib import contextmanager
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from isal import isal_zlib

from webcrawl import __version__
from webcrawl.wording import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_VERSION = "1.1.1"
_BLOCK_LINES = 1024  # as in wacz
_READ_BYTES = 1 << 20
_GZIP_FORMAT = 31
_LEVEL = 2
# An extra field of no bytes, as in JAR files. Without it, only the local header of an entry has an
# extra field, for its size. ReplayWeb.page does not expect that, and cannot open the package.
_NO_FIELDS = b"\xfe\xca\0\0"
_PAGES_HEADER = {"format": "json-pages-1.0", "id": "pages", "title": "All pages"}


def write_wacz(
    path: Path,
    *,
    title: str,
    warcs: Sequence[Path],
    index: Iterable[bytes],
    pages: Iterable[Path],
    requires: Iterable[Path],
    at: float,
    on_progress: Callable[[int], object],
) -> None:
    """Write the package *path* with the WARC files *warcs*. Raises OSError.

    *index* has the sorted lines of their index, and *pages* the files with lines of the page list.
    *requires* are the packages that records refer to; hash and size are given of those that exist.
    *at*, in epoch seconds, is the date of the package. *on_progress* is called with the number of
    bytes of *warcs* copied since the last call.
    """
    with zipfile.ZipFile(path, "w") as archive:
        package = _Package(archive, at)
        _write_index(package, index)
        with package.add_file("pages/pages.jsonl", packed=True) as entry:
            entry.write(_line(_PAGES_HEADER))
            for lines in pages:
                entry.copy(lines, lambda _: None)
        for warc in warcs:
            with package.add_file(f"archive/{warc.name}") as entry:
                entry.copy(warc, on_progress)
        package.describe(title, [_requirement(other) for other in requires])


class _PackageFile:
    """Writer of a file in the package that computes its hash."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._sha256.update(data)
        self.size += len(data)

    def copy(self, path: Path, on_progress: Callable[[int], object]) -> None:
        with path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                self.write(data)
                on_progress(len(data))

    @property
    def hash(self) -> str:
        return f"sha256:{self._sha256.hexdigest()}"


class _Package:
    """ZIP file whose entries are dated *at*, and their descriptions for datapackage.json."""

    def __init__(self, archive: zipfile.ZipFile, at: float) -> None:
        self._archive = archive
        self._at = at
        self._resources: list[dict[str, Any]] = []

    @contextmanager
    def add_file(self, path: str, *, packed: bool = False) -> Iterator[_PackageFile]:
        """Add the file *path*, compressed if *packed*.

        The caller writes its contents in the body of the ``with`` statement.
        """
        info = zipfile.ZipInfo(path, time.gmtime(self._at)[:6])
        info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
        info.external_attr = 0o644 << 16  # the permissions of the file
        info.extra = _NO_FIELDS
        # The size is not known yet; without zip64 it would be limited to 2 GiB.
        with self._archive.open(info, "w", force_zip64=True) as file:
            entry = _PackageFile(file)
            yield entry
        name = path.rpartition("/")[2].lower()
        self._resources.append(
            {"name": name, "path": path, "hash": entry.hash, "bytes": entry.size}
        )

    def describe(self, title: str, requires: list[dict[str, Any]]) -> None:
        """Write datapackage.json, which describes all files, and its hash."""
        description: dict[str, Any] = {
            "profile": "data-package",
            "title": title,
            "created": iso_time(self._at),
            "wacz_version": _VERSION,
            "software": f"webcrawl {__version__}",
            "resources": self._resources,
        }
        if requires:
            description["relation"] = {"requires": requires}
        with self.add_file("datapackage.json", packed=True) as entry:
            entry.write(json.dumps(description, indent=2).encode())
        digest = {"path": "datapackage.json", "hash": entry.hash}
        with self.add_file("datapackage-digest.json", packed=True) as digest_entry:
            digest_entry.write(json.dumps(digest, indent=2).encode())


def _requirement(package: Path) -> dict[str, Any]:
    """Return how Browsertrix describes a *package* that another one refers to."""
    if not package.exists():
        return {"filename": package.name}
    with package.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"filename": package.name, "hash": digest, "size": package.stat().st_size}


def _write_index(package: _Package, lines: Iterable[bytes]) -> None:
    """Write the index *lines* in compressed blocks, and the second index of the blocks."""
    name = "index.cdx.gz"
    # The second index fits in memory: it takes a hundred bytes per thousand lines.
    block_lines = [b"!meta 0 " + _line({"format": "cdxj-gzip-1.0", "filename": name})]
    with package.add_file(f"indexes/{name}") as entry:
        lines = iter(lines)
        while block := [*islice(lines, _BLOCK_LINES)]:
            data = isal_zlib.compress(b"".join(block), _LEVEL, _GZIP_FORMAT)
            location = {
                "offset": entry.size,
                "length": len(data),
                "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            }
            # The key of the first line, up to its JSON object, is the key of the block.
            block_lines.append(block[0].partition(b"{")[0] + _line(location))
            entry.write(data)
    with package.add_file("indexes/index.idx", packed=True) as entry:
        entry.write(b"".join(block_lines))


def _line(value: object) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"
