"""Pages for monitoring programs: ``/metrics``, ``/live`` and ``/ready``.

Twisted's server responds in the reactor thread, which owns all state. So ``/live`` responds as long
as the event loop runs.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from webcrawl.extensions.metric_families import CrawlCollector
from webcrawl.states import CrawlState

if TYPE_CHECKING:
    from webcrawl.crawl.process import Process


class _Answer(NamedTuple):
    """Response to one request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    media_type: str = "text/plain; charset=utf-8"


class _Pages(Resource):
    """Resource that serves all pages about the crawl in *process*."""

    isLeaf = True  # noqa: N815  # the library's name

    def __init__(self, process: Process) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._process = process
        self._registry = CollectorRegistry()
        self._registry.register(CrawlCollector(process))
        ProcessCollector(registry=self._registry)

    def render_GET(self, request: Request) -> bytes:  # noqa: N802  # the library's name
        """Return the body of the answer, and set its status and content type in *request*."""
        match request.path:
            case b"/metrics":
                encode, media_type = choose_encoder(request.getHeader("accept") or "")
                answer = _Answer(encode(self._registry), media_type=media_type)
            case b"/live":
                answer = _Answer(b"live\n")
            case b"/ready":
                answer = self._answer_ready()
            case _:
                answer = _Answer(b"/metrics /live /ready\n", HTTPStatus.NOT_FOUND)
        request.setResponseCode(answer.status)
        request.responseHeaders.setRawHeaders("content-type", [answer.media_type])
        return answer.body

    def _answer_ready(self) -> _Answer:
        """Return the response to ``/ready``: an error while the crawl is paused or stopping."""
        state = self._process.health.state()
        if state.name in {CrawlState.PAUSED, CrawlState.STOPPING}:
            return _Answer(f"{state.in_words()}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)
        doctor = self._process.health.doctor
        return _Answer(f"{doctor.diagnosis() if doctor else state.in_words()}\n".encode())


def site_of(process: Process) -> Site:
    """Return a Twisted Site with the pages about the crawl in *process*."""
    site = Site(_Pages(process))  # type: ignore[no-untyped-call]
    site.noisy = False
    return site
