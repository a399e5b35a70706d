"""What the doctor names, from the activity of crawls."""

import os
import re
import time
from pathlib import Path

import msgspec
import pytest
from text_tables import cases

from webcrawl.crawl.figures.activity import CrawlActivity
from webcrawl.crawl.figures.counts import shares_of
from webcrawl.doctor.diagnosis import Cause, advice_of, cause_of, evidence_of
from webcrawl.doctor.doctor import Doctor
from webcrawl.doctor.process_meter import ProcessMeter, ProcessUse

RESTING = CrawlActivity(waiting=400, in_process=10, on_wire=10, resting=20, workers=200)
MORE_HOSTS = "add hosts, or if owners agree, set delay in HOSTS_POLICY_FILE"
MORE_REQUESTS = "add hosts, or if owners agree, set parallel in HOSTS_POLICY_FILE"
resting = RESTING._replace
BUSY = resting(on_wire=200, in_process=230, ready=40)
busy = BUSY._replace
BACKED_UP = busy(is_backed_up=True, in_process=600)
IDLE = CrawlActivity(0, 0, 200)
PAUSED = "20 hosts are paused between requests; 10 of 200 workers busy"
CHECK_NETWORK = "add hosts, and check these hosts and your network"
FASTER_DISK = "put JOBDIR on a faster disk"
STOP_OTHERS = "stop other programs on this machine"
OFF_LOOP = "run that module in a thread: set off_loop, or use asyncio.to_thread"


