"""For tests by Hypothesis: strategies for hosts, URLs and frontier entries; numbers of examples."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from webcrawl.frontier import Entry

_LABEL = "abcdefghijklmnopqrstuvwxyz0123456789"
_PATH = _LABEL + "-._~%/?=&;:@!$'()*+,äß中"
# No lone surrogates: they cannot be encoded, and the normalizer lets none through.
_TEXT = st.characters(codec="utf-8")


def examples(number, **more):
    """*number* examples in ``make test-long``, an eighth of them in every run."""
    share = 1 if settings.default.max_examples >= 100 else 8
    return settings(max_examples=max(5, number // share), **more)


def seeds(number):
    """The seeds of a test by chance: *number* in ``make test-long``, a third in every run."""
    long = pytest.mark.long
    return [pytest.param(seed, marks=[long] * (seed * 3 >= number)) for seed in range(number)]


def some_of(places, edges=()):
    """*places* in a file to harm: all in ``make test-long``, in every run each third, the last and
    those at *edges*."""
    places = [*places]
    if settings.default.max_examples >= 100:
        return places
    near = {edge + by for edge in edges for by in (-1, 0, 1)}
    return sorted({*places[::3], *places[-1:], *near.intersection(places)})


def hosts():
    """Host names as the frontier keys them: lower case, no port; also addresses."""
    label = st.text(_LABEL, min_size=1, max_size=8)
    names = st.lists(label, min_size=1, max_size=3).map(lambda labels: ".".join([*labels, "test"]))
    return names | st.sampled_from(["127.0.0.1", "::1", "xn--bcher-kva.test", "localhost"])


def urls(host=None):
    """Absolute http and https URLs."""
    return st.builds(
        "{}://{}/{}".format,
        st.sampled_from(["http", "https"]),
        (hosts() if host is None else host).map(
            lambda name: f"[{name}]" if ":" in name else name,
        ),
        st.text(_PATH, max_size=20),
    )


def entries():
    """Frontier entries with every field at work."""
    return st.builds(
        Entry,
        url=urls(),
        host=hosts(),
        depth=st.integers(0, 1000),
        rank=st.integers(0, 10**9),
        via=urls() | st.just(""),
        kind=st.sampled_from(["a", "img", "redirect", ""]),
        attempts=st.integers(0, 50),
        discovered_at=st.floats(0, 4e9),
        extra=st.binary(max_size=20) | st.text(_TEXT, max_size=5).map(str.encode),
    )
