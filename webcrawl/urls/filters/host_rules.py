"""LARM's host resolver: rules by which two host names count as the same host.

``Equivalence`` uses them only for the comparison form of URLs. The host that is contacted, and to
which politeness, robots rules and budgets apply, is always the one in the link. With
``startsWith(www.)=`` a page found on www.cnn.com is not fetched from cnn.com again.

The file has the format of LARM, a Java properties file, and files written for LARM can be used::

    # comments begin with # or !
    startsWith(www.)=                         removes www. from the beginning
    endsWith(.somehost.com)=.somehost2.com    replaces the end
    synonym(daedalus.apache.org)=apache.org   replaces the host

At most one rule of each kind is applied, in this order; if several match, the longest is applied. A
comma stands for a dot, because LARM's BeanUtils did not allow dots there. The case of hosts does
not matter, but that of the keywords does. International names need not be encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from webcrawl.errors import require_file
from webcrawl.urls.host import host_of
from webcrawl.urls.normalizer import normalize

#: Maximum number of rules in a file; a synonym takes 0.25 kB of memory.
MAX_RULES = 1_000_000

_MAX_BYTES = 1 << 27
_MAX_LINE = 1000

# A line of a properties file: the key, then "=", ":" or white space, then the value. A backslash
# joins lines and escapes characters.
_RULE = re.compile(r"(\w+)\(([^()]*)\)(?:\s*[=:]\s*|\s+|\Z)(.*)")
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_PART = re.compile(r"[a-z0-9._-]*")
_MAX_NAME = 253


class UrlHostRules:
    """Host rules of one file. Without rules, no two hosts count as the same."""

    def __init__(self) -> None:
        self._prefixes: dict[str, str] = {}
        self._suffixes: dict[str, str] = {}
        self._synonyms: dict[str, str] = {}
        # The lengths of all prefixes and suffixes, the longest first. A search takes one look-up
        # for each length.
        self._prefix_lengths: list[int] = []
        self._suffix_lengths: list[int] = []

    @classmethod
    def read(cls, path: Path) -> UrlHostRules:
        """Return the rules in the file *path*, which is UTF-8.

        Raises ValueError, whose message is a sentence with the file and line, if a rule is invalid,
        and OSError if the file cannot be read. A million rules take 4 s.
        """
        require_file(path)
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
        """Return the rules in *text*; error messages call it *name*."""
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
        """Return the host that *host*, a result of ``host_of``, counts as.

        A rule that would leave a name without a dot is not applied: www.com does not become com.
        Never raises. Takes 1 µs, so the caller should cache it.
        """
        for length in self._prefix_lengths:
            replacement = self._prefixes.get(host[:length])
            # A slice of a shorter host is the whole host; the same applies to suffixes.
            if replacement is not None and length <= len(host):
                host = _valid_name_or(replacement + host[length:], host)
                break
        for length in self._suffix_lengths:
            replacement = self._suffixes.get(host[-length:])
            if replacement is not None and length <= len(host):
                host = _valid_name_or(host[:-length] + replacement, host)
                break
        return self._synonyms.get(host, host)

    def _add(self, line: str) -> None:
        """Add the rule in *line*.

        Raises ValueError, whose message completes a sentence, if the rule is invalid.
        """
        if len(line) > _MAX_LINE:
            raise ValueError(f"a rule may have at most {_MAX_LINE} characters")
        if len(self) >= MAX_RULES:
            raise ValueError(f"a file may have at most {MAX_RULES} rules")
        if "\\" in line:
            line = _ESCAPED.sub(_unescape, line)
        match = _RULE.fullmatch(line)
        if match is None:
            raise ValueError(f"{line[:80]!r} is not a rule such as startsWith(www.)=")
        keyword = match[1]
        part = _part_of(match[2])
        value = _part_of(match[3])
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


def _valid_name_or(name: str, fallback: str) -> str:
    """Return *name* if it is a name with a dot and without empty labels, else *fallback*."""
    return name if "." in name.strip(".") and name[0] != "." and ".." not in name else fallback


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Yield each logical line of a properties file, with the number of its first physical line.

    Empty lines and comments are skipped. Continued lines are joined but not unescaped. A line that
    is too long is cut, but remains too long to be a rule.
    """
    logical_line = ""
    first_number = 0
    for number, physical_line in enumerate(text.split("\n"), 1):
        line = physical_line.strip(" \t\f\r")
        if not logical_line:
            if not line or line[0] in "#!":
                continue
            first_number = number
        logical_line = (logical_line + line)[: _MAX_LINE + 1]
        # Two backslashes are an escaped one. After an odd number, the next line continues this one.
        if (len(logical_line) - len(logical_line.rstrip("\\"))) % 2:
            logical_line = logical_line[:-1]
            continue
        yield first_number, logical_line
        logical_line = ""
    if logical_line:
        yield first_number, logical_line


def _unescape(match: re.Match[str]) -> str:
    """Return the character that a match of ``_ESCAPED`` stands for."""
    return chr(int(match[1], 16)) if match[1] else match[2]


def _part_of(text: str) -> str:
    """Return *text*, a host name or a part of one, as ``host_of`` spells it.

    Raises ValueError if it is not valid.
    """
    part = text.strip().replace(",", ".").lower()
    if not part.isascii():
        part = ".".join(
            label if label.isascii() else _encode_label(label) for label in part.split(".")
        )
    if len(part) > _MAX_NAME or not _PART.fullmatch(part):
        raise ValueError(f"{text[:80]!r} is not a valid part of a host name")
    return part


def _encode_label(label: str) -> str:
    """Return the ``xn--`` form of an international *label*, or *label* if it is not valid."""
    url = normalize(f"http://{label}/")
    return host_of(url) if url else label
