"""The examples of docs/howto/write-a-part.md, in crawls judged by the requests a site got."""

import asyncio
import json
import os
import subprocess
import sys

import example_parts
import pytest
import warm
from crawling import stats_of
from linked_site import command_for, pages_of, served

PAGES = pages_of("parts")
RECORDING = """
import os
import mine

class Recording(mine.BestFirst):
    def level(self, entry):
        with open(os.environ["LEVELS"], "a") as file:
            print(entry.url, super().level(entry), file=file)
        return super().level(entry)
"""
FILTERS = {"mine.MovedHosts": 50, "mine.NoPrintVersions": 1650, "calendar": None}
MOVED = {"old.test": "new.test"}


def run(command, path, code=0):
    """Run *command* with the examples in reach; its output."""
    (path / "mine.py").write_text(example_parts.source())
    (path / "recording.py").write_text(RECORDING)
    places = {"PYTHONPATH": os.pathsep.join([str(path), *sys.path]), "LEVELS": f"{path}/levels"}
    done = warm.run(command, env=os.environ | places, stderr=subprocess.STDOUT)
    assert done.returncode == code, done.stdout
    return done.stdout


async def crawled(pages, path, code=0, by=("crawl",), **settings):
    """The sites of *pages* after a crawl into the job in *path*, and its output."""
    async with served(pages) as sites:
        command = command_for(sites, path / "job", "a.test", **settings)
        at = command.index("crawl")
        command[at : at + 1] = by
        return sites, await asyncio.to_thread(run, command, path, code=code)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_the_examples_do_what_the_page_says(tmp_path):
    job, excluded = tmp_path / "job", tmp_path / "excluded.txt"
    excluded.write_text("nobody.test\n/^http:.*/private/[0-9]/  # as asked\n")
    modules = ("DataLinks", "Topic", "Comments")
    settings = {
        "URL_FILTERS": json.dumps(FILTERS),
        "MOVED_HOSTS": json.dumps(MOVED),
        "EXCLUSION_FILE": excluded,
        "ITEM_PIPELINES": json.dumps({f"mine.{name}": n for n, name in enumerate(modules)}),
        "FRONTIER_PRIORITIZER": "recording.Recording",
    }
    sites, _ = await crawled(PAGES, tmp_path, **settings)
    root = f"http://a.test:{sites.port}/"
    names = " bad comments good hidden moves of-bad of-comments of-good target"
    asked = [*(f"a.test/{name}" for name in names.split(" ")), "new.test/moved"]
    assert sorted(sites.pages_asked) == asked
    refused = lines_of(job / "logs/refused.jsonl")
    assert {(one["filter"], one["reason"], one["url"], one["via"]) for one in refused} == {
        ("no_print_versions", "a print version", f"{root}?print=1", root),
        ("no_print_versions", "a print version", f"{root}hidden?print=2", root),
    }
    ends = {one["url"].removeprefix(root): one for one in lines_of(job / "logs/info.jsonl")}
    assert ends["private/1"]["outcome"] == "excluded"
    found = {name: (ends[name].get("depth"), ends[name]["via"]) for name in ("hidden", "comments")}
    assert found == {"hidden": (1, root), "comments": (1, root)}
    assert ends["of-comments"]["depth"] == 2
    levels = dict(line.split() for line in (tmp_path / "levels").read_text().splitlines())
    assert int(levels[f"{root}of-good"]) < int(levels[f"{root}of-bad"])
    assert levels[f"{root}target"] == levels[f"{root}of-good"]
    stats = json.loads((job / "stats.json").read_text())
    stats = stats.get("stats", stats)
    assert (stats["modules/data_links/links"], stats["modules/data_links/links_bad"]) == (2, 1)
    assert stats["urls/refused/no_print_versions"] == 2


def test_the_examples_are_imported_by_themselves(tmp_path):
    assert run([sys.executable, "-c", "import mine"], tmp_path) == ""


@pytest.mark.cures("use {} replay --submit to collect them")
async def test_links_of_modules_go_from_replay_to_a_job(tmp_path):
    job = tmp_path / "job"
    scrapy = [sys.executable, "-m", "scrapy"]
    async with served(PAGES) as sites:
        filters = json.dumps({"mine.NoPrintVersions": 1650})
        crawl = command_for(sites, job, "a.test", URL_FILTERS=filters)
        await asyncio.to_thread(run, crawl, tmp_path)
        assert "a.test/hidden" not in sites.asked
        replay = [*scrapy, "replay", job, "-o", tmp_path / "out"]
        replay += ["-s", 'ITEM_PIPELINES={"mine.DataLinks": 1}']
        said = await asyncio.to_thread(run, [*map(str, replay)], tmp_path)
        assert said.count("use scrapy replay --submit to collect them") == 1
        nowhere = [*map(str, [*replay, "--submit", tmp_path / "jbo"])]
        said = await asyncio.to_thread(run, nowhere, tmp_path, code=2)
        assert "--submit: there is no job in" in said
        assert not (tmp_path / "jbo").exists()
        await asyncio.to_thread(run, [*map(str, [*replay, "--submit", job])], tmp_path)
        # Even without them the job has what its own filters let pass.
        await asyncio.to_thread(run, command_for(sites, job, "a.test"), tmp_path)
        assert "a.test/hidden" in sites.asked
        assert "a.test/hidden?print=2" not in sites.asked


async def test_a_site_that_redirects_back_is_neither_lost_nor_asked_twice(
    tmp_path,
):
    pages = pages_of("redirects_back")
    settings = {
        "URL_FILTERS": json.dumps({"mine.MovedHosts": 50}),
        "MOVED_HOSTS": json.dumps(MOVED),
    }
    sites, _ = await crawled(pages, tmp_path, **settings)
    assert sorted(sites.pages_asked) == sorted(pages)
    assert stats_of(tmp_path / "job")["urls/refused/redirect_loop"] == 1


@pytest.mark.cures("Two processing modules define a score method: remove one of them.")
async def test_two_modules_that_score_end_the_crawl_with_one_sentence(tmp_path):
    (tmp_path / "two.py").write_text("import mine\n\nclass Other(mine.Topic):\n    pass\n")
    both = json.dumps({"mine.Topic": 1, "two.Other": 2})
    sites, said = await crawled(PAGES, tmp_path, code=2, ITEM_PIPELINES=both)
    assert "Two processing modules define a score method: remove one of them." in said
    assert "Traceback" not in said
    assert sites.asked == []
    sites, said = await crawled(PAGES, tmp_path, ITEM_PIPELINES=json.dumps({"mine.Topic": 1}))
    assert "define a score method" not in said
    assert sites.asked != []


@pytest.mark.long
async def test_links_of_modules_go_through_a_hive(tmp_path):
    modules = json.dumps({"mine.DataLinks": 1})
    by = ("hive", "--drones", "2")
    sites, _ = await crawled(PAGES, tmp_path, by=by, ITEM_PIPELINES=modules)
    assert "a.test/hidden" in sites.asked
    stats = [json.loads(path.read_text()) for path in tmp_path.glob("job/**/stats.json")]
    assert sum(one.get("modules/data_links/links_bad", 0) for one in stats) == 1
