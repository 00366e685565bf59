"""The game of `quest_player`: access to the state, and search by rollouts of clones.

The player sees the whole state. A game is played in pieces of `AHEAD` steps. In each piece, many
clones of the game are rolled out, and the player takes the actions of the clone whose final state
has the highest value.
"""

import jax
import numpy as np
from quest_clones import AHEAD, CLONES, FAR, IS_WALKED, IS_WET, WAYS, begin, look, pick, roll

from jaxenvs.craft.full_rows import ARMOUR, COLOURS, FULL
from jaxenvs.craft.state import earned_vector
from jaxenvs.craft.tables import Achievement, Action, Block

DUG = {  # block -> lowest level of the pickaxe that removes the block
    **dict.fromkeys((Block.TREE, Block.FIRE_TREE, Block.CRAFTING_TABLE, Block.FURNACE), 0),
    **dict.fromkeys((Block.STONE, Block.STALAGMITE, Block.COAL), 1),
    **{Block.CHEST: 0, Block.IRON: 2, Block.DIAMOND: 3, Block.SAPPHIRE: 4, Block.RUBY: 4},
}
# Cost in steps to dig through a block, and to bridge water or lava.
DIG_COST, BRIDGE_COST = 2.2, 3.5
ITEM_VALUES = {  # item -> its value in the choice of clones; a point of health has the value 3
    **{"diamond": 8.0, "sapphire": 5.0, "ruby": 5.0, "iron": 2.0, "coal": 0.6, "sapling": 0.5},
    **{"wood": 0.4, "arrows": 0.15, "stone": 0.05},
}
FOES = ("melee", "ranged")
DEADLY = -1e5
HIGHEST = {role: np.array([row.health for row in FULL.types(role)], np.float32) for role in FOES}
# Clones cycle through these settings: probabilities of random actions, of magic, and of shots.
LOOSE = np.array([0, 0.03, 0.08, 0.15, 0.3, 0.6], np.float32)
MAGIC = np.array([0, 1, 0, 0.5], np.float32)
SHOOTS = np.array([0, 1, 0.5, 0, 0], np.float32)


class DeadError(Exception):
    """Error of `Game.play`: no clone survived."""


