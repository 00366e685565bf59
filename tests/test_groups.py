"""Tests of how tests are collected: one worker runs a file, and files may come in any order."""

import re
from pathlib import Path

import pytest


def test_xdist_knows_the_group_of_a_test(request: pytest.FixtureRequest):
    """xdist appends the group, here the file, to a test's name if it distributes tests by group.

    `make test` distributes tests in this way.
    """
    divided = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@tests/test_groups.py") == divided


def test_no_module_imports_a_conftest():
    """No test imports `conftest`, because several folders have one.

    The import would return the `conftest` that was loaded last.
    """
    imported = re.compile(r"^\s*(from|import) conftest\b", re.MULTILINE)
    paths = Path(__file__).parent.rglob("*.py")
    assert not [path.name for path in paths if imported.search(path.read_text("utf-8"))]
