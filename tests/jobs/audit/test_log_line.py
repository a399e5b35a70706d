"""Lines of access logs: what is read of them, whatever they are."""

import time

from access_log_reader import read_access_log
from hypothesis import given
from hypothesis import strategies as st
from text_tables import cases, each, lines

from webcrawl.jobs.audit.log_line import MICRO, is_without_contact, parse
from webcrawl.simweb.accesslog import AnswerEnd

SIMWEB = (
    '127.0.0.1 - - [1763625600.123456 1763625600.125001] "GET /a-4.html HTTP/1.1" 200 5120 '
    '"-" "webcrawl/1.0 (+https://example.org)" http://Site00042.sim.test:8480 127.16.0.5 ok'
)
OWN = '{"url":"https://A.test:444/x","sent":7.25,"took":0.125,"outcome":"http_200"}'


def read(text):
    return parse(text, log="x.log", line=7)


def test_a_line_of_simweb_is_read_to_the_microsecond():
    assert " ".join(map(str, read(SIMWEB))) == (
        "1763625600123456 1763625600125001 site00042.sim.test 127.16.0.5 "
        "http://Site00042.sim.test:8480/a-4.html x.log 7"
    )


@each("outcome", *AnswerEnd)
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
    assert (contact.host, contact.address) == (hit.host, hit.address)
    assert contact.url == hit.url if len(hit.url) <= 300 else contact.url[:-1] == hit.url[:299]


def test_a_line_of_a_jobs_own_log_is_read_if_its_url_was_asked_for():
    assert not is_without_contact(OWN)
    # It may have taken half a millisecond less.
    assert read(OWN) == (7_250_000, 7_374_500, "a.test", "", "https://A.test:444/x", "x.log", 7)
    assert is_without_contact('{"url":"http://a.test/","outcome":"dns_failed"}')


@each(
    "line",
    *lines("""
        nonsense
        #Fields: date time cs-method cs-uri
        192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326
        {"url":"http://a.test/","took":0.1}
        {"url":"http://a.test/","sent":1e308}
        {"url":"http://a.test/","sent":-1}
        """),
    "",
    SIMWEB.replace("[1763625600.123456", "[1763625600.125002"),
    SIMWEB.replace("1763625600.123456", "1763625600.12345"),
    SIMWEB.replace("1763625600.123456", "inf"),
    SIMWEB.replace("1763625600", "9" * 13),
    f"{SIMWEB} more",
)
def test_an_invalid_log_line_is_not_a_contact(line):
    assert read(line) is None


FIELDS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(['"', "\\", " ", "- -", "[", "]", "1.000001 2.000002", "200", "1e308", "{"]),
)


@given(st.sampled_from([SIMWEB, OWN]), st.data())
def test_a_damaged_line_is_a_bounded_contact_or_none(line, data):
    at = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(at, len(line)))
    contact = read(line[:at] + data.draw(FIELDS) + line[end:])
    if contact is not None:
        assert contact.start <= contact.end
        assert len(contact.url) <= 300
        assert len(contact.host) <= 255


@cases(
    "filler",
    r"""
        \
        '"'
        "a "
        [
        "- "
        \"
        '" "'
        "0"
    """,
)
@each("line", SIMWEB, OWN)
def test_a_hostile_line_is_read_in_linear_time(line, filler):
    began = time.process_time()
    for at in range(0, len(line), 9):
        read(line[:at] + filler * (100_000 // len(filler)) + line[at:])
    assert time.process_time() - began < 3  # seconds; 0.1 is usual, quadratic would take hours
