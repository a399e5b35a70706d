"""Whose crawl it is: what servers are told, and the warning when it is nobody's."""

import asyncio
import logging

import pytest
from crawling import (
    crawl_of_urls,
    finish,
)
from loopback import name_server, raw_server, zone
from scrapy import Spider, signals
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.errors import FatalError
from webcrawl.identity.keys import write_new_key
from webcrawl.identity.names import product_tokens
from webcrawl.net.http import HttpDownloadHandler
from webcrawl.net.http.request import SIGNERS

PAGE = "https://example.org/crawler"
MAIL = "crawl-ops@example.org"


EXTENSIONS = {"webcrawl.extensions.identification.Identification": 0}


def crawler_with(spider=None, **settings):
    return get_crawler(
        spider, settings_dict={"USER_AGENT": "webcrawl/0.5", "EXTENSIONS": EXTENSIONS, **settings}
    )


@cases(
    "agent contact sent",
    """
        webcrawl/0.5 |      | webcrawl/0.5
        webcrawl/0.5 | PAGE | webcrawl/0.5 (+https://example.org/crawler)
        webcrawl/0.5 | MAIL | webcrawl/0.5 (+crawl-ops@example.org)
        Mozilla/5.0 (compatible; ours/2) | PAGE
        | Mozilla/5.0 (compatible; ours/2) (+https://example.org/crawler)
        ""           | PAGE | webcrawl/0.5 (+https://example.org/crawler)
        ""           | ""   | ""
        # Who has said it already is left alone.
        ours/2 (see https://example.org/crawler) | PAGE
        | ours/2 (see https://example.org/crawler)
        ours/2 (+http://ours.example/) | PAGE | ours/2 (+http://ours.example/)
        ours/2 (me@ours.example)       | PAGE | ours/2 (me@ours.example)
        ours/2 (+https:)               | PAGE | ours/2 (+https:) (+https://example.org/crawler)
    """,
    globals(),
)
def test_the_user_agent_names_the_contact(agent, contact, sent):
    settings = crawler_with(USER_AGENT=agent, CRAWLER_CONTACT=contact).settings
    assert settings["USER_AGENT"] == sent
    if agent:
        assert product_tokens(settings) == product_tokens(get_crawler(
            settings_dict={"USER_AGENT": agent}
        ).settings)  # fmt: skip


@cases(
    "contact",
    r"""
        example.org/crawler
        ftp://example.org/
        https://
        https:///x
        http://[::1/
        https://example.org/a b
        https://example.org/(a)
        https://example.org/\
        "https://example.org/\r\nX: y"
        "https://example.org/\x00"
        https://bücher.example/
        me
        me@
        @example.org
        me@example
        me@@example.org
        a b@example.org
        mailto:me@example.org?x
        <me@example.org>
        " "
    """,
)
def test_a_contact_without_page_or_address_is_a_sentence(contact):
    with pytest.raises(FatalError) as caught:
        crawler_with(CRAWLER_CONTACT=contact)
    assert str(caught.value) == (
        "CRAWLER_CONTACT must be the http(s) URL of a page about the crawl or an email "
        f"address, not {contact!r}."
    )


@each("contact", "HTTP://example.org", "http://[::1]:80/?a=b&c#d", "a+b@c.d.e")
def test_unusual_contacts_are_contacts(contact):
    settings = crawler_with(CRAWLER_CONTACT=contact).settings
    assert settings["USER_AGENT"] == f"webcrawl/0.5 (+{contact})"


@each("agent", "a/1\r\nX: y", "a/1\x00", "bücher/1")
def test_a_user_agent_that_cannot_be_sent_is_a_sentence(agent):
    with pytest.raises(FatalError, match=r"^USER_AGENT must be printable ASCII, not .*\.$"):
        crawler_with(USER_AGENT=agent)


def test_a_mail_address_is_also_the_from_header_unless_there_is_one():
    headers = crawler_with(CRAWLER_CONTACT=MAIL).settings["DEFAULT_REQUEST_HEADERS"]
    assert headers["From"] == MAIL
    assert "Accept" in headers
    for given in ({"from": "me@example.org"}, '{"from": "me@example.org"}'):
        crawler = crawler_with(CRAWLER_CONTACT=MAIL, DEFAULT_REQUEST_HEADERS=given)
        assert dict(crawler.settings["DEFAULT_REQUEST_HEADERS"]) == {"from": "me@example.org"}
    assert "From" not in crawler_with(CRAWLER_CONTACT=PAGE).settings["DEFAULT_REQUEST_HEADERS"]


