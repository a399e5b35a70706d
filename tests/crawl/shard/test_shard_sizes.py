"""The memory of a process is divided among its shards, whose parts may change at any time."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from frontier_rig import Rig, entry, urls_of
from host_rig import Records, robots_cache
from records_rig import damage_of
from records_rig import opened as opened_records
from scrapy.settings import Settings
from seen_rig import InlineExecutor, disk_eliminator, drain, names, submit
from seen_rig import damage_of as damage_of_seen
from text_tables import each

from webcrawl.configuration.memory_budget import TABLE, part_of, sizes
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.hosts.records.host_counters import HostCounter
from webcrawl.seen.content import ContentSeen


@each("shards", 1, 2, 7, 64, 4096)
def test_parts_add_up_to_the_whole_unless_a_shard_needs_more(shards):
    whole = sizes(Settings({"MEMORY_BUDGET": 1 << 29}))
    for name, row in TABLE.items():
        part = part_of(name, whole[name], shards=shards)
        if row.of_shard and shards > 1:
            assert part <= max(whole[name] // shards, row.of_shard)
            assert 2 * part >= whole[name] // shards
        else:
            assert part == whole[name]


def test_an_eliminator_is_exact_whatever_its_size_becomes(tmp_path):
    rng = random.Random(6)
    urls = names(400)
    found = []
    with closing(disk_eliminator(tmp_path / "seen", buffer_size=64)) as eliminator:
        eliminator.open(None)
        for _ in range(100):
            eliminator.resize(buffer_size=rng.randrange(2, 90), cache_size=rng.randrange(1, 90))
            submit(eliminator, rng.choices(urls, k=12))
            found += drain(eliminator)
        submit(eliminator, urls)
        while eliminator.waiting:
            eliminator.merge()
            found += drain(eliminator)
        assert sorted(found) == sorted(urls)
        assert damage_of_seen(eliminator) == []


def test_a_frontier_hands_out_everything_whatever_its_size_becomes(tmp_path, clock):
    rng = random.Random(7)
    rig = Rig(tmp_path / "frontier", clock)
    entries = [entry(f"h{number % 30}.test", number) for number in range(200)]
    out = []
    for number, one in enumerate(entries):
        rig.frontier.back.resize(rng.randrange(1, 20))
        rig.frontier.back.remembered.resize(rng.randrange(1, 9))
        rig.push(one)
        if number % 3 == 0 and (lease := rig.next()) is not None:
            out.append(lease.entry)
            rig.fetch(lease)
    out += rig.drain()
    assert sorted(urls_of(out)) == sorted(urls_of(entries))
    rig.close()


def test_host_records_and_rules_that_have_less_room_know_as_much(tmp_path, clock):
    with ThreadPoolExecutor(max_workers=1) as executor:
        records = opened_records(tmp_path / "hosts", executor)
        for number in range(100):
            record = records.get(f"h{number}.test")
            record.addresses = [f"10.0.0.{number}"]
            records.put(record)
            records.domains.put(f"h{number}.test", HostCounter(pages=number))
        records.resize(size=3, robots_size=3, counters=3, database_kib=128)
        records.flush()
        for number in range(100):
            assert records.get(f"h{number}.test").addresses == [f"10.0.0.{number}"]
            assert records.domains.find(f"h{number}.test").pages == number
        assert damage_of(records) == []
        records.close()
    rules = robots_cache(Records(), clock=clock)
    for number in range(50):
        rules.put(f"http://h{number}.test:80", 200, b"User-agent: *\nDisallow: /no\n")
    rules.resize(size=5, max_bytes=1 << 20)
    for number in range(50):
        found = rules.get(f"http://h{number}.test:80")
        assert not found.decide(f"http://h{number}.test/no").allow
    rules.put("http://new.test:80", 404)
    assert len(rules._ready) == 5


def test_documents_and_ranks_that_have_less_room_are_known_all_the_same(tmp_path):
    content = ContentSeen(path=tmp_path / "content", executor=InlineExecutor())
    ranks = HostRanks(path=tmp_path / "ranks")
    with closing(content), closing(ranks):
        content.open(None)
        ranks.open(None)
        for number in range(1, 200):
            content.resize(number % 7 + 1)
            ranks.resize(number % 5 + 1)
            assert not content.test(number)
            content.commit(number)
            ranks.add_many([(f"h{number}.test", number)])
        assert all(content.test(number) for number in range(1, 200))
        assert all(ranks.rank(f"h{number}.test") == number for number in range(1, 200))
