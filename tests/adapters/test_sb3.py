"""Tests of `to_sb3_vec` against SB3's `DummyVecEnv` of single environments, and with learners."""

import pickle

import chex
import jax
import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 brings PyTorch")

from gymnasium.utils.env_checker import data_equivalence
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan, VecMonitor, VecVideoRecorder

import jaxenvs
from jaxenvs.adapters import to_gymnasium, to_sb3_vec

ROWS, STEPS, SEED = 3, 40, 7
IDS = ("Grid-LavaGapS5-v0", "BabyAI-GoToRedBallGrey-v0", "Puzzle-2048-v0", "Classic-CartPole-v0")
older = pytest.mark.filterwarnings("ignore:.*is out of date. You should consider upgrading")


def play(envs, actions):
    """Return all results of a batch, with the infos of its resets."""
    envs.seed(SEED)
    found = [(plain(envs.reset()), list(envs.reset_infos))]
    for action in actions:
        obs, *rest = envs.step(action)
        found.append((plain(obs), *rest, list(envs.reset_infos)))
    return found


def plain(obs):
    """Convert dict observations, which SB3 may return as `OrderedDict`, to plain dicts."""
    return dict(obs) if isinstance(obs, dict) else obs


@pytest.mark.parametrize("id", IDS)
def test_every_row_equals_sb3s_dummy_vec_env(id):
    """Compare observations, rewards, ends, terminal observations and infos, bit by bit."""
    env = jaxenvs.make(id)
    params = env.default_params.replace(max_steps_in_episode=12)
    theirs = DummyVecEnv([lambda: to_gymnasium(env, params=params)] * ROWS)
    ours = to_sb3_vec(id, ROWS, params=params)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space and ours.num_envs == ROWS
    actions = np.random.default_rng(0).integers(0, env.action_space.n, (STEPS, ROWS))
    seen, wanted = play(ours, actions), play(theirs, actions)
    for moment, (a, b) in enumerate(zip(seen, wanted, strict=True)):
        a, b = (jax.tree.map(np.asarray, side) for side in (a, b))
        assert data_equivalence(a, b, exact=True), (moment, a, b)
    ended = [info for moment in seen[1:] for info in moment[3] if "terminal_observation" in info]
    assert len(ended) >= ROWS and any(info["TimeLimit.truncated"] for info in ended)
    assert all(info["terminal_observation"] in ours.observation_space for info in ended)


@older
def test_sb3_finds_no_fault():
    check_env(to_gymnasium("Grid-LavaGapS5-v0", render_mode="rgb_array"), warn=False)
    envs = VecCheckNan(to_sb3_vec("Classic-CartPole-v0", ROWS), raise_exception=True)
    envs.reset()
    for _ in range(20):
        envs.step(np.array([envs.action_space.sample() for _ in range(ROWS)]))
    envs.close()


