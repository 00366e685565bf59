"""Play the full game in craftax and in this library: same starts, actions and random numbers.

`lockstep` does the same for Craft-Classic.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import peer_full as peer
import starts_full as starts
from lockstep import Sides, differences, play

from jaxenvs.craft.tables import Action

# Names of the policies; "able" takes only actions that may have an effect.
PLAY = ("random", "busy", "walker", "able")
ODDS = np.ones((4, 43))
ODDS[1, Action.DO] = 40
ODDS[1, 1:5] = 8
ODDS[2, 1:5] = 30
ODDS[2, [Action.PLACE_STONE, Action.DESCEND, Action.ASCEND, Action.DO]] = 12
ODDS[3, Action.DO] = 4
# Range from which `numbers` draws each param, in place of craftax's default value.
RANGES = {"day_length": (20, 600), "mob_despawn_distance": (4, 15), "max_attribute": (1, 9)}


def chosen(theirs, key, way):
    """Return the action of the policy with index `way`; a negative `way` forces an action.

    The forced action is `-1 - way`, so that -1 forces action 0, and -2 forces action 1.
    """
    able = peer.ENV.action_mask(peer.from_craftax(theirs)) | (way != PLAY.index("able"))
    odds = jnp.log(jnp.where(able, jnp.asarray(ODDS, jnp.float32)[way], 0))
    action = jax.random.categorical(jax.random.split(key)[1], odds).astype(jnp.int32)
    return jnp.where(way < 0, -1 - way, action)


def their_step(theirs, key, action, params):
    """Step craftax with the given action.

    Return craftax's outputs, the action, the draws with which our game has the same outcome, the
    events, and the new achievements. This function does not run our game, so its program in JAX's
    compilation cache stays valid when the code of our game changes.
    """
    key_step = jax.random.split(key)[0]
    outputs, draws, wrong = peer.step(key_step, theirs, action, peer.params_of(params))
    after = outputs[1]
    # In god mode, the player can leave the map in craftax but not in our game. Because the games
    # then differ, end the trajectory when the player has left the map.
    left = ((after.player_position < 0) | (after.player_position >= 48)).any()
    outputs = (*outputs[:3], outputs[3] | left)
    new = after.achievements & ~theirs.achievements
    return outputs, action, draws, {**events(theirs, after), "choices unexplained": wrong}, new


def events(before, after):
    """Return, by name, whether each event occurred in a step of craftax; `play` counts them."""
    masks = lambda state, kinds: [getattr(state, kind).mask for kind in kinds]  # noqa: E731
    mobs = list(peer.KINDS.values())
    both = list(zip(masks(before, mobs), masks(after, mobs), strict=True))
    here = after.player_level
    mine, others = after.player_projectiles.mask, after.mob_projectiles.mask
    return {
        "mobs born": jnp.stack([(b < a).any() for b, a in both]).any(),
        "mobs gone": jnp.stack([(b > a).any() for b, a in both]).any(),
        "monsters killed": (after.monsters_killed > before.monsters_killed).any(),
        "shots at the player": others[here].any(),
        "shots of the player": mine[here].any(),
        "blocks changed": (after.map != before.map).any(),
        "torches laid": (after.item_map != before.item_map).any(),
        "light changed": ((after.light_map > 0.05) != (before.light_map > 0.05)).any(),
        "floor changed": after.player_level != before.player_level,
        "hurt": after.player_health < before.player_health,
        "healed": after.player_health > before.player_health,
        "hurt asleep": before.is_sleeping & (after.player_health < before.player_health),
        "rest ended": before.is_resting & ~after.is_resting,
        "chest opened": (after.chests_opened != before.chests_opened).any(),
        "level gained": after.player_xp < before.player_xp,
        "armour enchanted": (after.armour_enchantments != before.armour_enchantments).any(),
        "bow enchanted": after.bow_enchantment != before.bow_enchantment,
        "boss hit": after.boss_progress > before.boss_progress,
        "died": after.player_health <= 0,
        "won": after.boss_progress >= 8,
        **{f"floor {floor}": here == floor for floor in range(9)},
    }


@functools.cache
def sides():
    """Return the jitted functions of both games; each is vectorised over a batch of worlds."""
    env = peer.ENV

    def begin(theirs, params):
        light = peer.light(theirs.timestep, peer.params_of(params))
        return theirs.replace(light_level=light), peer.from_craftax(theirs)

    def our_step(ours, action, draws, params):
        after = env.advance(ours.ticked(), action, draws, params)
        ended = after.terminated | (after.state.time >= params.max_steps_in_episode)
        return env.observe(after.state, params), after.state, after.reward, ended

    def compare(outputs, ours, params):
        wanted, given = peer.fields(outputs[1]), peer.ours_as_fields(ours[1], params)
        assert wanted.keys() == given.keys(), wanted.keys() ^ given.keys()
        found = differences(wanted, given, outputs, ours, np.full(8268, 1e-5))
        left = ((outputs[1].player_position < 0) | (outputs[1].player_position >= 48)).any()
        return {name: flag & ~left for name, flag in found.items()}

    parts = (begin, chosen, their_step, our_step, compare)
    starts, choose, theirs, *rest = [jax.jit(jax.vmap(part)) for part in parts]

    def their_turn(state, keys, ways, params):
        return theirs(state, keys, choose(state, keys, ways), params)

    fold = jax.jit(jax.vmap(jax.random.fold_in, in_axes=(0, None)))
    return Sides(env, starts, their_turn, *rest, fold)


def numbers(rows, seed, share=0.3, gods=0.1):
    """Return params of `rows` environments, some drawn at random and some with craftax's defaults.

    With probability `share`, the params of an environment are drawn from RANGES. God mode is on
    with probability `gods`.
    """
    rng = np.random.default_rng(seed)
    defaults = peer.ENV.default_params
    others = rng.random(rows) < share
    changes = {"god_mode": rng.random(rows) < gods}
    for name, (low, high) in RANGES.items():
        default = getattr(defaults, name)
        changes[name] = np.where(others, rng.integers(low, high, rows), default).astype(np.int32)
    repeated = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], rows, 0), defaults)
    return repeated.replace(**changes)


def trial(rows, steps, seed):
    """Play `rows` trajectories, which cycle through all pairs of a kind of start and a policy."""
    theirs, kinds = starts.batch(rows, seed)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(rows, dtype=jnp.int32) + 1_000 * seed)
    ways = jnp.arange(rows, dtype=jnp.int32) // len(starts.KINDS) % len(PLAY)
    report = play(theirs, keys, ways, steps, numbers(rows, seed), sides())
    return report._replace(first=[(kinds[row], row, *rest) for row, *rest in report.first])
