"""The address guard: what it forbids, and which download handlers have none."""

import ipaddress
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.core.downloader.handlers.file import FileDownloadHandler
from scrapy.settings import Settings
from text_tables import cases, each, table

from webcrawl import settings as project
from webcrawl.errors import FatalError
from webcrawl.net.guard import AddressGuard, followed_schemes, warn_of_unguarded_handlers
from webcrawl.net.http.handler import HttpDownloadHandler

GUARD = AddressGuard(allow_private=False)
OPEN = AddressGuard(allow_private=True)

# Special blocks; all of IPv6 beyond 2000::/3 is special, too.
BLOCKS = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 168.63.129.16/32 172.16.0.0/12
192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24
203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
::/128 ::1/128 ::7f00:1/128 64:ff9b:1::/48 100::/64 1fff::/16 2001::/23 2001:db8::/32 3fff::/20
4000::/3 5f00::/16 fc00::/7 fd00:ec2::254/128 fe80::/10 fec0::/10 ff00::/8
"""
NETS = [ipaddress.ip_network(block) for block in BLOCKS.split()]


def is_special(address):
    is_beyond = address.version == 6 and int(address) >> 125 != 1
    return is_beyond or any(address in net for net in NETS)


@each("net", *NETS, ids=str)
def test_special_blocks_are_forbidden_from_end_to_end_and_not_a_bit_beyond(net):
    for number in (int(net[0]) - 1, int(net[0]), int(net[-1]), int(net[-1]) + 1):
        if 0 <= number < 2**net.max_prefixlen:
            address = type(net[0])(number)
            assert GUARD.is_permitted(str(address)) is not is_special(address), address


@cases(
    "prefix shift",
    """
        ::ffff:0:0 | 0
        64:ff9b::  | 0
        2002::     | 80
    """,
)
@cases(
    "inner permitted",
    """
        127.0.0.1       | False
        169.254.169.254 | False
        10.1.2.3        | False
        1.1.1.1         | True
    """,
)
def test_an_address_within_an_address_is_the_one_that_counts(prefix, shift, inner, permitted):
    outer = int(ipaddress.IPv6Address(prefix)) | int(ipaddress.IPv4Address(inner)) << shift
    assert GUARD.is_permitted(str(ipaddress.IPv6Address(outer))) is permitted


@cases(
    "text",
    r"""
        ""
        localhost
        a.test
        1.1.1
        1.1.1.1.
        01.1.1.1
        "1"
        0x1.1.1.1
        [2606::1]
        2606::1%eth0
        fe80::1%1
        1.1.1.1:80
        " 1.1.1.1"
        "1.1.1.1\n"
        "1.1.1.1\x00"
    """,
)
def test_what_is_no_address_of_the_internet_is_forbidden(text):
    assert not GUARD.is_permitted(text)


@given(st.ip_addresses(v=4))
def test_the_table_forbids_all_that_python_calls_private_in_ipv4(address):
    """Python's table is not ours, and lacks entries in some versions: it may only permit more."""
    special = not address.is_global or address.is_multicast or address.is_reserved
    assert not (special and GUARD.is_permitted(str(address)))


@given(st.ip_addresses(v=6))
def test_the_table_forbids_all_that_python_calls_private_in_ipv6(address):
    translated = address in ipaddress.ip_network("64:ff9b::/96")
    if address.ipv4_mapped or address.sixtofour or translated:
        return  # judged by what they embed
    special = not address.is_global or address.is_multicast or address.is_reserved
    assert not (special and GUARD.is_permitted(str(address)))


def test_nothing_public_is_forbidden_that_python_calls_global():
    """Drawn at random over the whole of IPv4 and of what is allotted of IPv6."""
    rng = random.Random(1)
    for _ in range(20_000):
        number = rng.getrandbits(32) if rng.random() < 0.5 else 1 << 125 | rng.getrandbits(125)
        address = ipaddress.ip_address(number)
        is_embedding = address.version == 6 and address.sixtofour
        if address.is_global and not is_special(address) and not is_embedding:
            assert GUARD.is_permitted(str(address)), address


def test_permitted_keeps_the_order_and_has_one_where_each_has_a_clock():
    found = ["127.0.0.1", "1.1.1.1", "::1", "2606::1", "a.test"]
    assert GUARD.permitted_addresses(found) == ["1.1.1.1", "2606::1"]
    assert OPEN.permitted_addresses(found) == found[:2]
    guard = AddressGuard.from_settings(Settings({"POLITENESS_KEY": "address"}))
    assert guard.permitted_addresses(found) == ["1.1.1.1"]


@each(
    "host permitted",
    *table("""
        a.test | yes
        1.1.1.1 | yes
        [2606::1] | yes
        2606::1 | yes
        x0x.test | yes
        localhost |
        LOCALHOST. |
        a.localhost |
        127.0.0.1 |
        127.0.0.1. |
        127.1 |
        2130706433 |
        0x7f000001 |
        0x7f.1 |
        a.0x7f |
        [::1] |
        [::ffff:127.0.0.1] |
    """),
)
def test_hosts_that_need_no_look_up_are_judged_without_one(host, permitted):
    assert GUARD.is_host_permitted(host) is bool(permitted)
    assert OPEN.is_host_permitted(host)


def test_the_setting_is_off_unless_it_is_switched_on():
    assert not AddressGuard.from_settings(Settings()).is_permitted("127.0.0.1")
    for on in (True, "1", "True"):
        settings = Settings({"ALLOW_PRIVATE_ADDRESSES": on})
        assert AddressGuard.from_settings(settings).is_permitted("127.0.0.1")
    with pytest.raises(FatalError, match=r"^ALLOW_PRIVATE_ADDRESSES must be .*'perhaps'\.$"):
        AddressGuard.from_settings(Settings({"ALLOW_PRIVATE_ADDRESSES": "perhaps"}))


class OfAUser(HttpDownloadHandler):
    """A handler made of one that checks addresses."""


@each("private", False, True)
def test_download_handlers_that_check_no_addresses_are_warned_of(private, caplog):
    project = Settings()
    project.setmodule("webcrawl.settings")
    project.set("ALLOW_PRIVATE_ADDRESSES", private)
    project.set("DOWNLOAD_HANDLERS", {"http": OfAUser, "file": FileDownloadHandler})
    warn_of_unguarded_handlers(project)
    assert caplog.text == ""
    stock = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
    project.set("DOWNLOAD_HANDLERS", {"https": stock})
    warn_of_unguarded_handlers(project)
    assert ("do not check addresses" in caplog.text) != private
    assert (f"https ({stock})" in caplog.text) != private


def test_schemes_are_those_with_a_handler_whose_urls_name_hosts():
    settings = Settings()
    settings.setmodule(project)
    assert followed_schemes(settings) == {"http", "https", "ftp", "gopher"}
    settings.set("DOWNLOAD_HANDLERS", {"gopher": None, "gemini": "x", "file": "x"})
    assert followed_schemes(settings) == {"http", "https", "ftp", "gemini"}
