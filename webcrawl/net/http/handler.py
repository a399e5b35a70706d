"""The download handler for http and https, which sends one polite request for each call.

Set in DOWNLOAD_HANDLERS for both schemes. Whatever the server does, the handler never sends a
request twice, never connects to several addresses at a time, does not keep a connection to every
host, and does not fail on a large page.

Invariant: one call sends at most one request over one connection. When it has returned or raised,
that connection is closed or back in the pool.

It sets these keys of ``request.meta`` (and so of the response's ``meta``):

``download_latency``, ``download_seconds``
    Seconds from the call until the header, and until the end of the body, were received. The second
    one is also set after a failure.
``wire_address``
    The address of the connection, as text; empty through a proxy.
``wire_proxy``
    Digest of the proxy, only if there is one. Two proxies have the same one if they are the same.
``wire_headers``, ``wire_reason``
    The received header fields, a tuple of (name, value) in bytes, in the order and spelling in
    which they were received (``response.headers`` groups them by name), and the text after the
    status.
``wire_request_headers``
    The header fields as sent, as a tuple like that of the received ones.
``wire_head``, ``wire_request``
    The header as received, from the status line to the empty line, and the whole request as sent,
    including its body. ``wire_request`` is empty for requests through a proxy, as it would contain
    the proxy's URL and password.
``tls``
    Version and cipher suite, ``TLSv1.3 TLS_AES_128_GCM_SHA256``; empty without TLS.

It reads ``large_body``, see `large_bodies`.

The body is as it was before content decoding, but without chunk framing. A ``Transfer-Encoding`` in
the headers therefore describes the transfer, not the body. Flags:

``truncated``
    The body was cut on purpose while it was received: at PAGE_MAX_BYTES or the
    ``download_maxsize`` of the request, or at the limit of a large body.
``time``
    Together with ``truncated``: the body was cut when the time was over (DOWNLOAD_TIMEOUT), or when
    it was received more slowly than NET_MIN_BYTES_PER_SEC. Fetching it again would take as long and
    bring no more. If nothing was received the fetch fails; for a robots.txt it always fails.
``dataloss``
    The body ended early or its framing is broken, and DOWNLOAD_FAIL_ON_DATALOSS is off.
"""

from __future__ import annotations

from typing import Any

from scrapy import Request, signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadTimeoutError, ResponseDataLossError, StopDownload
from scrapy.http import Headers, Response

from webcrawl.clock import now
from webcrawl.items import is_success
from webcrawl.net import outcomes
from webcrawl.net.dialer import Dialer
from webcrawl.net.http.answer import HttpAnswer
from webcrawl.net.http.connections import HttpConnections
from webcrawl.net.http.decoding import codings_of, decode
from webcrawl.net.http.exchange import Exchange
from webcrawl.net.http.large_bodies import limit_with_permit, limit_without_permit
from webcrawl.net.http.request import SIGNERS, wire_request
from webcrawl.net.http.responses import headers_of, response_of
from webcrawl.net.http.tls import TlsContext, UnclosedError
from webcrawl.net.limits import FetchLimits, is_for_robots, is_last_of_host
from webcrawl.signals import has_receivers


