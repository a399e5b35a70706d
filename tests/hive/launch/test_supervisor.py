"""The supervisor of a hive on one machine, with shell scripts as its drones, and a real Redis."""

import asyncio
import contextlib
import math
import os
import signal

import pytest
import redis.asyncio
from text_tables import cases, each

from webcrawl.errors import FatalError
from webcrawl.hive.launch.supervisor import LocalHive, Supervisor
from webcrawl.storage.lock import DirectoryLock

WAITS = "trap 'exit 0' TERM; echo > {0}.ready; while :; do sleep 0.05; done"


class Scripts(LocalHive):
    """A hive whose drones are shell scripts: *arguments* are one for each."""

    def command(self, number, redis_url):
        return ["sh", "-c", self.arguments[number].format(self.mark(number)), redis_url]

    def mark(self, number):
        return self.jobdir / f"mark{number}"

    async def until_ready(self):
        while not all(self.ready(number).exists() for number in range(self.drones)):  # noqa: ASYNC110  # files of other processes
            await asyncio.sleep(0.01)

    def ready(self, number):
        return self.mark(number).with_suffix(".ready")


async def begun(local, supervisor):
    """Start a supervisor and return its task once its drones are ready."""
    task = asyncio.create_task(supervisor.run())
    await local.until_ready()
    return task


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture
def hive(tmp_path):
    def made(*scripts, table=None, **given):
        hive = Scripts("test", tmp_path / "job", len(scripts), "web", scripts, **given)
        said = []
        secs = math.inf if table is None else 0
        supervisor = Supervisor(hive=hive, say=said.append, table=table, table_secs=secs)
        return hive, supervisor, said

    return made


async def test_all_drones_share_a_redis_that_ends_with_them(hive):
    script = "echo $0 > {0}.url; test -S ${{0#unix://}}"
    shown = iter(range(10_000))

    async def table():
        return f"table {next(shown)}"

    local, supervisor, said = hive(script, script, table=table)
    assert await supervisor.run() == 0
    urls = {local.mark(number).with_suffix(".url").read_text() for number in range(2)}
    assert urls == {f"unix://{local.jobdir}/redis/redis.sock\n"}
    assert not (local.jobdir / "redis" / "redis.sock").exists()
    assert said[0] == "table 0"
    assert len(said) == next(shown)  # nothing else


async def test_with_a_redis_url_there_is_no_other(hive):
    local, supervisor, _ = hive("test $0 = redis://elsewhere", redis_url="redis://elsewhere")
    assert await supervisor.run() == 0
    assert not (local.jobdir / "redis").exists()


@pytest.fixture
def cores():
    """The first two cores, or the only one, which this process is kept to."""
    before = os.sched_getaffinity(0)
    cores = sorted(before)[:2]
    os.sched_setaffinity(0, cores)
    yield cores
    os.sched_setaffinity(0, before)


@each("drones", 1, 2)
async def test_drones_are_kept_to_a_core_each_if_they_are_as_many(hive, cores, drones):
    local, supervisor, _ = hive(*[WAITS] * drones, redis_url="-")
    running = await begun(local, supervisor)
    while None in (pids := [drone.pid for drone in supervisor.drones]):  # noqa: ASYNC110  # no event tells of it
        await asyncio.sleep(0.01)
    found = [os.sched_getaffinity(pid) for pid in pids]
    send(signal.SIGTERM)
    assert await running == 0
    assert found == ([{core} for core in cores] if drones == len(cores) else [set(cores)] * drones)


async def test_one_signal_stops_all_and_the_second_is_passed_on(hive):
    once = "trap 'echo >> {0}' TERM; echo > {0}.ready; while [ ! -e {0} ]; do sleep 0.05; done"
    twice = once.replace("[ ! -e {0} ]", "[ $(cat {0} 2>&1 | wc -l) -lt 2 ]")
    local, supervisor, said = hive(once, once.replace("-e {0}", "-s {0}"), redis_url="-")
    running = await begun(local, supervisor)
    send(signal.SIGINT)
    assert await running == 0
    assert said == ["stopping with checkpoints; send the signal again to stop immediately"]
    for file in local.jobdir.glob("mark*"):
        file.unlink()
    local, supervisor, said = hive(twice, redis_url="-")
    running = await begun(local, supervisor)
    send(signal.SIGTERM)
    while not local.mark(0).exists():  # noqa: ASYNC110  # of another process
        await asyncio.sleep(0.01)
    assert not running.done()
    send(signal.SIGTERM)
    assert await running == 0


