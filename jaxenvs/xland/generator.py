"""Task generator of XLand-MiniGrid (the script of xminigrid 0.9.3) in JAX, usable inside `jit`.

A task is a tree whose root is the goal. A rule makes each object of the goal from one or two input
objects, further rules make the input objects, and so on down to the depth `Recipe.depth`. Objects
at the leaves of the tree lie on the map. Pruning turns random objects into leaves. Distractor rules
and objects are not needed for the goal.

Difference from xminigrid: random numbers come from a JAX key, so the tasks are different but have
the same distribution. With xminigrid's random numbers, which `exact.py` supplies, the tasks are the
same.
"""

import functools
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..core import checks
from ..core.random import Key, below, hashed
from . import rulesets, tiles
from .rulesets import Goal, PackedRuleset, Rule, Ruleset
from .tiles import Colour, Kind

# Lists of tiles (kind, colour) from which xminigrid's script draws, in the script's order. `RIGHT`
# has the objects, `LEFT` also the tiles of kind `GOAL`. `MADE` has the objects and the floor, which
# is the product of rules that remove objects.
_COLOURS = (*tuple(Colour)[1:7], Colour.WHITE, Colour.BROWN, Colour.PINK, Colour.ORANGE)
_THINGS = (Kind.BALL, Kind.SQUARE, Kind.PYRAMID, Kind.KEY, Kind.STAR, Kind.HEX)
RIGHT = tuple((int(thing), int(colour)) for thing in _THINGS for colour in _COLOURS)
LEFT = RIGHT + tuple((int(Kind.GOAL), int(colour)) for colour in _COLOURS)
MADE = (*RIGHT, (tiles.FLOOR & 15, tiles.FLOOR >> 4))
# Kinds of goals and rules, in the order of xminigrid's script. The conditions are: entry 0, a held
# object; entries 1 to 5, an object next to the agent; entries 6 to 10, two adjacent objects.
GOALS = (
    Goal.HOLD, Goal.AGENT_NEAR, Goal.AGENT_UP, Goal.AGENT_DOWN, Goal.AGENT_LEFT, Goal.AGENT_RIGHT,
    Goal.NEAR, Goal.UP, Goal.DOWN, Goal.LEFT, Goal.RIGHT,
)  # fmt: skip
RULES = (
    Rule.HOLD, Rule.AGENT_NEAR, Rule.AGENT_UP, Rule.AGENT_DOWN, Rule.AGENT_LEFT, Rule.AGENT_RIGHT,
    Rule.NEAR, Rule.UP, Rule.DOWN, Rule.LEFT, Rule.RIGHT,
)  # fmt: skip
FIRST_PAIR = 6  # index of the first kind with two tiles in `GOALS` and `RULES`
DEEPEST, MOST_EXTRA = 3, 64
# A task is crowded if it uses at least this many tiles. The script draws from a Python `set` of the
# unused tiles. For crowded tasks, the iteration order of this set may differ from the order of
# `_LISTED`, from which this module draws.
CROWDED = 15

# Number of uint32 in a bit mask that has one bit for each tile of `RIGHT`, `LEFT` or `MADE`.
_WORDS = 3
_NONE = tiles.NOTHING