@cases(
    "like changes use cause evidence advice",
    """
        RESTING | {} | {} | politeness | PAUSED | MORE_HOSTS
        RESTING | {"next_ready_in": 1_234.56, "resting": 1, "on_wire": 0, "held": 3} | {}
        | politeness | 1 host is paused between requests, the next is ready in 1,235 s, 3 hosts \
held by the per-domain share of workers; 0 of 200 workers busy | MORE_HOSTS
        RESTING | {"resting": 0, "on_wire": 0, "in_process": 3, "module": "words"} | {} | modules
        | 3 pages wait for the module words
        | make that module faster, or run it later with scrapy replay
        RESTING | {"resting": 0, "on_wire": 0, "in_process": 0, "parked": {"rendering": 12}}
        | {"idle": 1.0} | rendering | 12 pages being rendered | raise RENDER_PROCESSES
        RESTING | {"resting": 3, "waiting": 1} | {} | one_request_a_host
        | 10 of 200 workers busy; 3 hosts are paused between requests; 1 URL waiting | MORE_REQUESTS
        RESTING | {"refusing": {"http_503": 7, "http_429": 3, "tls_failed": 1}} | {} | refusals
        | 11 of 20 paused hosts are refusing requests: http_503 7, http_429 3
        | add hosts, and set a longer delay in HOSTS_POLICY_FILE
        RESTING | {"refusing": {"walled": 11}} | {} | refusals
        | 11 of 20 paused hosts are refusing requests: walled 11
        | add hosts, and ask their owners to let the crawler in
        RESTING | {"refusing": {"connection_lost": 20}} | {} | refusals
        | 20 of 20 paused hosts are refusing requests: connection_lost 20 | CHECK_NETWORK
        RESTING | {"refusing": {"http_503": 10}} | {} | politeness | PAUSED | MORE_HOSTS
        IDLE | {"parked": {"failing_origin": 500}} | {} | refusals
        | 500 URLs waiting for failing ports | CHECK_NETWORK
        BUSY | {} | {} | workers | 200 of 200 workers busy, 40 hosts ready
        | set CONCURRENT_REQUESTS=400
        BUSY | {"slow": 150} | {"process": 0.7} | workers
        | 200 of 200 workers busy, 150 with slow hosts, 40 hosts ready |
        BUSY | {"ready": 0, "queued": 30} | {} | workers | 200 of 200 workers busy, 0 hosts ready
        | set CONCURRENT_REQUESTS=400
        BUSY | {} | {"loop": 0.9, "idle": 0.9} | cpu | event loop uses 90% of a core
        | use more cores with scrapy hive
        BUSY | {} | {"loop": 0.9, "idle": 0.1} | cpu | event loop uses 90% of a core |
        # The cores are idle because the process may not use them, as in a container.
        BUSY | {} | {"loop": 0.9, "waited": 0.1, "idle": 62} | cpu
        | event loop uses 90% of a core, and waits for one 10% of the time |
        RESTING | {"ready": 1, "resting": 1, "on_wire": 1} | {"loop": 0.9, "idle": 0.9} | cpu
        | event loop uses 90% of a core |
        # Its pages are processed while their hosts are paused.
        RESTING | {"resting": 220, "in_process": 40} | {"loop": 0.95} | politeness
        | 220 hosts are paused between requests; 10 of 200 workers busy | MORE_HOSTS
        RESTING | {"resting": 10, "workers": 16, "on_wire": 0, "in_process": 1} | {"loop": 0.95}
        | politeness | 10 hosts are paused between requests; 0 of 16 workers busy | MORE_HOSTS
        RESTING | {"in_process": 40} | {"loop": 0.95} | cpu | event loop uses 95% of a core |
        RESTING | {"ready": 3} | {"loop": 0.1, "process": 0.1, "waited": 0.9} | cpu
        | event loop uses 10% of a core, and waits for one 90% of the time | STOP_OTHERS
        # The other threads are its own.
        RESTING | {"ready": 3} | {"loop": 0.4, "process": 1.0, "waited": 0.6} | cpu
        | event loop uses 40% of a core, and waits for one 60% of the time |
        RESTING | {"looking_up": 700} | {} | name_servers
        | resolving 700 hosts; 10 of 200 workers busy | set faster name servers in DNS_SERVERS
        RESTING | {"limit": "BANDWIDTH_MAX"} | {} | bandwidth
        | BANDWIDTH_MAX was reached; 10 of 200 workers busy | raise BANDWIDTH_MAX
        RESTING | {"limit": "CONTACTS_MAX"} | {} | contact_rate
        | CONTACTS_MAX was reached; 10 of 200 workers busy | raise CONTACTS_MAX
        RESTING | {} | {"loop": 0.6, "waited": 0.3} | politeness | PAUSED | MORE_HOSTS
        RESTING | {"in_process": 40} | {"lag": 0.2, "loop": 0.1, "disk": 0.7} | disk
        | event loop delayed by 200 ms while using 10% of a core; programs wait for a disk 70% of \
the time | FASTER_DISK
        RESTING | {"in_process": 40} | {"lag": 0.2, "loop": 0.1} | politeness | PAUSED | MORE_HOSTS
        BACKED_UP | {"module": "warc", "module_waits": 0.9} | {"disk": 0.4} | disk
        | 400 pages wait for the module warc; programs wait for a disk 40% of the time
        | FASTER_DISK
        # It waits for a core, or for the interpreter's lock.
        BACKED_UP | {"module": "warc", "module_waits": 0.9} | {"disk": 0.1} | modules
        | 400 pages wait for the module warc
        | make that module faster, or run it later with scrapy replay
        BACKED_UP | {"module": "mine"} | {} | modules | 400 pages wait for the module mine
        | make that module faster, or run it later with scrapy replay
        BACKED_UP | {"blocked_by": ("mine.M", 0.9)} | {"lag": 2.0} | modules
        | mine.M blocks the event loop 90% of the time | OFF_LOOP
        BACKED_UP | {"blocked_by": ("mine.M", 0.3)} | {"lag": 0.2} | modules
        | mine.M blocks the event loop 30% of the time | OFF_LOOP
        BACKED_UP | {"blocked_by": ("mine.M", 0.6)} | {"loop": 0.9} | modules
        | mine.M blocks the event loop 60% of the time | OFF_LOOP
        BUSY | {"blocked_by": ("mine.M", 0.2)} | {"loop": 0.9} | cpu
        | event loop uses 90% of a core |
        BACKED_UP | {"module": "text"} | {"loop": 0.5, "process": 0.95, "idle": 1.0} | cpu
        | its threads use 95% of a core | use more cores with scrapy hive
        RESTING | {"parked": {"host_budget": 900, "depth": 10_000, "reputation": 9}} | {} | budgets
        | 909 URLs parked, 400 waiting | raise BUDGET_HOST_PAGES or _BYTES
        RESTING | {"parked": {"reputation": 9000}, "postponed": {"reputation": 8500}} | {}
        | politeness | PAUSED | MORE_HOSTS
        RESTING | {"parked": {"depth": 10_000}} | {} | politeness | PAUSED | MORE_HOSTS
        # These hosts are paused because they failed.
        RESTING | {"parked": {"host_budget": 900}, "refusing": {"connect_timeout": 20}} | {}
        | refusals | 20 of 20 paused hosts are refusing requests: connect_timeout 20 | CHECK_NETWORK
        IDLE | {"parked": {"reputation": 9}, "waits_for": "visits from 2027"} | {} | budgets
        | 9 URLs parked, 0 waiting | raise REPUTATION_ROUNDS
        RESTING | {"pauses": {"network": "No host answers.", "name_servers": "Nor do these."}}
        | {"loop": 0.9} | outage | network, name servers | No host answers. Nor do these.
        RESTING | {"pauses": {"disk_full": "Make room."}} | {} | paused | disk full | Make room.
        RESTING | {"awaits_seeds": True} | {} | starting | all seeds are read first |
        IDLE | {"reads_seeds": True} | {} | starting | seeds are being read |
        RESTING | {"waits_for": "seeds"} | {} | nothing_left | waiting for seeds | add seeds
        IDLE | {} | {} | nothing_left | no URLs waiting | add seeds
        IDLE | {"parked": {"rendering": 12}} | {} | rendering | 12 pages being rendered |
        RESTING | {"parked": {"rendering": 12}} | {} | politeness | PAUSED | MORE_HOSTS
        IDLE | {"parked": {"learned_trap": 430}} | {} | nothing_left
        | no URLs waiting, 430 parked by learned_trap | add seeds
    """,
    globals(),
)
def test_each_cause_has_its_signs_and_advice(  # noqa: PLR0917  # columns of the table
    like, changes, use, cause, evidence, advice
):
    activity, use = like._replace(**changes), ProcessUse(**use)
    found = cause_of(activity, use)
    assert found == cause
    assert evidence_of(found, activity, use) == evidence
    assert advice_of(found, activity, use) == advice


