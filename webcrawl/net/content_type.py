"""Parser of Content-Type: media type and charset of an answer.

The rules are those of the Fetch Standard, "extract a MIME type". If there are several header
fields, or several types in one field, the last one that can be parsed counts. A value that cannot
be parsed (``html``, ``text/html charset=utf-8``) is ignored, and the type of the document is then
guessed from its bytes. The value of ``charset`` may have spaces around it or stand in single
quotes, as some servers write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

# Number of bytes that are parsed. Real fields are shorter, and the size of the cache must be
# bounded.
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
    return _parse(b",".join(fields)[:_MAX_BYTES])


@lru_cache(1024)
def _parse(field: bytes) -> tuple[str, str]:
    """Return the media type and charset in *field*, all header fields joined by commas."""
    essence = ""
    charset = ""
    for value in _VALUE.findall(field.decode("latin-1").lower()):
        match = _TYPE.match(value)
        if match is None or match[1] == "*/*":
            continue

        # A charset also applies to later values with the same type and no charset.
        label = _charset(value[match.end() :])
        if label or match[1] != essence:
            charset = label
        essence = match[1]
    return essence, charset


def _charset(parameters: str) -> str:
    """Return the value of the first charset in *parameters* of a media type, or ""."""
    for name, quoted, plain in _PARAMETER.findall(parameters):
        label: str = (quoted or plain).strip(" \t\r\n'")
        if name.strip() == "charset" and label:
            return label
    return ""
