"""Tests that the setups `masked` and `eased` are what their definitions say, in terms of craftax.

Both games start in the same states and get the same actions and random numbers, as in `lockstep`.
Masks, rewards, forced steps and marks are computed here from craftax's own states.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import lockstep
import lockstep_full
import numpy as np
import peer
import pytest
import starts
import starts_full
from craftax.craftax.constants import ACHIEVEMENT_REWARD_MAP

import jaxenvs
from jaxenvs.core.masking import legal_actions
from jaxenvs.craft.tables import Action

MOVES = range(1, 5)
ALWAYS = (Action.NOOP, *MOVES, Action.DO, Action.REST)  # legal for an awake player, effect or not
STEPS = 60
SEEDS = range(12, 18)  # of `eased`: in fewer, no armour is worn or no mark is repaired


class Game(NamedTuple):
    """One edition of the game, in craftax and in this library."""

    id: str
    lockstep: Any  # module with `sides` and `numbers`
    starts: Any  # module with the kinds of start
    weights: np.ndarray  # craftax's reward of each achievement
    view: tuple[int, int]
    mobs: tuple[str, ...]  # fields of craftax's state with mobs and projectiles, by class
    first: int  # index of the first flag of mobs, among the flags of a cell
    types: int  # number of types in each class, each with one flag
    flags: int  # number of flags of a cell


CLASSIC = Game(
    "Craft-Classic-Symbolic-v0",
    lockstep,
    starts,
    np.ones(22),
    (7, 9),
    ("zombies", "cows", "skeletons", "arrows"),
    first=17,
    types=1,
    flags=21,
)
FULL = Game(
    "Craft-Symbolic-v0",
    lockstep_full,
    starts_full,
    np.asarray(ACHIEVEMENT_REWARD_MAP),
    (9, 11),
    ("melee_mobs", "passive_mobs", "ranged_mobs", "mob_projectiles", "player_projectiles"),
    first=42,
    types=8,
    flags=83,
)
GAMES = pytest.mark.parametrize("game", [CLASSIC, FULL], ids=["classic", "full"])


class Turn(NamedTuple):
    """A step of a batch of worlds in craftax and in this library."""

    before: Any  # craftax's states, as numpy arrays
    after: Any
    outputs: Any  # craftax's observations, states, rewards and ends
    mask: np.ndarray  # our mask in our states before the step, bool (worlds, actions)
    ours: Any  # our observations, states, rewards and ends
    playing: np.ndarray  # whether the episode of each world goes on, bool (worlds,)
    again: Any  # function of actions (worlds,) that returns craftax's outputs of the same step


def their_steps(game, run):
    """Return a function that steps craftax with the given actions of all worlds."""
    if game is FULL:  # a negative policy forces an action
        return lambda state, keys, action, params: run.theirs(state, keys, -1 - action, params)[0]
    package = peer.package(64, peer.SLOTS)

    def step(theirs, key, action, params):
        key_step = jax.random.split(key)[0]
        return peer.step(key_step, theirs, action, peer.params_of(params), package)[0]

    return jax.jit(jax.vmap(step))


def turns(game, setup, seed):
    """Play every kind of start with every policy; yield each step, with our game in `setup`.

    After the start, our states are never corrected from craftax's states.
    """
    run, env = game.lockstep.sides(), jaxenvs.make(game.id, setup=setup)

    def step(state, action, draws, params):
        after = env.advance(state.ticked(), action, draws, params)
        over = after.terminated
        if setup == "masked":  # the time limit truncates; `eased` must terminate there by itself
            over = over | (after.state.time >= params.max_steps_in_episode)
        return env.observe(after.state, params), after.state, after.reward, over

    step = jax.jit(jax.vmap(step))
    masks = jax.jit(jax.vmap(lambda state, params: legal_actions(env, state, params)))
    rows = 4 * len(game.starts.KINDS)
    theirs, _ = game.starts.batch(rows, seed)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(rows, dtype=jnp.int32) + 1_000 * seed)
    ways = jnp.arange(rows, dtype=jnp.int32) // len(game.starts.KINDS) % len(game.lockstep.PLAY)
    options = {"gods": 0.0} if game is FULL else {}
    params = game.lockstep.numbers(rows, seed, **options)
    theirs, ours = run.begin(theirs, params)
    again, playing = their_steps(game, run), np.ones(rows, bool)
    for number in range(STEPS):
        key = run.fold(keys, number)
        mask = np.asarray(masks(ours, params))
        outputs, action, draws, *_ = run.theirs(theirs, key, ways, params)
        mine = step(ours, action, draws, params)

        def same_step(action, theirs=theirs, key=key):
            return jax.device_get(again(theirs, key, jnp.asarray(action, jnp.int32), params))

        before, outputs = jax.device_get((theirs, outputs))
        yield Turn(before, outputs[1], outputs, mask, mine, playing, same_step), run, params
        theirs, ours = outputs[1], mine[1]
        playing = playing & ~outputs[3]


def is_asleep(state):
    """Return whether the player sleeps or rests, and craftax therefore ignores the action."""
    return state.is_sleeping | getattr(state, "is_resting", False)


def equal(left, right):
    """Return for each world whether two batches of craftax's outputs are equal."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    same = [(a == b).reshape(len(a), -1).all(axis=1) for a, b in pairs]
    return np.all(same, axis=0)


