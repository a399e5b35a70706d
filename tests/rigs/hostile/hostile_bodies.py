"""What the table of hostile kinds has names for: parts of answers, and bombs of every coding."""

import random
import zlib
from functools import partial

import brotli
from isal import isal_zlib

from webcrawl.net.http.decoding import zstd

MEGABYTE = 1 << 20
GIGABYTE = 1 << 30
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

gzip = partial(isal_zlib.compress, level=1, wbits=31)
html = b"<!DOCTYPE html><title>hostile</title>".__add__
noise = bytes(range(128, 256))
random_bytes = random.Random(1).randbytes


def answer(body, *fields, status=b"200 OK"):
    """A sound answer; *fields* are further lines of its header."""
    lines = [b"HTTP/1.1 " + status, b"Content-Type: text/html", *fields]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


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


def nested_gzip(times=10):
    """Zeros packed *times* times over: each layer is harmless beside the one below it."""
    body = bytes(64 * MEGABYTE)
    for _ in range(times):
        body = gzip(body)
    return body


def brotli_bomb():
    """A quarter of a gigabyte in a few hundred bytes: brotli has no bound on its ratio."""
    packer = brotli.Compressor(quality=1, lgwin=24)
    packed = [packer.process(b"<p>brotli"), *(packer.process(bytes(MEGABYTE)) for _ in range(256))]
    return b"".join(packed) + packer.finish()


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
