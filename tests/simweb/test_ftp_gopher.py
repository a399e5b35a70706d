"""The hosts of the simulated web that speak FTP and Gopher, asked by clients that share no code
with them: ftplib and plain sockets."""

from __future__ import annotations

import ftplib
import re
import socket
import time
from collections import Counter
from urllib.parse import quote, unquote

import pytest
from simweb_client import whole_log

from webcrawl.simweb import (
    AnswerEnd,
    Behaviour,
    Faults,
    World,
    allowed_urls,
    preset,
    reachable_urls,
    read_access_log,
    start_in_process,
)
from webcrawl.simweb.bodies import body_of
from webcrawl.simweb.host_spec import RobotsKind
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import find_page, links_of, page, url_of
from webcrawl.simweb.robots import robots_of

AGENT = "webcrawl"
WORLD = World(
    hosts=240,
    seed=8,
    http_port=0,
    https_port=0,
    ftp_port=0,
    gopher_port=0,
    ftp=0.3,
    gopher=0.2,
    mean_pages=8,
    max_pages=150,
    restricting=0.4,
    errors=0.1,
    redirects=0.1,
    odd_charsets=0.1,
    endless=0.1,
    large_files=0.0,
    slow_secs=0.1,
    stall_secs=0.3,
    faults=Faults(**dict.fromkeys(Faults.__dataclass_fields__, 0.04)),
)


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    log_path = tmp_path_factory.mktemp("simweb") / "access.log"
    with start_in_process(WORLD, log_path=log_path) as web:
        yield web


@pytest.fixture
def hits(web):
    """Tells what the server has logged since the test began."""
    before = len(whole_log(web))
    return lambda: whole_log(web)[before:]


def hosts_of(world, scheme, **traits):
    traits = {"behaviour": Behaviour.SOUND} | traits
    for index in range(world.hosts):
        host = world.host(index)
        if host.scheme == scheme and all(getattr(host, k) == v for k, v in traits.items()):
            yield host


def pages_of(world, host):
    return [page(world, host, number) for number in range(host.pages)]


def login(web, host):
    ftp = ftplib.FTP(timeout=10, encoding="utf-8")
    try:
        ftp.connect(host.address, web.world.ftp_port)
        ftp.login()
    except BaseException:
        ftp.close()
        raise
    return ftp


def names_of(ftp):
    """Names in the current directory, those of directories with a slash, and the style of the
    listing they are from."""
    lines = []
    try:
        ftp.retrlines("MLSD", lines.append)
    except ftplib.error_perm:
        ftp.retrlines("LIST", lines.append)
        style = "dos" if lines and lines[0][0].isdigit() else "unix"
        if style == "unix":
            found = [(line[0] == "d", line.split(maxsplit=8)[8]) for line in lines]
        else:
            found = [("<DIR>" in line, line.split(maxsplit=3)[3]) for line in lines]
        found = [(is_dir, name) for is_dir, name in found if name not in {".", ".."}]
    else:
        style = "mlsd"
        facts = [re.fullmatch(r"Type=(\w+);.*?; (.+)", line).groups() for line in lines]
        found = [(kind == "dir", name) for kind, name in facts if kind in {"dir", "file"}]
    return [f"{name}/" if is_dir else name for is_dir, name in found], style


def walk_ftp(web, host, path="/"):
    """Every path below *path*, by one connection a listing."""
    ftp = login(web, host)
    ftp.cwd(unquote(path))
    names, _ = names_of(ftp)
    ftp.quit()
    for name in names:
        below = path + quote(name.removesuffix("/")) + "/" * name.endswith("/")
        yield below
        if below.endswith("/"):
            yield from walk_ftp(web, host, below)