class Game:
    """A game: its state, all actions so far, and the parts of the state that decisions need."""

    def __init__(self, seed):
        self.key = jax.random.key(seed)
        self.state, self.actions, self.history = begin(self.key), [], []
        self.mode = {}  # progress of plans by name; for example, `rest` is True during a rest
        self.rolls = 0
        self.last = ""
        self.read()

    def read(self):
        """Read the parts of the current state that decisions need."""
        self.world = jax.device_get(look(self.state))
        self.floor = int(self.world.floor)
        cells = np.asarray(self.state.map)[self.floor]
        self.block, self.item = cells & 63, (cells >> 6) & 1
        self.at = int(self.world.row), int(self.world.column)
        self.health = float(self.world.vitals["health"])
        self.kills, self.waves = int(self.world.kills), int(self.world.boss["progress"])

    def has(self, item):
        """Return the count of an item."""
        return int(self.world.items[item])

    def vital(self, name):
        """Return the points of a vital: food, drink, energy or mana."""
        return int(self.world.vitals[name])

    def trait(self, name):
        """Return the experience points (`xp`), or the value of an attribute."""
        return int(self.world.traits[name])

    def most(self, name):
        """Return the maximum of a vital."""
        if name == "health":
            return 8 + self.trait("strength")
        if name == "mana":
            return 6 + 3 * self.trait("intelligence")
        return 7 + 2 * self.trait("dexterity")

    def armour(self):
        """Return the sum of the levels (0 to 2) of the four pieces of armour, at most 8."""
        return sum(self.has(piece) for piece in ARMOUR)

    def earned(self):
        """Return whether each achievement is earned, as a boolean array."""
        return np.asarray(earned_vector(FULL, self.world.earned))

    def misses(self, achievement):
        """Return whether an achievement is not yet earned."""
        return not self.earned()[Achievement[achievement]]

    def mobs(self, *roles):
        """Return the live mobs of the given roles on the player's floor."""
        return [mob for role in roles for mob in self.world.mobs[role] if mob.alive]

    def foes(self, within=99):
        """Return the live melee and ranged mobs at most `within` steps away from the player."""
        far = lambda mob: abs(int(mob.row) - self.at[0]) + abs(int(mob.column) - self.at[1])  # noqa: E731
        return [mob for mob in self.mobs(*FOES) if far(mob) <= within]

    def potion(self, effect):
        """Return the action that drinks a potion with the effect EFFECTS[`effect`].

        None: the player has no such potion.
        """
        for number, colour in enumerate(COLOURS):
            if int(self.world.effects[colour]) == effect and self.has(f"{colour}_potion"):
                return Action.DRINK_POTION_RED + number
        return None

    def stairs(self, way):
        """Return the cell of the floor's ladder; `way` is `down` or `up`."""
        return int(self.world.stairs[f"{way}_row"]), int(self.world.stairs[f"{way}_column"])

    def blocks(self, *blocks):
        """Return a mask of the floor's cells that have one of the given blocks."""
        return np.isin(self.block, blocks)

    def near(self, block):
        """Return whether a block is at most one row and one column away from the player."""
        row, column = self.at
        around = self.block[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
        return bool((around == block).any())

    def field(self, targets):
        """Return, for each cell, the cost in steps of the cheapest way to one of the targets.

        The way may dig through blocks, and bridge water and lava with stones.
        """
        cost = np.where(IS_WALKED[self.block], np.float32(1), FAR).astype(np.float32)
        for block, level in DUG.items():
            if self.has("pickaxe") >= level:
                cost[self.block == block] = DIG_COST
        if self.has("stone") and self.has("pickaxe"):
            cost[IS_WET[self.block]] = BRIDGE_COST
        return distances(cost, targets)

    def play(self, what, field=None, use=None, score=None, forced=None, **plan):
        """Roll out clones from the current state, and take the actions of the best clone.

        The best clone has the highest sum of `_value` and `score`. `what` names the piece of play
        in messages. `field` has each cell's distance from the target. `use` marks target cells
        whose block the player uses instead of entering the cell. `forced` has actions that replace
        the policy's.
        """
        field = np.zeros((48, 48), np.float32) if field is None else field
        use = np.zeros((48, 48), np.bool_) if use is None else use
        self.rolls += 1
        ends, *seen = roll(
            *(self.key, self.state, self._plan(field, use, **plan), _differences()),
            *(_forced(forced), np.int32(self.rolls)),
        )
        actions, world, used = jax.device_get(seen)
        value = self._value(world, field, used)
        value = value if score is None else value + score(world)
        value = np.where(world.vitals["health"] <= 0, 10 * DEADLY, value)
        best = int(np.argmax(value))
        if value[best] <= DEADLY:
            raise DeadError(what)
        self.history.append((self.state, len(self.actions), dict(self.mode)))
        self.state = pick(ends, best)
        self.actions += [int(action) for action in actions[best]]
        self.last = what
        self.read()

    def back(self, pieces):
        """Undo the last `pieces` calls of `play`; later rollouts use other random numbers."""
        for _ in range(min(pieces, len(self.history))):
            self.state, length, self.mode = self.history.pop()
            self.actions = self.actions[:length]
        self.read()

    def _plan(self, field, use, hunt=False, useful=Action.DO, arrive=Action.NOOP, shot=None):
        odds = np.full(len(Action), -9, np.float32)
        odds[: Action.DO + 1] = [0, 1, 1, 1, 1, 1]
        able = {Action.PLACE_STONE: self.has("stone") > 4}
        able[Action.SHOOT_ARROW] = self.has("arrows") and self.has("bow")
        able[Action.CAST_FIREBALL] = self.world.spells["fireball"]
        able[Action.CAST_ICEBALL] = self.world.spells["iceball"]
        odds[[action for action, can in able.items() if can]] = -0.5
        return {
            **{"field": field, "use": use, "odds": odds, "hunt": np.bool_(hunt)},
            **{"arrive": np.int32(arrive), "useful": np.int32(useful)},
            "shot": np.int32(Action.SHOOT_ARROW if shot is None else shot),
        }

    def _value(self, world, field, used):
        """Return the value of each clone's final state; `play` chooses the highest value."""
        health, same = world.vitals["health"], world.floor == self.floor
        value = 3 * health - np.maximum(0, 6 - health) ** 2
        far = field[world.row.clip(0, 47), world.column.clip(0, 47)]
        value = value - 0.7 * np.where(same, np.minimum(far, 150), 0) + 4 * used * same
        value = value + 0.4 * sum(world.vitals[name] for name in ("food", "drink", "energy"))
        value = value + 0.3 * world.vitals["mana"]
        if 0 < self.floor < 8:
            value = value + (5 if self.floor < 5 else 10) * same * np.minimum(world.kills, 9)
        value = value + 150 * (world.floor - self.floor)
        value = value + 60 * (world.boss["progress"] - self.waves)
        value = value + sum(each * world.items[name] for name, each in ITEM_VALUES.items())
        for role in FOES:
            for mob in world.mobs[role]:
                close = abs(mob.row - world.row) + abs(mob.column - world.column) <= 2
                hurt = HIGHEST[role][mob.type.clip(0, 7)] - mob.health
                value = value + mob.alive * (0.3 * hurt - 0.5 * close)
        return value


def distances(cost, targets):
    """Return each cell's lowest cost to reach a target; `cost` has the costs of entering cells."""
    far = np.where(targets, np.float32(0), FAR).astype(np.float32)
    enter = np.where(targets, np.float32(1), cost)
    while True:
        through = np.pad(far + enter, 1, constant_values=FAR)
        sides = [through[1 + d : 49 + d, 1 + r : 49 + r] for d, r in WAYS]
        nearer = np.minimum(far, np.minimum(np.min(sides, axis=0), FAR))
        if (nearer == far).all():
            return far
        far = nearer


def _differences():
    """Return the settings in which clones differ, as arrays with one value per clone."""
    number = np.arange(CLONES)
    return {
        "loose": LOOSE[number % 6],
        "fight": (number % 5 != 4).astype(np.float32),
        "magic": MAGIC[number // 6 % 4],
        "shoots": SHOOTS[number // 24 % 5],
    }


def _forced(actions):
    """Return the forced actions of all clones (clones, steps); -1 lets the policy choose.

    `actions` has one row of actions per clone, or is a single row for all clones.
    """
    forced = np.full((CLONES, AHEAD), -1, np.int32)
    if actions is not None:
        actions = np.asarray(actions, np.int32)[..., :AHEAD]
        forced[:, : actions.shape[-1]] = actions
    return forced


def cell(place):
    """Return a mask of the map (48, 48) that is True only at the cell `place`."""
    flags = np.zeros((48, 48), np.bool_)
    flags[place] = True
    return flags


def cells(mobs):
    """Return a mask of the map (48, 48) that is True at the cells of `mobs`."""
    flags = np.zeros((48, 48), np.bool_)
    for mob in mobs:
        flags[int(mob.row), int(mob.column)] = True
    return flags
