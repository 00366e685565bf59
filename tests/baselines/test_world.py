"""Tests of learned models of puzzles: codes, transitions, plans, heuristics learned in a model.

A code is the learned form of a board: a binary vector for each cell.
"""

import dataclasses
import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import cli, search
from jaxenvs.baselines import registry
from jaxenvs.baselines.evaluation import heuristic, planner
from jaxenvs.baselines.puzzles import latent_states, latent_training, latent_world, world
from jaxenvs.baselines.puzzles.latent_world import Sight
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import runs
from jaxenvs.core.env import Env
from jaxenvs.puzzles import Puzzle, SlidingTile
from jaxenvs.puzzles.puzzle import PuzzleLevel

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
ID = "Puzzle-SlidingTile-3x3-v0"
TINY = {
    **{"transitions": 24, "walk_steps": 4, "bits": 3, "hidden": 6, "views": 2, "batch": 4},
    **{"walks": 3, "scramble": 4, "gradient_steps": 2, "width": 8, "test_boards": 2},
    **{"test_moves": 3, "total_steps": 4},
}
FLAGS = [
    word for name, value in TINY.items() for word in ("--" + name.replace("_", "-"), str(value))
]


@pytest.fixture(scope="module")
def tiles():
    """Return a learner of a model of the 8-puzzle, and an untrained runner."""
    learner = registry.build("world", SlidingTile(size=3), world.Settings(**TINY))
    return learner, jax.jit(learner.init)(KEY)


@pytest.fixture(scope="module")
def moved(tiles):
    """Return random codes of five boards, and the codes that the model predicts for each action."""
    learner, runner = tiles
    codes = jax.random.bernoulli(KEY, 0.5, (5, 9, 3))
    after = jax.vmap(functools.partial(latent_states.successors, learner, runner.weights))
    return np.asarray(codes), np.asarray(jax.jit(after)(codes))


def test_bits_are_rounded_and_have_the_gradient_of_their_probability():
    logits = jnp.array([-2.0, -0.1, 0.3, 4.0])
    np.testing.assert_array_equal(latent_world.rounded(logits), [0, 0, 1, 1])
    got = jax.grad(lambda x: latent_world.rounded(x).sum())(logits)
    chance = 1 / (1 + np.exp(-np.asarray(logits)))
    np.testing.assert_allclose(got, chance * (1 - chance), rtol=1e-5)


def test_a_code_depends_on_its_own_cell_and_has_logits_of_mean_0(tiles):
    learner, runner = tiles
    model, weights = learner.network.model, runner.weights["model"]
    encode = jax.jit(functools.partial(model.apply, weights, method="encode"))
    seen = jax.nn.one_hot(jnp.arange(9), 9, dtype=jnp.float32)
    before, after = (np.asarray(encode(x)) for x in (seen, seen.at[4].set(seen[0])))
    np.testing.assert_array_equal((before != after).any(axis=1), np.arange(9) == 4)
    np.testing.assert_array_equal(after[4], after[0])
    np.testing.assert_allclose(before.mean(axis=1), 0.0, atol=1e-5)


def test_a_transition_mixes_other_cells_by_action(tiles, moved):
    """Compare predicted codes with NumPy, for a call with all actions and calls with one action."""
    learner, runner = tiles
    codes, after = moved
    p = jax.tree.map(np.asarray, runner.weights["model"]["params"])
    alone = functools.partial(learner.network.model.apply, runner.weights["model"], method="move")
    alone = jax.jit(jax.vmap(jax.vmap(alone, (None, 0)), (0, None)))
    actions = jnp.arange(4, dtype=jnp.int32)
    np.testing.assert_array_equal(alone(codes.astype(np.float32), actions) > 0, after)
    for n, a, i in np.ndindex(5, 4, 9):
        code = codes[n].astype(np.float32)
        views = [p["sources"][a, i, k] @ code for k in range(2)]
        x = np.concatenate([code[i], *views])
        x = np.maximum(x @ p["first"]["kernel"] + p["first"]["bias"] + p["place"][a, i], 0.0)
        for name in ("layers_0", "layers_2"):
            layer = p["rest"][name]
            x = x @ layer["kernel"] + layer["bias"]
            x = np.maximum(x, 0.0) if name == "layers_0" else x
        np.testing.assert_array_equal(x > 0, after[n, a, i])