def test_the_directories_of_an_ftp_host_hold_all_it_has(web):
    deepest = 0
    hosts = sorted(hosts_of(web.world, "ftp"), key=lambda host: -host.pages)
    for host in [*hosts[:16], *hosts[-2:]]:
        found = ["/", *walk_ftp(web, host)]
        assert sorted(found) == sorted(one.path for one in pages_of(web.world, host))
        deepest = max(deepest, *(path.count("/") for path in found))
    assert deepest > 2
    styles = set()
    for host in hosts[:16]:
        ftp = login(web, host)
        styles.add(names_of(ftp)[1])
        ftp.quit()
    assert styles == {"mlsd", "unix", "dos"}


def retrieved(ftp, path):
    """The status of HTTP for what the server says to RETR, and the bytes of the file."""
    parts = []
    try:
        ftp.retrbinary(f"RETR {path}", parts.append)
    except ftplib.Error as error:
        return {"550": 404, "450": 503}[str(error)[:3]], b""
    return 200, b"".join(parts)


def test_the_files_of_an_ftp_host_are_what_the_world_says(web):
    statuses = Counter()
    for host in list(hosts_of(web.world, "ftp"))[:12]:
        ftp = login(web, host)
        for one in pages_of(web.world, host):
            if one.kind is PageKind.LISTING:
                continue
            status, body = retrieved(ftp, unquote(one.path))
            statuses[status] += 1
            assert (status == 200) == (one.leaf.status == 200)
            assert status != 200 or body == b"".join(body_of(web.world, one))
        ftp.quit()
    assert statuses[200] > 10
    assert statuses[404] > 0


def test_robots_files_lie_in_the_root_of_ftp_hosts(web):
    hosts = {host.robots: host for host in hosts_of(web.world, "ftp")}
    assert {RobotsKind.MISSING, RobotsKind.PREFIX} < set(hosts)
    assert RobotsKind.REDIRECT not in hosts
    for host in hosts.values():
        answer = robots_of(web.world, host)
        ftp = login(web, host)
        status, body = retrieved(ftp, "robots.txt")
        ftp.quit()
        assert status == (404 if answer.status == 403 else answer.status)
        assert status != 200 or body == answer.body


def test_robots_rules_of_ftp_hosts_forbid_something():
    world = World(hosts=2000, ftp=0.5, restricting=0.8, faults=Faults.none())
    reachable = {url for url in reachable_urls(world) if url.startswith("ftp:")}
    allowed = {url for url in allowed_urls(world, AGENT) if url.startswith("ftp:")}
    forbidden = reachable - allowed
    assert any("/private/" in url for url in forbidden)
    assert len(allowed) > len(reachable) / 4


def test_a_contact_is_one_line_with_the_path_of_its_url(web, hits):
    host = next(hosts_of(web.world, "ftp", pages=20), None) or next(hosts_of(web.world, "ftp"))
    files = [one for one in pages_of(web.world, host) if one.kind is PageKind.HTML]
    ftp = login(web, host)
    _, body = retrieved(ftp, unquote(files[0].path))
    ftp.quit()
    ftp = login(web, host)
    names_of(ftp)
    ftp.quit()
    ftp = login(web, host)
    assert retrieved(ftp, "missing file") == (404, b"")
    ftp.close()
    login(web, host).quit()  # asks for nothing
    file, listing, missing = hits()
    assert file.url == host.origin + files[0].path
    assert (file.method, file.status, file.outcome) == ("RETR", 200, AnswerEnd.OK)
    assert file.size == len(body)
    assert listing.url == host.origin + "/"
    assert listing.method in {"LIST", "MLSD"}
    assert (missing.target, missing.status, missing.size) == ("/missing%20file", 404, 0)
    for hit in (file, listing, missing):
        assert (hit.host, hit.address, hit.client) == (host.name, host.address, "127.0.0.1")
        assert 0 < hit.end - hit.start < 5


