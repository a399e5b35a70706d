"""Crawls that wait for news from hubs, and the site with the feed."""

import json
import socket
import time
from contextlib import contextmanager
from datetime import UTC, datetime

from crawling import crawl_of_urls, kill, start_crawl, stats_of
from http_site import HttpSite, serving
from redis_server import free_port


class Blog:
    """A site with a feed that names *hubs*; *entries* are the paths of its pages, and when they
    have changed."""

    def __init__(self, *hubs):
        self.hubs = hubs
        self.entries = {"/one": 0.0, "/two": 0.0}
        self.asked = []

    @property
    def topic(self):
        return f"{self.url}/feed"

    def feed(self):
        links = "".join(f'<link rel="hub" href="{hub}"/>' for hub in self.hubs)
        entries = "".join(
            f"<entry><link href='{path}'/><updated>"
            f"{datetime.fromtimestamp(at, UTC).isoformat()}</updated></entry>"
            for path, at in self.entries.items()
        )
        own = f'<link rel="self" href="{self.topic}"/>'
        return f"<feed xmlns='http://www.w3.org/2005/Atom'>{links}{own}{entries}</feed>".encode()

    def answer(self, request):
        if request.path == "/feed":
            return 200, {"Content-Type": "application/atom+xml"}, self.feed()
        if request.path in self.entries:
            return 200, {}, f"<p>{request.path} {self.entries[request.path]}".encode()
        return 404, {}, b"none"


@contextmanager
def site_of(blog, address="127.0.0.1"):
    with serving(HttpSite(blog.answer, address)) as site:
        blog.url, blog.asked = f"http://{address}:{site.server_port}", site.asked
        yield blog


class Subscriber:
    """A crawl of the feed of *blog* that waits for news, in *directory*."""

    def __init__(self, directory, blog):
        self.port = free_port()
        self.job = directory / "job"
        self.url = f"http://127.0.0.1:{self.port}/news"
        self.command = crawl_of_urls(
            directory,
            blog.topic,
            KEEP_OPEN=1,
            CONTROL_ENABLED=1,
            REVISIT=1,
            REVISIT_FIRST_SECS="60d",
            STATS_FILE_INTERVAL_SECS=0.2,
            WEBSUB_PORT=self.port,
            WEBSUB_URL=self.url,
        )
        self.crawl = start_crawl(self.command)

    @property
    def subscriptions(self):
        """What the job knows, when it does."""
        path = self.job / "websub.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def has_lease(self):
        return any(one["lease_end"] > time.time() for one in self.subscriptions)

    def listens(self):
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def stat(self, name):
        try:
            return stats_of(self.job).get(name, 0)
        except (FileNotFoundError, ValueError):
            return 0

    def end(self):
        if self.crawl.poll() is None:
            kill(self.crawl)
        self.crawl.stderr.close()


@contextmanager
def subscriber_of(directory, blog):
    subscriber = Subscriber(directory, blog)
    try:
        yield subscriber
    finally:
        subscriber.end()
