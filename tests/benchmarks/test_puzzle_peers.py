"""Tests of the puzzles of jumanji and pgx with which `jaxenvs bench` compares ours.

They test which ids have a counterpart, shapes, and auto-reset.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs.benchmarks.harness import contestants
from jaxenvs.benchmarks.peers import environments as peers
from jaxenvs.benchmarks.peers import puzzles

ENVS = 8


def test_the_peers_of_a_puzzle():
    assert [peer.name for peer in peers.of("Puzzle-2048-v0")] == ["jumanji", "pgx"]
    assert "[bench]" in peers.install("jumanji")
    assert contestants.peer_obs("Puzzle-2048-v0") == "board"


@pytest.mark.parametrize("table", [puzzles.JUMANJI_IDS, puzzles.PGX_IDS])
def test_counterparts_are_of_registered_ids(table):
    for env_id in table:
        assert jaxenvs.spec(env_id).family == "Puzzle"


@pytest.mark.parametrize("name", ["jumanji", "pgx"])
def test_a_puzzle_without_a_counterpart(name):
    with pytest.raises(LookupError, match=f"{name} has no level like Puzzle-Skewb-v0"):
        peers.peer(name, "Puzzle-Skewb-v0", ENVS)


def test_parts_of_an_action():
    counts = (6, 1, 3)
    found = np.asarray(puzzles.parts(jnp.arange(18), counts))
    np.testing.assert_array_equal(found, list(np.ndindex(counts)))
    single = jnp.arange(4)
    assert puzzles.parts(single, (4,)) is single


@pytest.mark.parametrize(
    ("name", "env_id", "actions", "shape"),
    [
        *with_full(
            ("jumanji", "Puzzle-Cube-3x3-v0", 18, (6, 3, 3)),
            ("jumanji", "Puzzle-Cube-2x2-v0", 18, (6, 2, 2)),
            ("jumanji", "Puzzle-SlidingTile-5x5-v0", 4, (5, 5)),
            ("jumanji", "Puzzle-Maze-10x10-v0", 4, (10, 10)),
            ("jumanji", "Puzzle-Minesweeper-10x10-v0", 100, (10, 10)),
        ),
        ("jumanji", "Puzzle-2048-v0", 4, (4, 4)),
        ("pgx", "Puzzle-2048-v0", 4, (4, 4, 31)),
    ],
)
def test_a_contestant(name, env_id, actions, shape):
    pytest.importorskip(name)
    contestant = peers.peer(name, env_id, ENVS)
    assert contestant.actions == actions
    key = jax.random.key(0)
    state = jax.eval_shape(contestant.reset, key)
    after, (obs, reward) = jax.eval_shape(contestant.rollout(3), key, state)
    assert (3, ENVS, *shape) in [leaf.shape for leaf in jax.tree.leaves(obs)]
    assert reward.shape == (3, ENVS)
    assert jax.tree.structure(after) == jax.tree.structure(state)


@pytest.mark.full
@pytest.mark.parametrize("name", ["jumanji", "pgx"])
def test_games_end_and_start_again(name):
    pytest.importorskip(name)
    contestant = peers.peer(name, "Puzzle-2048-v0", 4)
    key = jax.random.key(0)

    def one(state, key):
        action = jax.random.randint(key, (4,), 0, 4)
        state, obs, _, done = contestant.step(key, state, action)
        board = obs.board if name == "jumanji" else obs.argmax(axis=-1)
        return state, ((board > 0).sum(axis=(1, 2)), done)

    run = jax.jit(lambda state: jax.lax.scan(one, state, jax.random.split(key, 400))[1])
    tiles, done = map(np.asarray, run(jax.jit(contestant.reset)(key)))
    assert done.any(axis=0).all(), "each game ended"
    assert (tiles[done] <= 2).all() and (tiles[~done] > 1).any(), "and started again"