def test_observations_and_noisy_pictures_are_split_into_cells():
    env = SlidingTile(size=3)
    state = env.reset(KEY).state
    plain, pictures = Sight(env), Sight(env, tile_size=4, noise=0.1)
    seen = jax.jit(plain.split)(plain.look(state), KEY)
    np.testing.assert_array_equal(seen.argmax(axis=1), np.asarray(env.observe(state)).reshape(-1))
    np.testing.assert_array_equal(seen.sum(axis=1), 1.0)
    assert (pictures.cells, pictures.features) == (9, 48)
    look = jax.jit(pictures.split)
    one, other = (look(pictures.look(state), key) for key in jax.random.split(KEY))
    assert one.shape == (9, 48)
    # The mean brightness of a cell is subtracted.
    np.testing.assert_allclose(one.mean(axis=1), 0.0, atol=1e-5)
    # The two pictures have separate noise.
    std = float((one - other).std()) / latent_world.CONTRAST
    np.testing.assert_allclose(std, 0.1 * np.sqrt(2), rtol=0.1)


def test_transitions_are_moves_of_the_puzzle():
    learner = registry.build("world", jaxenvs.make("Puzzle-Cube-2x2-v0"), world.Settings(**TINY))
    seen = jax.jit(lambda key: latent_training.gather(learner, key, 402))(KEY)
    before, after = (np.asarray(x).reshape(402, 24) for x in (seen.before, seen.after))
    apply = jax.jit(jax.vmap(functools.partial(learner.env.apply, ())))
    np.testing.assert_array_equal(after, apply(jnp.asarray(before), seen.action).board)
    assert set(np.asarray(seen.action)) == set(range(6)) and len(seen.action) == 402
    # The first four transitions are one walk: each begins in the state where the previous one
    # ended.
    np.testing.assert_array_equal(before[1:4], after[0:3])
    goal = np.asarray(learner.env.goal(()))
    np.testing.assert_array_equal(seen.solved, (after == goal).all(axis=1))
    starts = (before[::4] == goal).all(axis=1).mean()
    assert 0.35 < starts < 0.65  # half of the walks begin at the goal


def test_walks_in_the_model_follow_it(tiles):
    learner, runner = tiles
    goal = np.asarray(runner.seen.before[0] > 4).reshape(9, 1).repeat(3, axis=1)
    walked = jax.jit(functools.partial(world.walk_codes, learner))
    codes = walked(runner.weights, jnp.asarray(goal), runner.seen, KEY)
    codes = np.asarray(codes).reshape(5, 3, 9, 3)
    np.testing.assert_array_equal(codes[0, ::2], goal[None].repeat(2, axis=0))
    after = jax.jit(functools.partial(latent_states.successors, learner, runner.weights))
    for t, walk in np.ndindex(4, 3):
        options = np.asarray(after(codes[t, walk]))
        assert (options == codes[t + 1, walk]).all(axis=(1, 2)).any()


def test_targets_are_one_plus_the_least_next_cost(tiles, moved):
    """Compare the targets of Q-learning with targets computed by loops.

    A target is 1 plus the least Q-value after the action, but 1 if the action reaches the goal, and
    at most `furthest`. Actions in the goal itself have no target.
    """
    learner, runner = tiles
    codes, after = moved
    goal = after[0, 1]  # the goal is one action away from the first board
    codes = np.concatenate([codes, goal[None]])
    target = jax.tree.map(lambda x: x + 1.0 if x.shape == (4,) else x, runner.weights["q"])
    after = np.concatenate([after, np.asarray(_after(learner, runner, goal))[None]])
    q = jax.jit(functools.partial(latent_states.q_values, learner, target))
    for furthest in (100.0, 1.5):
        settings = dataclasses.replace(learner.settings, furthest=furthest)
        given = dataclasses.replace(learner, settings=settings)
        find = jax.jit(functools.partial(world.action_targets, given))
        got, known = find(runner.weights, target, jnp.asarray(goal), jnp.asarray(codes))
        np.testing.assert_array_equal(
            known, (codes != goal).any(axis=(1, 2))[:, None] | [False] * 4
        )
        for n, a in np.argwhere(known):
            ends = (after[n, a] == goal).all()
            follows = 0.0 if ends else max(0.0, float(q(after[n, a]).min()))
            np.testing.assert_allclose(got[n, a], min(1.0 + follows, furthest), rtol=1e-5)
    assert got[0, 1] == 1.0


def _after(learner, runner, code):
    return jax.jit(functools.partial(latent_states.successors, learner, runner.weights))(code)


