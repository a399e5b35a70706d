"""The programs in examples/: each runs as examples/README.md says."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import warm
import yaml
from compose_spec import PyCompose
from linked_site import pages_of, served
from text_tables import each

import webcrawl.settings as own_settings

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PAGES = pages_of("examples")


def commands(heading):
    """The command lines below a heading of examples/README.md."""
    text = (EXAMPLES / "README.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^    (\S.*)$", re.sub(r"\\\n\s*", "", section), re.MULTILINE)


async def run_example(heading, path):
    """Run the commands below *heading* in *path*; return what the site of this test was asked."""
    (path / "scrapy.cfg").write_text("[settings]\ndefault = webcrawl.settings\n")
    (path / "examples").symlink_to(EXAMPLES)
    async with served(PAGES) as sites:
        options = {
            "DNS_SERVERS": sites.dns,
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "POLITENESS_MIN_DELAY": 0.01,
            "POLITENESS_JITTER": 0,
        }
        for line in commands(heading):
            program, *words = shlex.split(line)
            words = [
                word.replace("https://example.org", f"http://a.test:{sites.port}") for word in words
            ]
            if program.endswith("scrapy"):
                command = [sys.executable, "-m", "scrapy", *words]
                command += [
                    word for pair in options.items() for word in ("-s", "{}={}".format(*pair))
                ]
            else:
                command = [sys.executable, *words]
            done = await asyncio.to_thread(
                warm.run,
                command,
                cwd=path,
                env=os.environ | {"PYTHONPATH": str(path)},
                stderr=subprocess.STDOUT,
            )
            assert done.returncode == 0, done.stdout
            assert "Traceback" not in done.stdout
    return sorted(sites.pages_asked)


async def test_the_spider_yields_headings(tmp_path):
    await run_example("A spider", tmp_path)
    items = [json.loads(line) for line in (tmp_path / "headings.jsonl").read_text().splitlines()]
    assert [one["text"] for one in items if one["level"] == "h1"] == ["Heading one"]
    assert len(items) == 3


async def test_the_module_writes_titles_in_a_crawl_and_in_replay(tmp_path):
    await run_example("A module", tmp_path)
    for name in ("crawls/titles/titles.txt", "titles/titles.txt"):
        titles = {line.split("\t")[1] for line in (tmp_path / name).read_text().splitlines()}
        assert titles == {"First", "English", "Printed"}


def test_the_readme_shows_the_module_as_it_is():
    source = textwrap.indent((EXAMPLES / "titles.py").read_text(), "    ")
    readme = (ROOT / "README.md").read_text()
    lines = [line for line in source.splitlines() if line.strip()]
    assert all(f"\n{line}\n" in readme for line in lines)


async def test_the_filter_refuses_print_versions(tmp_path):
    asked = await run_example("A filter", tmp_path)
    assert asked == ["a.test/", "a.test/two"]


async def test_the_dataset_has_the_texts_of_one_language(tmp_path):
    await run_example("A dataset", tmp_path)
    rows = duckdb.sql(f"select url, language from '{tmp_path}/dataset.parquet'").fetchall()
    assert [(url.endswith(".test"), language) for url, language in rows] == [(False, "en")]


def test_the_compose_file_is_one_and_names_what_there_is():
    path = EXAMPLES / "hive/compose.yaml"
    text = path.read_text()
    compose = PyCompose.from_json(json.dumps(yaml.safe_load(text)))
    assert set(compose.service_names()) == {"redis", "drone-1", "drone-2"}
    lint = Path(sys.executable).parent / "compose-lint"
    done = subprocess.run([lint, "check", "-q", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    drone = yaml.safe_load(text)["services"]["drone-1"]
    names = {word.partition("=")[0] for word in drone["command"] if re.match("[A-Z_]+=", word)}
    assert names <= vars(own_settings).keys() | own_settings.web_spider.keys()
    for volume in drone["volumes"]:
        if volume.startswith("."):
            assert (path.parent / volume.partition(":")[0]).is_dir()
    assert [
        line for line in (EXAMPLES / "hive/seeds.txt").read_text().splitlines() if line[0] != "#"
    ]


@each("path", *sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_each_example_is_in_the_list(path):
    assert f"]({path.name})" in (EXAMPLES / "README.md").read_text()
