"""Tests of XLand's task sets: equal to xminigrid's, checksums, cached files, `Benchmark`."""

import functools
import pickle
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.xland import exact, sets
from jaxenvs.xland.generator import CROWDED, Recipe
from jaxenvs.xland.sets import SETS, Benchmark

TRIVIAL = "trivial-21k"


@functools.cache
def trivial_set() -> Benchmark:
    return Benchmark(rulesets=jax.tree.map(jnp.asarray, sets.drawn(TRIVIAL)))


@pytest.fixture
def trivial() -> Benchmark:
    return trivial_set()


@pytest.mark.parametrize(
    "name",
    [
        TRIVIAL,
        pytest.param("small-1m", marks=pytest.mark.full),
        *(pytest.param(n, marks=pytest.mark.slow) for n in SETS if n[0] in "mh"),
    ],
)
def test_the_sets_are_those_of_the_script(name: str, as_a_user):
    """Generate the task set; `drawn` fails if its checksums differ from those of xminigrid."""
    found = trivial_set().rulesets if name == TRIVIAL else sets.drawn(name)
    assert found.goal.shape == (SETS[name].num_rulesets,)
    first = jax.tree.map(lambda leaf: np.asarray(leaf)[:1], found).unpacked()
    assert first.goal[0].tolist() == [8, 4, 5, 3, 2]
    if name == "small-1m":
        rules = [[10, 11, 8, 3, 2, 0, 0], [7, 6, 1, 3, 4, 4, 9], [2, 11, 5, 12, 1, 0, 0], [0] * 7]
        assert first.rules[0].tolist() == rules
        tiles = [[11, 8], [4, 5], [5, 1], [11, 1], [6, 1], [3, 4], [11, 5]]
        assert first.init_tiles[0].tolist() == [*tiles, *[[0, 0]] * 3]


def serial(recipe: Recipe, count: int) -> list[exact.Tree]:
    """Return the first `count` distinct tasks, drawn one by one with CPython's random generator."""
    rng, found = random.Random(exact.SEED), {}
    while len(found) < count:
        tree = exact.drawn(rng, recipe)
        found.setdefault((tree.goal, tuple(tree.rules)), tree)
    return list(found.values())


