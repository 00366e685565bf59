"""Tests of wrappers against plain Python, for one environment and for a batch with auto-reset."""

import collections
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs import spaces, wrappers
from jaxenvs.core import drawing

KEY = jax.random.key(1)
STEPS, LIMIT = 10, 4
BASE = jaxenvs.make("Grid-LavaGapS5-v0")
KINDS = {
    "Flatten": wrappers.Flatten(env=BASE),
    "OneHot": wrappers.OneHot(env=BASE),
    "EpisodeStatistics": wrappers.EpisodeStatistics(env=BASE),
    "FrameStack": wrappers.FrameStack(env=BASE, count=3),
    "PreviousStep": wrappers.PreviousStep(env=BASE),
    "StickyAction": wrappers.StickyAction(env=BASE),
    "several": wrappers.EpisodeStatistics(
        env=wrappers.FrameStack(env=wrappers.Flatten(env=BASE), count=2)
    ),
}
# Wrappers in `with_full` are tested alone only with the marker `full`. By default, the case
# "several" tests three of them, nested in each other.
every_kind = pytest.mark.parametrize(
    "kind",
    [
        *with_full("Flatten", "EpisodeStatistics", "FrameStack", "PreviousStep"),
        *list(KINDS)[-2:],
        "OneHot",
    ],
)


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def actions_of(seed, *shape):
    """Return mostly forward actions, so that random play ends soon."""
    key = jax.random.key(seed)
    forward = jax.random.bernoulli(key, 0.5, shape)
    return jnp.where(forward, 2, jax.random.randint(key, shape, 0, 7))


def play(env, actions, params=None, key=KEY):
    """Reset the environment and make all steps, in one compiled program."""
    params = env.default_params if params is None else params
    return _played(env, actions, params, key)


@functools.partial(jax.jit, static_argnums=0)
def _played(env, actions, params, key):
    def one(state, key_and_action):
        step = env.step(key_and_action[0], state, key_and_action[1], params)
        return step.state, step

    first = env.reset(key, params)
    keys = jax.random.split(key, len(actions))
    return first, jax.lax.scan(one, first.state, (keys, actions))[1]


def test_a_wrapper_shows_what_the_environment_inside_shows():
    """A wrapper is fully observed if its environment is, except `StickyAction`.

    `StickyAction` hides the previous action.
    """
    whole = dataclasses.replace(BASE, obs="full")
    assert whole.fully_observed and not BASE.fully_observed
    for kind in (wrappers.Flatten, wrappers.OneHot, wrappers.FrameStack):
        assert kind(env=whole).fully_observed and not kind(env=BASE).fully_observed
    assert wrappers.EpisodeStatistics(env=whole).fully_observed
    assert not wrappers.StickyAction(env=whole).fully_observed


@every_kind
def test_a_wrapped_environment_is_an_environment(kind):
    env = KINDS[kind]
    params = env.default_params
    first, steps = play(env, actions_of(0, STEPS))
    contains = jax.jit(jax.vmap(env.observation_space.contains))
    all_seen = jax.tree.map(lambda a, b: np.concatenate([a[None], b]), first.obs, steps.obs)
    assert contains(all_seen).all()
    seen = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), first.obs)
    drawn = jax.eval_shape(env.observation_space.sample, KEY)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), drawn) == seen
    last = jax.tree.map(lambda leaf: leaf[-1], steps)
    same(jax.jit(env.observe)(last.state, params), last.obs)
    assert env.unwrapped is BASE and env.action_space == BASE.action_space
    ends_well = steps.terminated & (steps.reward > 0)
    np.testing.assert_array_equal(jax.vmap(env.succeeded)(steps), ends_well)
    assert (env.reset_source, env.reward_range) == (BASE.reset_source, BASE.reward_range)
    assert hash(env) == hash(env) and jax.eval_shape(env.tiles, last.state).shape == (5, 5)
    assert jax.eval_shape(env.action_mask, last.state).shape == (7,)
    np.testing.assert_array_equal(last.state.time, STEPS)


# By default, test only "StickyAction" and "several", which nests three of the other wrappers.
BATCHED = [
    kind if kind in ("StickyAction", "several") else pytest.param(kind, marks=pytest.mark.full)
    for kind in KINDS
]


