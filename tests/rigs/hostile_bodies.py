"""Bodies that are not what they seem: bombs of every content coding, and HTML for bad parsers.

Each is made once, before the first request, since some take half a second to pack.
"""

from __future__ import annotations

import functools
import zlib

import brotli
from isal import isal_zlib

from webcrawl.net.http.decoding import zstd

MEGABYTE = 1 << 20
GIGABYTE = 1 << 30


@functools.cache
def gzip_bomb(begins=b"<p>gzip"):
    """A gigabyte of zeros after *begins*, a thousand to one and whole: the checksum is right."""
    # A full flush makes each megabyte stand for itself, so that it is packed once, not 1,024 times.
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(MEGABYTE)
    first = packer.compress(begins) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    crc = zlib.crc32(begins)
    for _ in range(GIGABYTE // MEGABYTE):
        crc = isal_zlib.crc32(zeros, crc)
    head = b"\x1f\x8b\x08\0\0\0\0\0\2\xff"
    size = (len(begins) + GIGABYTE) & 0xFFFFFFFF
    tail = crc.to_bytes(4, "little") + size.to_bytes(4, "little")
    return head + first + packed * (GIGABYTE // MEGABYTE) + packer.flush() + tail


@functools.cache
def nested_gzip(times=10):
    """Zeros packed *times* times over: each layer is harmless beside the one below it."""
    body = bytes(64 * MEGABYTE)
    for _ in range(times):
        body = isal_zlib.compress(body, 1, 31)
    return body


@functools.cache
def brotli_bomb():
    """A quarter of a gigabyte in a few hundred bytes: brotli has no bound on its ratio."""
    packer = brotli.Compressor(quality=1, lgwin=24)
    packed = [packer.process(b"<p>brotli"), *(packer.process(bytes(MEGABYTE)) for _ in range(256))]
    return b"".join(packed) + packer.finish()


@functools.cache
def zstd_bomb():
    """A gigabyte of zeros within the window that every decoder has."""
    packer = zstd.ZstdCompressor()
    packed = [packer.compress(b"<p>zstd")]
    packed += [packer.compress(bytes(MEGABYTE)) for _ in range(GIGABYTE // MEGABYTE)]
    return b"".join(packed) + packer.flush()


def zstd_with_wide_window():
    """A frame that asks for a window of 2 GB and fills it by run-length blocks (RFC 8878, 3.1)."""
    head = b"\x28\xb5\x2f\xfd" + bytes((0, 21 << 3))  # no size given; window 2**(10 + 21)
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"  # type 1: one byte, repeated
    last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return head + block * 16_384 + last


def many_gzip_members():
    """A hundred thousand empty parts one after the other, which is legal."""
    return isal_zlib.compress(b"", 1, 31) * 100_000


def truncated_gzip():
    """Half of a stream."""
    packed = isal_zlib.compress(bytes(range(256)) * 4000, 1, 31)
    return packed[: len(packed) // 2]


def gzip_with_wrong_checksum():
    return isal_zlib.compress(b"<p>packed" * 100, 1, 31)[:-8] + b"\xff" * 8


def deflate_garbage():
    """What begins as deflate does and goes on as nothing does."""
    return b"\x78\x9c" + b"\xff\0" * 100


def html(inner):
    return b"<!DOCTYPE html><title>hostile</title>" + inner


@functools.cache
def nested_tags():
    return html(b"<div>" * 100_000)


@functools.cache
def nested_formatting():
    """Unclosed formatting elements, which a parser has to open anew in every paragraph."""
    return html(b"".join(b"<b id=%d><p>" % n for n in range(50_000)))


@functools.cache
def million_links():
    return html(b"".join(b"<a href=/l/%d>x</a>" % n for n in range(1_000_000)))


@functools.cache
def null_bytes():
    return html(b"\0<\0a\0 \0h\0r\0e\0f\0=\0/\0>" * 20_000)


@functools.cache
def long_attribute():
    return html(b'<a href="/' + b"a" * (MEGABYTE - 200) + b'">x</a>')


def odd_utf16():
    """Surrogates without a partner, and an odd number of bytes."""
    return b"\xff\xfe" + b"\x00\xd8<\0a\0>\0" * 5000 + b"\xdc"


@functools.cache
def endless_entities():
    return html(b"&amp" * 60_000 + b"&#" + b"9" * 200_000 + b"&" * 200_000)


@functools.cache
def comment_never_closed():
    return html(b"<!--" + b"<!-- -->-" * 40_000 + b"<a href=" * 40_000)


@functools.cache
def many_attributes():
    return html(b"<a " + b" ".join(b"x%d=1" % n for n in range(100_000)) + b">x</a>")


def bad_links():
    """References of which no URL can be made, or none that anybody could ask."""
    hosts = [
        b"[::1",
        b"a..b",
        b"h:99999",
        b"h:-1",
        b"a b",
        b"\xff\xfe",
        b"%zz",
        b"x@",
        b"1.2.3.4.5",
    ]
    return b"".join(b'<a href="http://%s/">x</a>' % host for host in hosts)


_MADE_ONCE = (
    gzip_bomb,
    nested_gzip,
    brotli_bomb,
    zstd_bomb,
    nested_tags,
    nested_formatting,
    million_links,
    null_bytes,
    long_attribute,
    endless_entities,
    comment_never_closed,
    many_attributes,
)


def make_all():
    """Pack what takes long now, so that no server is late because of it."""
    for make in _MADE_ONCE:
        make()
