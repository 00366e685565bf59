"""Craft worlds as drawings: one word per cell, first the creature, then the block.

    .  grass   ,  sand    _  path    ~  water   #  stone    T  tree      L  lava
    c  coal    i  iron    D  diamond B  table   F  furnace  y  plant     Y  ripe plant
    > v < ^  the player   Z  zombie  C  cow     S  skeleton l r u d  an arrow, by direction

A creature without a block stands on grass. Sand surrounds a drawing.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxenvs.craft import CLASSIC, Block, CraftClassic, Draws, Mob, Projectile, Slots, Whims
from jaxenvs.craft.state import new_world
from jaxenvs.craft.tables import APPEARING, ROLES

ENV = CraftClassic(size=16, obs="ids")
SIZE, SLOTS = ENV.size, Slots()
SIGNS = {
    ".": Block.GRASS,
    ",": Block.SAND,
    "_": Block.PATH,
    "~": Block.WATER,
    "#": Block.STONE,
    "T": Block.TREE,
    "L": Block.LAVA,
    "c": Block.COAL,
    "i": Block.IRON,
    "D": Block.DIAMOND,
    "B": Block.CRAFTING_TABLE,
    "F": Block.FURNACE,
    "y": Block.PLANT,
    "Y": Block.RIPE_PLANT,
}
PLAYER = "<>^v"  # the player's character for the directions 1 to 4
MOBS = {"Z": ("melee", 5), "C": ("passive", 3), "S": ("ranged", 3)}
ARROWS = {"l": (0, -1), "r": (0, 1), "u": (-1, 0), "d": (1, 0)}
# `_LATE` is a draw so high that no mob appears. With the draws `QUIET`, no random event occurs,
# except that zombies and skeletons step left.
_LATE = jnp.float32(0.999)
QUIET = Draws(
    sapling=jnp.float32(0.99),
    whims={
        "melee": Whims(jnp.zeros(3, jnp.int32), jnp.zeros(3), jnp.full(3, 0.99, jnp.float32)),
        "passive": Whims(jnp.full(3, 4, jnp.int32)),
        "ranged": Whims(jnp.zeros(2, jnp.int32), jnp.zeros(2), jnp.zeros(2)),
    },
    appears=dict.fromkeys(APPEARING, _LATE),
    place=dict.fromkeys(APPEARING, jnp.float32(0.5)),
)


def quiet(sapling=0.99, appears=None, place=None, **whims):
    """Return the draws `QUIET` with changes.

    `appears` and `place` are dicts by role of mobs. The name of a keyword in `whims` joins a role
    and a field of `Whims`, such as `melee_gate`; the value is an array over slots, or one number
    for all slots.
    """
    changed = dict(QUIET.whims)
    for name, value in whims.items():
        role, field = name.split("_")
        like = getattr(changed[role], field)
        array = jnp.broadcast_to(jnp.asarray(value, like.dtype), like.shape)
        changed[role] = changed[role]._replace(**{field: array})
    chances = [
        {**given, **{role: jnp.float32(value) for role, value in (new or {}).items()}}
        for given, new in ((QUIET.appears, appears), (QUIET.place, place))
    ]
    return Draws(jnp.float32(sapling), changed, *chances)


def scene(drawing, at=(4, 4), time=0, fill=",", change=None, **parts):
    """Return the state that `drawing` shows; the drawing's first word is the cell `at`.

    `parts` are new values of `World` fields. The dicts `items`, `vitals` and `counters` need only
    the entries that change. At the end, `change`, a function of the world, returns the final world.
    """
    world = new_world(CLASSIC, SLOTS, SIZE, dict.fromkeys(ROLES, 0))
    blocks = np.full((SIZE, SIZE), SIGNS[fill], np.uint8)
    mobs = {name: list(slots) for name, slots in world.mobs.items()}
    arrows, used = list(world.projectiles), dict.fromkeys((*mobs, "arrow"), 0)
    for row, line in enumerate(drawing.strip().splitlines(), start=at[0]):
        for column, word in enumerate(line.split(), start=at[1]):
            who, block = (word[0], word[1:] or ".") if word[0] in creatures() else ("", word)
            blocks[row, column] = SIGNS[block]
            cell = (_int(row), _int(column))
            if who and who in PLAYER:
                facing = _int(PLAYER.index(who) + 1)
                world = world._replace(row=cell[0], column=cell[1], facing=facing)
            elif who in MOBS:
                name, health = MOBS[who]
                mobs[name][used[name]] = mob(*cell, health)
                used[name] += 1
            elif who:
                arrows[used["arrow"]] = Projectile(
                    *cell, *map(_int, (*ARROWS[who], 0)), jnp.array(True)
                )
                used["arrow"] += 1
    world = world._replace(mobs={k: tuple(v) for k, v in mobs.items()}, projectiles=tuple(arrows))
    for name in ("items", "vitals", "counters"):
        given = {key: _int(value) for key, value in parts.pop(name, {}).items()}
        world = world._replace(**{name: {**getattr(world, name), **given}})
    world = world._replace(**{k: jnp.asarray(v) for k, v in parts.items()})
    world = change(world) if change else world
    return _packed()(_int(time), jnp.asarray(blocks), world)


def mob(row, column, health=3, cooldown=0, alive=True, marked=True):
    """Return a `Mob`, the values of a mob slot."""
    return Mob(*map(_int, (row, column, health, cooldown, 0)), jnp.array(alive), jnp.array(marked))


def plant(slot, row, column, age):
    """Return a function, for the argument `change` of `scene`, that puts a plant into a slot."""

    def change(world):
        old = world.plants
        numbers = [old.row.at[slot].set(row), old.column.at[slot].set(column)]
        plants = type(old)(*numbers, old.age.at[slot].set(age), old.planted.at[slot].set(True))
        return world._replace(plants=plants)

    return change


def set_slot(kind, slot, value):
    """Return a function, for the argument `change` of `scene`, that sets a mob slot to `value`."""

    def change(world):
        slots = (*world.mobs[kind][:slot], value, *world.mobs[kind][slot + 1 :])
        return world._replace(mobs={**world.mobs, kind: slots})

    return change


def creatures():
    return (*PLAYER, *MOBS, *ARROWS)


def _int(value):
    return jnp.asarray(value, jnp.int32)


@functools.cache
def _packed():
    return jax.jit(ENV.packed)


@functools.cache
def advance():
    """Return the compiled step: (state, action, draws, params) -> (transition, world after)."""

    def step(state, action, draws, params):
        ticked = state.ticked()
        after = ENV.advance(ticked, action, draws, params)
        return after, ENV.world(after.state)

    return jax.jit(step)


class Moment:
    """The state after an action, the action's reward, and the names of earned achievements."""

    def __init__(self, transition, world):
        self.state, self.world = transition.state, world
        self.reward = float(transition.reward)
        self.terminated = bool(transition.terminated)
        flags = np.asarray(transition.info["achievements"])
        self.earned = {ENV.achievements[i] for i in np.nonzero(flags)[0]}
        self.items = {name: int(n) for name, n in world.items.items() if n}
        self.vitals = {name: int(n) for name, n in world.vitals.items()}
        self.counters = {name: int(n) for name, n in world.counters.items()}
        self.position = (int(world.row), int(world.column))

    def block(self, row, column):
        """Return the block on a cell of the map."""
        return Block(int(self.state.map[row, column]))

    def mob(self, kind, slot=0):
        """Return a mob slot as a `Mob` of Python numbers."""
        return Mob(*(leaf.item() for leaf in self.world.mobs[kind][slot]))


