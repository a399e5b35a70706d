"""A threaded HTTP server on loopback whose answers a test makes."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HttpSite(ThreadingHTTPServer):
    """*answer* is called with each request's handler, in a thread, and gives status, headers and
    body; *asked* are all paths so far, and *connections* how many clients have connected.

    An answer with the header Transfer-Encoding is sent in chunks, which it must be long enough for.
    """

    def __init__(self, answer, address="127.0.0.1"):
        super().__init__((address, 0), _Handler)
        self.answer = answer
        self.asked = []
        self.connections = 0
        self.url = f"http://127.0.0.1:{self.server_port}"

    def get_request(self):
        self.connections += 1
        return super().get_request()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # header and body in one packet: the second would wait 40 ms for its turn

    def do_GET(self):
        self.server.asked.append(self.path)
        status, headers, body = self.server.answer(self)
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", **headers}.items():
            self.send_header(name, value)
        if "Transfer-Encoding" in headers:
            half = len(body) // 2
            chunks = (body[:half], body[half:], b"")
            body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_OPTIONS = do_GET  # noqa: N815  # the library calls them so

    def log_message(self, *_):
        """Nothing."""


@contextlib.contextmanager
def serving(site):
    """Serve *site* from a thread."""
    with site:
        thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()