def test_a_contact_and_a_user_agent_of_the_spider_count():
    class Ours(Spider):
        name = "ours"
        custom_settings = {"USER_AGENT": "ours/2", "CRAWLER_CONTACT": PAGE}  # noqa: RUF012  as users write it

    crawler = crawler_with(Ours)
    assert crawler.settings["USER_AGENT"] == f"ours/2 (+{PAGE})"
    assert UserAgentMiddleware.from_crawler(crawler).user_agent == f"ours/2 (+{PAGE})"


@cases(
    "settings warnings",
    """
        {}                                                 | 1
        {"USER_AGENT": ""}                                 | 1
        {"ALLOW_PRIVATE_ADDRESSES": "1"}                   | 0
        {"CRAWLER_CONTACT": "https://example.org/crawler"} | 0
        {"CRAWLER_CONTACT": "crawl-ops@example.org"}       | 0
        {"USER_AGENT": "ours/2 (me@ours.example)"}         | 0
    """,
)
def test_a_live_crawl_without_a_contact_warns_once(caplog, settings, warnings):
    crawler = crawler_with(**settings)
    crawler.signals.send_catch_log(signals.spider_opened, spider=Spider("any"))
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == warnings
    assert all("Set CRAWLER_CONTACT to" in message for message in told)


def test_without_a_purpose_the_crawl_says_once_what_it_would_change(caplog):
    caplog.set_level(logging.INFO)
    for purpose in ("", "train"):
        crawler = crawler_with(CRAWL_PURPOSE=purpose)
        crawler.signals.send_catch_log(signals.spider_opened, spider=Spider("any"))
    assert caplog.text.count("robots.txt files can address it as webcrawl-search") == 1


def test_the_agent_of_an_old_spider_is_the_one_that_counts(caplog):
    crawler = crawler_with(CRAWLER_CONTACT=PAGE)
    crawler.signals.send_catch_log(
        signals.spider_opened, spider=Spider("old", user_agent="Mozilla/5.0")
    )
    assert "calls itself 'Mozilla/5.0'" in caplog.text


@each("handler warnings", (None, 0), (HttpDownloadHandler, 0), (Spider, 1))
@pytest.mark.cures("Remove it from DOWNLOAD_HANDLERS to sign all requests.")
def test_a_handler_that_does_not_sign_is_named(tmp_path, caplog, handler, warnings):
    write_new_key(tmp_path / "key.pem")
    signed = {"KEY_FILE": tmp_path / "key.pem", "SIGNATURE_AGENT": "https://bot.test"}
    crawler = crawler_with(
        DOWNLOAD_HANDLERS={"https": handler},
        **{f"CRAWLER_{name}": value for name, value in signed.items()},
    )
    assert crawler in SIGNERS
    assert crawler_with() not in SIGNERS
    assert caplog.text.count("NOT SIGNED: https requests are sent by Spider") == warnings


async def test_a_mail_address_is_sent_as_from_and_pages_only_for_us_are_heeded(tmp_path):
    robots = b"User-agent: webcrawl\nDisallow: /private\n\nUser-agent: *\nDisallow: /\n"
    page = b'<a href="/private/x">no</a><a href="/public">yes</a>'

    async def talk(reader, writer):
        while True:
            path = (await server.head(reader)).split()[1]
            body = robots if path == b"/robots.txt" else page
            kind = b"text/plain" if path == b"/robots.txt" else b"text/html"
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
                % (kind, len(body), body)
            )
            await writer.drain()

    async with (
        raw_server(talk) as server,
        name_server(zone({"a.test": ["300 A 127.0.0.1"]})) as names,
    ):
        url, dns = f"http://a.test:{server.port}/", f"127.0.0.1:{names.port}"
        command = crawl_of_urls(tmp_path, url, dns=dns, CRAWLER_CONTACT=MAIL)
        await asyncio.to_thread(finish, command)
    assert {head.split()[1] for head in server.heads} == {b"/robots.txt", b"/", b"/public"}
    for head in server.heads:
        lines = head.lower().split(b"\r\n")
        assert b"user-agent: webcrawl/0.5 (+crawl-ops@example.org)" in lines
        assert b"from: crawl-ops@example.org" in lines
