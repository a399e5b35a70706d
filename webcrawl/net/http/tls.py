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
from typing import Any, cast

from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.x509 import load_der_x509_certificate
from OpenSSL import SSL
from OpenSSL import __version__ as version
from scrapy.settings import BaseSettings
from service_identity import CertificateError, VerificationError
from service_identity.cryptography import (
    verify_certificate_hostname,
    verify_certificate_ip_address,
)

from webcrawl.errors import FatalError
from webcrawl.net.fence import FENCE, pass_fence
from webcrawl.net.http.request import Endpoint, Proxy
from webcrawl.net.outcomes import UnverifiedError
from webcrawl.net.rates import COUNT_RECEIVED

_LIB = Binding().lib
_FFI = Binding().ffi
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
    """The TLS settings of all connections."""

    def __init__(self, settings: BaseSettings, *, is_forced: bool = False) -> None:
        """Create a context from Scrapy's TLS settings.

        With *is_forced* certificates are checked even if DOWNLOAD_VERIFY_CERTIFICATES is not set.
        Raises FatalError with one sentence for an invalid value.
        """
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        _set_versions_and_ciphers(context, settings)
        #: Whether certificates are checked.
        self.is_verified = is_forced or settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES")
        if self.is_verified:
            context.set_default_verify_paths()
            context.set_verify(SSL.VERIFY_PEER)
            # In another handshake the server could present a certificate for a different name.
            context.set_options(SSL.OP_NO_RENEGOTIATION)

        context.set_alpn_protos([b"http/1.1"])
        # Idle connections take less memory.
        context.set_mode(SSL.MODE_RELEASE_BUFFERS)
        # ``TlsTransport.write`` expects that one call encrypts all data.
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
        self.context = context
        # The same settings with that check. Made when they are first needed, because it takes long
        # to read all authorities.
        self._with_check = cache(partial(TlsContext, settings, is_forced=True))

    def new_layer(self, protocol: asyncio.Protocol, to: Endpoint | Proxy) -> TlsTransport:
        """Return a TLS layer between *protocol* and a connection to *to*.

        It is the transport of *protocol*, and is to be the protocol of the connection.
        """
        return TlsTransport(self._with_check() if to.is_verified else self, to, protocol)


