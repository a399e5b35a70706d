"""Client of one machine's scrapyd, by its HTTP interface: the drones of a hive, eggs, logs.

All calls block, up to the timeout of each read, so scrapyd_hosts.py calls them from threads.
Redirects are not followed, because they could send the password elsewhere. Error messages never
contain a password.
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
# Timeouts to connect, and between two reads. scrapyd loads a new egg before it answers.
_CONNECT_SECS = 5.0
_READ_SECS = 20.0
_EGG_SECS = 120.0
_MAX_BYTES = 4 << 20
_LOG_BYTES = 16 << 10
# The log line that names the egg may be weeks old.
_MAX_LOG_BYTES = 64 << 20
_MAX_CHARACTERS = 300
_BEGINNING = re.compile(r"^\d{4}-.+ \[scrapy\.utils\.log\] INFO: Scrapy .+$", re.MULTILINE)
_PROGRESS = re.compile(r"^(\d{4}-\S+ \S+) \[webcrawl\] INFO: (\d+:\d\d:\d\d .+)$", re.MULTILINE)
_EGG = re.compile(r" INFO: webcrawl \S+, egg (\S+), spider ")
# Matches the progress line of a drone that has found something to do.
_AT_WORK = re.compile(r"[1-9][\d,]* (?:pages|waiting|in process)")
_LAST_WORDS = re.compile(
    r"^(?: {7}end  |\d{4}-\S+ \S+ \[[^]]+\] (?:ERROR|CRITICAL): )(.+)$", re.MULTILINE
)

_decode = json_decoder(dict[str, Any])


class ScrapydError(Exception):
    """Error of a machine's scrapyd; the message continues a sentence that begins with its name."""


class Machine(NamedTuple):
    """Address of a scrapyd: its URL without user and password, which are separate."""

    url: str
    user: str = ""
    password: str = ""

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse http://user:password@machine:6800/, or just a machine. Raises ValueError."""
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
        """Host and port, the name for people."""
        return self.url.partition("://")[2].rstrip("/")


class DeployedDrone(NamedTuple):
    """Newest run of a drone.

    *state* is pending, running or finished; times are by the machine's clock, to the second.
    """

    name: str
    state: str
    started: str
    ended: str
    log_url: str

    @property
    def is_over(self) -> bool:
        return self.state == "finished"


class LogEnd(NamedTuple):
    """Facts about the last crawl in a log, from its end; empty where the log has none."""

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
        return _AT_WORK.search(self.progress) is not None


