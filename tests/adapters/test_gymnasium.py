"""Tests that `to_gymnasium` passes Gymnasium's checker and equals the environment's own steps."""

import pickle
import subprocess
import sys

import chex
import gymnasium
import imageio_ffmpeg
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from worlds import DOORS, FAMILIES, Doors, by_default

import jaxenvs
from jaxenvs.adapters import common, register_in_gymnasium, to_gymnasium, to_gymnasium_vec
from jaxenvs.core import spaces
from jaxenvs.core.starts import LEVEL, RESET, STEP

NAMES = register_in_gymnasium()
# The checker warns that speeds are unbounded, also for Gymnasium's own CartPole.
unbounded = pytest.mark.filterwarnings("ignore:.*(minimum|maximum) value is -?infinity")
# Ignore Gymnasium's warning about ids with a newer version. This library has some ids of MiniGrid
# in two versions.
older = pytest.mark.filterwarnings("ignore:.*is out of date. You should consider upgrading")


def test_every_id_is_registered_once():
    assert NAMES == register_in_gymnasium() == [f"jaxenvs/{id}" for id in jaxenvs.registry.list()]
    assert set(NAMES) <= set(gymnasium.registry)
    env = gymnasium.make("jaxenvs/Grid-Empty-5x5-v0", max_episode_steps=3, obs="dict")
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
    assert set(env.observation_space.spaces) == {"image", "direction", "mission"}


@unbounded
@older
@pytest.mark.parametrize(
    "id", by_default(FAMILIES.values(), full=[FAMILIES["Craft"], FAMILIES["PuzzleScript"]])
)
def test_gymnasium_finds_no_fault(id):
    """Gymnasium's checker gives no error and no warning; warnings are errors in the tests.

    The test also renders and closes the environment.
    """
    env = gymnasium.make(f"jaxenvs/{id}", render_mode="rgb_array")
    check_env(env.unwrapped)


@unbounded
@pytest.mark.parametrize("vector", [False, True])
def test_gymnasium_finds_no_fault_in_dicts_and_vectors(vector):
    env = to_gymnasium(Doors(vector=vector))
    env.spec = gymnasium.envs.registration.EnvSpec("D-v0", entry_point=lambda: env)
    check_env(env)
    obs, _ = env.reset(seed=0)
    assert type(obs["inside"]["parity"]) is np.int64 and obs["inside"]["flags"].dtype == np.int8
    assert obs["number"].shape == () and obs["pair"].dtype == np.int64


def play(env, seed, actions):
    """Return all results of a Gymnasium environment over several episodes."""
    found = [env.reset(seed=seed)]
    for action in actions:
        found.append(env.step(action))
        if found[-1][2] or found[-1][3]:
            found.append(env.reset())
    return found


@pytest.mark.parametrize("id", [None, *by_default(["Grid-v0"], FAMILIES.values())])
def test_results_equal_plain_steps(id):
    """Compare with a plain loop over `reset_to` and `step`, with keys from the same seed."""
    env = jaxenvs.make(id) if id else DOORS
    params = env.default_params.replace(max_steps_in_episode=4)
    actions = np.random.default_rng(1).integers(0, env.action_space.n, 14)
    seen = play(to_gymnasium(env, params=params), 5, actions)
    words = gymnasium.utils.seeding.np_random(5)[0].integers(2**32, size=2, dtype=np.uint32)
    root = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    step = jax.jit(env.step)

    @jax.jit
    def begin(key):
        level = env.sample_level(jax.random.fold_in(key, LEVEL), params)
        return env.reset_to(jax.random.fold_in(key, RESET), level, params)

    def same(obs, expected):
        jax.tree.map(np.testing.assert_array_equal, obs, jax.tree.map(np.asarray, expected))

    seen = iter(seen)
    expected, state = begin(jax.random.fold_in(root, np.uint32(0)))
    same(next(seen)[0], expected)
    for number, action in enumerate(actions, 1):
        key = jax.random.fold_in(root, np.uint32(number))
        wanted = step(jax.random.fold_in(key, STEP), state, np.int32(action), params)
        obs, reward, terminated, truncated, info = next(seen)
        same(obs, wanted.obs)
        assert reward == float(wanted.reward) and type(reward) is float
        assert (terminated, truncated) == (bool(wanted.terminated), bool(wanted.truncated))
        assert type(terminated) is bool and type(truncated) is bool
        assert info["invalid_action"] is False
        state = wanted.state
        if terminated or truncated:
            expected, state = begin(key)
            same(next(seen)[0], expected)
    assert next(seen, None) is None


def test_seeds_repeat_everything_and_no_seed_goes_on():
    env, actions = to_gymnasium(DOORS), np.random.default_rng(0).integers(0, 3, 40)
    first, again = play(env, 3, actions), play(to_gymnasium(DOORS), 3, actions)
    assert data_equivalence(first, again, exact=True)
    assert not data_equivalence(first, play(env, 4, actions), exact=True)
    begun = {int(env.reset()[0]["number"]) for _ in range(20)}
    assert len(begun) > 2  # resets without a step between them begin different episodes
    fresh = to_gymnasium(DOORS)
    unseeded = [play(fresh, None, actions)]
    assert not data_equivalence(unseeded[0], play(to_gymnasium(DOORS), None, actions))
    largest = to_gymnasium(DOORS).reset(seed=2**80)[0]  # Gymnasium allows seeds of any size
    assert largest in fresh.observation_space


