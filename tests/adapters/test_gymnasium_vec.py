"""Tests of `to_gymnasium_vec` in Gymnasium's three autoreset modes.

The tests compare batches with single environments, also inside Gymnasium's wrappers.
"""

import pickle

import chex
import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics
from worlds import DOORS, FAMILIES, Doors, by_default

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.adapters import common, register_in_gymnasium, to_gymnasium, to_gymnasium_vec
from jaxenvs.core import vector

ROWS, STEPS, SEED = 3, 40, 7
LIMIT = 4
every_mode = pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)


def pair(env, mode, params=None, rows=ROWS):
    """Return our vector environment, and Gymnasium's, which steps our single environments."""
    ours = to_gymnasium_vec(env, rows, autoreset_mode=mode, params=params)
    singles = [lambda: to_gymnasium(env, params=params)] * rows
    return ours, SyncVectorEnv(singles, autoreset_mode=mode)


def actions_for(envs, steps=STEPS):
    number = envs.single_action_space.n
    return np.random.default_rng(0).integers(0, number, (steps, envs.num_envs))


def play(envs, actions, seed=SEED):
    """Return all results of a batch; in mode DISABLED, reset the environments that are done."""
    found = [envs.reset(seed=seed)]
    for action in actions:
        found.append(envs.step(action))
        ended = found[-1][2] | found[-1][3]
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            found.append(envs.reset(options={"reset_mask": ended}))
    return found


@every_mode
@pytest.mark.parametrize("id", [None, *by_default([], FAMILIES.values())])
def test_every_row_behaves_like_a_single_environment(id, mode):
    """Compare our batch with Gymnasium's `SyncVectorEnv`, bit by bit.

    The test compares observations, rewards, ends, and infos with their masks (entries `_NAME`).
    """
    env = jaxenvs.make(id) if id else DOORS
    params = env.default_params.replace(max_steps_in_episode=LIMIT)
    ours, theirs = pair(env, mode, params)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] is ours.autoreset_mode is mode
    actions = actions_for(ours)
    seen, wanted = play(ours, actions), play(theirs, actions)
    for moment, (a, b) in enumerate(zip(seen, wanted, strict=True)):
        assert data_equivalence(a, b, exact=True), (moment, a, b)
        assert a[0] in ours.observation_space
    again, other = ours.reset(), theirs.reset()  # this resets all rows, done or not
    assert data_equivalence(again, other, exact=True)
    again, other = ours.reset(seed=[3, None, 1]), theirs.reset(seed=[3, None, 1])
    assert data_equivalence(again, other, exact=True)


def episodes(mode, rows=ROWS, steps=STEPS):
    """Return the returns and lengths of episodes, from a loop over single environments.

    The result has one dict for each step. It maps the index of each environment whose episode ends
    in the step to the pair (return, length) of the episode.
    """
    envs = [to_gymnasium(DOORS) for _ in range(rows)]
    for i, env in enumerate(envs):
        env.reset(seed=SEED + i)
    totals, lengths, over = np.zeros(rows), np.zeros(rows, int), np.zeros(rows, bool)
    found = []
    for action in actions_for(to_gymnasium_vec(DOORS, rows), steps):
        ended = {}
        for i, env in enumerate(envs):
            if over[i]:  # only in mode NEXT_STEP: this step just resets
                env.reset()
                over[i] = False
                continue
            _, reward, terminated, truncated, _ = env.step(action[i])
            totals[i], lengths[i] = totals[i] + reward, lengths[i] + 1
            if terminated or truncated:
                ended[i] = (totals[i], lengths[i])
                totals[i] = lengths[i] = 0
                over[i] = mode is AutoresetMode.NEXT_STEP
                if not over[i]:
                    env.reset()
        found.append(ended)
    return found


def counts_right(mode):
    """Return whether Gymnasium's episode statistics are right in an auto-reset mode.

    Gymnasium before 1.4 does not count an episode's first step in mode SAME_STEP.
    """
    release = tuple(map(int, gymnasium.__version__.split(".")[:2]))
    return mode is not AutoresetMode.SAME_STEP or release >= (1, 4)


@every_mode
def test_episode_statistics_lose_no_step_and_no_episode(mode):
    if not counts_right(mode):
        pytest.skip(f"gymnasium {gymnasium.__version__} counts wrongly in this mode")
    envs = RecordEpisodeStatistics(to_gymnasium_vec(DOORS, ROWS, autoreset_mode=mode))
    assert envs.reset(seed=SEED)[0] in envs.observation_space
    wanted = episodes(mode)
    assert sum(map(len, wanted)) > 2 * ROWS
    for action, ended in zip(actions_for(envs), wanted, strict=True):
        _, _, terminated, truncated, info = envs.step(action)
        done = terminated | truncated
        assert set(np.flatnonzero(done)) == set(ended)
        for i, (total, length) in ended.items():
            assert info["_episode"][i]
            assert (info["episode"]["r"][i], info["episode"]["l"][i]) == (total, length)
        if mode is AutoresetMode.DISABLED and done.any():
            options = {"reset_mask": done}
            envs.reset(options=options)
    assert envs.episode_count == sum(map(len, wanted))


