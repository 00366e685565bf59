"""Play Classic in craftax and in this library: same starts, actions and random numbers.

After the start, our state is never corrected from craftax's state.
"""

import functools
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import peer
import player
import starts

import jaxenvs

PLAY = {"expert": 0, "random": 1, "busy": 2, "walker": 3}  # indices of the policies
# Relative probabilities of the 17 actions for each policy: "busy" takes DO in half of the steps,
# "walker" mostly moves.
ODDS = np.ones((4, 17))
ODDS[PLAY["busy"], 5] = 17
ODDS[PLAY["busy"], 1:5] = 3
ODDS[PLAY["walker"], 1:5] = 12
ODDS[PLAY["walker"], 7] = 6


def action_of(key, way, theirs):
    """Return the action that the policy with index `way` takes in craftax's state `theirs`."""
    with jax.numpy_dtype_promotion("standard"):
        expert = player.act(key, theirs)
        other = jax.random.categorical(key, jnp.log(jnp.asarray(ODDS, jnp.float32))[way])
        return jnp.where(way == PLAY["expert"], expert, other).astype(jnp.int32)


def compare(env, outputs, our_outputs, params):
    """Compare the outputs of a step of both games, and return the result of `differences`."""
    wanted, given = (
        peer.fields(outputs[1]),
        peer.fields(peer.to_craftax(env, our_outputs[1], params)),
    )
    return differences(wanted, given, outputs, our_outputs, tolerances(outputs[0].shape[-1]))


def tolerances(size):
    """Return the tolerance of each entry of the observation: 0 for flags, 1e-5 for the light.

    Counts have the tolerance 1e-3, because craftax divides counts by 10 in half precision, while
    our code multiplies by 0.1. Normally, XLA turns craftax's division into a product too. `make
    test` disables this pass of XLA, and then the two games may round differently.
    """
    counts, light = slice(-22, -6), -2
    allowed = np.zeros(size, np.float32)
    allowed[counts], allowed[light] = 1e-3, 1e-5
    return allowed


def differences(wanted, given, outputs, our_outputs, tolerance):
    """Return a dict of flags that say which values of the two games differ after a step.

    The keys are the fields of the state, and `obs`, `reward` and `done`.
    """
    obs, _, their_reward, their_done = outputs
    our_obs, _, our_reward, our_done = our_outputs
    different = {
        # `~(a <= b)` instead of `a > b`, so that a NaN counts as a difference.
        name: ~jnp.all(jnp.abs(wanted[name] - given[name]) <= np.float32(1e-4))
        if jnp.issubdtype(wanted[name].dtype, jnp.floating)
        else jnp.any(wanted[name] != given[name])
        for name in wanted
    }
    different["obs"] = ~jnp.all(jnp.abs(obs - our_obs) <= tolerance.astype(np.float32))
    different["reward"] = ~(jnp.abs(their_reward - our_reward) <= np.float32(1e-4))
    different["done"] = their_done != our_done
    return different


def their_step(package, theirs, key, way, params):
    """Step craftax with an action of the policy with index `way`.

    Return craftax's outputs, the action, the draws with which our game has the same outcome, the
    events, and the new achievements.
    """
    key_step, key_action = jax.random.split(key)
    action = action_of(key_action, way, theirs)
    numbers = peer.params_of(params)
    outputs, draws, wrong = peer.step(key_step, theirs, action, numbers, package)
    happened = events(theirs, outputs[1], action)
    new = outputs[1].achievements & ~theirs.achievements
    return outputs, action, draws, {**happened, "choices unexplained": wrong}, new


