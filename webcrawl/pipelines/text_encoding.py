"""Detects the encoding of text that declares no encoding and is not valid UTF-8.

The result is used for text only; links are resolved in the encoding found by ``charset.detect``.
UTF-16 and ISO-2022-JP are recognized by bytes that no other encoding has, and UTF-8 with errors by
its valid part. Otherwise Resiliparse's detector decides, which takes up to 1 ms.
"""

from __future__ import annotations

import re

from webcrawl.urls.extraction import charset

# Number of bytes that are searched for text, and number of bytes of text for the detector.
_SEARCHED_BYTES = 1 << 19
_SAMPLE_BYTES = 1 << 12
# In UTF-16, ASCII characters have a zero byte, always on the same side. There must be more than
# _MIN_ZEROS zero bytes on one side, and more than _MIN_RATIO times as many as on the other side,
# where Chinese characters have some.
_MIN_ZEROS = 8
_MIN_RATIO = 3
# The detector is only used if at least this share of the sample is not ASCII. If fewer than
# _MAX_ERRORS of these characters are errors, the text is UTF-8.
_MIN_SHARE = 0.02
_MAX_ERRORS = 0.2

_TEXT = re.compile(rb"(?:[^<>\x80-\xff]*+[<>])*+([^<>\x80-\xff]*+[\x80-\xff][^<>]*+)")
_ISO_2022_JP = re.compile(rb"\x1b\$[@B]")
# By the detector's name of an encoding: the web's name for it; for KOI8-R, a superset; and "" for
# encodings that the detector only names by mistake.
_LABELS = {
    "cp949": "euc-kr",
    "euc_jp": "euc-jp",
    "mac-cyrillic": "x-mac-cyrillic",
    "koi8-r": "koi8-u",
    **dict.fromkeys([f"iso8859-{part}" for part in (3, 4, 10, 14, 15, 16)], ""),
}
# Windows encodings that the detector mistakes for ISO encodings, which have no characters at 80 to
# 9F. In Greek, A2 before a letter is a letter in one and a quotation mark in the other.
_WINDOWS = {
    "iso8859-2": "cp1250",
    "iso8859-6": "cp1256",
    "iso8859-7": "cp1253",
    "iso8859-8": "cp1255",
    "iso8859-13": "cp1257",
}
# Latin encodings and the languages written in them. If the detector names such an encoding for a
# text in another language, the text is in windows-1252.
_LATIN = {
    **dict.fromkeys(("cp1250", "iso8859-2"), "bs cs hr hu pl ro sk sl sr"),
    **dict.fromkeys(("cp1257", "iso8859-13"), "et lt lv"),
    "cp1254": "tr",
    "cp1258": "vi",
}
_ONLY_WINDOWS = re.compile(rb"[\x80-\x9f]|\xa2[\xc0-\xfe]")


def encoding_of(body: bytes, *, declared: str) -> tuple[str, str]:
    """Return the Python codec for the text of *body*, and the source of that decision.

    The source is bom, header, meta, utf8, or guessed. *declared* is the encoding label in the
    header. Takes time linear in the length of *body*.
    """
    codec, source = charset.evidence(body, declared=declared)
    # UTF-16 has zero bytes, and ISO-2022-JP escape characters. Both may look like valid UTF-8.
    if source == "guessed" or (source == "utf8" and (b"\0" in body or b"\x1b" in body)):
        guess = _guess(body) or codec
        return guess, source if guess == codec else "guessed"
    return codec, source


def _guess(body: bytes) -> str | None:
    """Return the most likely codec of *body*, or None if there is no evidence."""
    beginning = body[:_SAMPLE_BYTES]
    # In UTF-16, each ASCII character has a zero byte, at an even position if it is big-endian.
    even = beginning[::2].count(0)
    odd = beginning[1::2].count(0)
    if max(even, odd) > max(_MIN_ZEROS, _MIN_RATIO * min(even, odd)):
        return "utf-16-be" if even > odd else "utf-16-le"
    if body.isascii():
        return "iso2022_jp_ext" if _ISO_2022_JP.search(body) else None
    sample = _sample(body)
    text = sample.decode("utf-8", "replace")
    non_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if text.count("\ufffd") < _MAX_ERRORS * non_ascii:  # the character stands for an error
        return "utf-8"
    return _detect(sample) if non_ascii >= _MIN_SHARE * len(sample) else None


def _sample(body: bytes) -> bytes:
    """Return the first pieces of text in *body* that are not ASCII, without markup."""
    sample = b""
    position = 0
    while len(sample) < _SAMPLE_BYTES and (match := _TEXT.match(body, position, _SEARCHED_BYTES)):
        sample += b"\n" + match[1][:_SAMPLE_BYTES]
        position = match.end()
    return sample


def _detect(sample: bytes) -> str | None:
    """Return the codec that Resiliparse detects in *sample*, corrected; None if it finds none."""
    from resiliparse.parse.encoding import detect_encoding  # noqa: PLC0415  # installed by `make modules`
    from resiliparse.parse.lang import detect_fast  # noqa: PLC0415  # as above

    name = detect_encoding(sample, max_len=2 * _SAMPLE_BYTES, html5_compatible=False) or ""
    codec = charset.codec_for(_LABELS.get(name, name))
    if codec in _WINDOWS and _ONLY_WINDOWS.search(sample):
        codec = _WINDOWS[codec]
    if codec in _LATIN:  # the detector also names these for texts that are in windows-1252
        language = detect_fast(sample.decode(codec, "replace"))[0]
        return codec if language in _LATIN[codec].split() else None
    return codec
