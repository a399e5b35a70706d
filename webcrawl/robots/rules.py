"""The rules of one robots.txt for one user agent (RFC 9309), matched by Protego.

Called by the robots cache, and by whoever has just fetched a robots.txt. A value: immutable, and
the same bytes give the same answers.

Invariant: parsing and matching raise nothing, and take time linear in the file, whatever it says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

from protego import Protego

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# RFC 9309, section 2.5: at least this much is read. More is ignored.
MAX_BYTES: Final = 500 * 1024

# Every spelling that Protego takes for a user agent line, and the name in it.
_USER_AGENT_LINE: Final = re.compile(r"\s*user(?:-|\s+)?agent(?:\s*:|\s)([^#]*)", re.IGNORECASE)
_NOBODY: Final = "nobody"
_PRODUCT: Final = re.compile(r"[A-Za-z][A-Za-z_-]*")
_COMPATIBLE: Final = re.compile(r"\(compatible;\s*([A-Za-z][A-Za-z_-]*)", re.IGNORECASE)


class Rules:
    """What one user agent may fetch from one origin.

    *failed* says that this is no robots.txt but the lack of one: the host could not say, so
    everything is disallowed until it can. *size_bytes* is that of the file as it was read.
    """

    __slots__ = ("_agent", "_everything", "_parser", "failed", "size_bytes")

    def __init__(
        self,
        *,
        parser: Protego | None,
        agent: str,
        everything: bool,
        failed: bool,
        size_bytes: int = 0,
    ) -> None:
        """For this module; *everything* answers where there is no *parser*."""
        self.size_bytes = size_bytes
        self._parser = parser
        self._agent = agent
        self._everything = everything
        self.failed = failed

    @classmethod
    def parse(cls, body: bytes, *, user_agent: str) -> Self:
        """Read robots.txt, its first 500 KiB up to a whole line, for a product token."""
        agent = user_agent.lower()
        return cls(
            parser=Protego.parse(_legible(body, agent)),
            agent=agent,
            everything=True,
            failed=False,
            size_bytes=min(len(body), MAX_BYTES),
        )

    @classmethod
    def from_outcome(cls, status: int | None, body: bytes, *, user_agent: str) -> Self:
        """Return the rules that follow from fetching robots.txt (RFC 9309, section 2.3.1).

        *status* is that of the last answer, None if there was none or a redirect too many. 2xx:
        the file. 4xx: no rules, except 429, which asks to come later. 429, 5xx, None: the host
        could not say, so nothing is allowed; `failed` is set. Any other status is no file.
        """
        if status is not None and 200 <= status <= 299:
            return cls.parse(body, user_agent=user_agent)
        failed = status is None or status == 429 or 500 <= status <= 599
        return cls(parser=None, agent=user_agent.lower(), everything=not failed, failed=failed)

    def allowed(self, url: str) -> bool:
        """Say whether *url*, of the origin of this file, may be fetched."""
        if self._parser is None:
            return self._everything
        try:
            return bool(self._parser.can_fetch(url, self._agent))
        except ValueError:  # not a URL, so nothing that could be fetched
            return False

    @property
    def crawl_delay(self) -> float | None:
        """The seconds that the file wants between two requests, None if it does not say."""
        return None if self._parser is None else self._parser.crawl_delay(self._agent)

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The sitemaps that the file names, as they stand there."""
        return () if self._parser is None else tuple(self._parser.sitemaps)


def user_agent_token(settings: BaseSettings) -> str:
    """Return the product token by which robots.txt files know this crawler.

    ROBOTSTXT_USER_AGENT if set, as in Scrapy; else the token in USER_AGENT: its first product,
    or the one that calls itself compatible: "webcrawl" of "webcrawl/1.0 (+https://...)" and of
    "Mozilla/5.0 (compatible; webcrawl/1.0; ...)". Raises FatalError if there is none, for then
    no host could address this crawler.
    """
    text = settings.get("ROBOTSTXT_USER_AGENT") or settings.get("USER_AGENT") or ""
    found = _COMPATIBLE.search(text)
    if found is not None:
        return found[1]
    found = _PRODUCT.match(text.strip())
    if found is None:
        raise FatalError(f"USER_AGENT must begin with a product name, {text!r} does not.")
    return found[0]


def _legible(body: bytes, agent: str) -> str:
    """Return the text of *body* with at most three user agents: *agent*, the star, and nobody.

    Protego copies each rule for each user agent of its group: a file with thousands of both
    would take minutes and gigabytes. It also takes "web" for the start of "webcrawl", where RFC
    9309 compares whole product tokens.
    """
    if len(body) > MAX_BYTES:
        end = max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES))
        body = body[: end + 1]
    lines = body.decode("utf-8-sig", "ignore").splitlines()
    for n, line in enumerate(lines):
        found = _USER_AGENT_LINE.match(line)
        if found is None:
            continue
        name = found[1].strip().replace("*", "").lower()
        if name:
            product = _PRODUCT.match(name)
            ours = product is not None and product[0] == agent
            lines[n] = f"User-agent: {agent if ours else _NOBODY}"
        elif "*" in found[1]:
            lines[n] = "User-agent: *"
    return "\n".join(lines)
