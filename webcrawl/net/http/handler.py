"""The download handler for http and https: one polite request, whatever the server does.

Called by Scrapy's downloader; set in DOWNLOAD_HANDLERS for both schemes. It does what Scrapy's
AiohttpDownloadHandler does and leaves out what a crawl of many hosts must not have: sending a
request twice, connecting to several addresses at once, keeping a connection to every host ever
seen, failing on a large page. GET and HEAD of plain URLs go directly (direct.py), everything else
by a session of aiohttp (connections.py); what becomes of the answer is the same.

Invariant: one call sends at most one request over one connection, and when it has returned or
raised, that connection is closed or back in the pool of its host.

What it leaves in ``request.meta`` (the ``meta`` of the response, too):

``download_latency``, ``download_seconds``
    Seconds from the call to the header and to the end of the body; the second is also there
    after a failure.
``wire_headers``, ``wire_reason``
    The received header fields, a tuple of (name, value) in bytes in the order and spelling
    received (``response.headers`` groups them by name), and the words behind the status.
``wire_request_headers``
    The header fields as sent, in that order: a tuple like that of the received ones.

What it asks there: ``large_body``, see `large_bodies`.

The body is what the server meant as content, before content codings are undone; chunking is
undone, so a ``Transfer-Encoding`` in the headers describes the way, not the body. Flags:

``truncated``
    The body was cut on purpose: at PAGE_MAX_BYTES or the ``download_maxsize`` of the request (or at
    the bound of a large body), on the wire or as far as can be told when decoded.
``time``
    Beside ``truncated``: what had come when the time was up (DOWNLOAD_TIMEOUT), or when the body
    came at less than NET_MIN_BYTES_PER_SEC. Fetching it again would take as long and bring no
    more. If nothing had come the fetch fails, and so does a robots.txt in any case.
``dataloss``
    The body ended early or its framing is broken, where DOWNLOAD_FAIL_ON_DATALOSS is off.
"""

from __future__ import annotations

import ssl
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import aiohttp
import yarl
from aiohttp.http_exceptions import HttpProcessingError
from scrapy import signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.exceptions import DownloadTimeoutError, ResponseDataLossError

# Private in Scrapy 2.19, and better borrowed than copied: how StopDownload is answered, and what
# the TLS settings mean. tests/net/test_http.py fails when they move.
from scrapy.utils._download_handlers import check_stop_download
from scrapy.utils.ssl import _make_ssl_context

from webcrawl.clock import now
from webcrawl.configuration.values import flag
from webcrawl.net import outcomes
from webcrawl.net.dns import resolver as dns
from webcrawl.net.dns.shared import resolver_of
from webcrawl.net.guard import AddressGuard
from webcrawl.net.http.answers import Answer, headers_of, response_of
from webcrawl.net.http.body import read_body
from webcrawl.net.http.connections import Answered, Connector, GuardedResolver, Sent, send_once
from webcrawl.net.http.decoding import Gauge
from webcrawl.net.http.direct import DirectConnections, plain_request
from webcrawl.net.http.exchange import READ_BUFFER
from webcrawl.net.http.large_bodies import LARGE_BODY, free_bytes
from webcrawl.net.http.tls import CURVES, offer_groups
from webcrawl.net.limits import MAX_HEADER_FIELDS, FetchLimits
from webcrawl.signals import is_heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.exceptions import StopDownload
    from scrapy.http import Headers, Response


