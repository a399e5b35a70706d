"""A name server that lies: one behaviour for each first label, and 127.0.0.1 for all others of its
zone."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rrset

Reply = dns.message.Message | bytes | list[bytes] | None

LOOPBACK = "127.0.0.1"
# A public suffix here, so that each host is a registered domain of its own.
ZONE = "sim.test"
_ZONE = dns.name.from_text(ZONE)


def reply(query):
    """The answer to *query*, or what stands for one."""
    name = query.question[0].name
    if not name.is_subdomain(_ZONE):
        return with_code(dns.rcode.NXDOMAIN)(query)
    label = name.labels[0].decode()
    attack = ATTACKS.get(label.partition("--")[0])
    return (attack or sound)(query)


def with_addresses(query, *addresses):
    response = dns.message.make_response(query)
    question = query.question[0]
    if question.rdtype == dns.rdatatype.A and addresses:
        response.answer.append(dns.rrset.from_text(question.name, 300, "IN", "A", *addresses))
    return response


def with_code(code):
    def attack(query):
        response = dns.message.make_response(query)
        response.set_rcode(code)
        return response

    return attack


def silence(query):
    return None


def alias_loop(query):
    """Two names that are aliases of each other, both in one answer."""
    response = dns.message.make_response(query)
    name = query.question[0].name
    other = f"other.{name}"
    response.answer += [
        dns.rrset.from_text(name, 300, "IN", "CNAME", other),
        dns.rrset.from_text(other, 300, "IN", "CNAME", str(name)),
    ]
    return response


def alias_without_end(query):
    """Every name is an alias of a longer one, of which the answer says nothing."""
    response = dns.message.make_response(query)
    name = query.question[0].name
    label, _, rest = str(name).partition(".")
    first, _, number = label.partition("--")
    target = f"{first}--{int(number or 0) + 1}.{rest}"
    response.answer.append(dns.rrset.from_text(name, 300, "IN", "CNAME", target))
    return response


def pointer_loop(query):
    """An answer whose owner name is a pointer to itself."""
    wire = bytearray(dns.message.make_response(query).to_wire())
    wire[7] = 1
    at = len(wire)
    record = b"\0\1\0\1\0\0\1\x2c\0\4\x7f\0\0\1"
    return bytes(wire) + (0xC000 | at).to_bytes(2, "big") + record


def wrong_id(query):
    """A forger's answers: every id but the right one, as far as a few datagrams go."""
    wire = with_addresses(query, "127.0.0.66").to_wire()
    return [((query.id + n) & 0xFFFF).to_bytes(2, "big") + wire[2:] for n in range(1, 30)]


def other_question(query):
    """The right id with the answer to a question that was not asked."""
    wire = bytearray(with_addresses(query, "127.0.0.66").to_wire())
    wire[13] ^= 1
    return bytes(wire)


def garbage(query):
    return query.id.to_bytes(2, "big") + b"\xff" * 300


def cut_short(query):
    return with_addresses(query, LOOPBACK).to_wire()[:-3]


def no_records(query):
    return with_addresses(query)


def truncated_without_end(query):
    """Truncated over UDP, and over TCP again."""
    response = dns.message.make_response(query)
    response.flags |= dns.flags.TC
    return response


def many_records(query):
    """More addresses than any host has; over TCP, since UDP has no room for them."""
    return with_addresses(query, *(f"127.1.{n // 250}.{n % 250}" for n in range(3000)))


def sound(query):
    return with_addresses(query, LOOPBACK)


def forged_extra(query):
    """The right answer, and an address for somebody else's name beside it (cache poisoning)."""
    response = with_addresses(query, LOOPBACK)
    victim = f"dns-victim.{str(query.question[0].name).partition('.')[2]}"
    response.answer.append(dns.rrset.from_text(victim, 86400, "IN", "A", "127.0.0.66"))
    response.additional.append(dns.rrset.from_text(victim, 86400, "IN", "A", "127.0.0.66"))
    return response


ATTACKS = {
    "dns-nxdomain": with_code(dns.rcode.NXDOMAIN),
    "dns-servfail": with_code(dns.rcode.SERVFAIL),
    "dns-refused": with_code(dns.rcode.REFUSED),
    "dns-silence": silence,
    "dns-alias-loop": alias_loop,
    "dns-alias-chain": alias_without_end,
    "dns-pointer-loop": pointer_loop,
    "dns-wrong-id": wrong_id,
    "dns-other-question": other_question,
    "dns-garbage": garbage,
    "dns-cut-short": cut_short,
    "dns-no-address": no_records,
    "dns-truncated": truncated_without_end,
    "dns-many-records": many_records,
    "dns-forged-extra": forged_extra,
    "dns-victim": sound,
}