def test_ftp_hosts_fail_in_their_ways(web, hits):
    expected = {
        Behaviour.RESET: AnswerEnd.RESET,
        Behaviour.STALL: AnswerEnd.STALL,
        Behaviour.GARBAGE: AnswerEnd.GARBAGE,
    }
    for behaviour in expected:
        ftp = login(web, next(hosts_of(web.world, "ftp", behaviour=behaviour)))
        with pytest.raises((ftplib.Error, OSError, EOFError, UnicodeError)):
            ftp.retrbinary("RETR robots.txt", print)
        ftp.close()
    assert [hit.outcome for hit in hits()] == list(expected.values())
    host = next(hosts_of(web.world, "ftp", behaviour=Behaviour.SERVER_ERROR))
    with pytest.raises(ftplib.error_temp, match="421"):
        login(web, host)
    host = next(hosts_of(web.world, "ftp", behaviour=Behaviour.SLOW))
    ftp = login(web, host)
    begin = time.monotonic()
    names_of(ftp)
    assert time.monotonic() - begin > 0.09
    ftp.quit()
    host = next(hosts_of(web.world, "ftp", behaviour=Behaviour.REFUSE))
    with pytest.raises(ConnectionRefusedError):
        login(web, host)


@pytest.mark.parametrize(
    ("command", "replies"),
    [("RETR robots.txt", "425 550 450"), ("CWD nowhere", "550"), ("DELE robots.txt", "502")],
)
def test_ftp_hosts_refuse_what_they_cannot_do(web, command, replies):
    ftp = login(web, next(hosts_of(web.world, "ftp")))
    with pytest.raises(ftplib.Error) as refused:
        ftp.sendcmd(command)
    assert str(refused.value)[:3] in replies.split()
    assert ftp.quit().startswith("221")


def test_an_address_in_an_answer_to_pasv_may_be_wrong(web):
    answers = set()
    for host in hosts_of(web.world, "ftp"):
        ftp = login(web, host)
        answers.add(ftp.sendcmd("PASV").partition("(")[2].startswith("10,0,0,1,"))
        ftp.quit()
    assert answers == {True, False}


# Gopher


def ask_gopher(web, host, selector):
    with socket.create_connection((host.address, web.world.gopher_port), 10) as sock:
        sock.sendall(selector + b"\r\n")
        return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def items_of(menu):
    lines = menu.decode("latin-1").split("\r\n")
    assert lines[-2:] == [".", ""]
    return [(line[0], *line[1:].split("\t")) for line in lines[:-2]]


def url_of_item(kind, selector, host, port):
    if kind == "h" and selector.startswith("URL:"):
        return selector[4:]
    path = f"/{kind}{quote(selector.encode('latin-1'))}"
    return f"gopher://{host}:{port}{'/' if path == '/1' else path}"


def test_the_menus_of_a_gopher_host_are_what_the_world_says(web):
    kinds = Counter()
    for host in list(hosts_of(web.world, "gopher"))[:10]:
        for one in pages_of(web.world, host):
            selector = unquote(one.path[2:]).encode()
            answer = ask_gopher(web, host, selector)
            if one.leaf.status != 200:
                assert answer.startswith(b"3")
            elif one.kind is PageKind.LISTING:
                items = [item for item in items_of(answer) if item[0] != "i"]
                urls = [
                    url_of_item(kind, selector, name, port)
                    for kind, _, selector, name, port in items
                ]
                assert urls == [url_of(web.world, key) for key in links_of(web.world, one)]
                kinds.update(item[0] for item in items)
            else:
                body = b"".join(body_of(web.world, one))
                assert answer in {body, body + b"\r\n.\r\n"}
    assert {"1", "h", "g", "I"} <= set(kinds)


def test_a_gopher_contact_is_one_line_with_the_path_of_its_url(web, hits):
    host = next(hosts_of(web.world, "gopher"))
    ask_gopher(web, host, b"")
    leaf = page(web.world, host, host.pages - 1)
    ask_gopher(web, host, unquote(leaf.path[2:]).encode())
    answer = ask_gopher(web, host, b'no\tsuch "thing')
    with socket.create_connection((host.address, web.world.gopher_port), 10):
        pass  # asks for nothing
    root, document, missing = hits()
    assert (root.url, root.method, root.status) == (host.origin + "/", "GOPHER", 200)
    assert document.url == host.origin + leaf.path
    assert (missing.status, missing.size) == (404, len(answer))
    for hit in (root, document, missing):
        assert (hit.host, hit.address, hit.outcome) == (host.name, host.address, AnswerEnd.OK)
        assert 0 <= hit.end - hit.start < 5


