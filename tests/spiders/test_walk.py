"""The random walk spider: what it estimates of a simulated web, whose truth is known."""

import json
import random
import re
from collections import Counter, deque
from urllib.parse import urlsplit

import pytest
from crawling import USER_AGENT, access_log, is_robots, url_of_hit
from fault_rig import Fault, FaultRig, Scenario
from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.utils.project import get_project_settings
from text_tables import each
from web_truth import allowed_urls, fetchable_urls, has_links

from webcrawl.simweb import preset
from webcrawl.simweb.pages import find_page, links_of, url_of
from webcrawl.spiders.walk import RandomWalkSpider

STEPS = 500
WORLD = {"hosts": 10, "mean_pages": 6, "max_pages": 20}
# Checkpoints are not what this is about.
RARELY = {"CHECKPOINT_INTERVAL_SECS": 500, "STATS_FILE_INTERVAL_SECS": 500}
RARELY |= {"CHECKPOINTS_KEPT_INTERVAL_SECS": 500}


NO_FAULT = Fault()
WALK = ("seeds={seeds}", "walkers=50")


def types_of(world, urls):
    """The content type of each of *urls*."""
    found = {}
    for url in urls:
        target = "/" + url.split("/", 3)[3]
        page = find_page(world, world.find(urlsplit(url).hostname), target)
        found[url] = page.leaf.content_type
    return found


@pytest.fixture(params=[RARELY])
def rig(request, tmp_path):
    scenario = Scenario(3, WORLD, request.param, has_faults=False)
    with FaultRig(tmp_path, scenario, hit=Counter()) as rig:
        yield rig


def run(rig, *arguments, fault=NO_FAULT):
    given = [word.format(seeds=rig._seeds) for one in arguments for word in ("-a", one)]
    command = ["crawl", "walk", *given, "-o", f"{rig.job.parent}/sample.jsonl"]
    command += ["-s", f"JOBDIR={rig.job}", *rig._options()]
    return rig._run(command, fault, has_faults=False)[0]


def walk(rig, steps):
    """The output of a walk to its end."""
    ended = run(rig, *WALK, f"steps={steps}")
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def asked_in(rig):
    """The pages that were asked for."""
    return [hit for hit in access_log(rig.job.parents[1] / "access.log") if not is_robots(hit)]


def sample_of(rig):
    lines = (rig.job.parent / "sample.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.long
def test_shares_of_hosts_and_content_types_are_near_the_truth(rig):
    walk(rig, STEPS)
    sample, asked = sample_of(rig), asked_in(rig)
    hits = access_log(rig.job.parents[1] / "access.log")
    assert [*rig._too_near(), *rig._hurried(hits)] == []
    world = rig.world
    truth = types_of(world, fetchable_urls(world, USER_AGENT))
    urls = [one["url"] for one in sample]
    assert len(set(urls)) == len(urls) > 0.8 * len(truth)
    assert set(urls) <= truth.keys()
    assert 0.8 * STEPS < len(asked) <= 1.1 * STEPS  # redirects; what robots.txt denies
    assert {url_of_hit(hit) for hit in asked} <= allowed_urls(world, USER_AGENT)
    for found, true in (
        (Counter(one["content_type"] for one in sample), Counter(truth.values())),
        (
            Counter(one["host"] for one in sample),
            Counter(urlsplit(url).hostname for url in truth),
        ),
    ):
        for name in found | true:
            share, expected = found[name] / len(urls), true[name] / len(truth)
            # Three standard errors of a random sample of this size, and a URL of the remainder.
            tolerance = 3 * (expected * (1 - expected) / len(urls)) ** 0.5
            assert abs(share - expected) <= tolerance, (name, share, expected)


LOGGED = re.compile(r"(?:content type|host) (\S*): (\d+\.\d) % ± (\d+\.\d)")


def graph_of(world):
    """The links of each page of *world*, and its content type."""
    links, types = {}, types_of(world, fetchable_urls(world, USER_AGENT))
    for url in types:
        host = world.find(urlsplit(url).hostname)
        page = find_page(world, host, "/" + url.split("/", 3)[3])
        targets = links_of(world, page) if has_links(page) else ()
        links[url] = [url_of(world, key) for key in targets]
    return links, types


def walked(links, types, seeds, steps, rng):
    """What the spider logs after a walk in a graph, which takes no network."""
    settings = get_project_settings()
    spider = RandomWalkSpider(seeds=seeds, walkers=20, steps=steps, settings=settings)
    spider._rng = rng
    waiting = deque(request for _ in range(20) for request in spider.restart())
    while waiting:
        request = waiting.popleft()
        if request.url not in types:
            waiting.extend(spider.restart())
            continue
        body = "".join(f'<a href="{link}">x</a>' for link in links[request.url])
        headers = {"Content-Type": types[request.url]}
        response = HtmlResponse(request.url, headers=headers, body=body.encode())
        waiting.extend(one for one in spider.parse(response) if isinstance(one, Request))
    spider.closed("finished")


@each("steps visited", (700, (15, 25)), long=((8000, (60, 80)),))
def test_shares_of_a_known_graph_are_true_to_the_errors_logged(caplog, steps, visited):
    caplog.set_level("INFO")
    coverage, misses = [], []
    for seed in (1, 2, 3):
        world = preset("clean", network=44, seed=seed, hosts=40, mean_pages=40, max_pages=200)
        links, types = graph_of(world)
        true = Counter(types.values()) + Counter(urlsplit(url).hostname for url in types)
        for walk in range(4):
            caplog.clear()
            walked(links, types, sorted(world.seeds()), steps, random.Random(walk))
            coverage.append(float(re.search(r"visited (\S+) %", caplog.text)[1]))
            for name, share, error in LOGGED.findall(caplog.text):
                # Of less the rounding would count.
                if true[name] > len(types) / 20:
                    miss = float(share) - 100 * true[name] / len(types)
                    misses.append(abs(miss) / float(error))
    assert sum(miss < 2 for miss in misses) > 0.92 * len(misses)
    assert visited[0] < min(coverage) < max(coverage) < visited[1]


@pytest.mark.parametrize("rig", [{"CHECKPOINT_INTERVAL_SECS": 2}], indirect=True)
def test_a_killed_walk_goes_on_and_ends(rig):
    assert run(rig, *WALK, "steps=200", fault=Fault("step", after=3000)).returncode < 0
    assert "content type text/html: " in walk(rig, 200)
    assert 130 < len(asked_in(rig)) < 350


@each("arguments", "", "seeds=/no/such", "seeds={seeds},steps=0", "a=b")
def test_arguments_that_cannot_be_are_told_in_a_sentence(rig, arguments):
    ended = run(rig, *filter(None, arguments.split(",")))
    assert ended.returncode == 2, ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("webcrawl: "), ended.stdout


@pytest.mark.long
def test_a_walk_that_has_ended_goes_on_with_more_steps(rig):
    for steps in (60, 150, 150):
        walk(rig, steps)
    assert 120 < len(asked_in(rig)) < 180
