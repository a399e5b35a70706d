"""Ports of a running crawl's metrics and monitor: ``JOBDIR/ports.json``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.storage.atomic import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

FILE = "ports.json"
_decode = json_decoder(dict[str, int])


def note_port(jobdir: Path, name: str, port: int) -> None:
    """Record the *port* of *name*; 0 removes it. A failing disk ends the crawl elsewhere."""
    path = jobdir / FILE
    with suppress(OSError):
        ports = {**ports_of(jobdir), name: port}
        if not port:
            del ports[name]
        if ports:
            write_atomic(path, msgspec.json.encode(ports) + b"\n")
        else:
            path.unlink(missing_ok=True)


def ports_of(jobdir: Path) -> dict[str, int]:
    """Return the ports by name; {} if they cannot be read."""
    with suppress(OSError, UndecodableError):
        return _decode((jobdir / FILE).read_bytes())
    return {}
