"""``scrapy politeness-audit`` as a user runs it."""

import argparse
import gzip
import json
import os
from importlib import import_module
from pathlib import Path

import pytest
import warm
from access_lines import simweb_line
from scrapy.exceptions import UsageError
from scrapy.settings import Settings
from text_tables import each

from webcrawl.crawl.job.state_directory import StateDirectory
from webcrawl.crawl.lease.outcome_log import INFO_LOG

ROOT = Path(__file__).parents[2]
BEGIN = 1_763_625_600 * 10**6

IMPOLITE = (
    simweb_line(BEGIN, BEGIN + 2000, host="one.test"),
    simweb_line(BEGIN + 1000, BEGIN + 9000, host="two.test", path="/robots.txt"),
    simweb_line(BEGIN + 42_000, BEGIN + 50_000, host="one.test", path="/a\x1b[2J"),
    simweb_line(BEGIN + 30_000, BEGIN + 60_000, host="two.test", path="/b"),
    simweb_line(BEGIN + 59_999, BEGIN + 70_000, host="two.test", path="/c"),
    simweb_line(BEGIN + 70_000, BEGIN + 80_000, host="three.test"),
    "nonsense\n",
)

TABLE = """\
6 requests, 3 politeness keys (host), 2025-11-20 08:00:00 to 2025-11-20 08:00:00.080000 UTC
skipped: 1 line that cannot be read, the first is access.log, line 7

host        contacts  smallest gap  concurrency  required  violations
two.test           3   -0.000001 s            2     0.1 s           2
one.test           2    0.040000 s            1    0.04 s           0
three.test         1             -            1    0.04 s           0

VIOLATION for two.test: gap of -0.000001 s, required 0.1 s
  2025-11-20 08:00:00.030000 to 2025-11-20 08:00:00.060000  http://two.test:8480/b  (access.log:4)
  2025-11-20 08:00:00.059999 to 2025-11-20 08:00:00.070000  http://two.test:8480/c  (access.log:5)

VIOLATION for two.test: gap of 0.021000 s, required 0.1 s
  2025-11-20 08:00:00.001000 to 2025-11-20 08:00:00.009000  http://two.test:8480/robots.txt  (access.log:2)
  2025-11-20 08:00:00.030000 to 2025-11-20 08:00:00.060000  http://two.test:8480/b  (access.log:4)

2 violations for 1 host
"""  # noqa: E501 (what is printed for a terminal of any width)


