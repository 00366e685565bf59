"""Start states of the full game that force rare events: craftax's worlds, edited on one floor.

KINDS has the edits for each kind of start. All random choices come from NumPy's generator, so the
kind of a start and its seed determine the state. Starts are on all nine floors.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import peer_full as peer

from jaxenvs.craft.full_rows import FULL, GROUND
from jaxenvs.craft.tables import NEVER_PLACED, Block, Item

SIZE, FLOORS, WORLDS = 48, 9, 4
CACHE = Path(__file__).parents[2] / ".cache" / "craft-full-worlds.npz"
STEPS = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]])  # vectors of a step left, right, up, down
PLACED = [int(b) for b in Block if b not in NEVER_PLACED and b < Block.NECROMANCER_VULNERABLE]
# Blocks for floors 1 to 8: no grass and no plants, because plants grow on floor 0 only.
ELSEWHERE = [b for b in PLACED if b not in {Block.GRASS, Block.PLANT, Block.RIPE_PLANT}]
TYPES = {"melee": 8, "passive": 3, "ranged": 8}


@functools.cache
def worlds():
    """Return WORLDS stacked first states of craftax, generated once and then read from a file."""
    if not CACHE.exists():
        made = jax.jit(jax.vmap(peer.begin))(jax.vmap(jax.random.PRNGKey)(jnp.arange(WORLDS)))
        CACHE.parent.mkdir(exist_ok=True)
        leaves = jax.tree.leaves(jax.device_get(made))
        np.savez_compressed(CACHE, *leaves)
    like = jax.eval_shape(peer.begin, jax.ShapeDtypeStruct((2,), jnp.uint32))
    with np.load(CACHE) as file:
        return jax.tree.unflatten(jax.tree.structure(like), list(file.values()))


class Start:
    """A state of craftax while it is edited, as numpy arrays; the player is on `floor`."""

    def __init__(self, number, floor, rng):
        leaves = jax.tree.map(lambda leaf: np.array(leaf[number]), worlds())
        self.rng, self.floor, self.theirs = rng, floor, leaves
        self.map, self.item, self.light = (
            leaves.map[floor],
            leaves.item_map[floor],
            leaves.light_map[floor],
        )
        self.change, self.items = {}, {}
        self.position = np.array([24, 24])
        if floor:
            self.position = np.array(leaves.up_ladders[floor])
        self.kinds = {role: getattr(leaves, kind) for role, kind in peer.KINDS.items()}

    def near(self, most, least=1):
        """Draw a cell of the map at `least` to `most` steps from the player."""
        while True:
            cell = self.position + self.rng.integers(-most, most + 1, size=2)
            apart = abs(cell - self.position).sum()
            if least <= apart <= most and (cell >= 0).all() and (cell < SIZE).all():
                return tuple(int(x) for x in cell)

    def inside(self, cell):
        """Return whether a cell is on the map."""
        return all(0 <= x < SIZE for x in cell)

    def put(self, cell, block):
        """Set the block of a cell, unless a ladder is there.

        A torch on the cell is removed unless `block` is in GROUND.
        """
        if self.inside(cell) and self.item[cell] < Item.LADDER_DOWN:
            self.map[cell] = block
            self.item[cell] *= block in GROUND

    def mob(self, role, slot, cell, type=None, health=None, cooldown=None):
        """Put a live mob on a cell of the map, unless another live mob or the player is there."""
        slots = self.kinds[role]
        if not self.inside(cell) or tuple(cell) == tuple(self.position) or self.taken(cell):
            return
        type = self.rng.integers(TYPES[role]) if type is None else type
        row = FULL.types(role)[type]
        slots.position[self.floor, slot] = cell
        slots.mask[self.floor, slot] = True
        slots.type_id[self.floor, slot] = type
        slots.health[self.floor, slot] = row.health if health is None else health
        slots.attack_cooldown[self.floor, slot] = (
            self.rng.integers(-2, 5) if cooldown is None else cooldown
        )

    def taken(self, cell):
        """Return whether a live mob is on a cell."""
        return any(
            (slots.mask[self.floor] & (slots.position[self.floor] == cell).all(-1)).any()
            for slots in self.kinds.values()
        )

    def state(self):
        """Return the edited state of craftax."""
        theirs, floor = self.theirs, self.floor
        self.put(tuple(self.position), getattr(self, "own", self.map[tuple(self.position)]))
        mob_map = theirs.mob_map
        for slots in self.kinds.values():
            for cell, alive in zip(slots.position[floor], slots.mask[floor], strict=True):
                mob_map[floor][tuple(cell)] |= alive
        achievements = self.change.pop("achievements", theirs.achievements)
        entries = [row.achievement for row in FULL.floors]
        if floor:
            achievements = np.array(achievements)
            achievements[[int(a) for a in entries[1 : floor + 1]]] = True
        change = {
            "player_position": self.position,
            "player_level": floor,
            "achievements": achievements,
            "inventory": theirs.inventory.replace(**self.items),
            **self.change,
        }
        state = theirs.replace(**change)
        state = state.replace(light_level=np.float32(0))
        return jax.tree.map(np.asarray, state)


def ground(start):
    """Fill the area around the player with one kind of walkable block, mixed with random blocks.

    The random blocks may belong to any floor. Also draw torches and light.
    """
    rng = start.rng
    blocks = PLACED if start.floor == 0 else ELSEWHERE
    floor_block = rng.choice([b for b in (*GROUND, Block.SAND) if b in blocks])
    share = rng.choice([0.1, 0.3, 0.6])
    reach = rng.choice([2, 6, 12])
    for row in range(max(start.position[0] - reach, 0), min(start.position[0] + reach + 1, SIZE)):
        for column in range(
            max(start.position[1] - reach, 0), min(start.position[1] + reach + 1, SIZE)
        ):
            block = rng.choice(blocks) if rng.random() < share else floor_block
            start.put((row, column), block)
    for _ in range(rng.integers(4)):
        cell = start.near(4)
        if (
            start.map[cell] in {*GROUND, Block.SAND, Block.WATER, Block.CHEST}
            and not start.item[cell]
        ):
            start.item[cell] = Item.TORCH
    if rng.random() < 0.5:
        row, column = start.position
        start.light[max(row - 9, 0) : row + 10, max(column - 9, 0) : column + 10] = (
            1 if rng.random() < 0.5 else 0
        )
    if start.floor == 0:
        start.light[:] = 1


def body(start):
    """Draw vitals, counters, attributes, items, magic and achievements, often at a limit."""
    vitals(start)
    items(start)
    rng, change = start.rng, start.change
    change["achievements"] = rng.random(67) < rng.choice([0, 0.3, 0.9])
    change["is_sleeping"], change["is_resting"] = rng.random(2) < 0.1
    change["timestep"] = rng.choice([0, 150, 205, 299, 5_000])
    change["player_direction"] = rng.integers(1, 5)
    start.theirs.monsters_killed[start.floor] = rng.choice([0, 6, 7, 8, 70])
    start.theirs.chests_opened[start.floor] = rng.random() < 0.3


def vitals(start):
    """Draw the player's attributes, experience points, vitals and counters."""
    rng, change = start.rng, start.change
    traits = {name: rng.integers(1, 6) for name in ("dexterity", "strength", "intelligence")}
    change |= {f"player_{name}": value for name, value in traits.items()}
    change["player_xp"] = rng.choice([0, 1, 5])
    most = dict.fromkeys(("food", "drink", "energy"), 7 + 2 * traits["dexterity"])
    most |= {"health": 8 + traits["strength"], "mana": 6 + 3 * traits["intelligence"]}
    for name, best in most.items():
        least = 1 if name == "health" else 0
        value = rng.choice([least, best, rng.integers(least, best + 1)])
        change[f"player_{name}"] = value
    change["player_health"] = np.float32(change["player_health"] + rng.choice([0, 0.5, 0.3]))
    change["player_health"] = min(change["player_health"], np.float32(most["health"]))
    for name, (low, high) in {
        "hunger": (0, 25),
        "thirst": (0, 20),
        "fatigue": (-10, 30),
        "recover": (-15, 25),
    }.items():
        value = rng.choice([low, high, high - 1, rng.integers(low, high + 1)])
        change[f"player_{name}"] = np.float32(
            np.clip(value + rng.choice([0, 0.25, 0.5]), low, high)
        )
    change["player_recover_mana"] = np.float32(rng.integers(0, 30))


