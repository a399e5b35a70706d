"""TLS layer between the transport of a connection and the protocol that uses it.

It uses pyOpenSSL, as Scrapy itself does: its OpenSSL comes with `cryptography` and is kept up to
date by pip. With the system's OpenSSL 3.0 under Python's `ssl`, a handshake takes 1.5 times as
long, and uvloop's TLS takes 256 KiB per connection. pyOpenSSL creates the context. Connections call
OpenSSL directly, with the same bindings (docs/why/decisions.md, 2026-11-23).

Invariants: the protocol is told of a connection only when the handshake is done and, if
certificates are verified, the server has a valid one for its name. Data that the protocol writes is
never sent unencrypted.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Self, cast

from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.x509 import load_der_x509_certificate
from OpenSSL import SSL
from OpenSSL import __version__ as version
from service_identity import CertificateError, VerificationError
from service_identity.cryptography import (
    verify_certificate_hostname,
    verify_certificate_ip_address,
)

from webcrawl.errors import FatalError
from webcrawl.net.fence import FENCE, pass_fence
from webcrawl.net.outcomes import UnverifiedError
from webcrawl.net.rates import RECEIVED

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from webcrawl.net.http.request import Endpoint, Proxy

_LIB, _FFI = Binding().lib, Binding().ffi
#: Values of DOWNLOAD_TLS_MIN_VERSION and DOWNLOAD_TLS_MAX_VERSION.
VERSIONS = {f"TLSv1.{minor}": ssl.TLSVersion(0x301 + minor) for minor in range(4)}
#: OpenSSL's default groups without finite fields, which cost a client up to 0.13 s per handshake,
#: and without ML-KEM: a crawl has no secrets that quantum computers could threaten.
_CURVES = b"X25519:P-256:X448:P-521:P-384"
#: OpenSSL's order begins with SHA-384, which makes a handshake 15 us longer.
_SUITES = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#: Shared by all connections for OpenSSL's output: twice what the loops receive in one read.
_BUFFER = _FFI.new("char[]", 512 * 1024)
#: Maximum number of handshakes of a connection after the first. IIS and Apache start another one to
#: ask for a certificate.
_MAX_RENEGOTIATIONS = 4


class UnclosedError(ssl.SSLError):
    """The server closed the connection without TLS's close_notify."""


class TlsContext:
    """The TLS settings of all connections; *is_verified* tells whether certificates are checked.

    *forced* returns the same settings with that check.
    """

    def __init__(
        self, context: SSL.Context, *, is_verified: bool, forced: Callable[[], TlsContext]
    ) -> None:
        self.context = context
        self.is_verified = is_verified
        self._forced = forced

    @classmethod
    def from_settings(cls, settings: BaseSettings, *, is_forced: bool = False) -> Self:
        """Create a context from Scrapy's TLS settings.

        With *is_forced* certificates are checked even if DOWNLOAD_VERIFY_CERTIFICATES is not set.
        Raises FatalError with one sentence for an invalid value.
        """
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        ciphers = settings.get("DOWNLOADER_CLIENT_TLS_CIPHERS")
        minimum, maximum = (
            _version(settings, f"DOWNLOAD_TLS_{end}_VERSION") for end in ("MIN", "MAX")
        )
        try:
            context.set_min_proto_version(minimum or ssl.TLSVersion.TLSv1_2)
            if minimum is not None and minimum < ssl.TLSVersion.TLSv1_2:
                # At higher security levels OpenSSL does not offer older versions.
                ciphers = f"{ciphers or 'DEFAULT'}:@SECLEVEL=0"
            if maximum is not None:
                context.set_max_proto_version(maximum)
        except SSL.Error as e:
            raise FatalError(
                f"OpenSSL rejects DOWNLOAD_TLS_MIN_VERSION or DOWNLOAD_TLS_MAX_VERSION: {e}."
            ) from None

        try:
            if ciphers:
                context.set_cipher_list(ciphers.encode())
        except SSL.Error:
            raise FatalError(
                f"DOWNLOADER_CLIENT_TLS_CIPHERS is not a cipher list of OpenSSL: {ciphers!r}."
            ) from None

        is_verified = is_forced or settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES")
        if is_verified:
            context.set_default_verify_paths()
            context.set_verify(SSL.VERIFY_PEER)
            # In another handshake the server could present a certificate for a different name.
            context.set_options(SSL.OP_NO_RENEGOTIATION)

        context.set_alpn_protos([b"http/1.1"])
        context.set_mode(SSL.MODE_RELEASE_BUFFERS)
        context.clear_mode(_LIB.SSL_MODE_ENABLE_PARTIAL_WRITE)
        # For servers without RFC 5746, and those that hang on a ClientHello of 256 to 511 bytes.
        context.set_options(SSL.OP_LEGACY_SERVER_CONNECT | SSL.OP_ALL)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_tls13_ciphersuites(_SUITES)
        try:
            _LIB.SSL_CTX_set1_curves_list(context._context, _CURVES)
        except (AttributeError, TypeError):
            raise FatalError(
                f"pyOpenSSL {version} is not supported: install the version in requirements.txt."
            ) from None
        # Made when it is first needed, because it takes long to read all authorities.
        forced = cache(partial(cls.from_settings, settings, is_forced=True))
        return cls(context, is_verified=is_verified, forced=forced)

    def new_layer(self, protocol: asyncio.Protocol, to: Endpoint | Proxy) -> TlsTransport:
        """Return a TLS layer between *protocol* and a connection to *to*.

        It is the transport of *protocol*, and is to be the protocol of the connection.
        """
        return TlsTransport(self._forced() if to.is_verified else self, to, protocol)


