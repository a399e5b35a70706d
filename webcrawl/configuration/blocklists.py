"""Files of BLOCKLISTS: lists of hosts and URLs not to be crawled, by category.

A list is a file in the format of EXCLUSION_FILE, or a directory in the layout of the blacklists of
the Université Toulouse Capitole (UT1, dsi.ut-capitole.fr/blacklists), which is that of squidGuard:
files ``domains``, ``urls`` and ``expressions``. Other files, such as ``usage``, are not read.
"""

from __future__ import annotations

import re
from pathlib import Path

from scrapy.settings import BaseSettings

from webcrawl.configuration.values import dictionary
from webcrawl.errors import FatalError

_CATEGORY = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PARTS = ("domains", "urls", "expressions")


def blocklist_files(settings: BaseSettings) -> dict[str, Path]:
    """Return the files of BLOCKLISTS, by category and, for a directory, "/" and the file's name.

    Raises FatalError for a bad value, or for a directory that is not a blocklist.
    """
    files: dict[str, Path] = {}
    for category, value in dictionary(settings, "BLOCKLISTS").items():
        if not _CATEGORY.fullmatch(str(category)):
            raise FatalError(
                f"BLOCKLISTS has the category {category!r}; it must be a word of lower-case "
                "letters, digits and underscores."
            )
        path = Path(str(value))
        parts = {f"{category}/{part}": path / part for part in _PARTS if (path / part).exists()}
        if path.is_dir() and not parts:
            raise FatalError(f"BLOCKLISTS: {path} has none of the files {', '.join(_PARTS)}.")
        files |= parts or {category: path}
    return files


def blocklist_bytes(settings: BaseSettings) -> int:
    """Return the size of all files of BLOCKLISTS; files that do not exist are reported later.

    The rules of a list take less memory than its file, even while a changed file replaces them.
    """
    return sum(path.stat().st_size for path in blocklist_files(settings).values() if path.exists())
