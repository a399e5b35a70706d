"""Access control of the monitor: what a request may read and what it may change.

Not every request comes from the user. Other users of the machine can reach the port, and so can any
page that is open in the user's browser. Changes therefore need a token, sent as ``Authorization:
Bearer`` or as the password of ``Authorization: Basic``. Browsers remember the password and send it
only to this scheme, host and port, while cookies go to all ports of a host. A form also contains a
hidden value that only our own page can know. Requests from other sites are recognized by Host
(against DNS rebinding), Origin and Sec-Fetch-Site.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webcrawl.errors import FatalError, require_file
from webcrawl.randomness import random_hex

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp.web import BaseRequest

_MIN_TOKEN_CHARS = 16


def is_loopback(host: str) -> bool:
    """Return whether *host*, a name or an address without brackets, is a loopback address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path, *, may_create: bool) -> str:
    """Return the token in the file *path*; with *may_create*, create the file if it is missing.

    Raises FatalError if the file can be read by others or the token is too short, and OSError.
    """
    if may_create:
        with suppress(FileExistsError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as stream:
                stream.write(f"{random_hex('monitor', 32)}\n")
    require_file(path)
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if path.stat().st_mode & 0o077:
        raise FatalError(f"{path} holds a token, so only its owner may read it: chmod 600 {path}")
    if len(token) < _MIN_TOKEN_CHARS:
        raise FatalError(f"The token in {path} must have at least {_MIN_TOKEN_CHARS} characters.")
    return token


class Access:
    """Decides what requests may do, based on a *token*.

    With *is_open*, on a loopback address, anyone may read.
    """

    def __init__(self, token: str, *, is_open: bool) -> None:
        self._token = token.encode()
        self._is_open = is_open
        #: Value of the hidden field in the forms of our page.
        self.form = hmac.new(self._token, b"form", "sha256").hexdigest()

    def is_same_site(self, request: BaseRequest) -> bool:
        """Return whether *request* may be served because no other site's page sent it.

        A link from another site to this page is allowed, too.
        """
        fields = request.headers
        host = fields.get("Host", "")
        origin = fields.get("Origin")
        is_own = fields.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}
        # Another site may link to this page, but may not load anything from it.
        is_link = fields.get("Sec-Fetch-Dest") == "document" and request.method == "GET"
        try:
            name = urlsplit(f"//{host}").hostname or ""
            is_own_origin = origin is None or urlsplit(origin).netloc == host
        except ValueError:
            return False
        # In DNS rebinding, another site gives its own name the address of this machine. If reading
        # needs no token, only that name shows it.
        return (is_own or is_link) and is_own_origin and (not self._is_open or is_loopback(name))

    def is_form_value(self, value: object) -> bool:
        """Return whether *value* is that of the hidden field in the forms of our own page."""
        return hmac.compare_digest(str(value).encode("utf-8", "replace"), self.form.encode())

    def has_token(self, request: BaseRequest) -> bool:
        """Return whether *request* carries the token."""
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        token = credentials.strip().encode("utf-8", "replace")
        if scheme.lower() == "basic":
            try:
                # The token is the password; any user name will do.
                token = b64decode(token).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(token, self._token)

    def may_read(self, request: BaseRequest) -> bool:
        """Return whether *request* may read pages and data; changes need the token."""
        return self._is_open or self.has_token(request)
