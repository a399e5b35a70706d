"""A WebSub hub, written from the text of the W3C Recommendation of 2018-01-23 alone. What is
wrong in requests is in ``faults``, and it believes only those who repeat its challenge."""

import hmac
import secrets
import threading
import time
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from patience import LIMIT_SECS

LINK = '<{hub}>; rel="hub", <{topic}>; rel="self"'


class Hub(ThreadingHTTPServer):
    """At *address*. Leases are what subscribers ask for, or *lease* if that is given. Topics in
    *denied* are denied; with *moved_to*, every request is redirected there."""

    def __init__(self, address="127.0.0.2", *, lease=None, denied=(), moved_to=""):
        super().__init__((address, 0), _Handler)
        self.url = f"http://{address}:{self.server_port}/hub"
        self.lease = lease
        self.denied = set(denied)
        self.moved_to = moved_to
        # All forms that were sent, and what was wrong with them.
        self.forms = []
        self.faults = []
        # The end of the lease and the secret of each subscription, by topic and callback.
        self.subscriptions = {}

    def callbacks(self, topic):
        return [callback for one, callback in self.subscriptions if one == topic]

    def fault_of(self, form, content_type):
        """Section 5.1: what is wrong with *form*; "" if nothing is."""
        required = ("hub.callback", "hub.mode", "hub.topic")
        rules = {
            "Content-Type": content_type.partition(";")[0] == "application/x-www-form-urlencoded",
            "missing": all(len(form.get(name, [])) == 1 for name in required),
            "hub.mode": form.get("hub.mode", [""])[0] in ("subscribe", "unsubscribe"),
            "hub.callback": form.get("hub.callback", [""])[0].startswith(("http://", "https://")),
            "hub.lease_seconds": form.get("hub.lease_seconds", ["1"])[0].isdecimal(),
            "hub.secret": len(form.get("hub.secret", [""])[0].encode()) < 200,
        }
        return ", ".join(name for name, is_kept in rules.items() if not is_kept)

    def decide(self, form):
        """Sections 5.2 and 5.3, after the answer was sent."""
        topic, callback = form["hub.topic"][0], form["hub.callback"][0]
        mode = form["hub.mode"][0]
        if mode == "subscribe" and topic in self.denied:
            self.ask(callback, {"hub.mode": "denied", "hub.topic": topic, "hub.reason": "no"})
            return
        lease = self.lease or int(form.get("hub.lease_seconds", [86_400])[0])
        if self.verify(callback, mode, topic, lease):
            if mode == "subscribe":
                secret = form.get("hub.secret", [""])[0]
                self.subscriptions[topic, callback] = time.time() + lease, secret
            else:
                self.subscriptions.pop((topic, callback), None)

    def verify(self, callback, mode, topic, lease):
        """Section 5.3: whether the subscriber repeats the challenge."""
        challenge = secrets.token_urlsafe(24)
        question = {
            "hub.mode": mode, "hub.topic": topic, "hub.challenge": challenge,
            "hub.lease_seconds": lease,
        }  # fmt: skip
        status, body = self.ask(callback, question)
        return 200 <= status < 300 and body.decode() == challenge

    @staticmethod
    def ask(callback, question):
        """The parameters follow those that the callback has already."""
        url = callback + ("&" if "?" in callback else "?") + urlencode(question)
        return send("GET", url)

    def publish(self, topic, body, *, algorithm="sha256", content_type="application/atom+xml"):
        """Section 7: the statuses of all subscribers whose lease has not ended."""
        statuses = []
        for (one, callback), (end, secret) in [*self.subscriptions.items()]:
            if one == topic and end > time.time():
                headers = {
                    "Content-Type": content_type,
                    "Link": LINK.format(hub=self.url, topic=topic),
                }
                if secret:
                    headers["X-Hub-Signature"] = signature(secret, body, algorithm)
                status, _ = send("POST", callback, body, **headers)
                statuses.append(status)
                if status == 410:
                    del self.subscriptions[one, callback]
        return statuses


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.say(404)  # for instance its robots.txt

    def do_POST(self):
        hub = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        form = parse_qs(body.decode(), strict_parsing=True)
        hub.forms.append({name: value for name, (value,) in form.items()})
        if hub.moved_to:
            self.say(308, Location=hub.moved_to)
            return
        fault = hub.fault_of(form, self.headers["Content-Type"] or "")
        if fault:
            hub.faults.append(fault)
            self.say(400, fault.encode())
            return
        self.say(202)
        threading.Thread(target=hub.decide, args=[form]).start()

    def say(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        """Nothing."""


def signature(secret, body, algorithm="sha256"):
    """Section 7.1."""
    return f"{algorithm}={hmac.new(secret.encode(), body, algorithm).hexdigest()}"


def send(method, url, body=None, **headers):
    """Status and body of the answer."""
    parts = urlsplit(url)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(HTTPConnection(parts.hostname, parts.port, timeout=LIMIT_SECS)) as connection:
        connection.request(method, url.partition(parts.netloc)[2] or "/", body, names)
        answer = connection.getresponse()
        return answer.status, answer.read()


@contextmanager
def serving_hub(*args, **options):
    with Hub(*args, **options) as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
