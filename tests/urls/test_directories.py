"""Resolving by directory gives what resolving each reference gives."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webcrawl.urls import SCHEMES, normalize
from webcrawl.urls.extraction.resolver import Directories, Resolver

BASES = [
    "http://a.test/x/y/z.html", "https://a.test/", "https://a.test:8443/x?q=/1", "ftp://a.test/x/y",
    "gopher://a.test/1/x", "http://[::1]/x/", "http://a.test//x//",
]  # fmt: skip

PIECES = [
    "/",
    "//",
    "..",
    ".",
    "x",
    "page.html",
    "?",
    "q=1",
    "#",
    "http:",
    "https:",
    "HTTP://",
    "ftp:",
    "gopher:",
    "a.test",
    "B.test:80",
    "user@",
    ":",
    "\\",
    "%2e",
    "%",
    "é",
    "xn--",
    "1",
    "0x7f",
    "[",
    "]",
    "@",
    "file:",
    "javascript:",
    "data:",
    "~",
    "-",
    "_",
    ";",
    "&",
    "*",
]
reference = st.lists(st.sampled_from([*PIECES, " ", "\t", "\n"]), max_size=10).map("".join)


@settings(max_examples=1000)
@given(
    st.sampled_from(BASES),
    st.lists(reference, min_size=1, max_size=4),
    st.sampled_from(["utf-8", "cp1251"]),
    st.sampled_from([SCHEMES, frozenset({"http"})]),
)
@example("https://a.test/", ["http:/x", "http:///x", "//x", "///x", "/\\x/y"], "utf-8", SCHEMES)
def test_answer_is_that_of_the_resolver(base, references, codec, schemes):
    resolver = Resolver(base, codec=codec, schemes=schemes)
    directories = Directories(resolver)
    for text in [*references, *[text + "/" for text in references], *references]:
        for suffix in ("", "name", "name?q=1#f", "?q", ".x", "..", "%2e%2E"):
            expected = resolver.resolve(text + suffix)
            assert directories.resolve(text + suffix) == expected
            if codec == "utf-8":
                assert expected == normalize(text + suffix, base, schemes=schemes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("../../c/1.html", "http://a.test/c/1.html"),
        ("../../c/2.html?x=1#y", "http://a.test/c/2.html?x=1"),
        ("https://B.test:443/é/1", "https://b.test/%C3%A9/1"),
        ("https://B.test:443/é/", "https://b.test/%C3%A9/"),
        ("../a/?b/c", "http://a.test/x/a/?b/c"), ("http://", None),
        ("//b.test/../x/y", "http://b.test/x/y"),
    ],
)  # fmt: skip
def test_directory_is_resolved_once(text, expected):
    directories = Directories(Resolver("http://a.test/x/y/z"))
    assert directories.resolve(text) == directories.resolve(text) == expected
