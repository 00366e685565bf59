"""Start states of Craft-Classic that force rare events: craftax's worlds, edited by functions.

KINDS has the function for each kind of start. All random choices come from NumPy's generator, so
the kind of a start and its seed determine the state.
"""

import jax
import jax.numpy as jnp
import numpy as np
import peer

from jaxenvs.craft import CLASSIC, Block

SIZE = 64
SOLID = [int(block) for block in CLASSIC.solid]
TOOLS = CLASSIC.items[6:]
# Vectors of a step to the left, right, up and down.
STEPS = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]])
# Relative probabilities of blocks, for three types of random ground. In the last type, all blocks
# are equally likely.
GROUNDS = [
    {"GRASS": 12, "SAND": 1, "PATH": 3, "WATER": 1, "TREE": 1, "STONE": 1},
    {"PATH": 10, "STONE": 4, "COAL": 1, "IRON": 1, "DIAMOND": 1, "LAVA": 1},
    {block.name: 1 for block in CLASSIC.blocks if block >= Block.GRASS and block != Block.WOOD},
]
VITALS, COUNTERS = ("health", "food", "drink", "energy"), peer.COUNTERS
LIMITS = {"recover": (-15, 25), "hunger": (0, 25), "thirst": (0, 20), "fatigue": (-10, 30)}


class Start:
    """A state of craftax while it is edited, as numpy arrays by name."""

    def __init__(self, theirs, rng):
        self.rng, self.theirs = rng, theirs
        self.map = np.array(theirs.map)
        self.change, self.items = {}, {}
        self.position, self.facing = np.array([32, 32]), 3
        counts = {name: len(getattr(theirs, kind).mask) for name, kind in peer.KINDS.items()}
        self.mobs = {
            name: [
                [(0, 0), {"melee": 1, "passive": 3}.get(name, 0), False, 0] for _ in range(count)
            ]
            for name, count in counts.items()
        }
        self.unmarked = []
        self.arrows = [[(0, 0), (1, 1), False] for _ in range(3)]
        self.plants = [[(0, 0), 0, False] for _ in range(10)]

    def near(self, most, least=1):
        """Draw a cell of the map at `least` to `most` steps from the player."""
        while True:
            cell = self.position + self.rng.integers(-most, most + 1, size=2)
            apart = abs(cell - self.position).sum()
            if least <= apart <= most and (cell >= 0).all() and (cell < SIZE).all():
                return tuple(int(x) for x in cell)

    def state(self):
        """Return the edited state of craftax."""
        self.map[tuple(self.position)] = self.own if hasattr(self, "own") else self.ground()
        mob_map = np.zeros((SIZE, SIZE), bool)
        kinds = {}
        for name, slots in self.mobs.items():
            for i, (cell, _, alive, _) in enumerate(slots):
                mob_map[cell] |= alive and (name, i) not in self.unmarked
            columns = [np.array([slot[i] for slot in slots]) for i in range(4)]
            kinds[peer.KINDS[name]] = dict(
                zip(("position", "health", "mask", "attack_cooldown"), columns, strict=True)
            )
        kinds = {name: getattr(self.theirs, name).replace(**c) for name, c in kinds.items()}
        arrows = [np.array([arrow[i] for arrow in self.arrows]) for i in range(3)]
        plants = [np.array([plant[i] for plant in self.plants]) for i in range(3)]
        state = self.theirs.replace(
            map=self.map,
            mob_map=mob_map,
            player_position=self.position,
            player_direction=self.facing,
            inventory=self.theirs.inventory.replace(**self.items),
            arrows=self.theirs.arrows.replace(position=arrows[0], mask=arrows[2]),
            arrow_directions=arrows[1],
            growing_plants_positions=plants[0],
            growing_plants_age=plants[1],
            growing_plants_mask=plants[2],
            **kinds,
            **self.change,
        )
        state = state.replace(light_level=peer.light(int(state.timestep)))
        return jax.tree.map(np.asarray, peer.strong(state))

    def ground(self):
        """Draw the block of the player's cell, which is neither solid nor lava."""
        return self.rng.choice([Block.GRASS, Block.PATH, Block.SAND])


