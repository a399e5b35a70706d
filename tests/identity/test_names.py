"""User-Agent and product tokens that follow from purpose, name, contact and USER_AGENT."""

import pytest
from scrapy.settings import Settings
from text_tables import each, table, words

from webcrawl.errors import FatalError
from webcrawl.identity.names import product_tokens, user_agent_of

NAMES = words("USER_AGENT CRAWL_PURPOSE CRAWLER_NAME CRAWLER_CONTACT ROBOTSTXT_USER_AGENT")


def settings_of(text):
    """The settings in *text*, such as "PURPOSE=search, CONTACT=bot@a.test"."""
    given = dict(part.split("=", 1) for part in filter(None, text.split(", ")))
    named = {next(name for name in NAMES if name.endswith(key)): given[key] for key in given}
    return Settings({"USER_AGENT": "webcrawl/0.5", **named})


@each(
    "given agent tokens",
    *table("""
        PURPOSE= | webcrawl/0.5 | webcrawl
        PURPOSE=search | webcrawl-search/0.5 (search) | webcrawl-search webcrawl
        PURPOSE=train, CONTACT=bot@a.test | webcrawl-train/0.5 (train; +bot@a.test)
            | webcrawl-train webcrawl
        USER_AGENT=, PURPOSE=agent | webcrawl-agent/0.5 (agent) | webcrawl-agent webcrawl
        NAME=my_bot | my_bot/0.5 | my_bot
        NAME=MyBot, PURPOSE=archive | MyBot/0.5 (archive) | MyBot-archive MyBot
        NAME=my-Archive, PURPOSE=archive | my-Archive/0.5 (archive) | my-archive my
        USER_AGENT=ours/2, PURPOSE=search | ours/2 (search) | ours-search ours
        USER_AGENT=ours/2 (+a@a.test), PURPOSE=search, CONTACT=a@a.test
            | ours/2 (+a@a.test) (search) | ours-search ours
        USER_AGENT=ours/2 (Search; x), PURPOSE=search | ours/2 (Search; x)
            | ours-search ours
        USER_AGENT=research/2, PURPOSE=search | research/2 (search) | research-search research
        USER_AGENT=Mozilla/5.0 (compatible; Ours/1), PURPOSE=search, NAME=ours
            | Mozilla/5.0 (compatible; Ours/1) (search) | ours-search ours
        TXT_USER_AGENT=other, PURPOSE=search | webcrawl-search/0.5 (search) | other-search other
        USER_AGENT=Mozilla/5.0 (compatible; WebCrawl/1.0; x) | | WebCrawl
        USER_AGENT=My-Bot_x 1.0 | My-Bot_x 1.0 | My-Bot_x
        USER_AGENT=other/1, TXT_USER_AGENT=webcrawl | other/1 | webcrawl
    """),
)
def test_agent_and_tokens_name_the_purpose(given, agent, tokens):
    settings = settings_of(given)
    if agent:
        assert user_agent_of(settings) == agent
    # The extension puts the result into the setting, from which others read it again.
    for _ in range(2):
        assert [*product_tokens(settings)] == tokens.split()
        settings["USER_AGENT"] = user_agent_of(settings)


@each(
    "given sentence",
    *table("""
        NAME=bot2 | CRAWLER_NAME must consist of letters, hyphens and underscores
        NAME=my bot | CRAWLER_NAME must consist of
        NAME=mine, USER_AGENT=ours/2 | USER_AGENT must contain CRAWLER_NAME, mine, but is 'ours/2'.
        PURPOSE=search,train | CRAWL_PURPOSE is 'search,train', but a crawl has one purpose
        PURPOSE=search train | CRAWL_PURPOSE is 'search train', but a crawl has one purpose
        PURPOSE=sell | CRAWL_PURPOSE must be one of search, agent, train, archive, research
        USER_AGENT= | USER_AGENT must begin with a product name
        USER_AGENT=* | USER_AGENT must begin with a product name
        USER_AGENT=(+https://a.test) | USER_AGENT must begin with a product name
        USER_AGENT=42 | USER_AGENT must begin with a product name
    """),
)
def test_names_and_purposes_that_cannot_be_are_a_sentence(given, sentence):
    with pytest.raises(FatalError) as caught:
        [named(settings_of(given)) for named in (user_agent_of, product_tokens)]
    assert str(caught.value).startswith(sentence)