class HttpDownloadHandler(BaseDownloadHandler):
    """Scrapy's `DownloadHandlerProtocol` for http and https. Raises the exceptions of `outcomes`.

    The handler has at most as many files open as there are requests in progress, plus the idle
    connections of *limits*. The handlers of the two schemes do not share connections.
    """

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        """Create the handler from the settings of *crawler*; needs a running event loop.

        They are those of `FetchLimits` and `Dialer`, and those for TLS, such as
        DOWNLOAD_VERIFY_CERTIFICATES. The latter is off by default: a crawler also reads sites that
        a browser would warn about. Raises FatalError with one sentence for an invalid value.
        """
        super().__init__(crawler)
        self.limits = FetchLimits.from_settings(crawler.settings)
        self.connections = HttpConnections(
            limits=self.limits,
            dialer=Dialer.from_crawler(crawler, self.limits),
            tls=TlsContext(crawler.settings),
        )
        self.sign = SIGNERS.get(crawler)

    async def download_request(self, request: Request) -> Response:
        """Fetch *request* once, and return the response that the module's docstring describes.

        Raises the exceptions of `outcomes`.
        """
        meta = request.meta
        started = now()
        seconds = meta.get("download_timeout", self.limits.total_timeout)
        exchange: Exchange | None = None

        try:
            sent = wire_request(request, self.sign)
            exchange = await self.connections.send(sent, seconds)
            answer = exchange.answer
            self.crawler.stats.inc_value("fetch/sent_bytes", len(sent.data))
            meta["download_latency"] = now() - started
            proxy = sent.endpoint.proxy
            meta["wire_address"] = "" if proxy else exchange.peer
            if proxy:
                meta["wire_proxy"] = proxy.digest()
            meta["wire_headers"] = tuple(answer.headers)
            meta["wire_reason"] = answer.reason
            meta["wire_request_headers"] = sent.shown_headers
            meta["wire_head"] = answer.head
            meta["wire_request"] = sent.shown
            meta["tls"] = exchange.tls
            return await self._receive(exchange, request)
        except Exception as error:
            failure = _failure_for(error, request.url, seconds)
            if failure is error:
                raise
            raise failure from error
        finally:
            if exchange is not None:
                self.connections.give_back(exchange, is_wanted=not is_last_of_host(request))
            meta["download_seconds"] = now() - started

    async def close(self) -> None:
        """Close every connection; requests in progress fail."""
        self.connections.close()

    async def _receive(self, exchange: Exchange, request: Request) -> Response:
        """Receive the body of *exchange*, up to the limit, and make the response."""
        answer = exchange.answer
        headers = headers_of(answer.headers)
        if has_receivers(self.crawler.signals, signals.headers_received):
            length = headers.get(b"Content-Length")
            stop = self._stop_by(
                signals.headers_received,
                request,
                headers=headers,
                body_length=int(length) if length else None,
            )
            if stop is not None:
                return self._handle_stop(stop, exchange, request, headers, b"")

        if is_success(answer.status):  # for other answers the status matters more than the type
            types = dict.get(headers, b"Content-Type", ())
            self.limits.check_type(b",".join(types), request)

        limit = limit_without_permit(request, self.limits.max_bytes)
        has_listener = has_receivers(self.crawler.signals, signals.bytes_received)
        chunks: list[bytes] = []
        size = 0
        while chunk := await exchange.read():
            chunks.append(chunk)
            size += len(chunk)
            if has_listener:
                stop = self._stop_by(signals.bytes_received, request, data=chunk)
                if stop is not None:
                    return self._handle_stop(stop, exchange, request, headers, b"".join(chunks))
            if size > limit:
                limit = await limit_with_permit(request, limit)
            if size > limit:
                chunks[-1] = chunk[: limit - size]
                return response_of(exchange, request.url, headers, b"".join(chunks), ["truncated"])

        body = b"".join(chunks)
        flags = self._loss_flags(answer, request, headers, body, limit)
        return response_of(exchange, request.url, headers, body, flags)

    def _loss_flags(
        self, answer: HttpAnswer, request: Request, headers: Headers, body: bytes, limit: int
    ) -> list[str]:
        """Return the flags of *body*, all that came of the *answer*, or raise an exception.

        *headers* are those of the answer, and *limit* is the maximum length of its body.
        """
        damage = answer.damage
        if damage is None:
            return []
        # A robots.txt without the close_notify of TLS is accepted, as one without TLS would be.
        if isinstance(damage, UnclosedError) and is_for_robots(request):
            return []
        # If the length in the header is that of the decoded body, the body is complete, although
        # the connection was closed before that many bytes came.
        if isinstance(damage, outcomes.ConnectionLostError) and _has_decoded_length(
            headers, body, limit
        ):
            return []

        # The head of an error or a redirect is enough, however its body ends.
        is_page = is_success(answer.status)
        fails = is_page and request.meta.get(
            "download_fail_on_dataloss", self.limits.fail_on_dataloss
        )
        is_part_useful = not is_page or (bool(body) and not is_for_robots(request))
        return _flags_of(damage, request.url, is_part_useful=is_part_useful, fails=fails)

    def _stop_by(self, signal: object, request: Request, **facts: Any) -> StopDownload | None:
        """Send *signal*; return the StopDownload that a handler raised, if any."""
        crawler = self.crawler
        answers = crawler.signals.send_catch_log(
            signal, request=request, spider=crawler.spider, **facts
        )
        errors = (getattr(answer, "value", None) for _, answer in answers)  # of a Failure
        return next((error for error in errors if isinstance(error, StopDownload)), None)

    @staticmethod
    def _handle_stop(
        stop: StopDownload,
        exchange: Exchange,
        request: Request,
        headers: Headers,
        body: bytes,
    ) -> Response:
        """Handle a signal handler's StopDownload as Scrapy's download handlers do."""
        response = response_of(exchange, request.url, headers, body, ["download_stopped"])
        if stop.fail:
            stop.response = response
            raise stop
        return response


def _has_decoded_length(headers: Headers, body: bytes, limit: int) -> bool:
    """Return whether Content-Length in *headers* is the length of *body* after decoding.

    Some servers send that length (Chromium: "ShouldFixMismatchedContentLength"). *limit* is the
    maximum length of the decoded body.
    """
    codings = codings_of(headers.getlist(b"Content-Encoding"))
    lengths = headers.getlist(b"Content-Length")
    if not codings or not lengths:
        return False
    decoded = decode(body, codings, limit=limit)
    return not decoded.finding and lengths[-1] == b"%d" % len(decoded.body)


def _flags_of(damage: BaseException, url: str, *, is_part_useful: bool, fails: bool) -> list[str]:
    """Return the flags of a body that ended early because of *damage*, or raise an exception.

    If the time was over, *damage* is raised unless *is_part_useful*: a part of a robots.txt may
    permit what the rest forbids. After other damage ResponseDataLossError is raised if *fails*.
    """
    if isinstance(damage, TimeoutError | outcomes.TooSlowError):
        if not is_part_useful:
            raise damage
        return ["truncated", "time"]
    if fails:
        raise ResponseDataLossError(f"{url}: {damage}") from damage
    return ["dataloss"]


def _failure_for(error: Exception, url: str, seconds: float) -> Exception:
    """Return the exception to raise after *error* in the fetch of *url*.

    *seconds* is the time limit of the fetch.
    """
    if isinstance(error, outcomes.FetchError):
        error.args = (f"{url}: {error}",)
        return error
    if isinstance(error, TimeoutError):
        return DownloadTimeoutError(f"{url}: not finished within {seconds} seconds")
    if isinstance(error, ValueError):
        return outcomes.BadUrlError(f"{url}: {error}")
    if isinstance(error, RuntimeError):  # event loops raise it for a connection that was closed
        return outcomes.ConnectionLostError(f"{url}: {error}")
    return error
