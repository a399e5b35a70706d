"""The hosts of the simulated web that speak FTP and Gopher, asked by clients that share no code
with them: ftplib and plain sockets."""

import ftplib
import re
import socket
from collections import Counter
from urllib.parse import unquote

import pytest
from patience import LIMIT_SECS
from simweb_client import hosts_of, whole_log
from text_tables import each

from webcrawl.simweb import Faults, World, preset
from webcrawl.simweb.accesslog import AnswerEnd
from webcrawl.simweb.host_spec import Behaviour
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import find_page, page

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


@pytest.fixture
def hits(web):
    """Tells what the server has logged since the test began."""
    before = len(whole_log(web))
    return lambda: whole_log(web)[before:]


def host_of(world, scheme, behaviour=Behaviour.SOUND):
    return next(hosts_of(world, scheme=scheme, behaviour=behaviour))


def pages_of(world, host):
    return [page(world, host, number) for number in range(host.pages)]


def login(web, host):
    ftp = ftplib.FTP(timeout=LIMIT_SECS, encoding="utf-8")
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


def retrieved(ftp, path):
    """The status of HTTP for what the server says to RETR, and the bytes of the file."""
    parts = []
    try:
        ftp.retrbinary(f"RETR {path}", parts.append)
    except ftplib.Error as error:
        return {"550": 404, "450": 503}[str(error)[:3]], b""
    return 200, b"".join(parts)


def test_a_contact_is_one_line_with_the_path_of_its_url(web, hits):
    host = host_of(web.world, "ftp")
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
        assert 0 < hit.end - hit.start < LIMIT_SECS


# Gopher


def ask_gopher(web, host, selector):
    with socket.create_connection((host.address, web.world.gopher_port), LIMIT_SECS) as sock:
        sock.sendall(selector + b"\r\n")
        return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def test_a_gopher_contact_is_one_line_with_the_path_of_its_url(web, hits):
    host = host_of(web.world, "gopher")
    ask_gopher(web, host, b"")
    leaf = page(web.world, host, host.pages - 1)
    ask_gopher(web, host, unquote(leaf.path[2:]).encode())
    answer = ask_gopher(web, host, b'no\tsuch "thing')
    with socket.create_connection((host.address, web.world.gopher_port), LIMIT_SECS):
        pass  # asks for nothing
    root, document, missing = hits()
    assert (root.url, root.method, root.status) == (host.origin + "/", "GOPHER", 200)
    assert document.url == host.origin + leaf.path
    assert (missing.status, missing.size) == (404, len(answer))
    for hit in (root, document, missing):
        assert (hit.host, hit.address, hit.outcome) == (host.name, host.address, AnswerEnd.OK)
        assert 0 <= hit.end - hit.start < LIMIT_SECS


# the world


@each("name", "mercator", "clean", "today")
def test_shares_are_as_asked_for_and_guides_speak_http(name):
    world = preset(name, hosts=20_000, mean_pages=2, ftp=0.1, gopher=0.05)
    hosts = [*hosts_of(world)]
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
    for host in hosts_of(world):
        paths = [one.path for one in pages_of(world, host)]
        assert len(set(paths)) == len(paths)
        if not host.is_web:
            for number, path in enumerate(paths):
                assert find_page(world, host, path).number == number
                assert find_page(world, host, path + "?hop=1") is None
            for path in ("/x", "/private/x", "//", "/1", "/x-1.html", "/news"):
                assert path in paths or find_page(world, host, path) is None
