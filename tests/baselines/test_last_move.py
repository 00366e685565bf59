"""Tests of the learner last-move: labels of walks, loss, runs, and beam search with its policy."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import cli, search
from jaxenvs.baselines import registry
from jaxenvs.baselines.evaluation import heuristic, planner
from jaxenvs.baselines.puzzles import cost_to_go, last_move
from jaxenvs.baselines.run import train
from jaxenvs.baselines.storage import heuristics, runs
from jaxenvs.puzzles import PegSolitaire
from jaxenvs.puzzles.puzzle import PuzzleLevel

EIGHT = "Puzzle-SlidingTile-3x3-v0"
TINY = {"walks": 4, "scramble": 6, "gradient_steps": 3, "width": 8, "test_boards": 4}
FLAGS = ["--walks", "4", "--scramble", "6", "--gradient-steps", "3", "--width", "8"]
FLAGS += ["--test-boards", "4", "--test-moves", "4", "--eval-episodes", "8"]


def built(env, **settings):
    """Return a learner of `env`, and untrained weights."""
    learner = registry.build("last-move", env, last_move.Settings(**{**TINY, **settings}))
    return learner, jax.jit(learner.init)(jax.random.key(1)).weights


@pytest.mark.parametrize("env", [jaxenvs.make("Puzzle-Cube-2x2-v0"), PegSolitaire()])
def test_the_label_of_a_board_leads_to_the_board_before_it(env):
    """The cube's actions have inverses; Peg solitaire has none, so its walks go backwards."""
    walk = jax.jit(functools.partial(cost_to_go.random_walk, env, steps=12))
    instance, boards, actions = walk(jax.random.key(3))
    assert actions[0] == -1 and env.is_goal(instance, boards[0])
    apply = jax.jit(functools.partial(env.apply, instance))
    for i in range(1, 13):
        move = apply(boards[i], actions[i])
        assert move.valid
        np.testing.assert_array_equal(move.board, boards[i - 1])


def test_no_step_of_a_walk_undoes_the_step_before():
    env = jaxenvs.make("Puzzle-Cube-2x2-v0")
    keys = jax.random.split(jax.random.key(0), 64)
    walk = functools.partial(cost_to_go.random_walk, env, steps=12)
    _, boards, _ = jax.jit(jax.vmap(walk))(keys)
    boards = np.asarray(boards)
    assert (boards[:, 2:] != boards[:, :-2]).any(axis=-1).all()


