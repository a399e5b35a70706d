"""Crawls with a monitor, and requests to it."""

import json
from base64 import b64encode
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlencode

import psutil
from crawling import kill, simulated, start_crawl, wait_until
from lxml import html
from patience import LIMIT_SECS, SLOWNESS
from redis_server import free_port

FORM = "application/x-www-form-urlencoded"


class Monitor:
    """The monitor of the *crawl* in *job*, and requests to it."""

    def __init__(self, job, crawl=None):
        self.job, self.crawl = job, crawl
        self.log = job.parent / "access.log"  # of the simulated web
        ports = job / "ports.json"
        wait_until(lambda: ports.exists() and "monitor" in ports.read_text())
        self.port = json.loads(ports.read_text())["monitor"]
        self.url = f"http://127.0.0.1:{self.port}/"
        token = job / "monitor.token"
        self.token = token.read_text().strip() if token.exists() else ""
        self.bearer = {"Authorization": f"Bearer {self.token}"}
        # Fields of each request.
        self.given = {}

    def ask(self, method, path, body=None, **headers):
        """Status, header fields, text."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_SECS)) as connection:
            connection.request(method, path, body, {**self.given, **names})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def status(self, *asked, **headers):
        return self.ask(*asked, **headers)[0]

    def page(self, path="/"):
        status, _, text = self.ask("GET", path)
        assert status == 200, text
        return html.fromstring(text)

    def command(self, name, **asked):
        """The answer to a command by the API."""
        arguments = asked.pop("arguments", {})
        body = json.dumps({"name": name, "arguments": arguments, **asked})
        kind = {"Content-Type": "application/json"}
        status, _, text = self.ask("POST", "/api/command", body, **self.bearer, **kind)
        return status, json.loads(text) if status == 200 else text

    def state(self):
        return json.loads(self.ask("GET", "/api/state")[2])

    def pages(self):
        """How many pages the summary shows."""
        return int(self.state()["summary"]["pages"].replace(",", ""))

    def journal(self):
        path = self.job / "logs/control.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def give_token(self):
        """As browsers do, which keep it."""
        status, headers, _ = self.ask("GET", "/token")
        assert (status, headers["WWW-Authenticate"][:6]) == (401, "Basic ")
        self.given = {"Authorization": f"Basic {b64encode(f':{self.token}'.encode()).decode()}"}
        status, headers, _ = self.ask("GET", "/token")
        assert (status, headers["Location"]) == (303, "./#commands")
        assert "Set-Cookie" not in headers

    def form(self, name, /, **fields):
        """What the page says after its form *name* was sent."""
        (form,) = self.page().xpath(f"//form[@action='commands/{name}']")
        hidden = {one.name: one.value for one in form.xpath(".//input[@type='hidden']")}
        body = urlencode(hidden | fields)
        status, headers, _ = self.ask("POST", f"/commands/{name}", body, Content_Type=FORM)
        assert status == 303
        said = self.page(headers["Location"].removeprefix("..")).xpath("//p[@class='said']")
        return str(said[0].text)


@contextmanager
def started(job, command):
    """The monitor of the crawl in *job* that *command* starts; both have ended behind it."""
    crawl = start_crawl(command)
    beside = []
    try:
        monitor = Monitor(job, crawl)
        beside = psutil.Process(crawl.pid).children()
        yield monitor
    finally:
        if crawl.poll() is None:
            kill(crawl)
        crawl.stderr.close()
        assert psutil.wait_procs(beside, timeout=LIMIT_SECS)[1] == []


@contextmanager
def monitored(directory, **settings):
    """That of a crawl of a simulated web, in *directory*, which lasts for ten minutes."""
    world = {"hosts": 12, "mean_pages": 3000, "max_pages": 3000, "crawl_delays": 0.0}
    with simulated(directory, **world) as web:
        # The machine has time left to answer commands.
        options = {"POLITENESS_MIN_DELAY": SLOWNESS, "REPUTATION_BASE_PAGES": 0}
        options |= {"MONITOR_PORT": free_port(), "STATISTICS_INTERVAL_SECS": 0.5} | settings
        with started(web.job, web.command(**options)) as monitor:
            yield monitor
