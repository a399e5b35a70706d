"""Tests of the front ends in the documentation: contract, order, and crawls with faults."""

from collections import Counter

from contracts.front_end import FrontEndContract, drained
from example_parts import DepthFirst, MostUrgent
from fault_rig import go_through_seed
from frontier_rig import entry
from strategies import seeds
from text_tables import each

from webcrawl.frontier import DepthRankPrioritizer, decode, encode


class TestDepthFirst(FrontEndContract):
    def make(self, path):
        return DepthFirst(path=path, prioritizer=None, selector=None)

    def test_all_below_a_page_comes_before_its_next_sibling(self, path):
        front, order = self.opened(path), []
        front.push([encode(entry("a.test"))])
        while front.size:
            page = decode(front.pop())
            order.append(name := page.url.removeprefix("http://a.test/0"))
            if page.depth < 3:
                below = page.depth + 1
                names = [f"0{name}{one}" for one in "xyz"]
                front.push([encode(entry("a.test", one, depth=below)) for one in names])
        assert len(order) == 1 + 3 + 9 + 27
        assert order == sorted(order)


class TestMostUrgent(FrontEndContract):
    def make(self, path):
        return MostUrgent(path=path, prioritizer=DepthRankPrioritizer(levels=9), selector=None)

    def test_the_most_urgent_comes_first_whatever_came_before(self, path):
        front = self.opened(path)
        for rank in (9, 1000, 100, 5000):
            front.push([encode(entry("a.test", rank, rank=rank))])
        assert decode(front.pop()).rank == 9
        front.push([encode(entry("a.test", 8, rank=8))])
        assert [decode(data).rank for data in drained(front)] == [8, 100, 1000, 5000]


@each("seed", *seeds(3))
@each("name", "DepthFirst", long=("MostUrgent",))
def test_a_job_with_another_front_end_is_whole_after_the_faults_of(tmp_path, name, seed):
    settings = {"FRONTIER_FRONT_END": f"example_parts.{name}"}
    go_through_seed(tmp_path, seed, Counter(), settings=settings)
