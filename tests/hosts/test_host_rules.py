"""Tests of host rules: what files and commands say about a host, and the source of each rule."""

import shutil

import pytest
from scrapy.utils.project import get_project_settings

from webcrawl.errors import FatalError
from webcrawl.hosts.host_rules import HostRules


@pytest.fixture
def rules(tmp_path):
    """Return the rules of an exclusion file, without commands."""
    path = tmp_path / "excluded.txt"
    path.write_text("file.test\n/secret/\n")
    settings = get_project_settings()
    settings.set("EXCLUSION_FILE", str(path))
    made = HostRules.from_settings(settings)
    made.open()
    return made


def test_a_host_is_excluded_by_a_file_or_a_command_and_each_ends_its_own(rules):
    def found(*asked):
        return [found and found.source for found in (rules.exclusion_of(*one) for one in asked)]

    of_command = [("a.test",), ("www.a.test",), ("::ffff:8.8.8.8",), ("8.8.8.8",)]
    of_file = [("www.file.test",), ("b.test", "http://b.test/secret")]
    for host in ("a.test", "8.8.8.8", "file.test"):
        rules.command("exclude", host, source=f"exclude {host}")
    assert found(*of_file) == ["EXCLUSION_FILE"] * 2
    assert found(*of_command) == ["exclude a.test"] * 2 + ["exclude 8.8.8.8"] * 2
    assert found(("b.test", "http://b.test/"), ("test",), ("9.8.8.8",), ("",)) == [None] * 4
    for host in ("a.test", "8.8.8.8", "file.test"):
        rules.command("allow", host, source="allow")
    assert found(*of_file) == ["EXCLUSION_FILE"] * 2
    assert found(*of_command) == [None] * 4


def test_a_purged_url_is_excluded_and_a_bad_line_is_named(rules, tmp_path):
    path = tmp_path / "purged.txt"
    path.write_text("http://a.test/x\n")
    rules.open_purged(tmp_path)
    assert rules.exclusion_of("a.test", "http://a.test/x").source == "scrapy purge"
    assert not rules.exclusion_of("a.test", "http://a.test/y")
    drones = tmp_path / "drones"
    (drones / "0").mkdir(parents=True)
    shutil.copy(path, drones / "0")
    rules.open_purged(drones / "2")  # a new one, which takes over the host
    assert rules.exclusion_of("a.test", "http://a.test/x")
    path.write_text("a.test\nb c\n")
    with pytest.raises(FatalError, match=r"purged.txt: 'b c' is not a host, .* remove it\.$"):
        rules.open_purged(tmp_path)


def test_the_pace_of_the_longest_name_applies_until_it_is_ended(rules):
    def paces():
        return [rules.pace_of(host) for host in ("b.test", "a.test", "www.a.test")]

    assert paces() == [1, 1, 1]
    rules.command("slower", "", source="all", times=2)
    rules.command("faster", "a.test", source="a domain", times=4)
    rules.command("slower", "www.a.test", source="a host", times=8)
    assert paces() == [2, 1 / 4, 8]
    assert rules.commands_for("a.test") == ["a domain"]
    rules.command("slower", "a.test", source="a domain", times=3)
    rules.command("usual", "www.a.test", source="usual")
    assert paces() == [2, 3, 3]
    rules.command("usual", "", source="usual")
    assert paces() == [1, 3, 3]


def test_a_gate_lets_pass_what_a_command_frees_for_its_reason(rules):
    rules.command("free", "a.test", source="free a.test depth", reason="depth")
    rules.command("free", "", source="free all url_space", reason="url_space")
    a, b = "http://www.a.test/", "http://b.test/"
    gates = ("depth", "url_space", "reputation")
    assert [rules.may_pass(gate, a) for gate in gates] == [True, True, False]
    assert [rules.may_pass(gate, b) for gate in gates] == [False, True, False]
    assert rules.commands_for("a.test") == ["free a.test depth", "free all url_space"]
    rules.command("hold", "a.test", source="hold", reason="depth")
    assert not rules.may_pass("depth", a)
    assert rules.commands_for("a.test") == ["free all url_space"]