def events(before, after, action):
    """Return, by name, whether each event occurred in a step of craftax; `play` counts them."""
    alive = lambda state: [getattr(state, kind).mask for kind in peer.KINDS.values()]  # noqa: E731
    where = lambda state: [getattr(state, kind).position for kind in peer.KINDS.values()]  # noqa: E731
    born = [(b < a).any() for b, a in zip(alive(before), alive(after), strict=True)]
    gone = [(b > a).any() for b, a in zip(alive(before), alive(after), strict=True)]
    masks, cells = jnp.concatenate(alive(after)), jnp.concatenate(where(after))
    seen = after.mob_map[cells[:, 0], cells[:, 1]]
    same = (cells[:, None] == cells[None]).all(-1) & masks[:, None] & masks[None]
    new = after.achievements & ~before.achievements
    hurt = after.player_health < before.player_health
    return {
        "mobs revived": jnp.stack(born).any() & (action == 5) & ~before.is_sleeping,
        "mobs born": jnp.stack(born).any(),
        "mobs gone": jnp.stack(gone).any(),
        "mobs unseen": (masks & ~seen).any(),
        "mobs sharing a cell": (same.sum() > masks.sum()),
        "arrows in flight": after.arrows.mask.any(),
        "blocks changed": (after.map != before.map).any(),
        "hurt": hurt,
        "hurt asleep": hurt & before.is_sleeping,
        "woken": before.is_sleeping & ~after.is_sleeping,
        "outside the map": (after.player_position < 0).any(),
        "makes a tool on a table": (before.map[tuple(before.player_position)] == 11)
        & (action >= 11),
        "plant slots full": after.growing_plants_mask.all(),
        "deep night": after.light_level < 0.1,
        "several achievements at once": new.sum() > 1,
        "died": after.player_health <= 0,
        "time limit": after.timestep >= 10_000,
    }


class Sides(NamedTuple):
    """Functions of both games, each compiled alone, because compiling all as one takes minutes."""

    env: jaxenvs.Env
    # `begin(their_state, params)` returns craftax's state with its light set, and our state.
    begin: Callable
    theirs: Callable  # `theirs(state, key, policy, params)` steps craftax, see `their_step`.
    ours: Callable  # `ours(state, action, draws, params)` returns obs, state, reward and end.
    compare: Callable  # `compare(their_outputs, our_outputs, params)` returns differences by field.
    fold: Callable  # `fold(key, step)` returns the key of a step.


@functools.cache
def sides(batched=True, size=64, slots=peer.SLOTS):
    """Return the functions of both games, to be compiled for a batch or for a single world."""
    env = jaxenvs.make("Craft-Classic-Symbolic-v0", size=size, slots=slots)
    package = peer.package(size, slots)

    def begin(theirs, params):
        light = peer.light(theirs.timestep, peer.params_of(params))
        return theirs.replace(light_level=light), env.from_upstream(theirs)

    def our_step(ours, action, draws, params):
        after = env.advance(ours.ticked(), action, draws, params)
        ended = after.terminated | (after.state.time >= params.max_steps_in_episode)
        return env.observe(after.state, params), after.state, after.reward, ended

    def compiled(function, axes=0):
        return jax.jit(jax.vmap(function, in_axes=axes) if batched else function)

    parts = (begin, functools.partial(their_step, package), our_step)
    parts = (*parts, functools.partial(compare, env))
    return Sides(env, *map(compiled, parts), compiled(jax.random.fold_in, (0, None)))


class Report(NamedTuple):
    """Results of trajectories that were played in both games."""

    steps: int
    differences: dict  # field -> number of steps in which it differed
    events: dict  # event -> number of steps in which it occurred
    achievements: dict  # achievement -> number of times it was unlocked
    # First difference of each trajectory: (trajectory index, step, action, field names).
    first: list


