"""Decoders for JSON and msgpack from outside: disk, Redis, sockets, processes, HTTP.

For any bytes, each returns a value of its type or raises ``UndecodableError``. Create decoders when
a module is loaded: msgspec (0.22) crashes if two threads are the first to decode a Struct at the
same time.
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

#: The largest number accepted: a float holds it exactly.
MOST = 1 << 53
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
#: Finite seconds, negative if a clock was set back.
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=-MOST, le=MOST)]
#: Epoch seconds as far as ``datetime`` goes: up to the year 9892.
Epoch: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=2.5e11)]


class UndecodableError(msgspec.DecodeError):
    """Error for bytes, or a value in them, that are not of the expected form."""


@overload
def msgpack_decoder(kind: type[T], **more: Any) -> Callable[[_Bytes], T]: ...
@overload
def msgpack_decoder(kind: Any, **more: Any) -> Callable[[_Bytes], Any]: ...
def msgpack_decoder(kind: Any, **more: Any) -> Callable[[_Bytes], Any]:
    """Return a msgpack decoder for the type *kind*; *more* as for ``msgspec.msgpack.Decoder``."""
    return _guarded(msgspec.msgpack.Decoder(kind, **more).decode)


@overload
def json_decoder(kind: type[T], **more: Any) -> Callable[[_Text], T]: ...
@overload
def json_decoder(kind: Any, **more: Any) -> Callable[[_Text], Any]: ...
def json_decoder(kind: Any, **more: Any) -> Callable[[_Text], Any]:
    """Return a JSON decoder for the type *kind*; *more* as for ``msgspec.json.Decoder``."""
    return _guarded(msgspec.json.Decoder(kind, **more).decode)


def json_lines_decoder(kind: type[T]) -> Callable[[_Text], list[T]]:
    """Return a decoder for lines of JSON, each a *kind*."""
    return _guarded(msgspec.json.Decoder(kind).decode_lines)


def converter(kind: type[T], *, strict: bool = True) -> Callable[[Any], T]:
    """Return a function that converts a value, which was decoded without a type, to *kind*."""
    msgspec.json.Decoder(kind)  # threads that prepare a type at the same time crash msgspec
    return _guarded(partial(msgspec.convert, type=kind, strict=strict))


def check_depth(value: Any, most: int) -> None:
    """Raise UndecodableError if lists and dicts in *value* are nested more than *most* deep.

    Python's own limit depends on its version and on the caller.
    """
    level = [value]
    for _ in range(most + 1):
        level = [value for value in level if isinstance(value, dict | list)]
        if not level:
            return
        insides = (value.values() if isinstance(value, dict) else value for value in level)
        level = [value for inside in insides for value in inside]
    raise UndecodableError(f"nested more than {most} levels deep")


def _guarded(decode: Callable[[Any], T]) -> Callable[[Any], T]:
    def decoded(data: Any) -> T:
        try:
            return decode(data)
        except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
            raise UndecodableError(str(error)) from error

    return decoded
