"""LARM's host resolver: rules by which two host names count as the same host.

``Equivalence`` uses them for the compared form of URLs only. The host that is contacted, and for
which politeness, robots rules and budgets are kept, is always the one in the link. With
``startsWith(www.)=`` a page found on www.cnn.com is not fetched from cnn.com again.

The file has LARM's own format, a Java properties file, and files written for LARM work::

    # comments begin with # or !
    startsWith(www.)=                         removes www. from the beginning
    endsWith(.somehost.com)=.somehost2.com    replaces the end
    synonym(daedalus.apache.org)=apache.org   replaces the host

At most one rule of each kind is applied, in this order; if several match, the longest. A comma
stands for a dot, as LARM's BeanUtils could not have dots there. The case of hosts does not matter,
that of the keywords does. International names may be written as such, label by label.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webcrawl.urls.host import host_of
from webcrawl.urls.normalizer import normalize

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_RULES = 1_000_000
"""A synonym takes 0.25 kB of memory."""

_MAX_BYTES = 1 << 27
_MAX_LINE = 1000

# properties: key, then "=", ":" or white space, then value; "\" joins lines and escapes characters
_RULE = re.compile(r"(\w+)\(([^()]*)\)(?:\s*[=:]\s*|\s+|\Z)(.*)")
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_PART = re.compile(r"[a-z0-9._-]*")
_MAX_NAME = 253


class UrlHostRules:
    """The rules of one file. Without rules, no two hosts count as the same."""

    def __init__(self) -> None:
        self._prefixes: dict[str, str] = {}
        self._suffixes: dict[str, str] = {}
        self._synonyms: dict[str, str] = {}
        # The lengths in use, the longest first. A search takes one lookup per length.
        self._prefix_lengths: list[int] = []
        self._suffix_lengths: list[int] = []

    @classmethod
    def read(cls, path: Path) -> UrlHostRules:
        """Return the rules in the file *path*, which is UTF-8.

        Raises ValueError with one sentence that names file and line of an invalid rule, and OSError
        if the file cannot be read. A million rules take 4 s.
        """
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(
                f"{path} is larger than {_MAX_BYTES >> 20} MB: it is not a file of host rules."
            )
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ValueError(f"{path}, line {line}: not valid UTF-8.") from None
        return cls.parse(text, name=str(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "host rules") -> UrlHostRules:
        """Return the rules in *text*; *name* is its name in errors."""
        rules = cls()
        for number, line in _logical_lines(text):
            try:
                rules._add(line)
            except ValueError as error:
                raise ValueError(f"{name}, line {number}: {error}.") from None
        rules._prefix_lengths = sorted({len(part) for part in rules._prefixes}, reverse=True)
        rules._suffix_lengths = sorted({len(part) for part in rules._suffixes}, reverse=True)
        return rules

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self._prefixes) + len(self._suffixes) + len(self._synonyms)

    def canonical(self, host: str) -> str:
        """Return the host that *host*, in the form of ``host_of``, counts as.

        A rule that would leave a name without a dot is not applied: www.com does not become com.
        Never raises. Takes 1 µs, so the caller should cache it.
        """
        for length in self._prefix_lengths:
            replacement = self._prefixes.get(host[:length])
            if replacement is not None and length <= len(host):
                host = _name_or(replacement + host[length:], host)
                break
        for length in self._suffix_lengths:
            replacement = self._suffixes.get(host[-length:])
            if replacement is not None and length <= len(host):
                host = _name_or(host[:-length] + replacement, host)
                break
        return self._synonyms.get(host, host)

    def _add(self, line: str) -> None:
        """Add the rule *line*; ValueError, with the end of a sentence, if it is invalid."""
        if len(line) > _MAX_LINE:
            raise ValueError(f"a rule may have at most {_MAX_LINE} characters")
        if len(self) >= MAX_RULES:
            raise ValueError(f"a file may have at most {MAX_RULES} rules")
        if "\\" in line:
            line = _ESCAPED.sub(_unescaped, line)
        match = _RULE.fullmatch(line)
        if match is None:
            raise ValueError(f"{line[:80]!r} is not a rule such as startsWith(www.)=")
        keyword, part, value = match[1], _part_of(match[2]), _part_of(match[3])
        if not part:
            raise ValueError(f"{keyword}() has no host")
        if keyword == "startsWith":
            self._prefixes[part] = value
        elif keyword == "endsWith":
            self._suffixes[part] = value
        elif keyword == "synonym":
            if not value:
                raise ValueError(f"synonym({part}) has no other host")
            self._synonyms[part] = value
        else:
            raise ValueError(f"{keyword[:80]!r} must be startsWith, endsWith or synonym")


def _name_or(name: str, otherwise: str) -> str:
    return name if "." in name.strip(".") and name[0] != "." and ".." not in name else otherwise


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Yield the lines of a properties file with the number of the first physical line of each.

    Empty lines and comments are skipped; continued lines are joined but not unescaped. A line that
    is too long is cut, but is still too long.
    """
    joined, first = "", 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\f\r")
        if not joined:
            if not line or line[0] in "#!":
                continue
            first = number
        joined = (joined + line)[: _MAX_LINE + 1]
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield first, joined
        joined = ""
    if joined:
        yield first, joined


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]


def _part_of(text: str) -> str:
    """Return a host name or a piece of one as ``host_of`` spells it; or raise ValueError."""
    part = text.strip().replace(",", ".").lower()
    if not part.isascii():
        part = ".".join(label if label.isascii() else _encoded(label) for label in part.split("."))
    if len(part) > _MAX_NAME or not _PART.fullmatch(part):
        raise ValueError(f"{text[:80]!r} is not a valid part of a host name")
    return part


def _encoded(label: str) -> str:
    url = normalize(f"http://{label}/")
    return host_of(url) if url else label