def eased_reward(game, before, after):
    """Return the reward of the definition of `eased`, from craftax's states."""
    reward = (after.achievements & ~before.achievements) @ game.weights
    if game is FULL:
        levels = [state.inventory.armour.sum(axis=-1, dtype=int) for state in (before, after)]
        reward = reward + levels[1] - levels[0]
    return np.where(after.player_health <= 0, -1.0, reward)


def marks(game, state):
    """Return the flags of all visible living mobs and projectiles, (worlds, *view, flags)."""
    worlds = np.arange(len(state.player_position))
    flags = np.zeros((len(worlds), *game.view, game.types * len(game.mobs)), np.float32)
    for number, kind in enumerate(game.mobs):
        slots = getattr(state, kind)
        if game is FULL:
            slots = jax.tree.map(lambda leaf: leaf[worlds, state.player_level], slots)
        place = slots.position - state.player_position[:, None] + np.array(game.view) // 2
        seen = slots.mask & ((place >= 0) & (place < game.view)).all(axis=-1)
        type = slots.type_id if game is FULL else np.zeros_like(slots.mask, int)
        world, slot = np.nonzero(seen)
        row, column = place[world, slot].T
        flags[world, row, column, game.types * number + type[world, slot]] = 1
    return flags


def repaired(game, obs, state):
    """Return craftax's observations with the flags of mobs replaced by `marks`."""
    obs, size = obs.copy(), int(np.prod(game.view)) * game.flags
    cells = obs[:, :size].reshape(len(obs), *game.view, game.flags)
    flags = marks(game, state)
    if game is FULL:  # nothing is seen in the dark; the last flag of a cell is its light
        flags = flags * cells[..., -1:]
    cells[..., game.first : game.first + flags.shape[-1]] = flags
    return np.concatenate([cells.reshape(len(obs), size), obs[:, size:]], axis=1)


@pytest.mark.slow
@GAMES
def test_masked_forbids_only_actions_without_effect_and_changes_nothing_else(game):
    """Compare the step of a forbidden action, and of an action that may have an effect, with NOOP.

    For these actions craftax makes the same step again, with the same random numbers.
    """
    rng, steps, forbidden, effective = np.random.default_rng(0), 0, 0, 0
    for turn, run, params in turns(game, "masked", seed=11):
        found = jax.device_get(run.compare(turn.outputs, turn.ours, params))
        assert not [name for name, flags in found.items() if (flags & turn.playing).any()]
        idle, awake = turn.again(np.zeros(len(turn.mask))), ~is_asleep(turn.before)
        np.testing.assert_array_equal(turn.mask.sum(axis=1) == 1, ~awake)
        assert turn.mask[:, Action.NOOP].all() and turn.mask[awake][:, MOVES].all()
        weights = [rng.random(turn.mask.shape) for _ in range(2)]
        illegal = np.argmax(weights[0] * ~turn.mask, axis=1)
        count = turn.playing & ~turn.mask[np.arange(len(turn.mask)), illegal]
        assert equal(turn.again(illegal), idle)[count].all()
        able = turn.mask.copy()
        able[:, [action for action in ALWAYS if action < able.shape[1]]] = False
        legal = np.argmax(weights[1] * able, axis=1)
        has = turn.playing & able.any(axis=1)
        changed = ~equal(turn.again(legal), idle) & has
        assert changed[has].all()
        steps, forbidden = steps + turn.playing.sum(), forbidden + count.sum()
        effective += changed.sum()
    print(f"{game.id}: {steps} steps, {forbidden} forbidden actions, {effective} with effect")
    assert steps >= 1_000 and forbidden >= 1_000 and effective >= 100


@pytest.mark.slow
@GAMES
def test_eased_has_the_reward_the_end_and_the_marks_of_its_definition(game):
    counts = dict.fromkeys(("steps", "forced", "dead", "armour", "repaired", "achievements"), 0)
    played = (turns(game, "eased", seed) for seed in SEEDS)
    for turn, run, params in itertools.chain.from_iterable(played):
        before, after, playing = turn.before, turn.after, turn.playing
        reward = eased_reward(game, before, after)
        over = (after.player_health <= 0) | (after.timestep >= params.max_steps_in_episode)
        obs = repaired(game, turn.outputs[0], after)
        wanted = (obs, after, reward.astype(np.float32), over)
        found = jax.device_get(run.compare(wanted, turn.ours, params))
        assert not [name for name, flags in found.items() if (flags & playing).any()]
        np.testing.assert_array_equal(turn.mask.sum(axis=1) == 1, is_asleep(before))
        idle = turn.again(np.zeros(len(playing)))
        ignored = equal(turn.outputs, idle)
        assert ignored[is_asleep(before)].all()
        new = (after.achievements & ~before.achievements).any(axis=1)
        worn = [getattr(s.inventory, "armour", np.zeros((len(new), 1))) for s in (before, after)]
        seen = {
            "steps": playing,
            "forced": is_asleep(before),
            "dead": after.player_health <= 0,
            "armour": (worn[0] != worn[1]).any(axis=1),
            "repaired": (obs != turn.outputs[0]).any(axis=1),
            "achievements": new,
        }
        for name, flags in seen.items():
            counts[name] += int((flags & playing).sum())
    print(game.id, counts)
    assert counts["steps"] >= 1_000
    assert all(count for name, count in counts.items() if name != "armour" or game is FULL)