def test_the_loss_is_the_cross_entropy_of_the_legal_actions():
    env = jaxenvs.make(EIGHT)
    learner, weights = built(env)
    keys = jax.random.split(jax.random.key(2), 4)
    walk = functools.partial(cost_to_go.random_walk, env, steps=6)
    instances, boards, actions = jax.jit(jax.vmap(walk))(keys)
    got, right = jax.jit(functools.partial(last_move.loss, learner))(
        weights, instances, boards, actions
    )
    losses, hits = [], []
    for i in range(4):
        for j in range(1, 7):
            board = jax.tree.map(lambda leaf, i=i, j=j: leaf[i, j], boards)
            logits = np.asarray(learner.network.apply(weights, env.observe_board((), board)))
            valid = np.asarray(env.neighbours((), board).valid)
            chances = np.exp(logits.astype(np.float64)) * valid
            chances /= chances.sum()
            losses.append(-np.log(chances[int(actions[i, j])]))
            hits.append(int(chances.argmax()) == int(actions[i, j]))
    np.testing.assert_allclose(got, np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(right, np.mean(hits), rtol=1e-6)


def test_a_beam_follows_the_policy_and_not_the_heuristic():
    """A policy that knows the way needs a beam of one board; the opposite policy finds nothing."""
    env = jaxenvs.make("Puzzle-Cube-2x2-v0")

    def walk(key):
        instance, boards, actions = cost_to_go.random_walk(env, key, 4)
        return instance, boards[-1], boards[1:], actions[1:]

    _, board, path, right = jax.jit(walk)(jax.random.key(5))
    level = PuzzleLevel(board=board)

    def knows(sign):
        def policy(instance, board):
            same = (path == board).all(axis=1)
            action = jnp.where(same.any(), right[jnp.argmax(same)], 0)
            logits = sign * 5.0 * jax.nn.one_hot(action, env.num_actions)
            return jax.nn.log_softmax(jnp.where(same.any(), logits, 0.0))

        return policy

    found = search.beam(env, level, policy=knows(1.0), width=1, max_length=4)
    assert bool(found.solved) and found.cost == 4.0
    np.testing.assert_array_equal(found.actions, np.asarray(right)[::-1])
    assert not search.beam(env, level, policy=knows(-1.0), width=1, max_length=4).solved


def test_a_beam_keeps_the_boards_of_the_most_probable_paths():
    """The beam of the third step equals the one of a plain search with Python's sort."""
    env, width = jaxenvs.make(EIGHT), 3
    learner, weights = built(env)
    policy = functools.partial(last_move.log_probs, learner, weights)
    level = jax.jit(env.sample_level)(jax.random.key(4))
    paths = {tuple(np.asarray(env.pack(level.board)).tolist()): (0.0, level.board)}
    inverse, last = np.asarray(env.inverse), {}
    for _ in range(3):
        after, came = {}, {}
        for word, (cost, board) in paths.items():
            moves, chances = env.neighbours((), board), np.asarray(policy((), board))
            for action in range(4):
                undone = word in last and inverse[last[word]] == action
                if not moves.valid[action] or undone:
                    continue
                then = tuple(np.asarray(env.pack(moves.board[action])).tolist())
                total = cost - float(chances[action])
                if then not in after or total < after[then][0]:
                    after[then], came[then] = (total, moves.board[action]), action
        best = sorted(after, key=lambda word: after[word][0])[:width]
        paths, last = {word: after[word] for word in best}, {word: came[word] for word in best}
    found = search.beam(env, level, policy=policy, width=width, max_length=3)
    expected = min(paths.values(), key=lambda path: path[0])[1]
    np.testing.assert_array_equal(found.board, expected)


def test_a_beam_refuses_a_heuristic_with_a_policy():
    env = jaxenvs.make(EIGHT)
    level = jax.jit(env.sample_level)(jax.random.key(0))
    with pytest.raises(ValueError, match="heuristic and policy both score boards; give one"):
        search.beam(env, level, heuristic=env.heuristic, policy=lambda *_: jnp.zeros(4))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a finished tiny run of two seeds."""
    out = tmp_path_factory.mktemp("runs") / "run"
    asked = [EIGHT, "--algo", "last-move", *FLAGS, "--total-steps", str(3 * 3 * 4 * 7)]
    assert train.main([*asked, "--seeds", "2", "--checkpoint-every", "1", "--out", str(out)]) == 0
    return out


@pytest.mark.full
def test_a_run_is_trained_resumed_searched_and_judged(finished, tmp_path, capsys):
    assert json.loads((finished / "eval.json").read_text())["boards"] == 8
    record = runs.Run.open(finished).records()[-1]
    assert len(record["accuracy"]) == 2 and 0.0 < record["accuracy"][0] <= 1.0
    plan = planner.load(finished)
    assert plan.algorithm == "beam"
    with pytest.raises(ValueError, match="astar takes no policy; give beam"):
        plan.guide("astar")
    with pytest.raises(runs.RunError, match="was trained by last-move, which does not fit"):
        heuristics.load_heuristic(finished)
    shown = ["solve", EIGHT, "--set", "scramble=4", "--model", str(finished)]
    shown += ["--algorithm", "beam", "--batch-size", "64"]
    assert cli.main(shown) == 0
    assert heuristic.main([str(finished), "--boards", "4", "--batch-size", "16"]) == 0
    judged = json.loads((finished / "heuristic.json").read_text())
    assert [one["seed"] for one in judged["per_seed"]] == [0, 1]
    for one in judged["per_seed"]:
        assert one["algorithm"] == "beam" and one["width"] == 16 and "budget" not in one
    # The same updates, with a break after the second, give the same weights.
    asked = [EIGHT, "--algo", "last-move", *FLAGS, "--seeds", "2", "--checkpoint-every", "1"]
    out = tmp_path / "broken"
    capsys.readouterr()
    assert train.main([*asked, "--no-anneal", "--total-steps", "168", "--out", str(out)]) == 0
    assert train.main(["--resume", str(out), "--total-steps", "252"]) == 0
    whole = tmp_path / "whole"
    assert train.main([*asked, "--no-anneal", "--total-steps", "252", "--out", str(whole)]) == 0
    learner, one = heuristics.trained(out, 1, ("last-move",))
    same = jax.tree.map(np.array_equal, one, heuristics.trained(whole, 1, ("last-move",))[1])
    assert all(jax.tree.leaves(same)) and learner.settings.total_steps == 252


@pytest.mark.full
def test_wide_beams_solve_fewer_boards_at_once(finished, monkeypatch):
    """The solutions are the same; fewer wide beams fit into the memory of a GPU."""
    plan = planner.load(finished)
    levels = jax.vmap(plan.puzzle.sample_level)(jax.random.split(jax.random.key(3), 5))
    together = heuristic.solve(plan, levels, "beam", batch_size=16)
    monkeypatch.setattr(heuristic, "BEAMS", 2 * 16)
    apart = heuristic.solve(plan, levels, "beam", batch_size=16)
    for name in ("found", "solved", "cost", "actions", "expanded"):
        np.testing.assert_array_equal(together[name], apart[name])


@pytest.mark.full
def test_it_learns_to_solve_short_scrambles():
    """After 60,000 boards, a beam of 16 boards solves nearly all 8-puzzles of eight moves."""
    env = jaxenvs.make(EIGHT, scramble=8)
    learner, _ = built(env, walks=32, scramble=12, width=64, gradient_steps=50)
    runner = jax.jit(learner.init)(jax.random.key(0))
    update = jax.jit(learner.update)
    for _ in range(3):
        runner, metrics = update(runner)
    assert metrics["accuracy"] > 0.6
    policy = functools.partial(last_move.log_probs, learner, runner.weights)
    levels = jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(9), 64))
    found = search.beam(env, levels, policy=policy, width=16, max_length=20)
    assert found.solved.mean() > 0.9


def test_what_cannot_work_is_refused(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    assert train.main(["Puzzle-2048-v0", "--algo", "last-move", *out]) == 2
    assert "has no single goal, where last-move starts" in capsys.readouterr().err
