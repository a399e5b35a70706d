"""Plain form of ordinary Requests: bytes that can only be decoded to data, never to code.

The parts of a Request that Scrapy's to_dict gives, in msgpack. They may contain None, bool, int (of
64 bits), float, str, bytes, and lists, tuples and dicts of these. A callback is the name of a
public method of the spider::

    request := "plain/" {part: value, ...}     parts that are empty, 0 or False are left out
    tuple   := ext 1, array                    msgpack cannot distinguish it from a list

The invariant: whoever wrote the bytes, reading them runs no code except Scrapy's Request classes.
"""

from __future__ import annotations

from inspect import ismethod
from typing import TYPE_CHECKING, Any

import msgspec
from lxml.etree import _ElementUnicodeResult as TextOfElement
from scrapy import FormRequest, Request
from scrapy.http import JsonRequest, XmlRpcRequest
from scrapy.utils.request import request_from_dict

from webcrawl.configuration.decoding import msgpack_decoder

if TYPE_CHECKING:
    from scrapy import Spider

#: Prefix of the plain form of a Request.
PLAIN = b"plain/"
_CLASSES = frozenset(
    f"{one.__module__}.{one.__name__}" for one in (FormRequest, JsonRequest, XmlRpcRequest)
)
# Private methods that Scrapy's spiders use as callbacks.
_OF_SCRAPY = frozenset({"_callback", "_errback", "_parse_sitemap"})
_ATOMS = frozenset({type(None), bool, int, float, str, bytes})
_TUPLE = 1


class NotPlainError(ValueError):
    """Error of a Request that has no plain form; says why."""


def to_plain(parts: dict[str, Any], spider: Spider) -> bytes:
    """Return the plain form of a Request of *spider*.

    *parts* are as ``Request.to_dict`` gives them. Raises NotPlainError.
    """
    try:
        _check(parts, spider)
        present = {name: value for name, value in parts.items() if value}
        return PLAIN + msgspec.msgpack.encode(_encodable(present))
    except (OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise NotPlainError(str(error)) from error


def from_plain(packed: bytes, spider: Spider) -> Request:
    """Return the Request for the bytes of ``to_plain``. Other bytes may raise any exception."""
    parts = _decode(memoryview(packed)[len(PLAIN) :])
    _check(parts, spider)
    return request_from_dict(parts, spider=spider)


def _check(parts: dict[str, Any], spider: Spider) -> None:
    kind = parts.get("_class")
    if kind is not None and kind not in _CLASSES:
        raise NotPlainError(f"{kind} is not a Request class of Scrapy's")
    for name in (parts.get("callback"), parts.get("errback")):
        if name is not None and not _is_callback(spider, name):
            raise NotPlainError(f"{name} is not a public method of the spider")


def _is_callback(spider: Spider, name: str) -> bool:
    method = getattr(spider, name, None)
    if name.startswith("_"):
        is_scrapys_own = getattr(method, "__module__", "").startswith("scrapy.spiders.")
        return name in _OF_SCRAPY and is_scrapys_own
    return ismethod(method)


def _encodable(value: Any) -> Any:
    """Return *value* in a form that msgpack can encode. Raises NotPlainError."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list:
        return [*map(_encodable, value)]
    if kind is tuple:
        return msgspec.msgpack.Ext(_TUPLE, msgspec.msgpack.encode([*map(_encodable, value)]))
    if kind is dict:
        if not _ATOMS.issuperset(map(type, value)):
            raise NotPlainError("a dict has keys other than None, bool, int, float, str and bytes")
        return {key: _encodable(one) for key, one in value.items()}
    if kind is TextOfElement:  # the text of a link
        return str(value)
    raise NotPlainError(
        f"{kind.__qualname__} is not plain (None, bool, int, float, str, bytes, list, tuple, dict)"
    )


def _extension(code: int, data: memoryview) -> Any:
    if code != _TUPLE:
        raise NotPlainError(f"it has the msgpack extension {code}")
    return tuple(_decode_list(data))


_decode = msgpack_decoder(dict[str, Any], ext_hook=_extension)
_decode_list = msgpack_decoder(list[Any], ext_hook=_extension)
