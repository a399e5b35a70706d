"""What a crawl was given is found again in its job directory, and only that."""

import re

from scrapy.settings import Settings

from webcrawl.crawl.job.saved_settings import settings_to_save, with_saved


def project_settings(**values):
    settings = Settings()
    settings.setdict({"URL_MAX_DEPTH": 5, "URL_SCOPE": "open"}, priority="project")
    for name, value in values.items():
        settings.set(name, value, priority="cmdline")
    return settings


def test_what_the_project_has_and_what_decides_nothing_about_urls_is_not_kept():
    found = settings_to_save(project_settings(URL_SCOPE="seeds", JOBDIR="x", FTP_PASSWORD="y"))
    assert found == {"URL_SCOPE": "seeds"}


def test_settings_that_json_cannot_hold_are_not_saved():
    settings = project_settings(URL_REFUSE=[re.compile("x")], URL_RESTRICT_TO=["x", "y"])
    assert settings_to_save(settings) == {"URL_RESTRICT_TO": ["x", "y"]}


def test_a_dictionary_of_scrapy_s_is_saved_as_it_was_given():
    settings = project_settings(DOWNLOAD_HANDLERS='{"gemini": "mine.Gemini", "ftp": null}')
    found = settings_to_save(settings)
    assert found == {"DOWNLOAD_HANDLERS": {"gemini": "mine.Gemini", "ftp": None}}
    asked = with_saved(project_settings(), {"settings": found})
    assert asked.getwithbase("DOWNLOAD_HANDLERS")["gemini"] == "mine.Gemini"


def test_saved_settings_beat_the_project_and_yield_to_the_command_line():
    kept = {"settings": {"URL_SCOPE": "seeds", "URL_MAX_DEPTH": "7"}}
    asked = project_settings(URL_MAX_DEPTH="9")
    own = with_saved(asked, kept)
    assert own["URL_SCOPE"] == "seeds"
    assert own["URL_MAX_DEPTH"] == "9"
    assert asked["URL_SCOPE"] == "open"


def test_a_job_that_says_nothing_changes_nothing():
    for facts in ({}, {"settings": None}):
        assert with_saved(project_settings(), facts)["URL_SCOPE"] == "open"


def test_a_kept_setting_that_is_a_constant_now_stands_in_no_way():
    kept = {"settings": {"TRAP_RETRY_SECS": "60", "URL_SCOPE": "seeds"}}
    own = with_saved(project_settings(), kept)
    assert own["URL_SCOPE"] == "seeds"
    assert settings_to_save(own).keys() == {"TRAP_RETRY_SECS", "URL_SCOPE"}
