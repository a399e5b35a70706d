"""Values of webcrawl's settings that are not of the type of their default are refused."""

import pytest
from scrapy.settings import Settings
from text_tables import each

import webcrawl.settings as own_settings
from webcrawl.configuration.scrapys import SCRAPYS
from webcrawl.configuration.setting_check import check_crawl
from webcrawl.errors import FatalError

# Settings whose default does not tell their type: they are read before a crawl starts, or have no
# effect without the part that reads them. By the type.
OTHERS = """
    choice: SEEN_CACHE HIVE_CACHE RENDER RENDER_ENGINE RIGHTS_POLICY TEXT_FORMAT
    URL_SCOPE POLITENESS_PROFILE POLITENESS_KEY POLITENESS_LONG_CRAWL_DELAY CRAWL_PURPOSE
    CRAWLER_SIGNATURE_FORM
    number: SEEN_CACHE_SIZE SEEN_BUFFER_SIZE PAGE_MAX_BYTES NET_KEEPALIVE_CONNECTIONS
    POLITENESS_DELAY_FACTOR POLITENESS_MIN_DELAY POLITENESS_MAX_DELAY
    file: HOSTS_POLICY_FILE EXCLUSION_FILE CRAWLER_KEY_FILE URL_HOST_RULES_FILE SUFFIX_LIST_FILE
    TRAP_EXCEPTIONS_FILE HOSTS_FILE RANKS_FILE MONITOR_TOKEN_FILE SCORE_MODEL
    output: URL_TRACE WARC_DIR TEXT_DIR SEARCH_DIR LARM_DIR OUTPUT_STORE HIVE_STORE WARC_DEDUP_FROM
    address: METRICS_HOST MONITOR_HOST WEBSUB_URL REDIS_URL CRAWLER_SIGNATURE_AGENT CRAWLER_CONTACT
    text: CRAWLER_NAME HIVE WARC_PREFIX WARC_OPERATOR WARC_DESCRIPTION SCORE_LABEL
    list: PAGE_CONTENT_TYPES PAGE_REFUSED_CONTENT_TYPES LINK_KINDS URL_EQUIVALENCES URL_RESTRICT_TO
    URL_REFUSE URL_REFUSED_EXTENSIONS URL_PORTS GOPHER_PORTS DNS_SERVERS
"""
WRONG = {bool: "maybe", int: "many", float: "soon", dict: "[1", str: "webcrawl.nothing.Here"}
# What the sentences call the types.
NAMES = {
    bool: "must be true or false", int: "must be a number", float: "must be a number",
    dict: "must be a dictionary", str: "which cannot be loaded",
}  # fmt: skip
OWN = {
    name: getattr(own_settings, name)
    for name in dir(own_settings)
    if name.isupper() and name not in SCRAPYS
}


def has_type(default):
    """Whether the default tells the type: a path of a class does, other text does not."""
    return type(default) in {bool, int, float, dict} or str(default).startswith("webcrawl.")


def others():
    return {word for word in OTHERS.split() if not word.endswith(":")}


def check(**given):
    settings = Settings()
    settings.setmodule("webcrawl.settings", priority="project")
    for name, value in given.items():
        settings.attributes.pop(name, None)
        settings.set(name, value, priority="cmdline")
    check_crawl(settings)


def test_every_setting_has_a_type():
    typed = {name for name, default in OWN.items() if has_type(default)}
    assert typed & others() == set()
    assert typed | others() == OWN.keys()


@each("name", *sorted(name for name, default in OWN.items() if has_type(default)))
def test_a_value_of_another_type_is_a_sentence(name):
    kind = type(OWN[name])
    with pytest.raises(FatalError, match=f"{name} .*{NAMES[kind]}"):
        check(**{name: WRONG[kind]})


def test_defaults_and_their_texts_are_of_their_types():
    check()
    check(
        **{
            name: str(default)
            for name, default in OWN.items()
            if type(default) in {bool, int, float}
        }
    )