@every_mode
def test_normalised_observations_are_those_of_gymnasiums_own_batch(mode):
    """Gymnasium's wrapper gives the same results on our batch and on Gymnasium's batch.

    In modes other than NEXT_STEP, the wrapper refuses both batches.
    """
    params = jaxenvs.make("Classic-CartPole-v0").default_params.replace(max_steps_in_episode=LIMIT)
    ours, theirs = pair(jaxenvs.make("Classic-CartPole-v0"), mode, params)
    try:
        theirs = NormalizeObservation(RecordEpisodeStatistics(theirs))
    except (ValueError, AssertionError) as refused:  # older releases raise AssertionError
        assert mode is not AutoresetMode.NEXT_STEP
        with pytest.raises(type(refused)) as ours_too:
            NormalizeObservation(RecordEpisodeStatistics(ours))
        assert str(ours_too.value) == str(refused)
        return
    ours = NormalizeObservation(RecordEpisodeStatistics(ours))
    actions = actions_for(ours)
    for a, b in zip(play(ours, actions), play(theirs, actions), strict=True):
        np.testing.assert_allclose(a[0], b[0], rtol=1e-5, atol=1e-6)
    assert ours.obs_rms.count == pytest.approx(ROWS * (STEPS + 1), abs=1e-3)


def test_the_final_observation_is_the_true_successor():
    envs = to_gymnasium_vec(DOORS, ROWS, autoreset_mode="SameStep")
    before = envs.reset(seed=SEED)[0]
    ends = 0
    for action in actions_for(envs):
        obs, reward, terminated, truncated, info = envs.step(action)
        done = terminated | truncated
        for i in np.flatnonzero(done):
            final = info["final_obs"][i]
            # The reward equals the number in the final observation.
            assert final["number"] == reward[i]
            assert final["number"] - before["number"][i] in (action[i], action[i] + 1)
            assert info["final_info"]["nested"]["both"][i, 1] == reward[i]
            assert not info["_nested"][i] and info["_final_info"][i] and info["_final_obs"][i]
            ends += 1
        rows = ~done
        np.testing.assert_array_equal(obs["number"][rows], reward[rows])
        assert ("final_obs" in info) == done.any()
        before = obs
    assert ends > 2 * ROWS


def test_pickled_episodes_continue_identically():
    envs = to_gymnasium_vec(DOORS, ROWS)
    actions = actions_for(envs, 10)
    play(envs, actions)
    copy = pickle.loads(pickle.dumps(envs))
    assert copy._step is envs._step
    assert data_equivalence(*([e.step(actions[0]), *play(e, actions, None)] for e in (envs, copy)))


def test_params_may_differ_in_every_row():
    params = DOORS.default_params.replace(max_steps_in_episode=np.arange(1, ROWS + 1))
    envs = to_gymnasium_vec(DOORS, ROWS, autoreset_mode="SameStep", params=params)
    ended = [moment[2] | moment[3] for moment in play(envs, actions_for(envs, 1))[1:]]
    assert ended[0][0] and not ended[0][2]
    wrong = DOORS.default_params.replace(max_steps_in_episode=np.arange(2))
    with pytest.raises(TypeError, match="params has 2 values, this batch has 3"):
        to_gymnasium_vec(DOORS, ROWS, params=wrong)
    wrong = DOORS.default_params.replace(max_steps_in_episode=np.array([1, 2**40, 3]))
    with pytest.raises(TypeError, match=r"of dtype int32, got int64 .*1099511627776"):
        to_gymnasium_vec(DOORS, ROWS, params=wrong)


def test_gymnasium_makes_a_batch_of_an_id():
    register_in_gymnasium()
    envs = gymnasium.make_vec(
        "jaxenvs/Grid-Empty-5x5-v0", 2, autoreset_mode="SameStep", render_mode="rgb_array"
    )
    assert envs.unwrapped.spec.id == "jaxenvs/Grid-Empty-5x5-v0"
    obs, info = envs.reset(seed=0)
    assert obs.shape == (2, 7, 7, 3) and info == {}
    first, second = envs.render()
    assert first.shape == (80, 80, 3) and first.dtype == np.uint8
    np.testing.assert_array_equal(first, second)
    obs[...] = 0  # observations are copies, which the caller may change
    assert envs.step(jnp.array([0, 2]))[0].any()
    assert (envs.render()[0] != envs.render()[1]).any()
    envs.close()