def items(start):
    """Draw the inventory, enchantments and spells."""
    rng, change = start.rng, start.change
    kind = rng.integers(4)
    for name in peer.COUNTS:
        start.items[name] = 0 if kind == 0 else rng.integers(0, [0, 4, 99, 10][kind] + 1)
    if kind == 2:
        start.items |= {name: 99 for name in peer.COUNTS if rng.random() < 0.3}
    start.items |= {name: rng.integers(0, 5) for name in ("pickaxe", "sword")}
    start.items["bow"] = rng.integers(0, 2)
    start.items["armour"] = rng.integers(0, 3, 4) * rng.integers(0, 2)
    start.items["potions"] = rng.choice([0, 0, 1, 5, 99], 6)
    change["sword_enchantment"], change["bow_enchantment"] = rng.integers(0, 3, 2)
    change["armour_enchantments"] = rng.choice(
        [rng.integers(0, 3, 4), rng.integers(1, 3) * np.ones(4, int), np.zeros(4, int)]
    )
    change["learned_spells"] = rng.random(2) < 0.6


def crowd(start):
    """Place mobs of any type around the player, alive or dead, and projectiles of any type."""
    rng = start.rng
    reach = rng.choice([2, 4, 6, 13])
    for role, slots in start.kinds.items():
        for slot in range(slots.mask.shape[1]):
            cell = start.near(reach)
            if rng.random() < 0.75:
                start.mob(
                    role, slot, cell, health=rng.choice([None, np.float32(0.5), np.float32(2)])
                )
                if rng.random() < 0.8:
                    start.put(cell, rng.choice([Block.PATH, Block.SAND, Block.WATER]))
            else:
                slots.position[start.floor, slot] = cell
                slots.type_id[start.floor, slot] = rng.integers(TYPES[role])
    for kind in peer.FLYING.values():
        slots, ways = getattr(start.theirs, f"{kind}s"), getattr(start.theirs, f"{kind}_directions")
        for slot in range(3):
            slots.position[start.floor, slot] = start.near(4)
            slots.mask[start.floor, slot] = rng.random() < 0.5
            slots.type_id[start.floor, slot] = rng.integers(8)
            ways[start.floor, slot] = STEPS[rng.integers(4)]