def play(theirs, keys, ways, steps, params, run=None):
    """Play trajectories in craftax and in our game, and return a `Report` of the differences.

    After the start, our states are never corrected from craftax's states.
    """
    run = run or sides()
    theirs, ours = run.begin(theirs, params)
    playing, differed = np.ones(np.shape(ways), bool), np.zeros(np.shape(ways), bool)
    reports = []
    for step in range(steps):
        outputs, action, draws, event, new = run.theirs(theirs, run.fold(keys, step), ways, params)
        mine = run.ours(ours, action, draws, params)
        found, event, new = jax.device_get((run.compare(outputs, mine, params), event, new))
        different = np.stack(list(found.values())).any(axis=0) & playing & ~differed
        first = [
            (*row, step, int(action[row]), [name for name, flags in found.items() if flags[row]])
            for row in map(tuple, np.argwhere(different).tolist())
        ]
        reports.append(
            Report(
                steps=int(playing.sum()),
                differences={k: int((v & playing).sum()) for k, v in found.items()},
                events={k: int((v & playing).sum()) for k, v in event.items()},
                achievements={
                    a.name: int((new[..., a] & playing).sum()) for a in run.env.rules.achievements
                },
                first=first,
            )
        )
        differed |= different
        theirs, ours = outputs[1], mine[1]
        playing &= ~np.asarray(outputs[3])
    return merged(reports)


def merged(reports):
    """Merge reports by adding their counts; keep only differences that occurred at least once."""

    def add(dicts):
        return {name: sum(d.get(name, 0) for d in dicts) for d in dicts for name in d}

    steps, differences, events, achievements, first = zip(*reports, strict=True)
    different = {name: count for name, count in add(differences).items() if count}
    return Report(sum(steps), different, add(events), add(achievements), list(chain(*first)))


# Range from which `numbers` draws each param, in place of craftax's default value.
RANGES = {
    "day_length": (20, 600),
    "zombie_health": (1, 9),
    "cow_health": (1, 9),
    "skeleton_health": (1, 9),
    "mob_despawn_distance": (4, 15),
    "spawn_cow_chance": (0.0, 1.0),
    "spawn_zombie_base_chance": (0.0, 0.5),
    "spawn_zombie_night_chance": (0.0, 0.5),
    "spawn_skeleton_chance": (0.0, 1.0),
}


def numbers(rows, seed, share=0.3):
    """Return params of `rows` environments, some drawn at random and some with craftax's defaults.

    With probability `share`, the params of an environment are drawn from RANGES.
    """
    rng = np.random.default_rng(seed)
    defaults = sides().env.default_params
    others = rng.random(rows) < share
    changes = {}
    for name, (low, high) in RANGES.items():
        default = getattr(defaults, name)
        whole = default.dtype.kind == "i"
        drawn = rng.integers(low, high, rows) if whole else rng.uniform(low, high, rows)
        changes[name] = np.where(others, drawn, default).astype(default.dtype)
    repeated = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], rows, 0), defaults)
    return repeated.replace(**changes)


def trial(rows, steps, seed):
    """Play `rows` trajectories, which cycle through all pairs of a kind of start and a policy."""
    theirs, kinds = starts.batch(rows, seed)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(rows, dtype=jnp.int32) + 1_000 * seed)
    ways = jnp.arange(rows, dtype=jnp.int32) // len(starts.KINDS) % len(PLAY)
    report = play(theirs, keys, ways, steps, numbers(rows, seed))
    return report._replace(first=[(kinds[row], *rest) for row, *rest in report.first])


def trial_of(size, slots, rows, steps, seed):
    """Play `rows` trajectories in new worlds of this size and slots, with params from RANGES."""
    run, package = sides(size=size, slots=slots), peer.package(size, slots)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(rows, dtype=jnp.int32) + 1_000 * seed)
    theirs = jax.jit(jax.vmap(lambda key: peer.begin(key, package)))(keys)
    ways = jnp.arange(rows, dtype=jnp.int32) % len(PLAY)
    params = numbers(rows, seed, share=1.0)
    angles = run.env.default_params.fractal_noise_angles
    angles = jax.tree.map(lambda leaf: np.repeat(leaf[None], rows, 0), angles)
    return play(theirs, keys, ways, steps, params.replace(fractal_noise_angles=angles), run)
