"""Run craftax with our random draws, not with its own.

In a step of craftax, each random decision has its own key, except that the amounts of coal and iron
in a chest share a key. The keys are recorded while `peer_full.draws_of` runs. When craftax draws a
number with one of these keys, it gets our draw for that key's decision.
"""

import contextlib
import unittest.mock

import jax
import jax.numpy as jnp
import numpy as np
import peer_full as peer
from peer import loosely

from jaxenvs.craft.tables import APPEARING

KEY = np.zeros(2, np.uint32)  # any key, because all random numbers are replaced
MANY = 99  # a choice among more options than this is the choice of a cell


@loosely
def step(theirs, action, draws):
    """Step craftax with our draws; return `(obs, state, reward, done)`."""
    keys, ranges = _decisions()
    forced = _Forced(keys, ranges, _numbers(draws))
    with forced.instead():
        obs, after, reward, done, _ = peer.PACKAGE.step_env(KEY, theirs, action, peer.PARAMS)
    return jnp.asarray(obs, jnp.float32), peer.strong(after), jnp.asarray(reward, jnp.float32), done


@loosely
def begin(level):
    """Return craftax's first state in a level of this library."""
    return peer.strong(
        peer.PACKAGE.reset_env(KEY, peer.PARAMS)[1].replace(
            map=level.map,
            item_map=level.items,
            light_map=level.light,
            down_ladders=level.down_ladders,
            up_ladders=level.up_ladders,
            potion_mapping=level.potion_mapping,
        )
    )


def _decisions():
    """Return the key and the range of each random decision of a step, in the order of `draws_of`.

    The range is (low, high) for an integer, (None, None) for a uniform draw in [0, 1), and None for
    a choice with probabilities.
    """
    keys, ranges = [], []

    def noting(key, shape=(), low=None, high=None, *_, p=None):
        keys.append(key)
        ranges.append(None if p is not None else (low, high))
        return jnp.float32(0) if low is None else jnp.int32(0)

    with _patched(noting, noting, lambda key, *_, p: noting(key, p=p).astype(jnp.int32)):
        peer.draws_of(KEY)
    return jnp.stack(keys), ranges


def _numbers(draws):
    """Return our draws (uniform numbers and integers), in the order of craftax's decisions."""
    fighters = {
        role: [draw for i in range(w.step.size) for draw in (w.step[i], w.axis[i], w.gate[i])]
        for role, w in draws.whims.items()
        if role != "passive"
    }
    spawns = [draw for role in APPEARING for draw in (draws.appears[role], draws.place[role])]
    numbers = [draws.sapling, *fighters["melee"], *draws.whims["passive"].step]
    numbers += [*fighters["ranged"], *spawns, *_loot(draws.loot)]
    return jnp.stack([jnp.asarray(x, jnp.float32) for x in (*numbers, draws.book, draws.armour)])


def _loot(loot):
    """Return, in craftax's order, the draws with which craftax puts `loot` into a chest."""
    happens = lambda there: jnp.where(there, 0.0, 0.999)  # noqa: E731
    some = lambda count, least: jnp.maximum(count, least)  # noqa: E731
    is_ore, tool = loot.ore < len(peer.ORE_ODDS), (loot.pickaxe > 0) | (loot.sword > 0)
    return [
        *(happens(loot.torches > 0), some(loot.torches, 4)),
        *(happens(is_ore), _uniform(peer.ORE_ODDS, loot.ore), loot.coal, loot.iron),
        *(happens(loot.potions > 0), loot.potion, some(loot.potions, 1)),
        *(happens(loot.arrows > 0), some(loot.arrows, 1)),
        *(happens(tool), (loot.sword > 0).astype(jnp.int32)),
        *(_uniform(peer.LEVEL_ODDS, level - 1) for level in (loot.pickaxe, loot.sword)),
    ]


def _uniform(odds, number):
    """Return a uniform draw with which `jax.random.choice(p=odds)` chooses the index `number`."""
    middles = 1 - (np.cumsum(odds) - np.array(odds) / 2)
    return jnp.asarray(middles, jnp.float32)[number.clip(0, len(odds) - 1)]


class _Forced:
    """Replacement for functions of `jax.random`: returns our draw for a key."""

    def __init__(self, keys, ranges, numbers):
        self.keys, self.ranges, self.numbers = keys, ranges, numbers

    def instead(self):
        """Return a context in which the functions of `jax.random` return our draws."""
        return _patched(self.uniform, self.randint, self.choice)

    def given(self, key, among=None):
        """Return our draw for the decision that has the given key.

        Two decisions may share a key. Then `among`, the range of the wanted decision, tells them
        apart.
        """
        here = (self.keys == key).all(axis=-1)
        if among is not None:
            here = here & np.array([limits == among for limits in self.ranges])
        return jnp.where(here, self.numbers, 0).sum()

    def uniform(self, key):
        return self.given(key)

    def randint(self, key, shape, minval, maxval):
        assert shape == ()
        if maxval - minval == 1:
            return jnp.int32(minval)
        return self.given(key, (minval, maxval)).astype(jnp.int32)

    def choice(self, key, a, shape=(), p=None):
        if p is None:
            return a[self.randint(key, (), 0, len(a))]
        uniform = self.given(key)
        if len(p) > MANY:  # `p` is a mask of map cells; the draw is a rank among the allowed cells
            count = jnp.cumsum(p > 0)
            rank = jnp.ceil(count[-1].astype(jnp.float32) * (1 - uniform)).astype(jnp.int32)
            chosen = jnp.searchsorted(count, rank)
        else:
            odds = jnp.cumsum(p)
            chosen = jnp.searchsorted(odds, odds[-1] * (1 - uniform))
        return jnp.broadcast_to(a[chosen], shape)


@contextlib.contextmanager
def _patched(uniform, randint, choice):
    replaced = {"uniform": uniform, "randint": randint, "choice": choice}
    with unittest.mock.patch.multiple(jax.random, **replaced):
        yield
