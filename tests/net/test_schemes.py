"""The schemes of a crawl are what its settings have handlers for."""

from __future__ import annotations

from scrapy.settings import Settings

from webcrawl import settings as project
from webcrawl.net.schemes import followed_schemes


def test_schemes_are_those_with_a_handler():
    assert followed_schemes(Settings({"DOWNLOAD_HANDLERS_BASE": {"http": "x", "ftp": None}})) == {
        "http"
    }


def test_the_project_follows_all_four_and_a_user_takes_away_what_he_likes():
    settings = Settings()
    settings.setmodule(project)
    assert followed_schemes(settings) == {"http", "https", "ftp", "gopher"}
    settings.set("DOWNLOAD_HANDLERS", {"gopher": None, "mailto": "x"})
    assert followed_schemes(settings) == {"http", "https", "ftp"}