@pytest.mark.parametrize(
    ("id", "policy"), [("Classic-CartPole-v0", "MlpPolicy"), (IDS[1], "MultiInputPolicy")]
)
def test_ppo_learns_on_it(id, policy):
    envs = VecMonitor(to_sb3_vec(id, 4))
    model = PPO(policy, envs, n_steps=16, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.learn(128)
    assert model.num_timesteps == 128 and len(model.ep_info_buffer) >= (id == IDS[3])
    mean, _ = evaluate_policy(model, envs, n_eval_episodes=4)
    assert np.isfinite(mean)


def test_a_video_is_recorded(tmp_path):
    pytest.importorskip("moviepy")
    envs = to_sb3_vec("Grid-LavaGapS5-v0", 4, render_mode="rgb_array", render_tile_size=8)
    envs = VecVideoRecorder(envs, str(tmp_path), lambda step: step == 0, video_length=5)
    envs.reset()
    picture = envs.render()
    assert picture.shape == (80, 80, 3) and picture.dtype == np.uint8
    for _ in range(6):
        envs.step(np.zeros(4, np.int64))
    envs.close()
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 1_000
    assert to_sb3_vec("Grid-LavaGapS5-v0", 2).get_attr("render_mode") == [None, None]


def test_params_are_attributes_of_the_rows():
    envs = to_sb3_vec("Grid-LavaGapS5-v0", ROWS)
    limit = int(envs.jaxenv.default_params.max_steps_in_episode)
    assert envs.get_attr("max_steps_in_episode") == [limit] * ROWS
    assert envs.get_attr("size", 0) == [envs.jaxenv.size]
    envs.set_attr("max_steps_in_episode", 2, indices=[0, 2])
    assert envs.get_attr("max_steps_in_episode") == [2, limit, 2]
    envs.reset()
    envs.step(np.zeros(ROWS, np.int64))
    assert envs.step(np.zeros(ROWS, np.int64))[2].tolist() == [True, False, True]
    envs.set_attr("max_steps_in_episode", limit)
    assert np.ndim(envs.batch.params.max_steps_in_episode) == 0
    with pytest.raises(
        AttributeError, match=r"'size' is not a param of .*; its params are max_steps_in_episode"
    ):
        envs.set_attr("size", 7)
    with pytest.raises(AttributeError):
        envs.get_attr("nothing")
    assert not envs.has_attr("nothing") and envs.env_is_wrapped(VecMonitor, 1) == [False]


def test_a_param_of_several_arrays_can_be_read_but_not_set():
    envs = to_sb3_vec("XLand-R1-9x9-v0", 2)
    wanted = envs.jaxenv.default_params.ruleset
    for ruleset in envs.get_attr("ruleset"):
        chex.assert_trees_all_equal(ruleset, wanted)
    with pytest.raises(AttributeError, match="'ruleset' consists of several arrays"):
        envs.set_attr("ruleset", wanted)


def test_methods_see_the_params_of_their_row():
    envs = to_sb3_vec("Grid-LavaGapS5-v0", ROWS)
    envs.set_attr("max_steps_in_episode", [7, 8, 9])
    envs.reset()
    assert [int(limit) for limit in envs.env_method("time_limit")] == [7, 8, 9]
    given = envs.jaxenv.default_params.replace(max_steps_in_episode=3)
    assert [int(limit) for limit in envs.env_method("time_limit", params=given)] == [3] * ROWS


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("value", [2.7, None, "x", 2**40])
def test_a_value_that_a_param_cannot_have_changes_nothing(value):
    envs = to_sb3_vec("Grid-LavaGapS5-v0", ROWS)
    before = envs.get_attr("max_steps_in_episode")
    with pytest.raises((TypeError, ValueError), match="set_attr: params"):
        envs.set_attr("max_steps_in_episode", value)
    with pytest.raises(AttributeError, match="'replace' is not a param"):
        envs.set_attr("replace", value)
    assert envs.get_attr("max_steps_in_episode") == before


def test_methods_see_the_state_of_their_row():
    envs = to_sb3_vec("Puzzle-2048-v0", ROWS)
    envs.seed(SEED)
    envs.reset()
    masks = envs.env_method("action_masks")
    wanted = [info["action_mask"] for info in envs.reset_infos]
    np.testing.assert_array_equal(masks, wanted)
    assert envs.has_attr("action_masks")
    np.testing.assert_array_equal(envs.get_attr("action_masks", 1)[0](), wanted[1])
    np.testing.assert_array_equal(envs.env_method("action_mask", indices=[2])[0], wanted[2])


def test_a_pickled_batch_continues_identically():
    envs = to_sb3_vec("Grid-LavaGapS5-v0", ROWS)
    envs.seed(SEED)
    envs.reset()
    copy = pickle.loads(pickle.dumps(envs))
    actions = np.full((5, ROWS), 2)
    pair = [[both.step(action)[:3] for action in actions] for both in (envs, copy)]
    assert data_equivalence(*pair, exact=True)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: to_sb3_vec(3, 2), TypeError, "to_sb3_vec: needs an id"),
        (lambda e: to_sb3_vec("Grid-v0", 2, params=3), TypeError, "to_sb3_vec: params"),
        (lambda e: to_sb3_vec("Grid-v0", 2, render_mode="human"), ValueError, "to_sb3_vec: render"),
        (lambda e: (e.set_options({"a": 1}), e.reset()), ValueError, "unknown option 'a'"),
        (lambda e: e.step(np.zeros(2, np.int64)), Exception, "no episode has begun"),
        (lambda e: (e.reset(), e.step(np.array([0, 9]))), Exception, "got array"),
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(to_sb3_vec("Grid-LavaGapS5-v0", 2))
