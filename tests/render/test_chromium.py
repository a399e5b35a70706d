"""Pages in the Chromium of this machine, which has no network and sees no files."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from crawling import RIGS, ROOT, descendants, wait_for_the_end_of, wait_until
from rendered_pages import (
    SITE,
    answer,
    cases,
    expected,
    leaving,
    links,
    outliving,
    page,
    shown,
    stored,
)
from text_tables import words

from webcrawl.render import chromium, hostile_check, isolation
from webcrawl.render.chromium import Chromium
from webcrawl.render.engine import EngineError, Pass
from webcrawl.render.isolation import Isolation
from webcrawl.render.worker import RenderOrder, RenderWorker, _start

pytestmark = pytest.mark.long

HOSTILE = {"cpu_secs": 2, "wall_secs": 20, "nodes": 2000, "requests": 50, "bytes": 4_000_000}
LOOK = (
    "id -u; ls /; cat /proc/net/dev; ls -A /proc | grep -c '^[0-9]'; env; ls -A; touch x && echo ok"
)


@pytest.fixture(scope="module")
def engine():
    engine = Chromium()
    engine.start()
    yield engine
    engine.stop()


@pytest.mark.parametrize("case", cases("page"))
def test_a_page_shows_its_links_and_what_it_lacks(engine, case):
    rendering = engine.render(page(case["html"]), stored)
    assert rendering.ended == "settled"
    assert shown(rendering) == expected(case)


def test_pages_of_an_origin_do_not_see_what_another_has_stored(engine):
    look = "[document.cookie, localStorage.a, sessionStorage.a, name].join('')"
    keep = "document.cookie = 'a=1'; localStorage.a = sessionStorage.a = name = 1;"
    html = f"<p></p><script>document.querySelector('p').id = 'x' + {look}; {keep}</script>"
    assert ['<p id="x">' in engine.render(page(html), stored).html for _ in range(2)] == [True] * 2


# Shows what a page finds that an earlier one has left, and fetches data until it knows.
LOOKING = """<p id=out></p><script>
const found = [document.cookie, {...localStorage}, {...sessionStorage}, name, history.length < 3];
document.cookie = 'own=1';
let looks = true;
(async () => { while (looks) await fetch('/data.json') })();
(async () => {
  found.push(await indexedDB.databases(), await caches.keys());
  found.push(await navigator.storageBuckets.keys());
  found.push((await cookieStore.getAll()).length, (await navigator.locks.query()).held);
  found.push((await navigator.serviceWorker.getRegistrations()).length);
  for await (const file of (await navigator.storage.getDirectory()).keys()) found.push(file);
  looks = false;
  out.textContent = JSON.stringify(found);
})();
</script>"""
NOTHING = '["",{},{},"",true,[],[],[],1,[],0]'


@pytest.mark.parametrize("html", outliving())
def test_nothing_outlives_a_page(engine, html):
    site, asked = "https://site.test", set()

    def look_up(subresource):
        asked.add(subresource.url)
        url = subresource.url.replace(site, SITE)
        return stored(msgspec.structs.replace(subresource, url=url))

    engine.render(Pass(f"{site}/page", answer(html.replace(SITE, site))), look_up)
    asked.clear()
    seen = engine.render(Pass(f"{site}/next", answer(LOOKING)), look_up)
    assert (seen.ended, seen.missing, seen.refused) == ("settled", [], [])
    assert f'<p id="out">{NOTHING}</p>' in seen.html
    assert asked == {f"{site}/data.json"}
    assert seen.bytes == len('["/p1", "/p2"]') * seen.requests


@pytest.mark.parametrize("html", leaving())
def test_a_page_that_leaves_without_a_request_is_stored_as_it_was(engine, html):
    rendering = engine.render(page(f"<a href=/stays>x</a>{html}"), stored)
    assert (rendering.ended, links(rendering)[:1]) == ("settled", ["/stays"])


TIMES = "[Date.now(), +new Date, +new Date(), performance.timeOrigin, performance.now()]"
SENDS = f"""<script>
var send = (from, list) => fetch('/' + from + '?' + list);
send('page', {TIMES}); send('random', [Math.random(), Math.random()]);
send('called', Date());
const source = "postMessage([{TIMES}, Math.random()])";
new Worker(URL.createObjectURL(new Blob([source]))).onmessage = e => send('worker', e.data);
setTimeout(() => send('late', [Date.now(), Math.round(performance.now())]), 1000);
</script>
<iframe srcdoc="<script>parent.send('frame', [new Date(), Math.random()])</script>"></iframe>"""


def test_each_pass_of_a_page_asks_for_the_same_urls(engine):
    at = 1_700_000_000_000

    def asked(name):
        given = Pass(f"{SITE}/{name}", answer(SENDS), fetched_at=at / 1000)
        rendering = engine.render(given, stored)
        pairs = (one.url.removeprefix(f"{SITE}/").split("?") for one in rendering.missing)
        return {name: values.split(",") for name, values in pairs}

    first, other, again = asked("a"), asked("b"), asked("a")
    assert first == again
    assert first["page"] == first["worker"][:5] == [str(at)] * 4 + ["0"]
    assert first["late"] == [str(at + 1000), "1000"]
    for name in ("frame", "called"):
        assert first[name][0].startswith("Tue%20Nov%2014%202023%2022:13:20")
    assert len({*first["random"], *other["random"]}) == 4


@pytest.mark.parametrize("case", cases("hostile"))
def test_a_hostile_page_stays_within_its_bounds(case):
    engine = Chromium()
    engine.start()
    try:
        rendering = engine.render(page(case["html"], **HOSTILE), stored)
    finally:
        engine.stop()
    assert rendering.ended in case["ended"]
    assert links(rendering) == case.get("links", links(rendering))
    assert rendering.cpu_secs < 2 * HOSTILE["cpu_secs"] + 4
    assert rendering.memory < 3 << 30
    assert rendering.requests <= HOSTILE["requests"]
    assert rendering.bytes <= HOSTILE["bytes"]
    assert max(map(len, (rendering.missing, rendering.refused))) <= 1000


def looked(isolation, script):
    with subprocess.Popen(
        isolation.command(["sh", "-c", script]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=isolation.environment,
        text=True,
    ) as process:
        return process.communicate()[1]  # its output goes to the log


def test_the_program_has_no_network_no_files_no_keys_and_is_not_root(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    place = Isolation("/bin/sh")
    seen = looked(place, LOOK)
    assert place.warning == ""
    assert seen.startswith("65534\n")
    assert "lo:" in seen
    assert not {"eth0:", "secret", "work", "root", "home"} & {*seen.split()}
    assert seen.endswith("ok\n")


def as_nobody(code, *arguments):
    """Run *code* as an ordinary user; what it prints."""
    user = words("setpriv --reuid 65534 --regid 65534 --clear-groups") * (os.geteuid() == 0)
    run = subprocess.run(
        [*user, sys.executable, "-c", code, *arguments],
        env={
            "PYTHONPATH": f"{ROOT}:{RIGS}",
            "PATH": os.environ["PATH"],
            "TMPDIR": "/tmp",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


# From here on, the system allows this process no further namespaces of users.
WITHOUT = """
import ctypes
from pathlib import Path
assert ctypes.CDLL(None).unshare(0x10000000) == 0  # CLONE_NEWUSER
Path("/proc/self/setgroups").write_text("deny")
Path("/proc/self/uid_map").write_text("65534 65534 1")
Path("/proc/self/gid_map").write_text("65534 65534 1")
Path("/proc/sys/user/max_user_namespaces").write_text("0")
"""
STARTS = """
from webcrawl.render import chromium
engine = chromium.Chromium()
try:
    engine.start()
    print("started")
