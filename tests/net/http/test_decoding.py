"""Content codings: what servers send, what they send broken, and bombs."""

import gzip
import random
import tracemalloc

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_answers import PACK, raw_deflate
from scrapy import Request
from scrapy.http import Headers, HtmlResponse, Response, TextResponse
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.errors import FatalError
from webcrawl.net.http.decoding import (
    BROKEN,
    NOT_DECODED,
    ContentDecodingMiddleware,
    codings_of,
    decode,
    zstd,
)
from webcrawl.net.limits import page_max_bytes

LIMIT = 100_000
PAGE = b"<html>" + b"".join(b"<p>paragraph %d</p>" % n for n in range(1500)) + b"</html>"

# zstd has blocks of 128 kB and gives nothing of half a block.
LONG_TAIL = random.Random(1).randbytes(300_000).hex().encode()


CODINGS = sorted(PACK.keys() - {b"raw deflate"})
# Ways in which a body in one coding comes, by name: the coding and what packs it.
PACKERS = {name.decode(): (name.removeprefix(b"raw "), pack) for name, pack in PACK.items()}


def middleware(limit=LIMIT):
    return ContentDecodingMiddleware(max_bytes=limit)


def respond(body, coding, *, flags=None):
    headers = Headers({b"Content-Type": b"text/html"})
    if coding is not None:
        headers[b"Content-Encoding"] = coding
    return Response("http://a.test/", headers=headers, body=body, flags=flags, protocol="HTTP/1.1")


def process(response, limit=LIMIT, **meta):
    request = Request(response.url, meta=meta)
    processed = middleware(limit).process_response(request, response)
    processed.request = request
    return processed


# --- sound bodies ----------------------------------------------------------------------------


@each("way", *PACKERS)
def test_a_coded_page_becomes_text_and_keeps_its_wire_body_and_headers(way):
    coding, pack = PACKERS[way]
    wire = pack(PAGE)
    response = process(respond(wire, coding))
    assert isinstance(response, HtmlResponse)
    assert (response.body, response.flags) == (PAGE, [])
    assert response.meta["wire_body"] == wire
    assert response.headers[b"Content-Encoding"] == coding
    assert response.protocol == "HTTP/1.1"


@given(st.binary(max_size=3000), st.lists(st.sampled_from(CODINGS), max_size=4))
def test_chains_of_codings_are_undone_in_reverse(body, chain):
    wire = body
    for coding in chain:
        wire = PACK[coding](wire)
    assert decode(wire, chain, limit=LIMIT) == (body, False, "")


def test_a_chain_may_stand_in_one_field_or_in_several():
    wire = brotli.compress(gzip.compress(PAGE))
    for headers in ([b"GZIP , br"], [b"gzip", b"BR"], [b"identity, gzip", b"", b"br"]):
        response = respond(wire, None)
        response.headers[b"Content-Encoding"] = headers
        assert process(response).body == PAGE


def test_an_uncoded_response_passes_as_it_is():
    response = respond(PAGE, None)
    request = Request("http://a.test/")
    assert middleware().process_response(request, response) is response
    assert "wire_body" not in request.meta
    empty = respond(b"", b"gzip")
    assert middleware().process_response(request, empty) is empty


@each("name", b"identity", b"none", b"UTF-8", b"")
def test_names_that_mean_no_coding_leave_a_page_text(name):
    response = process(respond(PAGE, name))
    assert isinstance(response, HtmlResponse)
    assert (response.body, response.flags) == (PAGE, [])
    assert "wire_body" not in response.meta


def test_gzip_and_zstd_in_several_parts_are_joined():
    for pack, coding in ((gzip.compress, b"gzip"), (zstd.compress, b"zstd")):
        wire = pack(PAGE[:1000]) + pack(b"") + pack(PAGE[1000:])
        assert decode(wire, [coding], limit=LIMIT) == (PAGE, False, "")


def test_padding_behind_the_stream_is_no_damage():
    for way in ("gzip", "deflate", "raw deflate", "zstd"):
        coding, pack = PACKERS[way]
        assert decode(pack(PAGE) + b"\0" * 9, [coding], limit=LIMIT) == (PAGE, False, "")


