"""A conversation with Chromium, recorded once and played as often as a test wants.

To record it again:
``PYTHONPATH=tests/rigs/sites:. .venv/bin/python tests/rigs/loaded/recorded_engine.py``.
"""

import json
import os
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import msgspec
from rendered_pages import page, stored

from webcrawl.render import chromium
from webcrawl.render.cdp import Connection

RECORDING = Path(__file__).parents[2] / "data/chromium.jsonl"
HTML = """<div id=out></div><script src=/missing.js></script><script src=/private/a.js></script>
<img src=/i.png><script>fetch('/data.json').then(r => r.json()).then(d => {
out.innerHTML = d.map(u => `<a href=${u}>x</a>`).join(''); history.pushState({}, '', d[0]);
fetch('/post', {method: 'POST'}).catch(() => 0); confirm(1); location.href = '/elsewhere' })
</script>"""


class Recorder(Connection):
    """Writes what is sent with a > and what is received with a < before it."""

    lines: ClassVar[list[str]] = []

    def send(self, method, session="", **params):
        number = super().send(method, session, **params)
        self.lines.append(f"> {number} {method}")
        return number

    def receive(self, secs):
        message = super().receive(secs)
        if message is not None:
            self.lines.append(f"< {msgspec.json.encode(message).decode()}")
        return message


def record():
    chromium.Connection = Recorder
    engine = chromium.Chromium()
    engine.start()
    engine.render(page(HTML), stored)
    engine.stop()
    RECORDING.write_text("\n".join(Recorder.lines) + "\n")


@contextmanager
def played(lines):
    """An engine whose browser says the *lines* of a recording, and what it sends to the browser."""
    calls: list[dict] = []
    (from_us, to_browser), (from_browser, to_us) = os.pipe(), os.pipe()

    def play():
        with os.fdopen(from_us, "rb") as pipe, os.fdopen(to_us, "wb", buffering=0) as out:
            received = b""
            for line in lines:
                if line[0] == "<":
                    out.write(line[2:].encode() + b"\0")
                    continue
                while b"\0" not in received:
                    if not (data := os.read(pipe.fileno(), 1 << 16)):
                        return
                    received += data
                call, _, received = received.partition(b"\0")
                calls.append(json.loads(call))
                if line != f"> {calls[-1]['id']} {calls[-1]['method']}":
                    return

    player = threading.Thread(target=play)
    player.start()
    engine = chromium.Chromium()
    with (
        subprocess.Popen(["sleep", "60"], start_new_session=True) as engine._process,
        os.fdopen(from_browser, "rb") as reader,
        os.fdopen(to_browser, "wb", buffering=0) as writer,
    ):
        engine.pid = engine._process.pid
        engine.connection = Connection(reader, writer)
        try:
            engine._open_tab()
            yield engine, calls
        finally:
            engine.stop()
            writer.close()
            player.join()


if __name__ == "__main__":
    record()
