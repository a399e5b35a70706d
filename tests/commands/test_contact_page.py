"""The page about the crawler, as it is written from the settings."""

from html.parser import HTMLParser

import warm
from text_tables import each

_GIVEN = {
    "CRAWLER_CONTACT": "bot@example.org",
    "USER_AGENT": "mybot/1.0",
    "WARC_OPERATOR": "The <Institute>",
    "WARC_DESCRIPTION": "a study of links",
}

NO_ADDRESSES = (
    "It names no addresses, so owners cannot verify requests: give each with --address.\n"
)


def written(tmp_path, *words, **given):
    path = tmp_path / "bot.html"
    options = [word for name, value in given.items() for word in ("-s", f"{name}={value}")]
    run = warm.scrapy("identity", "contact-page", path, *options, *words)
    return run, path.read_text() if path.exists() else ""


def text_of(page):
    words = []
    parser = HTMLParser()
    parser.handle_data = words.append
    parser.feed(page)
    return " ".join(" ".join(words).split())


def test_the_page_says_who_crawls_how_and_how_to_be_excluded(tmp_path):
    run, page = written(tmp_path, "--address", "192.0.2.0/24", **_GIVEN)
    assert (run.returncode, run.stderr) == (0, "")
    assert NO_ADDRESSES not in run.stdout
    text = text_of(page)
    for sentence in (
        "Operator: The <Institute>. Purpose: a study of links. Contact: bot@example.org.",
        "User-Agent: mybot/1.0 (+bot@example.org)",
        "User-agent: mybot , Disallow: /",
        "A host gets one request at a time.",
        "10 times the download time, at least 3 seconds",
        "A host that asks for more than 300 seconds is not crawled.",
        "again after 24 hours",
        "no more than 5,242,880 bytes",
        "Ours come from 192.0.2.0/24.",
    ):
        assert sentence in text
    assert "<Institute>" not in page


def test_the_page_follows_the_settings(tmp_path):
    run, page = written(tmp_path, **_GIVEN, POLITENESS_LONG_CRAWL_DELAY="cap")
    assert NO_ADDRESSES in run.stdout
    said = "If a host asks for more than 300 seconds, the crawler waits only 300 seconds."
    assert said in text_of(page)
    _, page = written(tmp_path, **_GIVEN, POLITENESS_PROFILE="nielsen", ROBOTSTXT_OBEY=0)
    text = text_of(page)
    for sentence in (
        "A domain gets one request at a time. After each there is a pause of at least 70 seconds",
        "no more than 200,000 bytes",
        "This crawl does not read robots.txt.",
        "It respects Retry-After. It reads",
    ):
        assert sentence in text
    assert text.count("robots.txt") == 1


def test_a_page_at_crawler_contact_names_a_mail_address(tmp_path):
    given = {**_GIVEN, "CRAWLER_CONTACT": "https://example.org/mybot"}
    _, page = written(tmp_path, "--mail", "mybot@example.org", **given)
    assert "Contact: mybot@example.org." in text_of(page)
    assert "(+https://example.org/mybot)" in page


@each(
    "given sentence",
    ({}, "CRAWLER_CONTACT is empty: the page must say whom to contact."),
    (
        {"CRAWLER_CONTACT": "https://example.org/"},
        "CRAWLER_CONTACT is https://example.org/, the",
    ),
    ({"CRAWLER_CONTACT": "nobody"}, "CRAWLER_CONTACT must be the http(s) URL"),
    ({**_GIVEN, "POLITENESS_PROFILE": "x"}, "POLITENESS_PROFILE must be"),
)
def test_a_page_that_cannot_be_written_is_reported_in_one_sentence(tmp_path, given, sentence):
    run, page = written(tmp_path, **given)
    assert (run.returncode, page) == (2, "")
    assert run.stderr.startswith(f"identity: {sentence}")
    assert run.stderr.count("\n") == 1
