"""Tests of BLOCKLISTS: the layout of UT1, rules that are URLs, outcomes by category, memory."""

import json
import os

import pytest
from scrapy.utils.project import get_project_settings
from text_tables import each, table

from webcrawl.configuration.memory_budget import sizes
from webcrawl.errors import FatalError
from webcrawl.hosts.host_rules import HostRules

UT1 = {
    "domains": "bad.test\n10.1.2.3\nxn--bcher-kva.example\n",
    "urls": "files.test/~eve\n10.1.0.0/16/mozi.m\n10.9.0.0/1\nwww.pages.test/a/b.html?x=1\n"
    "[::1]/x\nport.test:80/y\n",
    "expressions": "(^|[-?+=&/_])(casino|poker)s?([-?+=&/_]|$)\n",
}


@pytest.fixture
def directory(tmp_path):
    """Return a list in the layout of UT1, last changed on 2026-11-20."""
    for name, text in UT1.items():
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1_795_000_000,) * 2)
    return tmp_path


def rules_of(lists):
    settings = get_project_settings()
    settings.set("BLOCKLISTS", json.dumps(lists))
    made = HostRules.from_settings(settings)
    made.open()
    return made


@each(
    "host url part",
    *table("""
        bad.test         | http://bad.test/                      | domains
        www.bad.test     | https://www.bad.test/x                | domains
        10.1.2.3         | http://10.1.2.3/                      | domains
        files.test       | https://files.test/~eve               | urls
        files.test       | http://files.test/~eve/x.exe?y        | urls
        www.files.test   | http://www.files.test/~eve?z          | urls
        10.1.0.0         | http://10.1.0.0/16/mozi.m             | urls
        pages.test       | http://pages.test/a/b.html?x=1        | urls
        files.test       | https://files.test:8443/~eve/x        | urls
        www.pages.test   | http://www.pages.test:81/a/b.html?x=1 | urls
        10.1.0.0         | http://10.1.0.0:8080/16/mozi.m        | urls
        [::1]            | http://[::1]:80/x                     | urls
        [::1]            | http://[::1]/x/y                      | urls
        port.test        | http://port.test/y                    | urls
        port.test        | http://port.test:90/y                 | urls
        files.test       | http://files.test:8080/~evelyn        |
        files.test       | http://files.test/x:80/~eve           |
        c.test           | http://c.test/best-Casinos/           | expressions
        files.test       | http://files.test/~evelyn             |
        files.test       | http://files.test/                    |
        10.1.9.9         | http://10.1.9.9/                      |
        pages.test       | http://pages.test/a/b.html            |
        notbad.test      | http://notbad.test/casinova           |
    """),
)
def test_a_list_in_the_layout_of_ut1_blocks_its_urls_and_no_others(directory, host, url, part):
    found = rules_of({"adult": str(directory)}).exclusion_of(host, url)
    source = f"BLOCKLISTS adult/{part}: {directory / part} of 2026-11-18"
    assert found == ((source, "excluded_adult") if part else None)


def test_each_list_is_counted_by_its_category(directory):
    own = directory / "own.txt"
    own.write_text("http://a.test/x/\nhttps://b.test\na/b\n")
    lists = rules_of({"malware": str(directory), "own": str(own)}).blocklists
    counts = {name: (len(file.rules), file.stats()["bad_lines"]) for name, file in lists.items()}
    parts = {"malware/domains": (3, 0), "malware/urls": (6, 0), "malware/expressions": (1, 0)}
    assert counts == parts | {"own": (2, 1)}
    assert lists["own"].rules.is_excluded("b.test", "https://b.test/y")
    assert not lists["own"].rules.is_excluded("b.test", "https://b.test:81/y")


@each(
    "value reason",
    ({"adult": "empty"}, "empty has none of the files domains, urls, exp"),
    ({"../x": "."}, r"BLOCKLISTS has the category '\.\./x'; it must be a word"),
    ({"own": 3}, "BLOCKLISTS 3 cannot be read"),
    (["own"], "BLOCKLISTS must be a dictionary"),
    ({"own": "missing"}, "BLOCKLISTS missing cannot be read .*: create it"),
)
def test_a_bad_list_is_refused_in_one_sentence(directory, monkeypatch, value, reason):
    monkeypatch.chdir(directory)
    (directory / "empty").mkdir()
    with pytest.raises(FatalError, match=reason):
        rules_of(value)


def test_memory_for_the_lists_is_set_aside_or_the_lists_are_refused(directory):
    settings = get_project_settings()
    whole = sizes(settings)["queues"]
    os.truncate(directory / "domains", 90_000_000)
    settings.set("BLOCKLISTS", {"adult": str(directory)})
    assert sizes(settings)["queues"] < 0.9 * whole
    settings.set("MEMORY_BUDGET", "64MB")
    with pytest.raises(FatalError, match=r"at least \d+ bytes, 90000\d+ of them for BLOCKLISTS;"):
        sizes(settings)
