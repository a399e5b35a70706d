"""Access to the monitor: what a request may look at, and what it may change.

What reaches the port need not be its user's: other users of the machine, and any page that the
user's browser shows, may send requests to it. So there is a token, which ``Authorization: Bearer``
carries, or ``Authorization: Basic`` as its password: that one browsers keep, and send to this
scheme, host and port alone (cookies go to all ports of a host). A form also carries a value that
only our own page can know. A page of another site is known by Host (a name that was made to lead
here), Origin and Sec-Fetch-Site.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
from base64 import b64decode
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webcrawl.errors import FatalError
from webcrawl.randomness import random_hex

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp.web import BaseRequest, RequestHandler

    from webcrawl.clock import TimeSource

_LEAST = 16
# Requests a second from an address without the token, and how many at once; what one with a wrong
# token counts for.
_RATE, _MOST = 20.0, 100.0
_WRONG = 20.0
# Addresses whose requests are counted: those that asked last.
_ADDRESSES = 1024


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches *host*, a name or an address without brackets."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token_in(path: Path, *, is_made: bool) -> str:
    """The token in the file *path*, which is made if it *is_made* here. FatalError, OSError."""
    if is_made:
        with suppress(FileExistsError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as stream:
                stream.write(f"{random_hex('monitor', 32)}\n")
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if path.stat().st_mode & 0o077:
        raise FatalError(f"{path} must be its owner's alone, as it has a token: chmod 600 {path}")
    if len(token) < _LEAST:
        raise FatalError(f"The token in {path} must have {_LEAST} characters or more.")
    return token


class Patience:
    """Patience with connections: one that has sent no whole request for *secs* is closed."""

    def __init__(self, secs: float) -> None:
        self._secs = secs
        self._timers: dict[RequestHandler, asyncio.TimerHandle] = {}

    def wait(self, connection: RequestHandler) -> None:
        """The next request of *connection* is waited for."""
        loop = asyncio.get_running_loop()
        self._timers[connection] = loop.call_later(self._secs, self._close, connection)

    def _close(self, connection: RequestHandler) -> None:
        del self._timers[connection]
        connection.force_close()

    def end(self, connection: RequestHandler) -> None:
        """Its head has come."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()


class Access:
    """Access by *token*.

    With *is_open*, on loopback, whoever asks may look. *clock* gives seconds that only go on.
    """

    def __init__(self, token: str, *, is_open: bool, clock: TimeSource) -> None:
        self._token = token.encode()
        self._is_open = is_open
        self._clock = clock
        # By address, how many it may send now, and since when that is so.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        #: The value of the hidden field of a form.
        self.form = hmac.new(self._token, b"form", "sha256").hexdigest()

    def is_at_ease(self, request: BaseRequest) -> bool:
        """Whether *request*, which has no right token, is within the rate of its address; counts
        it."""
        now, address = self._clock(), request.remote or ""
        left, at = self._left.pop(address, (_MOST, now))
        left = min(_MOST, left + _RATE * (now - at))
        is_within = left >= 1
        cost = _WRONG if "Authorization" in request.headers else 1.0
        self._left[address] = max(0.0, left - cost * is_within), now
        if len(self._left) > _ADDRESSES:
            self._left.popitem(last=False)
        return is_within

    def is_ours(self, request: BaseRequest) -> bool:
        """Whether *request* is no other site's."""
        fields = request.headers
        host, origin = fields.get("Host", ""), fields.get("Origin")
        is_near = fields.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}
        # A link of another site may lead here, but its page loads nothing from here.
        is_link = fields.get("Sec-Fetch-Dest") == "document" and request.method == "GET"
        try:
            name = urlsplit(f"//{host}").hostname or ""
            is_same = origin is None or urlsplit(origin).netloc == host
        except ValueError:
            return False
        return (is_near or is_link) and is_same and (not self._is_open or is_loopback(name))

    def is_form(self, value: object) -> bool:
        """Whether a form had *value* in its hidden field, and so is of our page."""
        return hmac.compare_digest(str(value).encode("utf-8", "replace"), self.form.encode())

    def has_token(self, request: BaseRequest) -> bool:
        """Whether *request* carries the token."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        token = given.strip().encode("utf-8", "replace")
        if scheme.lower() == "basic":
            try:
                token = b64decode(token).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(token, self._token)

    def may_look(self, request: BaseRequest) -> bool:
        """Whether *request* may be answered that changes nothing."""
        return self._is_open or self.has_token(request)