def test_requests_ask_for_codings_and_forget_an_earlier_wire_body():
    request = Request("http://a.test/", meta={"wire_body": b"of the redirect"})
    middleware().process_request(request)
    assert request.headers[b"Accept-Encoding"] == b"gzip, deflate, br, zstd"
    assert "wire_body" not in request.meta
    own = Request("http://a.test/", headers={"Accept-Encoding": "identity"})
    middleware().process_request(own)
    assert own.headers[b"Accept-Encoding"] == b"identity"


# --- bounds ----------------------------------------------------------------------------------


@each("way", *PACKERS)
@each("over", -1, 0, 1, 5000)
def test_a_decoded_body_is_cut_at_the_bound_and_flagged(way, over):
    coding, pack = PACKERS[way]
    response = process(respond(pack(PAGE), coding), limit=len(PAGE) - over)
    assert response.body == PAGE[: len(PAGE) - over]
    assert response.flags == (["truncated", "body_cut"] if over > 0 else [])


def test_a_request_may_have_a_bound_of_its_own():
    response = process(respond(gzip.compress(PAGE), b"gzip"), download_maxsize=100)
    assert (response.body, response.flags) == (PAGE[:100], ["truncated", "body_cut"])


@cases(
    "flag flags",
    """
        truncated | ["truncated"]
        dataloss  | ["dataloss", "truncated", "body_cut"]
    """,
)
def test_only_a_body_that_was_not_cut_on_the_way_is_called_cut_in_decoding(flag, flags):
    wire = gzip.compress(PAGE)
    response = process(respond(wire[:-20], b"gzip", flags=[flag]), limit=1000)
    assert (response.body, response.flags) == (PAGE[:1000], flags)


@each("way", *PACKERS)
def test_a_bomb_takes_no_more_memory_than_the_bound(way):
    coding, pack = PACKERS[way]
    wire = pack(bytes(1 << 25))
    tracemalloc.start()
    try:
        body, cut, finding = decode(wire, [coding], limit=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(body), cut, finding) == (1 << 20, True, "")
    assert peak < 5 << 20  # twice the bound where the output is joined and cut


def test_a_bomb_in_a_bomb_is_cut_at_every_stage():
    wire = gzip.compress(gzip.compress(gzip.compress(bytes(1 << 26))))
    body, cut, _ = decode(wire, [b"gzip"] * 3, limit=50_000)
    assert (body, cut) == (bytes(50_000), True)


def test_a_million_empty_parts_are_given_up_soon():
    wire = gzip.compress(b"first") + gzip.compress(b"") * 50_000
    assert decode(wire, [b"gzip"], limit=LIMIT) == (b"first", False, BROKEN)


def test_codings_without_end_are_not_followed():
    wire = PAGE
    for _ in range(9):
        wire = gzip.compress(wire)
    assert decode(wire, [b"gzip"] * 9, limit=LIMIT) == (wire, False, NOT_DECODED)
    unpacked = gzip.decompress(wire)
    assert decode(unpacked, [b"gzip"] * 8, limit=LIMIT) == (PAGE, False, "")


def test_a_zstd_window_beyond_the_standard_is_refused():
    wide = {int(zstd.CompressionParameter.window_log): 27}
    packer = zstd.ZstdCompressor(options=wide)
    wire = packer.compress(PAGE) + packer.flush()
    assert decode(wire, [b"zstd"], limit=LIMIT) == (wire, False, BROKEN)


# --- broken bodies ---------------------------------------------------------------------------


