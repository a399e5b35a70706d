"""The answer to one HTTP request: its header and body, from the bytes that are received.

Used by exchange.py, which receives the bytes. The invariants: a header has a limit in bytes, a body
has a limit on its framing, and received parts of a body are never lost.
"""

from __future__ import annotations

from typing import Any, NoReturn

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from webcrawl.net.http.chunks import ChunkedBody
from webcrawl.net.http.head import HEAD_END, end_of_head, may_be_head, mended_head
from webcrawl.net.http.tls import UnclosedError
from webcrawl.net.outcomes import BadAnswerError, HeaderTooLargeError

# Maximum number of interim answers (1xx) plus the final one. Real servers send at most one; a
# stream of them would keep the event loop busy until the timeout.
_MAX_ANSWERS = 20
#: Bytes of a whole header, including those of interim answers, as in Chromium: some sites send
#: security policies of 10 kB.
MAX_HEADER_BYTES = 256 * 1024
# Maximum number of fields in one answer's header, as in curl.
_MAX_HEADER_FIELDS = 5_000
# Maximum number of bytes in line ends that are skipped before an answer.
_MAX_BLANK = 64
_SWITCHING_PROTOCOLS = 101
# Maximum number of bytes of framing (chunk sizes, extensions and trailers) per byte of the largest
# page. A chunk of one byte has five; a server that sends more sends endless framing and no body.
_FRAMING = 8
_CODING = b"transfer-encoding"
_CHUNKED = b"chunked"
# Maximum number of bytes of a chunked body, with its framing, that are kept so that it can be
# decoded again. They are enough for most pages.
_MAX_KEPT_BYTES = 64 * 1024
# Statuses of answers without a body, even if their fields announce one (RFC 9112, section 6.3).
_WITHOUT_BODY = frozenset({204, 304})


