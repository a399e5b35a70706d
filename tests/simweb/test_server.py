"""The server on its sockets: faults, protocol corners, shutdown."""

import asyncio
import gzip
import http.client
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from email.utils import parsedate_to_datetime
from pathlib import Path

import psutil
import pytest
import simweb_client
import warm
from access_log_reader import read_access_log
from patience import LIMIT_SECS, SLOWNESS
from text_tables import each

from webcrawl.simweb import Faults, SimWebError, World, chance, preset, start_in_process
from webcrawl.simweb.accesslog import AnswerEnd
from webcrawl.simweb.bodies import body_of, gzip_body_of
from webcrawl.simweb.host_spec import Behaviour, Framing, RobotsKind
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import page, size_of
from webcrawl.simweb.server import serve

FREE = {"http_port": 0, "https_port": 0}
WORLD = World(
    hosts=400,
    seed=3,
    **FREE,
    addresses=5,
    mean_pages=6,
    max_pages=60,
    endless=0.2,
    large_files=0.01,
    large_bytes=12_000_000,
    slow_secs=SLOWNESS,
    stall_secs=1.2 * SLOWNESS,
    throttle_secs=0.5,
    faults=Faults(**dict.fromkeys(Faults.__dataclass_fields__, 0.04)),
)
ROOT = Path(__file__).parents[2]
GET = "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n"
OLD = "GET {} HTTP/1.0\r\nHost: {}\r\n\r\n"
LAST = "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"


@pytest.fixture
def client(web):
    return simweb_client.Client(web.dns, web.ca_path)


def hosts_with(world, **traits):
    """The hosts of *world* which are sound (unless said) and have all *traits*."""
    return simweb_client.hosts_of(world, **{"behaviour": Behaviour.SOUND, **traits})


def host_with(web, **traits):
    return next(hosts_with(web.world, **traits))


def plain(web, **traits):
    return host_with(web, scheme="http", framing=Framing.LENGTH, **traits)


def netloc(host):
    return host.origin.partition("://")[2]


def exchange(web, host, data):
    """What a bare connection gets for *data*."""
    connect = simweb_client.Client(web.dns).exchange(host.address, web.world.http_port, data)
    return asyncio.run(connect)


def sent(web, host, path="/", template=GET):
    """A connection over which *path* was asked for."""
    sock = socket.create_connection((host.address, web.world.http_port))
    sock.sendall(template.format(path, netloc(host)).encode())
    return sock


def get(client, url, **options):
    return asyncio.run(client.get(url, **options))


def hits_on(web, host):
    return [hit for hit in simweb_client.whole_log(web) if hit.host == host.name]


def drain(sock):
    """Everything that comes, and the error that ended it (or None)."""
    received = b""
    try:
        while data := sock.recv(65536):
            received += data
    except OSError as error:
        return received, type(error)
    return received, None


def replies(raw):
    """Answers of known length, one after another."""
    while raw:
        head, _, rest = raw.partition(b"\r\n\r\n")
        length = int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0])
        yield head, rest[:length]
        raw = rest[length:]


def test_every_socket_is_bound_to_a_loopback_address(web):
    bound = psutil.Process(web.pid).net_connections(kind="inet")
    assert len(bound) == 2 * 5 + 1
    assert all(one.laddr.ip.startswith("127.") for one in bound)
    tcp = {(one.laddr.ip, one.laddr.port) for one in bound if one.type == socket.SOCK_STREAM}
    ports = (web.world.http_port, web.world.https_port)
    assert tcp == set(itertools.product(web.world.address_list(), ports))


@each("framing", *list(Framing))
@each("scheme", "http", "https")
def test_a_page_arrives_as_computed_in_every_framing(web, client, framing, scheme):
    host = host_with(web, framing=framing, scheme=scheme)
    reply = get(client, host.origin + "/")
    assert reply.status == 200
    assert reply.body == b"".join(body_of(web.world, page(web.world, host, 0)))
    assert ("Content-Length" in reply.headers) == (framing is Framing.LENGTH)
    hit = hits_on(web, host)[-1]
    assert (hit.url, hit.status, hit.size) == (host.origin + "/", 200, len(reply.body))
    assert (hit.agent, hit.outcome) == (simweb_client.AGENT, AnswerEnd.OK)
    assert hit.address == host.address


