"""The tests of a file run in one worker, so that shared programs are compiled once."""

import pytest


def test_xdist_knows_the_group_of_a_test(request: pytest.FixtureRequest):
    """xdist appends the group to the name if it distributes by groups (`make test`)."""
    divided = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@tests/test_groups.py") == divided
