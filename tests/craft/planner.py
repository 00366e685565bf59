"""A player that wins the whole game: it reads the state and tries plans before it acts.

Chance comes from the key and the clock, so a plan that was tried happens as tried. What it played
is kept as a list of actions, see `test_winner.py`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import peer_full as peer
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from jaxenvs.craft.full_rows import FULL
from jaxenvs.craft.ground import BLOCK, ITEM
from jaxenvs.craft.tables import Action, Block

ENV = peer.ENV
PLANS, AHEAD = 256, 12  # plans tried at once, and their actions
STEPS = {Action.LEFT: (0, -1), Action.RIGHT: (0, 1), Action.UP: (-1, 0), Action.DOWN: (1, 0)}
MOVES = list(STEPS)
MINED = {  # level of the pickaxe by block
    **dict.fromkeys((Block.TREE, Block.FIRE_TREE, Block.CHEST, Block.CRAFTING_TABLE), 0),
    **dict.fromkeys((Block.FURNACE,), 0),
    **dict.fromkeys((Block.STONE, Block.STALAGMITE, Block.COAL), 1),
    Block.IRON: 2,
    Block.DIAMOND: 3,
    **dict.fromkeys((Block.SAPPHIRE, Block.RUBY), 4),
}
FAR = 200.0
_ROWS, _COLUMNS = np.indices((13, 13), np.int32) - 6
_CELLS = np.arange(48 * 48).reshape(48, 48)
_PAIRS = [(_CELLS[:, :-1], _CELLS[:, 1:]), (_CELLS[:-1], _CELLS[1:])]
_FROM, _TO = (
    np.concatenate([pair[i].ravel() for pair in _PAIRS for i in order])
    for order in ((0, 1), (1, 0))
)


class Aim(NamedTuple):
    """What a plan is worth, in points."""

    health: float = 1.0
    kill: float = 0.0
    near: float = 0.0  # for each cell to the nearest monster, less
    goal: float = 0.0  # for each step to the goal, less
    room: float = 0.0  # for each cell that can be reached, less
    mana: float = 0.05
    items: tuple[tuple[str, float], ...] = (("stone", 0.02), ("arrows", 0.1))


@jax.jit
def first(key):
    """The package's first state as ours."""
    theirs = peer.begin(key)
    return peer.from_craftax(theirs)


@jax.jit
def chance(key, time):
    """Draws of the next steps as the package draws them in `lockstep`."""
    keys = jax.vmap(lambda t: jax.random.split(jax.random.fold_in(key, t))[0])
    return jax.vmap(peer.draws_of)(keys(time + jnp.arange(AHEAD, dtype=jnp.int32)))


def _next(state, action, draws):
    return ENV.advance(state.ticked(), action, draws, ENV.default_params)


@jax.jit
def step(state, action, draws):
    """A step with the first of some draws: the state, the world by name, the floor, the end."""
    after = _next(state, action, jax.tree.map(lambda leaf: leaf[0], draws))
    return after.state, *_look(after.state), after.reward, after.terminated


@jax.jit
def look(state):
    """The world by name, and the cells of the floor."""
    return _look(state)


def _look(state):
    world = ENV.world(state)
    leaves = [leaf.astype(jnp.float32).reshape(-1) for leaf in jax.tree.leaves(world)]
    return jnp.concatenate(leaves), state.map[world.floor]


@jax.jit
def tried(state, plans, draws, far, aim):
    """Points of plans (PLANS, AHEAD)."""
    before = ENV.world(state)

    def one(plan):
        def act(carry, given):
            state, dead = carry
            after = _next(state, *given)
            return (after.state, dead | (ENV.world(after.state).vitals["health"] <= 0)), None

        (after, dead), _ = jax.lax.scan(act, (state, jnp.bool_(False)), (plan, draws))
        return _points(before, after, far, aim) - jnp.where(dead, 1e3, 0)

    return jax.vmap(one)(plans)


@functools.cache
def _shape():
    """The structure of a world, and where its numbers end in a vector."""
    words = jax.eval_shape(first, jax.ShapeDtypeStruct((2,), jnp.uint32))
    world = jax.eval_shape(ENV.world, words)
    leaves, tree = jax.tree.flatten(world)
    return tree, np.cumsum([leaf.size for leaf in leaves])[:-1], [leaf.shape for leaf in leaves]


def named(numbers):
    """A world by name of the vector of its numbers."""
    tree, ends, shapes = _shape()
    parts = np.split(numbers, ends)
    return jax.tree.unflatten(
        tree, [part.reshape(shape)[()] for part, shape in zip(parts, shapes, strict=True)]
    )


