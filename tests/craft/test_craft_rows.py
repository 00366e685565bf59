"""Tests that a new mob of Craft-Classic needs only a row in the table `Rules.mobs` and a sprite."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scene

from jaxenvs.craft import CLASSIC, Block, CraftClassic, Rules, sight
from jaxenvs.craft.classic import STAGES
from jaxenvs.craft.look import creatures, sprites
from jaxenvs.craft.spawn import Odds, appear
from jaxenvs.craft.state import new_world
from jaxenvs.craft.step import Rule
from jaxenvs.craft.tables import ROLES

ZOMBIE, COW, SKELETON = CLASSIC.mobs
GHOST = ZOMBIE._replace(name="ghost", damage=4, cooldown=2, shuns=frozenset(), nearest=5)
HAUNTED = dataclasses.replace(CLASSIC, mobs=(ZOMBIE, GHOST, COW, SKELETON))


def odds(moment):
    """Return `Odds` with which a ghost appears in every step, and no other mob ever."""
    chances = {"melee": 1.0, "passive": 0.0, "ranged": 0.0}
    return Odds(chances, dict.fromkeys(ROLES, 7), {"melee": 1, "passive": 0, "ranged": 0})


class Haunted(CraftClassic):
    """Craft Classic with ghosts as a new kind of mob."""

    rules: ClassVar[Rules] = HAUNTED
    stages: ClassVar[tuple[Rule, ...]] = tuple(
        functools.partial(appear, odds=odds) if getattr(stage, "func", None) is appear else stage
        for stage in STAGES
    )


ENV = Haunted(size=16, obs="ids")
packed = jax.jit(ENV.packed)


def state(*ghosts, blocks=Block.SAND):
    """Return a state with ghosts on a uniform map; the player is in the middle and faces right."""
    world = new_world(HAUNTED, scene.SLOTS, 16, dict.fromkeys(ROLES, 0))
    slots = [scene.mob(row, column)._replace(type=jnp.int32(1)) for row, column in ghosts]
    slots += world.mobs["melee"][len(slots) :]
    world = world._replace(mobs={**world.mobs, "melee": tuple(slots)}, facing=jnp.int32(2))
    return packed(jnp.int32(60), np.full((16, 16), blocks, np.uint8), world)


@jax.jit
def advanced(state, draws):
    after = ENV.advance(state.ticked(), jnp.int32(0), draws, ENV.default_params).state
    return ENV.world(after), ENV.view(after)


def play(state, draws=scene.QUIET):
    """Return the world and the view after one step with the action NOOP."""
    return jax.device_get(advanced(state, draws))


@pytest.mark.full
def test_a_new_mob_acts_by_its_row():
    world, _ = play(state((8, 9)))
    assert world.vitals["health"] == 9 - GHOST.damage
    ghost = world.mobs["melee"][0]
    assert (ghost.type, ghost.cooldown) == (1, GHOST.cooldown)
    world, _ = play(state((8, 11), blocks=Block.LAVA), scene.quiet(melee_gate=0.0))
    assert world.mobs["melee"][0].column == 10, "only zombies avoid lava"


@pytest.mark.full
def test_a_new_mob_appears_and_is_seen_as_itself():
    assert sight.channels(HAUNTED) == ("zombie", "ghost", "cow", "skeleton", "arrow")
    world, _ = play(state(blocks=Block.GRASS), scene.quiet(place={"melee": 0.5}))
    born = [mob for mob in world.mobs["melee"] if mob.alive]
    assert [int(mob.type) for mob in born] == [1]
    apart = abs(int(born[0].row) - 8) + abs(int(born[0].column) - 8)
    assert GHOST.nearest < apart < ENV.reach
    _, (_, mobs) = play(state((8, 10)))
    assert np.flatnonzero(mobs).size == 1 and mobs.max() == 1 << 1


def test_a_new_mob_has_a_sprite_of_its_name(monkeypatch):
    with pytest.raises(KeyError, match="ghost"):
        sprites.numbers.__wrapped__(HAUNTED)
    monkeypatch.setitem(creatures.MOBS, "ghost", creatures.COW)
    assert sprites.numbers.__wrapped__(HAUNTED).overlays["ghost"] == 7
