"""The rig of the way to Redis that can be cut."""

from __future__ import annotations

import threading
import time

import pytest
import redis
from redis_proxy import Cut, RedisProxy
from redis_server import RedisServer


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path / "r") as server:
        yield server


@pytest.fixture
def proxy(server):
    with RedisProxy(server.socket) as proxy:
        yield proxy


def client_of(proxy):
    return redis.Redis.from_url(proxy.url, socket_timeout=1, retry=None)


def test_what_is_said_arrives(proxy):
    with client_of(proxy) as client:
        client.set("key", "value" * 100_000)
        assert client.get("key") == b"value" * 100_000


def test_through_a_black_hole_nothing_is_answered_until_it_is_mended(proxy):
    with client_of(proxy) as client, client_of(proxy) as new:
        assert client.ping()
        proxy.cut(Cut.BLACK_HOLE)
        for one in (client, new):
            with pytest.raises(redis.TimeoutError):
                one.ping()
        proxy.mend()
        assert client.ping()
        assert new.ping()


def test_what_was_on_the_way_into_a_black_hole_arrives_late(server, proxy):
    with client_of(proxy) as client, server.client() as direct:
        client.ping()
        proxy.cut(Cut.BLACK_HOLE)
        with pytest.raises(redis.TimeoutError):
            client.set("late", 1)  # and hangs up
        time.sleep(0.1)
        assert direct.get("late") is None
        proxy.mend()
        deadline = time.monotonic() + 10
        while direct.get("late") is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_what_is_refused_is_reset_at_once_and_its_port_comes_back(proxy):
    with client_of(proxy) as client:
        client.ping()
        proxy.cut(Cut.REFUSED)
        for _ in range(2):
            with pytest.raises(redis.ConnectionError):
                client.ping()
        proxy.mend()
        assert client.ping()


def test_who_waits_for_an_answer_is_reset_too(proxy):
    with redis.Redis.from_url(proxy.url, retry=None) as client:
        client.ping()
        cut = threading.Timer(0.2, lambda: proxy.cut(Cut.REFUSED))
        cut.start()
        with pytest.raises(redis.ConnectionError):
            client.blpop("nothing", timeout=20)
        cut.join()


def test_a_redis_that_is_gone_hangs_up_and_its_successor_answers(server, proxy):
    with client_of(proxy) as client:
        client.ping()
        server.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.start()
        assert client.ping()
