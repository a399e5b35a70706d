"""A crawl of a web with a spam farm and endless calendars, judged from the server's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from crawling import USER_AGENT, access_log, crawl_command, is_robots, run_crawl, url_of_hit

from webcrawl.simweb import World, allowed_urls, is_endless_url, preset, start_in_process
from webcrawl.simweb.farm import DOMAINS

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Requests, robots.txt files too: until every normal host had been crawled completely, and of
    the whole crawl. *missing* are allowed URLs of normal hosts that were never asked for."""

    missing: set[str]
    normal: int
    farm_then: int
    calendar_then: int
    requests_then: int
    farm: int
    calendar: int
    requests: int
    output: str

    @property
    def share_then(self) -> float:
        """Of farm and calendars, when the normal hosts were complete."""
        return (self.farm_then + self.calendar_then) / self.requests_then

    @property
    def share(self) -> float:
        """Of farm and calendars, in the whole crawl."""
        return (self.farm + self.calendar) / self.requests


def spam_world(**changes: object) -> World:
    """Sound hosts, a few with endless URL spaces, and a farm of 3,000 that some link to."""
    values: dict[str, object] = {
        "http_port": 0,
        "https_port": 0,
        "hosts": 300,
        "mean_pages": 12.0,
        "max_pages": 60,
        "endless": 0.005,
        "farm_hosts": 3000,
        "farm_links": 0.01,
    }
    return preset("clean", **(values | changes))


def crawl_spam(
    directory: Path, *, world: World, timeout: float = 240, **settings: object
) -> Shares:
    """Crawl *world*; ``crawl_command`` says what *settings* are. Once more in the same *directory*:
    the crawl goes on, and the judge has the log of both."""
    log = directory / "access.log"
    with start_in_process(world, log_path=log) as web:
        seeds = directory / "seeds.txt"
        seeds.write_text("\n".join(web.world.seeds()) + "\n")
        command = crawl_command(web, seeds, directory / "job", **settings)
        done = run_crawl(command, timeout=timeout)
        web.stop()
        allowed = allowed_urls(web.world, USER_AGENT)
    assert done.returncode == 0, done.stdout
    return shares(log, allowed, done.stdout)


def shares(log: Path, allowed: set[str], output: str) -> Shares:
    """Judge the access log *log*."""
    missing = set(allowed)
    counts = {"normal": 0, "farm": 0, "calendar": 0}
    then = dict(counts)
    for hit in sorted(access_log(log), key=lambda hit: hit.start):
        url = url_of_hit(hit)
        if (urlsplit(url).hostname or "").endswith(DOMAINS):
            kind = "farm"
        else:
            kind = "calendar" if is_endless_url(url) else "normal"
        counts[kind] += 1
        if kind == "normal" and not is_robots(hit):
            missing.discard(url)
            then = dict(counts)
    return Shares(
        missing=missing,
        normal=len(allowed),
        farm_then=then["farm"],
        calendar_then=then["calendar"],
        requests_then=sum(then.values()),
        farm=counts["farm"],
        calendar=counts["calendar"],
        requests=sum(counts.values()),
        output=output,
    )
