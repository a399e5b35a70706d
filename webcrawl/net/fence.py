"""The fence, which keeps a process and its kernel from contacting hosts that it no longer owns.

Drones of a hive have a fence, as their hosts may pass to another drone at any time. A process that
was paused continues where it was, so the fence is checked right before bytes are sent. Only a pause
in the microseconds between this check and the system call is not noticed. Once bytes have left the
process, the kernel sends them again until they are acknowledged. It does so even after a network
failure that is longer than a lease, and after the process has closed the connection or was killed.
So connections end with a reset, after which nothing is sent again, and all of them are aborted when
the lease expires. If the process is too late for that, the kernel itself gives up after half a
lease, except for connections that are not established yet.

The downloader sets `FENCE` for each download. DNS lookups are not fenced.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from contextvars import ContextVar
from weakref import WeakSet

# Linger for zero seconds: closing sends a reset and drops all data that is not acknowledged.
_NO_LINGER = struct.pack("ii", 1, 0)
# An option in <linux/tcp.h>; other systems have no such limit.
_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)
# The part of a lease during which the kernel sends the same data again.
_RESEND_SHARE = 0.5


class Fence:
    """The fence around all connections of one process to hosts.

    *is_open* returns whether hosts may be contacted now. *lease_secs* is the length of a lease in
    seconds.
    """

    def __init__(self, is_open: Callable[[], bool], lease_secs: float) -> None:
        self.is_open = is_open
        self._resend_ms = round(1000 * lease_secs * _RESEND_SHARE)
        self._connections: WeakSet[asyncio.BaseTransport] = WeakSet()

    def enclose(self, connection: asyncio.BaseTransport) -> None:
        """Add a new *connection*, over which nothing has been sent yet."""
        sock: socket.socket = connection.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the connection may be lost already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            if _USER_TIMEOUT is not None:
                sock.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, self._resend_ms)
        self._connections.add(connection)

    def abort(self) -> None:
        """Reset all connections, including idle ones.

        The caller cancels all downloads first, as they would fail otherwise.
        """
        for connection in [*self._connections]:
            connection.abort()  # type: ignore[attr-defined]  # all transports are of streams
        self._connections.clear()


#: The fence of this context; None outside a hive.
FENCE: ContextVar[Fence | None] = ContextVar("FENCE", default=None)


def pass_fence() -> None:
    """Raise CancelledError, which cancels the download, if no request may be sent now."""
    fence = FENCE.get()
    if fence is not None and not fence.is_open():
        raise asyncio.CancelledError("the host may not be contacted any more")
