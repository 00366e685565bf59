"""Tests that a policy's values are discounted returns, in units of the environment's reward.

Every step has the reward `PAY`, so the true value of every state is PAY / (1 - gamma). Time limits
truncate episodes, but learners bootstrap from the final observation.
"""

import functools
import json
import shutil
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import TINY, Endless

import jaxenvs
from jaxenvs import cli, registry
from jaxenvs.baselines import registry as learners
from jaxenvs.baselines.core import value_scales
from jaxenvs.baselines.evaluation import export
from jaxenvs.baselines.evaluation.export import FILES
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import checkpoints, runs
from jaxenvs.core.spaces import Box
from jaxenvs.core.wrappers import PreviousStep
from jaxenvs.render import pilots, session

GROUP = "tiny_runs"
PAY, GAMMA = 7.73, 0.9
TRUE = PAY / (1 - GAMMA)  # the true value of every state, 77.3


class Salary(Endless):
    """Environment with the same reward, `PAY`, in every step."""

    def step_state(self, key, state, action, params):
        """Give the reward `PAY`."""
        return super().step_state(key, state, action, params)._replace(reward=jnp.float32(PAY))


class SalaryMap(Salary):
    """Environment `Salary` that observes a map with one kind of cell."""

    @property
    def observation_space(self):
        """Return a space of maps."""
        return Box(0, 2, (3, 3), np.uint8)

    def observe(self, state, params=None):
        """Observe a constant map."""
        return jnp.ones((3, 3), jnp.uint8)


@pytest.fixture
def salaries(monkeypatch):
    """Register ids for `Salary` and `SalaryMap`, for one test."""
    monkeypatch.setattr(registry, "_specs", dict(registry._specs))
    registry.register("Salary-Float-v0")(Salary)
    registry.register("Salary-Map-v0")(SalaryMap)


FLAGS = ["--hidden", "8", "--embed", "2", "--gamma", str(GAMMA), "--no-anneal"]
FLAGS += ["--eval-episodes", "8", "--checkpoint-every", "1000"]


def flags(settings):
    """Convert settings to command-line flags."""
    named = {"--" + name.replace("_", "-"): value for name, value in settings.items()}
    pairs = ([flag] if value is True else [flag, str(value)] for flag, value in named.items())
    return [text for pair in pairs for text in pair]


def trained(out, algorithm, *more, steps, id="Salary-Float-v0"):
    """Train a run; return its folder."""
    flags = [*FLAGS, *more, "--total-steps", str(steps), "--out", str(out)]
    assert train.main([id, "--algo", algorithm, *flags]) == 0
    return out


def value(policy):
    """Return the value that a policy predicts at the start of an episode."""
    state = policy.env.reset(jax.random.key(0)).state
    return float(jax.jit(policy.think)(policy.begin(), policy.env.observe(state))[2])


@pytest.mark.full
@pytest.mark.usefixtures("salaries")
def test_think_export_and_watch_return_the_discounted_return(tmp_path, capsys):
    more = flags({**TINY["ppo"], **ROLLOUTS, **SCALED, "normalize_obs": True, "eval_every": 25})
    run = trained(tmp_path / "run", "ppo", *more, steps=6_000)
    policy = runs.load_policy(run)
    assert value(policy) == pytest.approx(TRUE, rel=0.02)
    watched = session.Session(policy.env, pilots.of_policy(policy))
    assert session.policy_output(watched, 0)[1] == pytest.approx(TRUE, rel=0.02)
    # The best policy comes from an earlier update, and has the statistics of that update.
    best = runs.load_policy(run, best=True)
    assert value(best) == pytest.approx(TRUE, rel=0.1)

    assert cli.main(["export", str(run)]) == 0
    obs = policy.env.reset(jax.random.key(0)).obs
    program = jax.export.deserialize(bytearray((run / "export" / FILES[0]).read_bytes()))
    assert float(program.call((), obs[None])[2][0]) == pytest.approx(TRUE, rel=0.02)
    exported = json.loads((run / "export" / FILES[2]).read_text())["value"]
    assert "environment's reward" in exported["unit"]
    raw = learners.network(ALGORITHMS["ppo"], policy.env, policy_settings(run)).apply(
        policy.weights, obs
    )[1]
    line = exported["of_network"]
    assert line["offset"] + line["factor"] * float(raw) == pytest.approx(TRUE, rel=0.02)
    assert abs(float(raw)) < TRUE / 10

    as_older_versions_saved(run)
    assert value(runs.load_policy(run)) == value(policy)
    logits = jax.jit(runs.load_policy(run, best=True).apply)(obs)[0]
    np.testing.assert_array_equal(logits, jax.jit(best.apply)(obs)[0])
    assert np.isnan(value(runs.load_policy(run, best=True)))
    assert "best policy without the scale of its value" in capsys.readouterr().err
    more = ["--resume", str(run), "--total-steps", "8000"]
    assert train.main(more) == 0
    assert value(runs.load_policy(run)) == pytest.approx(TRUE, rel=0.02)


