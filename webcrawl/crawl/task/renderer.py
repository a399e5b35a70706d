"""What the crawl needs of a renderer, the add-on that RENDER_BUILDER names (render/builder.py)."""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from scrapy.http import Response
from scrapy.settings import BaseSettings

from webcrawl.configuration.values import choice, number, share, whole_number
from webcrawl.frontier import Entry
from webcrawl.frontier.admission import Gate
from webcrawl.items import Page

_MODES = ("0", "auto", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderSettings:
    """The settings RENDER (``mode``) and RENDER_*."""

    mode: str
    engine: str
    wait_secs: float
    share: float
    processes: int

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read and check the settings. Raises FatalError."""
        mode = choice(settings, "RENDER", _MODES, default="0")
        engine = str(settings["RENDER_ENGINE"])
        processes = whole_number(settings, "RENDER_PROCESSES", at_least=0)
        return cls(
            mode=mode,
            engine="" if engine == "chromium" else engine,
            wait_secs=number(settings, "RENDER_WAIT_SECS", at_least=0),
            share=share(settings, "RENDER_SHARE"),
            processes=processes or max(1, (os.cpu_count() or 1) // 2),
        )


class StoredPage(Protocol):
    """A page after its last pass.

    exchange: what ``exchange_of`` returned for its response.
    html: its text as rendered; None if that failed.
    passes: the number of its passes.
    refusals: URLs that its last pass did not get, with the reasons.
    """

    @property
    def exchange(self) -> bytes: ...  # see above, as the others
    @property
    def html(self) -> str | None: ...
    @property
    def passes(self) -> int: ...
    @property
    def refusals(self) -> list[tuple[str, str]]: ...


class SubresourceStore(Protocol):
    """Store of what pages need."""

    def pending_request(self, number: int) -> Any:
        """Return the request *number*, with its ``url``, if it is to be sent; None otherwise."""

    def head_of(self, number: int) -> tuple[str, dict[str, str], str]:
        """Return method, header fields and audience of the request *number*."""

    def place_of(self, page: str) -> str:
        """Return from which place *page* came (net/guard.py); "" if it is not there."""


class Renderer(Protocol):
    """Pages that wait to be rendered. Methods that write raise OSError when the disk is full."""

    @property
    def store(self) -> SubresourceStore:
        """The store of what pages need."""

    def open(self, *, forgets: bool, take_up: Callable[[str, int], bool]) -> str:
        """Open the store and start an engine; return a warning for the user, or "". Blocks."""

    def resume(self, shards: Container[int] | None = None) -> None:
        """Request what pages wait for again: all of it, or what *shards* have, which have moved."""

    def ask_again(self, page_url: str) -> None:
        """Ask other processes again for what *page_url* waits for, because an answer was lost."""

    def forget_shard(self, number: int) -> None:
        """Delete the pages of shard *number*, which has left this process."""

    def receive(self, content: bytes) -> None:
        """Process the *content* of a message from another process (render/remote.py)."""

    def close(self) -> None:
        """End the engines and close the store."""

    def work(self) -> None:
        """Do a slice of background work."""

    def gate(self) -> Gate:
        """Return a gate for a shard, which holds the URLs of pages that wait."""

    def may_pass(self, gate: str, entry: Entry) -> bool:
        """Return whether *entry* passes the gate with this name, as its page was fetched."""

    def rendered_page(self, entry: Entry) -> StoredPage | None:
        """Return the page of *entry* if its last pass is over; None otherwise."""

    def forget(self, entry: Entry) -> None:
        """Delete the page of *entry*, which is finished, if it is there."""

    def answer_of(self, response: Response) -> Any:
        """Return the answer in *response*."""

    def end_subresource(
        self, number: int, page_url: str, outcome: str, answer: Any, *, was_sent: bool = False
    ) -> None:
        """Store the *answer* to the request *number*, or *outcome* as why there is none."""

    def on_end(self, number: int, page_url: str) -> object:
        """Forget the entry for the domain of *page_url*, which is over without an answer."""


class PageChoice(Protocol):
    """Chooses the pages that are rendered before they are processed."""

    def keep(self, page: Page, entry: Entry, exchange: Callable[[], bytes], place: str) -> str:
        """Store what *exchange* returns if *page* is to be rendered.

        Returns the name of the gate that then holds its *entry*, "" if it is not rendered. *place*
        is where it came from (net/guard.py). Raises OSError when the disk is full.
        """


class Rendering(NamedTuple):
    """The parts of a renderer that a process uses."""

    renderer: Renderer
    choice: PageChoice
