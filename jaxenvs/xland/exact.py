"""Parallel generation of the tasks that XLand-MiniGrid's script draws with CPython's `random`.

The script draws tasks one after another from a stream of random uint32, of which each task takes a
different number. This module draws in about a thousand parallel lanes, which start at different
positions of the stream. A lane may start in the middle of a task of the script, and then draws
wrong tasks at first. As soon as one of its tasks begins where a task of the script begins, the lane
draws the same tasks as the script. The script's sequence of tasks starts at the beginning of the
stream, and continues with the task that begins where the previous task ends.

The script draws from a Python `set` of unused tiles, in the iteration order of the set. This order
changes once a task uses many tiles; such a task is called crowded. Crowded tasks, and tasks that no
lane has drawn, are drawn one by one in plain Python.
"""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from ..core.random import multiply_high
from .generator import FIRST_PAIR, GOALS, LEFT, MADE, RIGHT, RULES, Drawn, Recipe, generate
from .rulesets import PackedRuleset, Ruleset

SEED = 42
# Number of lanes, and number of tasks that each lane draws. Lanes draw tasks in parallel, from
# different positions of the stream of random uint32.
LANES, TASKS = 1024, 128
PILOT = 256  # number of tasks drawn to estimate how many random uint32 a task needs
# Overlap of successive lanes in the stream: a lane starts this many standard deviations (of the
# number of uint32 that a lane uses) before the expected end of the previous lane.
SLACK = 4.0
FAR = 2048  # upper bound on the number of random uint32 that a task needs
FULL = 624  # number of uint32 in the state of CPython's random generator

Pair = tuple[int, int]
_AS_SET = {listed: set(listed) for listed in (RIGHT, LEFT, MADE)}


