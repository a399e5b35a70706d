"""DNS messages as bytes, with dnspython as the oracle."""

import ipaddress
import itertools

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import cases, each

from webcrawl.net.dns import wire as dnswire
from webcrawl.net.dns.wire import AAAA, A, DnsAnswer, MalformedAnswerError

LABELS = st.text("abcxyz0189-_", min_size=1, max_size=12)
HOSTS = st.lists(LABELS, min_size=1, max_size=6).map(".".join)
TTLS = st.integers(0, 2**31 - 1)
IPV4 = st.ip_addresses(v=4).map(str)
IPV6 = st.ip_addresses(v=6)


def asked(host, qtype=A):
    return dnswire.question(dnswire.wire_name(host), qtype)


def response(host, *records, qtype=A, rcode=0):
    """An answer with *records* such as ``a.test. 300 IN A 127.0.0.1``."""
    message = dns.message.make_response(
        dns.message.make_query(host, dns.rdatatype.RdataType(qtype))
    )
    message.set_rcode(dns.rcode.Rcode(rcode))
    for record in records:
        name, ttl, cls, kind, *value = record.split()
        rrset = dns.rrset.from_text(name, int(ttl), cls, kind, " ".join(value))
        section = message.authority if kind == "SOA" else message.answer
        section.append(rrset)
    return message


def read(host, *records, qtype=A, rcode=0):
    wire = response(host, *records, qtype=qtype, rcode=rcode).to_wire()
    return dnswire.read_answer(wire, asked(host, qtype))


@given(HOSTS, st.integers(0, 65535), st.sampled_from([A, AAAA]))
def test_a_query_is_what_dnspython_reads_back(host, ident, qtype):
    message = dns.message.from_wire(dnswire.query(ident, asked(host, qtype)))
    assert message.id == ident
    assert message.flags == dns.flags.RD
    (question,) = message.question
    assert (question.name, question.rdtype) == (dns.name.from_text(host), qtype)


@each("host", "", ".", "a..b", ".a", "a" * 64 + ".b", ".".join(["a" * 60] * 5), "bücher.test", "a.")
def test_what_can_be_no_name_is_refused(host):
    with pytest.raises(ValueError):  # noqa: PT011  (UnicodeError is one)
        dnswire.wire_name(host)


@given(HOSTS, st.lists(HOSTS, max_size=4, unique=True), st.lists(IPV4, min_size=1), TTLS)
def test_addresses_at_the_end_of_a_chain_of_aliases_are_found(host, aliases, addresses, ttl):
    chain = list(dict.fromkeys([host, *aliases]))
    records = [f"{a}. {ttl} IN CNAME {b}." for a, b in itertools.pairwise(chain)]
    message = response(host, *records)
    message.answer.append(dns.rrset.from_text(f"{chain[-1]}.", 77, "IN", "A", *set(addresses)))
    answer = dnswire.read_answer(message.to_wire(), asked(host))
    assert sorted(answer.addresses) == sorted(set(addresses))
    assert answer.ttl == (min(ttl, 77) if records else 77)
    assert (answer.rcode, answer.truncated, answer.alias) == (0, False, None)


@given(IPV6)
def test_ipv6_addresses_are_read(address):
    (found,) = read("a.test", f"a.test. 5 IN AAAA {address}", qtype=AAAA).addresses
    assert ipaddress.ip_address(found) == address


@cases(
    "records rcode alias ttl",
    """
    # An alias that leaves the message is to be asked for, any other is a negative answer.
    a.test. 300 IN CNAME b.elsewhere.test. | 0 | b.elsewhere.test | 0
    a.test. 300 IN CNAME b.elsewhere.test.; elsewhere.test. 900 IN SOA ns. root. 1 2 3 4 120 | 0
    | None | 120
    a.test. 300 IN CNAME b.test.; b.test. 300 IN CNAME a.test. | 0 | None | 60
    # A negative answer may be for now only.
    test. 0 IN SOA ns.test. root.test. 1 2 3 4 9 | 3 | None | 0
""",
)
def test_an_answer_may_have_no_address(records, rcode, alias, ttl):
    answer = read("a.test", *records.split("; "), rcode=rcode)
    assert answer.alias == (alias and dnswire.wire_name(alias))
    assert (answer.addresses, answer.ttl) == ((), ttl)


@each(
    "soa ttl",
    ("test. 900 IN SOA ns.test. root.test. 1 2 3 4 120", 120),
    ("test. 30 IN SOA ns.test. root.test. 1 2 3 4 120", 30),
    ("test. 999999 IN SOA ns.test. root.test. 1 2 3 4 999999", 3 * 3600),
)
def test_a_negative_answer_holds_as_long_as_the_soa_says(soa, ttl):
    assert read("a.test", soa, rcode=dnswire.NXDOMAIN) == DnsAnswer(3, False, (), ttl, None)
    assert read("a.test", rcode=dnswire.NXDOMAIN).ttl == 60
    other = "a.test. 9 IN NS ns.test."
    message = response("a.test", soa)
    message.authority.insert(0, dns.rrset.from_text("test.", 9, "IN", "NS", "ns.test."))
    assert dnswire.read_answer(message.to_wire(), asked("a.test")).ttl == ttl
    assert read("a.test", other).ttl == 60