@pytest.fixture
def audit(tmp_path):
    """Runs the command in a directory with *files*; returns exit code, output, errors."""

    def run(*arguments, files=None):
        for name, lines in (files or {}).items():
            data = "".join(lines).encode()
            (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        own = {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "webcrawl.settings"}
        done = warm.scrapy("politeness-audit", *arguments, cwd=tmp_path, env=os.environ | own)
        return done.returncode, done.stdout, done.stderr

    return run


def in_process(arguments):
    """The command without a process of its own: its exit code, or the UsageError."""
    module = import_module("webcrawl.commands.politeness-audit")
    command = module.Command()
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.settings = Settings()
    command.settings.setmodule("webcrawl.settings")
    command.add_options(parser)
    opts, rest = parser.parse_known_args(list(map(str, arguments)))
    command.run(rest, opts)
    return command.exitcode


def test_the_table_names_the_smallest_gaps_first_and_every_violation(audit):
    files = {
        "access.log": IMPOLITE,
        "polite.log": [line for line in IMPOLITE if "two.test" not in line],
        "hosts.toml": ['["two.test"]\nowner_allows = true\ndelay = 0.1\n'],
    }
    options = ("--delay", "0.04", "-s", "HOSTS_POLICY_FILE=hosts.toml")
    code, out, err = audit("access.log", *options, files=files)
    assert (code, err) == (1, "")
    assert out == TABLE
    code, out, _ = audit("polite.log", *options)
    assert code == 0
    assert out.splitlines()[-1] == ("no violations; smallest gap 0.040000 s; largest concurrency 1")


def test_machines_get_json(audit):
    code, out, err = audit(
        *("first.log", "second.log.gz", "--json", "--top", 1, "--delay", 0.05),
        files={"first.log": IMPOLITE[:4], "second.log.gz": IMPOLITE[4:]},
    )
    assert (code, err) == (1, "")
    report = json.loads(out)
    (worst,) = report.pop("worst")
    assert worst == {
        "key": "two.test",
        "gap": -1e-06,
        "required": 0.05,
        "before": {
            "start": 1763625600.03,
            "end": 1763625600.06,
            "url": "http://two.test:8480/b",
            "log": "first.log",
            "line": 4,
        },
        "after": {
            "start": 1763625600.059999,
            "end": 1763625600.07,
            "url": "http://two.test:8480/c",
            "log": "second.log.gz",
            "line": 1,
        },
    }
    assert report == {
        "format": 2,
        "politeness_key": "host",
        "requests": 6,
        "lines": 7,
        "unreadable": 1,
        "first_unreadable": "second.log.gz, line 3",
        "unjudged": 0,
        "first": 1763625600.0,
        "last": 1763625600.08,
        "keys": 3,
        "smallest_gap": -1e-06,
        "largest_concurrency": 2,
        "violations": 3,
        "by_key": [
            {
                "key": "two.test",
                "contacts": 3,
                "smallest_gap": -1e-06,
                "largest_concurrency": 2,
                "required": 0.05,
                "violations": 2,
            }
        ],
    }


def test_text_from_clients_cannot_control_the_terminal(audit):
    hostile = [
        simweb_line(BEGIN, BEGIN + 9, host="a\x1b[31m.test", path="/\x1b]0;owned\x07"),
        simweb_line(BEGIN + 5, BEGIN + 9, host="a\x1b[31m.test", path="/\u202eevil\u0007\x9b"),
    ]
    code, out, _ = audit("access.log", "--delay", 0, files={"access.log": hostile})
    assert code == 1
    assert all(line.isprintable() for line in out.splitlines())
    assert r"a\x1b[31m.test" in out
    assert r"/\x1b]0;owned\x07" in out


@each(
    "arguments sentence",
    (["no.log", "--delay", 1], "cannot read no.log: No such file or directory"),
    (["good.log"], "No delay is known, so nothing was checked: give the required one with"),
)
def test_unusable_input_is_one_sentence_and_exit_code_2(
    tmp_path, monkeypatch, capsys, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    Path("good.log").write_text(IMPOLITE[0])
    assert in_process(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"politeness-audit: {sentence}")
    assert err.count("\n") == 1


NIELSEN = {"POLITENESS_PROFILE": "nielsen"}
OWN_LINES = "".join(
    f'{{"url":"http://{host}.test/","sent":{at},"took":0.5,"outcome":"http_200"}}\n'
    for host, at in (("a", 0), ("b", 3), ("a", 3.4))
)


@each(
    "kept options code",
    ({}, [], 1),  # three seconds are the profile's
    ({"POLITENESS_MIN_DELAY": "2.9"}, [], 0),
    ({"DOWNLOAD_DELAY": "3.1"}, [], 1),
    (NIELSEN, [], 1),
    ({"POLITENESS_MIN_DELAY": "2.9"}, ["--delay", 3], 1),
    ({"POLITENESS_MIN_DELAY": "2.9"}, ["--key", "domain"], 2),
    ({"POLITENESS_POLICY": "my.Policy"}, [], 2),
    ({"POLITENESS_POLICY": "my.Policy"}, ["--delay", 1], 0),
    (None, [], 2),
)
def test_a_jobs_own_log_is_judged_by_the_delay_of_its_settings(
    tmp_path, capsys, kept, options, code
):
    log = tmp_path / INFO_LOG
    log.parent.mkdir()
    log.write_text(OWN_LINES)
    own = StateDirectory(path=tmp_path, boot="")
    own.begin()
    own.facts = {} if kept is None else {"settings": kept}
    prepared = own.prepare()
    own.write(prepared)
    own.publish(prepared)
    assert in_process([tmp_path, *options]) == code
    assert ("required 70 s" in capsys.readouterr().out) == (kept == NIELSEN)


def test_without_a_job_and_logs_there_is_nothing_to_check():
    with pytest.raises(UsageError, match="name one job directory"):
        in_process([])


def test_unchecked_contacts_do_not_pass_the_audit(monkeypatch, tmp_path, capsys):
    logs = import_module("webcrawl.jobs.audit.access_logs")
    monkeypatch.setitem(logs.audit_logs.__kwdefaults__, "window", 1)
    path = tmp_path / "access.log"
    path.write_text("".join(simweb_line(BEGIN + at, BEGIN + at) for at in (50, 40, 30, 20)))
    assert in_process([path, "--delay", 0]) == 2
    assert "not checked: 2 requests too far out of order; sort the log" in capsys.readouterr().out