def facing(start):
    """Put one of the blocks 20 to 35, or a mob, on each side of the player."""
    rng = start.rng
    for step in STEPS:
        cell = tuple(int(x) for x in start.position + step)
        if rng.random() < 0.3:
            start.put(cell, Block.PATH)
            role = rng.choice(["melee", "passive", "ranged"])
            start.mob(role, 0, cell, health=rng.choice([None, np.float32(0.1), np.float32(1)]))
        else:
            start.put(cell, rng.integers(20, 36))


def workshop(start):
    """Put a table, and often a furnace, near a player with many items."""
    rng = start.rng
    for block in [Block.CRAFTING_TABLE, Block.FURNACE][: rng.integers(1, 3)]:
        cell = tuple(
            int(x) for x in start.position + rng.choice([[1, 1], [-1, 1], [1, -1], [-1, -1]])
        )
        start.put(cell, block)
    start.items |= {name: rng.integers(2, 9) for name in peer.COUNTS if rng.random() < 0.9}


def gems(start):
    """Put an enchantment table ahead of a player with mana and gems."""
    rng = start.rng
    direction = rng.integers(4)
    start.change["player_direction"] = direction + 1
    cell = tuple(int(x) for x in start.position + STEPS[direction])
    start.put(cell, rng.choice([Block.ENCHANTMENT_TABLE_FIRE, Block.ENCHANTMENT_TABLE_ICE]))
    start.items |= {"ruby": rng.integers(0, 4), "sapphire": rng.integers(0, 4), "books": 2}
    start.change["player_mana"] = rng.choice([8, 9, 9, 9])
    start.items["armour"] = rng.integers(0, 3, 4)


def ladder(start):
    """Place the player on a ladder, after 7 to 9 kills; 8 kills open the ladder down."""
    rng, theirs = start.rng, start.theirs
    down = start.floor == 0 or (start.floor < 8 and rng.random() < 0.6)
    start.position = np.array((theirs.down_ladders if down else theirs.up_ladders)[start.floor])
    theirs.monsters_killed[start.floor] = rng.choice([7, 8, 9])


