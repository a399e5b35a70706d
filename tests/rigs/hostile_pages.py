"""Pages that answer a good request badly: one attack for each name, on the path /hostile."""

from __future__ import annotations

import hostile_answers as special
import hostile_bodies as bodies
from hostile_answers import (
    CHUNKED,
    HEAD,
    answer,
    answers,
    drips,
    floods,
    holds,
    redirects,
    resets,
    says,
)

_NOISE = bytes(range(128, 256))
_GZIP = b"Content-Encoding: gzip"
_BUSY = b"429 Too Many Requests"
_MOVED = b"302 Found"

HEADERS = {
    "silence": holds(b""),
    "half-header": holds(HEAD),
    "header-drip": drips(HEAD, b"X-Slow: very\r\n", every=0.3),
    "header-endless-lines": floods(HEAD, b"X-More: and more\r\n" * 500),
    "header-10-mb-line": special.header_of_10_mb,
    "header-10000-fields": says(HEAD + b"".join(b"X-%d: 1\r\n" % n for n in range(10_000))),
    "header-endless-status": floods(b"HTTP/1.1 200 ", b"OK" * 5000),
    "header-endless-blanks": floods(b"", b"\r\n" * 5000),
    "header-endless-lf": floods(b"", b"\n" * 10_000),
    "header-cookies": says(answer(b"<p>crumbs", *(b"Set-Cookie: %d=1" % n for n in range(200)))),
    "header-no-colon": says(b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n<p>no colon"),
    "header-space-colon": says(HEAD + b"Content-Length : 5\r\n\r\n<p>: "),
    "header-nul": says(HEAD + b"X-Nul: a\0b\r\n\r\n<p>nul"),
    "header-folded": says(answer(b"<p>folded", b"X-Folded: one\r\n two")),
    "header-8-bit": says(answer(b"<p>8 bit", b"X-Bytes: \xff\xfe\x80")),
    "header-bare-lf": says(b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n<p>bare"),
    "garbage": says(_NOISE * 20 + b"\r\n\r\n"),
    "garbage-endless": floods(b"", _NOISE * 100),
    "ssh-banner": holds(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "http2-frames": holds(b"\0\0\x12\4\0\0\0\0\0" + bytes(18)),
    "http-0.9": says(b"<html><p>as in 1991</html>"),
    "http-9.9": says(b"HTTP/9.9 200 OK\r\nContent-Length: 4\r\n\r\nnine"),
    "blank-lines": says(b"\r\n" * 3 + answer(b"<p>after blanks")),
    "packets-of-a-byte": special.in_packets_of_a_byte,
}

STATUS = {
    "status-000": says(answer(b"0", status=b"000 Nothing")),
    "status-999": says(answer(b"9", status=b"999 Denied")),
    "status-99999": says(answer(b"9", status=b"99999 Lots")),
    "status-negative": says(answer(b"<p>below zero", status=b"-200 OK")),
    "status-words": says(answer(b"<p>words first", status=b"OK 200")),
    "status-bytes": says(answer(b"<p>no reason", status=b"200 \xff\xfe")),
    "status-line-only": says(b"HTTP/1.1 200 OK\r\n"),
    "continue-flood": floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
    "continue-silence": holds(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "switching-protocols": holds(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"),
    "204-with-body": says(answer(b"<p>not empty", status=b"204 No Content")),
    "204-flood": floods(b"HTTP/1.1 204 No Content\r\n\r\n", b"<p>more" * 1000),
    "205-with-body": says(answer(b"<p>reset what", status=b"205 Reset Content")),
    "206-unasked": says(
        answer(b"<p>part", b"Content-Range: bytes 5-9/1", status=b"206 Partial Content")
    ),
    "304-unasked": says(answer(b"<p>what", status=b"304 Not Modified")),
    "401-long-realm": says(
        answer(b"", b'WWW-Authenticate: Basic realm="%s"' % (b"r" * 20_000), status=b"401 No")
    ),
    "401-endless-realm": floods(b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="', b"r" * 8192),
    "429-far-future": says(answer(b"", b"Retry-After: 1000000000000", status=_BUSY)),
    "429-negative": says(answer(b"", b"Retry-After: -5", status=_BUSY)),
    "429-year-9999": says(answer(b"", b"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", status=_BUSY)),
    "429-garbage": says(answer(b"", b"Retry-After: \xff soon 1e9 \xb2", status=_BUSY)),
    "503-for-ever": says(answer(b"", b"Retry-After: 0", status=b"503 Busy")),
}

FRAMING = {
    "empty-reply": says(b""),
    "reset-at-once": resets(b""),
    "reset-in-header": resets(HEAD),
    "reset-in-body": resets(HEAD + b"Content-Length: 5000\r\n\r\n<p>half a page"),
    "length-too-long": says(HEAD + b"Content-Length: 5000\r\n\r\n<p>a short page"),
    "length-too-short": says(HEAD + b"Content-Length: 5\r\n\r\n<p>ab and more of it"),
    "length-zero-flood": floods(HEAD + b"Content-Length: 0\r\n\r\n", b"<p>more" * 1000),
    "length-negative": says(HEAD + b"Content-Length: -1\r\n\r\n<p>negative"),
    "length-1e18": says(HEAD + b"Content-Length: 1000000000000000000\r\n\r\n<p>in truth"),
    "length-1e30": says(HEAD + b"Content-Length: 1" + b"0" * 30 + b"\r\n\r\n<p>in truth"),
    "length-two": says(HEAD + b"Content-Length: 4\r\nContent-Length: 9\r\n\r\n<p>x</p>x"),
    "length-words": says(HEAD + b"Content-Length: some\r\n\r\n<p>words"),
    "length-and-chunks": says(
        HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n<p>both\r\n0\r\n\r\n"
    ),
    "transfer-unknown": says(HEAD + b"Transfer-Encoding: snappy\r\n\r\n\xff\x06\0\0"),
    "transfer-twice": says(
        HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n3\r\n<p>\r\n0\r\n\r\n"
    ),
    "chunk-size-words": says(CHUNKED + b"8\r\n<p>words\r\nmany\r\nx\r\n"),
    "chunk-size-huge": says(CHUNKED + b"7\r\n<p>huge\r\n" + b"f" * 20 + b"\r\n<p>small"),
    "chunk-size-negative": says(CHUNKED + b"8\r\n<p>minus\r\n-5\r\nhello\r\n0\r\n\r\n"),
    "chunk-missing-last": says(CHUNKED + b"7\r\n<p>last\r\n"),
    "chunk-endless-extension": floods(CHUNKED + b"7\r\n<p>more\r\n3;a=", b"x" * 8192),
    "chunk-endless-trailers": floods(CHUNKED + b"6\r\n<p>all\r\n0\r\n", b"X-More: more\r\n" * 400),
    "chunk-of-a-byte": says(CHUNKED + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"),
    "chunk-only-framing": drips(CHUNKED + b"3;a=", b"x" * 200, every=0.1, at_once=200),
    "body-endless": floods(HEAD + b"\r\n", b"<p>and so on" * 800),
    "body-endless-chunks": floods(CHUNKED, b"2000\r\n" + b"chunk by" * 1024 + b"\r\n"),
    "body-never": holds(HEAD + b"Content-Length: 5000\r\n\r\n"),
    "body-stalls": holds(HEAD + b"Content-Length: 5000\r\n\r\n<p>so far and no further"),
    "body-drip": drips(HEAD + b"\r\n", b"drip ", every=0.2),
    "body-stream": drips(HEAD + b"\r\n", b"stream " * 30, every=0.1, at_once=50),
    "second-answer": special.second_answer_at_once,
    "second-answer-later": special.second_answer_later,
    "idle-flood": special.idle_flood,
}

CODINGS = {
    "gzip-bomb": answers(bodies.gzip_bomb, _GZIP),
    "gzip-nested": answers(bodies.nested_gzip, b"Content-Encoding: " + b", ".join([b"gzip"] * 10)),
    "gzip-members": answers(bodies.many_gzip_members, _GZIP),
    "gzip-truncated": answers(bodies.truncated_gzip, _GZIP),
    "gzip-wrong-checksum": answers(bodies.gzip_with_wrong_checksum, _GZIP),
    "gzip-that-is-not": says(answer(b"<p>not packed at all", _GZIP)),
    "brotli-bomb": answers(bodies.brotli_bomb, b"Content-Encoding: br"),
    "zstd-bomb": answers(bodies.zstd_bomb, b"Content-Encoding: zstd"),
    "zstd-window": answers(bodies.zstd_with_wide_window, b"Content-Encoding: zstd"),
    "deflate-garbage": answers(bodies.deflate_garbage, b"Content-Encoding: deflate"),
    "coding-unknown": says(answer(b"<p>frperg", b"Content-Encoding: rot13")),
    "coding-100-times": says(answer(b"<p>br", b"Content-Encoding: " + b", ".join([b"br"] * 100))),
}

REDIRECTS = {
    "redirect-self": redirects(b"/hostile"),
    "redirect-pair": special.loop_of(["/hostile", "/hostile-2"]),
    "redirect-endless": special.endless_redirects,
    "redirect-file": redirects(b"file:///etc/passwd"),
    "redirect-data": redirects(b"data:text/html,<a href=/x>x</a>"),
    "redirect-javascript": redirects(b"javascript:alert(1)"),
    "redirect-25-kb": redirects(b"/x?" + b"a" * 25_000),
    "redirect-300-kb": redirects(b"/x?" + b"a" * 300_000),
    "redirect-injection": redirects(b"/hostile-2\r\nX-Injected: 1"),
    "redirect-bare-cr": redirects(b"/hostile-2\rX-Injected: 1"),
    "redirect-empty": redirects(b""),
    "redirect-no-location": says(answer(b"", status=_MOVED)),
    "redirect-two": redirects(b"/private/one\r\nLocation: /private/two"),
    "redirect-proxy": says(
        answer(b"", b"Location: http://redirect-victim.sim.test:1/", status=b"305 Use Proxy")
    ),
    "redirect-bad-utf8": redirects(b"/private/\xff\xfe"),
    "redirect-bad-url": redirects(b"http://[::1/\\\\:99999999/"),
    "redirect-bad-port": redirects(b"http://redirect-bad-port.sim.test:99999/"),
    "redirect-storm": special.storm_at("redirect-victim"),
    "redirect-victim": says(answer(b"<p>the storm's victim")),
}

HTML = {
    "html-nested": answers(bodies.nested_tags),
    "html-formatting": answers(bodies.nested_formatting),
    "html-million-links": answers(bodies.million_links),
    "html-null-bytes": answers(bodies.null_bytes),
    "html-long-attribute": answers(bodies.long_attribute),
    "html-many-attributes": answers(bodies.many_attributes),
    "html-bad-utf16": answers(bodies.odd_utf16),
    "html-entities": answers(bodies.endless_entities),
    "html-comments": answers(bodies.comment_never_closed),
    "html-refresh-self": says(
        answer(bodies.html(b'<meta http-equiv=refresh content="0; url=/hostile">'))
    ),
    "html-base-garbage": says(
        answer(bodies.html(b'<base href="http://[\xff:::/"><a href=/l/1>x</a>'))
    ),
    "html-long-type": says(
        b"HTTP/1.1 200 OK\r\nContent-Type: " + b"x/" * 10_000 + b"\r\n\r\n<p>a long type"
    ),
    "html-bad-links": says(answer(bodies.html(bodies.bad_links()))),
    "html-bad-charset": says(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=\xff; charset=undefined\r\n"
        b"Content-Length: 5\r\n\r\n<p>\xff\xfe"
    ),
}

ATTACKS = HEADERS | STATUS | FRAMING | CODINGS | REDIRECTS | HTML
