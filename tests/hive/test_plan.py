"""The calculator of ``scrapy hive plan``: what must be so whatever the numbers are."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import warm
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.errors import FatalError
from webcrawl.hive.plan import DONE, Assumptions, plan, plan_text

BILLION = Assumptions()


def of(**changes):
    return plan(dataclasses.replace(BILLION, **changes))


def test_the_machines_fetch_all_pages_in_time():
    found = plan(BILLION)
    assert found.drones * found.drone_rate * found.hours * 3600 >= BILLION.pages
    assert found.drones <= found.machines * BILLION.cores * BILLION.used


def test_slow_answers_need_more_drones_or_more_workers():
    slow = of(latency=5)
    assert slow.drones > 3 * plan(BILLION).drones
    assert of(latency=5, workers=1000).drones == plan(BILLION).drones


def test_one_drone_needs_neither_redis_nor_several_shards():
    small = of(pages=1e6, hours=24)
    assert (small.drones, small.shards, small.link_rate) == (1, 1, 0)
    assert small.cost["Redis"] == 0


def test_each_drone_has_a_few_shards_as_far_as_there_are_any():
    assert of(pages=1e7).shards == 64
    assert plan(BILLION).shards >= 4 * plan(BILLION).drones
    huge = of(pages=1e11)
    assert huge.shards == 4096
    assert any("several hives" in sentence for sentence in huge.bends)


def test_half_the_time_costs_as_much_in_twice_the_machines():
    day, week = of(hours=24), of(hours=168)
    assert day.machines == pytest.approx(7 * week.machines, rel=0.2, abs=7)
    assert day.cost["machines"] == pytest.approx(week.cost["machines"], rel=0.3)


def test_the_design_bends_where_a_part_is_too_slow():
    def sentences(**changes):
        return " ".join(of(**changes).bends)

    assert "politeness" in sentences(host_pages=1e5)
    assert "Redis Cluster" in sentences(hours=3)
    assert "outboxes" in sentences(checkpoint=600)
    assert "outboxes" not in sentences(checkpoint=10)
    assert "network" in sentences(page_kb=9000, packed=1)
    assert "records of hosts" in sentences()
    assert "records of hosts" not in sentences(checkpoint=3600)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            field.name: st.floats(1e-6, 1) if field.metadata["share"] else st.floats(1e-3, 1e12)
            for field in dataclasses.fields(Assumptions)
        },
    )
)
def test_any_assumption_gives_a_plan_that_can_be_shown(changes):
    given = dataclasses.replace(BILLION, **changes)
    found = plan(given)
    assert math.isfinite(found.total_cost)
    assert found.machines >= 1
    assert all(word not in plan_text(found, given) for word in ("nan", "inf "))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pages": 0}, "--pages must be more than 0"),
        ({"hours": -1}, "--hours must be a number, and not negative"),
        ({"rest": math.inf}, "--rest must be a number"),
        ({"core_speed": 1.5}, "--core-speed is a share"),
    ],
)
def test_a_number_that_cannot_be_is_named_as_its_option(changes, sentence):
    with pytest.raises(FatalError, match=sentence):
        of(**changes)


def test_crawls_that_were_done_stand_beside_the_plan():
    text = plan_text(plan(BILLION), BILLION)
    for one in DONE:
        assert f"{one.name:>14}{one.pages:>16,.0f}" in text


def test_the_page_on_scale_has_the_plan_as_it_is():
    page = (warm.ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    lines = plan_text(plan(BILLION), BILLION).split("\n")
    assert [line for line in lines if line not in page] == []


def test_the_command_takes_every_assumption_and_answers_machines_too():
    done = warm.scrapy("hive", "plan", "--pages", "2.5e8", "--hours", "40", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["pages"], found["hours"]) == (2.5e8, 40)
    assert found["drones"] == of(pages=2.5e8, hours=40).drones
    refused = warm.scrapy("hive", "plan", "--spared", "2")
    assert refused.returncode == 2
    assert refused.stderr == "hive: --spared is a share, from 0 to 1: 2.\n"
