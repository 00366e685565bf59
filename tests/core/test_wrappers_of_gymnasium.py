"""Tests of wrappers against Gymnasium's equivalent wrappers around the same environment.

Where a wrapper differs from Gymnasium's on purpose, a test shows the difference.
"""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.utils import RunningMeanStd

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.adapters import to_gymnasium, to_gymnasium_vec

pytestmark = pytest.mark.full

GROUP = "wrappers of gymnasium"
CARTPOLE = jaxenvs.make("Classic-CartPole-v0")
PENDULUM = jaxenvs.make("Classic-Pendulum-v0")
STEPS = 40


class Repeated(gymnasium.Wrapper):
    """Copy of Gymnasium's `RepeatAction`, which versions before 1.3 lack."""

    def step(self, action):
        total = 0.0
        for _ in range(3):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


def actions_of(env, seed, steps=STEPS):
    """Return random actions. In a discrete space most are 1, so that CartPole's pole falls soon."""
    rng = np.random.default_rng(seed)
    if isinstance(env.action_space, jaxenvs.spaces.Discrete):
        return [int(a) for a in rng.random(steps) < 0.8]
    return [rng.uniform(-2, 2, 1).astype(np.float32) for _ in range(steps)]


def played(env, actions, params=None):
    """Play `actions` through Gymnasium's interface; return the results of all resets and steps.

    The environment is reset after the end of each episode.
    """
    game = to_gymnasium(env, params=params) if isinstance(env, jaxenvs.Env) else env
    seen = [(game.reset(seed=3)[0], 0.0, False, False, {})]
    for action in actions:
        seen.append(game.step(action))
        if seen[-1][2] or seen[-1][3]:
            seen.append((game.reset()[0], 0.0, False, False, {}))
    return seen


def same_play(ours, theirs, tolerance=1e-5):
    assert len(ours) == len(theirs)
    for mine, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine[0], wanted[0], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(mine[1], wanted[1], rtol=tolerance, atol=tolerance)
        assert mine[2:4] == wanted[2:4]


def test_observations_are_normalised_by_all_that_were_seen_before():
    """Statistics continue after the end of an episode; at least three episodes end in this test."""
    actions = actions_of(CARTPOLE, 0)
    ours = played(wrappers.NormalizeObservation(CARTPOLE), actions)
    theirs = played(gymnasium.wrappers.NormalizeObservation(to_gymnasium(CARTPOLE)), actions)
    assert sum(step[2] for step in theirs) >= 3
    same_play(ours, theirs, 1e-3)


def test_rewards_are_divided_by_the_deviation_of_returns():
    actions = actions_of(PENDULUM, 1)
    ours = played(wrappers.NormalizeReward(PENDULUM, 0.9), actions)
    theirs = played(gymnasium.wrappers.NormalizeReward(to_gymnasium(PENDULUM), 0.9), actions)
    same_play(ours, theirs)


def test_a_return_includes_the_last_reward_and_starts_anew():
    """A return includes the episode's last reward, and the next return starts at 0.

    Gymnasium's wrapper differs: at an episode's last step it sets the return to the last reward
    alone, and the return of the next episode continues from there.
    """
    actions = actions_of(CARTPOLE, 0)
    ours = played(wrappers.NormalizeReward(CARTPOLE, 0.9), actions)
    theirs = played(gymnasium.wrappers.NormalizeReward(to_gymnasium(CARTPOLE), 0.9), actions)
    moments, total, wanted = RunningMeanStd(shape=()), 0.0, []
    for _, reward, terminated, *_ in played(CARTPOLE, actions):
        if reward:  # a reward of 0 marks a reset, which `NormalizeReward` does not count
            total = total * 0.9 + reward
            moments.update(np.array([total]))
            wanted.append(reward / np.sqrt(moments.var + 1e-8))
        total = 0.0 if terminated else total
    got = [step[1] for step in ours if step[1]]
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    # Index of the step in which the first episode ends. The wrappers agree before this step.
    first = next(i for i, step in enumerate(ours) if step[2])
    same_play(ours[:first], theirs[:first], 1e-4)
    assert not np.allclose(got, [step[1] for step in theirs if step[1]], rtol=1e-2)


def batches(kind):
    """Return a batch of three environments in our wrapper `kind`, and one without the wrapper.

    Both batches reset in mode `SAME_STEP`.
    """
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
    ours = to_gymnasium_vec(getattr(wrappers, kind)(PENDULUM, shared=True), 3, **same_step)
    theirs = to_gymnasium_vec(PENDULUM, 3, **same_step)
    return ours, theirs


def test_shared_scales_of_rewards_are_those_of_gymnasiums_batches():
    ours, plain = batches("NormalizeReward")
    theirs = gymnasium.wrappers.vector.NormalizeReward(plain)
    for envs in (ours, theirs):
        envs.reset(seed=5)
    for action in np.random.default_rng(0).uniform(-2, 2, (20, 3, 1)).astype(np.float32):
        np.testing.assert_allclose(ours.step(action)[1], theirs.step(action)[1], rtol=1e-4)