@pytest.mark.cures(
    "use more cores with scrapy hive",
    "stop other programs on this machine",
    "set faster name servers in DNS_SERVERS",
    "put JOBDIR on a faster disk",
    "raise RENDER_PROCESSES",
    "make that module faster, or run it later with scrapy replay",
    "run that module in a thread: set off_loop, or use asyncio.to_thread",
    "add hosts, and ask their owners to let the crawler in",
)
@cases(
    "like changes use advice cured cured_use",
    """
        # The other process gets half of the hosts.
        BUSY | {} | {"loop": 0.9, "idle": 0.9} | use more cores with scrapy hive
        | {"ready": 20} | {"loop": 0.5, "idle": 0.1}
        RESTING | {"ready": 3} | {"loop": 0.1, "process": 0.1, "waited": 0.9} | STOP_OTHERS
        | {} | {"loop": 0.1, "process": 0.1}
        RESTING | {"looking_up": 700} | {} | set faster name servers in DNS_SERVERS
        | {"looking_up": 7} | {}
        BACKED_UP | {"module": "warc", "module_waits": 0.9} | {"disk": 0.4} | FASTER_DISK
        | {"is_backed_up": False} | {"disk": 0.1}
        IDLE | {"parked": {"rendering": 12}} | {"idle": 1.0} | raise RENDER_PROCESSES
        | {"parked": {}} | {"idle": 0.1}
        BACKED_UP | {"module": "mine"} | {}
        | make that module faster, or run it later with scrapy replay | {"is_backed_up": False} | {}
        BACKED_UP | {"blocked_by": ("mine.M", 0.9)} | {"lag": 2.0} | OFF_LOOP
        | {"blocked_by": ("", 0.0), "is_backed_up": False} | {"lag": 0.01}
        RESTING | {"refusing": {"challenged": 11}} | {}
        | add hosts, and ask their owners to let the crawler in | {"refusing": {}} | {}
    """,
    globals(),
)
def test_figures_of_a_crawl_that_followed_the_advice_name_another_cause(  # noqa: PLR0917  # a table
    like, changes, use, advice, cured, cured_use
):
    activity, use = like._replace(**changes), ProcessUse(**use)
    cause = cause_of(activity, use)
    assert advice_of(cause, activity, use) == advice
    assert cause_of(activity._replace(**cured), ProcessUse(**cured_use)) != cause


