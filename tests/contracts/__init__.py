"""Test mixins by capability: a subclass says how the thing is made and inherits its tests."""

import pytest

pytest.register_assert_rewrite(
    *("contracts.eliminator", "contracts.front_end", "contracts.modules", "contracts.policies")
)
