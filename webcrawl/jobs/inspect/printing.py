"""Printing of results on standard output, as text or JSON.

Much of a result is text from strangers, and a terminal obeys control characters: in text they are
escaped as Python would write them, as are characters that the terminal's encoding does not have.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable


def print_answer(result: object, text: Callable[[], str], *, as_json: bool) -> None:
    """Print *result* as JSON, or *text* of it. A closed pipe is no error."""
    if as_json:
        data = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    else:
        data = visible(text()).encode(sys.stdout.encoding, "backslashreplace")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing may be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def visible(text: str) -> str:
    r"""*text* with all control characters but ends of lines escaped.

    >>> visible("Disallow: /\x1b[2J\x9b\n")
    'Disallow: /\\x1b[2J\\x9b\n'
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode()
        for one in text
    )
