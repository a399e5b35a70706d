"""Decoders of JSON and msgpack that came from outside: disk, Redis, sockets, processes, HTTP.

Each returns a value of its type or raises `UndecodableError`, whatever the bytes are. Make them
when a module is loaded: msgspec (0.22) crashes if two threads at once are the first to decode a
Struct.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, overload

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_Bytes: TypeAlias = "bytes | memoryview"
_Text: TypeAlias = "bytes | str"

#: The largest number from outside: a float holds it exactly, and as epoch seconds it has a date.
MOST = 1 << 53
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
#: Finite; negative ones come from clocks that were set back.
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=-MOST, le=MOST)]
#: Epoch seconds as far as ``datetime`` goes: up to the year 9892.
Epoch: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=2.5e11)]


class UndecodableError(msgspec.DecodeError):
    """The error of bytes, or of a value in them, that are not what they should be."""


@overload
def msgpack_decoder(kind: type[T], **more: Any) -> Callable[[_Bytes], T]: ...
@overload
def msgpack_decoder(kind: Any, **more: Any) -> Callable[[_Bytes], Any]: ...
def msgpack_decoder(kind: Any, **more: Any) -> Callable[[_Bytes], Any]:
    """Return a decoder of msgpack for the type *kind*; *more* as ``msgspec.msgpack.Decoder``."""
    return _guarded(msgspec.msgpack.Decoder(kind, **more).decode)


@overload
def json_decoder(kind: type[T], **more: Any) -> Callable[[_Text], T]: ...
@overload
def json_decoder(kind: Any, **more: Any) -> Callable[[_Text], Any]: ...
def json_decoder(kind: Any, **more: Any) -> Callable[[_Text], Any]:
    """Return a decoder of JSON for the type *kind*; *more* as ``msgspec.json.Decoder``."""
    return _guarded(msgspec.json.Decoder(kind, **more).decode)


def json_lines_decoder(kind: type[T]) -> Callable[[_Text], list[T]]:
    """Return a decoder of lines, each the JSON of a *kind*."""
    return _guarded(msgspec.json.Decoder(kind).decode_lines)


def converter(kind: type[T], *, strict: bool = True) -> Callable[[Any], T]:
    """Return a function that makes a *kind* of a value that was decoded without a type."""
    msgspec.json.Decoder(kind)  # no thread is the first to need it
    return _guarded(partial(msgspec.convert, type=kind, strict=strict))


def check_depth(value: Any, most: int) -> None:
    """Raise UndecodableError if lists and dicts of *value*, which was decoded without a type, are
    nested more than *most* deep. Python's own bound depends on its version and on the caller."""
    level = [value]
    for _ in range(most + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return
        insides = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for inside in insides for one in inside]
    raise UndecodableError(f"nested more than {most} deep")


def _guarded(decode: Callable[[Any], T]) -> Callable[[Any], T]:
    def decoded(data: Any) -> T:
        try:
            return decode(data)
        except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
            raise UndecodableError(str(error)) from error

    return decoded
