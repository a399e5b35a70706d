"""What the eliminator needs of the cache in front of its buffer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st


class CacheContract:
    """Subclasses define ``make(size)``: a cache for so many fingerprints."""

    def make(self, size):
        raise NotImplementedError

    def test_misses_are_the_indexes_not_held(self):
        cache = self.make(4)
        cache.admit([10, 20])
        assert cache.misses([20, 30, 10, 40]) == [1, 3]

    def test_asking_admits_nothing(self):
        cache = self.make(4)
        assert cache.misses([1, 2, 3]) == [0, 1, 2]
        assert cache.misses([1, 2, 3]) == [0, 1, 2]
        assert 1 not in cache

    @pytest.mark.parametrize("size", [1, 3, 9])
    @given(batches=st.lists(st.lists(st.integers(1, 30), max_size=8), max_size=40))
    def test_it_holds_only_what_was_admitted_and_never_too_many(self, size, batches):
        cache, admitted = self.make(size), set()
        assert cache.size == size
        for batch in batches:
            missed = cache.misses(batch)
            assert [fp in cache for fp in batch] == [i not in missed for i in range(len(batch))]
            cache.admit(batch)
            admitted.update(batch)
            held = {fp for fp in range(1, 31) if fp in cache}
            assert len(held) <= size
            assert held <= admitted
