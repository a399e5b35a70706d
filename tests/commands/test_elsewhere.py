"""webcrawl in a Scrapy project of the user's own, as docs/start/scrapy.md says it."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest
import warm
from crawling import ROOT, USER_AGENT, clean_web, crawl_command, damage_in, stats_of
from scrapyd_server import ScrapydServer
from web_truth import allowed_urls

PAGE = (ROOT / "docs/start/scrapy.md").read_text(encoding="utf-8")

SPIDER = """
import scrapy

class Titles(scrapy.Spider):
    name = "titles"

    async def start(self):
        yield scrapy.Request(open(self.seeds).readline().strip())

    def parse(self, response):
        yield {"title": response.css("title::text").get()}
"""

PIPELINE = """
class Mine:
    def process_item(self, item):
        with open("titles.txt", "a") as file:
            print(item.css("title::text").get(), file=file)
        return item
"""


def example_of(first_line):
    """The block of code of the page that begins with *first_line*, without its indent."""
    start = PAGE.index(f"\n{first_line}\n") + 1
    block = re.match(r"(?:(?:    .*)?\n)+", PAGE[start:])[0]
    return re.sub("^    ", "", block, flags=re.MULTILINE).strip() + "\n"


def test_settings_and_commands_of_webcrawl_work_in_a_project_of_the_users(tmp_path):
    made = warm.scrapy("startproject", "myproject", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    package = tmp_path / "myproject" / "myproject"
    (package / "settings.py").write_text(example_of("    # myproject/settings.py"))
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


@pytest.fixture
def crawling(tmp_path):
    """An empty directory with an environment that has the wheel, and the packages of this one."""
    clone = tmp_path / "clone"
    for name in ("webcrawl", "seeds", "docs/howto"):
        ignored = shutil.ignore_patterns("*.csv", "__pycache__")
        shutil.copytree(ROOT / name, clone / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    build = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", tmp_path]
    subprocess.run(build, cwd=clone, check=True, capture_output=True)
    shutil.rmtree(clone)

    directory = tmp_path / "crawling"
    environment = directory / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", environment, "install", "--quiet"]
    wheels = tmp_path.glob("*.whl")
    subprocess.run([*pip, "--no-deps", "--no-index", *wheels], check=True, capture_output=True)
    return directory


@pytest.mark.long
def test_modules_in_the_directory_of_the_command_are_found(crawling, monkeypatch):
    for name in ("PYTHONPATH", "SCRAPY_SETTINGS_MODULE"):
        monkeypatch.delenv(name, raising=False)
    (crawling / "mine.py").write_text(PIPELINE)
    webcrawl = crawling / ".venv/bin/webcrawl"
    with clean_web(crawling, hosts=2, max_pages=3) as (web, seeds):
        pipelines = {"ITEM_PIPELINES": '{"mine.Mine": 1}'}
        command = crawl_command(web, seeds, crawling / "job", **pipelines)
        words = [webcrawl, *command[command.index("crawl") :]]
        done = subprocess.run(words, cwd=crawling, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (crawling / "titles.txt").read_text().strip()


@pytest.mark.long
def test_a_project_with_the_wheel_is_deployed_to_scrapyd(crawling, tmp_path, monkeypatch):
    for name in ("PYTHONPATH", "SCRAPY_SETTINGS_MODULE"):
        monkeypatch.delenv(name, raising=False)
    python = crawling / ".venv/bin/python"

    def output_of(*words):
        done = subprocess.run(words, cwd=crawling, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    output_of(python, "-m", "scrapy", "startproject", "myproject", ".")
    settings = example_of("    # myproject/settings.py") + example_of("    ITEM_PIPELINES = {")
    (crawling / "myproject/settings.py").write_text(settings)
    (crawling / "myproject/pipelines.py").write_text(PIPELINE)
    (crawling / "myproject/spiders/titles.py").write_text(SPIDER)
    scrapy = crawling / ".venv/bin/webcrawl"
    assert output_of(scrapy, "list").split() == ["titles", "walk", "web"]
    found = output_of(python, "-c", "import webcrawl; print(webcrawl.__file__)")
    assert found.startswith(f"{crawling}/.venv/")

    (tmp_path / "daemon").mkdir()
    daemon = ScrapydServer(tmp_path / "daemon", python=python, project="myproject")
    try:
        daemon.wait_until_up()
        cfg = crawling / "scrapy.cfg"
        text = cfg.read_text().replace("#url = http://localhost:6800/", f"url = {daemon.url}")
        assert daemon.url in text
        cfg.write_text(text)
        deploy = "from scrapyd_client.deploy import main; main()"
        assert json.loads(output_of(python, "-c", deploy))["spiders"] == 3
        with clean_web(tmp_path, hosts=3, mean_pages=3.0, max_pages=6) as (web, seeds):
            own = {"ITEM_PIPELINES": "{}", "JOBDIR": "crawls/mine"}
            daemon.schedule("one", seeds=seeds, web=web, POLITENESS_MIN_DELAY=0.05)
            daemon.schedule("mine", spider="titles", seeds=seeds, web=web, **own)
            for job in ("one", "mine"):
                daemon.wait_for_end(job)
        assert "end  finished: nothing is left to fetch" in daemon.log("one")
        assert stats_of(daemon.directory / "crawls/mine")["item_scraped_count"] == 1
        assert "=== crawl summary ===" in daemon.log("mine", "titles")
        assert allowed_urls(web.world, USER_AGENT) <= set(daemon.finished("one"))
        titles = (daemon.directory / "titles.txt").read_text().splitlines()
        assert len(titles) > 3
        for job in ("one", "mine"):
            assert damage_in(daemon.directory / "crawls" / job) == []
        assert [*daemon.directory.glob("crawls/one/warc/*.warc.gz")]
    finally:
        daemon.stop()
