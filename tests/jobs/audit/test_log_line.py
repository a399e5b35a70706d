"""Lines of access logs: what is read of them, whatever they are."""

from __future__ import annotations

import calendar
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.jobs.audit.log_line import MICRO, LoggedRequest, parse
from webcrawl.simweb import read_access_log
from webcrawl.simweb.accesslog import AnswerEnd

SIMWEB = (
    '127.0.0.1 - - [1763625600.123456 1763625600.125001] "GET /a-4.html HTTP/1.1" 200 5120 '
    '"-" "webcrawl/1.0 (+https://example.org)" http://Site00042.sim.test:8480 127.16.0.5 ok'
)
COMMON = '192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326'
SECOND = calendar.timegm((2000, 10, 10, 20, 55, 36))


def read(text):
    return parse(text, log="x.log", line=7)


def test_a_line_of_simweb_is_read_to_the_microsecond():
    assert read(SIMWEB) == LoggedRequest(
        start=1763625600123456,
        end=1763625600125001,
        blur=0,
        host="site00042.sim.test",
        address="127.16.0.5",
        url="http://Site00042.sim.test:8480/a-4.html",
        robots_moved=False,
        agent="webcrawl/1.0 (+https://example.org)",
        log="x.log",
        line=7,
    )


@pytest.mark.parametrize("outcome", AnswerEnd)
def test_every_outcome_of_simweb_is_known(outcome):
    line = SIMWEB.removesuffix("ok") + outcome
    contact = read(line)
    assert contact is not None
    for length in range(len(SIMWEB) - 2, len(line)):
        assert read(line[:length]) is None  # torn


@given(
    start=st.integers(0, 4 * 10**15),
    took=st.integers(0, 10**12),
    target=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='"')),
)
def test_lines_of_simweb_are_read_as_simweb_reads_them(tmp_path_factory, start, took, target):
    path = tmp_path_factory.getbasetemp() / "own.log"
    times = " ".join(f"{time // MICRO}.{time % MICRO:06d}" for time in (start, start + took))
    line = SIMWEB.replace("1763625600.123456 1763625600.125001", times)
    line = line.replace("/a-4.html", f"/{target}")
    path.write_text(line + "\n")
    (hit,) = read_access_log(path)
    contact = read(line)
    assert (contact.start, contact.end) == (start, start + took)
    assert abs(hit.start * MICRO - contact.start) <= 0.5
    assert (contact.host, contact.address, contact.agent) == (hit.host, hit.address, hit.agent)
    assert contact.url == hit.url if len(hit.url) <= 300 else contact.url[:-1] == hit.url[:299]


@pytest.mark.parametrize(
    ("line", "host", "url", "agent"),
    [
        (COMMON, "", "/a?b", ""),
        (f'{COMMON} "-" "bot/1"', "", "/a?b", "bot/1"),
        (f'{COMMON} "http://x/" "bot/1" 0.003 "more"', "", "/a?b", "bot/1"),
        (f'www.Some.org:80 {COMMON} "-" "bot/1"', "www.some.org", "www.some.org/a?b", "bot/1"),
        (f"example.org. {COMMON}", "example.org", "example.org/a?b", ""),
        (f"[2001:db8::1]:443 {COMMON}", "2001:db8::1", "2001:db8::1/a?b", ""),
        (COMMON.replace("- -", "- jane doe"), "", "/a?b", ""),
        (f"some.org {COMMON}".replace("- -", "- jane doe"), "some.org", "some.org/a?b", ""),
        (COMMON.replace("192.0.2.7", "2001:db8::7"), "", "/a?b", ""),
        (COMMON.replace("2326", "-"), "", "/a?b", ""),
        (COMMON.replace("GET /a?b HTTP/1.0", "-"), "", "-", ""),
        (COMMON.replace("GET /a?b HTTP/1.0", r"\x16\x03\x01"), "", r"\x16\x03\x01", ""),
        (COMMON.replace("/a?b", r"/a\"b"), "", r"/a\"b", ""),
        (f'{COMMON} "a \\"b\\" c" "x \\"y\\" z"', "", "/a?b", r"x \"y\" z"),
    ],
)  # fmt: skip
def test_combined_formats_are_read(line, host, url, agent):
    contact = read(line)
    assert (contact.host, contact.url, contact.agent) == (host, url, agent)
    assert (contact.start, contact.end, contact.blur) == (SECOND * MICRO, SECOND * MICRO, MICRO - 1)
    assert contact.address == ""


@pytest.mark.parametrize("line", [SIMWEB.replace("a-4.html", "x"), COMMON.replace("a?b", "x")])
def test_a_robots_file_that_has_moved_is_known_from_others(line):
    assert read(line.replace("/x", "/robots.txt").replace(" 200 ", " 301 ")).robots_moved
    assert not read(line.replace("/x", "/robots.txt")).robots_moved
    assert not read(line.replace(" 200 ", " 301 ")).robots_moved


@given(
    st.integers(0, calendar.timegm((9999, 12, 30, 0, 0, 0))),
    st.integers(-14 * 60, 14 * 60),
)
def test_a_moment_is_the_same_in_every_zone(second, offset):
    local = second + offset * 60
    if local < 0:
        return
    sign = "-" if offset < 0 else "+"
    zone = f"{sign}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S ", time.gmtime(local)) + zone
    contact = read(COMMON.replace("10/Oct/2000:13:55:36 -0700", stamp))
    assert contact.start == second * MICRO


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "#Fields: date time cs-method cs-uri",
        COMMON.replace("Oct", "Okt"),
        COMMON.replace("10/", "32/"),
        COMMON.replace("10/", "00/"),
        COMMON.replace("2000", "1969"),
        COMMON.replace("13:55", "24:55"),
        COMMON.replace("55:36", "60:36"),
        COMMON.replace("36 -", "62 -"),
        COMMON.replace(" 200 ", " OK "),
        COMMON.replace('1.0"', "1.0"),
        COMMON.replace("192.0.2.7 ", ""),
        SIMWEB.replace("[1763625600.123456", "[1763625600.125002"),  # ends before it begins
        SIMWEB.replace("1763625600.123456", "1763625600.12345"),
        SIMWEB.replace("1763625600.123456", "inf"),
        SIMWEB.replace("1763625600", "9" * 13),
        f"{SIMWEB} more",
    ],
)
def test_what_is_no_line_of_a_log_is_no_contact(line):
    assert read(line) is None


@given(st.text())
def test_no_text_is_too_strange(text):
    assert read(text) is None


FIELDS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ['"', "\\", " ", "- -", "[", "]", "10/Oct/2000:13:55:36 -0700", "1.000001 2.000002", "200"]
    ),
)


@given(st.sampled_from([SIMWEB, COMMON, f'{COMMON} "-" "-"']), st.data())
def test_a_damaged_line_is_a_bounded_contact_or_none(line, data):
    at = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(at, len(line)))
    contact = read(line[:at] + data.draw(FIELDS) + line[end:])
    if contact is not None:
        assert contact.start <= contact.end
        assert len(contact.url) <= 300
        assert len(contact.host) <= 255


@pytest.mark.parametrize("filler", ["\\", '"', "a ", "[", "- ", '\\"', '" "', "0"])
@pytest.mark.parametrize("line", [SIMWEB, COMMON, f'{COMMON} "-" "-"'])
def test_a_hostile_line_is_read_in_linear_time(line, filler):
    began = time.process_time()
    for at in range(0, len(line), 9):
        read(line[:at] + filler * (100_000 // len(filler)) + line[at:])
    assert time.process_time() - began < 3  # seconds; 0.1 is usual, quadratic would take hours
