"""What a first-in first-out queue does, and what one does that can be taken up again."""

from __future__ import annotations

import random
from collections import deque

import pytest


def item(number: int) -> bytes:
    """Items of one width, so that a number of them can be told from a number of bytes."""
    return b"%05d" % number


def drain(queue) -> list[bytes]:
    return [queue.pop() for _ in range(len(queue))]


class FifoContract:
    """Subclasses define ``queue`` (fixture, an empty one), ``many`` (fixture, a number of items
    that does not fit in memory, if any does not) and may override ``settle``."""

    def settle(self, queue):
        """Called between what a test does and what it asserts; returns the queue to go on with."""
        return queue

    def test_an_empty_queue_has_nothing_to_give(self, queue):
        queue = self.settle(queue)
        assert len(queue) == 0
        with pytest.raises(IndexError):
            queue.pop()

    def test_what_went_in_first_comes_out_first(self, queue, many):
        for n in range(many):
            queue.push(item(n))
        queue = self.settle(queue)
        assert len(queue) == many
        assert drain(queue) == [item(n) for n in range(many)]
        assert len(queue) == 0

    def test_many_at_once_keep_their_order_behind_the_others(self, queue, many):
        queue.push(b"first")
        queue.push_many(item(n) for n in range(many))
        queue.push_many([])
        queue.push(b"last")
        queue = self.settle(queue)
        assert drain(queue) == [b"first", *(item(n) for n in range(many)), b"last"]

    def test_what_comes_back_to_the_front_is_next(self, queue, many):
        queue.push_front(b"only")
        queue.push_many(map(item, range(many)))
        queue = self.settle(queue)
        assert queue.pop() == b"only"
        assert queue.pop() == item(0)
        queue.push_front(item(0))
        queue.push_front(b"before")
        queue = self.settle(queue)
        assert len(queue) == many + 1
        assert drain(queue) == [b"before", *map(item, range(many))]

    def test_pushes_between_pops_keep_the_order(self, queue, many):
        rng = random.Random(7)
        model: deque[bytes] = deque()
        number = 0
        for _ in range(12):
            for _ in range(rng.randrange(many)):
                queue.push(item(number))
                model.append(item(number))
                number += 1
            queue = self.settle(queue)
            for _ in range(rng.randrange(len(model) + 1)):
                assert queue.pop() == model.popleft()
            assert len(queue) == len(model)
        assert drain(queue) == list(model)

    def test_an_emptied_queue_can_be_used_again(self, queue, many):
        for round_ in range(3):
            queue.push_many(map(item, range(round_, many)))
            queue = self.settle(queue)
            assert drain(queue) == list(map(item, range(round_, many)))
            queue = self.settle(queue)

    @pytest.mark.parametrize("odd", [b"", b"\0", bytes(range(256)), b"x" * 100_000])
    def test_items_are_any_bytes(self, queue, many, odd):
        items = [odd, b"", *map(item, range(many)), odd]
        queue.push_many(items)
        queue = self.settle(queue)
        assert drain(queue) == items


class PersistentFifoContract(FifoContract):
    """Subclasses also define ``reopen(queue, snapshot)``: the queue that a process finds which
    starts from *snapshot* after this one was killed."""

    def reopen(self, queue, snapshot):
        raise NotImplementedError

    def settle(self, queue):
        return self.reopen(queue, queue.snapshot())

    def test_a_crash_undoes_what_came_after_the_snapshot(self, queue, many):
        queue.push_many(map(item, range(many)))
        saved = queue.snapshot()
        queue.push_many(map(item, range(many, 2 * many)))
        for n in range(many + many // 2):
            assert queue.pop() == item(n)
        queue = self.reopen(queue, saved)
        assert drain(queue) == list(map(item, range(many)))

    def test_a_crash_at_the_start_leaves_an_empty_queue(self, queue, many):
        queue.push_many(map(item, range(many)))
        queue = self.reopen(queue, None)
        assert len(queue) == 0
        queue.push_many(map(item, range(many)))
        assert drain(queue) == list(map(item, range(many)))

    def test_a_snapshot_can_be_gone_back_to_again_and_again(self, queue, many):
        queue.push_many(map(item, range(many)))
        assert [queue.pop(), queue.pop()] == [item(0), item(1)]
        saved = queue.snapshot()
        for popped in range(0, many - 2, 1 + many // 7):
            queue = self.reopen(queue, saved)
            queue.push_many([b"lost"] * many)
            for n in range(popped):
                assert queue.pop() == item(2 + n)
        queue = self.reopen(queue, saved)
        assert drain(queue) == list(map(item, range(2, many)))

    def test_an_older_snapshot_holds_until_a_newer_one_is_published(self, queue, many):
        queue.push_many(map(item, range(many)))
        published = queue.snapshot()
        queue.forget()
        drain(queue)
        queue.push_many([b"new"] * many)
        queue.snapshot()  # prepared, but the process dies before it is published
        queue = self.reopen(queue, published)
        assert drain(queue) == list(map(item, range(many)))

    def test_forget_keeps_what_the_published_snapshot_names(self, queue, many):
        queue.push_many(map(item, range(many)))
        for n in range(many // 2):
            assert queue.pop() == item(n)
        saved = queue.snapshot()
        for n in range(many // 2, many):
            assert queue.pop() == item(n)
        queue.forget()
        queue = self.reopen(queue, saved)
        assert drain(queue) == list(map(item, range(many // 2, many)))
