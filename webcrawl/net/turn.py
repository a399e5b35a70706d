"""The address whose turn it is, on its way from the frontier to the socket.

With POLITENESS_KEY "address" a contact holds the clock of one address. Meanwhile a name server may
name another one of the host, and a connection to the one before may wait to be used again: neither
is in its turn. The downloader sets `TURN` for each contact; the modules that connect go by it.

A context variable, since nothing else gets from the downloader through aiohttp to where it
connects. Each download runs in a task of its own.
"""

from __future__ import annotations

from contextvars import ContextVar

#: The only address to be connected to in this context; "" where any of the host's may be.
TURN: ContextVar[str] = ContextVar("TURN", default="")
