"""Tests of `EpisodePlayer`, which continues with a smaller batch when few episodes are left."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import Countdown

from jaxenvs.baselines.core import playing, terminal
from jaxenvs.baselines.core.playing import EpisodePlayer, first_episodes
from jaxenvs.core.env import Params, Transition

KEYS = jax.random.split(jax.random.key(0), 2)
COUNT = 256
WEIGHTS = jnp.array([2, 3])  # one number for each agent


class Uneven(Countdown):
    """Environment in which few episodes are long; an action is the reward of the step.

    The share of episodes with at least n steps is about 1 / sqrt(2 n). The observation is the
    length of the episode.
    """

    longest = 4000
    achievements = ("step 5", "step 40")

    @property
    def default_params(self):
        """Return a time limit that no episode reaches."""
        return Params(max_steps_in_episode=np.int32(10_000))

    def draw_level(self, key, params):
        """Draw the length of the episode."""
        return (0.5 + 0.5 / jax.random.uniform(key) ** 2).clip(1, self.longest).astype(jnp.int32)

    def step_state(self, key, state, action, params):
        """Return the action as the reward."""
        achieved = jnp.stack([state.time == 5, state.time == 40])
        ends = state.time >= state.length
        reward = jnp.asarray(action, jnp.float32)
        return Transition(state, reward, ends, {"achievements": achieved})

    def observe(self, state, params=None):
        """Observe the length of the episode."""
        return state.length[None].astype(jnp.float32)


def act(weight, key, obs, state, memory):
    """Choose action 1 in every step whose number is divisible by the agent's weight.

    The number of the step comes from the memory. An episode whose memory belongs to another
    episode chooses action 0 from then on.
    """
    steps, length = memory
    length = jnp.where(steps == 0, obs[:, 0], length)
    is_right = (length == obs[:, 0]) & (steps == state.time)
    action = (is_right & ((steps + 1) % weight == 0)).astype(jnp.int32)
    return action, (steps + 1, length)


MEMORY = (jnp.int32(0), jnp.float32(0.0))


@pytest.fixture
def sizes(monkeypatch):
    """Shorten the parts in which episodes are played; return the list of compiled batch sizes."""
    monkeypatch.setattr(playing, "FIRST_STEPS", 20)
    monkeypatch.setattr(playing, "NEXT_STEPS", 10)
    found, stepped = [], playing._stepped

    def recorded(env, act, batch, params=None):
        found.append(len(batch.playing))
        return stepped(env, act, batch, params)

    monkeypatch.setattr(playing, "_stepped", recorded)
    return found


def finished(env, count=COUNT, agents=2):
    """Play with `EpisodePlayer`; return the episodes of all agents."""
    player = EpisodePlayer(env, act, count, MEMORY, agents)
    return player.finish(player.begin(WEIGHTS[:agents], KEYS[:agents]))


def at_once(env, count=COUNT, agents=2):
    """Play each agent's episodes with `first_episodes`."""
    each = [
        jax.jit(
            lambda key, i=i: first_episodes(
                env, functools.partial(act, WEIGHTS[i]), key, count, MEMORY
            )
        )(KEYS[i])
        for i in range(agents)
    ]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def assert_equal(found, expected):
    """Assert that all results are equal."""
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("agents", [1, 2])
def test_smaller_batches_give_the_same_episodes(sizes, agents):
    env = Uneven()
    expected = at_once(env, agents=agents)
    del sizes[:]
    found = finished(env, agents=agents)
    assert_equal(found, expected)
    assert sizes[0] == COUNT and len(set(sizes)) >= 3 and min(sizes) <= 4
    # Half of the long episodes' steps give a reward of 1 to the first agent.
    lengths = found.lengths[0]
    assert lengths.max() > 500 and np.median(lengths) < 10
    np.testing.assert_array_equal(found.returns[0], lengths // 2)
    np.testing.assert_array_equal(found.achieved[0, :, 1], lengths >= 40)


def test_the_batch_stays_while_many_episodes_go_on(sizes):
    """With episodes of equal length, the batch never shrinks, and only one program is compiled."""

    class Even(Uneven):
        def draw_level(self, key, params):
            return jnp.int32(45)

    found = finished(Even(), 16)
    assert set(sizes) == {16} and (found.lengths == 45).all()


def test_one_episode(sizes):
    assert_equal(finished(Uneven(), 1), at_once(Uneven(), 1))


def test_short_episodes_are_those_of_the_first_program():
    """As long as the batch does not shrink, the results equal the results of `first_episodes`."""

    def drawn(weight, key, obs, state, memory):
        return jax.random.bernoulli(key, 0.5, (len(obs),)).astype(jnp.int32), memory

    env = Uneven()
    player = EpisodePlayer(env, drawn, 8, (), 1)
    found = player.finish(player.begin(WEIGHTS[:1], KEYS[:1]))
    given = functools.partial(drawn, WEIGHTS[0])
    expected = jax.jit(lambda key: first_episodes(env, given, key, 8, ()))(KEYS[0])
    assert found.lengths.max() < playing.FIRST_STEPS
    assert_equal(jax.tree.map(lambda leaf: leaf[0], found), expected)


def test_the_text_is_removed_at_the_end(sizes, monkeypatch):
    shown = []
    monkeypatch.setattr(terminal, "detail", shown.append)
    finished(Uneven(), 64)
    assert shown[0].endswith("after 20 steps") and shown[-1] == "" and "" not in shown[:-1]


def test_lines_tell_how_many_episodes_are_left(sizes, monkeypatch, capsys):
    finished(Uneven(), 64)
    assert capsys.readouterr().out == ""  # without an activity
    monkeypatch.setattr(terminal, "SECONDS_APART", 0.0)
    with terminal.activity("Uneven-v0", "evaluating"):
        finished(Uneven(), 64)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Uneven-v0: ") and lines[0].endswith("after 20 steps")
    assert " of 128 episodes continue after 30 steps" in lines[1]
    left = [int(line.split()[1]) for line in lines]
    assert left == sorted(left, reverse=True) and left[-1] >= 1
    monkeypatch.setattr(terminal, "SECONDS_APART", 3600.0)
    with terminal.activity("Uneven-v0", "evaluating"):
        finished(Uneven(), 64)
    assert capsys.readouterr().out == ""
