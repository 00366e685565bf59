"""Tests of sweeps, which train agents with many settings in one compiled program."""

import json

import jax
import numpy as np
import pytest
import tiny
from defaults import with_full
from tiny import Countdown, Push, learner

from jaxenvs.baselines import presets
from jaxenvs.baselines.core import episodes as evaluation
from jaxenvs.baselines.core import playing
from jaxenvs.baselines.evaluation import record
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop, options, sinks, train
from jaxenvs.baselines.storage import runs, sweep
from jaxenvs.baselines.storage.checkpoints import RunError

ID = "Grid-Empty-Random-5x5-v0"
REAL = ("sac", "td3", "tqc", "crossq")  # learners that need continuous actions
SMALL = [*tiny.FLAGS, "--rollout-steps", "16", "--minibatches", "2", "--seeds", "2"]


@pytest.mark.full
def test_every_agent_learns_as_alone(tmp_path, capsys):
    """In a sweep, each agent gets the same weights as in a separate run with the agent's settings.

    The printed table is sorted by mean return. The last line is the command of a separate run with
    the best settings.
    """
    flags = [ID, *SMALL, "--total-steps", "256"]
    given = ["--sweep", "learning_rate=1e-3,1e-2", "entropy=0,0.1", "--out", str(tmp_path / "all")]
    assert train.main([*flags, *given]) == 0
    said = capsys.readouterr().out
    config = runs.Run.open(tmp_path / "all").config
    assert config.seeds == 8
    assert [seed for _, seed in config.agents] == [3, 4] * 4
    assert config.agents[5][0] == {"learning_rate": 1e-2, "entropy": 0.0}
    evaluated = json.loads((tmp_path / "all" / "eval.json").read_text())["per_seed"]
    assert [
        {k: row[k] for k in label} for row, label in zip(evaluated, config.labels, strict=True)
    ] == (config.labels)
    assert "episodes per seed" not in said
    alone = ["--learning-rate", "1e-2", "--entropy", "0", "--out", str(tmp_path / "one")]
    assert train.main([*flags, *alone]) == 0
    for seed in range(2):
        same, one = (
            runs.load_policy(tmp_path / name, seed=i).weights
            for name, i in (("all", 4 + seed), ("one", seed))
        )
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), same, one)
    table = said[said.index("learning_rate  ") :].splitlines()
    means = np.reshape([row["mean_return"] for row in evaluated], (4, 2)).mean(axis=1)
    order = np.argsort(-means, kind="stable")
    assert [float(line.split()[2]) for line in table[1:5]] == pytest.approx(means[order], abs=1e-3)
    best = config.agents[2 * order[0]][0]
    assert said.splitlines()[-1].startswith(
        f"The best alone: jaxenvs train {ID} --seeds 2 --seed 3"
    )
    rate = f"--learning-rate {best['learning_rate']:g}"
    assert (rate in said.splitlines()[-1]) == (best["learning_rate"] != 1e-3)


def test_agents_are_told_apart_by_setting_and_seed(tmp_path):
    """Agents have distinct names in evaluations, in log columns, and in recorded commands."""
    settings = vars(ALGORITHMS["ppo"].load().Settings(**presets.preset(ID).settings))
    config = runs.Config(ID, {}, 3, 4, settings, sweep={"gamma": [0.9, 0.99]})
    assert config.seeds_of_each == 2
    episodes = playing.Episodes(*(np.arange(4.0)[:, None] for _ in range(3)))
    rows = evaluation.summary(episodes, config.labels)["per_seed"]
    assert [(row["gamma"], row["seed"], row["mean_return"]) for row in rows] == [
        (0.9, 3, 0.0),
        (0.9, 4, 1.0),
        (0.99, 3, 2.0),
        (0.99, 4, 3.0),
    ]
    found = sinks.flat({"return": [0.0, 1.0, 2.0, 3.0]}, sinks.agents(config))
    assert found["return/gamma=0.99 seed4"] == 3.0 and len(found) == 5
    command = f"jaxenvs train {ID} --seeds 2 --seed 3 --sweep gamma=0.9,0.99"
    assert record.command(config) == command
    assert options.config(options.parse(command.split()[2:])).agents == config.agents


@pytest.mark.full
def test_a_sweep_goes_on(tmp_path):
    flags = [ID, *SMALL, "--no-anneal", "--sweep", "gamma=0.9,0.99"]
    whole, parts = (str(tmp_path / name) for name in ("whole", "parts"))
    assert train.main([*flags, "--total-steps", "512", "--out", whole]) == 0
    assert train.main([*flags, "--total-steps", "256", "--out", parts]) == 0
    assert train.main(["--resume", parts, "--sweep", "gamma=0.9", "--total-steps", "512"]) == 2
    assert train.main(["--resume", parts, "--total-steps", "512"]) == 0
    for i in range(4):
        one, other = (runs.load_policy(path, seed=i).weights for path in (whole, parts))
        jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.full
