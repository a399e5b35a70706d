"""The rig of Redis servers: what the tests of the hive take for granted of it."""

from __future__ import annotations

import threading

import pytest
import redis.sentinel
from redis_server import ONCE, RedisServer, Sentinel


def test_a_server_keeps_its_data_over_kill_if_it_is_append_only(tmp_path):
    with RedisServer(tmp_path / "redis", appendonly=True) as server, server.client() as client:
        client.set("a", 1)
        server.restart()
        assert client.get("a") == "1"
        server.restart(empty=True)
        assert client.get("a") is None


def test_a_server_has_a_socket_and_a_port_and_asks_for_its_password(tmp_path):
    with RedisServer(tmp_path / "redis", port=True, password="geheim") as server:
        for url in (server.url, server.tcp_url):
            with redis.Redis.from_url(url) as client:
                assert client.ping()
        with (
            redis.Redis(port=server.port, retry=ONCE) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()


def test_a_server_of_a_cluster_has_all_slots(tmp_path):
    with RedisServer(tmp_path / "redis", cluster=True) as server:
        with redis.RedisCluster(host="127.0.0.1", port=server.port) as client:
            assert client.set("a", 1)
            assert client.set("b", 1)
        server.restart()


def test_a_server_speaks_tls(tmp_path):
    with RedisServer(tmp_path / "redis", tls=True) as server:
        url = f"rediss://127.0.0.1:{server.tls.port}"
        with redis.Redis.from_url(url, ssl_ca_certs=str(server.tls.authority)) as client:
            assert client.ping()
        with (
            redis.Redis.from_url(url, retry=ONCE) as stranger,
            pytest.raises(redis.ConnectionError),
        ):
            stranger.ping()


def test_a_paused_server_answers_when_it_goes_on(tmp_path):
    with RedisServer(tmp_path / "redis") as server, server.client() as client:
        server.pause()
        answered = threading.Event()
        thread = threading.Thread(target=lambda: client.ping() and answered.set())
        thread.start()
        assert not answered.wait(0.2)
        server.resume()
        assert answered.wait(10)
        thread.join()


def test_a_sentinel_makes_the_replica_the_server_when_that_dies(tmp_path):
    with (
        RedisServer(tmp_path / "one", port=True) as server,
        RedisServer(tmp_path / "two", replica_of=server) as replica,
        Sentinel(tmp_path / "watch", server) as sentinel,
    ):
        watched = redis.sentinel.Sentinel([("127.0.0.1", sentinel.port)])
        assert watched.discover_master("hive") == ("127.0.0.1", server.port)
        sentinel.wait_for_replicas(1)
        server.kill()
        sentinel.wait_for_master(replica)
        watched.sentinels[0].close()
