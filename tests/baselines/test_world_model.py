"""The world model: its local rule of movement, codes and words, and a tiny run of the command."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs import search
from jaxenvs.baselines import world_model
from jaxenvs.baselines.world_model import Settings, WorldModel
from jaxenvs.puzzles import SlidingTile

SMALL = Settings(transitions=64, tile_size=4, bits=3, hidden=64, gradient_steps=20, batch=8)


@pytest.fixture(scope="module")
def model():
    """A model that has learned nothing, and its weights."""
    network, blank = WorldModel(SMALL), jnp.zeros((12, 12, 3))
    return network, jax.jit(network.init)(
        jax.random.key(0), blank, jnp.int32(0), blank, jax.random.key(1), jnp.float32(0)
    )


def test_bits_are_rounded_and_have_the_gradient_of_their_probability():
    logits = jnp.array([-2.0, -0.1, 0.3, 4.0])
    np.testing.assert_array_equal(world_model.rounded(logits), [0, 0, 1, 1])
    got = jax.grad(lambda x: world_model.rounded(x).sum())(logits)
    chance = 1 / (1 + np.exp(-np.asarray(logits)))
    np.testing.assert_allclose(got, chance * (1 - chance), rtol=1e-5)


def test_each_cell_is_seen_alone_and_without_its_brightness(model):
    network, weights = model
    picture = jax.random.uniform(jax.random.key(1), (12, 12, 3))
    brighter = picture.at[:4, :4].add(0.5)  # row 0, column 0
    changed = brighter.at[4:8, 8:10].add(1.0)  # half of row 1, column 2
    encode = jax.jit(lambda x: network.apply(weights, world_model.shapes(x, 4), method="encode"))
    codes = [encode(x) for x in (picture, changed)]
    differs = np.abs(np.asarray(codes[0] - codes[1])).max(axis=1) > 1e-3
    np.testing.assert_array_equal(differs, np.arange(9) == 5)
    np.testing.assert_allclose(np.asarray(codes[0]).mean(axis=1), 0.0, atol=1e-5)


def test_a_move_looks_at_a_cell_and_its_four_neighbours(model):
    network, weights = model
    bits = jnp.zeros((9, 3))
    move = jax.jit(lambda bits: network.apply(weights, bits, jnp.int32(1), method="move"))
    before = move(bits)
    for cell, seen_from in ((0, [0, 1, 3]), (4, [1, 3, 4, 5, 7]), (5, [2, 4, 5, 8])):
        after = move(bits.at[cell].set(1.0))
        np.testing.assert_array_equal(
            np.flatnonzero(np.asarray(after != before).any(axis=1)), seen_from
        )


def test_every_picture_has_noise_of_its_own(model, monkeypatch):
    """Boards, what their moves lead to, and the goal: with one noise in two they are compared."""
    real, keys, boards = world_model.agreement, [], 4

    def see(settings, weights, puzzle, board, key):
        jax.debug.callback(lambda words: keys.append(words.tolist()), jax.random.key_data(key))
        return jnp.zeros((9, settings.bits), jnp.bool_)

    def agreement(*args):
        real(*args)
        raise StopIteration  # before the search

    monkeypatch.setattr(world_model, "see", see)
    monkeypatch.setattr(world_model, "agreement", agreement)
    with pytest.raises(StopIteration):
        world_model.evaluate(SMALL, model[1], SlidingTile(size=3), jax.random.key(3), boards, 9)
    jax.effects_barrier()
    assert len(set(map(tuple, keys))) == len(keys) == boards + 4 * boards + 1


def test_a_domain_packs_codes_and_knows_the_goal(model):
    learned = world_model.domain(SMALL, model[1])
    codes = jax.random.bernoulli(jax.random.key(0), 0.5, (64, 9, 3))
    words = jax.jit(jax.vmap(learned.pack))(codes)
    assert words.shape == (64, learned.num_words) and words.dtype == jnp.uint32
    np.testing.assert_array_equal(jax.jit(jax.vmap(learned.unpack))(words), codes)
    assert len(np.unique(np.asarray(words), axis=0)) == len(
        np.unique(codes.reshape(64, -1), axis=0)
    )
    assert learned.is_goal(codes[0], codes[0]) and learned.heuristic(codes[0], codes[0]) == 0
    assert not learned.is_goal(codes[0], codes[1])
    moves = jax.jit(learned.neighbours)(codes[0], codes[1])
    np.testing.assert_array_equal(moves.valid, (moves.board != codes[1]).any(axis=(1, 2)))


def test_a_true_model_gives_true_plans():
    """The search and the carrying out, with the rules in the place of what is learned."""
    puzzle = SlidingTile(size=3, scramble=8)
    true = search.Domain(
        neighbours=lambda goal, board: puzzle.neighbours((), board),
        is_goal=lambda goal, board: (board == goal).all(),
        pack=puzzle.pack,
        unpack=puzzle.unpack,
        num_actions=4,
        num_words=2,
    )
    keys = jax.random.split(jax.random.key(0), 4)
    levels = jax.jit(jax.vmap(puzzle.sample_level))(keys)
    goals = jnp.stack([puzzle.goal(())] * 4)
    plans = search.astar(
        true, levels.replace(instance=goals), node_budget=8192, batch_size=64, max_length=16
    )
    assert plans.solved.all()
    carry_out = jax.jit(jax.vmap(functools.partial(world_model.carry_out, puzzle)))
    arrived = carry_out(levels.board, plans.actions)
    np.testing.assert_array_equal(arrived, goals)


@pytest.mark.slow
def test_the_command_learns_plans_and_writes(tmp_path, capsys):
    flags = ["--transitions", "64", "--tile-size", "4", "--bits", "3", "--hidden", "8"]
    flags += ["--gradient-steps", "20", "--batch", "8", "--boards", "2", "--budget", "200"]
    assert world_model.main(["--out", str(tmp_path / "run"), *flags]) == 0
    found = json.loads((tmp_path / "run" / "world_model.json").read_text())
    assert found["boards"] == 2 and 0.0 <= found["codes_foretold"] <= 1.0
    assert "plans found: " in capsys.readouterr().out
