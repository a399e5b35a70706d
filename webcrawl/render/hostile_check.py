"""Page that tries to get out of an engine, and sockets and counters that notice if it does.

Sockets notice only connections: names are not looked up at sockets of ours. The counters of the
engine's own network, if it has one, notice every packet.
"""

from __future__ import annotations

import json
import re
import select
import socket
from contextlib import ExitStack, suppress

from webcrawl.render.engine import Answer, Engine, Pass, Subresource
from webcrawl.render.isolation import packets_of
from webcrawl.render.scripts import read_script

# Browsers trust this host without TLS, so it may have a service worker. Nothing is sent there.
_SITE = "http://localhost/"
_HTML = [("Content-Type", "text/html; charset=utf-8")]
_SCRIPT = [("Content-Type", "text/javascript")]
_ATTEMPTS = read_script("attempts.js")
# Names of the attempts in the script; each attempt has a port of its own.
_NAMES = re.findall(r"^    (\w+): at =>", _ATTEMPTS, re.MULTILINE)
_PLACES = [
    (family, host, kind)
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
]
_WAIT_SECS = 0.25


def reached_by(engine: Engine) -> list[str]:
    """Return the attempts that reached a socket, and the packets that left the engine.

    Each attempt of the page's script aims at a port of its own, on which sockets of ours wait.
    [] is good. *engine* was started, and has to be replaced afterwards. Takes about two seconds.
    """
    with ExitStack() as sockets:
        listeners: dict[socket.socket, str] = {}
        ports = dict.fromkeys(_NAMES, 0)
        for name in _NAMES:
            for family, host, kind in _PLACES:
                with suppress(OSError):  # a machine without IPv6, or the port is used
                    one = sockets.enter_context(socket.socket(family, kind))
                    # Port 0 is any free port; the other sockets of this attempt get the same one.
                    one.bind((host, ports[name]))
                    ports[name] = one.getsockname()[1]
                    listeners[one] = name
                    if kind is socket.SOCK_STREAM:
                        one.listen()
        reached: set[str] = set()

        def look(secs: float) -> None:
            """Note which sockets are reached, and wait up to *secs* for the first."""
            for one in select.select([*listeners], [], [], secs)[0]:
                reached.add(listeners.pop(one))

        def answer_of(asked: Subresource) -> Answer | None:
            """Answer the requests of the page; it asks for ``wait`` to give attempts some time."""
            path, _mark, query = asked.url.removeprefix(_SITE).partition("?")
            if path == "wait":
                look(_WAIT_SECS)
                return Answer(200, _HTML, b"")
            if path == "redirect":
                return Answer(302, [("Location", f"http://{query}/")], b"")
            if path == "worker.js":
                return Answer(200, _SCRIPT, read_script("worker.js").encode())
            return None

        script = f"({_ATTEMPTS})({json.dumps(ports)});"
        html = f"<!DOCTYPE html><head></head><body><script>{script}</script>"
        engine.render(Pass(_SITE, Answer(200, _HTML, html.encode())), answer_of)
        look(_WAIT_SECS)
    found = [name for name in _NAMES if name in reached]
    # An engine with a warning has no network of its own, so its packets cannot be counted.
    packets = 0 if engine.warning else packets_of(engine.pid)
    if packets:
        found.append(f"{packets} packets")
    return found
