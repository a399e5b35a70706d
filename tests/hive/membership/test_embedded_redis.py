"""The Redis server of a hive on one machine."""

import contextlib
import importlib.util
import subprocess

import pytest
import redis.asyncio
from patience import LIMIT_SECS

from webcrawl.errors import FatalError
from webcrawl.hive.membership.embedded_redis import EmbeddedRedis, server_program


async def answer(server, *words):
    async with redis.asyncio.Redis.from_url(server.url, decode_responses=True) as client:
        return await client.execute_command(*words)


async def started(server):
    process = subprocess.Popen(server.prepare())  # noqa: ASYNC220  it starts at once
    assert await server.wait(secs=20, is_starting=lambda: process.poll() is None)
    return process


@contextlib.asynccontextmanager
async def running(server):
    process = await started(server)
    try:
        yield process
    finally:
        await server.end()
        assert process.wait(LIMIT_SECS) == 0


async def test_the_data_of_the_embedded_redis_survive_its_end(tmp_path):
    server = EmbeddedRedis(directory=tmp_path / "redis")
    async with running(server):
        await answer(server, "SET", "one", "1")
        assert await answer(server, "CONFIG", "GET", "port") == {"port": "0"}
    async with running(server) as process:
        assert await answer(server, "GET", "one") == "1"
        process.terminate()


async def test_data_of_an_older_server_is_read(tmp_path):
    server = EmbeddedRedis(directory=tmp_path)
    # As Redis 6.2 has it: one file, and no manifest.
    log = b"*3\r\n$3\r\nSET\r\n$3\r\none\r\n$1\r\n1\r\n"
    (tmp_path / "appendonly.aof").write_bytes(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n" + log)
    async with running(server):
        assert await answer(server, "GET", "one") == "1"


@pytest.mark.cures("is too long for a socket (at most {} bytes): choose another JOBDIR")
def test_a_directory_whose_path_is_too_long_for_a_socket_is_refused(tmp_path):
    server = EmbeddedRedis(directory=tmp_path / ("long" * 30))
    with pytest.raises(FatalError, match=r"is too long for a socket .* another JOBDIR"):
        server.prepare()
    EmbeddedRedis(directory=tmp_path / "short").prepare()


async def test_a_redis_left_behind_is_ended_before_another_takes_its_files(tmp_path):
    left = await started(EmbeddedRedis(directory=tmp_path))
    await EmbeddedRedis(directory=tmp_path).end()
    assert left.wait(LIMIT_SECS) == 0


async def test_to_end_none_is_no_error(tmp_path):
    server = EmbeddedRedis(directory=tmp_path)
    await server.end()
    server.socket.touch()
    await server.end()


async def test_a_server_that_dies_is_not_waited_for(tmp_path):
    assert not await EmbeddedRedis(directory=tmp_path).wait(secs=600, is_starting=lambda: False)


@pytest.mark.cures("No Redis server found: name one with -s REDIS_URL=redis://HOST, or install")
def test_without_the_wheel_it_is_the_one_in_the_path(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FatalError, match="No Redis server found: name one with -s REDIS_URL"):
        server_program()
    program = tmp_path / "valkey-server"
    program.touch(mode=0o755)
    assert server_program() == program
