"""Whole crawls through faults that are written down: an outage costs no URL for good, and no server
is asked that may still be at the last answer."""

import json

from crawling import access_log, stats_of
from fault_rig import LONG_SETTINGS, Fault, FaultRig, Scenario, Visits
from faults import Episode
from text_tables import cases

# Without the breaker, hosts and URLs would be given up at once.
_SETTINGS = {
    "POLITENESS_MAX_FAILURES": 3,
    "FRONTIER_RETRY_TIMES": 1,
    "OUTAGE_HOSTS": 8,
    "FRONTIER_BACK_QUEUES": 12,
    "CHECKPOINT_INTERVAL_SECS": 10,
    "STATS_FILE_INTERVAL_SECS": 10,
}


def _through(directory, episode, lives=1, **settings):
    """What a crawl through *episode* says in its last life, its stats, the last line of each URL.
    What was given up comes back in another life."""
    # A connection that is there stays whole.
    world = {"hosts": 24, "mean_pages": 6.0, "max_pages": 20, "restricting": 0.0}
    world["pages_per_connection"] = 1
    scenario = Scenario(3, world, _SETTINGS | settings, script=(episode,))
    with FaultRig(directory, scenario) as rig:
        for number in range(lives):
            is_over, _ = rig.live(Fault(), has_faults=number < max(1, lives - 1))
        assert is_over
        said, stats = (directory / f"life-{lives:03d}.log").read_text(), stats_of(rig.job)
        ended = {line["url"]: line for line in rig.outcomes()}
        assert rig.go_on_without_faults()
        rig.judge()
        return said, stats, ended


@cases(
    "name fault",
    """
        name    | dns_timeout
    """,
    long="network | mute\nnetwork | refused",
)
def test_an_outage_costs_no_url(tmp_path, name, fault):
    episode = Episode(1.0, 60.0, name, fault)
    said, stats, ended = _through(tmp_path, episode, CONCURRENT_REQUESTS=4)
    # Of hosts that failed before it was noticed.
    lost = [line for line in ended.values() if not line["outcome"].startswith("http_")]
    assert len({line["host"] for line in lost}) < _SETTINGS["OUTAGE_HOSTS"]
    again = ",".join(sorted({line["outcome"] for line in lost}))
    assert not lost or f" --retry {again}\n" in said
    assert stats["outage/count"] >= 1
    assert stats.get("pauses/network_secs", 0) + stats.get("pauses/name_servers_secs", 0) > 15
    assert "The crawl pauses: " in said
    assert " is back after" in said


def test_a_job_that_no_host_ever_answered_ends_by_itself_and_is_resumed(tmp_path):
    episode = Episode(0.0, 1e9, "network", "mute")
    _through(tmp_path, episode, lives=3, OUTAGE_END_SECS=1)  # a run before it is no answer
    logs = [json.loads(path.read_text())["ended"] for path in sorted(tmp_path.glob("*.told"))]
    assert logs[1] < 200


def test_a_server_that_may_still_answer_a_crawl_that_has_died_is_not_asked(tmp_path):
    world = {"hosts": 12, "mean_pages": 3.0, "max_pages": 6}
    scenario = Scenario(1, world, script=(Episode(0.0, 1e9, "host", "slow"),))
    with FaultRig(tmp_path, scenario) as rig:
        _, told = rig.live(Fault("step", after=120))
        cut = [hit for hit in access_log(tmp_path / "access.log") if hit.outcome != "ok"]
        assert told.has_failed
        assert len(cut) > 3
        assert rig.live(Fault())[0]


def test_no_page_waits_for_a_busy_host_or_ports_that_are_closed(tmp_path):
    world = {"hosts": 12, "mean_pages": 10.0, "max_pages": 30, "throttle_secs": 400.0}
    settings = LONG_SETTINGS | {"REPUTATION_BASE_PAGES": 4}
    script = (Episode(0.5, 30.0, "site00003.sim.test", "throttle"),)
    scenario = Scenario(1, world, settings, is_long=True, script=script)
    with FaultRig(tmp_path, scenario) as rig:
        assert rig.live(Fault())[0]
        rig.judge()


def test_an_outage_makes_no_two_visits_of_one(tmp_path):
    visits = Visits(20.0, 80.0, "Uniform")
    world = {"hosts": 6, "mean_pages": 4.0, "max_pages": 8, "restricting": 0.0}
    world |= {"redirects": 0.3, "pages_per_connection": 1}
    settings = LONG_SETTINGS | visits.settings | {"FRONTIER_RETRY_TIMES": 0}
    outage = Episode(2.7, 21.8, "network", "refused")
    scenario = Scenario(20_003, world, settings, script=(outage,), visits=visits)
    with FaultRig(tmp_path, scenario) as rig:
        rig.live(Fault())  # which judges how often each URL was asked for
        assert stats_of(rig.job)["outage/count"] >= 1