class HttpDownloadHandler(BaseDownloadHandler):
    """Scrapy's `DownloadHandlerProtocol` on aiohttp. Raises the exceptions of `outcomes`."""

    lazy = True
    experimental = False

    def __init__(
        self,
        *,
        crawler: Crawler,
        limits: FetchLimits,
        resolver: dns.Resolver,
        guard: AddressGuard,
        ssl_context: ssl.SSLContext,
        fail_on_dataloss: bool,
        local_address: tuple[str, int] | None,
    ) -> None:
        """Build the session; needs a running event loop.

        The handler holds no more descriptors than the requests under way and idle connections of
        *limits*; the handlers of two schemes hold them each, and so do requests over proxies.
        """
        super().__init__(crawler)
        self._limits = limits
        self._timeout = self._client_timeout(limits.total_timeout)
        self._fail_on_dataloss = fail_on_dataloss
        self._ssl_context = ssl_context
        self._resolver = resolver
        self._guard = guard
        self._local_address = local_address
        self._direct = DirectConnections(
            limits=limits,
            resolver=resolver,
            guard=guard,
            ssl_context=ssl_context,
            local_address=local_address,
        )
        self._session = self._new_session(guard)
        self._proxy_session: aiohttp.ClientSession | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> HttpDownloadHandler:
        """Build the handler from the settings.

        Beside those of `FetchLimits`: DOWNLOAD_FAIL_ON_DATALOSS, DOWNLOAD_BIND_ADDRESS and those
        about TLS, among them DOWNLOAD_VERIFY_CERTIFICATES, off by default: a crawler reads what a
        browser would warn of. Raises FatalError with one sentence for a value that cannot work.
        """
        settings = crawler.settings
        bind = settings.get("DOWNLOAD_BIND_ADDRESS")
        ssl_context = _make_ssl_context(settings)
        ssl_context.set_alpn_protocols(["http/1.1"])
        offer_groups(ssl_context, CURVES)
        return cls(
            crawler=crawler,
            limits=FetchLimits.from_settings(settings),
            resolver=resolver_of(crawler),
            guard=AddressGuard.from_settings(settings),
            ssl_context=ssl_context,
            fail_on_dataloss=flag(settings, "DOWNLOAD_FAIL_ON_DATALOSS"),
            local_address=(bind, 0) if isinstance(bind, str) else bind,
        )

    async def download_request(self, request: Request) -> Response:
        """Fetch *request* once; see the module for the response, `outcomes` for the failures."""
        meta = request.meta
        started = now()
        seconds = meta.get("download_timeout", self._limits.total_timeout)
        answer: Answer | None = None
        try:
            asked = None if meta.get("proxy") else plain_request(request)
            if asked is not None:
                answer = await self._direct.ask(asked, seconds)
            else:
                answer = await self._send(request, seconds)
            meta["download_latency"] = now() - started
            meta["wire_headers"] = answer.raw_headers
            meta["wire_reason"] = answer.reason
            meta["wire_request_headers"] = answer.request_headers
            return await self._receive(answer, request)
        except _WITHOUT_URL as e:
            e.args = (f"{request.url}: {e}",)
            raise
        except (OSError, ValueError, RuntimeError, aiohttp.ClientError, HttpProcessingError) as e:
            _rename(e, request, seconds)
        finally:
            if answer is not None:
                answer.close()  # for good, unless the body was read to its end
            meta["download_seconds"] = now() - started

    async def close(self) -> None:
        """Close every connection; requests under way fail."""
        self._direct.close()
        await self._session.close()
        if self._proxy_session is not None:
            await self._proxy_session.close()

    def _new_session(
        self, guard: AddressGuard, *, to_proxies: bool = False
    ) -> aiohttp.ClientSession:
        limits = self._limits
        session = aiohttp.ClientSession(
            connector=Connector(
                limits=limits,
                # What does not go directly is rare; and descriptors are bounded.
                max_idle=limits.idle_connections if to_proxies else 0,
                resolver=GuardedResolver(self._resolver, guard, to_proxies=to_proxies),
                socket_factory=guard.open_socket,
                use_dns_cache=False,  # the resolver has one, with the right times
                happy_eyeballs_delay=None,  # one connection at a time, one after the other
                limit=0,  # the downloader bounds them; here waiting costs a shuffle per page
                local_addr=self._local_address,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            request_class=Sent,
            response_class=Answered,
            read_bufsize=READ_BUFFER,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=MAX_HEADER_FIELDS,
        )
        send_once(session)
        return session

    def _session_for_proxies(self, host: str) -> aiohttp.ClientSession:
        """Return the session whose sockets may go anywhere, for they go to the user's proxy.

        The proxy looks up the names, and its operator decides where those may lead.
        """
        if not self._guard.permits_host(host):
            raise outcomes.ForbiddenAddressError(f"{host} is not to be asked of a proxy")
        if self._proxy_session is None:
            guard = AddressGuard(allow_private=True)
            self._proxy_session = self._new_session(guard, to_proxies=True)
        return self._proxy_session

    def _client_timeout(self, total: float) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=total, sock_connect=self._limits.connect_timeout)

    async def _send(self, request: Request, seconds: float) -> Answer:
        """Return the answer when its header is there."""
        timeout = self._timeout
        if seconds != self._limits.total_timeout:
            timeout = self._client_timeout(seconds)
        options: dict[str, Any] = {}
        headers = request.headers.to_tuple_list()
        # Encoded already: the URL that is sent is the URL that was recorded.
        url = yarl.URL(request.url, encoded=True)
        session = self._session
        if proxy := request.meta.get("proxy"):
            session = self._session_for_proxies(url.raw_host or "")
            options["proxy"] = proxy if "://" in proxy else f"http://{proxy}"
        if b"Proxy-Authorization" in request.headers:
            # For the proxy's eyes only: through a tunnel the header goes to the host.
            mine = [(k, v) for k, v in headers if k == "Proxy-Authorization"]
            headers = [(k, v) for k, v in headers if k != "Proxy-Authorization"]
            if proxy and request.url.startswith("https:"):
                options["proxy_headers"] = dict(mine)
            elif proxy:
                headers += mine
        answer = await session.request(
            request.method,
            url,
            data=request.body or None,
            headers=headers,
            timeout=timeout,
            ssl=self._ssl_context,
            allow_redirects=False,
            **options,
        )
        assert isinstance(answer, Answered)
        return answer.answer()

    async def _receive(self, answer: Answer, request: Request) -> Response:
        """Read the body, up to the bound, and build the response."""
        headers = headers_of(answer.raw_headers)
        if is_heard(self.crawler.signals, signals.headers_received):
            stop = check_stop_download(
                signals.headers_received,
                self.crawler,
                request,
                headers=headers,
                body_length=_length_of(headers),
            )
            if stop is not None:
                return self._stopped(stop, answer, request, headers, b"")
        for_robots = _is_for_robots(request)
        if not for_robots:
            self._refuse_unwanted(answer.status, headers, request)
        limit = free_bytes(request, self._limits.max_bytes)
        listener: Callable[[bytes], StopDownload | None] | None = None
        if is_heard(self.crawler.signals, signals.bytes_received):
            listener = partial(self._tell_bytes, request)
        body = await read_body(
            answer,
            limit=limit,
            gauge=Gauge(headers, limit=limit) if b"Content-Encoding" in headers else None,
            listener=listener,
            leave=request.meta.get(LARGE_BODY),
        )
        flags: list[str] | None = None
        if body.stop is not None:
            return self._stopped(body.stop, answer, request, headers, body.data)
        if body.cut:
            flags = ["truncated"]
        elif isinstance(body.end, TimeoutError | outcomes.TooSlowError):
            # Half of a robots.txt may permit what the other half forbids.
            if not body.data or for_robots:
                raise body.end
            flags = ["truncated", "time"]
        elif body.end is not None:
            if request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss):
                raise ResponseDataLossError(f"{request.url}: {body.end}") from body.end
            flags = ["dataloss"]
        return response_of(answer, request.url, headers, body.data, flags)

    def _refuse_unwanted(self, status: int, headers: Headers, request: Request) -> None:
        """Raise UnwantedTypeError for a page of a type that is not in PAGE_CONTENT_TYPES.

        Only for good answers: the status of others says more than their type.
        """
        content_type = b",".join(headers.getlist(b"Content-Type"))
        if 200 <= status < 300 and content_type not in self._limits.wanted:
            shown = content_type[:100].decode("latin-1")
            raise outcomes.UnwantedTypeError(f"{request.url}: {shown} is not wanted")

    def _tell_bytes(self, request: Request, chunk: bytes) -> StopDownload | None:
        return check_stop_download(signals.bytes_received, self.crawler, request, data=chunk)

    @staticmethod
    def _stopped(
        stop: StopDownload,
        answer: Answer,
        request: Request,
        headers: Headers,
        body: bytes,
    ) -> Response:
        """Answer a signal handler's StopDownload as Scrapy's handlers do."""
        response = response_of(answer, request.url, headers, body, ["download_stopped"])
        if stop.fail:
            stop.response = response
            raise stop
        return response


