"""HTTP client of one machine's scrapyd: lists, starts and stops drones, uploads eggs, reads logs.

All calls block for up to the timeout, so scrapyd_hosts.py makes them in threads. Redirects are not
followed, because they could send the password elsewhere. Error messages never contain a password.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote, urljoin, urlsplit

import requests
import urllib3

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.hive.launch.log_lines import in_plain_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The name of the project in scrapyd, as in scrapy.cfg.
PROJECT = "webcrawl"
# Timeouts of connecting, of a read, and of a read after an upload, when scrapyd loads the egg.
_CONNECT_SECS = 5.0
_READ_SECS = 20.0
_EGG_SECS = 120.0
_MAX_BYTES = 4 << 20
_LOG_BYTES = 16 << 10
_MAX_CHARACTERS = 300
_CRAWL_START = re.compile(r"^\d{4}-.+ \[scrapy\.utils\.log\] INFO: Scrapy .+$", re.MULTILINE)
_PROGRESS = re.compile(r"^(\d{4}-\S+ \S+) \[webcrawl\] INFO: (\d+:\d\d:\d\d .+)$", re.MULTILINE)
# Matches a progress line with work in it: pages, or URLs waiting or in process.
_WORK = re.compile(r"[1-9][\d,]* (?:pages|waiting|in process)")
_LAST_WORDS = re.compile(
    r"^(?: {7}end  |\d{4}-\S+ \S+ \[[^]]+\] (?:ERROR|CRITICAL): )(.+)$", re.MULTILINE
)

_decode = json_decoder(dict[str, Any])


class ScrapydError(Exception):
    """Error of a machine's scrapyd; the message continues a sentence that names the machine."""


class Machine(NamedTuple):
    """Address of a scrapyd: a URL without credentials, and the user and password."""

    url: str
    user: str = ""
    password: str = ""

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse *url*: http://user:password@machine:6800/, or just a machine. Raises ValueError."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(url)
        host = parts.netloc.rpartition("@")[2].lower()
        if parts.port is None:
            host += ":443" if parts.scheme == "https" else ":6800"
        return cls(
            url=f"{parts.scheme}://{host}{parts.path.rstrip('/')}/",
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )

    @property
    def name(self) -> str:
        """Host and port, the name shown to people."""
        return self.url.partition("://")[2].rstrip("/")


class DeployedDrone(NamedTuple):
    """The newest run of a drone, as scrapyd lists it.

    *state* is pending, running or finished. Times are by the machine's clock, to the second.
    """

    name: str
    state: str
    started: str
    log_url: str

    @property
    def is_over(self) -> bool:
        return self.state == "finished"


class LogEnd(NamedTuple):
    """Facts about the last crawl in a log, from the end of the log; empty if not found there."""

    #: The time and text of the last progress line.
    at: str
    progress: str
    #: How the crawl ended: the line of the summary, or the last error.
    end: str
    has_saved: bool

    @property
    def is_finished(self) -> bool:
        return self.end.startswith("finished")

    @property
    def is_at_work(self) -> bool:
        """Whether the crawl had URLs to fetch."""
        return _WORK.search(self.progress) is not None


