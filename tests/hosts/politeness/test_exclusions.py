"""The exclusion file: what its lines mean, and that a change of it acts while a crawl runs."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings

from webcrawl.errors import FatalError
from webcrawl.hosts.politeness.exclusions import ExclusionRules, Exclusions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import FakeClock


@contextlib.contextmanager
def exclusions_of(path: Path, clock: FakeClock, text: str | bytes = "") -> Iterator[Exclusions]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    exclusions = Exclusions(path=path, clock=clock)
    exclusions.open()
    try:
        yield exclusions
    finally:
        exclusions.close()


def look(exclusions: Exclusions, clock: FakeClock) -> None:
    """A second later: look at the file, and wait for the reading if there is any."""
    clock.advance(1)
    exclusions.reload_if_changed()
    if exclusions.reading is not None:
        exclusions.reading.result(timeout=30)


def reload(exclusions: Exclusions, clock: FakeClock) -> None:
    """Two looks, after which a changed file is read."""
    look(exclusions, clock)
    look(exclusions, clock)


def rules(*lines: str) -> ExclusionRules:
    made = ExclusionRules()
    for line in lines:
        made.add(line)
    return made


@pytest.mark.parametrize(
    ("line", "excluded", "others"),
    [
        (
            "example.com",
            ["example.com", "www.example.com", "a.b.example.com"],
            ["com", "notexample.com", "example.com.org", "example.org", "xample.com"],
        ),
        ("=www.example.com", ["www.example.com"], ["example.com", "a.www.example.com"]),
        ("*.example.com", ["example.com", "a.example.com"], ["com"]),
        (".example.com.", ["example.com", "a.example.com"], ["com"]),
        ("EXAMPLE.com", ["example.com"], ["example.org"]),
        ("bücher.example", ["xn--bcher-kva.example", "a.xn--bcher-kva.example"], ["example"]),
        ("=Bücher.example", ["xn--bcher-kva.example"], ["a.xn--bcher-kva.example"]),
        ("xn--bcher-kva.example", ["xn--bcher-kva.example"], []),
        ("intranet", ["intranet", "www.intranet"], ["intra"]),
        ("under_score.test1", ["under_score.test1"], ["test1"]),
        ("10.1.2.3", ["10.1.2.3", "::ffff:10.1.2.3"], ["10.1.2.4", "2.3", "1.2.3"]),
        ("=10.1.2.3", ["10.1.2.3"], ["10.1.2.4"]),
        ("10.1.0.0/16", ["10.1.2.3", "10.1.255.255"], ["10.2.0.0", "10.1.test", "a1"]),
        ("10.1.2.3/8", ["10.0.0.0", "10.255.0.1"], ["11.0.0.0"]),
        ("0.0.0.0/0", ["10.0.0.0", "::ffff:1.2.3.4"], ["::1", "host1"]),
        ("2001:DB8::/32", ["2001:db8::1", "2001:db8:ffff::"], ["2001:db9::", "32.1.13.184"]),
        ("[2001:db8::1]", ["2001:db8::1", "2001:db8:0:0::1"], ["2001:db8::2"]),
        ("::ffff:10.0.0.0/104", ["10.1.1.1", "::ffff:10.2.2.2"], ["11.0.0.0"]),
        ("1.2.3.0/24", ["64:ff9b::1.2.3.4", "2002:102:304::1"], ["64:ff9b::1.2.4.4", "2002::1"]),
        ("64:ff9b::/96", ["64:ff9b::1.2.3.4", "64:ff9b::"], ["1.2.3.4", "64:ff9c::"]),
        ("::/0", ["::1", "2001:db8::"], ["10.0.0.0"]),
    ],
)
def test_a_line_excludes_its_hosts_and_no_others(line, excluded, others):
    made = rules(line)
    assert len(made) == 1
    assert [host for host in excluded if not made.excludes(host)] == []
    assert [host for host in others if made.excludes(host)] == []


def test_rules_of_all_kinds_live_side_by_side():
    made = rules("example.com", "=a.test", "10.0.0.0/8", "10.1.0.0/16", "=a.test", "8.8.8.8")
    assert len(made) == 5
    for host in ("www.example.com", "a.test", "10.200.0.1", "10.1.0.1", "8.8.8.8"):
        assert made.excludes(host)
    for host in ("www.a.test", "test", "9.9.9.9", "8.8.8.9", "::1", ""):
        assert not made.excludes(host)


@pytest.mark.parametrize("line", ["", "  ", "# example.com", "\t#"])
def test_comments_and_empty_lines_exclude_no_host(line):
    assert len(rules(line)) == 0


@pytest.mark.parametrize("line", ["example.com # since May", "example.com\r\n", "\texample.com "])
def test_spaces_and_comments_around_a_rule_do_no_harm(line):
    assert rules(line).excludes("example.com")


@pytest.mark.parametrize(
    "line",
    [
        "https://example.com/", "example.com/path", "example.com:80", "me@example.com", "a b.test",
        "10.0.0.0/33", "10.0.0.1.5/8", "1.2.3.256", "::x", "[::1", "*", ".", "=", "==a.test",
        "*example.com?", "a..test", "a%2e.test", "=*.test", "x" * 64 + "\ud7ff.test",
        ".".join(["x" * 60] * 5), "\0",
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused_and_changes_nothing(line):
    made = ExclusionRules()
    with pytest.raises(ValueError, match=r"is no host, address, network or /expression/$"):
        made.add(line)
    assert len(made) == 0


LABELS = st.sampled_from(["a", "b", "c", "xn--a", "1", "a1"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(lambda labels: ".".join([*labels, "test"]))


@given(domains=st.sets(NAMES), exact=st.sets(NAMES), hosts=st.lists(NAMES))
def test_a_host_is_excluded_by_its_name_or_a_domain_above_it(domains, exact, hosts):
    made = ExclusionRules()
    for name in domains:
        made.add(name)
    for name in exact:
        made.add("=" + name)
    assert len(made) == len(domains) + len(exact)
    for host in [*hosts, *domains, *exact]:
        labels = host.split(".")
        above = {".".join(labels[n:]) for n in range(len(labels))}
        assert made.excludes(host) == bool(host in exact or above & domains)


@given(st.text())
def test_no_line_can_do_more_than_be_refused(line):
    made = ExclusionRules()
    with contextlib.suppress(ValueError):
        made.add(line)
    assert not made.excludes("webcrawl.invalid.test")


def test_without_a_file_no_host_is_excluded(clock):
    exclusions = Exclusions.from_settings(Settings())
    exclusions.open()
    exclusions.reload_if_changed()
    assert not exclusions.excludes("example.com")
    assert exclusions.stats() == {"rules": 0, "bad_lines": 0, "reloads": 0}
    exclusions.close()


def test_the_setting_names_the_file(tmp_path):
    path = tmp_path / "excluded.txt"
    path.write_text("example.com\n")
    exclusions = Exclusions.from_settings(Settings({"EXCLUSION_FILE": str(path)}))
    exclusions.open()
    assert exclusions.excludes("www.example.com")


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_a_file_that_is_not_there_at_the_start_is_a_sentence(tmp_path, name):
    exclusions = Exclusions.from_settings(Settings({"EXCLUSION_FILE": str(tmp_path / name)}))
    with pytest.raises(FatalError, match=r"^EXCLUSION_FILE .* cannot be read \(.*\): .*\.$"):
        exclusions.open()


def test_a_changed_file_acts_without_a_restart(tmp_path, clock):
    path = tmp_path / "excluded.txt"
    with exclusions_of(path, clock, "a.test\n") as exclusions:
        path.write_text("a.test\nb.test")
        reload(exclusions, clock)
        assert exclusions.excludes("a.test")
        assert exclusions.excludes("b.test")
        path.write_text("b.test")
        reload(exclusions, clock)
        reload(exclusions, clock)
        assert not exclusions.excludes("a.test")
        assert exclusions.stats() == {"rules": 1, "bad_lines": 0, "reloads": 2}


def test_a_file_that_is_being_written_takes_no_rule_away(tmp_path, clock):
    """``cp`` and many an editor empty it first."""
    path = tmp_path / "excluded.txt"
    with exclusions_of(path, clock, "a.test\nb.test\n") as exclusions:
        for text in ("", "c.test\na.te", "c.test\na.test\n"):
            path.write_text(text)
            look(exclusions, clock)
            assert exclusions.excludes("a.test")
            assert exclusions.excludes("b.test")
        look(exclusions, clock)
        assert exclusions.excludes("a.test")
        assert exclusions.excludes("c.test")
        assert not exclusions.excludes("b.test")
        assert exclusions.reloads == 1


def test_a_file_put_in_its_place_is_noticed_by_its_inode(tmp_path, clock):
    path = tmp_path / "excluded.txt"
    with exclusions_of(path, clock, "a.test\n") as exclusions:
        before = path.stat()
        other = tmp_path / "other"
        other.write_text("b.test\n")
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.replace(path)
        reload(exclusions, clock)
        assert exclusions.excludes("b.test")


def test_an_unchanged_file_is_not_read_again_and_looked_at_once_a_second(tmp_path, clock):
    path = tmp_path / "excluded.txt"
    with exclusions_of(path, clock, "a.test\n") as exclusions:
        for _ in range(5):
            reload(exclusions, clock)
        assert exclusions.reading is None
        path.write_text("b.test\nc.test\n")
        for _ in range(8):
            exclusions.reload_if_changed()
            clock.advance(0.1)
        assert exclusions.reading is None
        reload(exclusions, clock)
        assert exclusions.excludes("b.test")


def test_a_file_that_vanishes_takes_no_rule_away_and_is_missed_once(tmp_path, clock, caplog):
    path = tmp_path / "excluded.txt"
    with exclusions_of(path, clock, "a.test\n") as exclusions:
        path.rename(tmp_path / "away")
        for _ in range(3):
            reload(exclusions, clock)
            assert exclusions.excludes("a.test")
        (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert told.getMessage() == (
            f"EXCLUSION_FILE {path} cannot be read (No such file or directory): "
            "its last rules stay in force (1)"
        )
        # A directory has no lines either.
        path.mkdir()
        reload(exclusions, clock)
        assert exclusions.excludes("a.test")
        path.rmdir()
        (tmp_path / "away").rename(path)
        clock.advance(60)
        reload(exclusions, clock)
        assert exclusions.stats() == {"rules": 1, "bad_lines": 0, "reloads": 0}
        path.unlink()
        reload(exclusions, clock)
        assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2


def test_bad_lines_are_named_by_file_and_number_and_the_others_act(tmp_path, clock, caplog):
    path = tmp_path / "excluded.txt"
    with exclusions_of(
        path, clock, b"\xef\xbb\xbf# ours\na..test\nb.test\n\xff\xfe\n"
    ) as exclusions:
        assert exclusions.excludes("b.test")
        assert exclusions.stats() == {"rules": 1, "bad_lines": 2, "reloads": 0}
        first, second = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert first == (
            f"{path}, line 2 excludes nobody: 'a..test' is no host, address, network or "
            "/expression/"
        )
        assert second.startswith(f"{path}, line 4 excludes nobody: 'utf-8' codec can't decode")
        caplog.clear()
        path.write_bytes(b"a b\n" * 1000)
        reload(exclusions, clock)
        messages = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert len(messages) == 10
        assert messages[-1].endswith("further such lines are only counted")
        assert exclusions.stats()["bad_lines"] == 1000