def random_ground(start):
    """Fill the map, or the cells near the player, with random blocks of one of the GROUNDS."""
    weights = GROUNDS[start.rng.integers(len(GROUNDS))]
    blocks = [int(Block[name]) for name in weights]
    odds = np.array(list(weights.values())) / sum(weights.values())
    if start.rng.random() < 0.5:
        start.map = start.rng.choice(blocks, size=(SIZE, SIZE), p=odds)
    else:
        row, column = start.position
        around = np.s_[max(row - 6, 0) : row + 7, max(column - 6, 0) : column + 7]
        start.map[around] = start.rng.choice(blocks, size=start.map[around].shape, p=odds)


def random_body(start):
    """Draw vitals, counters, items, achievements, time and sleep, often at a limit."""
    rng = start.rng
    low = rng.choice([0, 0, 3, 8])
    for name in VITALS:
        least = max(low, 1) if name == "health" else low
        start.change[f"player_{name}"] = rng.integers(least, 10)
    for name in COUNTERS:
        least, most = LIMITS[name]
        near_end = rng.choice([least, most - 2, rng.integers(least, most + 1)])
        start.change[f"player_{name}"] = near_end + rng.choice([0, 0.5])
    kind = rng.integers(4)
    for name in CLASSIC.items:
        most = {0: 1, 1: 9, 2: 9, 3: 3}[kind]
        start.items[name] = 9 if kind == 1 else rng.integers(0, most + 1)
    start.change["is_sleeping"] = rng.random() < 0.2
    start.change["achievements"] = rng.random(22) < rng.choice([0, 0.3, 0.9])
    start.change["timestep"] = rng.choice([0, 150, 200, 209, 299, 9950])
    start.facing = rng.integers(1, 5)


def random_mobs(start):
    """Place mobs around the player: alive, dead with health, adjacent, sharing a cell, unmarked.

    A mob is unmarked if its cell is free in craftax's `mob_map`.
    """
    rng = start.rng
    reach = rng.choice([2, 4, 6, 13])
    crowded = rng.random() < 0.3
    cells = [start.near(reach) for _ in range(2)]
    for name, slots in start.mobs.items():
        for i, slot in enumerate(slots):
            shares = crowded and rng.random() < 0.6
            slot[0] = cells[rng.integers(2)] if shares else start.near(reach)
            slot[1] = rng.integers(1, 6) if rng.random() < 0.9 else 0
            slot[2] = bool(slot[1] > 0 and rng.random() < 0.75)
            slot[3] = rng.integers(-5, 6)
            if slot[2] and rng.random() < 0.1:
                start.unmarked.append((name, i))
            if slot[2] and (crowded or rng.random() < 0.8):
                start.map[slot[0]] = rng.choice([Block.GRASS, Block.PATH])
    for arrow in start.arrows:
        arrow[0] = start.near(4)
        arrow[1] = tuple(STEPS[rng.integers(4)])
        arrow[2] = bool(rng.random() < 0.5)
    # Marks belong to cells: if a mob is unmarked, all live mobs on its cell are unmarked too.
    if start.unmarked:
        unseen = {start.mobs[name][i][0] for name, i in start.unmarked}
        start.unmarked = [
            (name, i)
            for name, slots in start.mobs.items()
            for i, slot in enumerate(slots)
            if slot[0] in unseen and slot[2]
        ]


