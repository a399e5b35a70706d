"""The pages of tests/data/unrendered.toml, each of a site: what only a browser shows of them."""

import base64
import hashlib
import re

from linked_site import Answer, Sites
from wire_text import table

ROWS = table("unrendered")["row"]
_SHOWING = """<script>
const show = url => document.body.append(
  Object.assign(document.createElement("a"), {href: url, textContent: "missing"}));
const say = () => document.body.append("missing");
</script>"""
# RFC 6455, 1.3
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY = re.compile(r"\r\nsec-websocket-key: (\S+)", re.IGNORECASE)


def host_of(row):
    return f"row{ROWS.index(row)}.test"


class UnrenderedSites(Sites):
    """Serves the rows."""

    def __init__(self):
        pages = {}
        for row in ROWS:
            host = host_of(row)
            body = f"<!DOCTYPE html><body>{_SHOWING}{row['html']}"
            pages[f"{host}/"] = Answer(body.encode())
            pages[f"{host}/robots.txt"] = Answer(b"User-agent: *\nDisallow: /l/\n", "text/plain")
            for path, (content_type, text) in row.get("files", {}).items():
                pages[host + path] = Answer(text.encode(), content_type)
        super().__init__(pages)

    def answer_to(self, name, head):
        host, _, path = name.partition("/")
        answer = super().answer_to(f"{host}/{re.sub(r'[0-9]+', '0', path)}", head)
        return _websocket(head, answer.body) if answer.content_type == "websocket" else answer


def _websocket(head, message):
    """The end of the handshake that *head* begins, and *message* in a frame."""
    key = _KEY.search(head)
    digest = hashlib.sha1((key[1] + _GUID).encode(), usedforsecurity=False).digest()
    accepted = f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}"
    headers = "Upgrade: websocket", "Connection: Upgrade", accepted
    return Answer(bytes([0x81, len(message)]) + message, headers=headers, status=101)
