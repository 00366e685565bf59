"""Tests of DAVI (deep approximate value iteration): walks from the goal, targets, runs, searches.

In the searches, A* and Q* use what DAVI has learned as their heuristic.
"""

import dataclasses
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
from jaxenvs.baselines.puzzles import cost_to_go, davi
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import heuristics, runs
from jaxenvs.puzzles import PegSolitaire

pytestmark = pytest.mark.full

DAVI = ["Puzzle-SlidingTile-3x3-v0", "--algo", "davi"]
TINY = {"walks": 4, "scramble": 6, "gradient_steps": 3, "width": 8, "test_boards": 4}
FLAGS = ["--walks", "4", "--scramble", "6", "--gradient-steps", "3", "--width", "8"]
FLAGS += ["--test-boards", "4", "--test-moves", "4", "--eval-episodes", "8"]


@pytest.fixture(scope="module")
def cube():
    """Return a DAVI learner for the 2x2x2 cube, and its untrained weights."""
    learner = registry.build("davi", jaxenvs.make("Puzzle-Cube-2x2-v0"), davi.Settings(**TINY))
    weights = jax.jit(learner.init)(jax.random.key(1)).weights
    # A bias of 3 makes the predicted costs so large that their lower limit of 0 has no effect.
    return learner, jax.tree.map(lambda leaf: leaf + 3.0 if leaf.shape == (1,) else leaf, weights)


@pytest.fixture(scope="module")
def by_action():
    """Return a learner that predicts a cost per action of the 8-puzzle, and untrained weights."""
    learner = registry.build("davi", jaxenvs.make(DAVI[0]), davi.Settings(**TINY, q=True))
    weights = jax.jit(learner.init)(jax.random.key(1)).weights
    return learner, jax.tree.map(lambda leaf: leaf + 3.0 if leaf.shape == (4,) else leaf, weights)


