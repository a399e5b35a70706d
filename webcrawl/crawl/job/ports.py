"""Records the ports of a running crawl's metrics and monitor in ``JOBDIR/ports.json``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.storage.atomic import write_atomic

FILE = "ports.json"
_decode = json_decoder(dict[str, int])


def note_port(jobdir: Path, name: str, port: int) -> None:
    """Record the *port* of the service *name* in *jobdir*; 0 removes it.

    Ignores an OSError: the parts that store pages report a failing disk.
    """
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
    """Return the recorded ports in *jobdir*, by service; {} if they cannot be read."""
    with suppress(OSError, UndecodableError):
        return _decode((jobdir / FILE).read_bytes())
    return {}