def test_half_of_a_batch_is_solved_where_levels_have_different_goals(monkeypatch):
    learner = registry.build("world", jaxenvs.make("Puzzle-Sokoban-6x6-v0"), world.Settings(**TINY))
    assert not latent_states.one_goal(learner.env)
    assert latent_states.one_goal(SlidingTile(size=3))
    seen = latent_training.Transitions(
        before=jnp.zeros((10, 6, 6), jnp.uint8),
        action=jnp.zeros(10, jnp.int32),
        after=jnp.zeros((10, 6, 6), jnp.uint8),
        solved=jnp.arange(10) == 7,
    )
    drawn = []
    call = latent_world.LatentWorld.__call__

    def watched(self, before, action, after, is_solved, key):
        jax.debug.callback(lambda x: drawn.append(bool(x)), is_solved)
        return call(self, before, action, after, is_solved, key)

    first = learner.network.sight.split(seen.before[0], KEY)
    model = learner.network.model
    weights = jax.jit(model.init)(KEY, first, jnp.int32(0), first, jnp.bool_(False), KEY)
    monkeypatch.setattr(latent_world.LatentWorld, "__call__", watched)
    loss = jax.jit(functools.partial(latent_training.model_loss, learner))
    for _ in range(5):
        loss(weights, seen, jax.random.key(1))
    jax.effects_barrier()
    assert len(drawn) == 20 and sum(drawn) >= 10


def test_codes_are_packed_and_unpacked(tiles, moved):
    learner, runner = tiles
    domain = planner.learned_domain(learner, runner.weights)
    codes, after = moved
    words = jax.jit(jax.vmap(domain.pack))(codes)
    assert words.shape == (5, 1) == (5, domain.num_words) and words.dtype == jnp.uint32
    np.testing.assert_array_equal(jax.jit(jax.vmap(domain.unpack))(words), codes)
    assert len(np.unique(words)) == len(np.unique(codes.reshape(5, -1), axis=0))
    goal = jnp.asarray(codes[0])
    assert domain.is_goal(goal, goal) and not domain.is_goal(goal, jnp.asarray(codes[1]))
    moves = jax.jit(domain.neighbours)(goal, jnp.asarray(codes[1]))
    np.testing.assert_array_equal(moves.board, after[1])
    np.testing.assert_array_equal(moves.valid, (after[1] != codes[1]).any(axis=(1, 2)))
    one = jax.jit(domain.apply)(goal, jnp.asarray(codes[1]), jnp.int32(2))
    np.testing.assert_array_equal(one.board, after[1, 2])


@pytest.mark.parametrize("algorithm", ["astar", "qstar"])
def test_a_plan_never_steps_the_environment(tiles, monkeypatch, algorithm):
    learner, runner = tiles
    plan = planner.of_world(learner, runner.weights)
    levels = jax.jit(jax.vmap(learner.env.sample_level))(jax.random.split(KEY, 2))
    seen = plan.levels(levels, KEY)
    # Replace the goal by a code of ones. No board has this code, so the search cannot end
    # before it has expanded nodes.
    seen = seen.replace(instance=jnp.ones_like(seen.instance))

    def asked(*_, **__):
        raise AssertionError("the environment was asked")

    names = ("step", "reset", "reset_to", "observe", "step_state", "action_mask", "apply")
    names += ("neighbours", "is_goal", "observe_board", "predecessors", "heuristic")
    for name in names:
        for kind in (Env, Puzzle, SlidingTile):
            if name in vars(kind):
                monkeypatch.setattr(kind, name, asked)
    method = getattr(search, algorithm)
    given = {"batch_size": 4, "node_budget": 40, "max_length": 8}
    found = method(plan.domain, seen, **plan.guide(algorithm), **given)
    assert int(found.expanded) > 0 and int(found.nodes) > 2
    with pytest.raises(AssertionError, match="the environment was asked"):
        learner.env.reset(KEY)


def test_a_true_model_gives_true_plans_and_a_false_one_does_not():
    """Search with the true rules in place of a learned model, then with wrong rules."""
    puzzle = SlidingTile(size=3, scramble=8)

    def given(neighbours):
        true = search.Domain(
            neighbours=neighbours,
            is_goal=lambda goal, board: (board == goal).all(),
            pack=puzzle.pack,
            unpack=puzzle.unpack,
            num_actions=4,
            num_words=2,
        )

        def see(levels, key):
            goals = jnp.stack([puzzle.goal(())] * len(levels.board))
            return PuzzleLevel(board=levels.board, instance=goals)

        return planner.Planner(puzzle, true, true.heuristic, None, see)

    levels = jax.jit(jax.vmap(puzzle.sample_level))(jax.random.split(KEY, 4))
    true = given(lambda goal, board: puzzle.neighbours((), board))
    found = heuristic.compare(true, levels, 1.0, 4096, batch_size=64)
    assert found["plans"] == found["solved"] == found["proven"] == 1.0
    assert found["ratio"] == 1.0 and found["optimal"] == 1.0

    def wrong(goal, board):  # wrong rules: the actions up and down are exchanged
        moves = puzzle.neighbours((), board)
        return jax.tree.map(lambda leaf: leaf[jnp.array([2, 1, 0, 3])], moves)

    found = heuristic.compare(given(wrong), levels, 1.0, 4096, batch_size=64)
    assert found["plans"] == 1.0 and found["solved"] < 1.0