@each("way", *PACKERS)
def test_a_stream_that_ends_early_gives_what_came(way):
    coding, pack = PACKERS[way]
    page = PAGE + LONG_TAIL
    wire = pack(page)
    response = process(respond(wire[: len(wire) * 3 // 4], coding), limit=10**6)
    assert len(response.body) > len(page) * 0.6  # zstd's blocks are long
    assert page.startswith(response.body)
    assert response.flags == ["undecodable"]
    assert isinstance(response, HtmlResponse)


@each("flag", "truncated", "dataloss")
def test_what_was_cut_on_the_way_is_not_called_undecodable(flag):
    wire = gzip.compress(PAGE)
    response = process(respond(wire[: len(wire) // 2], b"gzip", flags=[flag]))
    assert response.flags == [flag]
    assert PAGE.startswith(response.body)


@each("way", *PACKERS)
def test_a_stream_with_damage_gives_what_is_before_it(way):
    coding, pack = PACKERS[way]
    page = PAGE + LONG_TAIL
    wire = bytearray(pack(page))
    wire[-20_000:] = b"\xff" * 20_000
    response = process(respond(bytes(wire), coding), limit=10**6)
    assert response.flags == ["undecodable"]
    assert len(response.body) >= len(PAGE)
    # Without a checksum the damage may decode to something, so only the start is certain.
    assert response.body.startswith(PAGE[:20_000])
    assert response.meta["wire_body"] == bytes(wire)


NAMED_GZIP = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x03\0abcname\0note\0\0\0" + raw_deflate(PAGE)
PICTURE = b"\x89PNG\r\n\x1a\n\0\0"
# A body, its codings, and what becomes of it; many more are in the table of test_frozen_answers.py.


@cases(
    "wire codings page finding",
    r"""
        # every field in its header, no trailer
        NAMED_GZIP | b"gzip"           | PAGE    | ""
        # a picture to which it was not applied
        PICTURE    | b"gzip"           | PICTURE | not_decoded
        # unknown under gzip: Scrapy
        PACKED     | b"compress, gzip" | PAGE    | not_decoded
        # damaged at its first byte
        BAD_GZIP   | b"gzip"           | None    | undecodable
        BAD_BR     | b"br"             | None    | undecodable
    """,
    {
        "NAMED_GZIP": NAMED_GZIP,
        "PICTURE": PICTURE,
        "PAGE": PAGE,
        "PACKED": gzip.compress(PAGE),
        "BAD_GZIP": b"\x1f\x8b\x08\0" + b"\xff" * 99,
        "BAD_BR": b"\x1b\0\0" + b"\xff" * 99,
    },
)
def test_an_odd_body_is_decoded_as_far_as_it_can_be(wire, codings, page, finding):
    body, cut, found = decode(wire, codings_of([codings]), limit=LIMIT)
    assert (cut, found) == (False, finding)
    assert page is None or body == page


@each("coding", *CODINGS)
def test_a_page_that_is_not_coded_at_all_stays_readable(coding):
    response = process(respond(PAGE, coding))
    assert response.flags == ["not_decoded"]
    assert isinstance(response, HtmlResponse)
    assert response.body == PAGE
    assert "wire_body" not in response.meta


def test_an_unknown_coding_leaves_bytes():
    response = process(respond(b"\0\1\2" * 100, b"compress"))
    assert response.flags == ["not_decoded"]
    assert not isinstance(response, TextResponse)
    assert response.body == b"\0\1\2" * 100
    half = process(respond(gzip.compress(b"\0\1\2"), b"compress, gzip"))
    assert (half.body, half.flags) == (b"\0\1\2", ["not_decoded"])


@given(st.binary(max_size=400), st.lists(st.sampled_from([*CODINGS, b"xyz"]), max_size=5))
def test_any_bytes_are_decoded_somehow(body, codings):
    result, cut, finding = decode(body or b"x", codings, limit=1000)
    assert len(result) <= max(1000, len(body) or 1)
    assert isinstance(cut, bool)
    assert finding in {"", BROKEN, NOT_DECODED}


@given(st.sampled_from(sorted(PACKERS)), st.data())
def test_damage_anywhere_stays_within_the_bounds(way, data):
    coding, pack = PACKERS[way]
    wire = bytearray(pack(PAGE))
    place = data.draw(st.integers(0, len(wire) - 1))
    wire[place] ^= data.draw(st.integers(1, 255))
    body, _, finding = decode(bytes(wire), [coding], limit=LIMIT)
    assert len(body) <= max(LIMIT, len(wire))
    if finding == NOT_DECODED:
        assert body == bytes(wire)


def test_the_bound_is_a_setting():
    built = ContentDecodingMiddleware.from_crawler(get_crawler(settings_dict={"PAGE_MAX_BYTES": 9}))
    profile = {"POLITENESS_PROFILE": "nielsen"}
    own = {**profile, "PAGE_MAX_BYTES": "1MiB"}
    for chosen, most in [({}, 5 << 20), (profile, 200_000), (own, 1 << 20)]:
        assert page_max_bytes(get_crawler(settings_dict=chosen).settings) == most
    response = built.process_response(
        Request("http://a.test/"), respond(gzip.compress(PAGE), b"gzip")
    )
    assert response.body == PAGE[:9]
    with pytest.raises(FatalError, match=r"^PAGE_MAX_BYTES must be"):
        ContentDecodingMiddleware.from_crawler(get_crawler(settings_dict={"PAGE_MAX_BYTES": 0}))