@pytest.fixture
def doctor(clock):
    return Doctor(clock=clock)


@pytest.fixture
def go_on(doctor, clock):
    """Goes on in this way for some seconds; what is found then."""

    def go_on(secs, activity, lag=0.0):
        for _ in range(secs):
            clock.advance(1)
            doctor.look(activity, lag)
        return doctor.diagnosis()

    return go_on


def test_the_cause_that_held_longest_lately_is_named_with_its_start(doctor, go_on, clock):
    began = clock()
    assert go_on(100, BUSY).cause is Cause.WORKERS
    found = go_on(8, RESTING)
    assert (found.cause, found.since) == (Cause.WORKERS, began)
    found = go_on(12, resting(on_wire=20))
    assert found.advice == MORE_HOSTS
    assert found.cause is Cause.POLITENESS
    assert abs(found.since - (began + 100)) <= 2
    assert found.evidence == "20 hosts are paused between requests; 16 of 200 workers busy"
    told = rf"waiting for hosts since \d\d:\d\d:\d\d: {found.evidence}"
    assert re.fullmatch(f"{told}; {MORE_HOSTS}", str(found))
    assert re.fullmatch(told, str(msgspec.structs.replace(found, advice="")))
    stats = doctor.stats()
    assert (stats["doctor/workers_secs"], stats["doctor/politeness_secs"]) == (100, 20)
    assert shares_of({f"crawl/{name}": one for name, one in stats.items()}, "crawl/") == (
        "workers 83%, waiting for hosts 17%"
    )
    assert shares_of({}) == ""


REFUSING = resting(refusing={"http_503": 11})


def test_causes_that_change_in_turns_do_not_change_what_is_named(doctor, go_on):
    """More of the paused hosts refuse in most of the time, but not always."""
    go_on(60, RESTING)
    named = set()
    for _ in range(30):
        named |= {go_on(1, REFUSING).cause for _ in range(12)}
        named |= {go_on(1, RESTING).cause for _ in range(8)}
    assert named == {Cause.POLITENESS}
    # The evidence is that of the named cause, also after all hosts have refused for 25 s.
    assert go_on(25, REFUSING).evidence == PAUSED
    assert go_on(30, REFUSING).cause is Cause.REFUSALS
    assert {go_on(12, RESTING).cause, go_on(8, REFUSING).cause} == {Cause.REFUSALS}


def test_advice_about_refusals_follows_from_those_of_a_minute(go_on):
    walled = resting(refusing={"walled": 11})
    go_on(30, REFUSING)
    found = [go_on(1, one) for one in 5 * [walled, REFUSING, REFUSING]]
    assert {one.advice for one in found} == {
        "add hosts, and set a longer delay in HOSTS_POLICY_FILE"
    }
    assert len({one.evidence for one in found}) == 2


def test_numbers_that_are_shown_with_the_evidence_are_those_of_the_evidence(doctor, go_on):
    assert doctor.shown_activity is None
    go_on(15, resting(resting=5, on_wire=2))
    found = go_on(3, resting(resting=4, on_wire=5))
    assert found.evidence.startswith("5 hosts are paused")
    assert doctor.shown_activity.resting == 5


