"""``scrapy simweb`` as a user runs it."""

import argparse
import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import simweb_client
import warm
from access_log_reader import read_access_log
from patience import LIMIT_SECS
from scrapy.settings import Settings
from text_tables import each, table

from webcrawl.commands.simweb import Command

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path):
    """A directory from which the project's commands can be run, leaving files there."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = simweb_test_settings\n")
    (tmp_path / "simweb_test_settings.py").write_text(
        "BOT_NAME = 'webcrawl'\nCOMMANDS_MODULE = 'webcrawl.commands'\n"
        "USER_AGENT = 'webcrawl/1.0'\n"
    )
    return tmp_path


@contextmanager
def started(project, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with warm.Popen(
        [sys.executable, "-m", "scrapy", "simweb", *arguments],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def simweb(project, *arguments):
    """Exit code, output and errors of a run that ends by itself."""
    with started(project, *arguments) as process:
        out, err = process.communicate(timeout=LIMIT_SECS)
        return process.returncode, out, err


def python(script):
    return ["--", sys.executable, "-c", script]


def test_it_says_what_it_serves_and_how_to_crawl_it_and_ends_by_ctrl_c(project):
    with started(project, "--hosts", "40", "--seed", "9", "--profile", "clean") as process:
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
        text = "".join(lines)
        assert "40 hosts, seed 9, clean" in text
        seeds, server = re.search(
            r"scrapy crawl web -a seeds=(\S+) -s DNS_SERVERS=(\S+) -s ALLOW_PRIVATE_ADDRESSES=1\n",
            text,
        ).groups()
        urls = (project / seeds).read_text().split()
        assert len(urls) == 20
        url = next(url for url in urls if url.startswith("http:"))
        reply = asyncio.run(simweb_client.Client(server).get(url))
        assert reply.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECS) == 0
        assert process.stderr.read() == ""
    log = re.search(r"access log +(\S+)", text)[1]
    (hit,) = read_access_log(project / log)
    assert hit.url == url


def test_it_names_the_protocols_and_serves_those_that_are_asked_for(project):
    begin = time.monotonic()
    code, out, _ = simweb(project, "--hosts", "4", "--seconds", "0.5")
    assert time.monotonic() - begin > 0.5
    assert (code, "FTP" in out, "GOPHER_PORTS" in out) == (0, False, False)
    before = (project / "crawls/simweb/seeds.txt").read_text()
    web = ("--hosts", "40", "--seconds", "0.3")
    for files in ([], ["--seeds-file", "o/s.txt", "--access-log", "crawls/simweb/access.log"]):
        code, _, err = simweb(project, *web, *files)
        assert (code, "belongs to another simulated web" in err, err.count("\n")) == (2, True, 1)
    assert (project / "crawls/simweb/seeds.txt").read_text() == before
    code, out, _ = simweb(
        project,
        *("--hosts", "40", "--seconds", "0.3", "--seeds-file", "other/seeds.txt"),
        *("--world", "ftp=0.2", "--world", "gopher=0.2"),
        *("--world", "ftp_port=0", "--world", "gopher_port=0"),
    )
    assert code == 0
    assert re.search(r"HTTP on port \d+, HTTPS on port \d+, FTP on port \d+, Gopher on", out)
    port = re.search(r"Gopher on port (\d+)", out)[1]
    assert f"-s GOPHER_PORTS={port}\n" in out
    assert (project / "other/access.log").exists()
    seeds = (project / "other/seeds.txt").read_text()
    assert "ftp://" in seeds
    assert "gopher://" in seeds
    code, out, _ = simweb(project, "--help")
    assert code == 0
    assert "HTTP, HTTPS, FTP, Gopher and DNS" in " ".join(out.split())


def test_a_command_runs_with_its_placeholders_filled_for_its_exit_code(project):
    script = "import sys; print(sys.argv[1:]); print(open(sys.argv[1]).readline()); sys.exit(7)"
    code, out, err = simweb(
        project,
        *("--hosts", "10", "--seeds-file", "my seeds.txt", "--access-log", "logs/a.log"),
        *python(script),
        *("{seeds}", "seeds={seeds}", "{dns}", "{log}", "{other}{}", "-s", "--hosts"),
    )
    assert code == 7
    arguments, seed = out.splitlines()[:2]
    assert re.fullmatch(
        r"\['my seeds.txt', 'seeds=my seeds.txt', '127.0.0.1:\d+', 'logs/a.log', '\{other\}\{\}', "
        r"'-s', '--hosts'\]",
        arguments,
    )
    assert re.fullmatch(r"https?://site0000\d\.sim\.test:\d+/", seed)
    assert err == ""
    assert (project / "logs/a.log").exists()


@each("number", signal.SIGINT, signal.SIGTERM)
def test_signals_go_to_the_command_once_and_it_gets_its_time_to_end(project, number):
    script = (
        "import signal, sys, time, socket\n"
        "got = []\n"
        "for n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, lambda n, f: got.append(n))\n"
        "print('ready', flush=True)\n"
        "while not got: time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "port = int(open(sys.argv[1]).readline().strip().rstrip('/').rpartition(':')[2])\n"
        "socket.create_connection(('127.16.0.1', port)).close()\n"
        "print(port, [int(n) for n in got]); sys.exit(5)"
    )
    with started(project, "--hosts", "4", *python(script), "{seeds}") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_SECS)
    port, got = out.split(maxsplit=1)
    assert (got, err) == (f"[{int(number)}]\n", "")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.16.0.1", int(port)))
    assert process.returncode == 5


def test_a_command_that_takes_too_long_gets_sigterm(project):
    code, _, err = simweb(project, "--hosts", "4", "--seconds", "0.2", "--", "sleep", "60")
    assert (code, err) == (128 + signal.SIGTERM, "")


def test_a_second_run_appends_to_the_log_of_the_first(project):
    default = project / "crawls/simweb/access.log"
    default.parent.mkdir(parents=True)
    default.write_text("old\n")
    assert simweb(project, "--hosts", "4", "--", "true")[0] == 0
    assert default.read_text() == "old\n"


@each(
    "arguments sentence",
    *table("""
        --hosts 0 | simweb: hosts must be from 1 to 4000000, not 0
        --world nonsense=1 | simweb: --world takes NAME=VALUE, not 'nonsense=1'
        --world errors=much | simweb: --world errors needs a number, not 'much'
        --world max_pages=1.5 | simweb: --world max_pages needs a whole number, not '1.5'
        --world faults.stall=2 | simweb: stall is a share from 0 to 1, not 2.0
        --nonsense | simweb: there is no option --nonsense; put a command after --
        -- /no/such/program | simweb: cannot run /no/such/program: No such file
        --seeds-file scrapy.cfg/x | simweb: scrapy.cfg: File exists
        --access-log . | simweb: cannot write the access log
    """),
)
def test_unusable_input_is_one_sentence_and_exit_code_2(
    project, arguments, sentence, monkeypatch, capsys
):
    monkeypatch.chdir(project)
    command = Command()
    command.settings = Settings()
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    opts, rest = parser.parse_known_args(["--hosts", "4", *arguments.split()])
    command.run(rest, opts)
    out, err = capsys.readouterr()
    assert (command.exitcode, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_ports_are_free_ones_and_those_of_the_last_run_if_they_are_still_free(project):
    def ports():
        web = ("--hosts", "20", "--world", "https_share=0.5", "--world", "gopher=0.2")
        code, out, err = simweb(project, *web, *python("print({gopher})"))
        assert (code, err) == (0, "")
        urls = (project / "crawls/simweb/seeds.txt").read_text().split()
        return {urlsplit(url).scheme: urlsplit(url).port for url in urls} | {"gopher": int(out)}

    with contextlib.ExitStack() as taken:
        for port in (8480, 8443, 7070, 8453):
            with contextlib.suppress(OSError):  # by another test
                taken.enter_context(socket.create_server(("127.16.0.1", port)))
        first = ports()
    assert first == ports()
    with socket.create_server(("127.16.0.1", first["http"])):
        assert first["http"] not in ports().values()
