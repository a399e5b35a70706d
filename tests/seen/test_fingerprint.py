"""Tests of fingerprints: 64 bits, never 0, the same alone and in a batch."""

import xxhash
from hypothesis import given
from strategies import urls

from webcrawl.seen import fingerprint as module
from webcrawl.seen.fingerprint import fingerprint, fingerprints


@given(urls())
def test_fingerprint_is_xxh3_of_the_utf8_bytes(url):
    assert fingerprint(url) == xxhash.xxh3_64_intdigest(url.encode())
    assert 0 < fingerprint(url) < 1 << 64


def test_batch_and_single_agree():
    some = ["http://a.test/", "http://b.test/ä", ""]
    assert fingerprints(some) == [fingerprint(url) for url in some]


def test_zero_is_mapped_to_one(monkeypatch):
    monkeypatch.setattr(module, "xxh3_64_intdigest", lambda data, seed: 0)
    assert fingerprint("http://a.test/") == 1
    assert fingerprints(["http://a.test/"]) == [1]
