"""The calculator of ``scrapy hive plan``: what must be so whatever the numbers are."""

from __future__ import annotations

import json
import math
import re
from types import SimpleNamespace

import pytest
import warm
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.errors import FatalError
from webcrawl.jobs.hive_plan import ASSUMPTIONS, DONE, plan, plan_text


def of(pages=1e9, hours=24, **changes):
    return SimpleNamespace(**plan(pages, hours, changes))


def test_the_machines_fetch_all_pages_in_time():
    found = of()
    assert found.drones * found.assumptions["drone_pages"] * 24 * 3600 >= 1e9
    assert found.drones <= found.machines * found.assumptions["drones"]


def test_one_drone_needs_neither_redis_nor_several_shards():
    small = of(pages=1e6)
    assert (small.drones, small.shards, small.link_rate, small.redis_cost) == (1, 1, 0, 0)


def test_each_drone_has_a_few_shards_as_far_as_there_are_any():
    assert of(pages=1e8).shards == 64
    assert of().shards >= 4 * of().drones
    huge = of(pages=1e11)
    assert huge.shards == 4096
    assert any("several hives" in sentence for sentence in huge.bends)


def test_half_the_time_costs_as_much_in_twice_the_machines():
    day, week = of(hours=24), of(hours=168)
    assert day.machines == pytest.approx(7 * week.machines, rel=0.2, abs=7)
    assert day.machines_cost == pytest.approx(week.machines_cost, rel=0.3)


def test_disk_and_requests_to_the_store_have_their_price():
    found, longer = of(), of(checkpoint=120)
    assert found.disk_cost == pytest.approx(found.disk_bytes / 1e9 * 0.08 * 24 / 730)
    assert found.requests_cost == pytest.approx(2 * longer.requests_cost)
    assert found.requests_cost > 1
    assert (of(disk_price=0).disk_cost, of(pages=1e6).requests_cost) == (0, 0)
    text = plan_text(vars(found))
    assert re.search(r"\$ +\d+  disk\n +\$ +\d+  requests to HIVE_STORE\n", text)
    assert "prices of 20" in text


def test_the_design_bends_where_a_part_is_too_slow():
    def sentences(**changes):
        return " ".join(of(**changes).bends)

    assert "politeness" in sentences(host_pages=1e5)
    assert "Redis Cluster" in sentences(hours=3)
    assert "outboxes" in sentences(checkpoint=600)
    assert "outboxes" not in sentences(checkpoint=10)
    assert "network" in sentences(page_kb=9000, packed=1)
    assert "host records" in sentences(host_bytes=20_000)
    assert "host records" not in sentences()


number = st.floats(1e-6, 1e15)


@given(number, number, st.fixed_dictionaries({}, optional=dict.fromkeys(ASSUMPTIONS, number)))
def test_any_assumption_gives_a_plan_that_can_be_shown(pages, hours, changes):
    found = plan(pages, hours, changes)
    assert math.isfinite(found["storage_cost"])
    assert found["machines"] >= 1
    assert all(word not in plan_text(found) for word in ("nan", "inf "))


@pytest.mark.parametrize("wrong", [{"pages": 0}, {"hours": -1}, {"wait": math.inf}])
def test_a_number_that_cannot_be_is_named(wrong):
    with pytest.raises(FatalError, match=f"{next(iter(wrong))} must be a number from"):
        of(**wrong)


def test_crawls_that_were_done_stand_beside_the_plan():
    text = plan_text(plan(1e9, 24, {}))
    for name, (pages, *_) in DONE.items():
        assert f"{name:>14}{pages:>16,.0f}" in text


def test_the_page_on_scale_has_the_plan_as_it_is():
    page = (warm.ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    lines = plan_text(plan(1e9, 24, {})).split("\n")
    assert [line for line in lines if line not in page] == []


def test_the_command_takes_assumptions_and_answers_machines_too():
    words = ("hive", "plan", "--pages", "2.5e8", "--hours", "40", "-a", "page_kb=51")
    done = warm.scrapy(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == plan(2.5e8, 40, {"page_kb": 51})


@pytest.mark.parametrize("wrong", ["speed=3", "wait=long", "wait"])
def test_what_is_no_assumption_is_named(wrong):
    refused = warm.scrapy("hive", "plan", "-a", wrong)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"hive: {wrong!r} is no assumption of scrapy hive plan, which")