def _points(before, state, far, aim):
    world = ENV.world(state)
    monsters = [*world.mobs["melee"], *world.mobs["ranged"]]
    apart = [
        jnp.where(m.alive, jnp.abs(m.row - world.row) + jnp.abs(m.column - world.column), 12)
        for m in monsters
    ]
    gained = sum(
        weight * (world.items[name] - before.items[name]).astype(jnp.float32)
        for name, weight in zip(FULL.items, aim["items"], strict=True)
    )
    health = world.vitals["health"]
    return (
        aim["health"] * (health - 4 * jnp.maximum(0, 3.5 - health))
        + aim["kill"] * (world.kills - before.kills)
        - aim["near"] * jnp.minimum(jnp.stack(apart).min(), 12)
        - aim["goal"] * far[world.row, world.column]
        - aim["room"] * _room(state, world)
        + aim["mana"] * world.vitals["mana"]
        + gained
    )


def _room(state, world):
    """Cells within six steps that a walker can reach."""
    rows, columns = world.row + _ROWS, world.column + _COLUMNS
    inside = (rows >= 0) & (rows < 48) & (columns >= 0) & (columns < 48)
    block = state.map[world.floor, rows.clip(0, 47), columns.clip(0, 47)] & BLOCK
    table = np.zeros(64, bool)
    table[[int(b) for b in FULL.solid]] = True
    free = inside & ~jnp.asarray(table)[block.astype(jnp.int32)]
    reached = (_ROWS == 0) & (_COLUMNS == 0) & free
    for _ in range(6):
        grown = jnp.pad(reached, 1)
        near = grown[:-2, 1:-1] | grown[2:, 1:-1] | grown[1:-1, :-2] | grown[1:-1, 2:]
        reached = reached | (near & free)
    return reached.sum(dtype=jnp.int32).astype(jnp.float32)


def weights(aim):
    """An aim as arrays."""
    named = {k: np.float32(v) for k, v in aim._asdict().items() if k != "items"}
    given = dict(aim.items)
    return named | {"items": tuple(np.float32(given.get(name, 0)) for name in FULL.items)}


class LostError(Exception):
    """The player died, or does not get on."""


