"""Tests of the exclusion file: what its lines mean, and that changes apply to a running crawl."""

import contextlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import LIMIT_SECS
from scrapy.settings import Settings
from text_tables import each, table

from webcrawl.errors import FatalError
from webcrawl.hosts.politeness.exclusions import ExclusionRules, exclusion_file, purge_rules


def rules(*lines):
    made = ExclusionRules()
    for line in lines:
        made.add(line)
    made.complete()
    return made


@each(
    "line excluded others",
    *table("""
        example.com | example.com www.example.com a.b.example.com
            | com notexample.com example.com.org example.org xample.com
        =www.example.com | www.example.com | example.com a.www.example.com
        *.example.com | example.com a.example.com | com
        .example.com. | example.com a.example.com | com
        EXAMPLE.com | example.com | example.org
        bücher.example | xn--bcher-kva.example a.xn--bcher-kva.example | example
        =Bücher.example | xn--bcher-kva.example | a.xn--bcher-kva.example
        xn--bcher-kva.example | xn--bcher-kva.example |
        intranet | intranet www.intranet | intra
        under_score.test1 | under_score.test1 | test1
        10.1.2.3 | 10.1.2.3 ::ffff:10.1.2.3 | 10.1.2.4 2.3 1.2.3
        =10.1.2.3 | 10.1.2.3 | 10.1.2.4
        10.1.0.0/16 | 10.1.2.3 10.1.255.255 | 10.2.0.0 10.1.test a1
        10.1.2.3/8 | 10.0.0.0 10.255.0.1 | 11.0.0.0
        0.0.0.0/0 | 10.0.0.0 ::ffff:1.2.3.4 | ::1 host1
        2001:DB8::/32 | 2001:db8::1 2001:db8:ffff:: | 2001:db9:: 32.1.13.184
        [2001:db8::1] | 2001:db8::1 2001:db8:0:0::1 | 2001:db8::2
        ::ffff:10.0.0.0/104 | 10.1.1.1 ::ffff:10.2.2.2 | 11.0.0.0
        1.2.3.0/24 | 64:ff9b::1.2.3.4 2002:102:304::1 | 64:ff9b::1.2.4.4 2002::1
        64:ff9b::/96 | 64:ff9b::1.2.3.4 64:ff9b:: | 1.2.3.4 64:ff9c::
        ::/0 | ::1 2001:db8:: | 10.0.0.0
    """),
)
def test_a_line_excludes_its_hosts_and_no_others(line, excluded, others):
    made = rules(line)
    assert len(made) == 1
    assert [host for host in excluded.split() if not made.is_excluded(host)] == []
    assert [host for host in others.split() if made.is_excluded(host)] == []


def test_rules_of_all_kinds_live_side_by_side():
    made = rules("example.com", "=a.test", "10.0.0.0/8", "10.1.0.0/16", "=a.test", "8.8.8.8")
    assert len(made) == 5
    for host in ("www.example.com", "a.test", "10.200.0.1", "10.1.0.1", "8.8.8.8"):
        assert made.is_excluded(host)
    for host in ("www.a.test", "test", "9.9.9.9", "8.8.8.9", "::1", ""):
        assert not made.is_excluded(host)


@each(
    "line number",
    *[(line, 0) for line in ("", "  ", "# example.com", "\t#")],
    *[(line, 1) for line in ("example.com # May", "example.com\r\n", "\texample.com ")],
)
def test_spaces_and_comments_do_no_harm(line, number):
    made = rules(line)
    assert len(made) == made.is_excluded("example.com") == number


@each(
    "line",
    "https://", "=https://", "example.com/path", "example.com:80", "me@example.com", "a b.test",
    "10.0.0.0/33", "10.0.0.1.5/8", "1.2.3.256", "::x", "[::1", "*", ".", "=", "==a.test",
    "*example.com?", "a..test", "a%2e.test", "=*.test", "x" * 64 + "\ud7ff.test",
    ".".join(["x" * 60] * 5), "\0",
)  # fmt: skip
def test_an_invalid_line_is_refused_and_changes_nothing(line):
    made = ExclusionRules()
    with pytest.raises(ValueError, match=r"is not a host, address, network, URL or /expression/$"):
        made.add(line)
    assert len(made) == 0


def test_a_purged_url_stands_for_itself_in_any_spelling():
    made = purge_rules("# by mail\nHTTP://a.test:80/x?q=1#part\n/secret/\n")
    assert len(made) == 2
    assert made.is_url_excluded("http://a.test/x?q=1")
    assert made.is_url_excluded("http://b.test/secret")
    assert not any(
        map(made.is_url_excluded, ("http://a.test/x", "http://a.test/x?q=1&p", "http://a.test/"))
    )


