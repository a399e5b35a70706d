"""Who registered a host's domain, from the list in the package alone."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tldextract import TLDExtract

from webcrawl.urls.registered_domain import bundled, registered_domain, site_of

LIBRARY = TLDExtract(cache_dir=None, suffix_list_urls=(), extra_suffixes=("sim.test",))
# Those with wildcards and of other scripts are few.
RULES = [line for line in bundled().text.splitlines() if line and not line.startswith("//")]
ODD = [rule for rule in RULES if "*" in rule or "!" in rule or not rule.isascii()]
LABELS = {label for rule in RULES[::50] + ODD for label in rule.strip("!*.").split(".")}
# A name that ends with a number is an address.
WORDS = sorted(label for label in LABELS if not label.isdecimal())


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("www.bbc.co.uk", "bbc.co.uk"),
        ("x.y.city.kawasaki.jp", "city.kawasaki.jp"),
        ("xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("me.github.io", "github.io"),
        ("www.ck", "www.ck"),
        ("a.www.ck", "www.ck"),
        ("a.b.c.ck", "b.c.ck"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("site00042.sim.test", "site00042.sim.test"),
        ("h1.farm.newtld", "farm.newtld"),
        ("a.b.c.internal", "c.internal"),
        ("newtld", "newtld"),
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("", ""),
        ("a..com", "a..com"),
    ],
)
def test_registered_domain_of_host(host, domain):
    assert registered_domain(host) == domain


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("www.bbc.co.uk", "bbc.co.uk"),
        ("alice.github.io", "alice.github.io"),
        ("www.alice.github.io", "alice.github.io"),
        ("github.io", "github.io"),
        ("me.blogspot.com", "me.blogspot.com"),
        ("h1.farm.newtld", "farm.newtld"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_site_of_host(host, site):
    assert site_of(host) == site


def by_the_library(host, *, private):
    found = LIBRARY.extract_str(host, include_psl_private_domains=private)
    if found.suffix:
        return found.top_domain_under_public_suffix or host
    return ".".join(host.split(".")[-2:])  # the list's default rule, which it leaves out


def agrees(host):
    assert registered_domain(host) == by_the_library(host, private=False), host
    assert site_of(host) == by_the_library(host, private=True), host


def test_every_kind_of_rule_is_read_as_tldextract_reads_it():
    for rule in RULES[::50] + ODD:
        suffix = rule.replace("*", "w").removeprefix("!")
        for host in (suffix, f"a.{suffix}", f"b.a.{suffix}", suffix.partition(".")[2]):
            agrees(".".join(label.encode("idna").decode() for label in host.split(".")))


@given(st.lists(st.sampled_from(["www", "xn--a", "xn--", *WORDS]), min_size=1, max_size=5))
def test_any_host_has_the_domain_that_tldextract_gives_it(labels):
    agrees(".".join(labels))


def test_needs_no_network_and_leaves_nothing_on_disk(tmp_path):
    code = """
import socket, sys
def refuse(*args, **kwargs): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from webcrawl.urls.registered_domain import registered_domain
print(registered_domain("a.b.co.uk"))
"""
    home = str(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"HOME": home, "XDG_CACHE_HOME": home, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "b.co.uk\n"
    assert list(tmp_path.iterdir()) == []
