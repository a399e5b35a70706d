"""Redis servers, which end with the test."""

import contextlib

import pytest
from redis_server import RedisServer


@pytest.fixture
def redis_of(tmp_path):
    """Starts a server with options, or a Sentinel of one."""
    with contextlib.ExitStack() as stack:

        def start(name="redis", *, kind=RedisServer, **options):
            return stack.enter_context(kind(tmp_path / name, **options))

        yield start


@pytest.fixture
def server(redis_of):
    return redis_of()
