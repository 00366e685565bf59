"""Craftax (Matthews et al. 2024, package `craftax` 1.6.1), the full game: the environment.

Differences from Craftax: the time limit truncates and never terminates; in god mode the player
stays on the map; all random numbers of a step are drawn together at its start; unless pixels are
observed, the state stores only whether a cell is lit, not its brightness.

Bugs of Craftax are reproduced on purpose. The docstrings of `chests.open`, `magic._piece`,
`body.gain_mana`, `sight.who` and `spawn._filled` describe them.
"""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from ..core import checks
from ..core.env import Ending, Params
from ..core.facts import Features
from ..core.random import Key, below
from ..core.registry import register
from ..core.rounding import rounded
from ..core.spaces import Box, Dict
from ..core.struct import struct
from . import (
    attack,
    body,
    boss,
    chests,
    deeds,
    diagnostics,
    floors,
    full_facts,
    full_sight,
    growth,
    kits,
    ladders,
    magic,
    mobs,
    plants,
    player,
    projectiles,
    sight,
    spawn,
)
from .compiler.edges import FULL as EDGES
from .env import STEPS, CraftEnv, numbers
from .floors import FullLevel
from .full_rows import ARMOUR, CHARMS, COLOURS, FLOORS, FULL, SIZE, SPELLS, STAIRS, TRAITS
from .ground import Ground, cells_of, shone
from .look import layers, scenes
from .setups import EASED
from .spawn import Odds
from .state import FullState, World, floor_words, new_world, of_floor
from .step import Moment, Rule
from .tables import ROLES, Action, Block, Rules, of_type

MOST_TRAIT = 9  # highest attribute: 1 plus a point of experience for each of eight floors
MOST_REACH = 16
MOST_SEEN = 3.3  # highest value in `symbolic`: a tenth of the highest mana, which is 33


@struct
class FullParams(Params):
    """Params of the full game; each may differ between the environments of a batch."""

    max_steps_in_episode: Any = np.int32(100_000)
    day_length: Any = np.int32(300)  # number of steps in a day
    # Whether one stone of the overworld is turned into a diamond when a new world is generated.
    always_diamond: Any = np.bool_(False)
    # A mob vanishes if it is at least this many steps away from the player.
    # The value is at most the environment's `reach`.
    mob_despawn_distance: Any = np.int32(14)
    max_attribute: Any = np.int32(5)  # highest value of dexterity, strength and intelligence
    # Whether the player can walk through every block, cannot die, and starts with all items.
    god_mode: Any = np.bool_(False)
    # Angles of the noise gradients, in turns (full circles): water, mountains, tunnels, woods.
    # NaN: the angle is drawn at random.
    fractal_noise_angles: Any = ()


_RANGES = {"max_steps_in_episode": STEPS, "day_length": STEPS, "max_attribute": (1, MOST_TRAIT)}


def _odds(moment: Moment) -> Odds:
    """Return, for each mob role, the probability that a mob appears, and its health and type.

    All three depend on the player's floor. Melee and ranged mobs are three times as likely until
    the player has killed `ladders.CLEARED` of them on the floor. On the boss floor, they appear
    only during a wave of the fight, and the wave decides their types.
    """
    rules, world, rows = moment.rules, moment.world, moment.rules.floors
    last, floor = world.floor == rules.last_floor, world.floor
    wave = jnp.where(last, world.boss["progress"], floor)
    coefficient = jnp.where(world.kills < ladders.CLEARED, 3, 1)
    coefficient = coefficient * jnp.where(last, jnp.where(world.boss["timer"] >= 1, 1000, 0), 1)
    chances, health, types = {}, {}, {}
    for role in ROLES:
        numbers = {row.name: number for number, row in enumerate(rules.types(role))}
        given = [np.float32(row.chances[role]) for row in rows]
        chances[role] = jnp.asarray(of_type(given, floor), jnp.float32)
        if role == "melee":
            dark = (1 - moment.light) * (1 - moment.light)
            night = of_type([np.float32(row.night) for row in rows], floor)
            chances[role] = chances[role] + rounded(night * dark)
        if role != "passive":
            chances[role] = chances[role] * coefficient.astype(jnp.float32)
        which = floor if role == "passive" else wave
        types[role] = of_type([numbers[row.mobs[role]] for row in rows], which)
        health[role] = of_type([np.float32(row.health) for row in rules.types(role)], types[role])
    return Odds(chances, health, types)


