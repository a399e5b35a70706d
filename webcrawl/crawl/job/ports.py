"""Ports of a crawl that runs, of its metrics and its monitor: ``JOBDIR/ports.json``."""

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
    """Enter the *port* of *name*; 0 takes it out. A disk that fails ends the crawl elsewhere."""
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
    """Ports by name; none that cannot be read."""
    with suppress(OSError, UndecodableError):
        return _decode((jobdir / FILE).read_bytes())
    return {}
