"""Debian's Chromium, and what a page said and asked for in it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that has just been started."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox"],  # root has none
        )
        yield browser
        browser.close()


class Tab:
    """A page of a *browser* window of its own: *said* on the console, by dialogs and by errors, and
    *asked* are the URLs of all requests."""

    def __init__(self, browser: Browser, *, width: int = 1280, **options: Any) -> None:
        self.width = width
        self.page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message) or dialog.dismiss())
        self.page.on("request", lambda request: self.asked.append(request.url))

    @property
    def wide(self) -> int:
        """Pixels that the page is beyond its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth")) - self.width
