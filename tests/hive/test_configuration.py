"""The settings of a hive: what they may be, and one sentence for what they may not."""

import pytest
from scrapy.settings import Settings
from text_tables import cases, each

from webcrawl.errors import FatalError
from webcrawl.hive.configuration import check_hive_settings, store_url


def test_a_hive_needs_no_more_than_a_name():
    assert check_hive_settings(Settings({"HIVE": "web-1"})) == ("web-1", 64, 10.0)


@each("key", None, "host", "domain")
def test_settings_may_be_as_the_command_line_has_them(key):
    given = {"HIVE": "w", "HIVE_SHARDS": "4096", "HIVE_LEASE_SECS": "1.5", "POLITENESS_KEY": key}
    assert check_hive_settings(Settings(given)) == ("w", 4096, 1.5)


@cases(
    "name value sentence",
    """
        HIVE            | a{b}    | HIVE must be a name of at most 64 letters, .* not 'a{b}'
        HIVE            | LONG    | HIVE must be a name of at most 64 letters
        HIVE            | ../up   | HIVE must be a name of at most 64 letters
        HIVE_SHARDS     | 0       | HIVE_SHARDS must be a whole number of at least 1, not 0
        HIVE_SHARDS     | 4097    | HIVE_SHARDS must be at most 4096, not 4097
        HIVE_LEASE_SECS | 0.5     | HIVE_LEASE_SECS must be a number of at least 1, not 0.5
        POLITENESS_KEY  | address | "POLITENESS_KEY must be host or domain in a hive: "
    """,
    {"LONG": "a" * 65},
)
def test_impossible_settings_of_a_hive_end_with_one_sentence(name, value, sentence):
    with pytest.raises(FatalError, match=sentence):
        check_hive_settings(Settings({"HIVE": "web", name: value}))


def test_the_store_is_beside_the_job_directory_unless_it_is_said_where(tmp_path):
    given = {"HIVE": "web", "JOBDIR": str(tmp_path / "drones/1")}
    assert store_url(Settings(given)) == str(tmp_path / "drones/web.store")
    assert store_url(Settings(given | {"HIVE_STORE": "s3://b/x"})) == "s3://b/x"
    with pytest.raises(FatalError, match="HIVE needs a JOBDIR"):
        store_url(Settings({"HIVE": "web"}))
