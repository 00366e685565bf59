"""Tests that tasks drawn inside `jit` have the distribution of XLand-MiniGrid's script.

Chi-square tests compare kinds, tiles, counts and the depth of the tree of rules; p must exceed
1e-4. The script draws its tasks one by one with CPython's `random`, with another seed than the task
sets that xminigrid downloads.
"""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2_contingency

from jaxenvs import xland
from jaxenvs.testing.contract import enable_x64
from jaxenvs.xland import Rule, Ruleset, exact
from jaxenvs.xland.generator import Recipe
from jaxenvs.xland.sets import SETS

# REJECT: p-value below which a test fails. RARE: values that occur less often than this, in both
# samples together, are merged.
REJECT, RARE = 1e-4, 10
OF_SETS = {name: wanted.recipe for name, wanted in SETS.items() if name[-2:] != "3m"}
MIXED = Recipe(2, 0.2, 2, 2)  # settings that use every part of the task generator


def theirs(recipe: Recipe, count: int) -> Ruleset:
    rng = random.Random(7)
    return exact._packed([exact.drawn(rng, recipe) for _ in range(count)], recipe).unpacked()


def ours(recipe: Recipe, count: int) -> Ruleset:
    keys = jax.random.split(jax.random.key(7), count)
    draw = jax.jit(jax.vmap(lambda key: xland.sample_ruleset(key, **recipe._asdict())))
    return jax.device_get(draw(keys))


def codes(pairs: np.ndarray) -> np.ndarray:
    return pairs[..., 0] + 16 * pairs[..., 1].astype(np.int64)


def depth(goal: np.ndarray, rules: np.ndarray) -> int:
    """Return the depth of the tree of rules that make the goal's tiles, directly or indirectly.

    If several rules make a tile, only the first one counts; the others are distractors.
    """
    makers = {}
    for rule in rules[rules[:, 0] > 0].tolist():
        inputs = [tuple(rule[1:3])]
        inputs += [tuple(rule[3:5])] if Rule.NEAR <= rule[0] <= Rule.LEFT else []
        makers.setdefault(tuple(rule[5:7] if len(inputs) == 2 else rule[3:5]), inputs)

    def above(tile: tuple[int, ...]) -> int:
        inputs = makers.pop(tile, None)
        return 0 if inputs is None else 1 + max(map(above, inputs))

    return max(above(tuple(tile)) for tile in goal[1:].reshape(2, 2).tolist())


def features(tasks: Ruleset) -> dict[str, np.ndarray]:
    """Return features of tasks: name -> array with one value per task, rule or tile."""
    goal, rules, laid = tasks.goal, tasks.rules, tasks.init_tiles
    flat = rules[rules[..., 0] > 0]
    pair = (flat[:, 0] >= Rule.NEAR) & (flat[:, 0] <= Rule.LEFT)
    made = np.where(pair[:, None], flat[:, 5:7], flat[:, 3:5])
    tiles = codes(laid)
    ordered = np.sort(tiles, axis=1)
    repeated = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] > 0)).sum(axis=1)
    return {
        "goal kind": goal[:, 0],
        "goal a": codes(goal[:, 1:3]),
        "goal b": codes(goal[:, 3:5]),
        "rule kind": flat[:, 0],
        "rule a": codes(flat[:, 1:3]),
        "rule b": codes(flat[pair, 3:5]),
        "rule made": codes(made),
        "rule of equal tiles": (flat[:, 1:3] == flat[:, 3:5]).all(axis=1)[pair],
        "rules": (rules[..., 0] > 0).sum(axis=1),
        "tiles": (tiles > 0).sum(axis=1),
        "first tile": tiles[:, 0],
        "last tile": np.take_along_axis(tiles, (tiles > 0).sum(axis=1)[:, None] - 1, axis=1),
        "repeated tiles": repeated,
        "depth": np.array([depth(*task) for task in zip(goal, rules, strict=True)]),
    }


def chance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the p-value of the hypothesis that both samples have the same distribution."""
    values = np.union1d(one, other)
    counts = np.array([[(sample == value).sum() for value in values] for sample in (one, other)])
    rare = counts.sum(axis=0) < RARE
    counts = np.column_stack([counts[:, ~rare], counts[:, rare].sum(axis=1)])
    counts = counts[:, counts.any(axis=0)]
    return chi2_contingency(counts).pvalue if counts.shape[1] > 1 else 1.0


def compare(recipe: Recipe, count: int) -> None:
    one, other = features(theirs(recipe, count)), features(ours(recipe, 3 * count))
    chances = {name: chance(one[name], other[name]) for name in one}
    name = min(chances, key=chances.__getitem__)
    print(f"{recipe}: least p {chances[name]:.4f} ({name})")
    assert chances[name] > REJECT, name


@pytest.mark.full
@pytest.mark.parametrize("recipe", [OF_SETS["trivial-21k"], MIXED], ids=["trivial", "mixed"])
def test_tasks_come_as_often_as_from_the_script(recipe: Recipe, as_a_user):
    compare(recipe, 2_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_SETS)
def test_tasks_of_each_set_come_as_often(name: str, as_a_user):
    compare(OF_SETS[name], 30_000)


@pytest.mark.full
def test_a_task_is_the_same_for_a_key_however_it_is_drawn():
    key = jax.random.key(3)
    alone = xland.sample_ruleset(key, depth=1, prune=0.2)
    draw = jax.jit(jax.vmap(lambda key: xland.sample_ruleset(key, depth=1, prune=0.2)))
    assert jax.tree.map(lambda leaf: leaf[1], draw(jax.random.split(key, 2))) != alone
    assert jax.tree.map(lambda leaf: leaf[1], draw(jnp.stack([key, key]))) == alone
    with enable_x64(True):
        assert xland.sample_ruleset(key, depth=1, prune=0.2) == alone
    sized = xland.sample_ruleset(key, depth=1, prune=0.2, num_rules=18, num_tiles=23)
    assert sized.rules.shape == (18, 7) and sized.init_tiles.shape == (23, 2)
    assert sized.sized(*(len(x) for x in (alone.rules, alone.init_tiles))) == alone


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 4}, "depth=4 is out of range; it must be from 0 to 3"),
        ({"depth": 1.0}, "depth must be a Python int, got float 1.0"),
        ({"prune": 1.5}, "prune=1.5 must be a probability, from 0 to 1"),
        ({"distractors": -1}, "distractors=-1 is out of range; it must be from 0 to 64"),
        ({"objects": 65}, "objects=65 is out of range; it must be from 0 to 64"),
        ({"num_rules": 3}, "num_rules=3 is out of range; it must be at least 4"),
        ({"num_tiles": 9}, "num_tiles=9 is out of range; it must be at least 10"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message, as_a_user):
    with pytest.raises((TypeError, ValueError), match=f"^sample_ruleset: {message}$"):
        xland.sample_ruleset(jax.random.key(0), **settings)
