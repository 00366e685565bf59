"""Tests of learners with a fixed support of values (C51, Rainbow, MuZero, Dyna).

Clipped targets are logged, and cause one warning; the supports of presets are wide enough.
"""

import types

import jax.numpy as jnp
import numpy as np
import pytest
from test_value_units import TRUE, flags, salaries, trained, value  # noqa: F401 - a fixture
from tiny import TINY

import jaxenvs
from jaxenvs import registry
from jaxenvs.baselines.off_policy import c51
from jaxenvs.baselines.presets import preset
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import supports
from jaxenvs.baselines.storage import runs
from jaxenvs.core.spaces import Discrete

pytestmark = pytest.mark.full

GROUP = "tiny_runs"


def run(out, algorithm, id, steps, **more):
    """Train in an environment; return the records of the log."""
    trained(out, algorithm, *flags({**TINY[algorithm], **more}), steps=steps, id=id)
    return runs.Run.open(out).records()


@pytest.mark.usefixtures("salaries")
@pytest.mark.parametrize("algorithm", ["c51", pytest.param("rainbow", marks=pytest.mark.full)])
def test_returns_beyond_the_bounds_are_logged_and_warned_of_once(tmp_path, capsys, algorithm):
    records = run(tmp_path / "run", algorithm, "Salary-Float-v0", 1_600, capacity=512)
    shares = [record["clipped_targets"][0] for record in records]
    assert shares[-1] > 0.5
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert len(said) == 1
    # The recommended bound is at least `TRUE`, the true value of every state.
    assert said[0].endswith("start a new run with --v-max 78")
    assert "v_min=-10 to v_max=10" in said[0]


@pytest.mark.usefixtures("salaries")
def test_targets_are_counted_after_a_long_warm_up(tmp_path, capsys):
    """The warning is printed even if the warm-up is longer than `WINDOW` updates.

    The share of clipped targets is averaged over `WINDOW` updates. In the warm-up, the log has null
    for it.
    """
    more = {"capacity": 512, "warm_up": 640}
    records = run(tmp_path / "run", "c51", "Salary-Float-v0", 1_600, **more)
    shares = [record["clipped_targets"][0] for record in records]
    assert shares[: supports.WINDOW] == [None] * supports.WINDOW and shares[-1] > 0.5
    assert capsys.readouterr().err.count("start a new run with --v-max") == 1


@pytest.mark.usefixtures("as_a_user")  # no jaxtyping checks, which would refuse stand-ins
def test_the_wide_distributions_of_a_new_network_are_not_clipped_targets(monkeypatch):
    """A target counts as clipped only if its mean lies outside the support.

    The network is new: all atoms have the same probability, so every shifted distribution has mass
    outside the support. Rewards are negative and as large as in TSP.
    """
    network = types.SimpleNamespace(support=jnp.linspace(-15.0, 0.0, 51))
    # The logits are 0: a uniform distribution over the atoms.
    monkeypatch.setattr(c51.dqn, "next_values", lambda *_: jnp.zeros((3, 51)))
    batch = types.SimpleNamespace(
        reward=jnp.float32([-1.5, -9.0, -16.0]), discount=jnp.float32([0.97, 0.97, 0.0])
    )
    target = c51.td_target(types.SimpleNamespace(network=network), None, None, batch)
    assert target.clipped.tolist() == [0.0, 1.0, 1.0]
    np.testing.assert_allclose(target.mass.sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.usefixtures("salaries")
def test_with_the_bounds_of_the_warning_nothing_is_clipped(tmp_path, capsys):
    more = {"v_max": 78.0, "capacity": 512, "learning_rate": 0.01, "target_rate": 0.1}
    records = run(tmp_path / "run", "c51", "Salary-Float-v0", 8_000, **more)
    assert max(record["clipped_targets"][0] for record in records) < 1e-3
    assert "warning" not in capsys.readouterr().err
    assert value(runs.load_policy(tmp_path / "run")) == pytest.approx(TRUE, rel=0.05)


@pytest.mark.usefixtures("salaries")
@pytest.mark.parametrize(
    ("algorithm", "more", "fix"),
    [
        ("muzero", {"atoms": 10, "spacing": 0.2}, "--spacing 0.8"),
        pytest.param(
            *("dyna", {"atoms": 10, "spacing": 0.1}, "--spacing 0.8"), marks=pytest.mark.slow
        ),
    ],
)
def test_two_hot_targets_beyond_the_atoms_too(tmp_path, capsys, algorithm, more, fix):
    records = run(tmp_path / "run", algorithm, "Salary-Map-v0", 1_600, **more)
    assert records[-1]["clipped_targets"][0] > 0.5
    (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert said.endswith(f"start a new run with {fix}") and "atoms=10" in said


# (smallest, largest) discounted return that play can reach at gamma 0.99, by prefix of env ids. For
# these ids, the bounds that follow from the range of rewards would be too wide.
REACHED = {
    "Grid-": (-1, 1),
    "BabyAI-": (-1, 1),
    "XLand-": (0, 1),
    "Craft-Classic-": (-1, 6),
    "Craft-": (-2, 8),
    "Puzzle-2048-": (0, 4000),
    "Puzzle-Minesweeper-": (0, (1 - 0.99**90) / 0.01),
    "Puzzle-Sokoban-": (-12, 14),
    "Puzzle-TSP-10-": (-10 * 2**0.5, 0),
    "Puzzle-TSP-20-": (-20 * 2**0.5, 0),
    "Puzzle-": (-1, 1),
    "PuzzleScript-": (0, 1),
}
# (smallest, largest) reward that play can reach, by prefix of env ids. The `reward_range` of these
# environments is wider.
PAID = {"Puzzle-2048-": (0, 4096), "Puzzle-PegSolitaire-": (0, 1), "Craft-Classic-": (-0.9, 22.9)}
PAID |= {"Craft-": (-2, 20)}


def bounds(table, id, default):
    """Return the entry of `table` for an id, or `default` if there is none."""
    return next((ends for start, ends in table.items() if id.startswith(start)), default)


def discrete(algorithm):
    """Yield each id with discrete actions, its environment, and the settings of its preset."""
    for id in registry.list():
        env = jaxenvs.make(id)
        if isinstance(env.action_space, Discrete):
            settings = ALGORITHMS[algorithm].load().Settings
            yield id, env, settings(**preset(id, None, algorithm).settings)


@pytest.mark.parametrize("algorithm", ["c51", "rainbow"])
def test_bounds_of_presets_hold_the_returns(algorithm):
    for id, env, settings in discrete(algorithm):
        every = np.array(env.reward_range) / (1 - settings.gamma)
        low, high = bounds(REACHED, id, every)
        assert settings.v_min <= low + 1e-3 and high - 1e-3 <= settings.v_max, id


@pytest.mark.parametrize("algorithm", ["muzero", "dyna"])
def test_atoms_of_presets_hold_the_rewards(algorithm):
    for id, env, settings in discrete(algorithm):
        if algorithm == "dyna" and env.vocabulary is None:
            continue
        every = np.array(env.reward_range)
        ends = np.abs(bounds(PAID, id, every))
        if algorithm == "muzero":  # MuZero represents rewards and values with the same atoms
            ends = [*ends, *np.abs(bounds(REACHED, id, every / (1 - settings.gamma)))]
        squeezed = np.sqrt(max(ends) + 1) - 1 + max(ends) / 1000
        assert squeezed <= settings.atoms * settings.spacing, id
