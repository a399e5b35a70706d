"""One machine's scrapyd, asked by its HTTP interface: the drones of a hive, eggs, logs.

All calls block for as long as the machine lets them, up to the time-out of each read; who must not
wait calls from a thread (scrapyd_hosts.py). Redirects are not followed: they would carry the
password elsewhere. No error has a password in it.
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

#: As in scrapy.cfg: by this name scrapyd knows the crawler.
PROJECT = "webcrawl"
# Seconds to connect, and between two reads. A new egg is loaded while scrapyd answers for it.
_CONNECT_SECS = 5.0
_READ_SECS = 20.0
_EGG_SECS = 120.0
_MOST_BYTES = 4 << 20
_LOG_BYTES = 16 << 10
# The line of a log that names the egg may be weeks old.
_MOST_LOG_BYTES = 64 << 20
_MOST_CHARACTERS = 300
_BEGINNING = re.compile(r"^\d{4}-.+ \[scrapy\.utils\.log\] INFO: Scrapy .+$", re.MULTILINE)
_PROGRESS = re.compile(r"^(\d{4}-\S+ \S+) \[webcrawl\] INFO: (\d+:\d\d:\d\d .+)$", re.MULTILINE)
_EGG = re.compile(r" INFO: webcrawl \S+, egg (\S+), spider ")
# A progress line of a drone that has found something to do.
_AT_WORK = re.compile(r"[1-9][\d,]* (?:pages|waiting|in process)")
_LAST_WORDS = re.compile(
    r"^(?: {7}end  |\d{4}-\S+ \S+ \[[^]]+\] (?:ERROR|CRITICAL): )(.+)$", re.MULTILINE
)

_decode = json_decoder(dict[str, Any])


class ScrapydError(Exception):
    """Why a machine did not do what it was asked for, as a sentence that goes on after its name."""


class Machine(NamedTuple):
    """Where a scrapyd is: its URL without user and password, which stand beside it."""

    url: str
    user: str = ""
    password: str = ""

    @classmethod
    def of(cls, url: str) -> Self:
        """From http://user:password@machine:6800/, or machine alone. ValueError."""
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
        """Host and port, by which people know it."""
        return self.url.partition("://")[2].rstrip("/")


class DeployedDrone(NamedTuple):
    """The newest run of a drone.

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
    """Facts of the last crawl in a log, by its end; empty where it says nothing."""

    #: Of the last progress line.
    at: str
    progress: str
    #: How it ended: the summary's line, or the last error.
    end: str
    has_saved: bool

    @property
    def is_finished(self) -> bool:
        return self.end.startswith("finished")

    @property
    def is_at_work(self) -> bool:
        """Whether there were URLs to fetch."""
        return _AT_WORK.search(self.progress) is not None


class Scrapyd:
    """The scrapyd of *machine*. Its methods raise ScrapydError."""

    def __init__(self, machine: Machine) -> None:
        self._url = machine.url
        self._session = requests.Session()
        if machine.user:
            self._session.auth = (machine.user, machine.password)

    def drones(self, hive: str) -> dict[str, DeployedDrone]:
        """The drones of *hive* by their names, in the order of their numbers."""
        # If it were named, a project that is not there yet would be an error.
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
            raise ScrapydError(f"lists its jobs in another way: {error!r}") from None
        return {found[number].name: found[number] for number in sorted(found)}

    def deploy(self, version: str, egg: bytes) -> None:
        """Give it the *egg*, in which it looks for spiders before it answers."""
        data = {"project": PROJECT, "version": version}
        files = {"egg": ("project.egg", egg)}
        self._call("POST", "addversion.json", read_secs=_EGG_SECS, data=data, files=files)

    def schedule(
        self, job: str, spider: str, *, version: str, arguments: Iterable[str],
        settings: Iterable[str],
    ) -> None:  # fmt: skip
        """Run *spider*; *arguments* and *settings* are NAME=VALUE."""
        data = [("project", PROJECT), ("spider", spider), ("jobid", job), ("_version", version)]
        data += [("setting", setting) for setting in settings]
        data += [(name, value) for name, _, value in (one.partition("=") for one in arguments)]
        self._call("POST", "schedule.json", data=data)

    def cancel(self, job: str) -> None:
        """Take it from the queue, or send its process SIGINT: one is a clean stop."""
        self._call("POST", "cancel.json", data={"project": PROJECT, "job": job})

    def log_end(self, drone: DeployedDrone) -> LogEnd:
        """Facts from the last 16 KiB of the drone's log; none if scrapyd keeps no log."""
        size = self._log_size(drone)
        log = _BEGINNING.split(self._read_log(drone, max(0, size - _LOG_BYTES), size))[-1]
        at, progress = (_PROGRESS.findall(log) or [("", "")])[-1]
        end = (_LAST_WORDS.findall(log) or [""])[-1]
        has_saved = "Crawl state saved (" in log
        return LogEnd(at, progress[:_MOST_CHARACTERS], end[:_MOST_CHARACTERS], has_saved)

    def egg_of(self, drone: DeployedDrone) -> str:
        """The version of the egg that *drone* was started with; "" if its log does not say."""
        size = self._log_size(drone)
        for end in range(size, max(0, size - _MOST_LOG_BYTES), _LOG_BYTES - _MOST_BYTES):
            found = _EGG.findall(self._read_log(drone, max(0, end - _MOST_BYTES), end))
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
        """The bytes from *start* to *end*, as scrapyd's Twisted (26.10) fails when asked for the
        last bytes of a file that has fewer."""
        if start >= end:
            return ""
        headers = {"Range": f"bytes={start}-{end - 1}"}
        answer, body = self._fetch("GET", self._log_url(drone), headers=headers)
        return in_plain_lines(body.decode(errors="replace")) if answer.ok else ""

    def _call(self, method: str, service: str, **given: Any) -> dict[str, Any]:
        answer, body = self._fetch(method, self._url + service, **given)
        if answer.status_code == requests.codes.unauthorized:
            raise ScrapydError("refuses the user and password of the hosts file")
        try:
            found = _decode(body)
            status, message = found["status"], str(found.get("message", "without a reason"))
        except (UndecodableError, KeyError):
            raise ScrapydError(f"is no scrapyd: {service} gave {answer.status_code}") from None
        if status != "ok":
            # Of a traceback the last line says most.
            last = message.strip().rpartition("\n")[2]
            raise ScrapydError(f"refused {service}: {last[:_MOST_CHARACTERS]}")
        return found

    def _fetch(
        self, method: str, url: str, *, read_secs: float = _READ_SECS, **given: Any
    ) -> tuple[requests.Response, bytes]:
        timeout = (_CONNECT_SECS, read_secs)
        try:
            with self._session.request(
                method, url, timeout=timeout, allow_redirects=False, stream=True, **given
            ) as answer:
                return answer, answer.raw.read(_MOST_BYTES, decode_content=True)
        except requests.ConnectTimeout:
            raise ScrapydError(f"does not answer: no connection in {_CONNECT_SECS:g} s") from None
        except requests.Timeout:
            raise ScrapydError(f"does not answer: nothing came in {read_secs:g} s") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            # The system's words: those of requests name the whole URL.
            cause: BaseException = error
            while cause.__context__ is not None:
                cause = cause.__context__
            why = getattr(cause, "strerror", None) or type(cause).__name__
            raise ScrapydError(f"does not answer: {why}") from None
