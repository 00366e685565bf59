"""Tests of the learners with a curriculum over levels: PLR, ACCEL, SFL."""

import dataclasses
import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from test_dqn import resumes_bit_identically
from tiny import Countdown, Endless

import jaxenvs
from jaxenvs import levels
from jaxenvs.baselines.core import level_buffer, truncations
from jaxenvs.baselines.core.given_levels import GivenLevel, edited, new_levels
from jaxenvs.baselines.on_policy import curricula, plr, sfl
from jaxenvs.baselines.run import loop, train
from jaxenvs.core.wrappers.normalisation import NormalizeReward

pytestmark = pytest.mark.full

MAZE = jaxenvs.make("Grid-AMaze-13x13-v0", size=6, walls=4, max_steps_in_episode=12)
KEY = jax.random.key(0)
FLAGS = "--set size=6 walls=4 --param max_steps_in_episode=8 --num-envs 4 --rollout-steps 8"
FLAGS += " --minibatches 2 --hidden 8 --embed 2 --memory 4 --eval-episodes 4 --seeds 2"
FLAGS += " --checkpoint-every 2"


def updates(agent, count):
    """Return a list of (runner, metrics) after each of the first `count` updates of one seed.

    A runner is the training state of the learner.
    """
    runners, found = loop.start(agent, KEY[None]), []
    for _ in range(count):
        runners, metrics = loop.run_chunk(agent, runners)
        after = jax.tree.map(lambda leaf: np.array(leaf[0]), runners._replace(key=()))
        found.append((after, {name: float(value[0, 0]) for name, value in metrics.items()}))
        assert np.isfinite(found[-1][1]["return_sum"])
    return found


@pytest.fixture(scope="module")
def replays():
    """Return a PLR learner, and (runner, metrics) after each of its first eight updates.

    The first update plays new levels. Then replays and edits of the replayed levels alternate.
    """
    agent = tiny.learner(MAZE, "plr", replay_prob=1.0, edits=2, score="regret")
    return agent, updates(agent, 8)


def test_a_run_has_new_replayed_and_edited_levels(replays):
    """After one update with new levels, updates with replayed and with edited levels alternate."""
    _, found = replays
    assert [int(after.levels.kind) for after, _ in found] == [0, 1, 2, 1, 2, 1, 2, 1]
    assert [metrics["replayed"] for _, metrics in found] == [0, 1, 0, 1, 0, 1, 0, 1]
    assert [int(after.levels.updates) for after, _ in found] == list(range(1, 9))


def test_a_robust_run_learns_from_replays_only(replays):
    """Weights change only in updates that replay; all other updates mark the losses as unknown."""
    _, found = replays
    for (before, _), (after, metrics) in itertools.pairwise(found):
        same = jax.tree.map(np.array_equal, before.weights, after.weights)
        assert all(jax.tree.leaves(same)) == (not metrics["replayed"])
    for _, metrics in found:  # the first update plays new levels
        assert metrics["value_loss_known"] == metrics["replayed"]


@pytest.mark.parametrize(("steps", "warns"), [(12, True), (23, True), (24, False)])
def test_learnability_warns_of_rollouts_of_one_episode(steps, warns, capsys):
    """A rollout should have room for a success and a failure at the time limit of 12 steps."""
    agent = tiny.learner(MAZE, "plr", score="learnability", rollout_steps=steps, robust=False)
    plr.check(agent, 1, 4)
    said = capsys.readouterr().err
    assert (f"leaves {steps - 12} of the rollout's {steps} steps" in said) == warns
    assert ("may score 0; give --rollout-steps 24 or more" in said) == warns


def test_replayed_levels_are_those_of_the_buffer(replays):
    """A replay plays the levels of the drawn slots, and updates their statistics."""
    _, found = replays
    for (before, _), (after, metrics) in itertools.pairwise(found):
        if not metrics["replayed"]:
            continue
        rows = after.levels.rows
        assert before.levels.buffer.filled[rows].all()
        grids = before.levels.buffer.levels.grid[rows]
        assert np.array_equal(after.world.env.grid, grids)
        assert (after.levels.buffer.time[rows] == before.levels.updates).all()


def test_edited_levels_are_edits_of_the_replayed_ones(replays):
    """The update after a replay plays the replayed levels, each changed by two random edits."""
    _, found = replays
    replayed, edited_ = found[1][0], found[2][0]
    differ = (replayed.world.env.grid != edited_.world.env.grid).sum(axis=(1, 2))
    assert differ.any() and (differ <= 4).all()


def test_facts_of_the_buffer_are_those_of_its_levels(replays):
    """In each slot of the buffer, hash, optimal return and score belong to the slot's level."""
    _, found = replays
    buffer = found[-1][0].levels.buffer
    filled = buffer.filled
    stored = jax.tree.map(jnp.asarray, buffer.levels)
    assert np.array_equal(level_buffer.hashes_of(stored)[filled], buffer.hashes[filled])
    assert len(np.unique(buffer.hashes[filled], axis=0)) == filled.sum()
    steps = jax.vmap(MAZE.optimal_steps)(stored)
    assert np.array_equal(steps[filled], buffer.played.optimal_steps[filled])
    best = np.where(np.asarray(steps) <= 12, 1 - 0.9 * np.asarray(steps) / 12, 0.0)
    np.testing.assert_allclose(buffer.played.optimal_return[filled], best[filled], atol=1e-6)
    regret = buffer.played.optimal_return - buffer.played.returned
    np.testing.assert_allclose(buffer.played.score[filled], regret[filled], atol=1e-5)
    assert (buffer.played.best + 1e-6 >= buffer.played.returned)[filled].all()


