"""Listings of many servers, read to names."""

from hypothesis import given
from hypothesis import strategies as st
from text_tables import each
from wire_text import table, wire

from webcrawl.net.ftp.listing import ListedName, entries, row_of
from webcrawl.urls import SCHEMES, normalize


def names(listing, *, is_mlsd=False):
    return [(one.name, one.is_directory) for one in entries(listing, is_mlsd=is_mlsd)]


@each("row", *table("ftp")["for_people"], ids=str)
def test_lines_made_for_people_are_read(row):
    line, *entry = row
    assert names(wire(line + "\r\n")) == ([(wire(entry[0]), entry[1])] if entry else [])


@each("row", *table("ftp")["for_programs"], ids=str)
def test_lines_made_for_programs_are_read(row):
    line, *entry = row
    found = names(wire(line + "\n"), is_mlsd=True)
    assert found == ([(wire(entry[0]), entry[1])] if entry else [])


def test_lines_that_are_too_long_are_left_out():
    line = b"type=file; " + b"x" * 2000 + b"\n"
    assert names(line + b"type=file; a\n" + line, is_mlsd=True) == [(b"a", False)]


@given(st.binary() | st.text("-rwxd 1Jan20:<>DIRl/.\r\n").map(str.encode), st.booleans())
def test_nothing_raises_and_every_name_leads_into_the_directory(listing, is_mlsd):
    base = "ftp://a.test/d/"
    for entry in entries(listing, is_mlsd=is_mlsd):
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
    assert names(listing, is_mlsd=True) == wanted
    assert all(row_of(ListedName(*one)).href.isascii() for one in wanted)