@pytest.mark.parametrize("kind", BATCHED)
def test_a_batch_of_a_wrapped_environment_starts_anew(kind):
    """Auto-reset gives the observation and the state of a reset with the same key.

    The state includes the wrapper's data.
    """
    env = KINDS[kind]
    venv = jaxenvs.make_vec(env, 3, reset_source="exact")
    params = venv.default_params
    limit = np.int32(1)
    if kind == "StickyAction":
        params = params.replace(env=params.env.replace(max_steps_in_episode=limit))
    else:
        params = params.replace(max_steps_in_episode=limit)

    @jax.jit
    def run(key):
        first = venv.reset(key, params)
        return first, venv.step(key, first.state, jnp.zeros(3, jnp.int32), params)

    first, step = run(KEY)
    assert step.truncated.all()
    same(step.obs, first.obs)
    same(step.state, first.state)


def test_flatten_keeps_the_dtype_of_one_array_and_the_order():
    first, steps = play(KINDS["Flatten"], actions_of(0, STEPS))
    plain, plain_steps = play(BASE, actions_of(0, STEPS))
    assert first.obs.dtype == np.uint8
    np.testing.assert_array_equal(first.obs, plain.obs.ravel())
    np.testing.assert_array_equal(steps.obs, plain_steps.obs.reshape(STEPS, -1))


def test_flatten_joins_named_observations_in_order_of_their_names():
    inside = jaxenvs.make("Grid-LavaGapS5-v0", obs="dict")
    env = wrappers.Flatten(env=inside)
    obs, plain = (jax.jit(e.reset)(KEY).obs for e in (env, inside))
    parts = [np.ravel(plain[name]) for name in ("direction", "image", "mission")]
    np.testing.assert_array_equal(obs, np.concatenate(parts).astype(np.float32))
    assert obs.dtype == np.float32 and env.observation_space.contains(obs)
    assert env.observation_space.high[0] == 3, "the first entry is the direction"


def test_onehot_is_minigrids_for_the_image():
    _, steps = play(KINDS["OneHot"], actions_of(0, STEPS))
    _, wanted = play(jaxenvs.make("Grid-LavaGapS5-v0", obs="onehot"), actions_of(0, STEPS))
    same(steps.obs, wanted.obs)


def test_onehot_expands_each_part_of_a_dict():
    inside = jaxenvs.make("Grid-LavaGapS5-v0", obs="dict")
    env = wrappers.OneHot(env=inside)
    obs, state = jax.jit(env.reset)(KEY)
    assert obs["direction"].tolist() == np.eye(4, dtype=int)[int(state.direction)].tolist()
    assert obs["image"].shape == (7, 7, 20) and (obs["image"].sum(axis=-1) == 3).all()
    assert env.observation_space.contains(obs)


def test_onehot_refuses_what_it_cannot_count(as_a_user):
    # A float32 observation cannot be one-hot encoded.
    stacked = wrappers.Flatten(env=jaxenvs.make("Grid-v0", obs="dict"))
    with pytest.raises(ValueError, match="small integers"):
        wrappers.OneHot(env=stacked)


def test_frames_are_those_of_a_queue():
    _, steps = play(KINDS["FrameStack"], actions_of(0, STEPS))
    plain, plain_steps = play(BASE, actions_of(0, STEPS))
    queue = collections.deque([plain.obs] * 3, maxlen=3)
    for time in range(STEPS):
        queue.append(plain_steps.obs[time])
        np.testing.assert_array_equal(steps.obs[time], np.stack(queue))


def test_frames_do_not_cross_from_one_episode_into_the_next():
    env = KINDS["FrameStack"]
    venv = jaxenvs.make_vec(env, 2, reset_source="exact")
    params = venv.default_params.replace(max_steps_in_episode=np.int32(2))
    step, state = jax.jit(venv.step), jax.jit(venv.reset)(KEY, params).state
    for _ in range(2):
        done = step(KEY, state, jnp.full(2, 6), params)
        state = done.state
    frames = np.asarray(done.obs)
    assert done.truncated.all() and (frames == frames[:, :1]).all()


