"""Tests of restarts from saved states (core/restarts.py)."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int32
from scipy import stats
from test_devices import end, start
from tiny import Countdown, Endless, learner

import jaxenvs
from jaxenvs.baselines.core import restarts, rollouts
from jaxenvs.baselines.core.devices import Devices
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import checkpoints
from jaxenvs.core.env import Params, State, Transition
from jaxenvs.core.wrappers import NormalizeReward

ON = {"restart_share": 0.5, "restart_slots": 6}


@jaxenvs.struct
class StairsState(State):
    """State with the position and the number of steps upwards."""

    height: Int32[Array, ""]  # number of steps upwards, each of which had a reward of 1


class Stairs(Endless):
    """Action 1 climbs a step, for a reward of 1; action 0 falls off and ends the episode."""

    @property
    def default_params(self) -> Params:
        """Return params with a time limit of 9 steps."""
        return Params(max_steps_in_episode=np.int32(9))

    def reset_state(self, key, level, params):
        """Return a state at the bottom."""
        return StairsState(time=jnp.int32(0), height=jnp.int32(0))

    def step_state(self, key, state, action, params):
        """Climb, or fall off; every third step upwards has no reward."""
        up = action == 1
        height = state.height + up.astype(jnp.int32)
        reward = (up & (height % 3 != 0)).astype(jnp.float32)
        return Transition(state.replace(height=height), reward, ~up)

    def observe(self, state, params=None):
        """Observe the height plus 1: a GRU that reads only zeros would stay at zero."""
        return state.height[None].astype(jnp.float32) + 1.0


def score_of(height):
    """Return the number of steps up to `height` that had a reward."""
    return height - height // 3


def updated(agent, updates, seeds=1):
    """Return the runners and the metrics after each of the first updates, as NumPy arrays."""
    runners, found = loop.start(agent, jax.random.split(jax.random.key(0), seeds)), []
    for _ in range(updates):
        runners, metrics = loop.run_chunk(agent, runners)
        found.append(jax.device_get((runners._replace(key=()), metrics)))
    return found


@pytest.mark.parametrize("algorithm", ["ppo-rnn", "pqn"])
def test_the_archive_has_states_of_its_scores(algorithm):
    """Saved states have the score of their slot, and restarted environments go on counting."""
    agent = learner(Stairs(), algorithm, rollout_steps=4, **ON)
    found = updated(agent, 12, seeds=2)
    for runner, metrics in found:
        held = runner.restarts
        filled = held.scores > 0
        kind = np.arange(held.scores.shape[1]) % restarts.SCORES + 1
        np.testing.assert_array_equal(held.scores[filled], np.tile(kind, (2, 1))[filled])
        np.testing.assert_array_equal(score_of(held.states.height[filled]), held.scores[filled])
        np.testing.assert_array_equal(score_of(runner.world.env.height), held.reached)
        np.testing.assert_array_equal(runner.obs[..., 0], runner.world.env.height + 1)
        np.testing.assert_allclose(metrics["restarts"][:, -1], held.restarted.mean(axis=1))
    assert filled.any(axis=1).all() and held.restarted.any()
    assert not np.array_equal(held.states.height[0], held.states.height[1]), "seeds differ"


def advanced(agent, runner, key):
    """Return the runner after a rollout, the rollout, and the result of the restarts."""

    def one(runner):
        after, rollout = rollouts.collect(agent, runner, key, ppo.choose)
        return after, rollout, restarts.after_rollout(agent, after, rollout)

    one_seed = jax.vmap(one, axis_name=SEEDS)
    return jax.tree.map(lambda leaf: leaf[0], jax.jit(one_seed)(runner))


def test_a_restart_restores_state_and_memory():
    """A restarted environment has a saved state with the recurrent state stored for it."""
    agent = learner(Stairs(), "ppo-rnn", num_envs=64, rollout_steps=8, **ON)
    runner = loop.start(agent, jax.random.key(1)[None])
    restored = 0
    for i in range(4):
        _, _, (after, _, _) = advanced(agent, runner, jax.random.key(i))
        held = after.restarts
        rows = np.flatnonzero(held.restarted & (after.lengths == 0))
        memory = np.concatenate([np.asarray(x) for x in jax.tree.leaves(held.memory)], axis=-1)
        now = np.concatenate([np.asarray(x) for x in jax.tree.leaves(after.memory)], axis=-1)
        for row in rows:
            same = (memory == now[row]).reshape(len(memory), -1).all(axis=1)
            same &= np.asarray(held.scores) == int(held.reached[row])
            heights = np.asarray(held.states.height)[same]
            assert int(after.world.env.height[row]) in heights
            assert np.abs(now[row]).max() > 0
        restored += len(rows)
        runner = jax.tree.map(lambda leaf: leaf[None], after)
    assert restored > 20


def test_slots_are_drawn_by_rarity():
    """A score is drawn with a probability proportional to 1 / visits, then a state uniformly."""
    scores = jnp.int32([1, 0, 3, 1, 2, 3, 1, 0, 0, 0, 2, 3])  # four slots for each of three scores
    visits = jnp.float32([40.0, 8.0, 4.0])
    chances = restarts.probabilities(scores, visits)
    drawn = jax.random.choice(jax.random.key(0), 12, (20_000,), p=chances)
    weight = np.array([1 / 40, 1 / 8, 1 / 4])
    expected = np.zeros(12)
    for slot, score in enumerate(np.asarray(scores)):
        if score:
            expected[slot] = weight[score - 1] / np.sum(np.asarray(scores) == score)
    filled = expected > 0
    seen = np.bincount(np.asarray(drawn), minlength=12)
    assert not seen[~filled].any()
    expected *= 20_000 / expected.sum()
    assert stats.chisquare(seen[filled], expected[filled]).pvalue > 1e-3
    empty = restarts.probabilities(jnp.zeros(12, jnp.int32), visits)
    assert not np.asarray(empty).any()


def test_the_share_of_restarts():
    """Without saved states nothing restarts; else a share of the environments that ended does."""
    agent = learner(Stairs(), num_envs=4096, rollout_steps=8, **ON)
    runner = loop.start(agent, jax.random.key(1)[None])
    before, rollout, (after, _, _) = advanced(agent, runner, jax.random.key(0))
    ended = np.asarray(rollout.terminated | rollout.truncated).any(axis=0)
    restarted = np.asarray(after.restarts.restarted)
    assert not restarted[~ended].any()
    assert stats.binomtest(int(restarted.sum()), int(ended.sum()), 0.5).pvalue > 1e-3
    # steps that all fall off have no score, so there is nothing to restart from
    none = rollout._replace(points=jnp.zeros_like(rollout.points))
    empty = before._replace(restarts=runner.restarts._replace(
        **{name: getattr(runner.restarts, name)[0] for name in ("scores", "reached", "restarted")},
        states=jax.tree.map(lambda leaf: leaf[0], runner.restarts.states),
    ))  # fmt: skip
    still, _, metrics = jax.jit(functools.partial(restarts.after_rollout, agent))(empty, none)
    assert float(metrics["restarts"]) == 0.0
    jax.tree.map(np.testing.assert_array_equal, still.world, before.world)


def test_only_whole_episodes_are_counted():
    done = np.zeros((4, 4), bool)
    done[[0, 2, 3], :] = True
    rollout = rollouts.Rollout(terminated=jnp.asarray(done), truncated=jnp.zeros((4, 4), bool))
    restarted, due = jnp.array([False, True, False, True]), jnp.array([False, False, True, True])
    ends = np.asarray(restarts.counted(rollout, restarted, due).terminated)
    np.testing.assert_array_equal(ends.sum(axis=0), [3, 2, 1, 0])
    assert ends[0].tolist() == [True, False, True, False]


def test_two_environments_never_share_a_slot():
    """If several states get the same slot, the stored state is one of them as a whole."""
    agent = learner(Stairs(), "ppo-rnn", num_envs=64, restart_share=0.5, restart_slots=1)
    runner = loop.start(agent, jax.random.key(0)[None])
    runner = jax.tree.map(lambda leaf: leaf[0], runner)
    envs = jnp.arange(64, dtype=jnp.int32)
    world = runner.world.replace(env=StairsState(time=envs, height=envs))
    runner = runner._replace(world=world)
    score = jnp.full(64, 2, jnp.int32)
    held, offered = restarts.save(jax.random.key(3), runner, score, envs % 2 == 0)
    assert int((held.scores > 0).sum()) == 1 and offered[1] == 32 and offered.sum() == 32
    assert int(held.states.time[1]) == int(held.states.height[1]) and held.states.time[1] % 2 == 0


def test_a_slot_is_written_once():
    slot = np.asarray(restarts.distinct(jnp.int32([2, 0, 2, 5, 0, 5, 1]), 5))
    assert len(set(slot.tolist())) == 7
    assert sorted(slot[slot < 5].tolist()) == [0, 1, 2]


def test_without_restarts_nothing_is_stored():
    agent = learner(Countdown(), "ppo-rnn")
    runner = loop.start(agent, jax.random.key(0)[None])
    assert runner.restarts == () and runner.visits == ()
    assert "restarts" not in loop.run_chunk(agent, runner)[1]


@pytest.mark.parametrize(
    ("algorithm", "text"),
    [("plr", "curriculum chooses"), ("rl2", "trial"), ("dyna", "ppo-rnn"), ("ppo-ray", "actors")],
)
def test_learners_that_cannot_restart_say_why(algorithm, text):
    with pytest.raises(ValueError, match=f"restart_share=0.5.*{text}"):
        learner(Countdown(), algorithm, restart_share=0.5)


def test_settings_that_do_not_fit():
    with pytest.raises(ValueError, match="no episode would begin in a new level"):
        learner(Stairs(), restart_share=1.0)
    with pytest.raises(ValueError, match="keeps statistics beyond the end"):
        learner(NormalizeReward(Stairs()), restart_share=0.5)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    """The archive is a part of the checkpoint."""
    out, flags = tmp_path / "run", ["--num-envs", "8", "--rollout-steps", "16", "--hidden", "8"]
    flags += ["--restart-share", "0.5", "--restart-slots", "4", "--checkpoint-every", "2"]
    flags += ["--eval-episodes", "8", "--seeds", "2", "--minibatches", "2"]
    first = ["CartPole-v1", *flags, "--out", str(out)]
    assert train.main([*first, "--total-steps", str(4 * 128)]) == 0
    whole = checkpoints.contents(checkpoints.saved(out / "checkpoints")[-1])
    assert (whole["learner.restarts.scores"] > 0).any()
    assert whole["learner.restarts.restarted"].any()
    newest = checkpoints.saved(out / "checkpoints")[-1]
    for file in sorted(newest.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    newest.rmdir()
    assert train.main(["--resume", str(out), "--eval-episodes", "8"]) == 0
    again = checkpoints.contents(checkpoints.saved(out / "checkpoints")[-1])
    jax.tree.map(np.testing.assert_array_equal, whole, again)


def of_devices(count):
    """Print facts of four updates on `count` devices as JSON; run in a separate process."""
    agent = learner(
        Stairs(), "ppo-rnn", Devices(count), num_envs=16, rollout_steps=8, restart_share=0.5,
        restart_slots=4,
    )  # fmt: skip
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 1))
    for _ in range(6):
        runners, metrics = loop.run_chunk(agent, runners)
    held = jax.device_get(runners.restarts)
    filled, copies = (
        held.scores > 0,
        [np.asarray(x.data) for x in runners.visits.addressable_shards],
    )
    kind = np.arange(held.scores.size) % restarts.SCORES + 1
    facts = {
        "slots": int(held.scores.size),
        "sorted": bool((held.scores[filled] == kind[filled[0]]).all()),
        "reached": bool((score_of(held.states.height[filled]) == held.scores[filled]).all()),
        "filled": [int(half.sum()) for half in np.split(filled[0], count)],
        "equal_visits": all((copy == copies[0]).all() for copy in copies),
        "restarts": float(metrics["restarts"][0, -1]),
        "expected_restarts": float(held.restarted.mean()),
    }
    print(json.dumps(facts))


def test_each_device_has_a_part_of_the_archive():
    code = "import test_restarts; test_restarts.of_devices(2)"
    facts = json.loads(end(start(["-c", code], 2))[0])
    assert facts["slots"] == 4 * restarts.SCORES and min(facts["filled"]) > 0
    assert facts["sorted"] and facts["reached"] and facts["equal_visits"]
    assert facts["restarts"] == pytest.approx(facts["expected_restarts"]) != 0.0
    with pytest.raises(ValueError, match="restart_slots=3 does not divide evenly among 2 devices"):
        learner(Stairs(), devices=Devices(2), num_envs=8, restart_share=0.5, restart_slots=3)
