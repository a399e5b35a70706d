"""Settings as numbers and truth values: what is taken, and the sentence for what is not."""

import math
from functools import partial

import pytest
from scrapy.settings import Settings
from text_tables import each

from webcrawl import settings as project
from webcrawl.configuration.values import flag, number, positive_number, share, whole_number
from webcrawl.errors import FatalError

NONSENSE = ["", "soon", "1,5", "0x10", "ten", [1], {"a": 1}, "nan", "1e400", math.nan]
WHOLE, NUMBER = (partial(reader, at_least=0) for reader in (whole_number, number))


@each(
    "reader values",
    (WHOLE, {3: 3, "3": 3, " 7 ": 7, True: 1, 5.0: 5, 0: 0}),
    (partial(whole_number, at_least=2), {2: 2}),
    (partial(number, at_least=1.5), {1.5: 1.5}),
    (NUMBER, {0.5: 0.5, "2.5": 2.5, "1e3": 1000, 3: 3, 0: 0}),
    (positive_number, {0.5: 0.5, "2.5": 2.5, "1e3": 1000, 3: 3}),
    (share, {0.001: 0.001, "0.5": 0.5, 0.999: 0.999}),
    (flag, {True: True, "1": True, "True": True, "true": True}),
    (flag, {False: False, "0": False, "False": False, "false": False}),
)
def test_values_come_from_code_and_from_the_command_line(reader, values):
    assert {value: reader(Settings({"X": value}), "X") for value in values} == values


@each(
    "reader values what",
    (WHOLE, [*NONSENSE, "1.5", "1e3", math.inf, "-1"], "a whole number of at least 0"),
    (partial(whole_number, at_least=10), [9, None], "a whole number of at least 10"),
    (NUMBER, [*NONSENSE, math.inf, "inf", "-inf", -0.1], "a number of at least 0"),
    (partial(number, at_least=1.5), [1.4], "a number of at least 1.5"),
    (positive_number, [*NONSENSE, 0, "0", "0.0", -1, "inf"], "a positive number"),
    (share, [*NONSENSE, 0, 1, "1.0", 2, -0.1, "inf"], "a number between 0 and 1"),
    (flag, [*NONSENSE, "-1", -1, 2, "None", "yes", b"1"], "true or false"),
)
def test_each_reader_refuses_impossible_values_with_a_sentence(reader, values, what):
    for value in values:
        with pytest.raises(FatalError) as caught:
            reader(Settings({"X": value}), "X")
        assert str(caught.value) == f"X must be {what}, not {value!r}."
    assert issubclass(FatalError, ValueError)  # as Scrapy's own are


@each("reader", WHOLE, NUMBER, positive_number)
@each(
    "name value",
    ("SHUTDOWN_GRACE_SECS", "1000000000000"),
    ("DOWNLOAD_TIMEOUT", "200000000d"),
    ("PAGE_MAX_LINKS", str(10**25)),
)
def test_a_number_that_no_crawl_can_need_is_a_sentence(reader, name, value):
    with pytest.raises(FatalError, match=f"^{name} must be at most 10*,.*000, not"):
        reader(Settings({name: value}), name)


@each(
    "reader name given value",
    (partial(whole_number, at_least=1), "MEMORY_BUDGET", "2GB", 2_000_000_000),
    (partial(whole_number, at_least=1), "MEMORY_BUDGET", "1.5 gib", 3 << 29),
    (partial(whole_number, at_least=1), "PAGE_MAX_BYTES", "200kB", 200_000),
    (positive_number, "DOWNLOAD_TIMEOUT", "1.5min", 90),
    (positive_number, "ROBOTS_EXPIRE_SECS", "1d", 86_400),
    (NUMBER, "POLITENESS_MIN_DELAY", "70s", 70),
    (NUMBER, "POLITENESS_MIN_DELAY", "500ms", 0.5),
    (NUMBER, "POLITENESS_MAX_CRAWL_DELAY", " 1h ", 3600),
)
def test_sizes_and_times_take_units(reader, name, given, value):
    assert reader(Settings({name: given}), name) == value


@each(
    "name given",
    *(("MEMORY_BUDGET", "70s"), ("MEMORY_BUDGET", "2G"), ("MEMORY_BUDGET", "1.23kBB")),
    *(("PAGE_MAX_LINKS", "5kB"), ("PAGE_MAX_BYTES", "-1kB")),
)
def test_a_unit_of_another_kind_is_a_sentence(name, given):
    with pytest.raises(FatalError, match=f"{name} must be a whole number of at least 1, not"):
        whole_number(Settings({name: given}), name, at_least=1)


def test_a_project_without_the_setting_has_the_default_of_this_one():
    empty = Settings()
    assert whole_number(empty, "OUTAGE_HOSTS", at_least=1) == project.OUTAGE_HOSTS
    assert number(empty, "POLITENESS_JITTER", at_least=0) == project.POLITENESS_JITTER
    assert positive_number(empty, "NET_MIN_RATE_SECS") == project.NET_MIN_RATE_SECS
    assert share(empty, "SEEN_BLOOM_ERROR_RATE") == project.SEEN_BLOOM_ERROR_RATE
    assert flag(empty, "NOFOLLOW_OBEY") == project.NOFOLLOW_OBEY
    with pytest.raises(FatalError, match=r"NET_MIN_RATE_SECS must be a positive number, not None"):
        positive_number(Settings({"NET_MIN_RATE_SECS": None}), "NET_MIN_RATE_SECS")