class WordDraws(NamedTuple):
    """The methods of CPython's `random`, computed in JAX from its raw random uint32, `words`.

    Methods read `words` from index `at`, and return a number and the index of the next uint32.
    """

    words: UInt32[Array, " words"]

    def below(self, at: Array, bound: Array) -> tuple[Array, Array]:
        """Return CPython's `randrange(bound)`: the `bound.bit_length()` high bits of a uint32.

        A uint32 is skipped if its high bits give a number that is not below `bound`.
        """
        bound = jnp.asarray(bound).astype(jnp.uint32)
        shift = jax.lax.clz(bound)  # number of leading zeros: 32 - bound.bit_length()

        def is_large(at: Array) -> Array:
            return (self.words[at] >> shift >= bound) & (at < self.words.shape[0] - 1)

        at = jax.lax.while_loop(is_large, lambda at: at + 1, at)
        return (self.words[at] >> shift).astype(jnp.int32), at + 1

    def chance(self, at: Array, probability: float) -> tuple[Array, Array]:
        """Return `random() < probability`, where `random()` takes 53 bits from two uint32."""
        bits = -int(-probability * 2**53 // 1)
        high, low = self.words[at] >> np.uint32(5), self.words[at + 1] >> np.uint32(6)
        most, least = np.uint32(bits >> 26), np.uint32(bits & (1 << 26) - 1)
        return (high < most) | (high == most) & (low < least), at + 2

    def pick(self, at: Array, bound: Array) -> tuple[Array, Array]:
        """Return `floor(random() * bound)`, computed exactly in integer arithmetic."""
        bound = jnp.asarray(bound).astype(jnp.uint32)
        high, low = self.words[at] & ~np.uint32(31), self.words[at + 1] & ~np.uint32(63)
        carried = ((high * bound) >> np.uint32(5)) + multiply_high(low, bound)
        number = multiply_high(high, bound) + (carried >> np.uint32(27))
        return number.astype(jnp.int32), at + 2


class Stream:
    """Stream of the raw uint32 that CPython's Mersenne Twister outputs for a seed."""

    def __init__(self, seed: int) -> None:
        """Copy the state of `random.Random(seed)` to NumPy's Mersenne Twister."""
        _, state, _ = random.Random(seed).getstate()
        self._source = np.random.MT19937()
        key = np.array(state[:FULL], np.uint32)
        self._source.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": state[FULL]}}

    def take(self, count: int) -> np.ndarray:
        """Return the next outputs of the generator, uint32 (count,)."""
        return self._source.random_raw(count).astype(np.uint32)


class Serial(random.Random):
    """A `random.Random` that draws from a given array of raw uint32.

    CPython's own methods convert the uint32 to random numbers.
    """

    def __init__(self, words: np.ndarray, at: int = 0) -> None:
        """Draw from `words`, uint32, beginning at index `at`.

        Drawing beyond the end of `words` raises `IndexError`.
        """
        super().__init__()
        self.words, self.at = words, at

    def getrandbits(self, k: int) -> int:
        """Return the `k` highest bits of the next uint32; `k` is at most 32."""
        self.at += 1
        return int(self.words[self.at - 1]) >> 32 - k

    def random(self) -> float:
        """Return a float in [0, 1), made from two uint32 as CPython does."""
        high, low = self.getrandbits(27), self.getrandbits(26)
        return (high * 2**26 + low) / 2**53


class Tree(NamedTuple):
    """A generated task: its goal, its rules, and the tiles that lie on the map at the start.

    A goal or a rule is a tuple: its `Goal` or `Rule` number, then the kind and the colour of each
    of its tiles. `tiles` has a pair (kind, colour) for each tile.
    """

    goal: tuple[int, ...]
    rules: list[tuple[int, ...]]
    tiles: list[Pair]


def drawn(rng: random.Random, recipe: Recipe) -> Tree:
    """Draw a task as xminigrid's script does, in plain Python.

    `generator.generate` is the same algorithm in JAX.
    """
    number = rng.randint(0, 10)
    chain = [rng.choice(RIGHT if number == 0 else LEFT)]
    chain += [rng.choice(RIGHT)] if number >= FIRST_PAIR else []
    goal = (int(GOALS[number]), *_flat(chain))
    used, laid, rules = list(chain), [], []
    if recipe.depth == 0:
        laid += chain
    for level in range(1, recipe.depth + 1):
        following: list[Pair] = []
        while chain:
            made = chain.pop()
            if rng.random() < recipe.prune:
                laid.append(made)
                continue
            inputs = _ruled(rng, rules, made, used)
            used += inputs
            following += inputs
            laid += inputs if level == recipe.depth else []
        chain = following
    laid += rng.choices(_unused(LEFT, used), k=recipe.objects)
    for _ in range(rng.randint(0, recipe.distractors) if recipe.distractors else 0):
        laid += _ruled(rng, rules, rng.choice(_unused(MADE, used)), [])
    return Tree(goal, rules, laid)


def _ruled(rng: random.Random, rules: list[tuple[int, ...]], made: Pair, used: list[Pair]) -> Any:
    """Draw a rule that makes the tile `made` from unused tiles, and append it to `rules`.

    Returns the one or two input tiles of the rule.
    """
    number = rng.randint(0, 10)
    if number < FIRST_PAIR:
        inputs = [rng.choice(_unused(RIGHT, used))]
    else:
        inputs = [rng.choice(_unused(LEFT, used)), rng.choice(_unused(RIGHT, used))]
    rules.append((int(RULES[number]), *_flat([*inputs, made])))
    return inputs


def _unused(listed: tuple[Pair, ...], used: list[Pair]) -> list[Pair]:
    """Return the tiles of `listed` that are not in `used`, in the order of CPython's set iteration.

    The script draws from tiles in this order, so the task sets depend on it.
    """
    return list(_AS_SET[listed] - set(used))


def _flat(pairs: list[Pair]) -> list[int]:
    return [number for pair in pairs for number in pair]


def first_distinct(
    recipe: Recipe, count: int, report: Callable[[int], None] = lambda done: None
) -> PackedRuleset:
    """Return the script's first `count` tasks with different goals or rules, as NumPy arrays.

    For a progress bar, `report` is called with the number of tasks drawn so far.
    """
    stream, step = Stream(SEED), _step(recipe)
    size = (LANES + 1) * step + FAR
    words, parts, hashes, total = stream.take(size), [], [], 0
    while True:
        part, end = _block(words, step, recipe)
        parts.append(part)
        hashes.append(_hashes(part))
        total += len(part.goal)
        report(min(total, count))
        if total >= count:
            first = np.unique(np.concatenate(hashes), return_index=True)[1]
            if len(first) >= count:
                return _chosen(parts, np.sort(first)[:count])
        words = np.concatenate([words[end:], stream.take(end)])


def _chosen(parts: Sequence[PackedRuleset], rows: Any) -> PackedRuleset:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[rows], *parts)