@pytest.mark.usefixtures("as_a_user")  # disable jaxtyping, which refuses the stand-in for a policy
def test_an_unknown_scale_is_null_in_an_export(monkeypatch):
    monkeypatch.setattr(export, "_first_value", lambda policy: 0.5)
    scales = value_scales.Scales(jnp.full(3, jnp.nan, jnp.float32))
    policy = types.SimpleNamespace(weights={"params": {}, value_scales.SCALES: scales})
    found = export.value(policy)["of_network"]
    assert found == {"offset": None, "factor": None}


def policy_settings(run):
    """Return the settings that a run's config records."""
    return runs.Run.open(run).config.settings


def as_older_versions_saved(run):
    """Convert a checkpoint to the format of older versions.

    In this format, the scales of values are stored outside the weights, and the best policy has no
    scales.
    """
    opened = runs.Run.open(run)
    path = checkpoints.saved(opened.checkpoints)[-1]
    trees = {}
    for name, array in checkpoints.contents(path).items():
        tree, leaf = name.split(".", 1)
        trees.setdefault(tree, {})[leaf] = array
    old = {"scales.targets": "scale"}
    old |= {f"scales.rewards.{x}": f"gains.{x}" for x in ("number", "mean", "variance")}
    trees["learner"] |= {name: trees["weights"].pop(leaf) for leaf, name in old.items()}
    trees["best"] = {k: x for k, x in trees["best"].items() if ".scales." not in k}
    shutil.rmtree(path)
    checkpoints.write(path, trees, opened.config.title)


SCALED = {"target_scaling": 0.2, "reward_scaling": True}
ROLLOUTS = {"learning_rate": 0.01, "rollout_steps": 20}
REPLAYED = {"learning_rate": 0.01, "capacity": 512, "target_rate": 0.1}
LEARNERS = {  # learner -> settings with which few steps are enough, and the number of these steps
    "ppo": ({**ROLLOUTS, "target_scaling": 0.2}, 8_000),
    "ppo-rnn": ({**ROLLOUTS, **SCALED, "normalize_obs": True}, 8_000),
    "ppo-trxl": ({**ROLLOUTS, **SCALED}, 8_000),
    "dyna": ({**ROLLOUTS, "target_scaling": 0.2, "imagined_rollouts": 0}, 8_000),
    "pqn": ({**ROLLOUTS, "reward_scaling": True, "normalize_obs": True}, 12_000),
    "pqn-rnn": ({**ROLLOUTS, "reward_scaling": True}, 12_000),
    "alphazero": ({**ROLLOUTS, "epochs": 4}, 16_000),
    "dqn": (REPLAYED, 8_000),
    "c51": ({**REPLAYED, "v_max": 78.0}, 8_000),
    "qr-dqn": (REPLAYED, 8_000),
    "iqn": (REPLAYED, 8_000),
    "rainbow": ({**REPLAYED, "v_max": 78.0}, 8_000),
    "r2d2": ({**REPLAYED, "squeeze": True}, 8_000),
    "muzero": ({**REPLAYED, "gradient_steps": 8, "n_step": 5, "target_every": 1}, 6_000),
}
# Learners that compute their targets with the code of another learner of `LEARNERS`.
ALIKE = ("dyna", "pqn-rnn", "ppo-trxl", "r2d2", "rainbow")


@pytest.mark.full
@pytest.mark.usefixtures("salaries")
@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in LEARNERS],
)
def test_every_learner_returns_it(tmp_path, algorithm):
    chosen, steps = LEARNERS[algorithm]
    id = "Salary-Map-v0" if algorithm == "dyna" else "Salary-Float-v0"
    more = flags({**TINY[algorithm], **chosen})
    run = trained(tmp_path / "run", algorithm, *more, steps=steps, id=id)
    assert value(runs.load_policy(run)) == pytest.approx(TRUE, rel=0.05)


@pytest.mark.full
def test_trials_may_be_scaled_too():
    """Test target scaling in rl2 separately, because rl2's network has additional methods."""
    env = jaxenvs.make("XLand-R1-9x9-v0")
    asked = (
        ALGORITHMS["rl2"]
        .load()
        .Settings(task_set="trivial-21k", reward_scaling=True, target_scaling=0.1, **TINY["rl2"])
    )
    module = ALGORITHMS["rl2"].load()
    agent = learners.build("rl2", PreviousStep(env=module.learned(env, asked)), asked)
    keys = jax.random.split(jax.random.key(0), 1)
    runners = jax.eval_shape(functools.partial(loop.start, agent), keys, agent.params)
    after, _ = jax.eval_shape(functools.partial(loop.run_chunk, agent), runners, agent.params)
    assert jax.tree.map(str, after) == jax.tree.map(str, runners)