def test_a_pickled_episode_continues_identically():
    env, actions = to_gymnasium(DOORS), [0, 1, 2] * 5
    unbegun = pickle.loads(pickle.dumps(env))
    env.reset(seed=3)
    env.step(1)
    copy = pickle.loads(pickle.dumps(env))
    assert copy._step is env._step
    assert data_equivalence(*([e.step(1), *play(e, None, actions)] for e in (env, copy)))
    assert data_equivalence(play(env, 5, actions), play(unbegun, 5, actions))


@pytest.mark.slow
def test_gymnasium_may_fork_before_the_first_episode():
    """A process can fork after it has made an environment, as `AsyncVectorEnv` does.

    `AsyncVectorEnv` first makes one environment, to read its spaces.
    """
    code = """
import gymnasium
from jaxenvs.adapters import register_in_gymnasium
register_in_gymnasium()
how = {"vectorization_mode": "async", "vector_kwargs": {"context": "fork"}}
envs = gymnasium.make_vec("jaxenvs/Grid-Empty-5x5-v0", 2, **how)
envs.reset(seed=0)
print(envs.step([0, 1])[0].shape)
envs.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "(2, 7, 7, 3)\n", done.stderr


def test_the_mask_is_of_the_state_that_is_seen():
    env = to_gymnasium(DOORS)
    obs, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(30):
        assert info["action_mask"].tolist() == [1, 1, 1 - obs["number"] % 2]
        action = env.action_space.sample(info["action_mask"])
        obs, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            assert "action_mask" not in info
            obs, info = env.reset()
    assert "action_mask" not in to_gymnasium("Grid-Empty-5x5-v0").reset(seed=0)[1]


def test_what_it_returns_may_be_written_to():
    env = to_gymnasium("Grid-Empty-5x5-v0", obs="dict", render_mode="rgb_array")
    env.reset(seed=0)
    before, kept = env.step(0)[0], env.step(0)[0]
    for leaf in (before["image"], before["mission"], env.render()):
        leaf[...] = 0
    after = env.step(6)[0]
    assert data_equivalence(after, kept, exact=True) and kept["image"].any()


class Flags(Doors):
    """Environment whose actions are three booleans, and whose observation is one boolean."""

    @property
    def action_space(self):
        """Return a space of three booleans."""
        return spaces.Box(False, True, (3,), np.bool_)

    @property
    def observation_space(self):
        """Return a space of one boolean."""
        return spaces.Box(False, True, (), np.bool_)

    def observe(self, state, params=None):
        """Return whether the number is even."""
        return state.number % 2 == 0


def test_pictures_come_from_the_tiles():
    small = to_gymnasium("Grid-Empty-5x5-v0", render_mode="rgb_array", render_tile_size=4)
    with pytest.raises(gymnasium.error.ResetNeeded, match="render: no episode has begun"):
        small.render()
    small.reset(seed=0)
    assert small.render().shape == (20, 20, 3)
    wrapped = jaxenvs.wrappers.FrameStack(env=jaxenvs.make("Classic-CartPole-v0"))
    wrapped = jaxenvs.wrappers.EpisodeStatistics(env=wrapped)
    outside = to_gymnasium(wrapped, render_mode="rgb_array")
    inside = to_gymnasium("Classic-CartPole-v0", render_mode="rgb_array")
    outside.reset(seed=1), inside.reset(seed=1)
    picture = inside.render()
    np.testing.assert_array_equal(outside.render(), picture)
    assert picture.std() > 1  # the environment's own `picture`, not an image of plain tiles


def test_gymnasium_records_a_video(tmp_path):
    pytest.importorskip("moviepy", reason="RecordVideo wants it, and it holds Pillow back")
    env = to_gymnasium("Grid-Empty-5x5-v0", render_mode="rgb_array", render_tile_size=32)
    env = gymnasium.wrappers.RecordVideo(env, str(tmp_path / "videos"), disable_logger=True)
    env.reset(seed=0)
    for action in (2, 2, 1, 2, 2):
        env.step(action)
    env.close()
    (video,) = tmp_path.glob("videos/*.mp4")
    count, seconds = imageio_ffmpeg.count_frames_and_secs(str(video))
    assert count == 6 and seconds == pytest.approx(6 / env.metadata["render_fps"], abs=0.02)


def test_pictures_are_drawn_with_the_params_of_the_episodes(monkeypatch):
    def picture(self, state, tile_size, params=None):
        return jnp.full((1, 1, 3), params.max_steps_in_episode).astype(jnp.uint8)

    sheet = np.zeros((1, 1, 1, 3), np.uint8)
    for name, function in {"picture": picture, "tiles": None, "atlas": lambda *_: sheet}.items():
        monkeypatch.setattr(Doors, name, function)
    env = jaxenvs.wrappers.StickyAction(env=Doors(most=2))
    inside = env.default_params.env.replace(max_steps_in_episode=np.array([8, 9]))
    rows = to_gymnasium_vec(
        env, 2, params=env.default_params.replace(env=inside), render_mode="rgb_array"
    )
    rows.reset(seed=0)
    assert [picture.max() for picture in rows.render()] == [8, 9]
    inside = inside.replace(max_steps_in_episode=7)
    alone = to_gymnasium(
        env, params=env.default_params.replace(env=inside), render_mode="rgb_array"
    )
    alone.reset(seed=0)
    assert alone.render().max() == 7


def test_flags_are_actions_and_observations():
    env = to_gymnasium(Flags())
    assert env.reset(seed=0)[0] in env.observation_space
    action = env.action_space.sample()
    assert env.action_space.shape == (3,) and action.dtype == np.int8
    obs = env.step(action)[0]
    assert obs in env.observation_space and obs.shape == ()
    rows = to_gymnasium_vec(Flags(), 2)
    assert np.zeros(2, np.int8) in rows.observation_space
    actions = common.taken(Flags().action_space, rows.action_space.sample(), 2, ValueError)
    assert actions.dtype == np.bool_ and actions.shape == (2, 3)
    with pytest.raises(gymnasium.error.InvalidAction, match="got"):
        env.step([0, 1, 2])


def test_one_call_and_one_compilation_for_all_adapters_of_an_environment():
    class Counted(Doors):
        # Traced once to compute shapes, and once to compile the program.
        reset_state = chex.assert_max_traces(Doors.reset_state, n=2)
        step_state = chex.assert_max_traces(Doors.step_state, n=1)

    envs = [to_gymnasium(Counted(most=4)) for _ in range(2)]
    for env in envs:
        play(env, 0, [0, 1, 2, np.int64(3), np.array(1), jnp.int32(2)] * 4)
    assert envs[0]._step is envs[1]._step


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: e.step(1), gymnasium.error.ResetNeeded, r"no episode has begun; call reset\(\)"),
        (lambda e: (e.reset(), e.step(3)), gymnasium.error.InvalidAction, r"Discrete\(3\).*got 3"),
        (lambda e: (e.reset(), e.step(-1)), gymnasium.error.InvalidAction, "got -1"),
        (lambda e: (e.reset(), e.step(1.0)), gymnasium.error.InvalidAction, "got 1.0"),
        (lambda e: (e.reset(), e.step([1])), gymnasium.error.InvalidAction, r"shape \(\), got"),
        (lambda e: (e.reset(), e.step([[0], [1, 2]])), gymnasium.error.InvalidAction, r"got \[\["),
        (lambda e: (e.reset(), e.step(None)), gymnasium.error.InvalidAction, "got None"),
        (lambda e: (e.reset(), e.step(True)), gymnasium.error.InvalidAction, "got True"),
        (lambda e: e.reset(seed=-1), gymnasium.error.Error, "zero|non-negative"),
        (lambda e: e.reset(seed="a"), gymnasium.error.Error, "integer"),
        (lambda e: e.reset(options={"leve": 1}), ValueError, "unknown option 'leve'.*: none"),
        (lambda e: to_gymnasium(3), TypeError, "to_gymnasium: needs an id or an environ.*int 3"),
        (lambda e: to_gymnasium("Grid-Emty-v0"), jaxenvs.UnknownIdError, "did you mean"),
        (lambda e: to_gymnasium(DOORS, most=2), TypeError, r"\['most'\] belong to make"),
        (lambda e: to_gymnasium(DOORS, params=3), TypeError, "params must be like Params"),
        (lambda e: to_gymnasium(DOORS, render_mode="rgb"), ValueError, "did you mean 'rgb_array'"),
        (
            lambda e: to_gymnasium(DOORS, render_mode="rgb_array"),
            ValueError,
            "has no tiles to draw",
        ),
        (lambda e: to_gymnasium(DOORS, render_tile_size=0), ValueError, "at least 1"),
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(to_gymnasium(DOORS))


def test_a_step_after_the_end_raises():
    env = to_gymnasium(DOORS, params=DOORS.default_params.replace(max_steps_in_episode=1))
    env.reset(seed=0)
    assert env.step(0)[3]
    with pytest.raises(gymnasium.error.ResetNeeded, match="the episode has ended"):
        env.step(0)
    env.reset()
    assert env.step(0)[3]


def test_actions_of_dicts_and_floats():
    space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1, 1, (2,), np.float32)})
    good = common.taken(space, {"a": 2, "b": [0, 1]}, None, ValueError)
    assert good["b"].dtype == np.float32 and good["a"].dtype == np.int32
    rows = common.taken(space, {"a": [2, 0], "b": np.zeros((2, 2))}, 2, ValueError)
    assert rows["b"].shape == (2, 2)
    for bad in ({"a": 2}, 3, {"a": 3, "b": [0, 1]}, {"a": 1, "b": [0, np.nan]}):
        with pytest.raises(ValueError, match="step: "):
            common.taken(space, bad, None, ValueError)
