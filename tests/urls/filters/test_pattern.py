"""What the URLs of one program have in common."""

from hypothesis import given
from hypothesis import strategies as st
from strategies import urls
from text_tables import cases

from webcrawl.urls import normalize
from webcrawl.urls.filters.pattern import MAX_PATTERN, is_broad, is_root, patterns_of


@cases(
    "url shape branch",
    """
        http://a.test/ | http://a.test/ |
        http://a.test | http://a.test/ |
        https://a.test:81/ | https://a.test:81/ |
        http://a.test/about.html | http://a.test/about.html |
        http://a.test/?p=3 | http://a.test/?p | http://a.test/?{*}
        http://a.test/cal/2026/11?v=m&sid=1
            | http://a.test/cal/{n}/{n}?sid&v
            | http://a.test/cal/{*}
        http://a.test/x.php?b=1&a=2&b=3 | http://a.test/x.php?a&b | http://a.test/x.php?{*}
        http://a.test/x.php?f[12]=1&f[7]=2 | http://a.test/x.php?f[{n}] | http://a.test/x.php?{*}
        http://a.test/x? | http://a.test/x? | http://a.test/x?{*}
        http://a.test/forum/topic-4711.html
            | http://a.test/forum/topic-{n}.html
            | http://a.test/forum/{*}
        http://a.test/2024/05-03/x/ | http://a.test/{n}/{n}-{n}/x/ | http://a.test/{n}/{*}
        http://a.test/s/8f3a91c2e5d04b77/x | http://a.test/s/{x}/x | http://a.test/s/{*}
        http://a.test/dQw4w9WgXcQ | http://a.test/{x} |
        http://a.test/550e8400-e29b-41d4-a716-446655440000 | http://a.test/{x} |
        http://a.test/deadbeef/x | http://a.test/deadbeef/x | http://a.test/deadbeef/{*}
        http://a.test/page2/mp3 | http://a.test/page{n}/mp{n} | http://a.test/page{n}/{*}
        http://a.test/the-title-of-it.HTML | http://a.test/{w}.html |
        http://a.test/two-words/x_y | http://a.test/two-words/x_y | http://a.test/two-words/{*}
        http://a.test/caf%C3%A9 | http://a.test/{w} |
        http://a.test/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | http://a.test/{w} |
        http://a.test/a/a/a/a/a/a/a/a/a/a/a/a
            | http://a.test/a/a/a/a/a/a/a/a/a/a/{*}
            | http://a.test/a/{*}
        ftp://a.test/pub/x1.gz | ftp://a.test/pub/x{n}.gz | ftp://a.test/pub/{*}
    """,
)
def test_the_varying_parts_of_a_url_become_signs_of_its_pattern(url, shape, branch):
    assert patterns_of(url) == (shape, branch)


@cases(
    "pattern broad",
    """
        http://a.test/               | yes
        http://a.test/{w}            | yes
        http://a.test/{w}.html       | yes
        http://a.test/{n}/{n}/{w}/   | yes
        http://a.test/x/{*}          | yes
        http://a.test/?{*}           | yes
        http://a.test/?p             |
        http://a.test/x/{n}          |
        http://a.test/topic-{n}.html |
    """,
)
def test_broad_patterns_say_next_to_nothing(pattern, broad):
    assert is_broad(pattern) == bool(broad)


def test_first_page_is_a_root():
    assert is_root("http://a.test/")
    assert not is_root("http://a.test/x/")
    assert not is_root("http://a.test/?p")


@given(st.text(st.characters(codec=None)) | urls() | st.text("aA1-_.%/?&=:{}~é ", max_size=60))
def test_every_text_has_a_pattern_that_can_stand_in_a_file(text):
    shape, branch = patterns_of(text)
    for pattern in (shape, branch):
        assert len(pattern) <= MAX_PATTERN
        assert pattern.isascii()
        assert " " not in pattern
    url = normalize(text)
    if url is not None:
        assert all(one.isprintable() for one in patterns_of(url))


@given(st.integers(0, 10**12), st.integers(0, 2**64), st.sampled_from(["a", "x-y", "Read_me"]))
def test_numbers_and_ids_never_make_a_pattern_of_their_own(number, drawn, word):
    base = patterns_of(f"http://a.test/{word}/7/8f3a91c2e5d04b77?id=1")
    other = patterns_of(f"http://a.test/{word}/{number}/{drawn:016x}?id={number}")
    if any(char in "abcdef" for char in f"{drawn:016x}") and any(
        char.isdigit() for char in f"{drawn:016x}"
    ):
        assert other == base


@given(st.text("a/?&=%1.-", min_size=1).map(lambda text: text * 500))
def test_endless_urls_have_short_patterns(rest):
    assert all(len(one) <= MAX_PATTERN for one in patterns_of(f"http://a.test/{rest}"))