def _listed(pairs: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Return the tile bytes of `pairs` in the iteration order of CPython's `set(pairs) - set()`.

    The script also draws from a difference of sets, whose order can differ from
    `set(pairs)`. The array is padded with 0 to 32 * _WORDS tile bytes.
    """
    codes = tiles.decode(np.array(list(set(pairs) - set())))
    return np.pad(codes, (0, 32 * _WORDS - len(codes)))


# Indices of the lists of tiles `RIGHT`, `LEFT` and `MADE` in the arrays `_LISTED` and `_BIT`.
_IN_LIST = {"right": 0, "left": 1, "made": 2}
_LISTED = np.stack([_listed(RIGHT), _listed(LEFT), _listed(MADE)])


def _bits() -> np.ndarray:
    """Return, for each tile byte and each list of `_LISTED`, a bit mask of the tile's position.

    The result is uint32 (tile bytes, lists, _WORDS). In a mask, the bit at the tile's position in
    the list is 1. All bits are 0 if the list lacks the tile.
    """
    found = np.zeros((256, *_LISTED.shape), np.uint8)
    for (row, position), code in np.ndenumerate(_LISTED):
        found[code, row, position] = code != _NONE
    return np.packbits(found, axis=-1, bitorder="little").view(np.uint32)


_BIT = _bits()
_ALL = np.bitwise_or.reduce(_BIT)
_GOAL_FLAGS = np.array([rulesets.GOALS[kind].flags for kind in GOALS], np.uint32)
_RULE_FLAGS = np.array([rulesets.RULES[kind].flags for kind in RULES], np.uint32)


class Recipe(NamedTuple):
    """Settings of the task generator, as in `sample_ruleset`."""

    depth: int  # depth of the tree of rules; 0: the goal's objects lie on the map
    prune: float  # probability that an object lies on the map instead of being made
    distractors: int  # largest number of distractor rules
    objects: int  # number of distractor objects on the map

    @property
    def most_rules(self) -> int:
        """Largest number of rules that a task with these settings can have."""
        return max(1, 2 ** (self.depth + 1) - 2 + self.distractors)

    @property
    def most_tiles(self) -> int:
        """Largest number of objects that a task with these settings can put on the map."""
        return 2 ** (self.depth + 1) + self.objects + 2 * self.distractors


def checked_recipe(where: str, depth: Any, prune: Any, distractors: Any, objects: Any) -> Recipe:
    """Return the settings as a `Recipe`; raise `ValueError` if one is out of range."""
    checks.integer_field(where, "depth", depth, 0, DEEPEST)
    checks.integer_field(where, "distractors", distractors, 0, MOST_EXTRA)
    checks.integer_field(where, "objects", objects, 0, MOST_EXTRA)
    if not 0 <= float(prune) <= 1:
        raise ValueError(f"{where}: prune={prune!r} must be a probability, from 0 to 1")
    return Recipe(depth, float(prune), distractors, objects)


@runtime_checkable
class Draws(Protocol):
    """Stateless source of random numbers: a sequence that is read at a position `at`.

    Methods return the number at position `at`, and the position of the next number.
    """

    def below(self, at: Array, bound: Array) -> tuple[Array, Array]:
        """Return a uniformly distributed integer in [0, bound), and the next position."""
        ...

    def chance(self, at: Array, probability: float) -> tuple[Array, Array]:
        """Return a bool that is True with this probability, and the next position."""
        ...

    def pick(self, at: Array, bound: Array) -> tuple[Array, Array]:
        """Return a uniformly distributed integer in [0, bound), and the next position.

        With CPython's random numbers, the integer is `floor(random() * bound)`, as in
        `random.choices`.
        """
        ...


class KeyDraws(NamedTuple):
    """Random numbers from a JAX key: a number is a hash of the key and the position `at`."""

    key: Key

    def below(self, at: Array, bound: Array) -> tuple[Array, Array]:
        """Return a uniformly distributed integer in [0, bound), and the next position."""
        return below(hashed(self.key, at), bound), at + 1

    def chance(self, at: Array, probability: float) -> tuple[Array, Array]:
        """Return a bool that is True with this probability, and the next position."""
        share = np.uint32(round(probability * 2**31))
        return hashed(self.key, at) >> jnp.uint32(1) < share, at + 1

    def pick(self, at: Array, bound: Array) -> tuple[Array, Array]:
        """Return a uniformly distributed integer in [0, bound), and the next position."""
        return self.below(at, bound)


class Drawn(NamedTuple):
    """Generated task, and the position in the random source after it."""

    ruleset: PackedRuleset
    # Whether any tile was drawn after the task had used `CROWDED` or more tiles. The script may
    # then draw a different tile from the same random numbers.
    crowded: Bool[Array, ""]
    end: Array  # position after the last random number of this task


class _Drawing(NamedTuple):
    """A task that is being generated; `level` is the current depth in the tree of rules."""

    at: Array  # position of the next random number in its source (`Draws`)
    # For each list of `_LISTED`, bit mask of the tiles that neither the goal nor a rule uses yet.
    free: UInt32[Array, "lists words"]
    # Tiles of the current depth that still lack a rule: the first `waiting` bytes of the array.
    chain: UInt8[Array, " chain"]
    waiting: Int32[Array, ""]
    # Tiles of the next depth of the tree: the first `num_following` tile bytes of the array.
    following: UInt8[Array, " chain"]
    num_following: Int32[Array, ""]
    level: Int32[Array, ""]
    rules: UInt32[Array, " rules"]
    num_rules: Int32[Array, ""]
    tiles: UInt8[Array, " tiles"]
    num_tiles: Int32[Array, ""]
    crowded: Bool[Array, ""]


def sample_ruleset(
    key: Key,
    *,
    depth: int = 1,
    prune: float = 0.3,
    distractors: int = 2,
    objects: int = 2,
    num_rules: int | None = None,
    num_tiles: int | None = None,
) -> Ruleset:
    """Draw a task, distributed as in xminigrid's task sets; works inside `jit` and `vmap`.

    depth: depth of the tree of rules that make the goal's objects from other objects, 0 to 3.
    prune: probability that an object lies on the map instead of being made by a rule.
    distractors: largest number of distractor rules; their number is uniform.
    objects: number of distractor objects on the map.
    num_rules, num_tiles: sizes of the arrays, by default just enough for every task with these
        settings.

    The defaults are the settings of the task set `small-1m`; `SETS[name].recipe` has the settings
    of each set. The set `trivial-21k` has another distribution, because it has each task only once.

    Returns uint8 goal (5,), rules (num_rules, 7) and init_tiles (num_tiles, 2). Raises `TypeError`
    or `ValueError` for settings out of range and sizes too small.
    """
    where = "sample_ruleset"
    recipe = checked_recipe(where, depth, prune, distractors, objects)
    num_rules = recipe.most_rules if num_rules is None else num_rules
    num_tiles = recipe.most_tiles if num_tiles is None else num_tiles
    checks.integer_field(where, "num_rules", num_rules, recipe.most_rules)
    checks.integer_field(where, "num_tiles", num_tiles, recipe.most_tiles)
    return _sampled(checks.single_key(key, where), recipe).sized(num_rules, num_tiles)


@functools.partial(jax.jit, static_argnums=1)
def _sampled(key: Key, recipe: Recipe) -> Ruleset:
    return generate(KeyDraws(key), jnp.uint32(0), recipe).ruleset.unpacked()


def generate(draws: Draws, at: Array, recipe: Recipe) -> Drawn:
    """Draw a task, using the random numbers of `draws` from position `at` on."""
    goal, a, b, at = _goal(draws, at)
    it = _start(at, a, b, recipe)
    if recipe.depth:
        it = jax.lax.while_loop(
            lambda it: it.waiting > 0, lambda it: _next_rule(draws, it, recipe), it
        )
    else:
        it = _laid(_laid(it, a), b)
    it = jax.lax.fori_loop(0, recipe.objects, lambda _, it: _with_object(draws, it), it)
    it = _with_distractors(draws, it, recipe)
    return Drawn(PackedRuleset(goal=goal, rules=it.rules, init_tiles=it.tiles), it.crowded, it.at)


def _goal(draws: Draws, at: Array) -> tuple[Array, Array, Array, Array]:
    """Draw a goal; return its packed uint32, its two tiles, and the next position.

    The second tile is 0 if the goal names only one.
    """
    number, at = draws.below(at, jnp.int32(len(GOALS)))
    a, at = draws.below(at, jnp.where(number == 0, len(RIGHT), len(LEFT)))
    b, after = draws.below(at, jnp.int32(len(RIGHT)))
    pair, codes = number >= FIRST_PAIR, jnp.asarray(tiles.decode(np.array(LEFT)))
    a, b = codes[a], jnp.where(pair, codes[b], jnp.uint8(_NONE))
    return _word(a, b, _NONE, jnp.asarray(_GOAL_FLAGS)[number]), a, b, jnp.where(pair, after, at)


def _start(at: Array, a: Array, b: Array, recipe: Recipe) -> _Drawing:
    """Return the initial state: the depth is 1, and the goal's tiles `a` and `b` still lack a rule.

    `b` is 0 if the goal names only one tile.
    """
    nothing = jnp.full((max(2, 2**recipe.depth),), _NONE, jnp.uint8)
    zero = jnp.int32(0)
    return _Drawing(
        at=at,
        free=_without(jnp.asarray(_ALL), a, b),
        chain=nothing.at[0].set(a).at[1].set(b),
        waiting=jnp.where(b != _NONE, 2, 1),
        following=nothing,
        num_following=zero,
        level=jnp.int32(1),
        rules=jnp.zeros((recipe.most_rules,), jnp.uint32),
        num_rules=zero,
        tiles=jnp.full((recipe.most_tiles,), _NONE, jnp.uint8),
        num_tiles=zero,
        crowded=jnp.zeros((), jnp.bool_),
    )


def _next_rule(draws: Draws, it: _Drawing, recipe: Recipe) -> _Drawing:
    """Draw a rule that makes the last waiting tile of `it.chain`, or prune the tree at this tile.

    Pruning has the probability `prune`. The tile then gets no rule and lies on the map.
    """
    made = it.chain[it.waiting - 1]
    pruned, at = draws.chance(it.at, recipe.prune)
    rule, a, b, after = _rule(draws, at, made, it.free)
    a, b = (jnp.where(pruned, jnp.uint8(_NONE), tile) for tile in (a, b))
    is_last = it.level == recipe.depth
    it = _crowding(it)._replace(
        at=jnp.where(pruned, at, after), free=_without(it.free, a, b), waiting=it.waiting - 1
    )
    it = _queued(_queued(_ruled(it, rule, ~pruned), a, ~is_last), b, ~is_last)
    it = _laid(_laid(_laid(it, made, pruned), a, is_last), b, is_last)
    deeper = (it.waiting == 0) & ~is_last
    return it._replace(
        chain=jnp.where(deeper, it.following, it.chain),
        waiting=jnp.where(deeper, it.num_following, it.waiting),
        num_following=jnp.where(deeper, 0, it.num_following),
        level=it.level + deeper.astype(jnp.int32),
    )


def _with_object(draws: Draws, it: _Drawing) -> _Drawing:
    """Put a distractor object on the map."""
    tile, at = _chosen(draws.pick, it.at, _IN_LIST["left"], it.free)
    return _laid(it._replace(at=at), tile)


def _with_distractors(draws: Draws, it: _Drawing, recipe: Recipe) -> _Drawing:
    """Add distractor rules and put their inputs on the map."""
    if not recipe.distractors:
        return it
    count, at = draws.below(it.at, jnp.int32(recipe.distractors + 1))
    most = it.num_rules + count

    def add(it: _Drawing) -> _Drawing:
        made, at = _chosen(draws.below, it.at, _IN_LIST["made"], it.free)
        rule, a, b, at = _rule(draws, at, made, jnp.asarray(_ALL))
        return _laid(_laid(_ruled(_crowding(it)._replace(at=at), rule), a), b)

    return jax.lax.while_loop(lambda it: it.num_rules < most, add, it._replace(at=at))


def _rule(draws: Draws, at: Array, made: Array, free: Array) -> tuple[Array, Array, Array, Array]:
    """Draw a rule that makes the tile `made` from one or two of the free tiles.

    Returns the packed rule, its two input tiles (the second is 0 if there is only one) and the
    next position in the random source `draws`. The second input may equal the first.
    """
    number, at = draws.below(at, jnp.int32(len(RULES)))
    pair = number >= FIRST_PAIR
    first_list = jnp.where(pair, _IN_LIST["left"], _IN_LIST["right"])
    a, at = _chosen(draws.below, at, first_list, free)
    b, after = _chosen(draws.below, at, _IN_LIST["right"], free)
    b = jnp.where(pair, b, jnp.uint8(_NONE))
    return _word(a, b, made, jnp.asarray(_RULE_FLAGS)[number]), a, b, jnp.where(pair, after, at)


def _word(*fields: ArrayLike) -> UInt32[Array, ""]:
    return rulesets.word(*(jnp.asarray(field).astype(jnp.uint32) for field in fields))


def _chosen(draw: Any, at: Array, row: ArrayLike, free: Array) -> tuple[Array, Array]:
    """Draw a tile of the list `_LISTED[row]` that is in the bit masks `free`.

    Returns the tile and the next position in the random source.
    """
    words = free[row]
    number, at = draw(at, jax.lax.population_count(words).sum(dtype=jnp.uint32))
    return jnp.asarray(_LISTED)[row, _nth(words, number)], at


def _nth(words: UInt32[Array, " words"], number: Array) -> Array:
    """Return the position in `words` of 1-bit `number`; 1-bits are counted from 0, lowest first.

    Finds the uint32 that contains the bit, then finds the bit by binary search in five steps.
    """
    ends = jnp.cumsum(jax.lax.population_count(words).astype(jnp.int32), dtype=jnp.int32)
    which = (number >= ends[:-1]).sum(dtype=jnp.int32)
    number = number - jnp.where(which > 0, ends[which - 1], 0)
    word, position = words[which], which * 32
    for half in (16, 8, 4, 2, 1):
        low = jax.lax.population_count(word & np.uint32((1 << half) - 1)).astype(jnp.int32)
        is_above = number >= low
        word = jnp.where(is_above, word >> np.uint32(half), word)
        number = jnp.where(is_above, number - low, number)
        position = position + jnp.where(is_above, half, 0)
    return position


def _without(free: Array, *used: Array) -> Array:
    for code in used:
        free = free & ~jnp.asarray(_BIT)[code]
    return free


def _crowding(it: _Drawing) -> _Drawing:
    unused = jax.lax.population_count(it.free[_IN_LIST["left"]]).sum(dtype=jnp.uint32)
    return it._replace(crowded=it.crowded | (unused <= np.uint32(len(LEFT) - CROWDED)))


def _ruled(it: _Drawing, rule: Array, when: ArrayLike = True) -> _Drawing:
    rules, count = _appended(it.rules, it.num_rules, rule, when)
    return it._replace(rules=rules, num_rules=count)


def _laid(it: _Drawing, tile: Array, when: ArrayLike = True) -> _Drawing:
    """Put an object on the map if `when` is True and the tile byte is not 0."""
    codes, count = _appended(it.tiles, it.num_tiles, tile, when & (tile != _NONE))
    return it._replace(tiles=codes, num_tiles=count)


def _queued(it: _Drawing, tile: Array, when: Array) -> _Drawing:
    """Add a tile to the next depth of the tree if `when` is True and the tile byte is not 0."""
    codes, count = _appended(it.following, it.num_following, tile, when & (tile != _NONE))
    return it._replace(following=codes, num_following=count)


def _appended(values: Array, count: Array, value: Array, when: ArrayLike) -> tuple[Array, Array]:
    """Append `value` if `when` is True; return the array of values and the new number of values.

    The value is written by a `jnp.where` over the array, which XLA vectorises better than a
    scatter.
    """
    here = (jnp.arange(values.shape[0], dtype=jnp.int32) == count) & when
    return jnp.where(here, value, values), count + jnp.asarray(when).astype(jnp.int32)