STAGES = (
    player.doze,
    ladders.change,
    player.face,
    attack.strike,
    deeds.choose,
    deeds.do,
    chests.open,
    boss.fight,
    magic.shoot,
    magic.drink,
    magic.read,
    magic.enchant,
    growth.level_up,
    player.move,
    mobs.move,
    projectiles.fly,
    projectiles.hit,
    body.carry,
    plants.grow_in_light,
    functools.partial(spawn.appear, odds=_odds),
    body.sleep,
    body.rest,
    body.live,
    body.gather,
    body.limit,
    growth.count,
)


@register("Craft-Symbolic-v0", obs="symbolic", aliases=("Craftax-Symbolic-v1",))
@register("Craft-Ids-v0", obs="ids")
@register("Craft-Pixels-v0", obs="pixels", aliases=("Craftax-Pixels-v1",))
class CraftFull(CraftEnv):
    """Nine floors from the overworld to a necromancer's graveyard, by Craftax's rules.

    Actions: 43, as `Action`: 0 noop; 1 to 4 left, right, up, down; 5 do; 6 sleep; 7 to 10 place
        stone, table, furnace, plant; 11 to 16 make wood, stone, iron pickaxe and sword; 17 rest;
        18 descend, 19 ascend; 20 to 23 make diamond pickaxe, sword, iron armour, diamond armour;
        24 shoot; 25 make arrows; 26 and 27 cast fireball, iceball; 28 place torch; 29 to 34 drink
        the red, green, blue, pink, cyan, yellow potion; 35 read; 36 and 37 enchant sword, armour;
        38 make torches; 39 to 41 gain dexterity, strength, intelligence; 42 enchant the bow. A
        sleeping or resting player takes no action.
    Observation (field `obs`): `symbolic` float32 (8268,), Craftax's: for each of the 9 x 11 cells,
        row by row, 37 block flags, 5 item flags, 40 flags for mobs and projectiles by class and
        type, and whether the cell is lit; then 51 numbers. `ids` uint8 (445,), the same as
        integers, with offsets named in `layout`; health is in 256ths, light in 255ths. `pixels`
        uint8 (130, 110, 3).
    Reward: 1, 3, 5 or 8 for every achievement new in this episode, 0.1 for every point of health
        gained (-0.1 for a point lost); with the field `task`, 1 for that achievement and 0
        otherwise.
    Episode ends: without health, after the necromancer's defeat, at the time limit.
    """

    # Index into `kits.KITS` of the kit, which sets the floor and the possessions at the start of an
    # episode. -1: each level has a random kit.
    kit: int = 0

    levels_at_once: ClassVar[int] = 512  # number of levels generated at a time; a level has 124 kB
    state_type: ClassVar[type[FullState]] = FullState
    status_rows: ClassVar[int] = layers.STATUS_ROWS
    pixel_size: ClassVar[int] = 10
    most_seen: ClassVar[float] = MOST_SEEN
    sight: ClassVar[Any] = full_sight
    people: ClassVar[Any] = full_facts
    stages: ClassVar[tuple[Rule, ...]] = STAGES
    edges: ClassVar[Mapping[Rule, Rule]] = EDGES
    ranges: ClassVar[dict[str, tuple[float, float]]] = _RANGES
    rules: ClassVar[Rules] = FULL
    achievements: ClassVar[tuple[str, ...]] = tuple(a.name.lower() for a in FULL.achievements)
    measures: ClassVar[tuple[str, ...]] = diagnostics.names(FULL)
    # Health is at most 17 (at strength 9), so its change gives a reward from -1.7 to 1.7 per step.
    reward_range: ClassVar[tuple[float, float]] = (-1.7, sum(FULL.weights) + 1.7)

    def __post_init__(self) -> None:
        """Raise an error if a field of the environment has an invalid value."""
        super().__post_init__()
        checks.integer_field(type(self).__name__, "reach", self.reach, 1, MOST_REACH)
        checks.integer_field(type(self).__name__, "kit", self.kit, -1, len(kits.KITS) - 1)

    @property
    def default_params(self) -> FullParams:
        """Craftax's default values of all params."""
        return numbers(FullParams, SIZE)

    @property
    def features(self) -> Features:
        """Network input that replaces the observation.

        If the field `obs` selects the observation `symbolic`, the input is a dict: `cells` has the
        flags of each cell of the view, `body` is a vector of the other values. If it selects `ids`,
        the input is `map_features`. Pixels are used unchanged.
        """
        if self.obs == "ids":
            return self.map_features
        if self.obs == "pixels":
            return super().features
        cells = Box(0.0, 1.0, (*self.rules.view, full_sight.CHANNELS), np.float32)
        numbers = Box(0.0, MOST_SEEN, (full_sight.NUMBERS,), np.float32)
        return Features(Dict({"body": numbers, "cells": cells}), self._features)

    def draw_level(self, key: Key, params: Any) -> FullLevel:
        """Generate the nine floors, and draw a kit if the field `kit` is -1."""
        draws = floors.draw(key, params.fractal_noise_angles)
        level = floors.build(draws, params.always_diamond)
        if self.kit >= 0:
            return level.replace(kit=jnp.int32(self.kit))
        word = jax.random.bits(jax.random.fold_in(key, len(kits.KITS)), (), jnp.uint32)
        return level.replace(kit=below(word, len(kits.KITS)))

    def reset_state(self, key: Key, level: FullLevel, params: Any) -> FullState:
        """Return the initial state: the player in the middle of the overworld.

        With a kit that starts on another floor, the player stands at that floor's ladder up.
        """
        worlds = [
            self.new_world(down, up, level.potion_mapping)
            for down, up in zip(level.down_ladders, level.up_ladders, strict=True)
        ]
        worlds[0] = worlds[0]._replace(kills=jnp.int32(ladders.CLEARED + 2))
        stores = jnp.stack([jnp.stack(floor_words(self.rules, world)) for world in worlds])
        world = kits.equipped(worlds[0], level.kit)
        here = stores.at[world.floor].get(mode="promise_in_bounds")
        at, below = level.up_ladders.at[world.floor].get(mode="clip"), world.floor > 0
        world = world._replace(
            **of_floor(self.rules, self.slots, iter([here[i] for i in range(here.shape[0])])),
            row=jnp.where(below, at[0], world.row),
            column=jnp.where(below, at[1], world.column),
            items={
                name: jnp.where(params.god_mode, GOD.get(name, FULL.most), count)
                for name, count in world.items.items()
            },
        )
        cells = cells_of(level.map, level.items, level.light)
        light = self.kept_light(level.light)
        return self.packed(jnp.int32(0), cells, world, floors=stores, light=light)

    def ending(self, level: FullLevel) -> Ending:
        """Return a level, and two actions that end its episode: wait, then hit the necromancer.

        The level's kit starts the fight after the last wave, when one blow defeats the necromancer.
        """
        last, middle = FLOORS - 1, SIZE // 2
        return Ending(
            level.replace(
                kit=jnp.int32(len(kits.KITS) - 1),
                map=level.map.at[last, middle, middle].set(Block.NECROMANCER),
                up_ladders=level.up_ladders.at[last].set(
                    jnp.array([middle + 1, middle], jnp.int32)
                ),
            ),
            (Action.NOOP, Action.DO),
        )

    def new_world(self, down: Array, up: Array, effects: Array) -> World:
        """Return a `World` at the start of an episode, on a floor with two ladders.

        `down` and `up` are cells (row, column); `effects` has the effect of each potion colour.
        """
        zero, no = jnp.int32(0), jnp.zeros((), jnp.bool_)
        world = new_world(self.rules, self.slots, SIZE, dict.fromkeys(ROLES, 1))
        return world._replace(
            resting=no,
            floor=zero,
            traits={trait: jnp.int32(trait != "xp") for trait in TRAITS},
            spells=dict.fromkeys(SPELLS, no),
            charms=dict.fromkeys(CHARMS, zero),
            effects={colour: effects[number] for number, colour in enumerate(COLOURS)},
            boss={"progress": zero, "timer": jnp.int32(boss.WAVE_STEPS)},
            mana_counter=jnp.float32(0),
            stairs=dict(zip(STAIRS, (*down, *up), strict=True)),
            kills=zero,
            opened=no,
        )

    def kept_light(self, light: Array) -> UInt8[Array, "*lit"]:
        """Convert the light of all cells (0 to 1) to the array that the state stores.

        The array is uint8 (0 to 255) if the field `obs` is `pixels`. Otherwise the state stores no
        light, and the array is empty.
        """
        if self.obs != "pixels":
            return jnp.zeros((0,), jnp.uint8)
        return jnp.round(light * 255).astype(jnp.uint8)

    def ground(self, state: Any, world: World) -> Ground:
        """Return the map of all floors as a `Ground` that reads and writes the player's floor."""
        return Ground(state.map, world.floor)

    def floors(self, state: Any) -> Int32[Array, "floors floor_words"]:
        """Return the ladders, mobs and projectiles of each floor, packed into words.

        The words of a floor are unpacked when the player enters the floor.
        """
        return state.floors

    def able(self, state: Any, world: World, params: Any) -> dict[int, Bool[Array, ""]]:
        """Return a dict from each action to whether it would have an effect.

        The dict omits NOOP, DO, REST and moves, which `action_mask` sets itself.
        """
        params = self.default_params if params is None else params
        ground = self.ground(state, world)
        return {
            **super().able(state, world, params),
            **ladders.able(self.rules, world, ground, params.god_mode),
            **magic.able(world, player.look(ground, world)),
            **growth.able(world, params.max_attribute),
        }

    def after(self, state: Any, moment: Moment) -> FullState:
        """Return the state at the end of a step, packed into words.

        `moment` is the intermediate state that the last stage of the step returned.
        """
        light, front = state.light, moment.front
        if light.size:
            at = moment.world.floor, front.row, front.column
            light = shone(light, at, moment.torch)
        more = {"floors": moment.floors, "light": light}
        cells, world = moment.ground.cells, moment.world
        if self.setup == EASED:  # the episode goes on after the last wave; the counter has 4 bits
            waves = jnp.minimum(world.boss["progress"], boss.WAVES)
            world = world._replace(boss={**world.boss, "progress": waves})
        return self.packed(state.time, cells, world, moment.known, **more)

    def is_over(self, world: World) -> Bool[Array, ""]:
        """Return whether the player is dead or the necromancer defeated; both end the episode.

        In the setup `eased`, only death ends it.
        """
        if self.setup == EASED:
            return super().is_over(world)
        return super().is_over(world) | (world.boss["progress"] >= boss.WAVES)

    def picture(
        self, state: Any, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the view, each cell as bright as its light, and the inventory below it."""
        world, cells, daylight = self.world(state), self.cells(state), self.light(state, params)
        return scenes.full_picture(self.rules, world, cells, daylight, state.time, tile_size)

    def tiles(self, state: Any) -> Int32[Array, "rows columns"]:
        """Return the sprite index of each cell of the view and the inventory.

        The view is drawn in full light and without creatures.
        """
        return scenes.full_tiles(self.rules, self.world(state), self.cells(state))[0]

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the images of the sprites of `tiles`, uint8 (sprites, tile_size, tile_size, 3)."""
        return layers.grounds(self.rules, tile_size)

    def cells(self, state: Any) -> scenes.Cells:
        """Return block, item and light of each cell of the view, for pictures.

        If the state stores no light, every lit cell has full light.
        """
        seen, world = self.view(state), self.world(state)
        light = seen.lit.astype(jnp.float32)
        if state.light.size:
            shine, inside = sight.around(self.rules, Ground(state.light, world.floor), world)
            light = jnp.where(inside, shine, 0).astype(jnp.float32) / 255
        return scenes.Cells(seen.block, seen.item, light)

    def _features(self, obs: Array) -> dict[str, Array]:
        cells, numbers = jnp.split(obs, [obs.size - full_sight.NUMBERS])
        return {"body": numbers, "cells": cells.reshape(*self.rules.view, -1)}


# Counts and levels of items in god mode; any other item has the highest count, `FULL.most`.
GOD = {"pickaxe": 4, "sword": 4, "bow": 1, **dict.fromkeys(ARMOUR, 2)}
