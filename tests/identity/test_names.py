"""User-Agent and product tokens that follow from purpose, name, contact and USER_AGENT."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from webcrawl.errors import FatalError
from webcrawl.identity.names import product_tokens, user_agent_of
from webcrawl.rights.purposes import PURPOSES

PAGE = "https://a.test/bot"
OURS = "webcrawl/0.3"


def settings_with(**values):
    return Settings({"USER_AGENT": OURS, **values})


@pytest.mark.parametrize(
    ("values", "agent", "tokens"),
    [
        ({}, OURS, ["webcrawl"]),
        ({"CRAWL_PURPOSE": "search"}, "webcrawl-search/0.3 (search)",
         ["webcrawl-search", "webcrawl"]),
        (
            {"CRAWL_PURPOSE": "train", "CRAWLER_CONTACT": PAGE},
            f"webcrawl-train/0.3 (train; +{PAGE})",
            ["webcrawl-train", "webcrawl"],
        ),
        ({"USER_AGENT": "", "CRAWL_PURPOSE": "agent"}, "webcrawl-agent/0.3 (agent)",
         ["webcrawl-agent", "webcrawl"]),
        ({"CRAWLER_NAME": "my_bot"}, "my_bot/0.3", ["my_bot"]),
        ({"CRAWLER_NAME": "MyBot", "CRAWL_PURPOSE": "archive"}, "MyBot/0.3 (archive)",
         ["MyBot-archive", "MyBot"]),
        ({"CRAWLER_NAME": "my-Archive", "CRAWL_PURPOSE": "archive"}, "my-Archive/0.3 (archive)",
         ["my-archive", "my"]),
        # An agent of the user's own gets what it lacks.
        ({"USER_AGENT": "ours/2", "CRAWL_PURPOSE": "search"}, "ours/2 (search)",
         ["ours-search", "ours"]),
        ({"USER_AGENT": f"ours/2 (+{PAGE})", "CRAWL_PURPOSE": "search", "CRAWLER_CONTACT": PAGE},
         f"ours/2 (+{PAGE}) (search)", ["ours-search", "ours"]),
        ({"USER_AGENT": "ours/2 (Search; x)", "CRAWL_PURPOSE": "search"}, "ours/2 (Search; x)",
         ["ours-search", "ours"]),
        ({"USER_AGENT": "research/2", "CRAWL_PURPOSE": "search"}, "research/2 (search)",
         ["research-search", "research"]),
        ({"USER_AGENT": "Mozilla/5.0 (compatible; Ours/1; x)", "CRAWL_PURPOSE": "search",
          "CRAWLER_NAME": "ours"}, "Mozilla/5.0 (compatible; Ours/1; x) (search)",
         ["ours-search", "ours"]),
        ({"ROBOTSTXT_USER_AGENT": "other", "CRAWL_PURPOSE": "search"},
         "webcrawl-search/0.3 (search)", ["other-search", "other"]),
    ],
)  # fmt: skip
def test_agent_and_tokens_name_the_purpose(values, agent, tokens):
    settings = settings_with(**values)
    assert user_agent_of(settings) == agent
    assert [*product_tokens(settings)] == tokens
    # The extension puts the result into the setting, from which others read it again.
    settings["USER_AGENT"] = agent
    assert user_agent_of(settings) == agent
    assert [*product_tokens(settings)] == tokens


@pytest.mark.parametrize(
    ("values", "token"),
    [
        ({"USER_AGENT": "webcrawl/0.1 (+https://a.test)"}, "webcrawl"),
        ({"USER_AGENT": "Mozilla/5.0 (compatible; WebCrawl/1.0; +https://a.test)"}, "WebCrawl"),
        ({"USER_AGENT": "My-Bot_x 1.0"}, "My-Bot_x"),
        ({"USER_AGENT": "other/1", "ROBOTSTXT_USER_AGENT": "webcrawl"}, "webcrawl"),
        ({}, "Scrapy"),
    ],
)
def test_the_token_is_the_product_that_the_settings_name(values, token):
    assert product_tokens(Settings(values)) == (token,)


@pytest.mark.parametrize("name", ["", None, "*", "(+https://a.test)", "42"])
def test_a_user_agent_without_a_product_is_refused(name):
    with pytest.raises(FatalError, match=r"^USER_AGENT must begin with a product name"):
        product_tokens(Settings({"USER_AGENT": name}))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"CRAWLER_NAME": "bot2"}, "CRAWLER_NAME must consist of letters, hyphens and underscores"),
        ({"CRAWLER_NAME": "my bot"}, "CRAWLER_NAME must consist of"),
        ({"CRAWLER_NAME": "mine", "USER_AGENT": "ours/2"},
         "USER_AGENT must contain CRAWLER_NAME, mine, but is 'ours/2'."),
        ({"CRAWL_PURPOSE": "search,train"}, "CRAWL_PURPOSE is 'search,train', but a crawl has one"),
        ({"CRAWL_PURPOSE": "search train"}, "CRAWL_PURPOSE is 'search train', but a crawl has one"),
        ({"CRAWL_PURPOSE": "it"}, f"CRAWL_PURPOSE must be {', '.join(PURPOSES[:-1])} or research"),
    ],
)  # fmt: skip
def test_names_and_purposes_that_cannot_be_are_a_sentence(values, sentence):
    with pytest.raises(FatalError) as caught:
        user_agent_of(settings_with(**values))
    assert str(caught.value).startswith(sentence)