def test_one_compilation_for_all_batches_of_a_kind():
    """Batches that differ only in their params share compiled programs."""

    class Counted(Doors):
        # JAX may trace `reset_state` three times: to compute shapes, to reset all rows, and to
        # reset some rows.
        reset_state = chex.assert_max_traces(Doors.reset_state, n=3)
        step_state = chex.assert_max_traces(Doors.step_state, n=1)

    env = Counted()
    limited = env.default_params.replace(max_steps_in_episode=7)
    batches = [
        to_gymnasium_vec(env, ROWS, autoreset_mode="Disabled", params=params)
        for params in (None, limited)
    ]
    for batch in batches:
        play(batch, actions_for(batch))
        batch.reset(seed=1)  # nothing outlives an episode, so it is the program of the first reset
    first, second = ([b._reset, b._reset_rows, b._step] for b in batches)
    assert first == second


@pytest.mark.parametrize("source", ["stock", "pool", None])
def test_a_seed_determines_episodes_whatever_was_played_before(source):
    """A wrapper that keeps statistics, and prepared levels, do not change seeded episodes."""
    env = wrappers.LogWrapper(jaxenvs.make("Classic-CartPole-v0"))
    batch = to_gymnasium_vec(env, ROWS, reset_source=source)
    first, _ = batch.reset(seed=5)
    for _ in range(30):
        batch.step(np.zeros(ROWS, np.int32))
    again, _ = batch.reset(seed=5)
    np.testing.assert_array_equal(first, again)
    assert int(batch._state.env.memory.timestep.min()) > 20  # the statistics go on


def test_the_environments_reset_source_is_the_default(monkeypatch):
    """The default of `make_vec` on an accelerator, `stock`, would ignore some seeds."""
    monkeypatch.setattr(vector, "has_accelerator", lambda: True)
    rooms = "Grid-MultiRoom-N2-S4-v0"
    assert jaxenvs.make_vec(rooms, 2).reset_source == "stock"
    assert to_gymnasium_vec(rooms, ROWS).venv.reset_source == "exact"


def test_an_id_of_an_environment_that_resets_itself_is_refused(monkeypatch):
    pole = jaxenvs.make("Classic-CartPole-v0")
    monkeypatch.setattr(common, "make", lambda id: wrappers.AutoReset(pole))
    with pytest.raises(ValueError, match="begins its next episode by itself"):
        to_gymnasium("Mine-v0")


ROW = np.array([True, False, False])


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: e.step([0, 0, 0]), gymnasium.error.ResetNeeded, "no episode has begun"),
        (
            lambda e: e.reset(options={"reset_mask": ROW}),
            gymnasium.error.ResetNeeded,
            "all environments",
        ),
        (lambda e: e.reset(options={"reset_mask": [1, 0, 0]}), ValueError, r"shape \(3,\) and"),
        (lambda e: e.reset(options={"reset_mask": ~ROW & ROW}), ValueError, "at least one True"),
        (lambda e: e.reset(options={"mask": ROW}), ValueError, "'mask'.*here: 'reset_mask'"),
        (lambda e: e.reset(seed=[1, 2]), ValueError, "a list of 3 of them"),
        (lambda e: e.reset(seed=1.5), ValueError, "seed must be None, a number or a list"),
        (lambda e: e.reset(seed=[1, 2, -1]), gymnasium.error.Error, "zero|non-negative"),
        (lambda e: (e.reset(), e.step(1)), gymnasium.error.InvalidAction, "array of 3 actions"),
        (lambda e: (e.reset(), e.step([0, 0, 3])), gymnasium.error.InvalidAction, r"Discrete\(3\)"),
        (lambda e: to_gymnasium_vec(DOORS, 1, params=3), TypeError, "vec: params must be like"),
        (lambda e: to_gymnasium_vec(DOORS, 0), ValueError, "num_envs=0 is out of range"),
        (
            lambda e: to_gymnasium_vec(DOORS, 1, autoreset_mode="same_step"),
            ValueError,
            "did you mean 'SameStep'",
        ),
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(to_gymnasium_vec(DOORS, ROWS))


def test_stepping_on_without_autoreset_names_the_rows():
    params = DOORS.default_params.replace(max_steps_in_episode=np.array([1, 9, 1]))
    envs = to_gymnasium_vec(DOORS, 3, autoreset_mode=AutoresetMode.DISABLED, params=params)
    envs.reset(seed=1)
    envs.step([0, 0, 0])
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"\[0, 2\] has ended.*reset_mask"):
        envs.step([0, 0, 0])
    options = {"reset_mask": np.array([True, False, True])}
    _, info = envs.reset(options=options)
    # The caller's options are unchanged.
    assert options["reset_mask"].tolist() == [True, False, True]
    assert info["_action_mask"].tolist() == [True, False, True]
    assert envs.step([0, 0, 0])[3].tolist() == [True, False, True]