def test_statistics_count_each_episode_by_itself():
    rows = 4
    venv = jaxenvs.make_vec(KINDS["EpisodeStatistics"], rows, reset_source="exact")
    params = venv.default_params.replace(max_steps_in_episode=np.int32(LIMIT))
    # Start on a level with the goal two steps ahead, so that returns differ from zero.
    level = jax.jit(BASE.sample_level)(KEY)
    level = level.replace(grid=level.grid.at[1, 3].set(0x18).at[1, 2].set(1))
    start = jax.jit(KINDS["EpisodeStatistics"].reset_to)(KEY, level, params).state
    state = jax.jit(venv.reset)(KEY, params).state
    state = state.replace(env=jax.tree.map(lambda leaf: jnp.stack([leaf] * rows), start))
    step, sums, lengths, finished = jax.jit(venv.step), np.zeros(rows), np.zeros(rows, int), []
    actions = np.array([[2, 2, 0, 0, 0, 0], [0, 1, 2, 2, 0, 0], [2] * 6, [0] * 6]).T
    for time, action in enumerate(actions):
        out = step(jax.random.fold_in(KEY, time), state, jnp.asarray(action, jnp.int32), params)
        state, episode = out.state, out.info["episode"]
        sums, lengths = sums + np.asarray(out.reward), lengths + 1
        np.testing.assert_allclose(episode["return"], sums, atol=1e-6)
        np.testing.assert_array_equal(episode["length"], lengths)
        np.testing.assert_array_equal(episode["finished"], out.done)
        done = np.asarray(out.done)
        finished += list(zip(sums[done], lengths[done], strict=True))
        sums[done], lengths[done] = 0, 0
    assert len(finished) >= 4 and any(total > 0 for total, _ in finished)


def test_the_mean_is_over_finished_episodes_only():
    episode = {
        "return": jnp.array([[1.0, 5.0], [3.0, 7.0]]),
        "length": jnp.array([[2, 9], [4, 9]]),
        "finished": jnp.array([[True, False], [True, False]]),
    }
    mean = wrappers.mean_over_finished(episode)
    assert (mean["return"], mean["length"], mean["count"]) == (2.0, 3.0, 2)
    nothing = wrappers.mean_over_finished({**episode, "finished": jnp.zeros((2, 2), bool)})
    assert (nothing["return"], nothing["count"]) == (0.0, 0)


def sticky_play(probability, actions, seed=0):
    env = KINDS["StickyAction"]
    params = env.default_params.replace(repeat_probability=np.float32(probability))
    return play(env, actions, params, jax.random.key(seed))


def test_actions_never_stick_at_zero_and_always_at_one():
    actions = jnp.array([0, 1, 1, 0, 1, 0])
    directions = {}
    for probability in (0, 1):
        _, steps = sticky_play(probability, actions)
        directions[probability] = np.asarray(jax.vmap(lambda s: s.env.direction)(steps.state))
        assert steps.info["repeated_action"].tolist() == [False] + [probability == 1] * 5
    turns = np.cumsum(np.where(actions == 1, 1, -1)) % 4
    np.testing.assert_array_equal(directions[0], turns)
    np.testing.assert_array_equal(directions[1], -np.arange(1, 7) % 4)


def test_a_stuck_action_is_the_one_done_before():
    actions = actions_of(3, 300)
    first, steps = sticky_play(0.25, actions)
    repeated = np.asarray(steps.info["repeated_action"])
    done, before = [], None
    for action, sticks in zip(np.asarray(actions), repeated, strict=True):
        before = before if sticks else action
        done.append(before)

    def one(state, action):
        after = BASE.step(KEY, state, action).state
        return after, after

    run = jax.jit(lambda state, actions: jax.lax.scan(one, state, actions)[1])
    same(run(first.state.env, jnp.array(done)), steps.state.env)
    assert not repeated[0] and 0.15 < repeated.mean() < 0.35


def test_a_sticky_action_out_of_range_is_reported_once():
    _, steps = sticky_play(0.0, jnp.array([99, 2]))
    assert steps.info["invalid_action"].tolist() == [True, False]


