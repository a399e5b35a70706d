"""Listings of many servers, read to names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.net.ftp.listing import ListedName, entries, row_of
from webcrawl.urls import SCHEMES, normalize


def names(listing, *, machine=False):
    return [(one.name, one.is_directory) for one in entries(listing, machine=machine)]


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        # vsftpd, ProFTPD, wu-ftpd, Pure-FTPd and their like
        (b"drwxr-xr-x    2 0        0            4096 Nov 20 11:02 pub", (b"pub", True)),
        (b"-rw-r--r--   1 ftp  ftp   1234 Jan  1  2020 README", (b"README", False)),
        (b"-rw-r--r--   1 ftp           1234 Jan 01  2020 no group", (b"no group", False)),
        (b"-rw-r--r--+  1 a b 1234 Jan 01 2020 acl", (b"acl", False)),
        (b"drwxrwsr-t   9 a b c 4096 Feb 29 00:00 two words", (b"two words", True)),
        (b"-rw-r--r-- 1 a b 3 2020-01-01 12:00 iso", (b"iso", False)),
        (b"-rw-r--r-- 1 a b 3 Jan  1 2020  lead", (b" lead", False)),
        (b"lrwxrwxrwx 1 a b 3 Jan  1 2020 latest -> v1.2", (b"latest", False)),
        (b"lrwxrwxrwx 1 a b 3 Jan  1 2020 up -> ..", None),
        (b"lrwxrwxrwx 1 a b 3 Jan  1 2020 up -> ../../", None),
        (b"lrwxrwxrwx 1 a b 3 Jan  1 2020 all -> /", None),
        (b"lrwxrwxrwx 1 a b 3 Jan  1 2020 self -> .", None),
        (b"crw-rw-rw- 1 a b 1, 3 Jan  1 2020 null", None),
        (b"drwxr-xr-x 2 a b 3 Jan  1 2020 .", None),
        (b"drwxr-xr-x 2 a b 3 Jan  1 2020 ..", None),
        # IIS
        (b"11-20-26  11:02AM       <DIR>          aspnet", (b"aspnet", True)),
        (b"11-20-2026  11:02PM            1,234 a b.txt", (b"a b.txt", False)),
        (b"11-20-26  11:02AM       <JUNCTION>     other", (b"other", True)),
        # what is no name
        (b"total 12", None),
        (b"", None),
        (b"ls: cannot open directory '.': Permission denied", None),
        (b"-rw-r--r-- 1 a b 3 Jan  1 2020 ", None),
    ],
)  # fmt: skip
def test_lines_made_for_people_are_read(line, entry):
    assert names(line + b"\r\n") == ([] if entry is None else [entry])


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        (b"type=file;size=3;modify=20200101000000; a b.txt", (b"a b.txt", False)),
        (b"Type=DIR;Perm=el; pub", (b"pub", True)),
        (b"type=cdir; /pub", None),
        (b"type=pdir; ..", None),
        (b"type=OS.unix=slink:v1.2; latest", (b"latest", False)),
        (b"type=OS.unix=slink:..; up", None),
        (b"type=dir; ..", None),
        (b"type=dir; /etc", None),
        (b" no facts", (b"no facts", False)),
        (b"size=3; x", (b"x", False)),
        (b"nonsense", None),
        (b"non sense", None),
        (b"type=file; ", None),
    ],
)
def test_lines_made_for_programs_are_read(line, entry):
    assert names(line + b"\n", machine=True) == ([] if entry is None else [entry])


def test_lines_that_are_too_long_are_left_out():
    line = b"type=file; " + b"x" * 2000 + b"\n"
    assert names(line + b"type=file; a\n" + line, machine=True) == [(b"a", False)]


@given(st.binary() | st.text("-rwxd 1Jan20:<>DIRl/.\r\n").map(str.encode), st.booleans())
def test_nothing_raises_and_every_name_leads_into_the_directory(listing, machine):
    base = "ftp://a.test/d/"
    for entry in entries(listing, machine=machine):
        url = normalize(row_of(entry).href, base, schemes=SCHEMES)
        assert url is not None
        assert url.startswith(base)
        assert "/" not in url.removeprefix(base).removesuffix("/")


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.booleans()), max_size=8))
def test_names_come_back_as_they_were(given_names):
    wanted = [
        (name, is_directory)
        for name, is_directory in given_names
        if name not in (b".", b"..") and not set(name) & set(b"\0\r\n/")
    ]
    kind = {True: b"dir", False: b"file"}
    listing = b"".join(b"type=%s; %s\r\n" % (kind[is_dir], name) for name, is_dir in wanted)
    assert names(listing, machine=True) == wanted
    assert all(row_of(ListedName(*one)).href.isascii() for one in wanted)