LABELS = st.sampled_from(["a", "b", "c", "xn--a", "1", "a1"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(lambda labels: ".".join([*labels, "test"]))


@given(domains=st.sets(NAMES), exact=st.sets(NAMES), hosts=st.lists(NAMES))
def test_a_host_is_excluded_by_its_name_or_a_domain_above_it(domains, exact, hosts):
    made = rules(*domains, *("=" + name for name in exact))
    assert len(made) == len(domains) + len(exact)
    for host in [*hosts, *domains, *exact]:
        labels = host.split(".")
        above = {".".join(labels[n:]) for n in range(len(labels))}
        assert made.is_excluded(host) == bool(host in exact or above & domains)


@given(st.text())
def test_no_line_can_do_more_than_be_refused(line):
    made = ExclusionRules()
    with contextlib.suppress(ValueError):
        made.add(line)
    made.complete()
    assert not made.is_excluded("webcrawl.invalid.test")


def test_without_a_file_no_host_is_excluded():
    exclusions = exclusion_file(Settings())
    exclusions.open()
    exclusions.reload_if_changed()
    assert not exclusions.rules.is_excluded("example.com")
    assert exclusions.stats() == {"rules": 0, "bad_lines": 0, "reloads": 0}


@each("name", "missing.txt", ".")
def test_a_missing_file_at_the_start_is_reported_in_one_sentence(tmp_path, name):
    exclusions = exclusion_file(Settings({"EXCLUSION_FILE": str(tmp_path / name)}))
    with pytest.raises(FatalError, match=r"^EXCLUSION_FILE .* cannot be read \(.*\): .*\.$"):
        exclusions.open()


class Watched:
    """Exclusion file on *path* that excludes a.test at first, checked by *clock*."""

    def __init__(self, path, clock):
        self._clock = clock
        path.write_text("a.test\n")
        self.file = exclusion_file(Settings({"EXCLUSION_FILE": str(path)}), clock=clock)
        self.file.open()

    def look(self, times=2):
        """Return which of three hosts are excluded after a check each second, and after reading."""
        for _ in range(times):
            self._clock.advance(1)
            self.file.reload_if_changed()
            if self.file.reading is not None:
                self.file.reading.result(timeout=LIMIT_SECS)
        return [
            host for host in ("a.test", "b.test", "c.test") if self.file.rules.is_excluded(host)
        ]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "excluded.txt"


@pytest.fixture
def watched(path, clock):
    made = Watched(path, clock)
    yield made
    made.file.close()


def said(caplog, level):
    return [one.getMessage() for one in caplog.records if one.levelname == level]


def test_a_changed_file_acts_without_a_restart(path, watched):
    path.write_text("a.test\nb.test")
    assert watched.look() == ["a.test", "b.test"]
    path.write_text("b.test")
    assert watched.look(4) == ["b.test"]
    assert watched.file.stats() == {"rules": 1, "bad_lines": 0, "reloads": 2}


def test_a_file_that_is_being_written_takes_no_rule_away(path, watched):
    """``cp`` and many editors empty the file first."""
    for text in ("", "c.test\na.te", "c.test\na.test\n"):
        path.write_text(text)
        assert watched.look(1) == ["a.test"]
    assert watched.look(1) == ["a.test", "c.test"]
    assert watched.file.reloads == 1


def test_a_file_put_in_its_place_is_noticed_by_its_inode(path, watched):
    before = path.stat()
    other = path.with_name("other")
    other.write_text("b.test\n")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert watched.look() == ["b.test"]


def test_an_unchanged_file_is_not_read_again_and_looked_at_once_a_second(path, watched, clock):
    watched.look(10)
    assert watched.file.reading is None
    path.write_text("b.test\nc.test\n")
    for _ in range(8):
        watched.file.reload_if_changed()
        clock.advance(0.1)
    assert watched.file.reading is None
    assert watched.look() == ["b.test", "c.test"]


def test_a_file_that_vanishes_takes_no_rule_away_and_is_missed_once(path, watched, clock, caplog):
    away = path.rename(path.with_name("away"))
    assert watched.look(6) == ["a.test"]
    why = "(No such file or directory): its previous rules (1) stay in force"
    assert said(caplog, "ERROR") == [f"EXCLUSION_FILE {path} cannot be read {why}"]
    # A directory has no lines either.
    path.mkdir()
    assert watched.look() == ["a.test"]
    path.rmdir()
    away.rename(path)
    clock.advance(60)
    watched.look()
    assert watched.file.stats() == {"rules": 1, "bad_lines": 0, "reloads": 0}
    path.unlink()
    watched.look()
    assert len(said(caplog, "ERROR")) == 2


def test_bad_lines_are_named_by_file_and_number_and_the_others_act(path, watched, caplog):
    path.write_bytes(b"\xef\xbb\xbf# ours\na..test\nb.test\n\xff\xfe\n")
    assert watched.look() == ["b.test"]
    assert watched.file.stats() == {"rules": 1, "bad_lines": 2, "reloads": 1}
    first, second = said(caplog, "WARNING")
    assert first == (
        f"{path}, line 2 excludes nothing: 'a..test' is not a host, address, network, URL "
        "or /expression/"
    )
    assert second.startswith(f"{path}, line 4 excludes nothing: 'utf-8' codec can't decode")
    caplog.clear()
    path.write_bytes(b"a b\n" * 1000)
    watched.look()
    assert len(said(caplog, "WARNING")) == 10
    assert said(caplog, "WARNING")[-1].endswith("further bad lines are only counted")
    assert watched.file.stats()["bad_lines"] == 1000