def _version(settings: BaseSettings, name: str) -> ssl.TLSVersion | None:
    """Return the TLS version in the setting *name*; raise FatalError if it is not valid."""
    value = settings[name]
    if value is None:
        return None
    version = VERSIONS.get(str(value))
    if version is None:
        raise FatalError(f"{name} must be {', '.join(VERSIONS)} or None, not {value!r}.")
    return version


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """TLS over a connection to *to*: the protocol of its transport, and a transport itself.

    *protocol* receives the decrypted data, and its writes are encrypted.
    """

    _below: asyncio.Transport
    _error: Exception | None = None
    _is_open = False  # whether the handshake is done
    _is_over = False  # if so, OpenSSL is not called any more

    def __init__(
        self, settings: TlsContext, to: Endpoint | Proxy, protocol: asyncio.Protocol
    ) -> None:
        self._protocol = protocol
        # As a certificate names it: without brackets and without a final dot.
        host = to.host.removeprefix("[").removesuffix("]").removesuffix(".")
        self._host = host
        self._invalid = UnverifiedError if to.is_verified else ssl.SSLError
        self._count = RECEIVED.get()
        self._fence = FENCE.get()
        self._is_verified = settings.is_verified
        self._handshake: asyncio.Future[None] | None = asyncio.get_running_loop().create_future()
        self._tls = tls = _FFI.gc(_LIB.SSL_new(settings.context._context), _LIB.SSL_free)
        self._out = out = _LIB.BIO_new(_LIB.BIO_s_mem())
        _LIB.SSL_set_bio(tls, _LIB.BIO_new(_LIB.BIO_s_mem()), out)
        if not _is_address(host):
            _LIB.SSL_set_tlsext_host_name(tls, host.encode())
        _LIB.SSL_set_connect_state(tls)

    async def wait_until_open(self) -> None:
        """Wait until the handshake is done; close the connection if it fails or is cancelled.

        Raises OSError, which includes SSLError, or UnverifiedError.
        """
        try:
            await self._handshake  # type: ignore[misc]  # this is called once
        except BaseException:
            self.abort()
            raise
        finally:
            self._handshake = None

    def version_and_cipher(self) -> str:
        """Return TLS version and cipher suite, such as ``TLSv1.3 TLS_AES_128_GCM_SHA256``."""
        version = _LIB.SSL_get_version(self._tls)
        cipher = _LIB.SSL_CIPHER_get_name(_LIB.SSL_get_current_cipher(self._tls))
        return f"{_text(version)} {cipher_suite(_text(cipher))}"

    def certificate(self) -> bytes | None:
        """Return the server's certificate in DER form, or None if there is none."""
        x509 = _LIB.SSL_get_peer_certificate(self._tls)
        if not x509:
            return None
        bio = _LIB.BIO_new(_LIB.BIO_s_mem())
        _LIB.i2d_X509_bio(bio, x509)
        certificate: bytes = _FFI.unpack(_BUFFER, _LIB.BIO_read(bio, _BUFFER, len(_BUFFER)))
        _LIB.BIO_free(bio)
        _LIB.X509_free(x509)
        return certificate

    # Called by the protocol.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt *data* and send it. Raises what ``pass_fence`` raises."""
        if self._is_over:
            return
        _LIB.ERR_clear_error()  # an old error would be taken for an error of this connection
        if _LIB.SSL_write(self._tls, _FFI.from_buffer(data), len(data)) > 0:
            pass_fence()  # the process may have been paused since the last check
            self._send()
        else:
            self._end(_failure())

    def abort(self) -> None:
        self._is_over = True
        self._below.abort()

    def is_closing(self) -> bool:
        return self._is_over or self._below.is_closing()

    def pause_reading(self) -> None:
        if not self.is_closing():  # the server may have closed it already
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_closing():
            self._below.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.Transport", transport)
        if self._fence is not None:
            self._fence.enclose(transport)
        self._continue_handshake()

    def data_received(self, data: bytes) -> None:
        """Decrypt *data*, or continue the handshake with it."""
        self._count(len(data))
        if self._is_over:
            return
        # OpenSSL reads *data* in place, and all of it before it asks for more.
        bio = _LIB.BIO_new_mem_buf(_FFI.from_buffer(data), len(data))
        _LIB.BIO_set_mem_eof_return(bio, -1)
        _LIB.SSL_set_bio(self._tls, bio, self._out)
        if self._is_open:
            self._read()
            self._send()
        else:
            self._continue_handshake()

    def eof_received(self) -> None:
        if self._is_open and not self._is_over:
            self._error = UnclosedError("the connection was closed without a close_notify")

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the protocol, or the waiting handshake, that the connection is lost."""
        self._is_over = True
        error, self._error = self._error or exc, None
        if self._is_open:
            self._protocol.connection_lost(error)
        elif self._handshake is not None and not self._handshake.done():
            error = error or ConnectionResetError("the server hung up during the TLS handshake")
            self._handshake.set_exception(error)
            self._handshake.exception()  # not an error if nothing waits for it any more
        # Free 80 kB that the garbage collector does not know about, even if this object is kept.
        del self._tls

    def _continue_handshake(self) -> None:
        """Continue the handshake with the data received; if it is done, open the connection."""
        _LIB.ERR_clear_error()
        result = _LIB.SSL_do_handshake(self._tls)
        if result <= 0:
            if _LIB.SSL_get_error(self._tls, result) != _LIB.SSL_ERROR_WANT_READ:
                self._end(_failure(self._invalid))
            elif self._fence is None or self._fence.is_open():
                self._send()
            return  # if the fence is closed, the download is about to be cancelled

        try:
            if self._is_verified:
                is_address = _is_address(self._host)
                verify = (
                    verify_certificate_ip_address if is_address else verify_certificate_hostname
                )
                verify(load_der_x509_certificate(self.certificate() or b""), self._host)
        except (VerificationError, CertificateError, ValueError):
            self._end(self._invalid(f"the certificate is not valid for {self._host}"))
            return

        if self._handshake is not None and not self._handshake.done():
            self._is_open = True
            self._protocol.connection_made(self)
            self._handshake.set_result(None)
            # The last data of the handshake is sent together with the first request.
            self._read()

    def _read(self) -> None:
        """Pass decrypted data to the protocol."""
        _LIB.ERR_clear_error()
        tls = self._tls
        size = 0
        while (result := _LIB.SSL_read(tls, _BUFFER + size, len(_BUFFER) - size)) > 0:
            size += result

        error = _LIB.SSL_get_error(tls, result)
        failure: Exception | None = None
        if _LIB.SSL_total_renegotiations(tls) > _MAX_RENEGOTIATIONS:
            failure = ssl.SSLError("too many renegotiations")
        elif error not in (_LIB.SSL_ERROR_WANT_READ, _LIB.SSL_ERROR_ZERO_RETURN):
            failure = _failure()

        if size:
            self._protocol.data_received(_FFI.unpack(_BUFFER, size))
        if failure or error == _LIB.SSL_ERROR_ZERO_RETURN:
            self._end(failure)

    def _send(self) -> None:
        """Send the encrypted data that OpenSSL has produced."""
        while not self._is_over and (size := _LIB.BIO_read(self._out, _BUFFER, len(_BUFFER))) > 0:
            self._below.write(_FFI.unpack(_BUFFER, size))

    def _end(self, failure: Exception | None) -> None:
        """Close the connection because of *failure*, or None if the server closed it."""
        self._error = failure
        self.abort()


def _text(name: Any) -> str:
    """Return the C string *name* as text."""
    return cast("bytes", _FFI.string(name)).decode()


def _failure(invalid: type[Exception] = ssl.SSLError) -> Exception:
    """Return an error with the reasons that OpenSSL gives for its last failure.

    It is an SSLError, or *invalid* if the certificate is not valid.
    """
    reasons = []
    while code := _LIB.ERR_get_error():
        reasons.append(_text(_LIB.ERR_reason_error_string(code)))
    error = invalid if "certificate verify failed" in reasons else ssl.SSLError
    return error("; ".join(reasons) or "TLS failed")


def _is_address(host: str) -> bool:
    """Return whether *host* is an IP address, not a name."""
    # The URL Standard distinguishes IPv4 addresses from names in the same way.
    return ":" in host or host.rpartition(".")[2].isdigit()


# OpenSSL's names of cipher suites before TLS 1.3.
_CIPHER = re.compile(
    r"(?:((?:ECDHE|DHE)-(?:RSA|ECDSA|DSS))-)?"
    r"(?:(AES|ARIA|CAMELLIA)(128|256)(?:-(GCM)|-(CCM)(8)?)?(?:-(SHA\d*))?|CHACHA20-POLY1305)"
)


@lru_cache(256)
def cipher_suite(name: str) -> str:
    """Return the IANA name of the cipher suite that OpenSSL calls *name*.

    Names of rare suites are returned unchanged.
    """
    match = _CIPHER.fullmatch(name)
    if match is None:
        return name

    exchange, cipher, bits, gcm, ccm, tag, digest = match.groups()
    parts = ["TLS", (exchange or "RSA").replace("-", "_"), "WITH"]
    if cipher is None:
        parts.append("CHACHA20_POLY1305_SHA256")
    else:
        parts += [cipher, bits, gcm or ccm or "CBC", tag, digest]
    return "_".join(part for part in parts if part)
