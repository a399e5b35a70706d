"""Clients of Redis by REDIS_URL: each kind of server, and what is said of one that is not there."""

import asyncio

import pytest
from patience import LIMIT_SECS, SLOWNESS
from redis.asyncio import Redis
from redis_server import Cluster, Sentinel, by_tls, free_port
from scrapy.settings import Settings
from text_tables import cases

from webcrawl.errors import FatalError, UnreachableError
from webcrawl.hive.membership.asking import HERE, hive_name
from webcrawl.hive.membership.connection import (
    UNREACHABLE,
    check,
    check_for_leases,
    client_of,
    close,
    fatal_error_of,
)


async def talked(**given):
    """What a client by these settings, once checked, gets back of what it sets."""
    client = client_of(Settings(given))
    try:
        await check(client)
        await client.set("a", b"\xff")
        return await client.get("a")
    finally:
        await close(client)


async def test_a_server_on_a_port_with_a_password(redis_of):
    server = redis_of(port=True, password="ge/heim")
    assert await talked(REDIS_URL=f"redis://:ge%2Fheim@127.0.0.1:{server.port}/3") == b"\xff"
    with server.client() as client:
        assert {*client.info("keyspace")} == {"db3"}
    url = f"redis://:wrong@127.0.0.1:{server.port}"
    with pytest.raises(FatalError, match="Redis refuses the user or password in REDIS_URL or "):
        await talked(REDIS_URL=url)
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "left", "off", ">geheim")
    with pytest.raises(FatalError, match=r"[^.]\.$"):
        await talked(REDIS_URL=url.replace(":wrong", "left:geheim"))


async def test_the_settings_of_scrapy_redis(redis_of):
    """Those that are for its blocking client, which decodes all answers, are not used."""
    params = {"password": "geheim", "retry_on_timeout": True, "decode_responses": True}
    server = redis_of(port=True, password="geheim")
    given = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(server.port), "REDIS_DB": 1}
    assert await talked(**given, REDIS_PARAMS=params) == b"\xff"


async def test_a_hive_connects_to_a_redis_cluster(redis_of):
    server = redis_of(cluster=True, password="geheim")
    missing = f"127.0.0.1:{free_port()}"
    for url in (server.url, server.url.replace("@", f"@{missing},")):
        assert await talked(REDIS_URL=url) == b"\xff"


async def test_a_hive_connects_to_redis_by_tls_and_checks_its_certificate(redis_of):
    async with by_tls(redis_of()) as named:
        assert await talked(REDIS_URL=named) == b"\xff"
        url, _, authority = named.partition("?ssl_ca_certs=")
        assert await talked(REDIS_URL=url, REDIS_PARAMS={"ssl_ca_certs": authority}) == b"\xff"
        with pytest.raises(FatalError, match=r"does not answer .*certificate verify failed"):
            await talked(REDIS_URL=url)


async def test_a_sentinel_leads_to_the_next_master(redis_of):
    one = redis_of("one", port=True, password="geheim")
    two = redis_of("two", replica_of=one, password="geheim")
    sentinel = redis_of("watch", kind=Sentinel, server=one)
    url = sentinel.url.replace("//", f"//:geheim@127.0.0.1:{free_port()},")
    client = client_of(Settings({"REDIS_URL": url}))
    await check(client)
    await client.set("a", 1)
    assert await client.wait(1, 10_000) == 1  # the replica has it
    sentinel.wait_for_replicas(1)
    one.kill()
    with pytest.raises(UNREACHABLE):
        await client.get("a")
    sentinel.wait_for_master(two)
    assert await client.get("a") == b"1"
    await close(client)


async def test_a_call_fails_at_once_while_redis_is_down_and_works_again(redis_of):
    server = redis_of(port=True, appendonly=True)
    for url in (server.url, server.tcp_url):
        client = client_of(
            Settings({"REDIS_URL": url, "REDIS_PARAMS": {"socket_timeout": 0.5 * SLOWNESS}})
        )
        await client.set("a", 1)
        server.pause()
        with pytest.raises(UNREACHABLE):
            await client.get("a")
        server.resume()
        assert await client.get("a") == b"1"
        server.kill()
        with pytest.raises(UNREACHABLE):
            await client.get("a")
        server.start()
        assert await client.get("a") == b"1"
        await close(client)


async def test_a_client_of_a_cluster_that_was_down_works_again(redis_of):
    server = redis_of(cluster=True, appendonly=True)
    client = client_of(Settings({"REDIS_URL": server.url}))
    await client.set("a", 1)
    server.kill()
    for _ in range(2):
        with pytest.raises(UNREACHABLE):
            await client.get("a")
    server.start()
    assert await client.get("a") == b"1"
    await close(client)


async def test_the_address_of_a_hives_own_redis_stays_out_of_its_settings(server):
    """The monitor gets the same settings, sooner or later, and names the hive by them."""
    settings = Settings()
    client = client_of(settings, server.url)
    assert await client.ping()
    await close(client)
    assert hive_name(settings) == HERE


async def checked_for_leases(url):
    client = client_of(Settings({"REDIS_URL": url}))
    try:
        await check_for_leases(client)
    finally:
        await close(client)


