"""Plain form of ordinary Requests: bytes that can only be decoded to data, never to code.

It holds the attributes of a Request that Scrapy's ``to_dict`` returns, in msgpack. They may contain
None, bool, int (64 bits), float, str, bytes, and lists, tuples and dicts of these. A callback is
stored as the name of a public method of the spider::

    request := "plain/" {attribute: value, ...}  values that are empty, 0 or False are left out
    tuple   := ext 1, array                      an extension, because msgpack has only lists

The invariant: decoding runs no code except that of Scrapy's Request classes, even if an attacker
wrote the bytes.
"""

from __future__ import annotations

from inspect import ismethod
from typing import Any

import msgspec
from lxml.etree import _ElementUnicodeResult as TextOfElement
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, XmlRpcRequest
from scrapy.utils.request import request_from_dict

from webcrawl.configuration.decoding import msgpack_decoder

#: Prefix of the plain form of a Request.
PLAIN = b"plain/"
_CLASSES = frozenset(
    f"{cls.__module__}.{cls.__name__}" for cls in (FormRequest, JsonRequest, XmlRpcRequest)
)
# Private methods that Scrapy's spiders use as callbacks.
_SCRAPY_CALLBACKS = frozenset({"_callback", "_errback", "_parse_sitemap"})
_ATOMS = frozenset({type(None), bool, int, float, str, bytes})
_TUPLE = 1


class NotPlainError(ValueError):
    """Raised for a Request that has no plain form; the message says why."""


def to_plain(attributes: dict[str, Any], spider: Spider) -> bytes:
    """Return the plain form of a Request of *spider*.

    *attributes* is the result of ``Request.to_dict``. Raises NotPlainError.
    """
    try:
        _check(attributes, spider)
        # Decoding gives the attributes that are left out their defaults.
        present = {name: value for name, value in attributes.items() if value}
        return PLAIN + msgspec.msgpack.encode(_encodable(present))
    except (OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise NotPlainError(str(error)) from error


def from_plain(packed: bytes, spider: Spider) -> Request:
    """Decode *packed*, a result of ``to_plain``. Other bytes may raise any exception."""
    attributes = _decode(memoryview(packed)[len(PLAIN) :])
    _check(attributes, spider)
    return request_from_dict(attributes, spider=spider)


def _check(attributes: dict[str, Any], spider: Spider) -> None:
    """Raise NotPlainError unless class, callback and errback of a Request are allowed."""
    class_name = attributes.get("_class")
    if class_name is not None and class_name not in _CLASSES:
        raise NotPlainError(f"{class_name} is not a Request class of Scrapy's")
    for name in (attributes.get("callback"), attributes.get("errback")):
        if name is not None and not _is_callback(spider, name):
            raise NotPlainError(f"{name} is not a public method of the spider")


def _is_callback(spider: Spider, name: str) -> bool:
    """Return whether *name* is a method of *spider* that a Request may name."""
    method = getattr(spider, name, None)
    if name.startswith("_"):
        is_scrapys_own = getattr(method, "__module__", "").startswith("scrapy.spiders.")
        return name in _SCRAPY_CALLBACKS and is_scrapys_own
    return ismethod(method)


def _encodable(value: Any) -> Any:
    """Convert *value* to a form that msgpack can encode. Raises NotPlainError."""
    cls = type(value)
    if cls in _ATOMS:
        return value
    if cls is list:
        return [*map(_encodable, value)]
    if cls is tuple:
        return msgspec.msgpack.Ext(_TUPLE, msgspec.msgpack.encode([*map(_encodable, value)]))
    if cls is dict:
        if not _ATOMS.issuperset(map(type, value)):
            raise NotPlainError("a dict has keys other than None, bool, int, float, str and bytes")
        return {key: _encodable(item) for key, item in value.items()}
    if cls is TextOfElement:  # the text of a link
        return str(value)
    raise NotPlainError(
        f"{cls.__qualname__} is not plain (None, bool, int, float, str, bytes, list, tuple, dict)"
    )


def _extension(code: int, data: memoryview) -> Any:
    """Decode the *data* of a msgpack extension; the only one is for tuples."""
    if code != _TUPLE:
        raise NotPlainError(f"it has the msgpack extension {code}")
    return tuple(_decode_list(data))


_decode = msgpack_decoder(dict[str, Any], ext_hook=_extension)
_decode_list = msgpack_decoder(list[Any], ext_hook=_extension)