class Scrapyd:
    """Client of the scrapyd of *machine*. Its methods raise ScrapydError."""

    def __init__(self, machine: Machine) -> None:
        self._url = machine.url
        self._session = requests.Session()
        if machine.user:
            self._session.auth = (machine.user, machine.password)

    def drones(self, hive: str) -> dict[str, DeployedDrone]:
        """Return the drones of *hive* by name, in the order of their numbers."""
        # The project is not named, because one that does not exist yet would be an error.
        listed = self._call("GET", "listjobs.json")
        numbered = re.compile(rf"{re.escape(hive)}-(\d{{1,3}})")
        found: dict[int, DeployedDrone] = {}
        try:
            listed["finished"].sort(key=lambda job: job["end_time"])
            for state in ("finished", "running", "pending"):
                for job in listed[state]:
                    match = numbered.fullmatch(job["id"])
                    if match and job.get("project", PROJECT) == PROJECT:
                        found[int(match[1])] = DeployedDrone(
                            name=match[0],
                            state=state,
                            started=job.get("start_time", "")[:19],
                            ended=job.get("end_time", "")[:19],
                            log_url=job.get("log_url") or "",
                        )
        except (KeyError, TypeError, AttributeError) as error:
            raise ScrapydError(f"lists its jobs in an unknown format: {error!r}") from None
        return {found[number].name: found[number] for number in sorted(found)}

    def deploy(self, version: str, egg: bytes) -> None:
        """Upload the *egg*; scrapyd answers when it has found the spiders in it."""
        data = {"project": PROJECT, "version": version}
        files = {"egg": ("project.egg", egg)}
        self._call("POST", "addversion.json", read_secs=_EGG_SECS, data=data, files=files)

    def schedule(
        self, job: str, spider: str, *, version: str, arguments: Iterable[str],
        settings: Iterable[str],
    ) -> None:  # fmt: skip
        """Schedule *spider* as *job*; *arguments* and *settings* are NAME=VALUE."""
        data = [("project", PROJECT), ("spider", spider), ("jobid", job), ("_version", version)]
        data += [("setting", setting) for setting in settings]
        data += [
            (name, value) for name, _, value in (argument.partition("=") for argument in arguments)
        ]
        self._call("POST", "schedule.json", data=data)

    def cancel(self, job: str) -> None:
        """Remove *job* from the queue, or send its process SIGINT; one SIGINT is a clean stop."""
        self._call("POST", "cancel.json", data={"project": PROJECT, "job": job})

    def log_end(self, drone: DeployedDrone) -> LogEnd:
        """Return facts from the last 16 KiB of the drone's log, empty if scrapyd keeps no log."""
        size = self._log_size(drone)
        log = _BEGINNING.split(self._read_log(drone, max(0, size - _LOG_BYTES), size))[-1]
        at, progress = (_PROGRESS.findall(log) or [("", "")])[-1]
        end = (_LAST_WORDS.findall(log) or [""])[-1]
        has_saved = "Crawl state saved (" in log
        return LogEnd(at, progress[:_MAX_CHARACTERS], end[:_MAX_CHARACTERS], has_saved)

    def egg_of(self, drone: DeployedDrone) -> str:
        """Return the version of the egg that *drone* runs, or "" if its log does not say."""
        size = self._log_size(drone)
        for end in range(size, max(0, size - _MAX_LOG_BYTES), _LOG_BYTES - _MAX_BYTES):
            found = _EGG.findall(self._read_log(drone, max(0, end - _MAX_BYTES), end))
            if found:
                return str(found[-1])
        return ""

    def _log_url(self, drone: DeployedDrone) -> str:
        url = urljoin(self._url, drone.log_url.lstrip("/"))
        return url if drone.log_url and url.startswith(self._url) else ""

    def _log_size(self, drone: DeployedDrone) -> int:
        if not (url := self._log_url(drone)):
            return 0
        return int(self._fetch("HEAD", url)[0].headers.get("Content-Length") or 0)

    def _read_log(self, drone: DeployedDrone, start: int, end: int) -> str:
        """Return the log from byte *start* to *end*.

        Both are needed, because scrapyd's Twisted (26.10) fails when asked for more last bytes than
        the file has.
        """
        if start >= end:
            return ""
        headers = {"Range": f"bytes={start}-{end - 1}"}
        answer, body = self._fetch("GET", self._log_url(drone), headers=headers)
        return in_plain_lines(body.decode(errors="replace")) if answer.ok else ""

    def _call(self, method: str, service: str, **given: Any) -> dict[str, Any]:
        answer, body = self._fetch(method, self._url + service, **given)
        if answer.status_code == requests.codes.unauthorized:
            raise ScrapydError("refuses the user and password in the hosts file")
        try:
            found = _decode(body)
            status, message = found["status"], str(found.get("message", "without a reason"))
        except (UndecodableError, KeyError):
            raise ScrapydError(
                f"does not run scrapyd: {service} returned {answer.status_code}"
            ) from None
        if status != "ok":
            # The last line of a traceback has the exception.
            last = message.strip().rpartition("\n")[2]
            raise ScrapydError(f"refused {service}: {last[:_MAX_CHARACTERS]}")
        return found

    def _fetch(
        self, method: str, url: str, *, read_secs: float = _READ_SECS, **given: Any
    ) -> tuple[requests.Response, bytes]:
        timeout = (_CONNECT_SECS, read_secs)
        try:
            with self._session.request(
                method, url, timeout=timeout, allow_redirects=False, stream=True, **given
            ) as answer:
                return answer, answer.raw.read(_MAX_BYTES, decode_content=True)
        except requests.ConnectTimeout:
            raise ScrapydError(f"does not answer: no connection in {_CONNECT_SECS:g} s") from None
        except requests.Timeout:
            raise ScrapydError(f"does not answer: no data in {read_secs:g} s") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            # Use the system's message, because those of requests contain the whole URL.
            cause: BaseException = error
            while cause.__context__ is not None:
                cause = cause.__context__
            why = getattr(cause, "strerror", None) or type(cause).__name__
            raise ScrapydError(f"does not answer: {why}") from None
