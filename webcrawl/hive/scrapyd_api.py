"""One machine's scrapyd, asked by its HTTP interface: jobs, eggs, logs.

All calls block for as long as the machine lets them, up to the time-out of each read; who must not
wait calls from a thread (hive/scrapyd_hosts.py). Redirects are not followed: they would carry the
password elsewhere. No error has a password in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import unquote, urljoin, urlsplit

import msgspec
import requests
import urllib3

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: As in scrapy.cfg: by this name scrapyd knows the crawler.
PROJECT: Final = "webcrawl"
# Seconds to connect, and between two reads. A new egg is loaded while scrapyd answers for it.
_CONNECT_SECS: Final = 5.0
_READ_SECS: Final = 20.0
_EGG_SECS: Final = 120.0
_MOST_BYTES: Final = 4 << 20
_LOG_BYTES: Final = 16 << 10
_MOST_CHARACTERS: Final = 300


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
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        port = parts.port or (443 if parts.scheme == "https" else 6800)
        path = parts.path.rstrip("/")
        return cls(
            url=f"{parts.scheme}://{host}:{port}{path}/",
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )

    @property
    def name(self) -> str:
        """Host and port, by which people know it."""
        return self.url.partition("://")[2].rstrip("/")


class Job(msgspec.Struct, frozen=True):
    """A run of a spider, as scrapyd lists it; times as it writes them."""

    id: str
    project: str = ""
    start_time: str = ""
    end_time: str = ""
    log_url: str | None = None


class Jobs(msgspec.Struct):
    """Jobs that a scrapyd lists, by state."""

    pending: list[Job] = []
    running: list[Job] = []
    finished: list[Job] = []


class _Answer(Jobs):
    """Any answer of a scrapyd."""

    status: str = ""
    message: str = ""


# Made here, by one thread: msgspec (0.22) crashes when two threads at once are the first to decode
# a Struct.
_decode: Final = msgspec.json.Decoder(_Answer).decode


class _Fetched(NamedTuple):
    """Status, Content-Length and body of an answer."""

    code: int
    length: int
    body: bytes


class Scrapyd:
    """The scrapyd of *machine*. Its methods raise ScrapydError."""

    def __init__(self, machine: Machine) -> None:
        self._url = machine.url
        self._session = requests.Session()
        if machine.user:
            self._session.auth = (machine.user, machine.password)

    def jobs(self) -> Jobs:
        """The crawler's jobs."""
        # Named, a project that is not there yet would be an error.
        answer = self._call("GET", "listjobs.json")
        jobs = (
            [job for job in listed if job.project in {"", PROJECT}]
            for listed in (answer.pending, answer.running, answer.finished)
        )
        return Jobs(*jobs)

    def deploy(self, version: str, egg: bytes) -> None:
        """Give it the *egg*, in which it looks for spiders before it answers."""
        data = {"project": PROJECT, "version": version}
        files = {"egg": ("project.egg", egg)}
        self._call("POST", "addversion.json", data=data, files=files, read_secs=_EGG_SECS)

    def schedule(
        self, job: str, spider: str, *, version: str, arguments: Iterable[str],
        settings: Iterable[str],
    ) -> None:  # fmt: skip
        """Run *spider*; *arguments* and *settings* are NAME=VALUE."""
        data = [("project", PROJECT), ("spider", spider), ("jobid", job), ("_version", version)]
        data += [("setting", setting) for setting in settings]
        for argument in arguments:
            name, _, value = argument.partition("=")
            data.append((name, value))
        self._call("POST", "schedule.json", data=data)

    def cancel(self, job: str) -> None:
        """Take it from the queue, or send its process SIGINT: one is a clean stop."""
        self._call("POST", "cancel.json", data={"project": PROJECT, "job": job})

    def log_end(self, job: Job) -> str:
        """The last 16 KiB of the job's log; empty if scrapyd keeps none."""
        if not job.log_url:
            return ""
        url = urljoin(self._url, job.log_url.lstrip("/"))
        if not url.startswith(self._url):
            return ""  # a log of another server's
        # Twisted (26.10) fails when asked for the last bytes of a file that has fewer.
        size = self._fetch("HEAD", url).length
        headers = {"Range": f"bytes={max(0, size - _LOG_BYTES)}-"}
        answer = self._fetch("GET", url, headers=headers)
        good = {requests.codes.ok, requests.codes.partial_content}
        return answer.body[-_LOG_BYTES:].decode(errors="replace") if answer.code in good else ""

    def _call(
        self,
        method: str,
        service: str,
        *,
        data: dict[str, str] | list[tuple[str, str]] | None = None,
        files: dict[str, tuple[str, bytes]] | None = None,
        read_secs: float = _READ_SECS,
    ) -> _Answer:
        code, _, body = self._fetch(
            method, self._url + service, data=data, files=files, read_secs=read_secs
        )
        if code == requests.codes.unauthorized:
            raise ScrapydError("refuses the user and password of the hosts file")
        try:
            answer = _decode(body)
        except ValueError:
            raise ScrapydError(f"is no scrapyd: {service} gave status {code}") from None
        if answer.status != "ok":
            # Of a traceback the last line says most.
            last = (answer.message.strip().splitlines() or ["without a reason"])[-1]
            raise ScrapydError(f"refused {service}: {last[:_MOST_CHARACTERS]}")
        return answer

    def _fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: dict[str, str] | list[tuple[str, str]] | None = None,
        files: dict[str, tuple[str, bytes]] | None = None,
        read_secs: float = _READ_SECS,
    ) -> _Fetched:
        try:
            with self._session.request(
                method,
                url,
                headers=headers,
                data=data,
                files=files,
                timeout=(_CONNECT_SECS, read_secs),
                allow_redirects=False,
                stream=True,
            ) as answer:
                body = answer.raw.read(_MOST_BYTES, decode_content=True)
                length = int(answer.headers.get("Content-Length") or 0)
                return _Fetched(answer.status_code, length, body)
        except requests.ConnectTimeout:
            raise ScrapydError(f"does not answer: no connection in {_CONNECT_SECS:g} s") from None
        except requests.Timeout:
            raise ScrapydError(f"does not answer: nothing came in {read_secs:g} s") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ScrapydError(f"does not answer: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    """The system's words for *error*: those of requests name the whole URL."""
    found = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            found = cause.strerror
        cause = cause.__cause__ or cause.__context__
    return found


_BEGINNING: Final = re.compile(r"^\d{4}-.+ \[scrapy\.utils\.log\] INFO: Scrapy .+$", re.MULTILINE)
_PROGRESS: Final = re.compile(
    r"^(\d{4}-\S+ \S+) \[webcrawl\] INFO: (\d+:\d\d:\d\d .+)$", re.MULTILINE
)
_LAST_WORDS: Final = re.compile(
    r"^(?: {7}end  |\d{4}-\S+ \S+ \[[^]]+\] (?:ERROR|CRITICAL): )(.+)$", re.MULTILINE
)


class LogEnd(NamedTuple):
    """What the end of a log says of the last crawl in it; what it does not say is empty."""

    #: Of the last progress line.
    at: str
    progress: str
    #: How it ended: the summary's line, or the last error.
    end: str
    has_saved: bool

    @classmethod
    def of(cls, log: str) -> Self:
        log = _BEGINNING.split(log)[-1]
        at, progress = (_PROGRESS.findall(log) or [("", "")])[-1]
        return cls(
            at=at,
            progress=progress[:_MOST_CHARACTERS],
            end=(_LAST_WORDS.findall(log) or [""])[-1][:_MOST_CHARACTERS],
            has_saved="Crawl state saved (" in log,
        )