async def test_the_third_signal_kills_what_does_not_end(hive):
    deaf = "trap '' TERM; echo > {0}.ready; while :; do sleep 0.05; done"
    local, supervisor, _ = hive(deaf, redis_url="-")
    running = await begun(local, supervisor)
    for _ in range(3):
        send(signal.SIGINT)
        await asyncio.sleep(0.1)
    assert await running == 1


async def test_unusable_input_of_one_stops_the_others_once(hive):
    bad = "while [ ! -e {1} ]; do sleep 0.05; done; exit 2"
    local, supervisor, _ = hive(WAITS, WAITS, redis_url="-")
    local = local._replace(drones=3, arguments=[*local.arguments, bad.format("", local.ready(0))])
    supervisor.hive = local
    assert await supervisor.run() == 2


async def test_redis_that_dies_is_started_again_under_its_drones(hive):
    local, supervisor, said = hive(WAITS)
    running = await begun(local, supervisor)
    before = await redis_process(local)
    os.kill(before, signal.SIGKILL)
    while (after := await redis_process(local)) in {None, before}:  # noqa: ASYNC110  # by its pid
        await asyncio.sleep(0.1)
    assert said == ["Redis died (killed by SIGKILL): restarting in 1 s (restart 1 of 5)"]
    os.kill(after, signal.SIGTERM)  # somebody wants it to end, and it does not come back
    assert await running == 0


async def redis_process(local):
    async with redis.asyncio.Redis.from_url(f"unix://{local.jobdir}/redis/redis.sock") as client:
        with contextlib.suppress(redis.exceptions.RedisError):
            return (await client.info("server"))["process_id"]


async def test_a_redis_that_is_given_up_stops_the_drones_and_is_told(hive, monkeypatch):
    monkeypatch.setattr("webcrawl.hive.launch.child_process._MAX_RESTARTS", 0)
    local, supervisor, said = hive(WAITS)
    running = await begun(local, supervisor)
    os.kill(await redis_process(local), signal.SIGKILL)
    assert await running == 1
    assert said[0].startswith("Redis died again (killed by SIGKILL) and will not be restarted")


async def test_an_error_of_the_command_leaves_no_drone_behind(hive):
    async def table():
        if local.ready(0).exists():
            raise RuntimeError("what nobody has thought of")
        return ""

    script = WAITS.replace("exit 0", "echo > {0}.saved; exit 0")
    local, supervisor, _ = hive(script, table=table)
    with pytest.raises(RuntimeError, match="thought of"):
        await supervisor.run()
    assert local.mark(0).with_suffix(".saved").exists()


def unhandled(number, frame):
    raise AssertionError("it would end at once")


@each("handler", signal.SIG_IGN, unhandled)
async def test_a_hive_ends_with_its_terminal_unless_it_ignores_sighup(hive, handler):
    before = signal.signal(signal.SIGHUP, handler)
    try:
        local, supervisor, said = hive(WAITS, redis_url="-")
        running = await begun(local, supervisor)
        send(signal.SIGHUP)
        if handler is signal.SIG_IGN:
            await asyncio.sleep(0.1)
            assert said == []
            send(signal.SIGTERM)
        assert await running == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@cases(
    "given sentence",
    """
        {"drones": 0}                    | --drones must be from 1 to 256, not 0
        {"arguments": ["seeds=a.txt,-"]} | standard input
        {"jobdir": "of_a_crawl"}         | contains a single-process crawl
    """,
)
def test_what_cannot_be_run_is_refused(tmp_path, given, sentence):
    other = tmp_path / "of_a_crawl"
    other.mkdir()
    (other / "CURRENT").touch()
    hive = LocalHive("test", tmp_path / given.pop("jobdir", "new"), 2, "web")
    with pytest.raises(FatalError, match=sentence):
        hive._replace(**given).check()


