"""Media type and charset of an answer, from its Content-Type.

The rules are those of the Fetch Standard, "extract a MIME type". Several header fields, or several
types in one, are tried in order; the last one that can be parsed counts. A value that cannot be
parsed (``html``, ``text/html charset=utf-8``) counts as not sent, and the document is then judged
by its bytes. The value of ``charset`` is read as leniently as servers write it: with spaces around
it, or in single quotes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Bytes that are read. Real fields are shorter, and the cache must be bounded.
_MAX_BYTES = 512

_VALUE = re.compile(r'(?:[^",]++|"(?:[^"\\]++|\\.)*+"?)++', re.DOTALL)
_NAME = r"[!#$%&'*+.^_`|~0-9a-z-]++"
_TYPE = re.compile(rf"\s*+({_NAME}/{_NAME})\s*+(?=;|\Z)", re.ASCII)
_PARAMETER = re.compile(
    r';([^;="]*+)(?:=\s*+(?:"((?:[^"\\]++|\\.)*+)"?[^;]*+|([^;]*+)))?', re.DOTALL | re.ASCII
)


def content_type_of(fields: Iterable[bytes]) -> tuple[str, str]:
    """Return the media type and charset in the Content-Type header *fields*.

    Both are in lower case, and empty if not given.
    """
    return _parsed(b",".join(fields)[:_MAX_BYTES])


@lru_cache(1024)
def _parsed(field: bytes) -> tuple[str, str]:
    essence = charset = ""
    for value in _VALUE.findall(field.decode("latin-1").lower()):
        match = _TYPE.match(value)
        if match is None or match[1] == "*/*":
            continue
        label = _charset(value[match.end() :])
        if label or match[1] != essence:
            charset = label
        essence = match[1]
    return essence, charset


def _charset(parameters: str) -> str:
    for name, quoted, plain in _PARAMETER.findall(parameters):
        label: str = (quoted or plain).strip(" \t\r\n'")
        if name.strip() == "charset" and label:
            return label
    return ""
