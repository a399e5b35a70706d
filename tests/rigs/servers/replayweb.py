"""ReplayWeb.page in Chromium, served on loopback, which replays WACZ files (`make test-long`)."""

import contextlib
import re
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from browsing import chromium
from http_site import serving

ROOT = Path(__file__).resolve().parents[3]
#: Its user interface and its service worker, from npm.
PACKAGE = ROOT / ".npm-replay/package"
_NAME = "crawl.wacz"
_TYPES = {".html": "text/html", ".js": "text/javascript"}
_COLLECTION = """async () => {
  const answer = await fetch("w/api/coll-index");  // not found before the service worker runs
  const { colls } = answer.ok ? await answer.json() : { colls: [] };
  return colls[0]?.id;
}"""
_FETCH = """async url => {
  const answer = await fetch(url);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return [answer.status, [...answer.headers], btoa(text)];
}"""


class _Handler(BaseHTTPRequestHandler):
    """Serves the package and the archive, the latter by ranges."""

    protocol_version = "HTTP/1.1"

    def do_GET(self, *, has_body=True):
        path = urlsplit(self.path).path.lstrip("/") or "index.html"
        file = self.server.package if path == _NAME else PACKAGE / path
        if not file.is_file():
            self.send_error(404)
            return
        data = file.read_bytes()
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"] or "")
        start, end = 0, len(data)
        if asked:
            first, last = asked.groups()
            start = int(first) if first else max(end - int(last), 0)
            end = min(int(last) + 1, end) if first and last else end
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Type", _TYPES.get(file.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if has_body:
            self.wfile.write(data[start:end])

    def do_HEAD(self):
        self.do_GET(has_body=False)

    def log_message(self, *_):
        """Nothing."""


class ReplayWeb:
    """Asks ReplayWeb.page in a browser *page* for what the collection *name* of *site* has."""

    def __init__(self, page, site, name):
        self._page = page
        self._site = site
        self._name = name

    def replay(self, url, timestamp):
        """Status, headers and the bytes of the capture of *url* next to *timestamp*, decoded."""
        address = f"{self._site}/w/{self._name}/{timestamp}id_/{url}"
        status, headers, body = self._page.evaluate(_FETCH, address)
        return status, dict(headers), b64decode(body)

    def shown(self, url, timestamp, *, target=None):
        """The text that its user interface shows for the capture, after a redirect to *target*."""
        view = urlencode({"view": "pages", "url": url, "ts": timestamp})
        self._page.goto("about:blank")  # or another fragment would load nothing

        def is_replayed(frame):
            return frame.url.endswith(f"mp_/{target or url}")

        with self._page.expect_event("framenavigated", is_replayed) as navigated:
            self._page.goto(f"{self._site}/?source={self._site}/{_NAME}#{view}")
        frame = navigated.value
        frame.wait_for_load_state("networkidle")
        return frame.inner_text("body")


@contextlib.contextmanager
def replayweb_of(package):
    """ReplayWeb.page with what is in the WACZ *package*."""
    assert PACKAGE.is_dir(), "make test-long makes .npm-replay"
    site = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    site.package = package
    url = f"http://127.0.0.1:{site.server_port}"
    with serving(site), chromium() as browser:
        page = browser.new_context().new_page()
        page.goto(f"{url}/?source={url}/{_NAME}", wait_until="networkidle")
        page.wait_for_function("navigator.serviceWorker.controller")
        name = page.wait_for_function(_COLLECTION).json_value()
        yield ReplayWeb(page, url, name)