except chromium.EngineError as error:
    print(error)
engine.stop()
"""
RENDERED = """
from rendered_pages import page, stored
from webcrawl.render import chromium, hostile_check, isolation
if "without namespaces" in __import__("sys").argv:
    isolation._NAMESPACES = ["false"]
engine = chromium.Chromium()
engine.start()
html = "<p>x<script>document.body.append('a' + 'b')</script>"
print(engine.warning, "ab</body>" in engine.render(page(html), stored).html)
print(hostile_check.reached_by(engine))
engine.stop()
"""


@pytest.mark.cures("allow user namespaces, or render on another machine.")
@pytest.mark.parametrize("how", ["without namespaces", "namespaces"])
def test_an_ordinary_user_needs_no_rights(how):
    warning = isolation._WARNING * (how == "without namespaces")
    assert as_nobody(RENDERED, how) == f"{warning} True\n[]\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="the user is that of the tests")
@pytest.mark.cures("allow user namespaces, or install the package chromium-sandbox.")
def test_a_system_without_namespaces_is_told_to_allow_them():
    assert "allow user namespaces, or install the package" in as_nobody(WITHOUT + STARTS)
    assert as_nobody(STARTS) == "started\n"


def test_no_page_gets_out_of_the_namespaces(engine):
    assert hostile_check.reached_by(engine) == []


@pytest.mark.cures("allow namespaces on this machine, or set RENDER=0.")
def test_the_hostile_page_finds_the_holes_of_an_engine_without_rules(monkeypatch):
    flags = [flag for flag in words(chromium._FLAGS) if not re.search("nowhere|NOTFOUND", flag)]
    monkeypatch.setattr(chromium, "_FLAGS", " ".join(flags))
    monkeypatch.setattr(isolation, "_NAMESPACES", ["false"])
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")  # which another user may enter
    engine = Chromium()
    engine.start()
    try:
        assert "namespaces" in engine.warning
        reached = {*hostile_check.reached_by(engine)}
        assert reached >= {"frame", "webrtc", "websocket", "worker"}
        engine.stop()
        assert "allow namespaces on this machine, or set RENDER=0." in _start(engine, check=True)
        engine.stop()
        monkeypatch.undo()
        assert _start(engine, check=True) == ""
    finally:
        engine.stop()


def test_packets_in_the_namespace_of_an_engine_are_found(monkeypatch):
    flags = [flag for flag in words(chromium._FLAGS) if not re.search("nowhere|NOTFOUND", flag)]
    monkeypatch.setattr(chromium, "_FLAGS", " ".join(flags))
    monkeypatch.setattr(isolation, "_ENTER", f"ip link set lo up; {isolation._ENTER}")
    engine = Chromium()
    engine.start()
    try:
        assert engine.warning == ""
        (reached,) = hostile_check.reached_by(engine)
    finally:
        engine.stop()
    assert re.fullmatch("[1-9][0-9]* packets", reached)


def test_the_debugger_listens_nowhere(engine):
    tables = [Path(f"/proc/{engine.pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    assert [
        line for table in tables for line in table.splitlines() if line.split()[3] == "0A"
    ] == []


@pytest.mark.cures("name another program with RENDER_ENGINE.", "RENDER needs Chromium, and {} is")
def test_a_program_that_is_no_browser_is_a_sentence(engine):
    for program, sentence in (
        (
            "/bin/false",
            r"/bin/false does not start \(it has ended\): name another program with REND",
        ),
        ("chromuim", "chromuim is not a program: .* or name the program with RENDER_ENGINE"),
    ):
        with pytest.raises(EngineError, match=sentence):
            Chromium(program).start()
    assert engine.render(page("<p>x"), stored).ended == "settled"


def test_a_worker_replaces_what_crashed_and_leaves_nothing():
    worker = RenderWorker(RenderOrder("rendered_pages:opened", "", check=True))
    try:
        assert worker.start() == ""
        html = "<p>x<script>document.body.append('a' + 'b')</script>"
        assert "ab</body>" in worker.render(page(html)).html
        assert worker.render(page("<script>for (;;);</script>", cpu_secs=0.5)).ended == "cpu"
        assert "ab</body>" in worker.render(page(html)).html
        process = worker._process
        process.kill()
        assert worker.render(page(html)).ended == "crashed"
        assert "ab</body>" in worker.render(page(html)).html
        processes = descendants(worker._process.pid)
    finally:
        worker.stop()
    wait_for_the_end_of(processes)


OWNER = """
import sys
from rendered_pages import page
from webcrawl.render.worker import RenderOrder, RenderWorker
worker = RenderWorker(RenderOrder("rendered_pages:opened", "", path=sys.argv[1]))
worker.start()
print(flush=True)
worker.render(page("<script>for (;;);</script>", cpu_secs=60, wall_secs=60))
"""


@pytest.fixture
def open_directory():
    """A directory that another user may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


@pytest.mark.parametrize("engine", ["", "rendered_pages:chromium_without_namespaces"])
def test_a_crawl_that_is_killed_ends_its_engine_and_the_next_deletes_what_it_left(
    open_directory, monkeypatch, engine
):
    path = f"{ROOT}:{RIGS}"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, engine],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(open_directory)},
    )
    with owner:
        owner.stdout.readline()
        wait_until(lambda: len(descendants(owner.pid)) > 6)
        time.sleep(1)  # the page runs
        processes = descendants(owner.pid)
        owner.kill()
    wait_for_the_end_of(processes)
    assert len([*open_directory.iterdir()]) == bool(engine)
    monkeypatch.setattr(tempfile, "tempdir", str(open_directory))
    Isolation("/bin/sh").remove()
    assert [*open_directory.iterdir()] == []
