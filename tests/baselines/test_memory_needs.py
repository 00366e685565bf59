"""Tests of the memory that training needs, which is known before anything is allocated."""

import functools

import jax
import numpy as np
import pytest
from tiny import FLAGS, learner
from tiny import collected as collect

import jaxenvs
from jaxenvs.baselines.core import memory_needs, truncations
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import loop, train
from jaxenvs.core.starts import tree_bytes

PUZZLE = "Puzzle-SlidingTile-3x3-v0"  # has masks


def size(tree):
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))


def shapes_of(agent, seeds=2):
    keys = jax.ShapeDtypeStruct((seeds,), jax.random.key(0).dtype)
    return jax.eval_shape(functools.partial(loop.start, agent), keys)


@pytest.mark.parametrize("algorithm", ["ppo", "ppo-rnn"])
def test_the_bytes_are_those_of_the_training_state_and_the_rollout(algorithm):
    agent = learner(jaxenvs.make(PUZZLE), algorithm)
    keys = jax.random.split(jax.random.key(0), 4)
    runners = loop.start(agent, keys[:2])
    state = size(runners)
    _, rollout = collect(agent, runners, keys[2:])
    rollout = size(rollout)
    got = memory_needs.needed(agent, shapes_of(agent), loop.partition(agent))
    slots = -(-agent.settings.rollout_steps // truncations.shortest_limit(agent))
    finals = slots * size((runners.world.env, runners.memory))
    assert got == state + rollout + rollout // agent.settings.minibatches + finals


def test_large_final_states_are_not_copied(monkeypatch):
    """Copies for two seeds of 65,536 worlds would have half a gibibyte."""
    agent = learner(jaxenvs.make("Craft-Classic-Ids-v0"), "ppo-rnn", num_envs=2**16, memory=8)
    given = agent, shapes_of(agent), loop.partition(agent)
    least = memory_needs.needed(*given)
    monkeypatch.setattr(truncations, "MOST_COPIED", 2**60)
    copied = memory_needs.needed(*given) - least
    assert copied == tree_bytes((given[1].world.env, given[1].memory)) > 2**29


def test_learners_without_rollouts_need_their_training_state():
    agent = learner(jaxenvs.make(PUZZLE), "dqn")
    got = memory_needs.needed(agent, shapes_of(agent), loop.partition(agent))
    assert got == size(loop.start(agent, jax.random.split(jax.random.key(0), 2)))


def test_a_run_that_does_not_fit_is_refused_before_it_allocates(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(memory_needs, "device_memory", lambda device: 10_000)
    run = tmp_path / "run"
    argv = ["Classic-CartPole-v0", "--total-steps", "512", "--out", str(run), *FLAGS]
    assert train.main(argv) == 2
    words = capsys.readouterr().err
    assert "training needs at least 0.0 GiB of each device, and cpu has 0.0 GiB" in words
    assert "give a smaller num_envs or rollout_steps" in words and not run.exists()


def test_large_needs_are_told(monkeypatch):
    agent = learner(jaxenvs.make(PUZZLE))
    given = agent, shapes_of(agent), loop.partition(agent)
    assert memory_needs.check(*given) == ""
    monkeypatch.setattr(memory_needs, "needed", lambda *_: 23 * 2**30)
    monkeypatch.setattr(memory_needs, "device_memory", lambda device: 80 * 2**30)
    told = "Training needs at least 23.0 GiB of 80.0 GiB of device memory."
    assert memory_needs.check(*given) == told
    monkeypatch.setattr(memory_needs, "device_memory", lambda device: None)
    assert memory_needs.check(*given) == "Training needs at least 23.0 GiB of device memory."


@pytest.mark.usefixtures("as_a_user")
def test_more_steps_than_int32_numbers_are_refused():
    settings = ppo.Settings(num_envs=2**20, rollout_steps=2**10, minibatches=2**15)
    settings.check()
    with pytest.raises(ValueError, match="make 2,147,483,648 steps per update, more than the"):
        ppo.Settings(num_envs=2**20, rollout_steps=2**11, minibatches=2**16).check()
