"""Clients of Redis by REDIS_URL, and what is said of a server that cannot be used."""

import pytest
from patience import SLOWNESS
from redis.asyncio import Redis
from redis_server import by_tls, free_port
from scrapy.settings import Settings
from text_tables import cases, each

from webcrawl.errors import FatalError, UnreachableError
from webcrawl.hive.membership.asking import HERE, hive_name
from webcrawl.hive.membership.connection import (
    UNREACHABLE,
    check,
    check_for_leases,
    client_of,
)


async def talked(**given):
    """What a client by these settings, once checked, gets back of what it sets."""
    client = client_of(Settings(given))
    try:
        await check(client)
        await client.set("a", b"\xff")
        return await client.get("a")
    finally:
        await client.aclose()


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


async def test_a_hive_connects_to_redis_by_tls_and_checks_its_certificate(redis_of):
    async with by_tls(redis_of()) as named:
        assert await talked(REDIS_URL=named) == b"\xff"
        url, _, authority = named.partition("?ssl_ca_certs=")
        assert await talked(REDIS_URL=url, REDIS_PARAMS={"ssl_ca_certs": authority}) == b"\xff"
        with pytest.raises(FatalError, match=r"does not answer .*certificate verify failed"):
            await talked(REDIS_URL=url)


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
        await client.aclose()


async def test_the_address_of_a_hives_own_redis_stays_out_of_its_settings(server):
    """The monitor gets the same settings, sooner or later, and names the hive by them."""
    settings = Settings()
    client = client_of(settings, server.url)
    assert await client.ping()
    await client.aclose()
    assert hive_name(settings) == HERE


async def checked_for_leases(url):
    client = client_of(Settings({"REDIS_URL": url}))
    try:
        await check_for_leases(client)
    finally:
        await client.aclose()


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


@each("mode", "cluster", "sentinel")
async def test_a_url_that_names_a_node_of_a_cluster_or_a_sentinel_is_one_sentence(redis_of, mode):
    """Even if that node has all keys: another one may take its place."""
    node = redis_of(port=True, mode=mode)
    expected = f"REDIS_URL names a server in {mode} mode. Instead, one server is enough, which may"
    with pytest.raises(FatalError, match=expected) as raised:
        await talked(REDIS_URL=node.tcp_url)
    assert raised.type is FatalError  # a drone does not wait until it goes away


async def test_a_redis_that_does_not_answer_ends_with_one_sentence():
    with pytest.raises(UnreachableError, match=r"Redis at REDIS_URL does not answer .*: start it"):
        await talked(REDIS_URL=f"redis://127.0.0.1:{free_port()}")


@cases(
    "given",
    """
        {"REDIS_URL": "http://somewhere"}
        {"REDIS_URL": "redis+other://somewhere"}
        {"REDIS_PARAMS": "{"}
        {"REDIS_URL": "redis://somewhere?db=x"}
    """,
)
def test_a_url_that_cannot_be_is_one_sentence(given):
    with pytest.raises(FatalError, match="REDIS_URL or REDIS_PARAMS cannot be used: "):
        client_of(Settings(given))


@each("scheme", "redis+sentinel", "redis+cluster", "rediss+sentinel", "rediss+cluster")
def test_sentinels_and_clusters_are_answered_with_what_to_use_instead(scheme):
    with pytest.raises(FatalError) as caught:
        client_of(Settings({"REDIS_URL": f"{scheme}://:geheim@a.test:1,b.test/hive/0"}))
    assert str(caught.value) == (
        "REDIS_URL or REDIS_PARAMS cannot be used: redis+sentinel:// and redis+cluster:// ended "
        "with 0.6. Instead, one server is enough, which may be restarted or replaced during a "
        "crawl: see docs/howto/several-machines.md."
    )


async def test_an_unknown_parameter_is_one_sentence():
    with pytest.raises(FatalError, match="unexpected keyword argument 'sokket_timeout'") as raised:
        await talked(REDIS_PARAMS={"sokket_timeout": 1})
    assert raised.type is FatalError  # a drone does not wait until it goes away


def test_without_a_url_it_is_the_local_server():
    assert isinstance(client_of(Settings()), Redis)