def total(updates: int) -> list[str]:
    """Return the command-line flags of a run that makes `updates` tiny updates."""
    return ["--total-steps", str(updates * 3 * 4 * 7)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a finished tiny run of two seeds."""
    out = tmp_path_factory.mktemp("runs") / "davi"
    asked = [*DAVI, *FLAGS, *total(3), "--target-every", "2", "--seeds", "2"]
    assert train.main([*asked, "--checkpoint-every", "1", "--out", str(out)]) == 0
    return out


def test_a_target_is_the_minimum_of_cost_plus_cost_to_go(cube):
    learner, weights = cube
    _, boards = jax.jit(functools.partial(davi.walk, learner))(jax.random.key(3))
    got = jax.jit(davi.targets, static_argnums=0)(learner, weights, (), boards)
    goal = np.asarray(learner.env.goal(()))
    observations = np.asarray(boards.child).reshape(7, 6, 6, 2, 2)
    guesses = np.asarray(
        jax.vmap(jax.vmap(functools.partial(learner.network.apply, weights)))(observations)
    )
    for i in range(7):
        children = [
            0.0 if (child == goal).all() else max(float(guess), 0.0)
            for child, guess in zip(np.asarray(boards.child[i]), guesses[i], strict=True)
        ]
        at_goal = (np.asarray(boards.board[i]) == goal).all()
        np.testing.assert_allclose(got[i], 0.0 if at_goal else 1.0 + min(children), rtol=1e-5)
    assert (np.asarray(boards.board[0]) == goal).all() and got[0] == 0.0
    assert got[1] == 1.0  # one turn from the goal, the target is 1 for every network


def test_a_walk_starts_at_the_goal_and_undoes_no_move(cube):
    learner, _ = cube
    walk = jax.jit(jax.vmap(functools.partial(davi.walk, learner)))
    _, boards = walk(jax.random.split(jax.random.key(0), 64))
    board = np.asarray(boards.board)
    child = np.asarray(boards.child)
    assert (board[:, 0] == np.asarray(learner.env.goal(()))).all()
    assert (
        (child[:, :-1] == board[:, 1:, None]).all(axis=-1).any(axis=-1).all()
    )  # after the goal, each board of a walk is a neighbour of the previous one
    assert not (board[:, 2:] == board[:, :-2]).all(axis=-1).any()


def test_without_inverse_moves_the_walk_goes_to_predecessors():
    learner = registry.build("davi", PegSolitaire(), davi.Settings(**TINY))
    _, boards = jax.jit(functools.partial(davi.walk, learner))(jax.random.key(0))
    packed = jax.vmap(learner.env.pack)(boards.board)
    reached = jax.vmap(jax.vmap(learner.env.pack))(boards.child)
    # A walk starts at the goal and makes each step by undoing a jump. The jump itself therefore
    # leads from a board of the walk to the previous board.
    met = (reached[1:] == packed[:-1, None]).all(axis=-1) & boards.valid[1:]
    assert np.asarray(met).any(axis=1).all()


def test_the_target_network_is_copied_when_old_or_the_loss_is_small(cube):
    learner, _ = cube
    for loss, every, expected in ((0.0, 2, [0, 1, 0, 1]), (1e9, 9, [1, 1, 1, 1])):
        settings = dataclasses.replace(learner.settings, target_loss=loss, target_every=every)
        changing = dataclasses.replace(
            learner, settings=dataclasses.replace(settings, chunk=4, total_steps=4)
        )
        runners = loop.start(changing, jax.random.split(jax.random.key(0), 1))
        runners, metrics = loop.run_chunk(changing, runners)
        np.testing.assert_array_equal(metrics["target_changed"][0], expected)
        for a, b in zip(*map(jax.tree.leaves, (runners.weights, runners.target)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_action_target_is_its_cost_plus_the_best_next():
    """Check targets for random data against a plain loop.

    The data contain negative outputs, illegal actions on the board and on its neighbours, and
    solved neighbours.
    """
    rng = np.random.default_rng(0)
    cost = rng.uniform(0.5, 2.0, (50, 4)).astype(np.float32)
    guesses = rng.normal(1.0, 2.0, (50, 4, 4)).astype(np.float32)
    valid, solved = rng.random((50, 4)) < 0.8, rng.random((50, 4)) < 0.1
    able = rng.random((50, 4, 4)) < 0.5
    got = jax.jit(cost_to_go.costs_of_actions)(cost, valid, guesses, able, solved)
    for i, a in np.ndindex(50, 4):
        then = [max(float(g), 0.0) for g in guesses[i, a][able[i, a]]]
        known = valid[i, a] and (solved[i, a] or bool(then))
        assert got.known[i, a] == known
        wanted = cost[i, a] + (0.0 if solved[i, a] else min(then)) if known else 0.0
        np.testing.assert_allclose(got.cost[i, a], wanted, rtol=1e-6)


def test_targets_of_actions_leave_out_the_goal_and_illegal_actions(by_action):
    """The target of an action is 1 + the predicted cost of the next board (0 for the goal).

    At the goal, and for illegal actions, there is no target. Boards are from the 8-puzzle.
    """
    learner, weights = by_action
    _, boards = jax.jit(functools.partial(davi.walk, learner))(jax.random.key(3))
    got = jax.jit(davi.action_targets, static_argnums=0)(learner, weights, (), boards)
    valid = np.asarray(boards.valid)
    assert not got.known[0].any()  # the walk begins at the goal, where no action has a target
    np.testing.assert_array_equal(got.known[1:], valid[1:])
    costs = jax.jit(functools.partial(davi.action_costs, learner, weights, ()))
    goal = np.asarray(learner.env.goal(()))
    for i, a in zip(*np.nonzero(np.asarray(got.known)), strict=True):
        child = boards.child[i, a]
        after = 0.0 if (np.asarray(child) == goal).all() else float(costs(child).min())
        np.testing.assert_allclose(got.cost[i, a], 1.0 + after, rtol=1e-5)


def test_the_loss_of_actions_is_the_mean_over_the_known_ones(by_action):
    learner, weights = by_action
    boards = jax.jit(functools.partial(davi.walk, learner))(jax.random.key(3))[1].board[None]
    rng = np.random.default_rng(1)
    goals = cost_to_go.ActionCosts(jnp.float32(rng.random((1, 7, 4))), rng.random((1, 7, 4)) < 0.5)
    loss = jax.jit(davi.action_loss, static_argnums=0)
    guess = jax.vmap(functools.partial(davi.predict, learner, weights, ()))(boards[0])
    errors = (np.asarray(guess) - np.asarray(goals.cost[0])) ** 2
    wanted = errors[np.asarray(goals.known[0])].mean()
    np.testing.assert_allclose(loss(learner, weights, (), boards, goals), wanted, rtol=1e-5)
    nothing = goals._replace(known=np.zeros((1, 7, 4), bool))
    assert loss(learner, weights, (), boards, nothing) == 0.0


@pytest.mark.parametrize("algorithm", ["davi", "last-move"])
def test_a_puzzle_without_a_way_back_from_its_goal_is_refused(algorithm, tmp_path, capsys):
    out = tmp_path / "run"
    assert train.main(["Puzzle-TSP-10-v0", "--algo", algorithm, "--out", str(out)]) == 2
    assert "cannot be walked backwards from its goal" in capsys.readouterr().err
    assert not out.exists()


def test_different_action_costs_are_added():
    """Compare targets in a tour puzzle (TSP), where the cost of an action is a distance."""
    env = jaxenvs.make("Puzzle-TSP-10-v0", cities=4)
    level = env.sample_level(jax.random.key(0))
    moves = env.neighbours(level.instance, level.board)
    boards = davi.Boards(*jax.tree.map(lambda x: x[None], (level.board, *moves)))
    learner = registry.build("davi", env, davi.Settings(**TINY, q=True))
    weights = jax.jit(learner.init)(jax.random.key(1)).weights
    goals = jax.jit(davi.action_targets, static_argnums=0)(learner, weights, level.instance, boards)
    costs = functools.partial(davi.action_costs, learner, weights, level.instance)
    for a in np.flatnonzero(moves.valid):
        child = jax.tree.map(lambda x, a=a: x[a], moves.board)
        wanted = float(moves.cost[a]) + float(jax.jit(costs)(child).min())
        np.testing.assert_allclose(goals.cost[0, a], wanted, rtol=1e-5)
    np.testing.assert_array_equal(goals.known[0], moves.valid)


@pytest.mark.parametrize("by_action", [False, True])
def test_a_small_puzzle_is_learned(by_action):
    """DAVI learns the costs-to-go of the 2x2 sliding puzzle to within 0.5 moves.

    The puzzle has 12 boards, which are at most 6 moves from the goal.
    """
    env = jaxenvs.make("Puzzle-SlidingTile-3x3-v0", size=2)
    settings = davi.Settings(
        walks=16, scramble=6, gradient_steps=20, width=32, target_every=2, chunk=50,
        learning_rate=5e-3, total_steps=50 * 20 * 16 * 7, test_boards=8, test_moves=8,
        q=by_action,
    )  # fmt: skip
    learner = registry.build("davi", env, settings)
    runners, metrics = loop.run_chunk(learner, loop.start(learner, jax.random.key(0)[None]))
    assert float(metrics["return_sum"][0, -5:].mean()) == 8
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    board, guesses, distances = env.goal(()), [], [0, 1, 2, 3, 4, 5, 6]
    # Moves of the blank that lead to the board farthest from the goal, 6 moves away.
    for action in (None, 0, 3, 2, 1, 0, 3):
        board = board if action is None else env.apply((), board, jnp.int32(action)).board
        guesses.append(float(davi.cost_to_go(learner, weights, (), board)))
    np.testing.assert_allclose(guesses, distances, atol=0.5)
    if by_action:
        costs = davi.action_costs(learner, weights, (), board)
        able = np.asarray(env.neighbours((), board).valid)
        assert np.isinf(costs[~able]).all() and np.isfinite(costs[able]).all()


@pytest.mark.slow
def test_a_run_is_resumed(finished, tmp_path):
    part = tmp_path / "part"
    asked = [*DAVI, *FLAGS, "--target-every", "2", "--seeds", "2"]
    assert train.main([*asked, *total(3), "--no-anneal", "--out", str(tmp_path / "whole")]) == 0
    assert train.main([*asked, *total(2), "--no-anneal", "--out", str(part)]) == 0
    assert train.main(["--resume", str(part), *total(3), "--eval-episodes", "8"]) == 0
    rows = [runs.Run.open(path).records() for path in (tmp_path / "whole", part)]
    assert [row["loss"] for row in rows[0]] == [row["loss"] for row in rows[1]]
    assert len(rows[1]) == 3 and json.loads((part / "eval.json").read_text())["boards"] == 8


@pytest.mark.slow
def test_the_heuristic_of_a_run_guides_a_search(finished):
    guess = heuristics.load_heuristic(finished, seed=1)
    env = runs.Run.open(finished).config.env
    level = env.sample_level(jax.random.key(4))
    assert guess((), env.goal(())) == 0.0 and guess((), level.board).dtype == jnp.float32
    near = dataclasses.replace(env, scramble=6).sample_level(jax.random.key(1))
    found = search.astar(env, near, heuristic=guess, node_budget=4096, batch_size=64)
    assert found.solved
    levels = jax.vmap(dataclasses.replace(env, scramble=6).sample_level)(
        jax.random.split(jax.random.key(0), 4)
    )
    compared = heuristic.compare(planner.load(finished, seed=1), levels, 1.0, 4096)
    assert compared["solved"] == compared["proven"] == 1.0 and compared["ratio"] >= 1.0


@pytest.mark.parametrize(("pegs", "searches"), [(3, False), (4, True)])
def test_the_optimum_of_hanoi_is_a_closed_form_for_three_pegs_only(pegs, searches):
    puzzle = jaxenvs.make("Puzzle-Hanoi-5-v0", disks=3, pegs=pegs)
    levels = jax.vmap(puzzle.sample_level)(jax.random.split(jax.random.key(0), 4))
    cost, known, found = heuristic._optimum(puzzle, levels, 4, 4096)
    assert known.all() and (cost >= 0).all() and bool(found) == searches


@pytest.mark.slow
def test_action_costs_guide_q_search(finished, tmp_path, capsys):
    out = tmp_path / "q"
    assert train.main([*DAVI, *FLAGS, *total(2), "--q", "--out", str(out)]) == 0
    costs = heuristics.load_q(out)
    env = dataclasses.replace(runs.Run.open(out).config.env, scramble=6)
    near = env.sample_level(jax.random.key(1))
    found = search.qstar(env, near, q=costs, node_budget=4096, batch_size=64)
    assert found.solved
    able = env.neighbours((), near.board).valid
    np.testing.assert_array_equal(np.isfinite(costs((), near.board)), able)
    assert heuristics.load_heuristic(out)((), near.board) == costs((), near.board).min()
    levels = jax.vmap(env.sample_level)(jax.random.split(jax.random.key(0), 4))
    compared = heuristic.compare(planner.load(out), levels, 1.0, 4096, "qstar")
    assert compared["solved"] == 1.0 and compared["nodes_per_board"] > 0
    with pytest.raises(runs.RunError, match="has no head per action: train it with --q"):
        heuristics.load_q(finished)
    with pytest.raises(ValueError, match="qstar needs a head per action"):
        planner.load(finished).guide("qstar")
    given = ["solve", DAVI[0], "--set", "scramble=4", "--model", str(out), "--algorithm", "qstar"]
    assert cli.main([*given, "--batch-size", "64", "--node-budget", "4096"]) == 0
    assert "solved: " in capsys.readouterr().out


def test_the_command_evaluates_its_run(finished):
    assert len(runs.Run.open(finished).records()) == 3
    assert json.loads((finished / "eval.json").read_text())["boards"] == 8


def test_what_cannot_work_is_refused(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    assert train.main(["Puzzle-2048-v0", "--algo", "davi", *out]) == 2
    assert "has no single goal" in capsys.readouterr().err
    assert train.main([*DAVI, "--walks", "0", *out]) == 2
    assert "walks=0 must be at least 1" in capsys.readouterr().err
    settings = dataclasses.asdict(davi.Settings(**TINY))
    config = runs.Config("Puzzle-SlidingTile-3x3-v0", {}, 0, 2, settings, "davi")
    run = runs.Run.create(tmp_path / "two", config)
    with pytest.raises(runs.RunError, match="has 2 seeds: give one of 0 to 1"):
        heuristics.load_heuristic(run.path, seed=2)
    with pytest.raises(runs.RunError, match="was trained by davi"):
        runs.load_policy(run.path)
