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


def test_parts_of_the_full_tests_are_about_equal_and_cover_them(request: pytest.FixtureRequest):
    """With `--part K/N`, each test runs in exactly one of the N parts."""
    conftest = request.config.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))
    assert conftest.part_of_tests("2/5") == (2, 5)
    for wrong in ("0/5", "6/5", "5", "one/two"):
        with pytest.raises(ValueError):
            conftest.part_of_tests(wrong)
    tests = [f"tests/test_a.py::test_b[{number}]" for number in range(1000)]
    parts = [[it for it in tests if conftest.in_part(it, (part, 5))] for part in range(1, 6)]
    assert sorted(it for part in parts for it in part) == sorted(tests)
    assert all(170 < len(part) < 230 for part in parts)
