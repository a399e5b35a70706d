"""Crawls by a copy of the package that lacks folders of add-ons."""

import os
import shutil
import subprocess

import pytest
from crawling import ROOT, USER_AGENT, pages_asked_for, simulated
from patience import LIMIT_SECS
from text_tables import each
from web_truth import allowed_urls

# What a crawl of one process starts without.
HIDDEN = ["doctor", "hive", "render"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The directory of a project that lacks the HIDDEN folders."""
    directory = tmp_path_factory.mktemp("project")
    hidden = shutil.ignore_patterns(*HIDDEN)
    shutil.copytree(ROOT / "webcrawl", directory / "webcrawl", ignore=hidden)
    shutil.copy(ROOT / "scrapy.cfg", directory)
    return directory


def crawl(project, command):
    """The exit code and the output of *command*, in a process that has imported nothing before."""
    run = subprocess.run(
        command,
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_SECS,
    )
    return run.returncode, run.stdout


def test_a_crawl_needs_no_add_on(project, tmp_path):
    with simulated(tmp_path, hosts=10, mean_pages=4.0, max_pages=10) as web:
        code, output = crawl(project, web.command())
        asked = {*pages_asked_for(web.hits())}
    assert code == 0, output
    assert "Traceback" not in output
    assert asked == allowed_urls(web.world, USER_AGENT)


@each(
    "setting verb folder",
    ("HIVE=a", "needs", "hive"),
    long=(
        ("LIVE_SEEDS=1", "needs", "hive"),
        ("RENDER=all", "needs", "render"),
        ("DOCTOR_CLASS=webcrawl.doctor.crawl_doctor.CrawlDoctor", "names", "doctor"),
    ),
)
def test_a_setting_that_needs_a_missing_add_on_says_so(project, tmp_path, setting, verb, folder):
    with simulated(tmp_path, hosts=2) as web:
        code, output = crawl(project, [*web.command(), "-s", setting])
    name = setting.partition("=")[0]
    (line,) = output.strip().splitlines()[-1:]
    assert (code, line.count(". ")) == (2, 0)
    assert f"{name} {verb} 'webcrawl.{folder}." in line
    assert line.endswith(f"cannot be loaded: No module named 'webcrawl.{folder}'.")
