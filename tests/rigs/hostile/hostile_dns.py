"""A name server that lies: one behaviour for each first label, and 127.0.0.1 for all others of its
zone."""

from functools import cache, partial

import dns.message
import dns.name
import dns.rrset
from loopback import respond

# A public suffix here, so that each host is a registered domain of its own.
ZONE = "sim.test"
_ZONE = dns.name.from_text(ZONE)


def reply(query):
    """The answer to *query*, or what stands for one."""
    name = query.question[0].name
    if not name.is_subdomain(_ZONE):
        return respond(query, rcode="NXDOMAIN")
    label = name.labels[0].decode()
    return ATTACKS.get(label.partition("--")[0], sound)(query)


def sound(query, address="127.0.0.1"):
    return respond(query, f"@ 300 A {address}")


def alias_without_end(query):
    """Every name is an alias of a longer one, of which the answer says nothing."""
    label, _, rest = str(query.question[0].name).partition(".")
    first, _, number = label.partition("--")
    return respond(query, f"@ 300 CNAME {first}--{int(number or 0) + 1}.{rest}")


def pointer_loop(query):
    """An answer whose owner name is a pointer to itself."""
    wire = bytearray(respond(query).to_wire())
    wire[7] = 1
    record = b"\0\1\0\1\0\0\1\x2c\0\4\x7f\0\0\1"
    return bytes(wire) + (0xC000 | len(wire)).to_bytes(2, "big") + record


def wrong_id(query):
    """A forger's answers: every id but the right one, as far as a few datagrams go."""
    wire = sound(query, "127.0.0.66").to_wire()
    return [((query.id + n) & 0xFFFF).to_bytes(2, "big") + wire[2:] for n in range(1, 30)]


def other_question(query):
    """The right id with the answer to a question that was not asked."""
    wire = bytearray(sound(query, "127.0.0.66").to_wire())
    wire[13] ^= 1
    return bytes(wire)


def many_records(query):
    """More addresses than any host has; over TCP, since UDP has no room for them."""
    question = query.question[0]
    return query.id.to_bytes(2, "big") + _many_records(question.name, question.rdtype)[2:]


@cache
def _many_records(name, kind):
    """Made once: it takes 0.1 s, in which no other host would be answered."""
    query = dns.message.make_query(name, kind)
    addresses = (f"@ 300 A 127.1.{n // 250}.{n % 250}" for n in range(3000))
    return respond(query, *addresses).to_wire()


def forged_extra(query):
    """The right answer, and an address for somebody else's name beside it (cache poisoning)."""
    response = sound(query)
    victim = f"dns-victim.{str(query.question[0].name).partition('.')[2]}"
    for section in (response.answer, response.additional):
        section.append(dns.rrset.from_text(victim, 86400, "IN", "A", "127.0.0.66"))
    return response


ATTACKS = {
    "dns-nxdomain": partial(respond, rcode="NXDOMAIN"),
    "dns-servfail": partial(respond, rcode="SERVFAIL"),
    "dns-refused": partial(respond, rcode="REFUSED"),
    "dns-silence": lambda query: None,
    "dns-alias-loop": lambda query: respond(query, "@ 300 CNAME x.@", "x.@ 300 CNAME @"),
    "dns-alias-chain": alias_without_end,
    "dns-pointer-loop": pointer_loop,
    "dns-wrong-id": wrong_id,
    "dns-other-question": other_question,
    "dns-garbage": lambda query: query.id.to_bytes(2, "big") + b"\xff" * 300,
    "dns-cut-short": lambda query: sound(query).to_wire()[:-3],
    "dns-no-address": respond,
    "dns-truncated": partial(respond, is_truncated=True),
    "dns-many-records": many_records,
    "dns-forged-extra": forged_extra,
    "dns-victim": sound,
}
