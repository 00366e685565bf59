"""Tests of reset source `stock` (levels generated ahead): no level begins two episodes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full
from scipy.stats import chi2, chisquare

import jaxenvs
from jaxenvs.core import reset_sources, stock
from jaxenvs.craft.tables import Block

KEY = jax.random.key(3)
ROOMS = "Grid-FourRooms-v0"  # a new level rarely equals an earlier one
SMALL = "Grid-Empty-Random-5x5-v0"  # its few levels (8 free cells, 4 directions) can be counted


@functools.cache
def batch(id, rows, large=False, **fields):
    """Return a batch and its compiled functions, from a cache.

    `large` (whether states count as large) is only a part of the cache key, so that the functions
    are traced again if it changes.
    """
    venv = jaxenvs.make_vec(id, rows, reset_source="stock", **fields)
    return venv, jax.jit(venv.reset), jax.jit(venv.step), jax.jit(venv.reset_rows)


@pytest.fixture(params=[False, True], ids=["selected", "listed"])
def large(request, monkeypatch):
    """Run a test twice: with states that count as small, and with states that count as large.

    With large states, a step writes only the rows whose episode has ended.
    """
    if request.param:
        monkeypatch.setattr(stock, "SELECTED_BYTES", 0)
    return request.param


def begun(venv, steps, reset, step, limit, key=KEY):
    """Play a batch with a time limit; return the levels that auto-reset used, and counters.

    The levels do not include the first level of each row, which `reset` generates. The stock's
    counters are read after every step.
    """
    params = venv.default_params.replace(max_steps_in_episode=limit)
    state, levels, counters = reset(key, params).state, [], []
    for time in range(steps):
        now = jax.random.fold_in(key, time)
        actions = jnp.zeros(
            venv.num_envs, jnp.int32
        )  # the agent only turns left, so it stays in its start cell
        done = step(now, state, actions, params)
        state, ended = done.state, np.asarray(done.done)
        assert (np.asarray(state.env.time) == 0)[ended].all()
        assert (np.asarray(state.env.time) > 0)[~ended].all()
        rows = zip(state.env.grid, state.env.agent, ended, strict=True)
        levels += [np.asarray(g).tobytes() + np.asarray(a).tobytes() for g, a, e in rows if e]
        counters.append(np.asarray(state.stock.counters)[:2])
    return levels, np.stack(counters)


# Number of rows, `stock_size`, `chunk` (number of levels that are generated at a time) and time
# limit (of an array, the test takes the largest entry). Depending on the case, a step needs fewer
# levels than the stock has, about the same number, or far more.
CASES = [
    (40, 16, 4, np.arange(1, 41) % 7 + 1),
    pytest.param(40, 16, 16, 1, marks=pytest.mark.full),
    pytest.param(9, 7, 3, 2, marks=pytest.mark.full),
    pytest.param(70, None, None, 3, marks=pytest.mark.full),
]


@pytest.mark.parametrize(("rows", "size", "chunk", "limit"), CASES)
def test_no_level_begins_two_episodes(rows, size, chunk, limit, large):
    """Auto-reset never uses a level twice.

    All rows have the same time limit: with a limit per row, `stock` uses no stock of levels, but
    generates levels as the reset source `exact` does.
    """
    limit = np.int32(np.max(limit)) if np.ndim(limit) else np.int32(limit)
    venv, reset, step, _ = batch(ROOMS, rows, large, stock_size=size, chunk=chunk)
    levels, counters = begun(venv, 8, reset, step, limit)
    assert len(levels) == 8 // limit * rows
    assert len(set(levels)) == len(levels)
    assert (counters[:, 1] <= venv._stock_size).all() and (counters >= 0).all()
    assert (counters[:, 1] + venv._stock_chunk > venv._stock_size).all(), "it is refilled"


@pytest.mark.full
@pytest.mark.parametrize("large", [False, *with_full(True)], indirect=True)
def test_rejected_levels_are_left_out(large):
    venv, reset, step, _ = batch("BabyAI-GoToLocal-v0", 12, large, stock_size=8, chunk=5)
    state = reset(KEY).state
    assert not np.asarray(state.stock.states.rejected).any()
    levels, _ = begun(venv, 6, reset, step, np.int32(1))
    assert len(set(levels)) == len(levels) == 6 * 12


@pytest.mark.full
def test_levels_have_the_distribution_of_exact():
    """Start poses are uniform, and independent between neighbouring rows and successive steps."""
    rows, steps = 64, 40
    venv, reset, step, _ = batch(SMALL, rows, stock_size=32, chunk=8)
    params = venv.default_params.replace(max_steps_in_episode=np.int32(1))
    state, places = reset(KEY, params).state, []
    for time in range(steps):
        key = jax.random.fold_in(KEY, time)
        state = step(key, state, jnp.zeros(rows, jnp.int32), params).state
        env = state.env
        places.append((np.asarray(env.row) * 8 + env.column) * 4 + np.asarray(env.direction))
    places = np.unique(np.stack(places), return_inverse=True)[1].reshape(steps, rows)
    kinds = places.max() + 1
    assert chisquare(np.bincount(places.reshape(-1))).pvalue > 1e-4
    # Pairs of start poses: in neighbouring rows, and in consecutive steps.
    pairs = [(places[:, :-1], places[:, 1:]), (places[:-1], places[1:])]
    for a, b in pairs:
        table = np.zeros((kinds, kinds))
        np.add.at(table, (a.reshape(-1), b.reshape(-1)), 1)
        expected = table.sum(1)[:, None] * table.sum(0) / table.sum()
        statistic = ((table - expected) ** 2 / expected).sum()
        assert chi2.sf(statistic, (kinds - 1) ** 2) > 1e-4


def test_a_batch_goes_on_from_a_copy_of_its_state():
    venv, reset, step, _ = batch(ROOMS, 40, stock_size=16, chunk=4)
    params = venv.default_params.replace(max_steps_in_episode=np.int32(2))
    actions = jnp.zeros(40, jnp.int32)
    states = [reset(KEY, params).state]
    for time in range(4):
        states.append(step(jax.random.fold_in(KEY, time), states[-1], actions, params).state)
    copied = jax.tree.map(lambda leaf: jnp.asarray(np.array(leaf)), states[2])
    for time in (2, 3):
        copied = step(jax.random.fold_in(KEY, time), copied, actions, params).state
    for a, b in zip(jax.tree.leaves(copied), jax.tree.leaves(states[4]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.full
def test_batches_side_by_side_are_batches_alone():
    """Under `vmap` over two seeds, each seed gives the same results as alone.

    The stocks of the two seeds (ring buffers of levels) run empty at different times.
    """
    venv, *_ = batch(ROOMS, 9, stock_size=4, chunk=2)
    params = venv.default_params.replace(max_steps_in_episode=np.int32(2))

    def play(key):
        def one(state, key):
            chosen = jax.random.bernoulli(key, 0.3, (9,))
            return venv.reset_rows(key, state, chosen, params).state, None

        return jax.lax.scan(one, venv.reset(key, params).state, jax.random.split(key, 5))[0]

    keys = jax.random.split(KEY, 2)
    both, alone = jax.jit(jax.vmap(play))(keys), jax.jit(play)
    for i in range(2):
        for a, b in zip(jax.tree.leaves(both), jax.tree.leaves(alone(keys[i])), strict=True):
            np.testing.assert_array_equal(a[i], b)


@pytest.mark.parametrize("mode", [*with_full("same_step"), "next_step"])
def test_chosen_rows_begin_anew(mode):
    _, reset, _, restart = batch(ROOMS, 9, stock_size=4, chunk=2, autoreset=mode)
    before = reset(KEY)
    rows = jnp.arange(9) % 2 == 0
    after = restart(KEY, before.state, rows)
    leaves = zip(*map(jax.tree.leaves, (after.state.env, before.state.env)), strict=True)
    differ = [np.asarray(a != b).reshape(9, -1).any(axis=1) for a, b in leaves]
    np.testing.assert_array_equal(np.logical_or.reduce(differ), rows)
    assert after.state.stock.counters[0] != before.state.stock.counters[0]


@pytest.mark.parametrize("id", [ROOMS, *with_full("BabyAI-GoToLocal-v0")])
def test_calls_with_one_key_make_different_levels(id):
    """Repeated calls with the same key give different levels: adapters may repeat a key."""
    _, reset, _, restart = batch(id, 9, stock_size=4, chunk=2)
    state, levels = reset(KEY).state, []
    for _ in range(3):
        state = restart(KEY, state, jnp.ones(9, jnp.bool_)).state
        rows = zip(state.env.grid, state.env.agent, strict=True)
        levels += [np.asarray(g).tobytes() + np.asarray(a).tobytes() for g, a in rows]
    assert len(set(levels)) == 27


def test_a_stock_of_another_size_is_refused_or_made_anew(as_a_user):
    _, reset, _, _ = batch(ROOMS, 9, stock_size=6, chunk=3)
    *_, restart = batch(ROOMS, 9, stock_size=8, chunk=3)
    with pytest.raises(ValueError, match=r"8 levels and makes 3 .* 11 together; .* has 9\. Give"):
        restart(KEY, reset(KEY).state, jnp.ones(9, jnp.bool_))
    # `stock_size` plus `chunk` is 5 + 4 = 6 + 3, so the stocks of both batches have equal shapes.
    # Then no error is raised, but still no level may begin two episodes.
    *_, restart = batch(ROOMS, 9, stock_size=5, chunk=4)
    state, levels = reset(KEY).state, []
    for time in range(3):
        chosen = jnp.ones(9, jnp.bool_)
        state = restart(jax.random.fold_in(KEY, time), state, chosen).state
        rows = zip(state.env.grid, state.env.agent, strict=True)
        levels += [np.asarray(g).tobytes() + np.asarray(a).tobytes() for g, a in rows]
    assert len(set(levels)) == 27
    assert state.stock.counters[1] <= 5


@pytest.mark.full
def test_levels_of_other_params_are_not_used():
    """If a param changes, the stock is filled with new levels at once."""
    venv, reset, step, _ = batch("Craft-Classic-Ids-v0", 3, stock_size=4, chunk=2)
    params = venv.default_params
    flat = params.replace(
        max_steps_in_episode=np.int32(1),
        fractal_noise_angles=tuple(np.zeros_like(a) for a in params.fractal_noise_angles),
    )
    state = reset(KEY, params).state
    done = step(KEY, state, jnp.zeros(3, jnp.int32), flat)
    alike = {np.asarray(m == Block.WATER).tobytes() for m in done.state.stock.states.map}
    assert done.truncated.all() and len(alike) == 1, "angles fix where water is"
    assert {np.asarray(m == Block.WATER).tobytes() for m in done.state.env.map} == alike


def test_no_level_begins_two_episodes_after_other_params():
    """If params change while a chunk is half used, all levels that follow are new ones."""
    venv, reset, step, reset_rows = batch(ROOMS, 8, stock_size=16, chunk=8)
    limited = lambda steps: venv.default_params.replace(max_steps_in_episode=steps)  # noqa: E731
    state = reset(KEY, limited(100)).state
    state = reset_rows(KEY, state, jnp.arange(8) < 5, limited(100)).state
    assert state.stock.counters[0] == 5
    levels = []
    for time in range(12):
        now = jax.random.fold_in(KEY, time)
        state = step(now, state, jnp.zeros(8, jnp.int32), limited(1)).state
        rows = zip(state.env.grid, state.env.agent, strict=True)
        levels += [np.asarray(grid).tobytes() + np.asarray(agent).tobytes() for grid, agent in rows]
    assert len(set(levels)) == len(levels) == 96


@pytest.mark.full
def test_params_of_each_environment_are_exact():
    venv, reset, step, _ = batch(ROOMS, 5)
    limits = jnp.arange(1, 6, dtype=jnp.int32)
    params = venv.default_params.replace(max_steps_in_episode=limits)
    exact = jaxenvs.make_vec(ROOMS, 5, reset_source="exact")
    first, other = reset(KEY, params), jax.jit(exact.reset)(KEY, params)
    assert first.state.stock is None
    actions = jnp.zeros(5, jnp.int32)
    results = (
        step(KEY, first.state, actions, params),
        jax.jit(exact.step)(KEY, other.state, actions, params),
    )
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.full
def test_invalid_stock_settings_raise(as_a_user, monkeypatch):
    with pytest.raises(ValueError, match="stock_size=0 is out of range; it must be from 1 to"):
        jaxenvs.make_vec(ROOMS, 4, reset_source="stock", stock_size=0)
    with pytest.raises(ValueError, match=r"stock_size=268435457 .* from 1 to 268435456"):
        jaxenvs.make_vec(ROOMS, 4, reset_source="stock", stock_size=(1 << 28) + 1)
    with pytest.raises(ValueError, match=r"chunk=9 .* stock_size=8"):
        jaxenvs.make_vec(ROOMS, 4, reset_source="stock", stock_size=8, chunk=9)
    vast = jaxenvs.make_vec("Craft-Ids-v0", 4, reset_source="stock", stock_size=1 << 26)
    with pytest.raises(ValueError, match=r"stock_size=67,108,864 needs .* GiB .* smaller"):
        jax.eval_shape(vast.reset, KEY)


def test_a_stock_is_the_default_where_there_is_an_accelerator(monkeypatch):
    assert jaxenvs.make_vec("BabyAI-GoToLocal-v0", 4).reset_source == "exact"
    monkeypatch.setattr("jaxenvs.core.vector.has_accelerator", lambda: True)
    assert jaxenvs.make_vec("BabyAI-GoToLocal-v0", 4).reset_source == "stock"
    assert jaxenvs.make_vec("BabyAI-GoToLocal-v0", 4, reset_source="exact").reset_source == "exact"
    assert jaxenvs.make_vec("Grid-DoorKey-5x5-v0", 4).reset_source == "auto"
    never = jaxenvs.make_vec("BabyAI-GoToLocal-v0", 4, autoreset="none")
    assert never.reset_source == "exact", "nothing would use its levels"


def test_a_ring_is_as_long_as_its_states_are_small():
    craft, baby = (jaxenvs.make(id) for id in ("Craft-Ids-v0", "BabyAI-GoToLocal-v0"))
    assert stock.usual_chunk(craft, 65_536) == 1024 and stock.usual_chunk(baby, 65_536) == 8192
    assert stock.usual_chunk(baby, 64) == 128 and stock.usual_size(128, 64) == 256
    assert stock.usual_chunk(craft, 8) == 2 and stock.usual_chunk(craft, 1) == 1
    assert stock.usual_size(1024, 65_536) == 4096 and stock.usual_size(1024, 262_144) == 16_384
    assert reset_sources.SELECTED_BYTES == stock.SELECTED_BYTES
