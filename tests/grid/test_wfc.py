"""Tests of wave function collapse against MiniGrid 3.2.0: patterns, solver, largest areas, levels.

`wfc_upstream.py` supplies MiniGrid's solver and recorded levels.
"""

import functools

import defaults
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import wfc_upstream
from features import grown
from scipy import stats

import jaxenvs
from jaxenvs.grid import Kind, collapse, tiles, wfc

pytestmark = pytest.mark.full

PRESETS = tuple(wfc.PRESETS)
IN_FULL = [preset for preset in PRESETS if preset not in ("MazeSimple", "RoomsFabric")]
BY_DEFAULT = ["MazeSimple", "RoomsFabric", *defaults.with_full(*IN_FULL)]
SIDE = wfc_upstream.SIDE
LEVEL = 1e-3  # smallest p-value, corrected by Holm's method, with which a preset passes
FAR = 8  # largest distance between two walls for which pairs of walls are counted


def in_order(preset, watched):
    """Return, for each pattern of MiniGrid, its index in this library's catalogue."""
    ours = {cells.tobytes(): i for i, cells in enumerate(wfc.catalogue(preset).patterns)}
    return [ours[cells.astype(np.uint8).tobytes()] for cells in watched.patterns]


def members(patterns, words):
    """Unpack sets of patterns, stored as bits of words, to a bool array (patterns, ...)."""
    words, number = np.asarray(words, np.uint32), np.arange(patterns)
    bit = (number % 32).astype(np.uint32).reshape(-1, *[1] * (words.ndim - 1))
    return (words[number // 32] >> bit & 1).astype(bool)


@pytest.mark.parametrize("preset", BY_DEFAULT)
def test_patterns_weights_and_neighbours_are_minigrids(preset):
    book, watched = wfc.catalogue(preset), wfc_upstream.watched(preset, 0)
    order = in_order(preset, watched)
    assert sorted(order) == list(range(len(book.patterns)))
    assert watched.weights == (2 * book.weights[order]).tolist()
    for axis, step, rules in book.sides:
        fits = np.zeros((len(order), len(order)), bool)
        for there, here in rules:
            fits |= np.outer(members(len(order), here), members(len(order), there))
        side = (step, 0) if axis == 1 else (0, step)
        np.testing.assert_array_equal(fits[np.ix_(order, order)], watched.adjacency[side])


@functools.cache
def propagated(preset):
    """Return a compiled function that propagates constraints in a wave until nothing changes.

    A wave has the possible patterns of each cell.
    """
    book = wfc.catalogue(preset)

    def changes(waves):
        return jnp.array([(a != b).any() for a, b in zip(*waves, strict=True)]).any()

    def sweep(waves):
        return collapse.swept(book, waves[0]), waves[0]

    return jax.jit(lambda wave: jax.lax.while_loop(changes, sweep, sweep((wave, wave)))[0])


def check_waves(preset, seed):
    """Replay MiniGrid's choices of patterns; assert that our solver agrees after each choice.

    Our solver must choose the same cells and compute the same waves (the possible patterns of each
    cell). Return the number of contradictions: how often a cell had no possible pattern left.
    """
    watched, book = wfc_upstream.watched(preset, seed), wfc.catalogue(preset)
    order, propagate = in_order(preset, watched), propagated(preset)
    rank = np.argsort(np.argsort(watched.order.T, axis=None)).reshape(SIDE, SIDE)
    rank = jnp.asarray(rank, jnp.int32)
    full = tuple(jnp.full((SIDE, SIDE), word, jnp.uint32) for word in book.everything)
    waves = iter(watched.waves)

    def check(wave):
        theirs = next(waves)
        mine = members(len(order), np.stack(wave))[order]
        np.testing.assert_array_equal(mine, theirs.transpose(0, 2, 1))

    wave, contradictions = full, 0
    for pattern, x, y in watched.choices:
        wave = propagate(wave)
        check(wave)
        priority = np.asarray(collapse.priorities(wave, rank))
        assert np.unravel_index(priority.argmin(), priority.shape) == (y, x)
        number = order[pattern]
        bits = [
            np.uint32(1 << number % 32) * np.uint32(number // 32 == i) for i in range(len(wave))
        ]
        wave = propagate(tuple(word.at[y, x].set(b) for word, b in zip(wave, bits, strict=True)))
        check(wave)
        fails = bool((collapse.counted(wave) == 0).any())
        wave, contradictions = full if fails else wave, contradictions + fails
    assert (collapse.counted(wave) == 1).all() and next(waves, None) is None
    return contradictions


@pytest.mark.parametrize("preset", BY_DEFAULT)
def test_waves_are_minigrids_after_every_propagation(preset):
    check_waves(preset, 0)


@pytest.mark.full
@pytest.mark.parametrize("preset", PRESETS)
def test_waves_of_twenty_levels_are_minigrids(preset):
    for seed in range(1, 21):
        check_waves(preset, seed)


def test_fast_products_are_those_of_numpy():
    rng = np.random.default_rng(0)
    a, b = rng.random((42, 42)) < 0.1, rng.random((42, 529)) < 0.1
    np.testing.assert_array_equal(wfc_upstream.BitMatrix(a) @ b, a @ b)


def test_patterns_are_drawn_by_weight():
    book = wfc.catalogue("ObstaclesHogs3")
    possible = [jnp.uint32(0xF0F0F0F0), jnp.uint32(0x5)]
    words = jax.random.bits(jax.random.key(0), (20_000,), jnp.uint32)
    drawn = np.stack(jax.vmap(lambda word: jnp.stack(collapse.drawn(book, possible, word)))(words))
    member = members(len(book.weights), np.stack(possible))
    counts = [members(len(book.weights), row) for row in np.unique(drawn, axis=0)]
    assert (np.sum(counts, axis=0) == member).all(), "one possible pattern, and each of them"
    seen = np.sum([members(len(book.weights), row) for row in drawn], axis=0)[member]
    expected = book.weights[member] / book.weights[member].sum() * len(words)
    assert stats.chisquare(seen, expected).pvalue > LEVEL


largest_areas = jax.jit(jax.vmap(wfc.largest_area))


@pytest.mark.parametrize("preset", PRESETS)
def test_areas_of_recorded_mosaics_are_minigrids(preset):
    free, area, places = wfc_upstream.recorded(preset)
    np.testing.assert_array_equal(largest_areas(free), area)
    number = np.arange(len(area))
    assert area[number, places[:, 0] - 1, places[:, 1] - 1].all()
    assert area[number, places[:, 3] - 1, places[:, 4] - 1].all()


def test_the_first_of_equal_areas_is_that_of_the_first_column():
    drawings = {
        ".#. .#. ###": ".## .## ###",
        "##. ... ##.": "##. ... ##.",
        "##. #.# ..#": "### #.# ..#",
        "#.. ### ..#": "### ### ..#",
        ".## ### ###": ".## ### ###",
        "### ### ###": "### ### ###",
    }

    def cells(drawing):
        return [[cell == "." for cell in row] for row in drawing.split()]

    given = np.array([cells(drawing) for drawing in drawings])
    wanted = np.array([cells(drawing) for drawing in drawings.values()])
    np.testing.assert_array_equal(largest_areas(given), wanted)


@functools.cache
def drawn(preset, count):
    """Return `count` levels of this library in the format of `wfc_upstream.recorded`."""
    env = jaxenvs.make(f"Grid-WFC-{preset}-v0")

    @jax.jit
    @jax.vmap
    def one(key):
        level = env.generate(key)
        return env.mosaic(key), level.grid, level.pose, level.accepted

    found = [one(keys) for keys in jax.random.split(jax.random.key(0), (count // 50, 50))]
    found = jax.device_get(jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *found))
    (free, complete), grids, poses, accepted = found
    assert complete.all() and accepted.all()
    assert (grids[:, [0, -1]] == tiles.WALL).all() and (grids[:, :, [0, -1]] == tiles.WALL).all()
    area = np.isin(grids & 15, (Kind.EMPTY, Kind.GOAL))[:, 1:-1, 1:-1]
    goals = np.argwhere(grids == tiles.GOAL)
    assert (goals[:, 0] == np.arange(len(grids))).all(), "one goal in each level"
    return free, area, np.concatenate([poses, goals[:, 1:]], axis=1).astype(int)


def path_lengths(area, places):
    """Return for each level the number of moves on the shortest path from agent to goal."""
    number, reached = np.arange(len(area)), np.zeros_like(area)
    reached[number, places[:, 0] - 1, places[:, 1] - 1] = True
    lengths = np.zeros(len(area), int)
    while (away := ~reached[number, places[:, 3] - 1, places[:, 4] - 1]).any():
        lengths += away
        reached = reached | (grown(reached) & area)
        assert lengths.max() <= area[0].size
    return lengths


def statistics(preset, sample):
    """Return statistics of a sample: name -> array (levels,)."""
    free, area, places = sample
    wall, width = ~free, wfc.PRESETS[preset].width
    found = {
        "free": free.sum(axis=(1, 2)),
        "area": area.sum(axis=(1, 2)),
        "path": path_lengths(area, places),
        "direction": places[:, 2],
    }
    found |= {f"place {i}": places[:, i] for i in (0, 1, 3, 4)}
    for far in range(1, FAR + 1):
        found[f"columns {far}"] = (wall[:, :, far:] & wall[:, :, :-far]).sum(axis=(1, 2))
        found[f"rows {far}"] = (wall[:, far:] & wall[:, :-far]).sum(axis=(1, 2))
    squares = np.lib.stride_tricks.sliding_window_view(wall, (width, width), axis=(1, 2))
    codes = squares.reshape(len(wall), -1, width**2) @ (1 << np.arange(width**2))
    for code in np.unique(codes):
        found[f"pattern {code}"] = (codes == code).sum(axis=1)
    return found


def least_chance(preset, ours, theirs):
    """Return the smallest p-value of two-sample tests of all statistics, with Holm's correction.

    Holm's correction multiplies the smallest p-value by the number of tests.
    """
    mine, its = statistics(preset, ours), statistics(preset, theirs)
    chances = {}
    for name in mine.keys() | its.keys():
        a, b = (found.get(name, np.zeros(2)) for found in (mine, its))
        if np.ptp(np.concatenate([a, b])):
            chances[name, "distribution"] = stats.ks_2samp(a, b).pvalue
            chances[name, "mean"] = stats.ttest_ind(a, b, equal_var=False).pvalue
    worst = min(chances, key=chances.get)
    report = f"{len(chances)} tests, {len(ours[0])} levels, least p {chances[worst]:.2g}"
    print(f"{preset}: {report} {worst}")
    return min(1.0, chances[worst] * len(chances))


COUNTS = [pytest.param(preset, 1_000, marks=pytest.mark.full) for preset in PRESETS]


@pytest.mark.full
@pytest.mark.parametrize(("preset", "count"), [("ObstaclesBlackdots", 300), *COUNTS])
def test_levels_come_as_often_as_upstream(preset, count):
    assert least_chance(preset, drawn(preset, count), wfc_upstream.recorded(preset)) > LEVEL


@pytest.mark.full
def test_the_comparison_sees_patterns_weighted_by_their_frequency(monkeypatch):
    """Check that weights equal to the frequencies of patterns in the image give a small p-value."""
    preset = "ObstaclesBlackdots"
    book = wfc.catalogue(preset)
    frequencies = np.where((book.patterns == 0).any(axis=(1, 2)), 1, 5).astype(np.int32)
    monkeypatch.setattr(wfc, "catalogue", lambda _: book._replace(weights=frequencies))
    ours = drawn.__wrapped__(preset, 100)
    assert least_chance(preset, ours, wfc_upstream.recorded(preset)) < LEVEL


@pytest.mark.full
def test_a_contradiction_restarts_the_level_with_the_same_order_of_cells(monkeypatch):
    """Replay a level whose image causes contradictions, unlike the images of the presets."""
    image = "...... .####. .#..#. .#.##. .#.... .####."
    monkeypatch.setitem(wfc.PRESETS, "Hook", wfc.Preset(3, True, image))
    assert check_waves("Hook", 0) > 0


@pytest.mark.parametrize(("size", "rejected"), [(8, False), (7, True)])
def test_a_level_without_a_solution_is_reported(size, rejected, monkeypatch):
    """A chessboard with an odd size cannot wrap around, so no mosaic can be completed."""
    monkeypatch.setitem(wfc.PRESETS, "Chess", wfc.Preset(2, True, "#. .#"))
    env = jaxenvs.make("Grid-WFC-MazeSimple-v0", preset="Chess", size=size)
    assert env.mosaic(jax.random.key(0))[1] == (not rejected)


def test_a_level_without_room_for_agent_and_goal_is_reported():
    env = jaxenvs.make("Grid-WFC-ObstaclesAngular-v0", size=6)
    keys = jax.random.split(jax.random.key(0), 200)
    level = jax.jit(jax.vmap(env.sample_level))(keys)
    cells = np.isin(level.grid & 15, (Kind.EMPTY, Kind.GOAL)).sum(axis=(1, 2))
    np.testing.assert_array_equal(level.accepted, cells > 1)
    assert not level.accepted.all()
    state = env.reset_to(keys[0], jax.tree.map(lambda x: x[level.accepted.argmin()], level)).state
    assert env.info(state)["level_rejected"]


def test_a_preset_that_does_not_exist_names_the_others():
    with pytest.raises(ValueError, match="did you mean 'ObstaclesHogs3'"):
        jaxenvs.make("Grid-WFC-MazeSimple-v0", preset="ObstaclesHog3")


def test_the_word_maze_changes_no_other_observation_space():
    """The word `maze` enlarges the mission space of WFC only.

    Mission spaces of other ids keep their size, so that old checkpoints can still be used.
    """
    spaces = {
        id: jaxenvs.make(id, obs="dict").observation_space.spaces["mission"]
        for id in ("Grid-GoToDoor-5x5-v0", "BabyAI-GoToLocal-v0", "Grid-WFC-MazeSimple-v0")
    }
    assert [int(np.max(space.high)) for space in spaces.values()] == [54, 54, 55]
    env = jaxenvs.make("Grid-WFC-MazeSimple-v0", obs="dict", size=8)
    assert env.reset(jax.random.key(0)).obs["mission"].max() == 55
