"""Tests of golden traces, which are hashes of trajectories that were recorded for each id.

The behaviour of an id never changes, so a change needs an id with a new version.
"""

import defaults
import golden
import pytest
from golden import IDS, TRACES


def cases():
    """Yield a test parameter for each id; ids that represent a family have the marker `family`."""
    ids = defaults.params(defaults.GOLDEN, full=defaults.FIRST)
    for id, case in zip(IDS, ids, strict=True):
        family = [pytest.mark.family] if id in defaults.FAMILIES.values() else []
        yield pytest.param(id, marks=[*case.marks, *family])


@pytest.mark.parametrize("id", list(cases()))
def test_the_trace_is_the_one_of_its_version(id, compiled):
    assert id in TRACES, f"{id} is new: record it with `python tests/golden.py --write`"
    family, version = id.rsplit("-v", 1)
    assert golden.equal(golden.trace(compiled(id).env, compiled(id).rollout), TRACES[id]), (
        f"{id} behaves differently than before: results of the two are not comparable, so give it "
        f"a new version ({family}-v{int(version) + 1}), name the change under Behaviour in "
        "CHANGELOG.md and record it with `python tests/golden.py --write`"
    )


def test_no_trace_is_left_of_an_id_that_is_gone():
    assert set(TRACES) == set(IDS)