def _set_versions_and_ciphers(context: SSL.Context, settings: BaseSettings) -> None:
    """Set the TLS versions and cipher suites of *context*; raise FatalError if OpenSSL rejects one.

    The settings are DOWNLOAD_TLS_*_VERSION and DOWNLOADER_CLIENT_TLS_CIPHERS.
    """
    ciphers = settings.get("DOWNLOADER_CLIENT_TLS_CIPHERS")
    minimum, maximum = (_version(settings, f"DOWNLOAD_TLS_{end}_VERSION") for end in ("MIN", "MAX"))
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

    _connection: asyncio.Transport  # carries the encrypted data
    _error: Exception | None = None  # why TLS ended; passed on when the connection is lost
    _is_open = False  # whether the handshake is done
    _is_over = False  # if so, OpenSSL is not called any more

    def __init__(
        self, settings: TlsContext, to: Endpoint | Proxy, protocol: asyncio.Protocol
    ) -> None:
        self._protocol = protocol
        # As a certificate names it: without brackets and without a final dot.
        host = to.host.removeprefix("[").removesuffix("]").removesuffix(".")
        self._host = host
        # Certificates are checked if the settings or the policy of this host require it.
        # ``new_layer`` has already chosen *settings* that include the policy.
        self._is_verified = settings.is_verified
        is_required_by_policy = to.is_verified
        self._invalid_certificate_error = UnverifiedError if is_required_by_policy else ssl.SSLError
        # The download that opens the connection has set both in its context. They stay the same
        # for all later requests over the connection.
        self._count_received = COUNT_RECEIVED.get()
        # In a hive it may forbid contacts, and then aborts the connection; None outside a hive.
        self._fence = FENCE.get()
        # Done when the handshake has ended; None once nothing waits for that any more.
        self._handshake: asyncio.Future[None] | None = asyncio.get_running_loop().create_future()
        tls = _FFI.gc(_LIB.SSL_new(settings.context._context), _LIB.SSL_free)
        self._tls = tls
        # OpenSSL writes encrypted data to the output buffer, and ``_send`` sends it. The input
        # buffer stays empty: ``data_received`` replaces it with the data. *tls* owns both and frees
        # them.
        encrypted_output = _LIB.BIO_new(_LIB.BIO_s_mem())
        self._encrypted_output = encrypted_output
        empty_input = _LIB.BIO_new(_LIB.BIO_s_mem())
        _LIB.SSL_set_bio(tls, empty_input, encrypted_output)
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
        self._connection.abort()

    def is_closing(self) -> bool:
        return self._is_over or self._connection.is_closing()

    def pause_reading(self) -> None:
        if not self.is_closing():  # the server may have closed it already
            self._connection.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_closing():
            self._connection.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection = cast("asyncio.Transport", transport)
        if self._fence is not None:
            self._fence.enclose(transport)
        self._continue_handshake()

    def data_received(self, data: bytes) -> None:
        """Decrypt *data*, or continue the handshake with it."""
        self._count_received(len(data))
        if self._is_over:
            return
        # OpenSSL reads *data* in place, and all of it before it asks for more. At the end of the
        # buffer it is to wait for more data (-1), not to take that for the end of the connection.
        bio = _LIB.BIO_new_mem_buf(_FFI.from_buffer(data), len(data))
        _LIB.BIO_set_mem_eof_return(bio, -1)
        _LIB.SSL_set_bio(self._tls, bio, self._encrypted_output)
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
        error = self._error or exc
        self._error = None
        if self._is_open:
            self._protocol.connection_lost(error)
        elif self._handshake is not None and not self._handshake.done():
            error = error or ConnectionResetError("the server hung up during the TLS handshake")
            self._handshake.set_exception(error)
            # Reading the exception marks it as handled. Otherwise asyncio would log it if nothing
            # waits for the handshake any more.
            self._handshake.exception()
        # Free 80 kB that the garbage collector does not know about, even if this object is kept.
        del self._tls

    def _continue_handshake(self) -> None:
        """Continue the handshake with the data received; if it is done, open the connection."""
        _LIB.ERR_clear_error()
        result = _LIB.SSL_do_handshake(self._tls)
        if result <= 0:
            if _LIB.SSL_get_error(self._tls, result) != _LIB.SSL_ERROR_WANT_READ:
                self._end(_failure(self._invalid_certificate_error))
            elif self._fence is None or self._fence.is_open():
                self._send()
            # If the fence is closed, nothing is sent: the download is about to be cancelled.
            return

        try:
            if self._is_verified:
                is_address = _is_address(self._host)
                verify = (
                    verify_certificate_ip_address if is_address else verify_certificate_hostname
                )
                verify(load_der_x509_certificate(self.certificate() or b""), self._host)
        except (VerificationError, CertificateError, ValueError):
            self._end(
                self._invalid_certificate_error(f"the certificate is not valid for {self._host}")
            )
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
        # ZERO_RETURN means that the server has sent a close_notify.
        if failure or error == _LIB.SSL_ERROR_ZERO_RETURN:
            self._end(failure)

    def _send(self) -> None:
        """Send the encrypted data that OpenSSL has produced."""
        while (
            not self._is_over
            and (size := _LIB.BIO_read(self._encrypted_output, _BUFFER, len(_BUFFER))) > 0
        ):
            self._connection.write(_FFI.unpack(_BUFFER, size))

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

    exchange, cipher, bits, gcm, ccm, short_tag, digest = match.groups()
    parts = ["TLS", (exchange or "RSA").replace("-", "_"), "WITH"]
    if cipher is None:  # the other alternative of the expression
        parts.append("CHACHA20_POLY1305_SHA256")
    else:
        parts += [cipher, bits, gcm or ccm or "CBC", short_tag, digest]
    return "_".join(part for part in parts if part)