def test_what_cannot_work_is_refused(tmp_path, capsys):
    for id, said in (
        ("Puzzle-2048-v0", "is no puzzle that a search can solve"),
        ("Puzzle-TSP-10-v0", "has actions of different costs"),
        ("Grid-Empty-5x5-v0", "is no puzzle that a search can solve"),
    ):
        assert train.main([id, "--algo", "world", "--out", str(tmp_path / "run")]) == 2
        assert said in capsys.readouterr().err
    flags = ["--transitions", "3", "--walk-steps", "5", "--out", str(tmp_path / "run")]
    assert train.main([ID, "--algo", "world", *flags]) == 2
    assert "transitions=3 is less than one walk" in capsys.readouterr().err
    settings = dataclasses.asdict(world.Settings(**TINY))
    run = runs.Run.create(tmp_path / "two", runs.Config(ID, {}, 0, 1, settings, "world"))
    with pytest.raises(runs.RunError, match="has 1 seed: give 0, not 2"):
        planner.load(run.path, seed=2)
    run = runs.Run.create(tmp_path / "ppo", runs.Config(ID, {}, 0, 1, {}, "ppo"))
    with pytest.raises(runs.RunError, match="does not fit this search"):
        planner.load(run.path)
    assert cli.main(["solve", ID, "--levels", "3"]) == 2
    assert "add --model RUN" in capsys.readouterr().err
    assert cli.main(["solve", ID, "--model", str(tmp_path / "ppo")]) == 2
    assert "does not fit this search" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_trains_resumes_and_plans(tmp_path, capsys):
    asked = [ID, "--algo", "world", *FLAGS, "--set", "scramble=1", "--eval-episodes", "4"]
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert train.main([*asked, "--total-steps", "8", "--out", str(whole)]) == 0
    assert len(runs.Run.open(whole).records()) == 4
    found = json.loads((whole / "eval.json").read_text())
    assert found["boards"] == 4 and 0.0 <= found["greedy"][0]["predicted"] <= 1.0
    learner = registry.build("world", runs.Run.open(whole).config.env, world.Settings(**TINY))
    eight = [*asked, "--total-steps", "8", "--checkpoint-every", "1"]
    assert train.main([*eight, "--out", str(part)]) == 0
    shutil.rmtree(part / "checkpoints" / "00000004")
    assert train.main(["--resume", str(part), "--eval-episodes", "4"]) == 0
    assert len(runs.Run.open(part).records()) == 4
    assert train.main(["--resume", str(part), "--total-steps", "12"]) == 2
    assert "train again with --out NEW --total-steps 12" in capsys.readouterr().err
    assert learner.settings.model_updates == 1
    capsys.readouterr()
    given = ["--model", str(whole), "--batch-size", "8", "--node-budget", "64"]
    code = cli.main(["solve", ID, *given, "--set", "scramble=1"])
    said = capsys.readouterr().out
    assert code in (0, 1) and ("learned world" in said or "no plan" in said)
    assert cli.main(["solve", ID, *given, "--levels", "3", "--algorithm", "qstar"]) == 0
    said = capsys.readouterr().out
    assert "solved: " in said and "plans: " in said and "nodes per second: " in said


def test_the_model_is_trained_before_the_heuristic(tiles):
    learner, _ = tiles
    settings = dataclasses.replace(learner.settings, total_steps=4, chunk=2)
    learner = dataclasses.replace(learner, settings=settings)
    start = loop.start(learner, KEY[None])
    before = jax.device_get(start.weights)
    runners, metrics = loop.run_chunk(learner, start)
    assert (np.asarray(metrics["decoding"])[0] > 0).tolist() == [True, False]
    assert (np.asarray(metrics["q_loss"])[0] > 0).tolist() == [False, True]
    for part in ("model", "q"):
        pairs = zip(*map(jax.tree.leaves, (before[part], runners.weights[part])), strict=True)
        assert any((np.asarray(a) != np.asarray(b)).any() for a, b in pairs)
