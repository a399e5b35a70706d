"""A small web for the model of a shard: hosts, links, and all that can go wrong with a page.

Made of a seed number. Every page has one fate whatever the order of visits, so the URLs that a
crawl must finish are known beforehand (``reachable``).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FORBIDDEN = "/private/"


@dataclass(slots=True)
class Document:
    """What stands at a URL. *fails*: tries that fail before the one that succeeds; *status*: of
    that one; *target*: of a redirect. Documents with one *body* have the same links."""

    body: bytes = b""
    links: list[str] = field(default_factory=list)
    fails: int = 0
    status: int = 200
    target: str = ""


@dataclass(slots=True)
class Host:
    """*robots_fails*: tries of robots.txt that fail, of the *robots_tries* so far; *is_dead*: all
    do. *crawl_delay* in seconds, 0 for none."""

    name: str
    crawl_delay: int
    robots_fails: int
    is_dead: bool
    robots_tries: int = 0

    @property
    def robots(self) -> bytes:
        delay = f"Crawl-delay: {self.crawl_delay}\n" if self.crawl_delay else ""
        return f"User-agent: *\nDisallow: {FORBIDDEN}\n{delay}".encode()


class World:
    """*retry_times* is how often a crawl tries a page again; some pages fail more often."""

    def __init__(self, seed: int, *, hosts: int, pages: int, retry_times: int) -> None:
        rng = random.Random(seed)
        self.hosts = {
            name: Host(
                name,
                crawl_delay=rng.choice((0, 0, 0, 7, 40)),
                robots_fails=rng.choice((0, 0, 0, 1, 2)),
                is_dead=rng.random() < 0.1,
            )
            for name in (f"h{n}.test" for n in range(hosts))
        }
        self.urls = []
        for name in self.hosts:
            # The first hosts have far more pages than the last: their queues spill.
            for number in range(rng.randrange(1, pages + 1)):
                forbidden = FORBIDDEN if rng.random() < 0.08 else "/"
                self.urls.append(f"http://{name}{forbidden}{number}")
        self.documents: dict[str, Document] = {}
        bodies: list[Document] = []
        for url in self.urls:
            document = Document(
                fails=rng.choices((0, 1, retry_times, retry_times + 1), (80, 8, 4, 2))[0],
                status=rng.choices((200, 404, 503, 302), (85, 5, 3, 7))[0],
            )
            if document.status == 302:
                document.target = rng.choice(self.urls)
            elif bodies and rng.random() < 0.2:
                same = rng.choice(bodies)
                document.body, document.links = same.body, same.links
            else:
                document.body = f"document {len(bodies)}".encode()
                document.links = [rng.choice(self.urls) for _ in range(rng.randrange(12))]
                bodies.append(document)
            self.documents[url] = document
        self.seeds = rng.sample(self.urls, min(len(self.urls), rng.randrange(1, 12)))
        self._retry_times = retry_times

    def host_of(self, url: str) -> Host:
        return self.hosts[url.split("/")[2]]

    def is_allowed(self, url: str) -> bool:
        """Whether *url* may be fetched."""
        return FORBIDDEN not in url and not self.host_of(url).is_dead

    def links_of(self, url: str) -> list[str]:
        """Where *url* leads a crawl."""
        document = self.documents[url]
        if not self.is_allowed(url) or document.fails > self._retry_times:
            return []
        if document.status not in {200, 302}:
            return []
        return [document.target] if document.target else document.links

    def reachable(self) -> set[str]:
        """Every URL that a crawl must finish."""
        found = set(self.seeds)
        left = [*self.seeds]
        while left:
            new = [url for url in self.links_of(left.pop()) if url not in found]
            left += dict.fromkeys(new)
            found.update(new)
        return found