class Scrapyd:
    """HTTP client of the scrapyd of *machine*. All methods raise ScrapydError."""

    def __init__(self, machine: Machine) -> None:
        self._url = machine.url
        self._session = requests.Session()
        if machine.user:
            self._session.auth = (machine.user, machine.password)

    def drones(self, hive: str) -> dict[str, DeployedDrone]:
        """Return the drones of *hive* by name, in the order of their numbers."""
        # Lists jobs of all projects, because scrapyd refuses a project that does not exist yet.
        jobs = self._call("GET", "listjobs.json")
        drone_id = re.compile(rf"{re.escape(hive)}-(\d{{1,3}})")
        drones: dict[int, DeployedDrone] = {}
        try:
            # Later runs replace earlier ones of the same drone: the finished ones in the order of
            # their ends, then one that is running or pending.
            jobs["finished"].sort(key=lambda job: job["end_time"])
            for state in ("finished", "running", "pending"):
                for job in jobs[state]:
                    match = drone_id.fullmatch(job["id"])
                    if match and job.get("project", PROJECT) == PROJECT:
                        drones[int(match[1])] = DeployedDrone(
                            name=match[0],
                            state=state,
                            started=job.get("start_time", "")[:19],
                            log_url=job.get("log_url") or "",
                        )
        except (KeyError, TypeError, AttributeError) as error:
            raise ScrapydError(f"lists its jobs in an unknown format: {error!r}") from None
        return {drones[number].name: drones[number] for number in sorted(drones)}

    def deploy(self, version: str, egg: bytes) -> None:
        """Upload *egg* as *version*, and wait until scrapyd has found the spiders in it."""
        data = {"project": PROJECT, "version": version}
        files = {"egg": ("project.egg", egg)}
        self._call("POST", "addversion.json", read_secs=_EGG_SECS, data=data, files=files)

    def schedule(
        self, job: str, spider: str, *, version: str, arguments: Iterable[str],
        settings: Iterable[str],
    ) -> None:  # fmt: skip
        """Schedule a run of *spider* as *job*; *arguments* and *settings* are NAME=VALUE."""
        data = [("project", PROJECT), ("spider", spider), ("jobid", job), ("_version", version)]
        data += [("setting", setting) for setting in settings]
        data += [
            (name, value) for name, _, value in (argument.partition("=") for argument in arguments)
        ]
        self._call("POST", "schedule.json", data=data)

    def cancel(self, job: str) -> None:
        """Remove *job* from the queue, or stop its process with a checkpoint, by one SIGINT."""
        self._call("POST", "cancel.json", data={"project": PROJECT, "job": job})

    def log_end(self, drone: DeployedDrone) -> LogEnd:
        """Parse the last 16 KiB of the log of *drone*. All fields are empty if there is no log."""
        size = self._log_size(drone)
        # The log may have several crawls, one after the other; the last one counts.
        log = _CRAWL_START.split(self._read_log(drone, max(0, size - _LOG_BYTES), size))[-1]
        logged_at, progress = (_PROGRESS.findall(log) or [("", "")])[-1]
        end = (_LAST_WORDS.findall(log) or [""])[-1]
        has_saved = "Crawl state saved (" in log
        return LogEnd(logged_at, progress[:_MAX_CHARACTERS], end[:_MAX_CHARACTERS], has_saved)

    def _log_url(self, drone: DeployedDrone) -> str:
        """Return the URL of the log of *drone*, or "" if it is not on this scrapyd."""
        url = urljoin(self._url, drone.log_url.lstrip("/"))
        return url if drone.log_url and url.startswith(self._url) else ""

    def _log_size(self, drone: DeployedDrone) -> int:
        """Return the size of the log of *drone* in bytes, or 0 if there is no log."""
        if not (url := self._log_url(drone)):
            return 0
        return int(self._fetch("HEAD", url)[0].headers.get("Content-Length") or 0)

    def _read_log(self, drone: DeployedDrone, start: int, end: int) -> str:
        """Return the log of *drone* from byte *start* to byte *end*, in Scrapy's text format.

        Asking for the last bytes instead would be simpler. But scrapyd's Twisted (26.10) fails if
        more bytes are asked for than the file has.
        """
        if start >= end:
            return ""
        headers = {"Range": f"bytes={start}-{end - 1}"}
        answer, body = self._fetch("GET", self._log_url(drone), headers=headers)
        return in_plain_lines(body.decode(errors="replace")) if answer.ok else ""

    def _call(self, method: str, service: str, **options: Any) -> dict[str, Any]:
        """Call *service* of scrapyd and return its JSON answer; *options* are for ``_fetch``."""
        answer, body = self._fetch(method, self._url + service, **options)
        if answer.status_code == requests.codes.unauthorized:
            raise ScrapydError("refuses the user and password in the hosts file")
        try:
            content = _decode(body)
            status = content["status"]
            message = str(content.get("message", "without a reason"))
        except (UndecodableError, KeyError):
            raise ScrapydError(
                f"does not run scrapyd: {service} returned {answer.status_code}"
            ) from None
        if status != "ok":
            # If the message is a traceback, its last line names the exception.
            last_line = message.strip().rpartition("\n")[2]
            raise ScrapydError(f"refused {service}: {last_line[:_MAX_CHARACTERS]}")
        return content

    def _fetch(
        self, method: str, url: str, *, read_secs: float = _READ_SECS, **options: Any
    ) -> tuple[requests.Response, bytes]:
        """Request *url*, and return the response and its body; *options* are for requests."""
        timeout = (_CONNECT_SECS, read_secs)
        try:
            with self._session.request(
                method, url, timeout=timeout, allow_redirects=False, stream=True, **options
            ) as answer:
                return answer, answer.raw.read(_MAX_BYTES, decode_content=True)
        except requests.ConnectTimeout:
            raise ScrapydError(f"does not answer: no connection in {_CONNECT_SECS:g} s") from None
        except requests.Timeout:
            raise ScrapydError(f"does not answer: no data in {read_secs:g} s") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            # The system's message is shown, because those of requests contain the whole URL.
            cause: BaseException = error
            while cause.__context__ is not None:
                cause = cause.__context__
            reason = getattr(cause, "strerror", None) or type(cause).__name__
            raise ScrapydError(f"does not answer: {reason}") from None