class Game:
    """A game as it is played: the state, what is seen of it, and the actions so far."""

    def __init__(self, seed):
        self.key = jax.random.PRNGKey(seed)
        self.rng = np.random.default_rng(seed)
        self.actions, self.over, self.kept, self.deaths = [], False, [], 0
        self.state = first(self.key)
        self.see(look(self.state))
        self.last = np.zeros(AHEAD, np.int32)

    def see(self, seen):
        numbers, cells = jax.device_get(seen)
        self.world = world = named(numbers)
        self.block, self.lies = cells & BLOCK, (cells & ITEM) != 0
        self.at = int(world.row), int(world.column)
        self.floor = int(world.floor)
        self.facing = int(world.facing)
        self.mobs = {
            (int(m.row), int(m.column)): (role, m)
            for role, slots in world.mobs.items()
            for m in slots
            if m.alive
        }

    @property
    def time(self):
        return len(self.actions)

    def draws(self):
        return chance(self.key, np.int32(self.time))

    def act(self, action):
        """Take a step."""
        self.state, *seen, _, over = step(self.state, np.int32(action), self.draws())
        self.see(seen)
        self.actions.append(int(action))
        self.over = bool(over)
        if self.over and int(self.world.boss["progress"]) < 8:
            raise LostError(f"dead on floor {self.floor} at {self.time}")
        well = self.vital("health") >= 6 and min(self.vital("food"), self.vital("drink")) >= 3
        if well and self.time - (self.kept[-1][0] if self.kept else 0) >= 25:
            self.kept.append((self.time, self.state))

    def rewind(self):
        """Go back in time, farther after each death."""
        self.deaths += 1
        for _ in range(1 + self.deaths % 5):
            if len(self.kept) > 1:
                self.kept.pop()
        time, self.state = self.kept[-1]
        self.actions, self.over = self.actions[:time], False
        self.see(look(self.state))

    # What the player has.

    def has(self, name):
        return int(self.world.items[name])

    def vital(self, name):
        return float(self.world.vitals[name])

    def trait(self, name):
        return int(self.world.traits[name])

    # Where to go.

    def cost(self):
        """Steps that it takes to enter each cell."""
        cost = np.ones((48, 48))
        cost[np.isin(self.block, [int(b) for b in FULL.solid])] = np.inf
        for block, level in MINED.items():
            if self.has("pickaxe") >= level:
                cost[self.block == block] = 3
        can = self.has("pickaxe") >= 1 and self.has("stone") >= 2
        wet = np.isin(self.block, [Block.WATER, Block.LAVA])
        cost[wet] = 4 if can else np.inf
        for cell in self.mobs:
            cost[cell] += 4
        return cost

    def distances(self, targets):
        """Steps from each cell to the nearest of some cells."""
        cost = self.cost()
        cells = [cell[0] * 48 + cell[1] for cell in targets]
        if not cells:
            return np.full((48, 48), np.inf), cost
        entered = np.where(np.isfinite(cost), cost, 1e6)
        entered.reshape(-1)[cells] = cost.reshape(-1)[cells] = 1
        graph = csr_array((entered.reshape(-1)[_FROM], (_FROM, _TO)), (48 * 48, 48 * 48))
        far = dijkstra(graph, indices=cells, min_only=True).reshape(48, 48)
        return np.where(far < 1e5, far, np.inf), cost

    def towards(self, targets, use):
        """The next action on the way to the nearest target, and the distances; None if none."""
        far, cost = self.distances(targets)
        best, action = np.inf, None
        for move, (down, right) in STEPS.items():
            r, c = self.at[0] + down, self.at[1] + right
            if 0 <= r < 48 and 0 <= c < 48 and far[r, c] + cost[r, c] < best:
                best, action = far[r, c] + cost[r, c], move
        if action is None:
            return None, far
        cell = self.at[0] + STEPS[action][0], self.at[1] + STEPS[action][1]
        return self.entering(action, cell, use and far[cell] == 0), far

    def entering(self, move, cell, use):
        """The action with which to enter a cell ahead, or to use it."""
        solid = self.block[cell] in FULL.solid
        wet = self.block[cell] in (Block.WATER, Block.LAVA)
        if not (use or solid or wet or cell in self.mobs):
            return move
        if self.facing != move:
            return move
        return Action.DO if use or solid or cell in self.mobs else Action.PLACE_STONE

    # Danger.

    def danger(self):
        """Whether a monster or something that flies is near."""
        apart = lambda m: abs(int(m.row) - self.at[0]) + abs(int(m.column) - self.at[1])  # noqa: E731
        melee = any(m.alive and apart(m) <= 3 for m in self.world.mobs["melee"])
        ranged = any(m.alive and apart(m) <= 6 for m in self.world.mobs["ranged"])
        return melee or ranged or any(p.alive and apart(p) <= 6 for p in self.world.projectiles)

    # Plans.

    def plans(self, actions, odds):
        """Random plans, the rest of the last one among them."""
        odds = np.asarray(odds, float) / sum(odds)
        plans = self.rng.choice(actions, (PLANS, AHEAD), p=odds)
        again = self.rng.random((PLANS, AHEAD)) < self.rng.choice([0, 0.3, 0.6], (PLANS, 1))
        for i in range(1, AHEAD):
            plans[:, i] = np.where(again[:, i], plans[:, i - 1], plans[:, i])
        plans[0], plans[1] = Action.NOOP, Action.DO
        mutated = np.where(self.rng.random((60, AHEAD)) < 0.2, plans[2:62], self.last)
        plans[2:62], plans[62] = mutated, self.last
        return plans.astype(np.int32)

    def best(self, aim, actions, odds, far=None, rounds=1):
        """The best of random plans, in rounds that change the best so far."""
        far = np.zeros((48, 48)) if far is None else far
        far = np.minimum(far, FAR).astype(np.float32)
        draws = self.draws()
        for _ in range(rounds):
            plans = self.plans(actions, odds)
            points = np.asarray(tried(self.state, plans, draws, far, weights(aim)))
            self.last = plans[int(points.argmax())]
        return self.last

    def follow(self, plan, count):
        """Carry out the beginning of a plan."""
        for action in plan[:count]:
            self.act(action)
            if self.over:
                return
        self.last = np.concatenate([plan[count:], np.full(count, Action.NOOP, plan.dtype)])

    def fight(self, far=None, hunt=False):
        """A few steps of the best plan against what is near."""
        actions = [Action.NOOP, *MOVES, Action.DO]
        odds = [1, 3, 3, 3, 3, 8]
        more = {
            Action.SHOOT_ARROW: self.has("bow") and self.has("arrows"),
            Action.CAST_FIREBALL: self.world.spells["fireball"] and self.vital("mana") >= 2,
            Action.CAST_ICEBALL: self.world.spells["iceball"] and self.vital("mana") >= 2,
            Action.PLACE_STONE: self.has("stone"),
        }
        actions += [action for action, can in more.items() if can]
        odds += [3 for can in more.values() if can]
        aim = Aim(kill=4 if hunt else 1, near=0.15 if hunt else 0, goal=0 if far is None else 0.2)
        self.follow(self.best(aim, actions, odds, far, rounds=3), 5)
