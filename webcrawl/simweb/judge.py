"""The judge of a crawl: its politeness and completeness by the access log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.simweb.accesslog import AnswerEnd
from webcrawl.simweb.robots import MOVED_PATH, PATH, SITEMAP_PATH
from webcrawl.simweb.truth import allowed_urls, is_endless_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webcrawl.simweb.accesslog import Hit
    from webcrawl.simweb.world import World


class Pause(NamedTuple):
    """The time between two requests to a host, in seconds; negative for overlaps."""

    host: str
    before: Hit
    after: Hit
    secs: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """A crawl compared with the truth. A perfect crawl has three empty fields."""

    missing: frozenset[str]  # allowed, but never asked for
    forbidden: frozenset[str]  # asked for, but not allowed (or not to be found by links)
    repeated: dict[str, int]  # asked for again after a final answer: how many of these there were
    fetched: int  # different allowed URLs asked for
    endless: int  # requests in endless URL spaces


def pauses(hits: Iterable[Hit]) -> list[Pause]:
    """Each host's pauses, from the end of an answer to the start of the next request.

    robots.txt and redirects count. Compare `secs` with the delay that was due after `before`.
    """
    last: dict[str, Hit] = {}
    found = []
    for hit in sorted(hits, key=lambda hit: hit.start):
        before = last.get(hit.host)
        if before is not None:
            found.append(Pause(hit.host, before, hit, hit.start - before.end))
        if before is None or hit.end > before.end:
            last[hit.host] = hit
    return found


def overlaps(hits: Iterable[Hit]) -> list[Pause]:
    """Pairs of requests to one host at once. Empty for a polite crawler."""
    return [pause for pause in pauses(hits) if pause.secs < 0]


def judge(world: World, hits: Iterable[Hit], user_agent: str) -> Verdict:
    """Compare the URLs in *hits* with `allowed_urls`; *world* with the ports it was served on.

    Requests for robots.txt and the sitemap that it names are left out. An answer is final if it
    came whole and is neither 429 nor 5xx: a request after one of those is a retry, no repetition.
    """
    asked: set[str] = set()
    answered: Counter[str] = Counter()
    endless = 0
    for hit in hits:
        if hit.target in {PATH, MOVED_PATH, SITEMAP_PATH}:
            continue
        if is_endless_url(hit.url):
            endless += 1
        else:
            asked.add(hit.url)
            answered[hit.url] += (
                hit.outcome is AnswerEnd.OK and hit.status != 429 and hit.status < 500
            )
    allowed = allowed_urls(world, user_agent)
    return Verdict(
        missing=frozenset(allowed - asked),
        forbidden=frozenset(asked - allowed),
        repeated={url: count for url, count in answered.items() if count > 1},
        fetched=len(allowed & asked),
        endless=endless,
    )