def test_records_of_other_names_classes_and_types_are_passed_over():
    answer = read(
        "a.test",
        "other.test. 9 IN A 127.0.0.9",
        "a.test. 9 CH A a.test. 1",
        "a.test. 9 IN TXT hello",
        "a.test. 300 IN A 127.0.0.1",
    )
    assert answer.addresses == ("127.0.0.1",)
    assert answer.ttl == 300


def test_the_question_comes_back_in_any_case_of_letters():
    message = response("a.test", "a.test. 300 IN A 127.0.0.1")
    wire = message.to_wire().replace(b"\x01a\x04test", b"\x01A\x04tEsT")
    assert dnswire.read_answer(wire, asked("a.test")).addresses == ("127.0.0.1",)


def test_another_question_and_a_query_are_no_answers():
    wire = response("b.test", "b.test. 300 IN A 127.0.0.1").to_wire()
    for message in (wire, dnswire.query(1, asked("a.test")), b"", wire[:11]):
        with pytest.raises(MalformedAnswerError):
            dnswire.read_answer(message, asked("a.test"))


def test_a_refusal_need_not_repeat_the_question():
    wire = b"\0\1\x80\5" + bytes(8)
    assert dnswire.read_answer(wire, asked("a.test")).rcode == 5
    with pytest.raises(MalformedAnswerError):
        dnswire.read_answer(b"\0\1\x80\0" + bytes(8), asked("a.test"))


@given(st.data())
def test_any_bytes_give_an_answer_or_malformed(data):
    good = response(
        "www.a.test",
        "www.a.test. 300 IN CNAME a.test.",
        "a.test. 300 IN A 127.0.0.1",
        "test. 900 IN SOA ns.test. root.test. 1 2 3 4 120",
    ).to_wire()
    wire = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for _ in range(data.draw(st.integers(0, 6))):
        if wire:
            place = data.draw(st.integers(0, len(wire) - 1))
            wire[place] = data.draw(st.sampled_from([0, 1, 12, 63, 64, 192, 255]))
    try:
        answer = dnswire.read_answer(bytes(wire), asked("www.a.test"))
    except MalformedAnswerError:
        return
    assert isinstance(answer, DnsAnswer)


@given(st.binary(max_size=80))
def test_what_dnspython_reads_in_full_is_read_alike(section):
    """One record of arbitrary bytes: where both read it, they find the same addresses."""
    question = asked("a.test")
    wire = b"\0\1\x81\x80\0\1\0\1\0\0\0\0" + question + b"\xc0\x0c" + section
    try:
        oracle = dns.message.from_wire(wire)
    except dns.exception.DNSException:
        return
    answer = dnswire.read_answer(wire, question)
    found = {
        rdata.address
        for rrset in oracle.answer
        if rrset.rdtype == A and rrset.rdclass == 1 and rrset.name == dns.name.from_text("a.test")
        for rdata in rrset
    }
    assert set(answer.addresses) == found


def test_more_records_than_any_host_has_are_refused():
    question = asked("a.test")
    record = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1"
    wire = b"\0\1\x81\x80\0\1" + (4000).to_bytes(2, "big") + bytes(4) + question + record * 4000
    with pytest.raises(MalformedAnswerError):
        dnswire.read_answer(wire, question)


@each(
    "owner",
        b"\xc0\x18",  # a pointer to itself
        b"\x40",  # a kind of label that was never defined
        b"".join(b"\x3f" + letter * 63 for letter in (b"a", b"b", b"c", b"d")) + b"\0",
        b"\x05abc",
        b"\xc0",
        b"\xff\xff",

)  # fmt: skip
def test_names_without_end_are_malformed(owner):
    question = asked("a.test")
    wire = b"\0\1\x81\x80\0\1\0\1\0\0\0\0" + question + owner
    assert len(wire) - len(owner) == 0x18
    with pytest.raises(MalformedAnswerError):
        dnswire.read_answer(wire, question)


def test_names_may_be_written_out_or_point_anywhere_before():
    question = asked("a.test")
    address = b"\0\1\0\1\0\0\0\x09\0\4\x7f\0\0"
    records = b"\1a\4test\0" + address + b"\1" + b"\1A\xc0\x0e" + address + b"\2"
    wire = b"\0\1\x81\x80\0\1\0\2\0\0\0\0" + question + records
    assert dnswire.read_answer(wire, question).addresses == ("127.0.0.1", "127.0.0.2")