class HttpAnswer:
    """The answer of a server to a request. It *has_body* unless the method was HEAD.

    *max_bytes* is the limit of a body.

    An answer fails before its body with ``error``, one of the exceptions of `outcomes`, or with
    TimeoutError. After its header it never fails: ``damage`` tells why the body ended early, and
    the received part can be read. In both cases the connection must be closed.
    """

    status = 0
    reason = ""
    version = ""
    head = b""  # the whole header as received, with the empty line
    #: Whether the parser refused the head. It is then repaired once it is complete: see head.py.
    is_head_repaired = False
    error: BaseException | None = None
    damage: BaseException | None = None
    has_header = False
    is_complete = False
    #: Whether another request may follow on the connection.
    is_reusable = True
    received_bytes = 0  # bytes of the header and the body, with framing
    unread_bytes = 0  # bytes of the body that wait to be read
    _mended_size = 0  # bytes of all heads up to and including the repaired one
    # The head and the chunked body as received, for the lenient decoder; None if they are too
    # large, the body is not chunked, or the decoder has them already.
    _kept_data: list[bytes] | None = None
    _kept_body_start = 0  # where the body begins in them
    # The lenient decoder, once the parser has failed on a chunked body.
    _lenient_decoder: ChunkedBody | None = None
    _answers = 0  # interim answers and the final one
    _blank_bytes = 0  # line ends before the first answer
    _body_size = 0
    _framing = 0
    _framing_run = 0  # bytes of framing since the last byte of the body

    def __init__(self, *, has_body: bool, max_bytes: int) -> None:
        #: The fields as received; if the head was repaired, the fields of the repaired head.
        self.headers: list[tuple[bytes, bytes]] = []
        self._has_body = has_body
        self._max_bytes = max_bytes
        self._parser: HttpResponseParser | None = self._new_parser()
        # The parts of the body that were not read yet.
        self._pieces: list[bytes] = []
        # The data received until the header is complete.
        self._head_pieces: list[bytes] = []

    def read(self) -> bytes:
        """Return the part of the body that was received and not read yet."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self.unread_bytes = 0
        return data

    def feed(self, data: bytes) -> None:
        """Process *data*, the next bytes from the server. Not to be called after the end."""
        self.received_bytes += len(data)
        if not self._answers:
            size = len(data)
            data = data.lstrip(b"\r\n")
            self._blank_bytes += size - len(data)
            if self._blank_bytes > _MAX_BLANK:
                self._fail(BadAnswerError("the server sent blank lines instead of an answer"))
                return

        had_header = self.has_header
        body_size = self._body_size
        if not had_header:
            self._head_pieces.append(data)
        self._feed(data)

        if not self.has_header:
            if self.received_bytes > MAX_HEADER_BYTES or len(self.headers) > _MAX_HEADER_FIELDS:
                self._fail(self._too_large_error())
        elif had_header and not self.is_complete:  # data with a part of the header is not counted
            self._count_framing(len(data), self._body_size - body_size)

    def end(self, lost: BaseException, cause: BaseException | None) -> None:
        """End the answer, as the server closed the connection, or because of *cause*.

        *lost* is the error of a connection that was lost before the answer was complete.
        """
        # A chunked body whose last chunk is not ended as the standard demands is still complete.
        if self._kept_data is not None:
            self._decode_leniently(self._kept_data)
        if self._lenient_decoder is not None and self._lenient_decoder.has_last_chunk:
            self._end_body(None)
            return
        # A body without a length ends when the server closes the connection. If the connection
        # breaks, it is unknown whether the body is complete. UnclosedError stays the damage: it is
        # up to the reader of the body whether it matters.
        is_end = self._has_no_length() and (cause is None or isinstance(cause, UnclosedError))
        if self.has_header and is_end:
            self._end_body(cause)
        else:
            self.stop(lost)

    def stop(self, why: BaseException) -> None:
        """End the answer here: it fails with *why*, or after its header that is the damage."""
        if self.has_header:
            self._end_body(why)
        else:
            self._fail(why)

    # Called by the parser. An exception here stops it; it then raises an exception of its own.

    def on_message_begin(self) -> None:
        """Begin an answer, interim or final."""
        self._answers += 1
        if self.is_complete or self._answers > _MAX_ANSWERS:
            self._reject(BadAnswerError("too many interim answers"))
        self._reason = b""
        self.headers.clear()

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_header:  # else it is a trailer
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Check the header of an answer and, if that is the final one, publish it.

        ValueError is raised if the parser may have read the head wrongly; it is then repaired.
        """
        parser: Any = self._parser
        status = parser.get_status_code()
        if status == _SWITCHING_PROTOCOLS:
            # Nothing of this kind was requested, so the bytes that follow are the answer (RFC 9110,
            # section 15.2).
            raise ValueError("the head must be repaired")
        if 100 <= status < 200:
            return

        codings = [
            value.lower()
            for name, value in self.headers
            if len(name) == len(_CODING) and name.lower() == _CODING
        ]
        may_have_body = self._has_body and status not in _WITHOUT_BODY
        # The parser takes a line that contains only spaces for the end of the head, so fields may
        # be missing. It cannot read a body with transfer codings other than chunked.
        may_lack_fields = may_have_body and not self.headers and not self.is_head_repaired
        if may_lack_fields or (codings and codings != [_CHUNKED]):
            raise ValueError("the head must be repaired")

        received = b"".join(self._head_pieces)
        size = self._accept_head(received, has_codings=bool(codings))
        self.status = status
        self.version = parser.get_http_version()
        self.reason = self._reason.decode("utf-8", "surrogateescape")
        self.has_header = True
        if self.is_head_repaired or not parser.should_keep_alive():
            self.is_reusable = False
        if not self._has_body:
            self.on_message_complete()
        elif codings and may_have_body:
            # Kept, so that the body can be decoded again if the parser fails on it.
            self._kept_data = [received]
            self._kept_body_start = size

    def _accept_head(self, received: bytes, *, has_codings: bool) -> int:
        """Set ``head`` from the data *received*, or reject the answer.

        *has_codings* tells whether the final header has transfer codings. Returns the size of this
        header and of all interim ones before it. Raises ValueError if the head must be repaired.
        """
        size = self._mended_size
        if not self.is_head_repaired:
            self.head, size = _last_head(received, self._answers)
            if has_codings and (b"\n " in self.head or b"\n\t" in self.head):
                # If the field is folded, the parser does not recognize the chunks as such.
                raise ValueError("the head must be repaired")
            self._head_pieces.clear()
            if b"\0" in self.head:
                self._reject(BadAnswerError("a zero byte in the header"))
        if size > MAX_HEADER_BYTES or len(self.headers) > _MAX_HEADER_FIELDS:
            self._reject(self._too_large_error())
        return size

    def on_body(self, data: bytes) -> None:
        """Keep *data*, a part of the body, to be read."""
        if self.is_complete:
            self.is_reusable = False
            return
        self._pieces.append(data)
        self._body_size += len(data)
        self.unread_bytes += len(data)

    def on_message_complete(self) -> None:
        """End the body of the final answer; interim answers have none."""
        if self.has_header:
            self.is_complete = True
            self._parser = None  # it refers back to this object

    def _new_parser(self) -> HttpResponseParser:
        """Return a parser, which calls the methods above."""
        parser = HttpResponseParser(self)
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        return parser

    def _feed(self, data: bytes) -> None:
        """Pass *data* to the parser, or to what replaced it because it could not read the answer.

        A head is repaired once it is complete, and a chunked body is decoded leniently.
        """
        if self.is_head_repaired and not self.has_header:
            self._repair_head()  # it reads *data* from ``_head_pieces``
        elif self._lenient_decoder is not None:
            self._decode_chunks(data)
        else:
            self._keep_and_parse(data)

    def _keep_and_parse(self, data: bytes) -> None:
        """Pass *data* to the parser; keep the data of a small chunked body.

        If the parser fails on that body, the lenient decoder starts with the data kept. A larger
        body ends there as damaged, because keeping it would take too much memory.
        """
        if self._kept_data is not None:
            self._kept_data.append(data)
            if self.received_bytes > _MAX_KEPT_BYTES:
                self._kept_data = None
        self._parse(data)
        # The parser waits for more data after a last chunk that ends with bare line feeds.
        if self._kept_data is not None and not self.is_complete:
            self._end_after_bare_line_feeds(data, self._kept_data)

    def _end_after_bare_line_feeds(self, data: bytes, chunks: list[bytes]) -> None:
        """Decode *chunks* leniently if *data*, the last of them, ends the body with line feeds.

        The parser does not see such an end.
        """
        if data[-1:] == b"\n":
            # The three bytes may have come one by one.
            last_bytes = data if len(data) > 2 else b"".join(chunks[-3:])
            if last_bytes.endswith(b"0\n\n"):
                self._decode_leniently(chunks)

    def _parse(self, data: bytes) -> None:
        """Pass *data* to the parser, and handle its errors."""
        parser: Any = self._parser
        try:
            parser.feed_data(data)
        except HttpParserUpgrade:
            pass
        except HttpParserError as error:
            self._on_error(error)

    def _on_error(self, error: HttpParserError) -> None:
        """Handle *error* of the parser: repair the head, decode the body again, or fail."""
        if self.is_complete:
            self.is_reusable = False
        elif self._kept_data is not None:
            self._decode_leniently(self._kept_data)
        elif self.has_header:
            self._end_body(error)
        elif self.error is None and not self.is_head_repaired:
            self.is_head_repaired = True
            self._repair_head()
        else:  # ``_reject`` has stopped the parser, or the repair did not help
            self._fail(self.error or BadAnswerError(str(error)))

    def _repair_head(self) -> None:
        """Repair the head once it is complete, and pass it to a new parser."""
        received = b"".join(self._head_pieces)
        self._head_pieces = [received]
        start = 0
        for _ in range(_MAX_ANSWERS):
            if not may_be_head(received, start):
                self._fail(BadAnswerError("no status line"))
                return
            end = end_of_head(received, start)
            if end < 0:
                return  # more data is needed
            if end > MAX_HEADER_BYTES:
                self._fail(self._too_large_error())
                return

            try:
                mended = mended_head(received[start:end])
            except ValueError as error:
                self._fail(BadAnswerError(str(error)))
                return

            if not mended.is_interim:
                self.head = received[start:end]
                self._mended_size = end
                self._answers = 0  # the new parser gets only the final answer, and counts it
                self._parser = self._new_parser()
                self._parse(mended.data + received[end:])
                return
            start = len(received) - len(received[end:].lstrip(b"\r\n"))
        self._fail(BadAnswerError("too many interim answers"))

    def _decode_leniently(self, chunks: list[bytes]) -> None:
        """Decode *chunks*, a body on which the parser failed, with the lenient decoder.

        The part that the parser has decoded before is not delivered again.
        """
        bytes_to_skip = self._body_size

        def deliver(piece: bytes) -> None:
            nonlocal bytes_to_skip
            new = piece[bytes_to_skip:]
            bytes_to_skip -= len(piece) - len(new)
            if new:
                self.on_body(new)

        self._kept_data = None
        self._lenient_decoder = ChunkedBody(deliver)
        self._decode_chunks(b"".join(chunks)[self._kept_body_start :])

    def _decode_chunks(self, data: bytes) -> None:
        """Pass *data* to the lenient decoder."""
        body: Any = self._lenient_decoder
        try:
            rest = body.feed(data)
        except ValueError as error:
            self._end_body(BadAnswerError(str(error)))
            return

        if rest:
            self.is_reusable = False
        if body.has_ended:
            self.on_message_complete()

    def _reject(self, error: Exception) -> NoReturn:
        """Fail with *error* before the body; called by the parser, which stops."""
        self.error = error
        raise error

    def _count_framing(self, size: int, body_bytes: int) -> None:
        """Count *size* bytes, of which *body_bytes* are not framing; end a body of mere framing."""
        self._framing += size - body_bytes
        self._framing_run = 0 if body_bytes else self._framing_run + size
        if self._framing > _FRAMING * self._max_bytes or self._framing_run > MAX_HEADER_BYTES:
            self._end_body(BadAnswerError("the chunked body is mostly framing"))

    def _has_no_length(self) -> bool:
        """Return whether the body ends when the connection is closed (RFC 9112, section 6.3)."""
        names = {name.lower() for name, _ in self.headers}
        return names.isdisjoint((_CODING, b"content-length"))

    def _fail(self, error: BaseException) -> None:
        """Fail with *error* before the body."""
        self.error = self.error or error
        self._close()

    def _end_body(self, damage: BaseException | None) -> None:
        """End the body here because of *damage*, if any; the received part can still be read."""
        if not self.is_complete:
            self.is_complete = True
            self.damage = damage
            self._close()

    def _close(self) -> None:
        """Stop parsing, because the connection will be closed."""
        self.is_reusable = False
        self._parser = None

    def discard(self) -> None:
        """Stop parsing, and forget what was not read."""
        self._pieces.clear()
        self._parser = None

    def _too_large_error(self) -> HeaderTooLargeError:
        """Return the error for a header over the limits."""
        return HeaderTooLargeError(
            f"more than {MAX_HEADER_BYTES} bytes or {_MAX_HEADER_FIELDS} fields"
        )


def _last_head(received: bytes, answers: int) -> tuple[bytes, int]:
    """Return the last of the *answers* headers at the start of *received*, and their total size."""
    rest = received
    while match := HEAD_END.search(rest):
        answers -= 1
        if answers < 1:
            return rest[: match.end()], len(received) - len(rest) + match.end()
        rest = rest[match.end() :].lstrip(b"\r\n")
    return b"", 0