def _is_for_robots(request: Request) -> bool:
    # The crawl's own record of this contact (webcrawl/crawl/fetch.py), if it is the crawl's.
    return bool(getattr(request.meta.get("fetch"), "robots_url", ""))


def _length_of(headers: Headers) -> int | None:
    """What the header says that the body is long, if anything."""
    value = headers.get(b"Content-Length")
    return int(value) if value else None


def _rename(error: Exception, request: Request, seconds: float) -> NoReturn:
    """Raise the exception of `outcomes` that says what *error* means."""
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        raise DownloadTimeoutError(f"{request.url}: not done within {seconds} seconds") from error
    raise _meaning_of(error)(f"{request.url}: {error or type(error).__name__}") from error


def _meaning_of(error: Exception) -> type[Exception]:
    meaning = next(meaning for cls, meaning in _MEANINGS if isinstance(error, cls))
    if meaning is not None:
        return meaning
    assert isinstance(error, aiohttp.ClientConnectorError)
    return _meaning_of(error.os_error)


# Raised below, where the URL is not known.
_WITHOUT_URL: Final = (
    outcomes.FirstByteTimeoutError,
    outcomes.ForbiddenAddressError,
    outcomes.HeaderTooLargeError,
    outcomes.TooSlowError,
)
# The first that fits; None is for wrappers of the error that tells.
_MEANINGS: Final[tuple[tuple[type[Exception], type[Exception] | None], ...]] = (
    (aiohttp.ConnectionTimeoutError, outcomes.ConnectTimeoutError),
    (aiohttp.ClientConnectorSSLError, outcomes.TlsFailedError),
    (aiohttp.ClientConnectorCertificateError, outcomes.TlsFailedError),
    (aiohttp.ClientConnectorError, None),
    (ssl.SSLError, outcomes.TlsFailedError),
    (dns.NameNotFoundError, outcomes.HostNotFoundError),
    (dns.DnsError, outcomes.HostLookupError),
    (aiohttp.ClientResponseError, outcomes.BadAnswerError),
    (HttpProcessingError, outcomes.BadAnswerError),
    (aiohttp.NonHttpUrlClientError, outcomes.BadUrlError),
    (ValueError, outcomes.BadUrlError),  # aiohttp.InvalidURL is one
    (aiohttp.ClientError, outcomes.ConnectionLostError),
    # What aiohttp and uvloop say of a connection or a session that was closed under them.
    (RuntimeError, outcomes.ConnectionLostError),
    (ConnectionRefusedError, outcomes.ConnectRefusedError),
    (TimeoutError, outcomes.ConnectTimeoutError),
    (ConnectionError, outcomes.ConnectionLostError),  # reset or aborted: somebody was there
    (OSError, outcomes.ConnectFailedError),
)
