"""RANKS_FILE: ranks of hosts that change while the crawl runs."""

from unittest import mock

import pytest
from text_tables import cases

from webcrawl.crawl.shard import ranks_file
from webcrawl.crawl.shard.ranks_file import RankedPrioritizer, Ranks, RanksFile
from webcrawl.frontier import DepthRankPrioritizer, Entry


def ranking(*lines, most=100):
    made = Ranks()
    with mock.patch.object(ranks_file, "_MAX_LINES", most):
        for line in lines:
            made.add(line)
    made.complete()
    return made


def of_host(ranks, host):
    return ranks.rank(f"http://[{host}]/x" if ":" in host else f"http://{host}/x")


def test_lines_of_a_ranks_file_are_read_as_those_of_a_seed_list():
    made = ranking(
        *("rank,host", "", "# by hand", "3,c.test", ' 2 , "B.test." ', '"7","q.test"'),
        *("9,2001:db8::1", "8,[2001:db8::2]", "5000000000,big.test"),
    )
    names = ("c.test", "b.test", "q.test", "2001:db8::1", "2001:db8::2", "big.test", "d.test")
    assert [of_host(made, name) for name in names] == [3, 2, 7, 9, 8, 2**32 - 1, 0]
    assert len(made) == 6


@cases(
    "line",
    """
        a.test
        "1,"
        x,a.test
        -1,a.test
        1,http://
        1,a b
        1,a..%
        1,mailto:a
    """,
)
def test_other_lines_are_bad_and_change_nothing(line):
    made = Ranks()
    with pytest.raises(ValueError, match="is not a rank of"):
        made.add(line)
    assert len(made) == 0


def test_better_rank_of_a_host_holds_and_rank_0_is_none():
    made = ranking("5,a.test", "2,a.test", "9,a.test", "0,b.test")
    assert (of_host(made, "a.test"), of_host(made, "b.test")) == (2, 0)


def test_rank_of_a_url_goes_before_that_of_its_host():
    made = ranking("rank,url", "5,a.test", "9,http://a.test/x?y=1,2", "2,https://b.test/")
    urls = ("http://a.test/x?y=1,2", "http://a.test/", "https://b.test/", "http://b.test/")
    assert [made.rank(url) for url in urls] == [9, 5, 2, 0]


def test_names_are_read_as_urls_and_hosts_are_written():
    made = ranking("6,HTTP://Example.com:80/a/../x#f", "4,b\u00fccher.test", "2,http://a.test")
    urls = ("http://example.com/x", "http://xn--bcher-kva.test/", "http://a.test/")
    assert [made.rank(url) for url in urls] == [6, 4, 2]


def test_only_so_many_hosts_count():
    made = ranking(*(f"{n},h{n}.test" for n in range(1, 10)), most=4)
    assert [of_host(made, f"h{n}.test") for n in range(1, 10)] == [1, 2, 3, 4, 0, 0, 0, 0, 0]


def test_level_goes_by_the_file_while_it_changes_and_by_the_seeds_elsewhere(tmp_path, clock):
    path = tmp_path / "ranks.csv"
    path.write_text("1,a.test\n")
    file = RanksFile(path=path, clock=clock)
    file.open()
    by = RankedPrioritizer(DepthRankPrioritizer(levels=16), file)
    known = Entry("http://a.test/x", "a.test", 1, rank=1_000_000)
    other = Entry("http://b.test/x", "b.test", 1, rank=1_000_000)
    assert (by.level(known), by.level(other), by.levels) == (3, 8, 16)
    path.write_text("1,b.test\n2000,a.test\n")
    for _ in range(3):
        clock.advance(1)
        file.reload_if_changed()
    file.reading.result()
    assert (by.level(known), by.level(other)) == (6, 3)
    assert file.stats() == {"rules": 2, "bad_lines": 0, "reloads": 1}
    assert known.rank == 1_000_000
    urls = ("http://b.test/", "http://a.test/x", "http://c.test/")
    # 1 / log2(1 + rank), the last one as the next of the two.
    assert [round(file.importance(url), 3) for url in urls] == [1.0, 0.091, 0.5]
    file.close()
