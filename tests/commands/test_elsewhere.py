"""webcrawl in a Scrapy project of the user's own, as the README says it."""

from __future__ import annotations

import json
import os
import re

import warm
from crawling import ROOT, clean_web, crawl_command

SPIDER = """
import scrapy

class Titles(scrapy.Spider):
    name = "titles"

    async def start(self):
        yield scrapy.Request(open(self.seeds).readline().strip())

    def parse(self, response):
        yield {"title": response.css("title::text").get()}
"""


def test_settings_and_commands_of_webcrawl_work_in_a_project_of_the_users(tmp_path):
    made = warm.scrapy("startproject", "myproject", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    page = (ROOT / "docs/start/scrapy.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"    # myproject/settings.py\n((?:(?:    .*)?\n)+)", page)
    package = tmp_path / "myproject" / "myproject"
    (package / "settings.py").write_text(re.sub("^    ", "", example, flags=re.MULTILINE))
    (package / "spiders" / "titles.py").write_text(SPIDER)
    # Scrapy leaves the settings of this process in it.
    env = {key: value for key, value in os.environ.items() if key != "SCRAPY_SETTINGS_MODULE"}
    there = {"cwd": tmp_path / "myproject", "env": env}

    assert warm.scrapy("list", **there).stdout.split() == ["titles", "walk", "web"]
    job, items = tmp_path / "job", tmp_path / "items.jsonl"
    with clean_web(tmp_path, hosts=1, max_pages=1) as (web, seeds):
        command = crawl_command(web, seeds, job)
        command[command.index("web")] = "titles"
        done = warm.run([*command, "-o", items], **there)
    assert done.returncode == 0, done.stderr
    (item,) = map(json.loads, items.read_text().splitlines())
    assert item["title"]
    checked = warm.scrapy("job", "check", job, **there)
    assert checked.stdout.endswith("sound\n"), checked.stderr