def _step(recipe: Recipe) -> int:
    """Return the number of random uint32 between the start positions of successive lanes.

    A lane draws `TASKS` tasks, in parallel with other lanes. The result is the number of uint32
    that a lane is expected to use, minus an overlap of `SLACK` standard deviations.
    """
    serial = Serial(Stream(SEED).take(PILOT * FAR))
    ends = [0]
    for _ in range(PILOT):
        drawn(serial, recipe)
        ends.append(serial.at)
    lengths = np.diff(ends)
    return int(TASKS * lengths.mean() - SLACK * TASKS**0.5 * lengths.std())


def _hashes(rulesets: PackedRuleset) -> np.ndarray:
    """Return a 64-bit hash of the goal and rules of each task.

    Among a million tasks, the probability that any two different tasks have the same hash is 10^-7.
    The checksums of the task set would reveal such a collision, because a task would be missing.
    """
    words = np.column_stack([rulesets.goal, rulesets.rules]).astype(np.uint64)
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64)
    return (words * (2 * factors + 1)).sum(axis=1)


@functools.partial(jax.jit, static_argnums=2)
def _lanes(
    words: UInt32[Array, " words"], starts: Int32[Array, " lanes"], recipe: Recipe
) -> tuple[Int32[Array, "tasks lanes"], Drawn]:
    """Draw `TASKS` tasks in each lane; the lanes draw in parallel, from different parts of `words`.

    starts: index in `words` where each lane begins.

    Returns the index in `words` where each task begins, and the tasks.
    """
    draw = jax.vmap(lambda at: generate(WordDraws(words), at, recipe))

    def next_task(at: Array, _: None) -> tuple[Array, tuple[Array, Drawn]]:
        drawn = draw(at)
        return drawn.end, (at, drawn)

    return jax.lax.scan(next_task, starts, length=TASKS)[1]


def _block(words: np.ndarray, step: int, recipe: Recipe) -> tuple[PackedRuleset, int]:
    """Return the tasks that the script draws from the random uint32 in `words`.

    Also returns the index in `words` after the last task, where the next task of the script begins.

    words: random uint32; a task of the script begins at index 0.
    step: number of random uint32 between the start positions of successive lanes.
    """
    starts = np.arange(LANES, dtype=np.int32) * step
    found = jax.device_get(_lanes(words, starts, recipe))
    begins, lanes = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)
    rows, trees, end = _follow_chain(words, begins, lanes, recipe)
    return _chosen([lanes.ruleset, _packed(trees, recipe)], rows), end


def _follow_chain(
    words: np.ndarray, begins: np.ndarray, lanes: Drawn, recipe: Recipe
) -> tuple[list[int], list[Tree], int]:
    """Follow the script's sequence of tasks through the lanes, from index 0 of `words`.

    Tasks that no lane has drawn, and crowded tasks (see the module's docstring), are drawn one by
    one; they are called extra tasks. Returns the indices of the script's tasks, in order; the extra
    tasks; and the index in `words` after the last task. An index of a task refers to the tasks of
    all lanes, followed by the extra tasks.
    """
    whole = lanes.end < len(words)
    row_at = np.full(len(words) + 1, -1, np.int32)
    row_at[begins[whole]] = np.flatnonzero(whole)
    following = np.where(whole, row_at[np.minimum(lanes.end, len(words))], -1).tolist()
    crowded, ends = lanes.crowded.tolist(), lanes.end.tolist()
    rows: list[int] = []
    trees: list[Tree] = []
    serial, end, row = Serial(words), 0, int(row_at[0])
    while end < len(words) - FAR:
        if row >= 0 and not crowded[row]:
            rows.append(row)
            end, row = ends[row], following[row]
            continue
        serial.at = end
        rows.append(len(begins) + len(trees))
        trees.append(drawn(serial, recipe))
        end, row = serial.at, int(row_at[serial.at])
    return rows, trees, end


def _packed(trees: list[Tree], recipe: Recipe) -> PackedRuleset:
    """Convert generated tasks to one ruleset with leading axis (len(trees),)."""

    def table(rows: list[bytes], *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        joined = b"".join(row.ljust(size, b"\0") for row in rows)
        return np.frombuffer(joined, np.uint8).reshape(len(rows), *shape)

    rules = [b"".join(bytes(rule).ljust(7, b"\0") for rule in tree.rules) for tree in trees]
    return Ruleset(
        goal=table([bytes(tree.goal) for tree in trees], 5),
        rules=table(rules, recipe.most_rules, 7),
        init_tiles=table([bytes(_flat(tree.tiles)) for tree in trees], recipe.most_tiles, 2),
    ).packed()