def test_waiting_pages_are_counted_over_the_same_looks_as_busy_workers(go_on):
    backed_up = BACKED_UP._replace(module="words")
    go_on(9, backed_up)
    found = go_on(1, busy(on_wire=0, in_process=139, is_backed_up=True, module="words"))
    assert found.evidence == "374 pages wait for the module words"


def test_a_pause_is_named_at_once_and_only_while_it_holds(go_on, clock):
    paused = resting(pauses={"disk_full": "Make room."})
    found = [(go_on(1, one), clock()) for one in (BUSY, BUSY, BUSY, paused, paused, BUSY)]
    named = [(one.cause, at - one.since) for one, at in found]
    assert named[2:] == [("workers", 3), ("paused", 1), ("paused", 2), ("workers", 4)]


def test_a_drone_is_not_advised_to_use_a_hive():
    use = ProcessUse(loop=0.9, idle=1.0)
    assert advice_of(Cause.CPU, BUSY, use) == "use more cores with scrapy hive"
    assert not advice_of(Cause.CPU, BUSY, use, is_drone=True)


def test_without_evidence_no_cause_is_named(doctor, go_on):
    between_requests = resting(resting=0, on_wire=0, in_process=0)
    assert cause_of(between_requests, ProcessUse()) is None
    assert go_on(3, between_requests).evidence == "there are no requests yet"
    go_on(10, BUSY)
    found = go_on(5, between_requests)
    assert found.evidence == "200 of 200 workers busy, 40 hosts ready"
    go_on(1, BUSY)
    assert dict(doctor.secs) == {Cause.WORKERS: 19}


def test_urls_that_have_just_arrived_end_nothing_left(go_on):
    assert go_on(15, resting(waits_for="visits")).cause is Cause.NOTHING_LEFT
    assert go_on(1, resting(resting=0, on_wire=0, in_process=0)).cause is Cause.STARTING


def test_nothing_left_is_not_named_when_urls_are_waiting(go_on):
    assert go_on(15, resting(waits_for="visits")).cause is Cause.NOTHING_LEFT
    assert go_on(1, RESTING).cause is Cause.POLITENESS


def test_a_single_late_look_does_not_prove_a_slow_disk(doctor, go_on):
    for lag in (0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.5, 0.0):
        go_on(1, resting(ready=9), lag)
    assert set(doctor.secs) == {Cause.POLITENESS}


def test_a_meter_tells_work_from_sleep():
    meter = ProcessMeter(clock=time.monotonic)
    time.sleep(0.2)
    asleep = meter.look(0.0)
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    awake = meter.look(0.1)
    assert asleep.loop < 0.3
    assert awake.loop + awake.waited > 0.5
    assert awake.process >= awake.loop * 0.9
    assert awake.lag == 0.1


def test_a_meter_counts_waits_for_disks_and_idle_cores(tmp_path):
    def waited():
        return int(Path("/proc/pressure/io").read_text().split("total=")[1].split()[0]) / 1e6

    if not Path("/proc/pressure/io").exists():  # Linux does not count waits for disks here
        assert ProcessMeter(clock=time.monotonic).look(0.0).disk == 0
        return
    began = time.monotonic()
    most = waited()
    meter = ProcessMeter(clock=time.monotonic)
    least = waited()
    made_at = time.monotonic()
    with (tmp_path / "file").open("wb", buffering=0) as file:
        while time.monotonic() - began < 0.3:
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
    least = waited() - least
    fewest_secs = time.monotonic() - made_at
    use = meter.look(0.0)
    secs = time.monotonic() - began
    most = waited() - most
    assert least <= use.disk * secs * 1.001
    assert use.disk * fewest_secs <= most * 1.001
    assert 0 <= use.idle <= len(os.sched_getaffinity(0)) + 0.5


def test_more_workers_are_not_advised_if_another_limit_is_near(go_on):
    assert go_on(40, BUSY).advice == "set CONCURRENT_REQUESTS=400"
    found = go_on(8, resting(limit="BANDWIDTH_MAX"))
    assert (found.cause, found.advice) == ("workers", "")