def random_plants(start):
    """Place plants of every age, also ripe ones, in some slots or in all."""
    rng = start.rng
    full = rng.random() < 0.3
    taken = set()
    for plant in start.plants:
        cell = start.near(8)
        if cell in taken or (not full and rng.random() < 0.4):
            continue
        taken.add(cell)
        age = rng.choice([rng.integers(0, 600), rng.integers(540, 600), 605])
        plant[:] = [cell, age, True]
        start.map[cell] = Block.RIPE_PLANT if age >= 600 else Block.PLANT
    if rng.random() < 0.3:  # put a plant without a slot on the map
        start.map[start.near(3)] = rng.choice([Block.PLANT, Block.RIPE_PLANT])


def border(start):
    """Place the player at a border or in a corner, often with lava at the opposite border."""
    rng = start.rng
    edge = lambda: rng.choice([0, 1, SIZE - 2, SIZE - 1])  # noqa: E731
    row, column = edge(), rng.integers(0, SIZE)
    if rng.random() < 0.3:
        column = edge()
    start.position = np.array([row, column] if rng.random() < 0.5 else [column, row])
    random_ground(start)
    r, c = start.position
    for cell in ((SIZE - 1 - r, c), (r, SIZE - 1 - c)):
        start.map[cell] = rng.choice([Block.LAVA, Block.LAVA, Block.CRAFTING_TABLE])


def beyond(start):
    """Wall the player in at a border (mostly upper or left), with lava at the opposite border.

    In craftax, index -1 wraps to the opposite border, so this lava lets the player leave the map.
    """
    rng = start.rng
    along = rng.integers(1, SIZE - 1)
    edge = rng.choice([0, 0, SIZE - 1])
    start.position = np.array([edge, along] if rng.random() < 0.5 else [along, edge])
    start.map[:] = rng.choice([Block.STONE, Block.WATER])
    row, column = start.position
    for cell in ((SIZE - 1 - row, column), (row, SIZE - 1 - column)):
        start.map[cell] = Block.LAVA


def fight(start):
    """Place mobs with health 1 to 12 on all sides; draw the number of swords of each material."""
    rng = start.rng
    for item in ("wood_sword", "stone_sword", "iron_sword"):
        start.items[item] = rng.choice([0, 0, 1, 2, 3])
    start.facing = rng.integers(1, 5)
    start.change["player_food"] = rng.integers(1, 10)
    names = [("melee", 0), ("passive", 0), ("ranged", 0), ("melee", 1)]
    for step, number in zip(STEPS, rng.permutation(4), strict=True):
        name, slot = names[number]
        cell = tuple(int(x) for x in start.position + step)
        start.map[cell] = rng.choice([Block.GRASS, Block.PATH, Block.TREE, Block.STONE])
        start.mobs[name][slot] = [cell, rng.integers(1, 13), True, rng.integers(-2, 4)]


def lava(start):
    """Put lava near the player, where mobs might step into it."""
    random_ground(start)
    for _ in range(4):
        start.map[start.near(3)] = Block.LAVA


def workshop(start):
    """Put nothing, a table, or a table and a furnace near a player, who often has many items.

    This start lets the scripted policy (`player`) craft. In some starts the player stands on a
    table, which crafting does not count as near.
    """
    rng = start.rng
    if rng.integers(4) == 0:
        start.own = Block.CRAFTING_TABLE
    stage = rng.integers(4)
    for block in [Block.CRAFTING_TABLE, Block.FURNACE][: rng.integers(3)]:
        start.map[start.near(2)] = block
    amounts = {"wood": 9, "stone": 9, "sapling": 2} if stage else {}
    if stage >= 2:
        amounts |= {"coal": 3, "iron": 3, "wood_pickaxe": 1, "stone_pickaxe": 1}
    start.items.update(amounts)
    if stage == 3:
        start.items["iron_pickaxe"] = 1
    for block in (Block.DIAMOND, Block.WATER, Block.IRON, Block.COAL, Block.STONE, Block.TREE):
        start.map[start.near(6)] = block
    for name in ("passive", "melee", "ranged"):
        cell = start.near(5, least=2)
        start.map[cell] = Block.PATH
        start.mobs[name][0] = [cell, 3, True, 0]
    cell = start.near(4)
    start.map[cell] = Block.PLANT
    start.plants[0] = [cell, rng.integers(580, 598), True]


