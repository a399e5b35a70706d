"""Fence: whether requests may still be sent, asked right before their bytes go out.

A process that was paused goes on where it was: a request whose connection was being made would be
sent, though its host may be another process's by now. The downloader sets the question for each
download, in a task of its own; nothing else gets from there to the socket.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Whether a request may be sent now in this context.
MAY_SEND: ContextVar[Callable[[], bool]] = ContextVar("MAY_SEND", default=lambda: True)


def pass_fence() -> None:
    """Return if a request may be sent now; otherwise break its download off: CancelledError."""
    if not MAY_SEND.get()():
        raise asyncio.CancelledError("the host may not be contacted any more")
