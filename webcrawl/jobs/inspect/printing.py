"""Answers on standard output, in words or as JSON.

Much of an answer was written by strangers, and a terminal obeys control characters: in words they
are shown as Python would write them, as is what the terminal's encoding does not have.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable


def print_answer(told: msgspec.Struct, text: Callable[[], str], *, as_json: bool) -> None:
    """Print *told*, or what *text* makes of it. A reader that has gone away has seen enough."""
    if as_json:
        data = msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"
    else:
        data = visible(text()).encode(sys.stdout.encoding, "backslashreplace")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing may be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def visible(text: str) -> str:
    r"""*text* with all but its ends of lines to be seen.

    >>> visible("Disallow: /\x1b[2J\x9b\n")
    'Disallow: /\\x1b[2J\\x9b\n'
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode()
        for one in text
    )