def play(state, *actions, draws=QUIET, params=None):
    """Play actions; return a `Moment` for each. `draws` may be a list, one `Draws` per action."""
    params = ENV.default_params if params is None else params
    moments = []
    for i, action in enumerate(actions):
        now = draws[i] if isinstance(draws, list) else draws
        moments.append(Moment(*advance()(state, _int(action), now, params)))
        state = moments[-1].state
    return moments


def draw(moment, like, at=(4, 4)):
    """Return a drawing of the state after a step; it shows the same cells as the drawing `like`."""
    shape = [line.split() for line in like.strip().splitlines()]
    letters = {int(block): sign for sign, block in SIGNS.items()}
    cells = [
        [letters[int(moment.block(at[0] + r, at[1] + c))] for c in range(len(line))]
        for r, line in enumerate(shape)
    ]

    def put(row, column, sign):
        r, c = int(row) - at[0], int(column) - at[1]
        if 0 <= r < len(cells) and 0 <= c < len(cells[r]):
            cells[r][c] = sign + cells[r][c] if cells[r][c] != "." else sign

    world = moment.world
    put(world.row, world.column, PLAYER[int(world.facing) - 1])
    for sign, (name, _) in MOBS.items():
        for slot in world.mobs[name]:
            if slot.alive:
                put(slot.row, slot.column, sign)
    for arrow in world.projectiles:
        if arrow.alive:
            way = (int(arrow.d_row), int(arrow.d_column))
            put(arrow.row, arrow.column, next(s for s, w in ARROWS.items() if w == way))
    return "\n".join(" ".join(line) for line in cells)


def tidy(drawing):
    """Return a drawing in which a single space separates two words."""
    return "\n".join(" ".join(line.split()) for line in drawing.strip().splitlines())


def becomes(before, actions, after, at=(4, 4), draws=QUIET, **parts):
    """Assert that actions turn one drawing into another, and return the last `Moment`."""
    actions = actions if isinstance(actions, list) else [actions]
    last = play(scene(before, at, **parts), *actions, draws=draws)[-1]
    assert draw(last, after, at) == tidy(after)
    return last
