"""The command ``webcrawl`` in directories without this project, and in other projects."""

import os
import re
import subprocess
import sys

import pytest
from crawling import ROOT
from text_tables import cases

from webcrawl.__main__ import _SETTINGS

PROJECT = {"scrapy.cfg": "[settings]\ndefault = mine.settings\n", "mine/__init__.py": ""}
IMPORTED = PROJECT | {"mine/settings.py": "from webcrawl.settings import *\nBOT_NAME = 'mine'\n"}


def run(directory, *words, **variables):
    """``python -m webcrawl`` with *words*, called in *directory*."""
    inherited = {name: value for name, value in os.environ.items() if name != _SETTINGS}
    return subprocess.run(
        [sys.executable, "-m", "webcrawl", *words],
        cwd=directory,
        env=inherited | {"PYTHONPATH": f"{ROOT}:{directory}"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def make(directory, files):
    for name, text in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    return directory


def test_it_works_in_any_directory(tmp_path):
    listed = run(tmp_path)
    assert "python -m webcrawl <command>" in listed.stdout
    assert listed.returncode == 0
    helped = run(tmp_path, "why", "-h").stdout
    assert "\n  python -m webcrawl why [options]" in helped
    assert "scrapy why" not in helped
    missing = run(tmp_path, "crawl", "web")
    assert "No seeds: name a seed list" in missing.stderr
    assert missing.returncode == 2


def test_in_a_project_with_this_one_s_settings_it_uses_those(tmp_path):
    found = run(make(tmp_path, IMPORTED) / "mine", "settings", "--get", "BOT_NAME")
    assert (found.stdout, found.returncode) == ("mine\n", 0)


@cases(
    "settings command sentence",
    """
    mine.settings | crwl | there is no command crwl; the most similar is crawl.
    """,
    long="""
    mine.settings | suffixlist | no command suffixlist any more: download the public
    no.such | list | the settings no.such cannot be loaded: No module named 'no'.
    """,
)
def test_what_it_cannot_run_gets_a_sentence(tmp_path, settings, command, sentence):
    said = run(make(tmp_path, IMPORTED), command, **{_SETTINGS: settings})
    assert said.stderr.startswith("python -m webcrawl: ")
    assert sentence in said.stderr
    assert said.returncode == 2


@pytest.mark.cures("Put this line at the top of its settings.py: from webcrawl.settings import *.")
def test_a_project_with_scrapy_s_scheduler_is_told_what_to_add(tmp_path):
    settings = make(tmp_path, PROJECT | {"mine/settings.py": ""}) / "mine/settings.py"
    refused = run(tmp_path, "settings", "--get", "BOT_NAME")
    assert "settings mine.settings) does not use webcrawl's scheduler." in refused.stderr
    assert refused.returncode == 2
    settings.write_text(re.search(r"settings.py: (.*?)\. Or", refused.stderr)[1])
    done = run(tmp_path, "settings", "--get", "BOT_NAME")
    assert (done.stdout, done.returncode) == ("webcrawl\n", 0)
