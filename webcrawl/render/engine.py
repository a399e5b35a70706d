"""Interface of the engines that render pages: what a pass is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from webcrawl.configuration.decoding import Seconds  # msgspec reads it

#: Why a request was made. An engine cannot tell modules from other scripts.
Kind = Literal["script", "fetch", "xhr", "style"]
#: How a pass ended: the page had nothing left to do, or one of the bounds, or the engine failed.
Ending = Literal["settled", "cpu", "memory", "wall", "nodes", "crashed"]


class EngineError(Exception):
    """Raised when an engine cannot be started; the text is one sentence for the user."""


class Answer(msgspec.Struct, frozen=True):
    """Stored response of a server. The body has no content coding any more.

    ``place`` is that of the server, see ``place_of`` in net/guard.py.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    place: str = ""


class Subresource(msgspec.Struct, frozen=True):
    """Request of a page for a part of it, or the preflight of one (OPTIONS).

    ``origin`` and ``referer`` are the values of Origin and Referer, "" if none is sent. ``fields``
    are Accept and the fields that a script has set, with names in lower case, in order.
    """

    url: str
    kind: Kind
    origin: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    method: Literal["GET", "OPTIONS"] = "GET"
    referer: str = ""


#: Looks up a subresource in the store. A str is the reason why the page does not get it, such as
#: "robots.txt". None means that it is missing, but may be fetched.
LookUp = Callable[[Subresource], "Answer | str | None"]


class Bounds(msgspec.Struct, frozen=True):
    """Limits of a pass. Requests and bytes above the limit are refused; the others end the pass.

    ``memory`` is in bytes, for all processes of the engine. ``requests`` counts look-ups, and
    ``bytes`` the bodies of their answers; the HTML of the DOM may be as long. ``virtual_secs`` is
    how long the page's timers may run after it has loaded; they do not wait in real time.
    """

    cpu_secs: Seconds = 10.0
    wall_secs: Seconds = 30.0
    memory: int = 1 << 30
    nodes: int = 100_000
    requests: int = 500
    bytes: int = 32 << 20
    virtual_secs: Seconds = 5.0


class Pass(msgspec.Struct, frozen=True):
    """Order to render the document at ``url``, whose stored response is ``answer``.

    ``fetched_at`` is in epoch seconds; the page's clock begins there.
    """

    url: str
    answer: Answer
    bounds: Bounds = Bounds()
    fetched_at: Seconds = 0.0


class Rendering(msgspec.Struct):
    """Result of a pass.

    ``html`` is the DOM at the end, "" if the engine could not give it. The children of open shadow
    roots stand in it before the other children of their hosts. ``<div>`` stands for a frame without
    a URL, with what it shows. If scripts have changed the URL of the document, it has a ``<base>``.
    Where the page tried to go is in ``<meta http-equiv="refresh">`` at its end.
    ``missing`` and ``refused``, which has each URL with the reason, are without duplicates and in
    order. ``late`` is how many of those at the end of ``missing`` are only asked for in a window as
    tall as the document. ``answers`` is the number of stored answers that the page got.
    """

    ended: Ending
    html: str = ""
    missing: list[Subresource] = []
    late: int = 0
    answers: int = 0
    refused: list[tuple[str, str]] = []
    cpu_secs: Seconds = 0.0
    wall_secs: Seconds = 0.0
    #: Bytes, the most seen.
    memory: int = 0
    #: Look-ups, and the bytes of their answers.
    requests: int = 0
    bytes: int = 0


class Engine(Protocol):
    """Program that renders one page after another. Its methods block: call them in a worker.

    ``warning`` is "" if the process ``pid`` and its descendants have a network of their own.
    """

    pid: int
    warning: str

    def start(self) -> None:
        """Start the program. Raises EngineError if that is impossible."""

    def render(self, page: Pass, stored: LookUp) -> Rendering:
        """Render *page*, with what *stored* returns for its requests. Raises no error.

        After any other end than "settled" the engine has to be replaced: call ``stop`` and
        ``start``.
        """

    def stop(self) -> None:
        """End the program and remove its files. Nothing happens if it is not running."""