def test_gopher_hosts_that_fail_do_so_before_they_are_asked(web):
    behaviours = {
        host.behaviour
        for index in range(web.world.hosts)
        if (host := web.world.host(index)).scheme == "gopher"
    }
    assert behaviours <= {
        *(Behaviour.SOUND, Behaviour.SLOW, Behaviour.REFUSE, Behaviour.NXDOMAIN),
        *(Behaviour.SERVFAIL, Behaviour.DNS_TIMEOUT),
    }
    slow = next(hosts_of(web.world, "gopher", behaviour=Behaviour.SLOW))
    begin = time.monotonic()
    assert items_of(ask_gopher(web, slow, b""))
    assert time.monotonic() - begin > 0.09


# the world


@pytest.mark.parametrize("name", ["mercator", "clean", "today"])
def test_shares_are_as_asked_for_and_guides_speak_http(name):
    world = preset(name, hosts=20_000, mean_pages=2, ftp=0.1, gopher=0.05)
    hosts = [world.host(index) for index in range(world.hosts)]
    counts = Counter(host.scheme for host in hosts)
    assert counts["ftp"] / world.hosts == pytest.approx(0.1, abs=0.01)
    assert counts["gopher"] / world.hosts == pytest.approx(0.05, abs=0.01)
    own = [host for host in hosts if not host.is_web]
    assert not any(host.guide or host.endless for host in own)
    sound = [host.address for host in own if host.behaviour is not Behaviour.REFUSE]
    assert len(set(sound)) == len(sound)
    assert all(address.startswith("127.") for address in sound)
    assert set(world.hosts_by_address("ftp")) | set(world.hosts_by_address("gopher")) == set(sound)


def test_paths_are_found_again_and_no_others():
    world = World(hosts=300, ftp=0.3, gopher=0.3, mean_pages=30)
    for index in range(world.hosts):
        host = world.host(index)
        paths = [one.path for one in pages_of(world, host)]
        assert len(set(paths)) == len(paths)
        if not host.is_web:
            for number, path in enumerate(paths):
                assert find_page(world, host, path).number == number
                assert find_page(world, host, path + "?hop=1") is None
            for path in ("/x", "/private/x", "//", "/1", "/x-1.html", "/news"):
                assert path in paths or find_page(world, host, path) is None


def test_stopping_logs_what_was_going_on_and_ends_at_once(tmp_path):
    world = World(hosts=120, seed=1, http_port=0, https_port=0, ftp_port=0, gopher_port=0, ftp=0.5,
                  gopher=0.2, slow_secs=60.0, faults=Faults(stall=0.3, slow=0.3))  # fmt: skip
    with start_in_process(world, log_path=tmp_path / "log") as web:
        stalling = login(web, next(hosts_of(web.world, "ftp", behaviour=Behaviour.STALL)))
        stalling.putcmd("RETR robots.txt")
        idle = login(web, next(hosts_of(web.world, "ftp")))
        slow = next(hosts_of(web.world, "gopher", behaviour=Behaviour.SLOW))
        waiting = socket.create_connection((slow.address, web.world.gopher_port), 10)
        waiting.sendall(b"\r\n")
        time.sleep(0.2)
        begin = time.monotonic()
        web.stop()
        assert time.monotonic() - begin < 5
    for one in (stalling, idle, waiting):
        one.close()
    hits = {hit.target: hit.outcome for hit in read_access_log(tmp_path / "log")}
    assert hits == {"/robots.txt": AnswerEnd.STALL, "/": AnswerEnd.CLOSED}
