"""Tests of wrappers in batches, nested in each other, and behind adapters to other interfaces.

Batches are tested with each reset source, which says how auto-resets get their states.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs import testing, wrappers
from jaxenvs.adapters import to_dm_env, to_gymnasium, to_gymnax

pytestmark = pytest.mark.full

GROUP = "wrappers in batches"
KEY = jax.random.key(1)
CARTPOLE = jaxenvs.make("Classic-CartPole-v0")
LAVA = jaxenvs.make("Grid-LavaGapS5-v0")
SHORT = wrappers.TimeLimit(CARTPOLE, 3)
ROWS, STEPS = 3, 8


def halved(reward):
    return reward / 2


KINDS = {
    "Flatten": wrappers.Flatten,
    "FrameStack": functools.partial(wrappers.FrameStack, count=2),
    "PreviousStep": wrappers.PreviousStep,
    "EpisodeStatistics": wrappers.EpisodeStatistics,
    "LogWrapper": wrappers.LogWrapper,
    "NormalizeObservation": wrappers.NormalizeObservation,
    "NormalizeReward": wrappers.NormalizeReward,
    "ClipReward": functools.partial(wrappers.ClipReward, max_reward=0.5),
    "TransformReward": functools.partial(wrappers.TransformReward, func=halved),
}


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def rollout(env, steps=STEPS, action=1):
    """Reset one environment, repeat one action, and return the reset and the stacked steps.

    Only a wrapper `AutoReset` resets the environment when an episode ends.
    """

    def one(state, key):
        stepped = env.step(key, state, action)
        return stepped.state, stepped

    def run(key):
        first = env.reset(key)
        return first, jax.lax.scan(one, first.state, jax.random.split(key, steps))[1]

    return jax.jit(run)(KEY)


def batch_rollout(env, **batch):
    """Return the reset and the steps of a batch with auto-reset, stacked over time."""
    venv = jaxenvs.make_vec(env, ROWS, **batch)

    def one(state, key):
        stepped = venv.step(key, state, jnp.arange(ROWS, dtype=jnp.int32) % 2)
        return stepped.state, stepped

    def run(key):
        first = venv.reset(key)
        return first, jax.lax.scan(one, first.state, jax.random.split(key, STEPS))[1]

    return jax.jit(run)(KEY)


@pytest.mark.full
@pytest.mark.parametrize("source", ["fresh", "stock", *with_full("exact", "auto", "pool")])
def test_statistics_outlive_episodes_with_each_reset_source(source):
    """Running statistics count every observation of a reset or a step exactly once."""
    env = wrappers.LogWrapper(wrappers.NormalizeObservation(SHORT))
    _, steps = batch_rollout(env, reset_source=source, pool_size=4)
    normalised, done = jax.device_get((steps.state.env.env, steps.done))
    ends = np.cumsum(done, axis=0)
    seen = 1 + np.arange(1, STEPS + 1)[:, None] + ends
    np.testing.assert_allclose(normalised.memory.count, seen + 1e-4, rtol=1e-6)
    raw = np.asarray(jax.vmap(jax.vmap(SHORT.observe))(steps.state.env.env.env))
    moments = normalised.memory
    wanted = (raw - moments.mean) / np.sqrt(moments.variance + 1e-8)
    np.testing.assert_allclose(steps.obs, wanted, rtol=1e-4, atol=1e-5)
    assert (
        ends[-1].min() == 2 and (normalised.env.time == (np.arange(STEPS) + 1)[:, None] % 3).all()
    )
    times = np.broadcast_to(np.arange(1, STEPS + 1)[:, None], (STEPS, ROWS))
    np.testing.assert_array_equal(steps.info["timestep"], times)
    lengths = np.where(ends > 0, 3, 0)
    np.testing.assert_array_equal(steps.info["returned_episode_lengths"], lengths)


def test_a_step_that_only_restarts_is_not_counted():
    """With `next_step`, statistics do not count the step that only resets.

    In this step the batch also steps the environment, but discards the result.
    """
    env = wrappers.LogWrapper(wrappers.NormalizeObservation(SHORT))
    _, steps = batch_rollout(env, autoreset="next_step")
    begins = np.arange(STEPS) % 4 == 3
    log, moments = steps.state.env.memory, steps.state.env.env.memory
    counted = np.broadcast_to(np.cumsum(~begins)[:, None], (STEPS, ROWS))
    np.testing.assert_array_equal(log.timestep, counted)
    np.testing.assert_array_equal(log.returned.length, np.where(counted > 2, 3, 0))
    seen = np.arange(1, STEPS + 1) + 1
    np.testing.assert_allclose(moments.count, np.stack([seen] * ROWS, 1) + 1e-4, rtol=1e-6)


def test_rows_that_are_reset_by_hand_keep_their_statistics():
    venv = jaxenvs.make_vec(wrappers.NormalizeObservation(SHORT), ROWS, autoreset="none")
    state = venv.reset(KEY).state
    before = state.env.memory
    begun = venv.reset_rows(KEY, state, jnp.array([True, False, False]))
    wanted = np.asarray(before.count) + np.array([1, 0, 0])
    np.testing.assert_allclose(begun.state.env.memory.count, wanted)


def test_a_batch_shares_statistics_on_request():
    env = wrappers.NormalizeReward(wrappers.NormalizeObservation(SHORT, shared=True), shared=True)
    _, steps = batch_rollout(env)
    for moments in (steps.state.env.memory.moments, steps.state.env.env.memory):
        for leaf in jax.tree.leaves(moments):
            np.testing.assert_array_equal(leaf, leaf[:, :1].repeat(ROWS, 1))
        wanted = ROWS * np.arange(1, STEPS + 1) + 1e-4
        np.testing.assert_allclose(moments.count[:, 0], wanted, rtol=1e-6)
    with pytest.raises(ValueError, match="axis_name='envs'"):
        env.step(KEY, env.reset(KEY).state, 0)
    with pytest.raises(ValueError, match=r"shared=True\) needs autoreset='same_step'"):
        jaxenvs.make_vec(wrappers.LogWrapper(env), ROWS, autoreset="next_step")


def test_repeated_steps_would_make_shared_statistics_differ():
    shared = wrappers.NormalizeObservation(SHORT, shared=True)
    with pytest.raises(ValueError, match=r"ActionRepeat: NormalizeObservation\(shared=True\) bel"):
        wrappers.ActionRepeat(wrappers.LogWrapper(shared), 3)
    env = wrappers.NormalizeObservation(wrappers.ActionRepeat(SHORT, 3), shared=True)
    counts = batch_rollout(env)[1].state.env.memory.count
    np.testing.assert_array_equal(counts, counts[:, :1].repeat(ROWS, 1))


def test_an_evaluation_leaves_the_statistics_as_they_are():
    env = wrappers.NormalizeReward(wrappers.NormalizeObservation(SHORT, shared=True), shared=True)
    learned = jax.tree.map(lambda leaf: leaf[-1, 0], batch_rollout(env)[1].state.env)
    quiet = dataclasses.replace(env.env, update_running_mean=False)
    frozen = dataclasses.replace(env, env=quiet, update_running_mean=False)
    begun = frozen.restart(KEY, learned)
    after = frozen.step(KEY, begun.state, 1)
    same(after.state.memory.moments, learned.memory.moments)
    same(after.state.env.memory, learned.env.memory)


@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    [
        *with_full("Flatten", "EpisodeStatistics", "ClipReward", "TransformReward"),
        *with_full("PreviousStep", "LogWrapper", "NormalizeObservation"),
        *("FrameStack", "NormalizeReward"),
    ],
)
def test_an_autoreset_may_be_inside_or_outside(kind):
    """`AutoReset` gives the same results inside and outside the wrapper `kind`."""
    wrapper = KINDS[kind]
    outside, steps = rollout(wrappers.AutoReset(wrapper(SHORT)))
    inside, wanted = rollout(wrapper(wrappers.AutoReset(SHORT)))
    same(outside, inside)
    same(steps._replace(info=0), wanted._replace(info=0))
    for name in ("final_obs", "episode", "returned_episode_returns", "timestep"):
        assert (name in steps.info) == (name in wanted.info)
        same(steps.info.get(name), wanted.info.get(name))
    assert steps.done.sum() == 2


def test_an_autoreset_reports_the_end_and_restarts():
    env = wrappers.AutoReset(SHORT)
    first, steps = rollout(env)
    state, plain = first.state, jax.jit(SHORT.step)
    for time in range(STEPS):
        wanted = plain(KEY, state, 1)
        same(steps.info["final_obs"][time], wanted.obs)
        done = (time + 1) % 3 == 0
        assert bool(steps.truncated[time]) == done and not steps.terminated[time]
        state = jax.tree.map(lambda leaf, time=time: leaf[time], steps.state)
        same(steps.obs[time], SHORT.observe(state))
        assert state.time == (0 if done else wanted.state.time)
    begun = steps.obs[2::3]
    assert len(np.unique(np.asarray(begun), axis=0)) == len(begun), "each reset has its own key"


def test_an_autoreset_reports_the_mask_of_the_last_state():
    puzzle = wrappers.AutoReset(jaxenvs.make("Puzzle-SlidingTile-3x3-v0", scramble=1))
    state = puzzle.reset_to(KEY, puzzle.read_level("1 2 3\n4 5 6\n7 0 8")).state
    step = puzzle.step(KEY, state, 1)
    ended = puzzle.env.step(KEY, state, 1)
    assert step.terminated and puzzle.succeeded(step)
    same(step.info["final_mask"], puzzle.env.action_mask(ended.state))


def test_what_resets_itself_is_refused_where_something_else_does():
    env = wrappers.LogWrapper(wrappers.AutoReset(CARTPOLE))
    for make in (
        lambda: jaxenvs.make_vec(env, 2),
        lambda: wrappers.TimeLimit(env, 5),
        lambda: wrappers.AutoReset(env),
        lambda: to_gymnax(env),
        lambda: to_gymnasium(env),
    ):
        with pytest.raises(ValueError, match="AutoReset"):
            make()
    assert jaxenvs.make_vec(env, 2, autoreset="none").num_envs == 2


@pytest.mark.full
def test_success_does_not_depend_on_a_changed_reward():
    """Lower rewards from a wrapper do not change whether an episode succeeds.

    LavaGap defines success as a reward above 0.
    """
    level = LAVA.sample_level(KEY)
    # Put the goal two cells in front of the agent.
    level = level.replace(grid=level.grid.at[1, 3].set(0x18).at[1, 2].set(1))
    lowered = wrappers.TransformReward(LAVA, lambda reward: reward - 5)
    for env in (
        lowered,
        wrappers.NormalizeReward(lowered),
        wrappers.ClipReward(LAVA, max_reward=-1.0),
        wrappers.LogWrapper(wrappers.ActionRepeat(lowered, 2)),
    ):
        state, times = env.reset_to(KEY, level).state, 1 if "Repeat" in env.name else 2
        for time in range(times):
            step = env.step(KEY, state, 2)
            state = step.state
            assert env.succeeded(step) == (time == times - 1)
        assert step.terminated and step.reward < 0
    score = wrappers.ClipReward(jaxenvs.make("Classic-Pendulum-v0"), -1.0)
    step = score.step(KEY, score.reset(KEY).state, jnp.zeros(1, jnp.float32))
    assert "succeeded" not in step.info and score.succeeded(step) is None


def test_limits_of_repeated_actions_count_the_agents_actions():
    env = wrappers.ActionRepeat(wrappers.TimeLimit(CARTPOLE, 10), 4)
    _, steps = rollout(env, 3, 0)
    params = env.default_params
    assert steps.state.time.tolist() == [1, 2, 3] and steps.done.tolist() == [False, False, True]
    assert steps.state.env.time.tolist()[:2] == [4, 8]
    assert env.time_limit(env.state_shape, params) == 3 and env.shortest_limit(params) == 3
    outer = wrappers.TimeLimit(wrappers.ActionRepeat(CARTPOLE, 4), 2)
    assert rollout(outer, 2, 0)[1].truncated.tolist() == [False, True]
    assert outer.shortest_limit(params) == outer.time_limit(outer.state_shape, params) == 2
    assert wrappers.ActionRepeat(LAVA, 4).reward_range == (0.0, 4.0)


@pytest.mark.parametrize(
    "adapter", ["gymnax, a batch", "gymnasium", *with_full("gymnax", "dm_env")]
)
def test_adapters_keep_statistics_over_episodes(adapter):
    env = wrappers.LogWrapper(SHORT)
    if adapter == "gymnasium":
        game = to_gymnasium(env)
        game.reset(seed=0)
        for _ in range(3):
            info = game.step(0)[-1]
        game.reset()
        assert info["returned_episode"] and game.step(0)[-1]["timestep"] == 4
        assert game.step(0)[-1]["returned_episode_lengths"] == 3
        return
    if adapter == "dm_env":
        game = to_dm_env(env)
        for _ in range(6):  # two of these six steps reset the environment
            game.step(0)
        assert game._ended.memory.timestep == 4
        return
    game, keys = to_gymnax(env), jax.random.split(KEY, 2)
    step = jax.vmap(game.step) if "batch" in adapter else game.step
    reset = jax.vmap(game.reset) if "batch" in adapter else game.reset
    given = (keys, jnp.zeros(2, jnp.int32)) if "batch" in adapter else (KEY, 0)
    state = reset(given[0])[1]
    for _ in range(4):
        _, state, _, _, _, info = step(given[0], state, given[1])
    assert np.all(info["timestep"] == 4) and np.all(info["returned_episode_lengths"] == 3)
    assert not np.any(info["returned_episode"])


def test_the_log_has_the_entries_of_gymnaxs():
    from gymnax.wrappers import LogWrapper

    ours, theirs = to_gymnax(wrappers.LogWrapper(SHORT)), LogWrapper(to_gymnax(SHORT))
    mine, wanted = ours.reset(KEY)[1], theirs.reset(KEY)[1]
    for key in jax.random.split(KEY, 5):
        mine, info = (ours.step(key, mine, 0)[i] for i in (1, 5))
        with jax.numpy_dtype_promotion("standard"):
            wanted, logged = (theirs.step(key, wanted, 0)[i] for i in (1, 5))
        for name in ("", "_returns", "_lengths"):
            assert info["returned_episode" + name] == logged["returned_episode" + name]


def test_bad_fields_say_what_is_allowed(as_a_user):
    for make, words in (
        (lambda: wrappers.TimeLimit(CARTPOLE, 0), "max_episode_steps=0 is out of range"),
        (lambda: wrappers.ActionRepeat(CARTPOLE, 1.5), "num_repeats must be a Python int"),
        (lambda: wrappers.ClipReward(CARTPOLE), "give min_reward, max_reward or both"),
        (lambda: wrappers.ClipReward(CARTPOLE, 2, 1), "must not exceed"),
        (lambda: wrappers.NormalizeReward(CARTPOLE, 1.5), "gamma=1.5 must be from 0 to 1"),
        (lambda: wrappers.NormalizeObservation(CARTPOLE, 0.0), "epsilon=0.0 must be above 0"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            make()
    pair = wrappers.TransformReward(CARTPOLE, lambda reward: jnp.stack([reward] * 2))
    with pytest.raises(TypeError, match="func must return one number"):
        pair.step(KEY, pair.reset(KEY).state, 0)
    repeat = wrappers.ActionRepeat(CARTPOLE, 2)
    for env in (repeat, wrappers.LogWrapper(CARTPOLE)):
        with pytest.raises(TypeError, match="needs a state from its reset"):
            env.step(KEY, CARTPOLE.reset(KEY).state, 0)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["TimeLimit", "ActionRepeat", "several"])
def test_wrappers_keep_the_contract(kind):
    """Wrappers, alone and nested, pass all checks of `testing.check_env`.

    Normalising wrappers are left out, because their results differ in the last bits between two
    compiled programs.
    """
    puzzle = wrappers.StickyAction(jaxenvs.make("Puzzle-SlidingTile-3x3-v0", scramble=2))
    stacked = wrappers.FrameStack(wrappers.ActionRepeat(puzzle, 2), 2)
    envs = {
        "TimeLimit": SHORT,
        "ActionRepeat": wrappers.ActionRepeat(wrappers.ClipReward(CARTPOLE, max_reward=0.5), 3),
        "several": wrappers.LogWrapper(wrappers.TimeLimit(stacked, 30)),
    }
    testing.check_env(envs[kind], steps=500)