@pytest.mark.cures("when its memory is full: set maxmemory-policy noeviction.")
async def test_a_redis_that_drops_keys_when_it_is_full_is_one_sentence(server):
    with server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        await checked_for_leases(server.url)  # it is never full
        client.config_set("maxmemory", "100mb")
        with pytest.raises(
            FatalError, match=r"has maxmemory-policy allkeys-lru, .*: set maxmemory-policy n"
        ):
            await checked_for_leases(server.url)
        client.config_set("maxmemory-policy", "noeviction")
        await checked_for_leases(server.url)


async def test_a_cluster_of_which_one_master_drops_keys_when_it_is_full_is_one_sentence(redis_of):
    cluster = redis_of(kind=Cluster, hive="web")
    await checked_for_leases(cluster.url)
    with cluster.master.client() as client:  # the URL names another one
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", "100mb")
    with pytest.raises(FatalError, match="has maxmemory-policy allkeys-lru"):
        await checked_for_leases(cluster.url)


@pytest.mark.cures("set REDIS_URL to redis+cluster://HOST:PORT.")
async def test_a_url_of_one_server_that_names_a_node_of_a_cluster_is_one_sentence(redis_of):
    """Even if that has all keys: another node may take its place."""
    node = redis_of(cluster=True)
    url = f"redis://127.0.0.1:{node.port}/0"
    with pytest.raises(FatalError, match=r"of a Redis Cluster: set REDIS_URL to redis\+cluster://"):
        await talked(REDIS_URL=url)
    assert (
        await talked(REDIS_URL=url.replace("redis:", "redis+cluster:").removesuffix("/0"))
        == b"\xff"
    )


async def test_a_redis_that_does_not_answer_ends_with_one_sentence():
    for scheme in ("redis", "redis+cluster"):
        with pytest.raises(FatalError, match=r"Redis at REDIS_URL does not answer .*: start it"):
            await talked(REDIS_URL=f"{scheme}://127.0.0.1:{free_port()}")


async def test_what_sentinels_say_is_a_sentence():
    """redis-py describes each of them in 700 characters."""
    url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{free_port()}/web/0"
    expected = "Redis at REDIS_URL does not answer (No master found for 'web')"
    with pytest.raises(UnreachableError) as caught:
        await talked(REDIS_URL=url)
    assert str(caught.value) == f"{expected}: start it, or correct the URL."


@cases(
    "given",
    """
        {"REDIS_URL": "http://somewhere"}
        {"REDIS_URL": "redis+other://somewhere"}
        {"REDIS_URL": "redis+sentinel://somewhere"}
        {"REDIS_URL": "redis+cluster://somewhere:port"}
        {"REDIS_URL": "redis+cluster://"}
        {"REDIS_PARAMS": "{"}
        {"REDIS_URL": "redis://somewhere?db=x"}
    """,
)
def test_a_url_that_cannot_be_is_one_sentence(given):
    with pytest.raises(FatalError, match="REDIS_URL or REDIS_PARAMS cannot be used: "):
        client_of(Settings(given))


async def test_an_unknown_parameter_is_one_sentence():
    with pytest.raises(FatalError, match="unexpected keyword argument 'sokket_timeout'"):
        await talked(REDIS_PARAMS={"sokket_timeout": 1})


def test_without_a_url_it_is_the_local_server():
    assert isinstance(client_of(Settings()), Redis)


@pytest.mark.cures("The Redis at REDIS_URL refuses writes without its replicas: start them.")
async def test_a_master_that_refuses_to_write_without_replicas_is_named(redis_of):
    server = redis_of("one", port=True, more=("--min-replicas-to-write", "1"))
    client = client_of(Settings({"REDIS_URL": server.url}))
    with pytest.raises(UNREACHABLE) as caught:
        await client.set("a", 1)
    error = fatal_error_of(caught.value)
    assert isinstance(error, UnreachableError)
    assert str(error) == "The Redis at REDIS_URL refuses writes without its replicas: start them."
    replica = redis_of("two", replica_of=server)
    replica.wait_for(lambda other: other.info()["master_link_status"] == "up")
    assert await client.set("a", 1)
    await close(client)


async def test_a_drone_refused_for_lack_of_replicas_asks_the_sentinels_again(redis_of):
    demands = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")
    one = redis_of("one", port=True, more=demands)
    two = redis_of("two", replica_of=one)
    three = redis_of("three", port=True)
    sentinel = redis_of("watch", kind=Sentinel, server=one)
    client = client_of(Settings({"REDIS_URL": sentinel.url}))
    sentinel.wait_for_replicas(1)
    await client.set("a", 1)
    two.kill()
    async with asyncio.timeout(LIMIT_SECS):
        with pytest.raises(UNREACHABLE, match="NOREPLICAS"):  # noqa: PT012  # it takes a second
            while True:
                await client.set("a", 2)
                await asyncio.sleep(0.05)
    sentinel.watch(three)
    await client.set("a", 3)
    with three.client() as other:
        assert other.get("a") == "3"
    await close(client)