def test_a_wrapped_environment_is_drawn_as_the_one_inside():
    for id in ("Classic-CartPole-v0", "Grid-Empty-5x5-v0"):
        env = jaxenvs.make(id)
        state = env.reset(jax.random.key(0)).state
        inside = drawing.painter(env, 8)(state, None)
        wrapped = wrappers.StickyAction(env=env)
        outside = drawing.painter(wrapped, 8)(wrapped.reset(jax.random.key(0)).state, None)
        np.testing.assert_array_equal(outside, inside)
        assert drawing.has_picture(wrapped) == drawing.has_picture(env) == (id[:4] == "Clas")
        shapes = [jax.eval_shape(e.view_tiles, e.state_shape) for e in (env, wrapped)]
        assert shapes[0] == shapes[1] and (shapes[0] is None) == (id[:4] == "Clas")


def test_wrappers_refuse_what_is_no_environment_or_state(as_a_user):
    with pytest.raises(TypeError, match="make"):
        wrappers.Flatten(env="Grid-v0")
    with pytest.raises(ValueError, match="at least 1"):
        wrappers.FrameStack(env=BASE, count=0)
    state = BASE.reset(KEY).state
    for kind in ("EpisodeStatistics", "FrameStack", "StickyAction"):
        with pytest.raises(TypeError, match=kind):
            KINDS[kind].step(KEY, state, 0)


def test_the_space_of_stacked_discrete_observations():
    class Compass(type(BASE)):
        """Environment that observes only the agent's direction."""

        @property
        def observation_space(self):
            return spaces.Discrete(4)

        def observe(self, state, params=None):
            return state.direction

    env = wrappers.OneHot(env=wrappers.FrameStack(env=Compass(size=5), count=2))
    obs = env.reset(KEY).obs
    assert env.observation_space.contains(obs)


def test_levels_are_rejected_inside_a_wrapper_too():
    """A wrapper rejects the same levels as its environment, which rejects three of four."""
    env = jaxenvs.make("BabyAI-GoToObjDoor-v0")
    outside = wrappers.EpisodeStatistics(env=wrappers.Flatten(env=env))
    keys = jax.random.split(KEY, 16)
    wanted = jax.jit(jax.vmap(env.sample_level))(keys)
    same(jax.jit(jax.vmap(outside.sample_level))(keys), wanted)
    assert jax.vmap(outside.accepts)(wanted).all()
    assert (outside.level_budget, outside.rows_per_lane) == (env.level_budget, env.rows_per_lane)
    assert outside.levels_at_once == env.levels_at_once
    craft = jaxenvs.make("Craft-Classic-Ids-v0")
    assert wrappers.Flatten(env=craft).achievements == craft.achievements != ()
    assert wrappers.Flatten(env=craft).idle_action == craft.idle_action == 0


class Hurried(type(BASE)):
    """Environment whose time limit is a third of the limit in the params."""

    def time_limit(self, state, params):
        return params.max_steps_in_episode // 3


def test_a_limit_of_the_episodes_own_is_passed_on():
    """A wrapper forwards the environment's own method `time_limit` and its `action_names`."""
    env = Hurried(size=5)
    for kind in ("Flatten", "EpisodeStatistics", "FrameStack", "StickyAction"):
        wrapped = wrappers.Flatten(env=dataclasses.replace(KINDS[kind], env=env))
        assert wrapped.time_limit(wrapped.state_shape, wrapped.default_params) == 100 // 3
    puzzle = jaxenvs.make("Puzzle-SlidingTile-3x3-v0")
    assert wrappers.StickyAction(env=puzzle).action_names == puzzle.action_names != ()


def test_the_old_name_of_persists_across_episodes_works_and_warns():
    with pytest.warns(DeprecationWarning, match="persists_across_episodes"):

        class Old(wrappers.StatefulWrapper):
            remembers_episodes = True

        class Mixin:
            remembers_episodes = True

        class Mixed(Mixin, wrappers.StatefulWrapper):
            pass

    assert Old(BASE).carries_over and Mixed(BASE).carries_over
    assert not wrappers.FrameStack(env=BASE, count=2).carries_over
    with pytest.warns(DeprecationWarning, match="persists_across_episodes"):
        assert wrappers.LogWrapper(BASE).remembers_episodes
