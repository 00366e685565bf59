"""Sokoban as a PuzzleScript game plays like `Puzzle-Sokoban` of jaxenvs on the same levels."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import plays
import pytest

import jaxenvs
from jaxenvs import search
from jaxenvs.puzzlescript import collection

SIZE, BOXES, LEVELS, STEPS = 7, 2, 12, 100
KEYS = [jax.random.key(i) for i in range(LEVELS // 2)]
GLYPHS = dict(zip(" #.$*@+", ".#O*@P+", strict=True))  # Sokoban's character -> glyph of `crates`
# Values of the cells in Sokoban's observation.
VALUES = {"wall": 1, "target": 2, "crate": 3, "player": 5}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Return `Puzzle-Sokoban`, Sokoban as a PuzzleScript game, and the same levels for each."""
    easy, sokoban = (
        jaxenvs.make("Puzzle-Sokoban-6x6-v0", size=SIZE, boxes=BOXES, pulls=n) for n in (1, 20)
    )
    drawn = [
        level
        for env in (easy, sokoban)
        for level in map(jax.jit(lambda key, env=env: env.draw_level(key, None)), KEYS)
    ]
    texts = [sokoban.text(level.instance, level.board) for level in drawn]
    path = tmp_path_factory.mktemp("games") / "sokoban.txt"
    path.write_text(_game(texts), "utf-8")
    script = jaxenvs.make("PuzzleScript-v0", game=str(path))
    read = [script.level_of(i) for i in range(LEVELS)]
    return (
        sokoban,
        script,
        *(jax.tree.map(lambda *x: jnp.stack(x), *each) for each in (drawn, read)),
    )


def _game(texts: list[str]) -> str:
    """Return the source of the game `crates` with the levels `texts`, given in Sokoban's format."""
    source = Path(collection.SHIPPED, "crates.txt").read_text("utf-8")
    levels = ["".join(GLYPHS.get(each, each) for each in text) for text in texts]
    return source[: source.index("message")] + "\n\n".join(levels) + "\n"


def _cells(script, observation):
    """Convert observations of PuzzleScript to the values of Sokoban's observations."""
    names = script.collection.games[0].objects
    seen = {name: np.asarray(observation[..., names.index(name)], bool) for name in VALUES}
    found = np.select([seen["wall"], seen["player"], seen["crate"]], [1, 5, 3], 0)
    found += seen["target"] * np.where(found == 0, 2, 1)
    return found.astype(np.uint8)


@pytest.mark.full
def test_random_plays_are_equal(pair):
    sokoban, script, drawn, read = pair
    actions = np.random.default_rng(0).integers(0, 4, (STEPS, LEVELS)).astype(np.int32)

    def where(done, one, other):
        return jnp.where(done.reshape(done.shape + (1,) * (one.ndim - 1)), one, other)

    def played(env, level):
        states = jax.vmap(lambda one: env.reset_to(jax.random.key(0), one).state)(level)

        def step(state, action):
            mask = env.action_mask(state)
            after = env.step(jax.random.key(0), state, action)
            done = env.is_goal(after.state.instance, after.state.board)
            return mask, env.observe_board(state.instance, after.state.board), done, after.state

        def turn(state, action):
            *seen, after = jax.vmap(step)(state, action)
            restarted = jax.tree.map(functools.partial(where, seen[2]), states, after)
            return restarted, seen

        return jax.lax.scan(turn, states, jnp.asarray(actions))[1]

    mask, board, done = jax.device_get(jax.jit(lambda level: played(sokoban, level))(drawn))
    other = jax.device_get(jax.jit(lambda level: played(script, level))(read))
    assert script.action_names[:4] == sokoban.action_names
    np.testing.assert_array_equal(other[0][..., :4], mask)
    assert not other[0][..., 4:].any()  # the input `action` changes nothing
    np.testing.assert_array_equal(_cells(script, other[1]), board)
    np.testing.assert_array_equal(other[2], done)
    assert done.any() and not mask.all() and (np.diff(board.astype(int), axis=0) != 0).any()


@pytest.mark.full
def test_shortest_solutions_have_equal_lengths(pair):
    sokoban, script, drawn, read = pair
    runs = [
        jax.jit(
            lambda level, env=env: search.astar(env, level, batch_size=64, node_budget=40_000),
            compiler_options=plays.OPTIONS,
        )
        for env in (sokoban, script)
    ]
    for levels in zip(_each(drawn), _each(read), strict=True):
        one, other = (run(level) for run, level in zip(runs, levels, strict=True))
        assert one.optimal and other.optimal and one.solved and other.solved
        assert int(one.length) == int(other.length) > 0


def _each(levels):
    """Return a list of the single levels in a stack of levels."""
    return [jax.tree.map(lambda leaf, i=i: leaf[i], levels) for i in range(LEVELS)]
