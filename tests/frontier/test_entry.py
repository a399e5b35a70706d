import doctest
import importlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import entries
from text_tables import each

from webcrawl.frontier.entry import Entry, decode, encode, encode_fields, host_of, join, key


@given(entries())
def test_decoded_entry_is_the_encoded_one(entry):
    data = encode(entry)
    assert decode(data) == entry
    assert host_of(data) == entry.host


@given(entries(), st.integers(0, 1000))
def test_fields_encoded_once_and_a_url_are_the_encoded_entry(entry, length):
    fields = encode_fields(replace(entry, url=""))
    url = f"{entry.url}/{length * '.'}"
    assert join(url, fields) == encode(replace(entry, url=url))


def test_entry_written_without_the_last_fields_gets_their_defaults():
    data = msgspec.msgpack.encode(["http://a.test/", "a.test"])
    assert decode(data) == Entry("http://a.test/", "a.test")
    assert host_of(data) == "a.test"


def test_entry_of_a_later_version_is_read_without_what_it_added():
    later = [*msgspec.msgpack.decode(encode(Entry("http://a.test/", "a.test"))), "new", 5]
    assert decode(msgspec.msgpack.encode(later)) == Entry("http://a.test/", "a.test")


def test_key_tells_attempts_and_requests_apart():
    entry = Entry("http://a.test/", "a.test")
    again = replace(entry, attempts=1)
    post = replace(entry, extra=b"method=POST")
    assert len({key(entry), key(again), key(post)}) == 3


def test_key_is_that_of_the_url_however_it_was_found():
    entry = Entry("http://a.test/", "a.test")
    found = replace(entry, depth=3, via="http://b.test/", discovered_at=5.0)
    assert key(entry) == key(found)


@each("module", "prioritizer", "delay_policy", "recovery")
def test_examples_in_the_docstrings_hold(module):
    result = doctest.testmod(importlib.import_module(f"webcrawl.frontier.{module}"))
    assert result.attempted
    assert not result.failed
