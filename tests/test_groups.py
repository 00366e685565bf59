"""Test that all tests of a file run in one worker, which compiles their programs once."""

import pytest


def test_xdist_knows_the_group_of_a_test(request: pytest.FixtureRequest):
    """If xdist distributes by groups (`make test`), it appends the group to the test's name."""
    divided = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@tests/test_groups.py") == divided
