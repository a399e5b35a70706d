"""The event loop of a crawl, and Redis servers that stop after the test."""

import asyncio
import contextlib

import pytest
from loopback import run_on_uvloop
from redis_server import RedisServer


@pytest.fixture(autouse=True)
def loop_of_a_crawl(request, monkeypatch):
    if request.path.parent.name != "launch":  # the launcher is not a crawl
        monkeypatch.setattr(asyncio, "run", run_on_uvloop)


@pytest.fixture
def redis_of(tmp_path):
    """Return a function that starts a Redis server."""
    with contextlib.ExitStack() as stack:

        def start(name="redis", **options):
            return stack.enter_context(RedisServer(tmp_path / name, **options))

        yield start


@pytest.fixture
def server(redis_of):
    return redis_of()
