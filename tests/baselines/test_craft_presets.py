"""Tests of recurrent PPO's presets for Craft: the networks, and one update with each GPU preset."""

import functools

import jax
import pytest

import jaxenvs
from jaxenvs.baselines import presets, registry
from jaxenvs.baselines.core import minibatches
from jaxenvs.baselines.networks.spatial import Spatial
from jaxenvs.baselines.on_policy import ppo_rnn
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop

IDS = ("Craft-Classic-Ids-v0", "Craft-Ids-v0")


def settings_of(id, name):
    settings = ppo_rnn.Settings(**presets.preset(id, name, "ppo-rnn").settings)
    settings.check()
    return settings


@pytest.mark.parametrize("name", [None, "gpu"])
@pytest.mark.parametrize("id", IDS)
def test_both_games_have_the_spatial_network(id, name):
    settings = settings_of(id, name)
    network = registry.network(ALGORITHMS["ppo-rnn"], jaxenvs.make(id), vars(settings))
    assert isinstance(getattr(network, "network", network), Spatial)
    assert (settings.neighbours, settings.embed, settings.memory) == (32, 16, 256)
    assert (settings.activation, settings.target_scaling, settings.value_weight) == (
        "relu",
        0.05,
        2,
    )


@pytest.mark.parametrize(
    ("id", "cell", "steps_per_minibatch"),
    [("Craft-Classic-Ids-v0", "gru", 16_384), ("Craft-Ids-v0", "mingru", 32_768)],
)
def test_gpu_presets_are_of_a_billion_steps(id, cell, steps_per_minibatch):
    settings = settings_of(id, "gpu")
    assert settings.total_steps == 10**9 and settings.bfloat16 and settings.cell == cell
    assert settings.steps_per_update // settings.minibatches == steps_per_minibatch
    assert settings.entropy_end < settings.entropy
    rate = minibatches.learning_rate(settings)
    ends = [rate(update * settings.gradient_steps) for update in (0, settings.updates)]
    assert ends == pytest.approx([settings.learning_rate, 0.0], abs=1e-9)


def test_other_observations_of_craft_keep_their_gpu_preset():
    for id in ("Craft-Classic-Symbolic-v0", "Craft-Symbolic-v0", "Craft-Classic-Pixels-v0"):
        assert settings_of(id, "gpu").neighbours == 0


@pytest.mark.full
@pytest.mark.parametrize("id", IDS)
def test_an_update_of_a_gpu_preset_keeps_the_shapes_of_the_training_state(id):
    settings = settings_of(id, "gpu")
    agent = registry.build("ppo-rnn", jaxenvs.make(id), settings)
    keys = jax.random.split(jax.random.key(0), 1)
    runners = jax.eval_shape(functools.partial(loop.start, agent), keys)
    after, metrics = jax.eval_shape(functools.partial(loop.run_chunk, agent), runners)
    shapes = [
        jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), each) for each in (after, runners)
    ]
    assert shapes[0] == shapes[1] and "value_loss" in metrics