@pytest.mark.parametrize(
    "algorithm",
    [
        "ppo",
        *with_full("ppo-rnn", "pqn-rnn", "sac", "td3", "tqc", "crossq"),
    ],
)
def test_whatever_can_be_swept_may_be_an_array(algorithm):
    """Each setting that can be swept may be an array, with one value per agent.

    Agent 0 has the usual values. Agent i + 1 has half the usual value of setting i. This must
    change the agent's weights, except for settings that may have no effect in one update.
    """
    changed = {"optimiser": "adamw", "weight_decay": 0.1, "max_grad_norm": 0.01}
    if algorithm.startswith("ppo"):  # values so extreme that clipping has an effect
        changed |= {"clip": 0.001, "entropy": 1.0}
    by_replay = algorithm in REAL
    # learn from the first update on, with a high rate, so that target networks soon differ from the
    # trained networks
    changed |= {"warm_up": 8, "learning_rate": 0.01} if by_replay else {}
    if by_replay and algorithm != "crossq":  # CrossQ has no target networks
        changed |= {"target_rate": 0.5}
    agent = learner(Push() if by_replay else Countdown(), algorithm, **changed)
    settings = agent.settings
    agents = 1 + len(settings.sweepable())
    values = {
        name: np.full(agents, getattr(settings, name), np.float32) for name in settings.sweepable()
    }
    for i, name in enumerate(settings.sweepable()):
        values[name][i + 1] *= 0.5
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 1))
    many = jax.tree.map(lambda leaf: np.repeat(leaf, agents, axis=0), jax.device_get(runners))
    after, _ = loop.run_chunk(agent, many._replace(swept=values))
    usual, _ = loop.run_chunk(agent, runners)
    vectors = [
        np.concatenate([np.ravel(leaf[i]) for leaf in jax.tree.leaves(jax.device_get(run.weights))])
        for run, i in ((usual, 0), *((after, i) for i in range(agents)))
    ]
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-4, atol=1e-6)
    same = {
        name
        for name, each in zip(settings.sweepable(), vectors[2:], strict=True)
        if np.allclose(each, vectors[1], rtol=1e-5, atol=1e-7)
    }
    # These settings may have no effect in one update: limits that are not reached, settings of
    # later updates, and the target entropy, because the temperature's first Adam steps depend only
    # on the sign of its gradient.
    assert same <= {
        "advantage_floor",
        "epsilon_end",
        "epsilon_share",
        "negentropy",
        "target_noise_limit",
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("learning-rate=1e-4..1e-2:3", [1e-4, 1e-3, 1e-2]),
        ("learning_rate=1e-4..1e-3:4", [1e-4, 2.154e-4, 4.642e-4, 1e-3]),
        ("gamma=0.9..0.99:4", [0.9, 0.93, 0.96, 0.99]),
        ("entropy=0,0.01,0.02", [0.0, 0.01, 0.02]),
    ],
)
def test_values_of_a_range(text, values):
    (found,) = sweep.parse((text,), ALGORITHMS["ppo"].load().Settings(), "ppo").values()
    assert found == values


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (
            ("hidden=64,128",),
            "hidden cannot be swept; choose from lea",
        ),
        (("gamma",), "could not convert string to float: ''; write gamma="),
        (("gamma=0.9..0.99",), "write gamma="),
        (("learning_rate=0..1:3",), "by factors, from above 0"),
        (("gamma=0.9..0.99:0",), "give one or more finite values"),
        (("gamma=0.9,0.9",), "differ in their first six digits"),
        # The two numbers are equal in float32.
        (("gamma=0.99,0.99000001",), "differ in their first six digits"),
        (("gamma=0.9,1.1",), "gamma=1.1 must be at most 1"),
        (("gamma=nan",), "finite"),
        (("gamma=0.9", "gamma=0.8"), "gamma is named twice"),
    ],
)
def test_a_sweep_that_cannot_be_says_why(texts, words):
    with pytest.raises(ValueError, match=words):
        sweep.parse(texts, ALGORITHMS["ppo"].load().Settings(), "ppo")


def test_settings_of_a_sweep_are_checked_and_other_learners_refuse():
    with pytest.raises(ValueError, match=r"entropy=-0\.1 must be at least 0"):
        sweep.parse(("entropy=0,-0.1",), ALGORITHMS["ppo"].load().Settings(), "ppo")
    for name in ("dqn", "davi", "alphazero", "muzero", "ppo-ray"):
        with pytest.raises(
            RunError, match=f"{name} trains one setting at a time; use ppo, ppo-rnn"
        ):
            sweep.parse(("gamma=0.9",), ALGORITHMS[name].load().Settings(), name)
