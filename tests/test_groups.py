"""The tests of a file run in one worker, so that what they share is compiled once."""

import pytest


def test_xdist_knows_the_group_of_a_test(request: pytest.FixtureRequest):
    """It appends the group to the name, where it divides by groups (`make test`)."""
    divided = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@tests/test_groups.py") == divided
