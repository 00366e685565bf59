"""Tests of a recorded episode that wins the full game, with craftax's default params.

The script `quest_player.py` has played and recorded the episode, in a world without graves near the
necromancer. On the boss floor, mobs appear on graves only, so none appear around the necromancer.
"""

import functools
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import peer_forced
import peer_full as peer
import pytest
from lockstep import differences

import jaxenvs
from jaxenvs.craft import chance
from jaxenvs.craft.full_rows import FULL
from jaxenvs.craft.tables import Achievement

GROUP = "lockstep_full"
ENV = jaxenvs.make("Craft-Ids-v0")
MISSED = ()  # achievements that the recorded game does not earn


class Seen(NamedTuple):
    """Record of one step of the replayed game."""

    health: jax.Array
    floor: jax.Array
    waves: jax.Array
    reward: jax.Array
    achievements: jax.Array
    terminated: jax.Array
    truncated: jax.Array


@functools.cache
def recorded():
    """Return the seed of the game, and its actions."""
    with np.load(Path(__file__).with_name("quest.npz")) as record:
        return int(record["seed"]), record["actions"].astype(np.int32)


@functools.cache
def replayed():
    """Play the recorded actions in one scan; return the `Seen` of each step, stacked."""
    seed, actions = recorded()
    key = jax.random.key(seed)

    def once(state, action):
        step = ENV.step(jax.random.fold_in(key, state.time), state, action)
        world = ENV.world(step.state)
        return step.state, Seen(
            *(world.vitals["health"], world.floor, world.boss["progress"], step.reward),
            *(step.info["achievements"], step.terminated, step.truncated),
        )

    play = jax.jit(lambda actions: jax.lax.scan(once, ENV.reset(key).state, actions)[1])
    return jax.device_get(play(actions))


@pytest.mark.full
def test_the_recorded_game_is_won_alive():
    seen = replayed()
    assert seen.waves[-1] == 8 and seen.floor[-1] == 8
    assert (seen.health > 0).all() and seen.health[-1] > 0
    assert seen.terminated[-1] and not seen.terminated[:-1].any() and not seen.truncated.any()


@pytest.mark.full
def test_the_recorded_game_passes_through_every_floor_by_its_ladders():
    floor = replayed().floor
    assert floor[0] == 0 and (abs(np.diff(floor)) <= 1).all()
    assert set(floor.tolist()) == set(range(9))


@pytest.mark.full
def test_the_recorded_game_earns_achievements_and_their_reward():
    seen = replayed()
    earned = seen.achievements[-1]
    assert [name.name for name in Achievement if not earned[name]] == list(MISSED)
    worth = np.array(FULL.weights)[earned].sum() + 0.1 * (seen.health[-1] - 9)
    np.testing.assert_allclose(seen.reward.sum(dtype=np.float64), worth, atol=1e-3)


@functools.cache
def both():
    """Compile our step, craftax's step, and the comparison of their results.

    Our step also returns its draws, which are an argument of craftax's step.
    """
    env, slots = peer.ENV, peer.SLOTS

    def ours(key, state, action):
        draws = chance.draw(jax.random.fold_in(key, state.time), slots, True)
        after = env.advance(state.ticked(), action, draws, env.default_params)
        seen = env.observe(after.state), after.state, after.reward, after.terminated
        return seen, draws

    def compare(theirs, ours):
        wanted, given = peer.fields(theirs[1]), peer.ours_as_fields(ours[1])
        return differences(wanted, given, theirs, ours, np.full(8268, 1e-5))

    return jax.jit(ours), jax.jit(peer_forced.step), jax.jit(compare)


@pytest.mark.slow
def test_the_recorded_game_is_the_same_in_the_package_and_won_there():
    """Play the recorded actions in both games; compare the games after every step.

    State, observation, reward and end must be equal. Our state is never corrected from craftax's.
    """
    seed, actions = recorded()
    key = jax.random.key(seed)
    ours, theirs, compare = both()
    level = jax.jit(lambda key: peer.ENV.sample_level(jax.random.split(key)[0]))(key)
    first = jax.jit(peer_forced.begin)(level)
    state, other = jax.jit(lambda key: peer.ENV.reset(key).state)(key), first
    found = []
    for step, action in enumerate(actions):
        mine, draws = ours(key, state, action)
        outputs = theirs(other, action, draws)
        found.append(compare(outputs, mine))
        state, other = mine[1], outputs[1]
        if step % 500 == 499 or step == len(actions) - 1:
            different = {name: np.array([f[name] for f in found]) for name in found[0]}
            assert not {name: flags for name, flags in different.items() if flags.any()}, step
            found = []
    assert int(other.boss_progress) == 8 and bool(outputs[3])
    assert bool(other.achievements[Achievement.DEFEAT_NECROMANCER])
    assert float(other.player_health) > 0