@each("before", None, [], ["logs", "CURRENT"], ["mine"])
@cases(
    "way",
    """
        argument
        one process
        no server
        Redis
        drone
    """,
)
async def test_a_refused_hive_leaves_the_directory_as_it_was(hive, monkeypatch, before, way):
    script = "mkdir -p $(dirname {0})/drones/0/logs; : > {0}; exit 2"
    local, supervisor, _ = hive(script, redis_url="unix:///none" if way == "drone" else "")
    job = local.jobdir
    for name in before or ():
        (job / name).mkdir(parents=True)
    if before == []:
        job.mkdir()
    if way == "argument":
        supervisor.hive = local._replace(drones=0)
    if way == "one process" and before != ["logs", "CURRENT"]:
        monkeypatch.setattr(Scripts, "check", refused)
    if way == "no server":
        monkeypatch.setattr("webcrawl.hive.membership.embedded_redis.server_program", refused)
    if way == "Redis":
        monkeypatch.setattr("webcrawl.hive.launch.supervisor._REDIS_START_SECS", 0.0)
    if way == "drone" and before != ["logs", "CURRENT"]:
        assert await supervisor.run() == 2
    else:
        with pytest.raises(FatalError):
            await supervisor.run()
    assert (sorted(one.name for one in job.iterdir()) if job.exists() else None) == (
        before and sorted(before)
    )


def refused(*_):
    raise FatalError("Refused.")


async def test_a_hive_that_has_fetched_something_stays_whatever_it_ends_with(hive):
    script = "mkdir -p $(dirname {0})/drones/0/logs; echo > $(dirname {0})/drones/0/logs/info.jsonl"
    local, supervisor, _ = hive(f"{script}; exit 2", redis_url="unix:///none")
    assert await supervisor.run() == 2
    assert (local.jobdir / "drones").exists()


@pytest.mark.cures(
    "A drone of an earlier hive is still running ({}): stop it with scrapy hive stop",
)
def test_drones_that_a_killed_supervisor_has_left_go_first(tmp_path):
    hive = LocalHive("t", tmp_path, 2, "web")
    (tmp_path / "drones" / "1").mkdir(parents=True)
    left = DirectoryLock(path=tmp_path / "drones" / "1" / "LOCK")
    left.acquire()
    with pytest.raises(
        FatalError, match=r"drone of an earlier hive is still running .* scrapy hive stop"
    ):
        hive.check()
    left.release()
    hive.check()


async def test_a_directory_that_cannot_be_is_named(hive, tmp_path):
    (tmp_path / "job").touch()
    _, supervisor, _ = hive(WAITS, redis_url="-")
    with pytest.raises(FatalError, match=r"JOBDIR .*job cannot be used: "):
        await supervisor.run()


async def test_two_hives_do_not_share_a_directory(hive):
    local, supervisor, _ = hive(WAITS, redis_url="-")
    _, other, _ = hive(WAITS, redis_url="-")
    running = await begun(local, supervisor)
    with pytest.raises(FatalError, match=f"in use: .* held by process {os.getpid()}"):
        await other.run()
    send(signal.SIGTERM)
    await running


def test_the_command_of_a_drone_has_all_that_the_user_gave(tmp_path):
    hive = LocalHive("t", tmp_path, 2, "web", ["seeds=a.txt"], ["JOBDIR=x", "A=1"])
    words = hive.command(1, "unix:///redis.sock")[2:]
    assert words[:8] == ["scrapy", "crawl", "web", "-a", "seeds=a.txt", "-s", "JOBDIR=x", "-s"]
    # The last one counts.
    assert words[8:] == [
        *("A=1", "-s", "HIVE=t", "-s", f"JOBDIR={tmp_path}/drones/1"),
        *("-s", "REDIS_URL=unix:///redis.sock", "-s", f"HIVE_STORE={tmp_path}/store"),
    ]
    hive = hive._replace(store="s3://bucket/hive", metrics_port=9400)
    last = hive.command(1, "unix:///redis.sock")[-3:]
    assert last == ["HIVE_STORE=s3://bucket/hive", "-s", "METRICS_PORT=9401"]