def edge(start):
    """Place the player at a border, with chests and tables at the opposite border.

    In craftax, index -1 wraps to the opposite border.
    """
    rng = start.rng
    along = rng.integers(1, SIZE - 1)
    near = rng.choice([0, 0, SIZE - 1])
    start.position = np.array([near, along] if rng.random() < 0.5 else [along, near])
    row, column = start.position
    for cell in ((SIZE - 1 - row, column), (row, SIZE - 1 - column)):
        start.put(
            tuple(int(x) for x in cell),
            rng.choice(
                [Block.CHEST, Block.CHEST, Block.CRAFTING_TABLE, Block.ENCHANTMENT_TABLE_ICE]
            ),
        )


def siege(start):
    """Place the player facing the necromancer, at any time of any wave."""
    rng = start.rng
    direction = rng.integers(4)
    start.change["player_direction"] = direction + 1
    start.position = np.array([24, 24]) - STEPS[direction]
    start.put((24, 24), Block.NECROMANCER)
    start.change["boss_progress"] = rng.choice([*range(8), 7, 7])
    start.change["boss_timesteps_to_spawn_this_round"] = rng.choice([-3, 0, 1, 7])
    for _ in range(rng.integers(0, 6)):
        start.put(start.near(6, least=2), rng.choice([Block.GRAVE, Block.GRAVE2, Block.GRAVE3]))


def garden(start):
    """Place young and ripe plants around the player."""
    rng, theirs = start.rng, start.theirs
    for slot in range(10):
        cell = start.near(8)
        if (
            rng.random() < 0.4
            or start.map[cell] in (Block.PLANT, Block.RIPE_PLANT)
            or start.item[cell]
        ):
            continue
        age = rng.choice([rng.integers(0, 600), rng.integers(590, 600), 605])
        theirs.growing_plants_positions[slot] = cell
        theirs.growing_plants_age[slot], theirs.growing_plants_mask[slot] = age, True
        start.map[cell] = Block.RIPE_PLANT if age >= 600 else Block.PLANT


def duel(start):
    """Put a mob that dies at the first blow on each side of the player."""
    rng = start.rng
    roles = ["melee", "melee", "ranged", rng.choice(["ranged", "passive"])]
    for number, (role, step) in enumerate(zip(roles, rng.permutation(STEPS), strict=True)):
        cell = tuple(int(x) for x in start.position + step)
        start.put(cell, Block.PATH)
        start.mob(role, number % 2, cell, health=np.float32(0.1))


def fresh(start):
    """Leave craftax's world unchanged."""


KINDS = {  # kind -> edits, and the floor if only one is possible
    "fresh": ((fresh,), None),
    "thick": ((ground, body, crowd), None),
    "facing": ((ground, body, facing), None),
    "workshop": ((ground, body, workshop), None),
    "gems": ((ground, body, gems), None),
    "ladder": ((body, ladder), None),
    "edge": ((edge, body, crowd), None),
    "siege": ((body, siege), 8),
    "garden": ((ground, body, garden), 0),
    "battle": ((body, crowd), None),
    "duel": ((body, duel), None),
}


def make(kind, seed):
    """Return the start of a kind, as a state of craftax; seeds cycle through the floors."""
    parts, floor = KINDS[kind]
    floor = seed % FLOORS if floor is None else floor
    start = Start(seed % WORLDS, floor, np.random.default_rng([seed, len(kind), ord(kind[0])]))
    for part in parts:
        part(start)
    return start.state()


def batch(count, seed=0):
    """Return `count` stacked starts that cycle through KINDS, and a list of their kinds."""
    kinds = list(KINDS)
    names = [kinds[i % len(kinds)] for i in range(count)]
    states = [make(name, seed + i // len(kinds)) for i, name in enumerate(names)]
    return stacked(states), names


def stacked(states):
    """Stack states, with the dtypes that a step of craftax returns."""
    cast = lambda model, *leaves: jnp.asarray(np.stack(leaves), model.dtype)  # noqa: E731
    return jax.tree.map(cast, worlds(), *states)