def test_pipelined_requests_are_answered_in_their_order(web):
    host = plain(web)
    paths = [page(web.world, host, number).path for number in range(host.pages)] * 8
    data = "".join(GET.format(path, netloc(host)) for path in paths[:-1])
    data += LAST.format(paths[-1], netloc(host))
    answers = list(replies(exchange(web, host, data.encode())))
    assert len(answers) == len(paths) > 64
    for number in range(host.pages):
        found = page(web.world, host, number)
        if found.leaf.status == 200:
            assert answers[number][1] == b"".join(body_of(web.world, found))
    hits = hits_on(web, host)[-len(paths) :]
    assert [hit.target for hit in hits] == paths
    assert [hit.end for hit in hits] == sorted(hit.end for hit in hits)
    assert all(hit.start <= hit.end for hit in hits)


def test_http_1_0_is_answered_without_chunks(web):
    host = host_with(web, scheme="http", framing=Framing.CHUNKED)
    with sent(web, host, template=OLD) as sock:
        reply = simweb_client.Reply(drain(sock)[0])
    assert reply.headers["Transfer-Encoding"] is None
    assert reply.body == b"".join(body_of(web.world, page(web.world, host, 0)))


@each(
    "data",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to the plain port
    b"nonsense\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: \r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",  # of a proxy
)
def test_bad_requests_get_400_and_are_logged(web, data):
    host = plain(web)
    assert exchange(web, host, data).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    last = simweb_client.whole_log(web)[-1]
    assert (last.status, last.outcome) == (400, AnswerEnd.BAD)


def test_a_name_asked_at_the_wrong_address_is_misdirected(web):
    host = plain(web)
    other = next(one for one in hosts_with(web.world, scheme="http") if one.address != host.address)
    for name in (netloc(other), "example.org", "site99999.sim.test:80", "\xe9 \xff"):
        raw = exchange(web, host, GET.format("/", name).encode("latin-1"))
        assert raw.startswith(b"HTTP/1.1 421 "), name


def test_gzip_is_sent_only_to_clients_that_accept_it():
    world = preset("today", hosts=20, **FREE)
    with start_in_process(world, log_path=None) as web:
        client = simweb_client.Client(web.dns, web.ca_path)
        host = host_with(web)
        found = page(web.world, host, 0)
        reply = get(client, host.origin + "/")
        assert reply.headers["Content-Encoding"] is None
        packed = get(client, host.origin + "/", headers="Accept-Encoding: gzip, br\r\n")
        assert packed.headers["Content-Encoding"] == "gzip"
        assert packed.headers["Vary"] == "Accept-Encoding"
        assert packed.body == gzip_body_of(web.world, found)
        assert gzip.decompress(packed.body) == reply.body == b"".join(body_of(web.world, found))


def test_connections_end_after_so_many_pages_and_robots_txt_is_none():
    world = preset("bench", hosts=4, mean_pages=9, max_pages=9, pages_per_connection=2, **FREE)
    with start_in_process(world, log_path=None) as web:
        host = plain(web)
        paths = [page(web.world, host, number).path for number in range(3)]
        asked = ["/robots.txt", paths[0], "/robots.txt", paths[1], paths[2]]
        raw = exchange(
            web, host, "".join(GET.format(path, netloc(host)) for path in asked).encode()
        )
        assert raw.count(b"HTTP/1.1 ") == 4
        assert raw.count(b"<!DOCTYPE html>") == 2
        assert raw.count(b"Connection: close\r\n") == 1


