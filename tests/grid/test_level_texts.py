"""Tests that MiniGrid 3.2.0's text pictures of levels can be read, written back, and played.

The text that is written equals the text that `pprint_grid` returns, byte for byte.
"""

import contextlib
import dataclasses

import defaults
import jax
import numpy as np
import pytest
import tasks
import upstream

import jaxenvs
from jaxenvs import levels
from jaxenvs.babyai import BabyEnv
from jaxenvs.babyai import mission as m

# Ids of the default tests. With the ids in `MORE`, they have all verbs and kinds of objects, a box
# with a key, and episodes that end with `done`.
PICTURED = (
    "Grid-Dynamic-Obstacles-5x5-v0",
    "Grid-GoToDoor-5x5-v0",
    "Grid-MemoryS7-v0",
    "Grid-RedBlueDoors-6x6-v0",
)
MORE = ["BabyAI-PutNextS5N2Carrying-v0"]
MORE += [id for id in defaults.DIFFERENTIAL if id not in PICTURED]
STEPS = 50
NO_DIFFERENCE = dict.fromkeys(upstream.FIELDS, 0)


def cell(env, place):
    row, column = divmod(place, env.grid.width)
    return f"{row},{column}"


def lines(env, ours):
    """Return the header lines of a level's text: all that MiniGrid's picture does not show."""
    found = [f"mission: {env.mission}"]
    things = [(place, it) for place, it in enumerate(env.grid.grid) if it is not None]
    grey = [
        cell(env, place)
        for place, it in things
        if it.color == "grey" and it.type != "wall" and not getattr(it, "is_open", False)
    ]
    found += [f"grey: {'; '.join(grey)}"]
    for place, it in things:
        if it.contains is not None:
            found.append(f"contents: {cell(env, place)} {it.contains.color} {it.contains.type}")
    if env.carrying is not None:
        column, row = env.carrying.init_pos
        found.append(f"carrying: {row},{column} {env.carrying.color} {env.carrying.type}")
    if hasattr(env, "obstacles"):
        cells = [ball.cur_pos for ball in env.obstacles]
        found.append(f"balls: {'; '.join(f'{row},{column}' for column, row in cells)}")
    if hasattr(env, "instrs"):
        words = tasks.mission(env, *ours.state_shape.task.shape)
        strict = [str(i) for i, word in enumerate(words, 1) if word >> m.STRICT & 1]
        found += [f"strict: {', '.join(strict)}"] if strict else []
    return found


def picture(env):
    """Return MiniGrid's picture, with the colours of open doors added."""
    rows = [list(row) for row in env.pprint_grid().split("\n")]
    for place, it in enumerate(env.grid.grid):
        if it is not None and it.type == "door" and it.is_open:
            row, column = divmod(place, env.grid.width)
            rows[row][2 * column + 1] = "e" if it.color == "grey" else it.color[0]
    return "\n".join("".join(row) for row in rows)


def text(env, ours):
    return "\n".join([*lines(env, ours), "grid:", picture(env)])


def compare(id, seeds, played):
    """Check that MiniGrid's levels and their texts agree; play the first `played` of the levels."""
    env, ours = upstream.make(id), jaxenvs.make(id)
    episodes = []
    for seed in range(seeds):
        with contextlib.redirect_stdout(None):  # BabyAI prints the levels that it rejects.
            env.reset(seed=seed)
        level = levels.read(ours, text(env, ours), strict=True)
        assert levels.write(ours, level, form="minigrid") == env.pprint_grid()
        wanted = upstream.lift(env)
        if isinstance(ours, BabyEnv):
            wanted = ours.marked(wanted)
        assert jax.tree.structure(level) == jax.tree.structure(wanted)
        for a, b in zip(jax.tree.leaves(level), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(a, b)
        if seed < played:
            actions = np.random.default_rng(seed).integers(0, env.action_space.n, STEPS)
            episode = upstream.record(env, actions.tolist(), seed=seed)
            episodes.append(dataclasses.replace(episode, level=level))
    assert upstream.differences(ours, episodes)[0] == NO_DIFFERENCE


@pytest.mark.parametrize("id", [*PICTURED, *defaults.with_full(*MORE)])
def test_a_picture_of_minigrid_is_the_level(id):
    compare(id, 3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("id", upstream.IDS)
def test_a_hundred_pictures_of_every_id_are_the_levels(id):
    compare(id, 100, 4)
