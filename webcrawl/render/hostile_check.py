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

# Browsers trust this host without TLS, so it may have a service worker. Nothing is sent there.
_SITE = "http://localhost/"
_HTML = [("Content-Type", "text/html; charset=utf-8")]
_SCRIPT = [("Content-Type", "text/javascript")]
# Attempts to reach `host:port`, by name. `real` gets past wrappers, as a page can.
_ATTEMPTS = """{
  fetch: at => fetch(`http://${at}/`, {mode: "no-cors"}),
  post: at => fetch(`http://${at}/`, {mode: "no-cors", method: "POST", body: "x"}),
  redirect: at => fetch("/redirect?" + at, {mode: "no-cors"}),
  keepalive: at => fetch(`http://${at}/`, {mode: "no-cors", keepalive: true}),
  image: at => { new Image().src = `http://${at}/`; },
  beacon: at => navigator.sendBeacon(`http://${at}/`, "x"),
  events: at => new (real.EventSource)(`http://${at}/`),
  websocket: at => new (real.WebSocket)(`ws://${at}/`),
  webtransport: at => new (real.WebTransport)(`https://${at}/`),
  webrtc: at => {
    const servers = [{urls: "stun:" + at},
      {urls: `turn:${at}?transport=tcp`, username: "x", credential: "x"}];
    const peer = new (real.RTCPeerConnection)({iceServers: servers});
    peer.createDataChannel("x");
    return peer.createOffer().then(offer => peer.setLocalDescription(offer));
  },
  hints: at => { for (const rel of ["dns-prefetch", "preconnect", "prefetch", "preload"]) {
    const link = document.createElement("link");
    link.rel = rel; link.as = "fetch"; link.href = `http://${at}/`;
    document.head.append(link);
  } },
  frame: at => { document.body.append(document.createElement("iframe"));
    document.body.lastChild.src = `http://${at}/`; },
  form: at => { const form = document.createElement("form");
    form.action = `http://${at}/`; form.method = "post"; form.target = "_blank";
    document.body.append(form); form.submit(); },
  popup: at => window.open(`http://${at}/`),
  worker: at => new (real.Worker)(script(at)),
  sharedworker: at => new (real.SharedWorker)(script(at), {extendedLifetime: true}),
  serviceworker: at => navigator.serviceWorker.register("/worker.js?" + at),
  navigation: at => { location.href = `http://${at}/`; },
}"""
_NAMES = re.findall(r"^  (\w+): at =>", _ATTEMPTS, re.MULTILINE)
_PLACES = [
    (family, host, kind)
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
]
# `wait` gives connections time: the page's own timers run in virtual time.
_PAGE = """<!DOCTYPE html><head></head><body><script>
const real = new Proxy({}, {get: (_, name) => self[name].prototype.constructor});
const script = at => URL.createObjectURL(new Blob(
  [`fetch("http://${at}/").catch(() => 0); new WebSocket("ws://${at}/");`]));
const attempts = %s;
for (const [name, port] of Object.entries(%s))
  for (const host of ["127.0.0.1", "[::1]", "localhost"])
    try { Promise.resolve(attempts[name](`${host}:${port}`)).catch(() => 0); } catch {}
(async () => { for (let i = 0; i < 6; i++) await fetch("/wait?" + i); })();
</script>"""
_WORKER = "fetch('http://%s/', {mode: 'no-cors'}).catch(() => 0); new WebSocket('ws://%s/');"
_WAIT_SECS = 0.25


def reached_by(engine: Engine) -> list[str]:
    """Return the attempts that reached a socket, and the packets that left the engine.

    [] is good. *engine* was started, and has to be replaced afterwards. Takes about two seconds.
    """
    with ExitStack() as sockets:
        listeners: dict[socket.socket, str] = {}
        ports = dict.fromkeys(_NAMES, 0)
        for name in _NAMES:
            for family, host, kind in _PLACES:
                with suppress(OSError):  # a machine without IPv6, or the port is used
                    one = sockets.enter_context(socket.socket(family, kind))
                    one.bind((host, ports[name]))
                    ports[name] = one.getsockname()[1]
                    listeners[one] = name
                    if kind is socket.SOCK_STREAM:
                        one.listen()
        reached: set[str] = set()

        def look(secs: float) -> None:
            for one in select.select([*listeners], [], [], secs)[0]:
                reached.add(listeners.pop(one))

        def stored(asked: Subresource) -> Answer | None:
            path, _mark, query = asked.url.removeprefix(_SITE).partition("?")
            if path == "wait":
                look(_WAIT_SECS)
                return Answer(200, _HTML, b"")
            if path == "redirect":
                return Answer(302, [("Location", f"http://{query}/")], b"")
            if path == "worker.js":
                return Answer(200, _SCRIPT, (_WORKER % (query, query)).encode())
            return None

        html = _PAGE % (_ATTEMPTS, json.dumps(ports))
        engine.render(Pass(_SITE, Answer(200, _HTML, html.encode())), stored)
        look(_WAIT_SECS)
    packets = 0 if engine.warning else packets_of(engine.pid)
    return [name for name in _NAMES if name in reached] + [f"{packets} packets"] * bool(packets)