def crowd(start):
    """Fill all mob slots, several mobs to a cell, often at a distance where mobs appear.

    All mobs are alive, except about half of the zombies. Also put arrows near the player.
    """
    rng = start.rng
    start.map[:] = Block.PATH if rng.random() < 0.5 else Block.GRASS
    cells = [start.near(12, least=rng.choice([1, 4, 10])) for _ in range(3)]
    for name, slots in start.mobs.items():
        for slot in slots:
            slot[:] = [cells[rng.integers(3)], 3, name != "melee" or rng.random() < 0.5, -1]
    for arrow in start.arrows:
        arrow[:] = [start.near(3), tuple(STEPS[rng.integers(4)]), True]


def hidden(start):
    """Fill the cow slots; the cows of the first and the last slot share a cell.

    Zombies and skeletons could appear on this cell: when one of the two cows leaves, craftax marks
    the cell as free, see `Mob.marked`.
    """
    start.map[:] = Block.PATH
    start.change["timestep"] = 210
    cell = start.near(13, least=10)
    for i, slot in enumerate(start.mobs["passive"]):
        slot[:] = [start.near(12) if i == 1 else cell, 3, True, 0]


def night(start):
    """Set the time to deep night in a world without mobs, so that many mobs appear."""
    start.map[:] = Block.PATH if start.rng.random() < 0.3 else start.map
    start.change["timestep"] = start.rng.integers(200, 220)


def asleep(start):
    """Put the player to sleep, among mobs that may wake the player."""
    random_body(start)
    start.change["is_sleeping"] = True
    start.change["player_energy"] = start.rng.choice([0, 7, 8, 9])
    random_mobs(start)


def thick(start):
    """Make ground, body, mobs and plants random."""
    random_ground(start)
    random_body(start)
    random_mobs(start)
    random_plants(start)


def edge(start):
    """Place the player at a border; make body, mobs and plants random."""
    border(start)
    random_body(start)
    random_mobs(start)
    random_plants(start)


def last_steps(start):
    """Make ground, body, mobs and plants random, at most ten steps before the time limit."""
    thick(start)
    start.change["timestep"] = start.rng.integers(9_990, 10_000)


def fresh(start):
    """Leave craftax's world unchanged."""
    start.own = Block.GRASS


def combined(*parts):
    def edit(start):
        for part in parts:
            part(start)

    edit.__name__ = parts[0].__name__
    return edit


KINDS = {
    "fresh": fresh,
    "workshop": workshop,
    "thick": thick,
    "edge": edge,
    "beyond": beyond,
    "fight": fight,
    "crowd": combined(crowd, random_body),
    "hidden": hidden,
    "lava": combined(lava, random_body, random_mobs),
    "night": night,
    "asleep": asleep,
    "plants": combined(random_plants, random_body),
    "last_steps": last_steps,
}


def make(kind, seed):
    """Return the start of a kind, as a state of craftax; eight seeds share a world."""
    start = Start(world(seed // 8), np.random.default_rng([seed, len(kind), ord(kind[0])]))
    KINDS[kind](start)
    return start.state()


_worlds = {}
_reset = jax.jit(lambda key: peer.reset(key)[0])


def world(seed):
    """Return craftax's first state for a seed, generated once and then cached."""
    if seed not in _worlds:
        _worlds[seed] = jax.device_get(_reset(jax.random.PRNGKey(seed)))
    return _worlds[seed]


def batch(count, seed=0):
    """Return `count` stacked starts that cycle through KINDS, and a list of their kinds."""
    kinds = list(KINDS)
    names = [kinds[i % len(kinds)] for i in range(count)]
    states = [make(name, seed + i // len(kinds)) for i, name in enumerate(names)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states), names