def pairs(rule: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [rule[at : at + 2] for at in range(1, len(rule), 2)]


def test_lanes_draw_what_the_serial_script_draws(monkeypatch):
    """Parallel lanes give the same sequence of tasks as the serial script.

    A lane draws tasks from its own position of the stream of random numbers. Lanes are short here,
    so the sequence often passes to the next lane, and has tasks that no lane has drawn.
    """
    monkeypatch.setattr(exact, "LANES", 24)
    monkeypatch.setattr(exact, "TASKS", 12)
    monkeypatch.setattr(exact, "SLACK", 1.0)
    exact._lanes.clear_cache()
    recipe, count = Recipe(3, 0.05, 2, 1), 400
    trees = serial(recipe, count)
    wanted = exact._packed(trees, recipe)
    found = exact.first_distinct(recipe, count)
    exact._lanes.clear_cache()
    for name in ("goal", "rules", "init_tiles"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    named = [set().union(*map(pairs, tree.rules)) for tree in trees]
    assert sum(len(tiles) > CROWDED for tiles in named) > 20


def test_words_give_cpythons_numbers():
    rng, words = random.Random(7), exact.WordDraws(jnp.asarray(exact.Stream(7).take(4000)))
    bounds = np.array([1, 2, 11, 60, 64, 65, 70] * 20, np.int32)

    @jax.jit
    def numbers(at: jax.Array) -> tuple[jax.Array, jax.Array]:
        def draw(at: jax.Array, bound: jax.Array) -> tuple[jax.Array, jax.Array]:
            number, at = words.below(at, bound)
            chance, at = words.chance(at, 0.3)
            index, at = words.pick(at, bound)
            return at, jnp.stack([number, chance.astype(jnp.int32), index])

        return jax.lax.scan(draw, at, jnp.asarray(bounds))

    _, found = numbers(jnp.int32(0))
    for bound, (number, chance, index) in zip(bounds.tolist(), found.tolist(), strict=True):
        assert (number, bool(chance)) == (rng.randrange(bound), rng.random() < 0.3)
        assert [index] == rng.choices(range(bound))


def test_a_set_that_differs_from_its_checksum_is_refused(trivial, monkeypatch):
    drawn = jax.device_get(trivial.rulesets)
    monkeypatch.setattr(exact, "first_distinct", lambda *given: drawn)
    sets.drawn(TRIVIAL)
    other = SETS[TRIVIAL]._replace(checksums=("0" * 32,) * 4)
    monkeypatch.setitem(SETS, TRIVIAL, other)
    with pytest.raises(RuntimeError, match=r"trivial-21k drawn by .* differs from the checksum"):
        sets.drawn(TRIVIAL)


def test_an_unknown_set_is_refused_by_name():
    with pytest.raises(ValueError, match=r"name='small' is not one of .*did you mean 'small-1m'"):
        sets.benchmark("small")


@pytest.fixture
def folder(trivial, monkeypatch, tmp_path):
    """Use an empty cache folder; return it, and a list that records the names of generated sets."""
    calls = []

    def drawn(name: str):
        calls.append(name)
        return jax.device_get(trivial.rulesets)

    monkeypatch.setattr(sets, "drawn", drawn)
    monkeypatch.setenv("JAXENVS_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept", calls


def test_a_set_is_drawn_once_and_then_read_from_the_cache(folder, trivial):
    path, calls = folder
    for _ in range(2):
        assert sets.benchmark(TRIVIAL) == trivial
    assert calls == [TRIVIAL]
    assert [file.name for file in path.iterdir()] == [f"xland-{TRIVIAL}.bin"]


@pytest.mark.parametrize("damage", ["cut", "longer", "bits", "text", "pickle", "folder"])
def test_a_set_with_a_damaged_file_is_drawn_again(damage, folder, trivial):
    path, calls = folder
    sets.benchmark(TRIVIAL)
    file = path / f"xland-{TRIVIAL}.bin"
    content = bytearray(file.read_bytes())
    if damage == "bits":
        content[len(content) // 2] ^= 1
    damaged = {
        "cut": content[:-1000],
        "longer": content + b"0",
        "bits": content,
        "text": b"no tasks",
        "pickle": pickle.dumps({"trivial": content}),
    }
    if damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(damaged[damage])
    assert sets.benchmark(TRIVIAL) == trivial and len(calls) == 2
    assert sets.benchmark(TRIVIAL) == trivial and len(calls) == 2 + (damage == "folder")


@pytest.mark.parametrize("where", ["off", "/proc/none", "file/below"])
def test_a_folder_that_is_not_writable_caches_nothing(where, folder, trivial, monkeypatch):
    path, calls = folder
    (path.parent / "file").touch()
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("JAXENVS_CACHE", where)
    assert sets.benchmark(TRIVIAL) == trivial == sets.benchmark(TRIVIAL)
    assert len(calls) == 2 and not path.exists()


def test_tasks_by_index_are_the_same_inside_jit(trivial):
    get = jax.jit(Benchmark.get_ruleset)
    for index in (0, 20_999):
        assert get(trivial, index) == trivial.get_ruleset(index)
    assert get(trivial, 21_000) == trivial.get_ruleset(20_999)
    for index in (-1, 21_000):
        with pytest.raises(IndexError, match=f"index={index} is not one of the 21,000 tasks"):
            trivial.get_ruleset(index)


@pytest.mark.full
def test_tasks_are_sampled_uniformly(trivial):
    keys = jax.random.split(jax.random.key(0), 4096)
    small = trivial.split(8 / 21_000)[0]
    drawn = jax.jit(jax.vmap(Benchmark.sample_ruleset, in_axes=(None, 0)))(small, keys).packed()
    tasks = np.column_stack([drawn.goal, drawn.init_tiles])
    _, counts = np.unique(tasks, axis=0, return_counts=True)
    # 29.9 is the chi-square value of p = 1e-4 with 7 degrees of freedom.
    assert counts.shape == (8,) and ((counts - 512) ** 2 / 512).sum() < 29.9


def test_shuffling_keeps_every_task(trivial):
    shuffled = trivial.shuffle(jax.random.key(1))
    assert shuffled != trivial

    def sorted_rows(tasks: Benchmark) -> np.ndarray:
        rows = np.column_stack([tasks.rulesets.goal, tasks.rulesets.init_tiles])
        return rows[np.lexsort(rows.T)]

    np.testing.assert_array_equal(sorted_rows(shuffled), sorted_rows(trivial))


def test_a_split_keeps_the_order(trivial):
    first, rest = trivial.split(0.8)
    assert (first.num_rulesets, rest.num_rulesets) == (16_800, 4_200)
    assert first.get_ruleset(0) == trivial.get_ruleset(0)
    assert rest.get_ruleset(0) == trivial.get_ruleset(16_800)
    for share in (0, 1, 1e-6, -1, 2.0):
        with pytest.raises(ValueError, match=r"leaves .* of 21,000 tasks on one side"):
            trivial.split(share)


@pytest.mark.full
def test_a_filter_splits_by_goal_and_rules(trivial):
    held, others = trivial.filter_split(lambda goal, rules: (goal[0] == 1) & (rules[0, 0] == 0))
    assert held.num_rulesets == 60  # one for each kind and colour of object
    assert others.num_rulesets == 21_000 - 60
    kinds = np.unique(others.rulesets.unpacked().goal[:, 0])
    assert kinds.tolist() == [3, 4, 7, 8, 9, 10, 11, 12, 13, 14]
    with pytest.raises(TypeError, match=r"must return a bool for a task, got uint8 \(5,\)"):
        trivial.filter_split(lambda goal, rules: goal)
