"""Access to the monitor: what a request may look at, and what it may change.

What reaches the port need not be its user's: other users of the machine, and any page that the
user's browser shows, may send requests to it. So there is a token, which ``Authorization: Bearer``
carries, or a cookie that is made of it; a form also carries a value that only our own page can
know. A page of another site is known by Host (a name that was made to lead here) and Origin.
"""

from __future__ import annotations

import hmac
import os
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webcrawl.errors import FatalError
from webcrawl.randomness import random_hex

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp.web import BaseRequest

    from webcrawl.clock import TimeSource

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_LEAST = 16
_BEARER = "Bearer "
# Requests a second, and how many at once; what one with a wrong token counts for.
_RATE, _MOST = 20.0, 100.0
_WRONG = 20.0


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches *host*."""
    return host in _LOOPBACK or host.startswith("127.")


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


class Access:
    """Access by *token*.

    With *is_open*, on loopback, whoever asks may look. *clock* gives seconds that only go on.
    """

    def __init__(self, token: str, *, is_open: bool, clock: TimeSource) -> None:
        self._token = token.encode()
        self._is_open = is_open
        self._clock = clock
        self._left, self._at = _MOST, clock()
        #: The value of the cookie, and of the hidden field of a form.
        self.cookie = self._made("cookie")
        self.form = self._made("form")

    def _made(self, of: str) -> str:
        return hmac.new(self._token, of.encode(), "sha256").hexdigest()

    def is_at_ease(self) -> bool:
        """Whether a request is within the rate; counts it."""
        now = self._clock()
        self._left = min(_MOST, self._left + _RATE * (now - self._at))
        self._at = now
        is_within = self._left >= 1
        self._left -= is_within
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

    def is_token(self, given: str) -> bool:
        """Whether *given* is the token."""
        is_right = hmac.compare_digest(given.encode("utf-8", "replace"), self._token)
        self._left -= 0 if is_right else min(_WRONG, self._left)
        return is_right

    def is_form(self, value: object) -> bool:
        """Whether a form had *value* in its hidden field, and so is of our page."""
        return hmac.compare_digest(str(value).encode("utf-8", "replace"), self.form.encode())

    def has_token(self, request: BaseRequest) -> bool:
        """Whether *request* carries the token itself."""
        given = request.headers.get("Authorization", "")
        return given.startswith(_BEARER) and self.is_token(given.removeprefix(_BEARER))

    def has_cookie(self, request: BaseRequest, name: str) -> bool:
        """Whether *request* has our cookie, called *name*."""
        given = request.cookies.get(name, "").encode("utf-8", "replace")
        return hmac.compare_digest(given, self.cookie.encode())

    def may_look(self, request: BaseRequest, name: str) -> bool:
        """Whether *request* may be answered that changes nothing."""
        return self._is_open or self.has_cookie(request, name) or self.has_token(request)
