"""Decoders for JSON and msgpack from outside the program: disk, Redis, sockets, processes, HTTP.

For any input, a decoder returns a value of its type or raises ``UndecodableError``. Create decoders
when a module is loaded: msgspec (0.22) crashes if two threads decode a Struct for the first time
simultaneously.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")
_Bytes = bytes | memoryview
_Text = bytes | str

#: The largest number accepted; a float represents it exactly.
MOST = 1 << 53
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
#: Finite seconds, negative if a clock was set back.
Seconds = Annotated[float, msgspec.Meta(ge=-MOST, le=MOST)]
#: Epoch seconds that ``datetime`` can represent: up to the year 9892.
Epoch = Annotated[float, msgspec.Meta(ge=0, le=2.5e11)]


class UndecodableError(msgspec.DecodeError):
    """Raised for bytes, or a value decoded from them, that do not have the expected form."""


def msgpack_decoder(kind: type[T], **more: Any) -> Callable[[_Bytes], T]:
    """Return a msgpack decoder for the type *kind*; *more* goes to ``msgspec.msgpack.Decoder``."""
    return _with_one_error(msgspec.msgpack.Decoder(kind, **more).decode)


def json_decoder(kind: type[T], **more: Any) -> Callable[[_Text], T]:
    """Return a JSON decoder for the type *kind*; *more* goes to ``msgspec.json.Decoder``."""
    return _with_one_error(msgspec.json.Decoder(kind, **more).decode)


def json_lines_decoder(kind: type[T]) -> Callable[[_Text], list[T]]:
    """Return a decoder for lines of JSON, each of which is a value of the type *kind*."""
    return _with_one_error(msgspec.json.Decoder(kind).decode_lines)


def converter(kind: type[T], *, strict: bool = True) -> Callable[[Any], T]:
    """Return a function that converts a value that was decoded without a type to *kind*."""
    msgspec.json.Decoder(kind)  # threads that prepare a type at the same time crash msgspec
    return _with_one_error(partial(msgspec.convert, type=kind, strict=strict))


def check_depth(value: Any, max_depth: int) -> None:
    """Raise UndecodableError if lists and dicts in *value* are nested deeper than *max_depth*.

    Python's own limit on recursion depends on its version and on the caller.
    """
    level = [value]
    for _ in range(max_depth + 1):
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return
        children = (item.values() if isinstance(item, dict) else item for item in containers)
        level = [child for group in children for child in group]
    raise UndecodableError(f"nested more than {max_depth} levels deep")


def _with_one_error(decode: Callable[[Any], T]) -> Callable[[Any], T]:
    """Return *decode* with its errors converted to UndecodableError."""

    def decode_or_raise(data: Any) -> T:
        try:
            return decode(data)
        except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
            raise UndecodableError(str(error)) from error

    return decode_or_raise
