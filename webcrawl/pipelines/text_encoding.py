"""Encoding detection for text that declares no encoding and is not UTF-8.

It is used for text only; links are resolved as ``charset.detect`` says. UTF-16 and ISO-2022-JP are
recognized by bytes that no other encoding has, and UTF-8 with errors by its valid part. For all
others Resiliparse's detector is asked, which takes up to 1 ms.
"""

from __future__ import annotations

import re

from webcrawl.urls.extraction import charset

# How many bytes are searched for text, and how many bytes of text the detector gets.
_SEARCHED_BYTES = 1 << 19
_SAMPLE_BYTES = 1 << 12
# In UTF-16, ASCII characters have a zero byte, always on the same side. There must be at least
# _MIN_ZEROS, and _TIMES as many as on the other side, where Chinese characters have some.
_MIN_ZEROS = 8
_TIMES = 3
# The sample needs at least this share of bytes that are not ASCII. If at most _MAX_ERRORS of those
# are errors, it is UTF-8.
_MIN_SHARE = 0.02
_MAX_ERRORS = 0.2

_TEXT = re.compile(rb"(?:[^<>\x80-\xff]*+[<>])*+([^<>\x80-\xff]*+[\x80-\xff][^<>]*+)")
_ISO_2022_JP = re.compile(rb"\x1b\$[@B]")
# The web's names for some encodings of the detector, a superset for KOI8-R, and encodings that the
# detector only names by mistake.
_LABELS = {
    "cp949": "euc-kr",
    "euc_jp": "euc-jp",
    "mac-cyrillic": "x-mac-cyrillic",
    "koi8-r": "koi8-u",
    **dict.fromkeys([f"iso8859-{part}" for part in (3, 4, 10, 14, 15, 16)], ""),
}
# Windows encodings that the detector mistakes for ISO ones, which have no characters in 80 to 9F.
# In Greek, A2 before a letter is a letter in one and a quotation mark in the other.
_WINDOWS = {
    "iso8859-2": "cp1250",
    "iso8859-6": "cp1256",
    "iso8859-7": "cp1253",
    "iso8859-8": "cp1255",
    "iso8859-13": "cp1257",
}
# Latin encodings and the languages written in them. If the detector names one for a text in another
# language, that text is in windows-1252.
_LATIN = {
    **dict.fromkeys(("cp1250", "iso8859-2"), "bs cs hr hu pl ro sk sl sr"),
    **dict.fromkeys(("cp1257", "iso8859-13"), "et lt lv"),
    "cp1254": "tr",
    "cp1258": "vi",
}
_ONLY_WINDOWS = re.compile(rb"[\x80-\x9f]|\xa2[\xc0-\xfe]")


def encoding_of(body: bytes, *, declared: str) -> tuple[str, str]:
    """Return the Python codec for the text of *body*, and the source of that decision.

    The source is bom, header, meta, utf8, or guessed; *declared* is the label in the header. Takes
    time linear in the length of *body*.
    """
    codec, source = charset.evidence(body, declared=declared)
    if source == "guessed" or (source == "utf8" and (b"\0" in body or b"\x1b" in body)):
        guess = _guess(body) or codec
        return guess, source if guess == codec else "guessed"
    return codec, source


def _guess(body: bytes) -> str | None:
    head = body[:_SAMPLE_BYTES]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if max(even, odd) > max(_MIN_ZEROS, _TIMES * min(even, odd)):
        return "utf-16-be" if even > odd else "utf-16-le"
    if body.isascii():
        return "iso2022_jp_ext" if _ISO_2022_JP.search(body) else None
    sample = _sample(body)
    text = sample.decode("utf-8", "replace")
    others = len(text) - len(text.encode("ascii", "ignore"))
    if text.count("\ufffd") < _MAX_ERRORS * others:
        return "utf-8"
    return _detected(sample) if others >= _MIN_SHARE * len(sample) else None


def _sample(body: bytes) -> bytes:
    """Return the first pieces of text in *body* that are not ASCII."""
    sample = b""
    at = 0
    while len(sample) < _SAMPLE_BYTES and (match := _TEXT.match(body, at, _SEARCHED_BYTES)):
        sample += b"\n" + match[1][:_SAMPLE_BYTES]
        at = match.end()
    return sample


def _detected(sample: bytes) -> str | None:
    from resiliparse.parse.encoding import detect_encoding  # noqa: PLC0415  # of `make modules`
    from resiliparse.parse.lang import detect_fast  # noqa: PLC0415  # of `make modules`

    name = detect_encoding(sample, max_len=2 * _SAMPLE_BYTES, html5_compatible=False) or ""
    codec = charset.codec_for(_LABELS.get(name, name))
    if codec in _WINDOWS and _ONLY_WINDOWS.search(sample):
        codec = _WINDOWS[codec]
    if codec in _LATIN:
        language = detect_fast(sample.decode(codec, "replace"))[0]
        return codec if language in _LATIN[codec].split() else None
    return codec
