"""Who registered a host's domain, from the list in the package alone."""

import subprocess
import sys

from text_tables import each, table

from webcrawl.urls.registered_domain import registered_domain, site_of


@each(
    "host domain",
    *table("""
        example.com               | example.com
        a.b.example.com           | example.com
        www.bbc.co.uk             | bbc.co.uk
        x.y.city.kawasaki.jp      | city.kawasaki.jp
        xn--85x722f.xn--55qx5d.cn | xn--85x722f.xn--55qx5d.cn
        me.github.io              | github.io
        www.ck                    | www.ck
        a.www.ck                  | www.ck
        a.b.c.ck                  | b.c.ck
        co.uk                     | co.uk
        localhost                 | localhost
        site00042.sim.test        | site00042.sim.test
        h1.farm.newtld            | farm.newtld
        a.b.c.internal            | c.internal
        newtld                    | newtld
        127.0.0.1                 | 127.0.0.1
        2001:db8::1               | 2001:db8::1
        a..com                    | a..com
        """),
    ("", ""),
)
def test_registered_domain_of_host(host, domain):
    assert registered_domain(host) == domain


@each(
    "host site",
    *table("""
        www.bbc.co.uk       | bbc.co.uk
        alice.github.io     | alice.github.io
        www.alice.github.io | alice.github.io
        github.io           | github.io
        me.blogspot.com     | me.blogspot.com
        h1.farm.newtld      | farm.newtld
        127.0.0.1           | 127.0.0.1
    """),
)
def test_site_of_host(host, site):
    assert site_of(host) == site


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