def test_large_files_arrive_whole_and_leave_the_server_free_meanwhile(web, client):
    found = next(
        one
        for host in hosts_with(web.world, scheme="http")
        for number in range(host.pages)
        if (one := page(web.world, host, number)).kind is PageKind.LARGE
    )
    host = found.host
    with socket.socket() as sock:
        # A small window, which the system would else let grow to megabytes.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        sock.connect((host.address, web.world.http_port))
        sock.sendall(GET.format(found.path, netloc(host)).encode())
        assert sock.recv(10) == b"HTTP/1.1 2"
        # The rest waits for this client; others are served.
        assert get(client, plain(web).origin + "/").status == 200
    reply = get(client, host.origin + found.path)
    assert reply.body == b"".join(body_of(web.world, found))
    assert len(reply.body) == size_of(web.world, found) == 12_000_000
    first, second = (hit for hit in hits_on(web, host) if hit.target == found.path)
    assert first.outcome == AnswerEnd.CLOSED
    assert first.size < 12_000_000
    assert (second.outcome, second.size) == (AnswerEnd.OK, 12_000_000)


# faults

BOTH_WAYS = pytest.mark.parametrize("way", [0, 1])


def host_with_way(web, behaviour, way):
    """A host of HTTP with *behaviour*; hosts draw one of two ways to show it."""
    return next(
        host
        for host in hosts_with(web.world, behaviour=behaviour, scheme="http")
        if chance.draw(web.world.seed, chance.FAULT, host.index) & 1 == way
    )


@BOTH_WAYS
def test_hosts_that_reset_at_once_or_in_mid_answer(web, way):
    host = host_with_way(web, Behaviour.RESET, way)
    with sent(web, host) as sock:
        received, ended = drain(sock)
    assert (ended, bool(received)) == (ConnectionResetError, bool(way))
    hit = hits_on(web, host)[-1]
    assert (hit.outcome, hit.status) == (AnswerEnd.RESET, 200 if way else 0)


@BOTH_WAYS
def test_hosts_that_stall_hold_the_line_for_as_long_as_asked(web, way):
    host = host_with_way(web, Behaviour.STALL, way)
    begin = time.monotonic()
    with sent(web, host) as sock:
        raw, _ = drain(sock)
    assert time.monotonic() - begin >= WORLD.stall_secs
    assert bool(raw) == way
    hit = hits_on(web, host)[-1]
    assert hit.outcome == AnswerEnd.STALL
    assert hit.end - hit.start > WORLD.stall_secs - 0.01


@BOTH_WAYS
def test_a_client_that_gives_up_on_a_stalling_host_is_logged(web, way):
    host = host_with_way(web, Behaviour.STALL, way)
    with sent(web, host, "/gave-up") as sock:
        sock.settimeout(0.1)
        # Read, so that closing says no more than that nothing more will be said.
        received, _ = drain(sock)
    assert bool(received) == way
    hit = next(hit for hit in hits_on(web, host) if hit.target == "/gave-up")
    assert hit.outcome == AnswerEnd.CLOSED
    assert 0.05 < hit.end - hit.start < WORLD.stall_secs - 0.01


def test_hosts_that_send_garbage(web, client):
    host = host_with(web, behaviour=Behaviour.GARBAGE)
    with pytest.raises(http.client.HTTPException):
        get(client, host.origin + "/")
    assert hits_on(web, host)[-1].outcome == AnswerEnd.GARBAGE


@BOTH_WAYS
def test_slow_hosts_begin_late_or_take_their_time(web, way):
    host = host_with_way(web, Behaviour.SLOW, way)
    begin = time.monotonic()
    with sent(web, host, template=OLD) as sock:
        received = sock.recv(65536)
        assert (time.monotonic() - begin > 0.9 * WORLD.slow_secs) == way
        received += drain(sock)[0]
    assert time.monotonic() - begin > 0.9 * WORLD.slow_secs
    assert received.endswith(b"".join(body_of(web.world, page(web.world, host, 0))))
    hit = hits_on(web, host)[-1]
    assert 0.9 * WORLD.slow_secs < hit.end - hit.start


