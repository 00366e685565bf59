"""Tests that rejax's unmodified PPO learns through `to_gymnax(env, legacy=True)`.

rejax 0.1.3 requires gymnax 0.0.9 or newer, and expects five values from `step`. No extra of jaxenvs
installs rejax, because rejax depends on distrax and TensorFlow Probability. Install it by
`pip install rejax==0.1.3`, then run `pytest -m slow -s tests/adapters/test_rejax.py`. Results are
in `tests/README.md`.
"""

import importlib.metadata
import importlib.util
import time

import jax
import numpy as np
import pytest

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.adapters import to_gymnax

SEEDS = 2
GRID = {"num_envs": 16, "num_steps": 64, "num_minibatches": 4, "num_epochs": 8}
GRID |= {"learning_rate": 4e-4, "max_grad_norm": 0.5, "gae_lambda": 0.95, "ent_coef": 0.005}
# Use many small rollouts, because rejax lets a value prediction change by at most `clip_eps` per
# rollout.
CARTPOLE = {"num_envs": 8, "num_steps": 32, "num_minibatches": 1, "num_epochs": 20}
CARTPOLE |= {"learning_rate": 5e-4, "max_grad_norm": 0.5, "gae_lambda": 0.8, "gamma": 0.98}
EMPTY = wrappers.OneHot(env=jaxenvs.make("Grid-Empty-5x5-v0"))
# Id -> environment, settings, steps per seed, final mean return that each seed must reach.
TASKS = {
    "Grid-Empty-5x5-v0": (EMPTY, GRID, 65_536, 0.9),
    "Classic-CartPole-v0": (jaxenvs.make("Classic-CartPole-v0"), CARTPOLE, 131_072, 195.0),
}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("rejax") is None, reason="rejax is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:(tensorflow_probability|distrax|rejax).*")
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("id", TASKS)
def test_an_unmodified_ppo_learns(id: str):
    import rejax

    world, settings, steps, enough = TASKS[id]
    env = to_gymnax(wrappers.Flatten(env=world), legacy=True)
    with jax.numpy_dtype_promotion("standard"):
        length = {"total_timesteps": steps, "eval_freq": steps // 4}
        learner = rejax.PPO.create(env=env, **length, **settings)
        began = time.perf_counter()
        train = jax.jit(jax.vmap(learner.train))
        _, (lengths, returns) = train(jax.random.split(jax.random.key(0), SEEDS))
    returns, lengths = np.asarray(returns).mean(-1), np.asarray(lengths).mean(-1)
    versions = {name: importlib.metadata.version(name) for name in ("rejax", "gymnax", "jax")}
    print(
        f"\n{id}: {SEEDS} seeds of {steps} steps in {time.perf_counter() - began:.0f} s, {versions}"
    )
    for seed in range(SEEDS):
        print(f"  returns {np.round(returns[seed], 3)}, lengths {np.round(lengths[seed], 1)}")
    assert (returns[:, 0] < enough / 2).all()  # the first evaluation shows no learning
    assert (returns[:, -1] >= enough).all()