def test_episodes_restart_in_the_same_level():
    """All episodes of an update begin in the environment's level, with a new recurrent state."""
    agent = tiny.learner(Countdown(), "plr", rollout_steps=24)

    @jax.jit
    def one(key):
        runner = plr.init(agent, key)
        given = jnp.arange(1, 9, dtype=jnp.int32)
        runner, play = curricula.play(agent, runner, key, given)
        return runner._replace(params=None), play

    _, play = jax.vmap(one, axis_name="seeds")(KEY[None])
    play = jax.tree.map(lambda leaf: leaf[0], play)
    lengths = np.minimum(np.arange(1, 9), 6)  # the time limit is 6
    assert np.array_equal(play.episodes.ended, 24 // lengths)
    won = (np.arange(1, 9) > 3) & (np.arange(1, 9) <= 6)
    assert np.array_equal(play.episodes.success, won.astype(np.float32))
    assert np.array_equal(
        play.episodes.returned, np.where(lengths < 7, [1, 2, 3, 4, 5, 6, 0, 0], 0)
    )


class Often(Countdown):
    """Countdown in which every step from the second on succeeds."""

    def succeeded(self, step):
        return step.state.time >= 2


def test_an_episode_with_several_successes_counts_once():
    """An episode with several successful steps counts as one success, so rates are at most 1.

    In this environment, every step from the second on succeeds, and the episode goes on.
    """
    agent = tiny.learner(Often(), "plr", rollout_steps=23)

    @jax.jit
    def both(key):
        runner = plr.init(agent, key)
        given = jnp.arange(1, 9, dtype=jnp.int32)
        _, play = curricula.play(agent, runner, key, given)
        return play.episodes, curricula.tried(agent, runner, key, given, 23)

    lengths = np.minimum(np.arange(1, 9), 6)
    for found in jax.vmap(both, axis_name="seeds")(KEY[None]):
        assert np.array_equal(found.ended[0], 23 // lengths)
        assert np.array_equal(found.success[0], (lengths >= 2).astype(np.float32))


def test_sfl_keeps_the_most_learnable_levels():
    """Check the scores of the levels that SFL keeps, and that half of the environments plays them.

    In every second update, SFL searches for new levels and replaces all levels that it keeps.
    """
    agent = tiny.learner(MAZE, "sfl")
    found = updates(agent, 3)
    (first, _), (second, _), (third, _) = found
    for after, _ in found:
        buffer = after.levels.buffer
        assert buffer.filled.all()
        p = buffer.played.success
        np.testing.assert_allclose(buffer.played.score, p * (1 - p), atol=1e-6)
    assert np.array_equal(first.levels.buffer.hashes, second.levels.buffer.hashes)
    assert not np.array_equal(second.levels.buffer.hashes, third.levels.buffer.hashes)
    kept = {grid.tobytes() for grid in second.levels.buffer.levels.grid}
    played = [grid.tobytes() in kept for grid in second.world.env.grid]
    assert played[:4] == [True] * 4


def test_sfl_chooses_by_score():
    """The kept levels have the largest scores of all candidates."""
    agent = tiny.learner(MAZE, "sfl")

    @functools.partial(jax.vmap, axis_name="seeds")
    def both(key):
        runner = sfl.init(agent, key)
        everything = dataclasses.replace(agent.settings, kept=12)
        whole = dataclasses.replace(agent, settings=everything)
        return sfl.searched(agent, runner, key), sfl.searched(whole, sfl.init(whole, key), key)

    kept, candidates = jax.jit(both)(KEY[None])
    scores = np.sort(np.asarray(candidates.played.score[0]))[::-1]
    assert np.array_equal(kept.played.score[0], scores[:5])


@pytest.mark.parametrize(
    "flags",
    ["--algo plr --buffer 12 --edits 1 --score regret", "--algo sfl --candidates 6 --kept 4"],
)
def test_a_resumed_run_is_bit_identical(tmp_path, flags):
    """Compare a run with the same run interrupted and resumed after two updates."""
    more = " --candidate-envs 6 --candidate-steps 8 --every 2" * ("sfl" in flags)
    given = f"{flags}{more} {FLAGS}".split()
    resumes_bit_identically(tmp_path, given, "Grid-AMaze-13x13-v0", "episodes")


@pytest.mark.parametrize(
    ("id", "edits"),
    [("Puzzle-Sokoban-6x6-v0", 3), ("BabyAI-GoToLocal-v0", 3), ("XLand-R1-9x9-v0", 0)],
)
def test_levels_of_other_families(id, edits):
    """PLR replays and edits levels of families other than Grid.

    The compiled program cannot compute the optimal returns of these levels. Levels of XLand are
    replayed only, because they cannot be edited.
    """
    env = jaxenvs.make(id, max_steps_in_episode=16)
    agent = tiny.learner(env, "plr", score="pvl", edits=edits, replay_prob=1.0, embed=2)
    found = updates(agent, 4)
    assert [int(after.levels.kind) for after, _ in found] == [0, 1, 2 if edits else 1, 1]
    assert "buffer_unsolvable" not in found[-1][1]


@pytest.mark.parametrize(
    ("id", "flags", "message"),
    [
        ("XLand-R1-9x9-v0", "--edits 1 --rollout-steps 250", "edits=1.*families with edits are"),
        (
            "Grid-DoorKey-5x5-v0",
            "--score regret --rollout-steps 250",
            "score=regret needs the best",
        ),
        ("Grid-DoorKey-5x5-v0", "--rollout-steps 200", "give --rollout-steps 250 or more"),
        ("Grid-AMaze-13x13-v0", "--replay-prob 0", "it would never learn; give --replay-prob"),
        (
            "Grid-AMaze-13x13-v0",
            "--total-steps 100000 --num-envs 32 --buffer 4000 --chunk 1",
            "begin after 63 updates and the run has 13, so",
        ),
        ("Grid-AMaze-13x13-v0", "--bonus 0.1", "bonus=0.1: curricula score"),
        ("Grid-AMaze-13x13-v0", "--reset-source pool", "the curriculum gives the levels"),
        pytest.param(
            "Craft-Classic-Ids-v0",
            "--score learnability --rollout-steps 10000",
            "has a score only",
            marks=pytest.mark.full,
        ),
    ],
)
def test_errors_say_what_to_do(id, flags, message, capsys, tmp_path):
    """Each wrong option gets one sentence as error message, before any file is written."""
    out = tmp_path / "run"
    assert train.main([id, "--algo", "plr", *flags.split(), "--out", str(out)]) == 2
    assert re.search(message, capsys.readouterr().err) and not out.exists()


def test_a_share_of_few_environments_may_be_none(as_a_user):
    """SFL refuses one environment with `sampled=0.5`: half an environment is rounded to 0.

    With 0 environments for the kept levels, SFL would play only new levels.
    """
    agent = tiny.learner(MAZE, "sfl", num_envs=1, minibatches=1, sampled=0.5)
    with pytest.raises(ValueError, match=r"sampled=0.5 of 1 environments on each device is less"):
        sfl.check(agent, 1, 1)


@pytest.mark.parametrize("name", ["plr", "sfl"])
def test_values_of_few_final_states_use_their_own_levels(name, monkeypatch):
    """If final states are not copied, the network evaluates 64 of them at once."""
    monkeypatch.setattr(truncations, "MOST_COPIED", 0)
    jax.clear_caches()
    more = {"plr": {"replay_prob": 1.0}, "sfl": {"candidates": 8, "candidate_envs": 4}}[name]
    agent = tiny.learner(MAZE, name, num_envs=96, minibatches=2, **more)
    assert np.isfinite(updates(agent, 2)[-1][1]["return_sum"])


def test_statistics_that_outlive_episodes_are_refused(as_a_user):
    agent = tiny.learner(NormalizeReward(MAZE), "plr")
    with pytest.raises(ValueError, match="keeps statistics beyond the end of an episode"):
        plr.check(agent, 1, 1)


def test_an_environment_needs_levels():
    """PLR refuses an environment whose level has no arrays: all its episodes begin alike."""
    with pytest.raises(ValueError, match=r"all episodes of Endless.* begin in the same level"):
        plr.check(tiny.learner(Endless(), "plr"), 1, 1)


class OneLevel(Endless):
    """Environment without success, whose drawn levels are all equal."""

    def draw_level(self, key, params):
        """Return the only level."""
        return jnp.int32(1)


def test_equal_levels_take_one_slot():
    """Equal levels take one slot of the buffer; replays begin although the buffer never fills.

    The environment defines no success, so the correlation of score and success is not logged.
    """
    found = updates(tiny.learner(OneLevel(), "plr", replay_prob=1.0), 3)
    assert found[-1][0].levels.buffer.filled.sum() == 1 and found[-1][1]["replayed"]
    assert "score_success" not in found[-1][1]


def test_a_given_level_is_played_and_edited():
    """`GivenLevel` begins in its params' level, and `edited` changes each level of a batch."""
    env = GivenLevel(env=MAZE)
    drawn = new_levels(env, KEY, 3)
    one = jax.tree.map(lambda leaf: leaf[1], drawn)
    state = env.reset(KEY, env.params_for(one)).state
    assert np.array_equal(state.grid, one.grid)
    changed = jax.jit(edited, static_argnums=(0, 3))(env, KEY, drawn, 3)
    assert not np.array_equal(changed.grid, drawn.grid)
    assert all(not levels.check(MAZE, jax.tree.map(lambda x, i=i: x[i], changed)) for i in range(3))