def test_shared_statistics_of_observations_are_those_of_a_batch_of_steps():
    """The statistics that a batch shares include exactly the observations that steps return.

    Gymnasium's wrapper is not compared, because its statistics also include observations of resets.
    """
    ours, plain = batches("NormalizeObservation")
    first = plain.reset(seed=5)[0]
    np.testing.assert_allclose(ours.reset(seed=5)[0], first, rtol=1e-5)
    moments = RunningMeanStd(shape=(3,), dtype=np.float32)
    for action in np.random.default_rng(0).uniform(-2, 2, (20, 3, 1)).astype(np.float32):
        obs = plain.step(action)[0]
        moments.update(obs)
        wanted = (obs - moments.mean) / np.sqrt(moments.var + 1e-8)
        np.testing.assert_allclose(ours.step(action)[0], wanted, rtol=1e-3, atol=1e-4)


def shifted(reward):
    return 2 * reward - 1


def test_rewards_are_changed_and_clipped():
    actions = actions_of(PENDULUM, 2, 10)
    theirs = gymnasium.wrappers.TransformReward(to_gymnasium(PENDULUM), shifted)
    same_play(played(wrappers.TransformReward(PENDULUM, shifted), actions), played(theirs, actions))
    for low, high in ((-1.0, -0.5), (None, -2.0), (-0.5, None)):
        theirs = gymnasium.wrappers.ClipReward(to_gymnasium(PENDULUM), low, high)
        ours = wrappers.ClipReward(PENDULUM, low, high)
        same_play(played(ours, actions), played(theirs, actions))


def test_a_limit_truncates_as_theirs_but_not_where_the_task_ends():
    actions = actions_of(CARTPOLE, 0) + [0, 1] * 15
    # Index of the step in which the pole falls first.
    limit = next(i for i, step in enumerate(played(CARTPOLE, actions)) if step[2])
    ours = played(wrappers.TimeLimit(CARTPOLE, limit), actions)
    theirs = played(gymnasium.wrappers.TimeLimit(to_gymnasium(CARTPOLE), limit), actions)
    both = [step for step in theirs if step[2] and step[3]]
    assert both and any(step[3] and not step[2] for step in theirs)
    only_terminated = [(*s[:3], s[3] and not s[2], s[4]) for s in theirs]
    same_play(ours, only_terminated)


def test_an_action_is_repeated_until_the_episode_ends():
    actions = actions_of(CARTPOLE, 0, 15)
    ours = played(wrappers.ActionRepeat(CARTPOLE, 3), actions)
    theirs = played(Repeated(to_gymnasium(CARTPOLE)), actions)
    known = getattr(gymnasium.wrappers, "RepeatAction", None)
    if known is not None:
        same_play(played(known(to_gymnasium(CARTPOLE), 3), actions), theirs)
    assert {step[1] for step in theirs} >= {3.0} and any(0 < s[1] < 3 and s[2] for s in theirs)
    # Index of the step in which the first episode ends. After it, the two runs reset with different
    # keys.
    end = next(i for i, step in enumerate(theirs) if step[2])
    same_play(ours[: end + 1], theirs[: end + 1])


def test_frames_are_stacked_as_theirs():
    actions = actions_of(CARTPOLE, 0)
    theirs = gymnasium.wrappers.FrameStackObservation(
        to_gymnasium(CARTPOLE), 3, padding_type="reset"
    )
    same_play(played(wrappers.FrameStack(CARTPOLE, 3), actions), played(theirs, actions))


@pytest.mark.parametrize("kind", ["LogWrapper", "EpisodeStatistics"])
def test_episodes_are_counted_as_theirs(kind):
    actions = actions_of(CARTPOLE, 0)
    ours = played(getattr(wrappers, kind)(CARTPOLE), actions)
    recorded = gymnasium.wrappers.RecordEpisodeStatistics(to_gymnasium(CARTPOLE))
    ends = 0
    for mine, wanted in zip(ours, played(recorded, actions), strict=True):
        if wanted[2]:
            ends += 1
            info, episode = mine[4], wanted[4]["episode"]
            if kind == "LogWrapper":
                pairs = info["returned_episode_returns"], info["returned_episode_lengths"]
            else:
                pairs = info["episode"]["return"], info["episode"]["length"]
            assert pairs == (episode["r"], episode["l"])
    assert ends >= 3


def named(obs):
    return dict(zip(("position", "velocity", "angle", "spin"), jnp.asarray(obs), strict=True))


def test_an_autoreset_in_the_same_step_saves_theirs_a_step():
    """Our wrapper resets in the step that ends an episode; Gymnasium's wrapper resets a step later.

    This later step has reward 0, and returns the first observation of the next episode.
    """
    env, actions = wrappers.AutoReset(CARTPOLE), actions_of(CARTPOLE, 0, 60)
    theirs = gymnasium.wrappers.Autoreset(to_gymnasium(CARTPOLE))
    start = theirs.reset(seed=3)[0]
    step = jax.jit(env.step)
    begun = env.reset(jax.random.key(3))
    state = begun.state.replace(**named(start))
    ends = 0
    for time, action in enumerate(actions):
        stepped = step(jax.random.key(time), state, action)
        obs, reward, terminated, *_ = theirs.step(action)
        np.testing.assert_allclose(stepped.info["final_obs"], obs, rtol=1e-5)
        assert (reward, terminated) == (stepped.reward, stepped.terminated)
        state = stepped.state
        if terminated:
            ends += 1
            assert stepped.state.time == 0
            first, reward, *_ = theirs.step(0)  # this step only resets, so its action is ignored
            assert reward == 0
            state = state.replace(**named(first))
    assert ends >= 3
