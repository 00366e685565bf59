"""Tests of which settings of JAX change trajectories, and of commands that compare trajectories.

See docs/reproducibility.md.
"""

import sys
from pathlib import Path

import golden
import jax
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "proofs"))
import reproducibility

ID = "Classic-CartPole-v0"


def holds(id, compiled):
    subject = compiled(id)
    return golden.equal(golden.trace(subject.env, subject.rollout), golden.TRACES[id])


@pytest.mark.parametrize("id", [ID, "Grid-GoToObject-6x6-N2-v0"])
def test_keys_of_rbg_give_the_golden_trajectories(id, compiled):
    """Keys of both implementations `rbg` and `threefry2x32` give the same trajectories.

    Draws use only the first and the last word of a key. An rbg key repeats the two words of the
    threefry key, so these words are equal.
    """
    with jax.default_prng_impl("rbg"):
        assert holds(id, compiled)


SETTINGS = [lambda: jax.default_prng_impl("unsafe_rbg"), lambda: jax.threefry_partitionable(False)]


@pytest.mark.parametrize("setting", SETTINGS, ids=["unsafe_rbg", "not_partitionable"])
def test_these_settings_give_other_trajectories(setting, compiled):
    with setting():
        assert not holds(ID, compiled)


def test_a_key_that_names_its_implementation_ignores_the_default(compiled):
    reset = compiled(ID).reset
    wanted = reset(jax.random.key(3)).obs
    with jax.default_prng_impl("unsafe_rbg"):
        found = reset(jax.random.key(3, impl="threefry2x32")).obs
    np.testing.assert_array_equal(found, wanted)


def check(monkeypatch, capsys, *ids):
    monkeypatch.setattr(sys, "argv", ["golden.py", "--check", *ids])
    with pytest.raises(SystemExit) as ended:
        golden.main()
    assert f"jax {jax.__version__}: 1 golden traces checked" in capsys.readouterr().out
    return ended.value.code


def test_the_command_fails_if_a_trace_differs(monkeypatch, capsys):
    assert check(monkeypatch, capsys, ID) == 0
    monkeypatch.setitem(golden.TRACES, ID, ["0" * 16, *golden.TRACES[ID][1:]])
    assert check(monkeypatch, capsys, ID) == f"differ: {ID}"


def test_records_are_compared_bit_by_bit(tmp_path, capsys):
    for folder, last in (("a", 2.0), ("b", np.nextafter(np.float32(2), np.float32(3)))):
        (tmp_path / folder).mkdir()
        for id in ("same", "other"):
            values = np.array([[1, 2, last if id == "other" else 2]], np.float32)
            np.savez(tmp_path / folder / id, **{"[1].obs": values})
    assert not reproducibility.compare(tmp_path / "a", tmp_path / "b")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "other [1].obs float32 1 of 3 entries, from step 2, at most 2.38e-07"
    )
    assert lines[1:] == ["2 ids, 1 equal in every bit"]


def test_records_without_a_common_id_are_not_equal(tmp_path, capsys, monkeypatch):
    assert not reproducibility.compare(tmp_path / "a", tmp_path / "b")
    assert "0 ids, 0 equal" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["reproducibility.py", "compare", "a"])
    with pytest.raises(SystemExit):
        reproducibility.main()
    assert "compare needs two folders, got 1" in capsys.readouterr().err