@each("by_date", 0, 1)
def test_throttling_hosts_want_to_be_left_alone(web, client, by_date):
    host = next(
        host
        for host in hosts_with(
            web.world, behaviour=Behaviour.THROTTLE, robots=RobotsKind.MISSING, scheme="http"
        )
        if host.index & 1 == by_date
    )
    assert get(client, host.origin + "/").status == 200
    assert get(client, host.origin + "/robots.txt").status == 404
    asked_at = time.time()
    while (reply := get(client, host.origin + "/")).status == 200:
        asked_at = time.time()  # that came too late to be throttled
    assert reply.status == 429
    value = reply.headers["Retry-After"]
    if by_date:
        assert asked_at - 1 <= parsedate_to_datetime(value).timestamp() <= time.time() + 2
    else:
        assert value == "1"
    time.sleep(0.55)
    assert get(client, host.origin + "/").status == 200


# life of the server


def test_a_web_can_be_served_inside_an_event_loop(tmp_path):
    async def serve_twice():
        world = World(hosts=8, **FREE)
        async with serve(world, log_path=tmp_path / "log") as web:
            client = simweb_client.Client(web.dns, web.ca_path)
            assert (await client.get(host_with(web).origin + "/")).status == 200
            ca_path = web.ca_path
        assert not ca_path.exists()
        # Everything is closed: the same ports can be opened again at once.
        async with serve(web.world, log_path=None, dns_port=int(web.dns.partition(":")[2])):
            pass

    before = psutil.Process().num_fds()
    asyncio.run(serve_twice())
    asyncio.run(serve_twice())
    assert psutil.Process().num_fds() <= before
    assert len(list(read_access_log(tmp_path / "log"))) == 2


def test_a_taken_port_is_one_sentence_and_leaves_nothing_open(web, tmp_path):
    ports = {"http_port": web.world.http_port, "https_port": 0}
    with pytest.raises(SimWebError, match=rf"port {web.world.http_port} of 127\.16\.0\.1: Address"):
        start_in_process(World(hosts=4, **ports), log_path=tmp_path / "log")
    assert not (tmp_path / "log").exists()
    with pytest.raises(SimWebError, match="cannot serve DNS on UDP port"):
        start_in_process(
            World(hosts=4, **FREE), log_path=None, dns_port=int(web.dns.partition(":")[2])
        )


def test_stopping_logs_what_was_going_on_and_ends_the_process(tmp_path):
    world = World(hosts=60, **FREE, faults=Faults(stall=0.5))
    with start_in_process(world, log_path=tmp_path / "log") as web:
        host = host_with(web, behaviour=Behaviour.STALL, scheme="http")
        sock = sent(web, host, "/stopped")
        simweb_client.whole_log(web)  # it has read what was sent before this
        assert web.running
    with sock:
        assert not web.running
        (hit,) = (hit for hit in read_access_log(tmp_path / "log") if hit.host == host.name)
        assert (hit.target, hit.outcome) == ("/stopped", AnswerEnd.CLOSED)


def test_the_server_ends_with_its_parent_even_if_that_is_killed():
    script = (
        "import time; from webcrawl.simweb import World, start_in_process\n"
        "web = start_in_process(World(hosts=4, http_port=0, https_port=0), log_path=None)\n"
        "print(web.pid, web.ca_path, flush=True)\n"
        "time.sleep(60)"
    )
    command = [sys.executable, "-c", script]
    with warm.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        pid, ca_path = parent.stdout.readline().split()
        server = psutil.Process(int(pid))
        assert Path(ca_path).exists()
        parent.kill()
    psutil.wait_procs([server], timeout=LIMIT_SECS)
    assert not server.is_running()
    assert not Path(ca_path).exists()


def test_the_server_survives_ctrl_c_and_ends_by_sigterm():
    with start_in_process(World(hosts=4, **FREE), log_path=None) as web:
        os.kill(web.pid, signal.SIGINT)
        assert not web.wait(0.3)
        os.kill(web.pid, signal.SIGTERM)
        assert web.wait(10)
        assert not Path(web.ca_path).exists()
