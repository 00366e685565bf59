"""Tests of the sentences and facts that describe the state of a grid world to a reader."""

import importlib
import sys
from collections import deque

import drawing
import jax
import numpy as np
import pytest
import upstream

import jaxenvs
from jaxenvs.grid.facts import NAMES, observation_layout

ENV = upstream.DrawnGrid(rows=5, columns=7)
WHOLE = upstream.DrawnGrid(rows=5, columns=7, obs="full")
ROOMS = """
    .  kr Ly G  op
    ^  .  #  ~  .
    .  .  #  .  .
"""


def state(picture, env=ENV, carried=0):
    begun = env.reset_state(jax.random.key(0), drawing.parse(picture), env.default_params)
    return begun.replace(agent=begun.agent | carried << 24)


def test_objects_in_sight_are_described_with_distances_and_a_drawing():
    text = ENV.describe(state(ROOMS.replace("^", ">")))
    assert text.splitlines() == [
        "You carry nothing.",
        "You see a red key 1 step ahead and 1 to the left and a locked yellow door 2 steps ahead "
        "and 1 to the left.",
        "Ahead: 1 free cell, then a wall; to the left: 1 free cell, then a wall; to the right: 1 "
        "free cell, then a wall.",
        "Your view, ahead is up; ^ is you, # wall, . free, ? not seen, Ly locked yellow door, kr "
        "red key:",
        "?  ?  ?  ?  ?  ?  ?",
        "?  ?  ?  ?  ?  ?  ?",
        "?  ?  ?  ?  ?  ?  ?",
        "?  ?  ?  ?  ?  ?  ?",
        "?  #  Ly #  #  #  ?",
        "?  #  kr .  .  #  ?",
        "?  #  .  ^  .  #  ?",
    ]


def test_unseen_objects_change_nothing():
    other = ROOMS.replace("G", "xg").replace("~", "ob").replace("op", ".")
    assert ENV.describe(state(ROOMS)) == ENV.describe(state(other))
    assert ENV.facts(state(ROOMS)) == ENV.facts(state(other))


def test_an_observation_of_the_whole_grid_is_described_with_the_direction():
    text = WHOLE.describe(state(ROOMS.replace("op", "ob"), WHOLE))
    assert "You face up." in text and "behind: 1 free cell, then a wall." in text
    assert "a goal 1 step ahead and 3 to the right" in text
    assert "lava 3 steps to the right" in text
    assert "\n#  ^  .  #  ~  .  #\n" in text


def test_the_carried_object_is_named_and_is_a_fact_with_an_icon():
    key = next(tile for tile, name in NAMES.items() if name == "yellow key")
    held = state(ROOMS, carried=key)
    assert "You carry a yellow key." in ENV.describe(held)
    (fact,) = ENV.facts(held)
    assert fact[:3] == ("carries", "a yellow key", "icon")
    np.testing.assert_array_equal(ENV.icon(fact.icon, 8, (0, 0, 0)), ENV.atlas(8)[key])
    assert ENV.facts(state(ROOMS))[0].value == "nothing" and ENV.icon("", 8, (0, 0, 0)) is None


def test_the_name_of_a_box_does_not_reveal_the_key_inside():
    names = {name for name in NAMES.values() if "box" in name}
    assert names == {f"{c} box" for c in ("red", "green", "blue", "purple", "yellow", "grey")}
    boxed = [tile for tile in NAMES if tile & 15 == 13]
    assert len(boxed) == 6 and {NAMES[tile] for tile in boxed} == {"grey box"}


def reader(words):
    """Return the next action in DoorKey, chosen from the description alone.

    The agent picks up the key, then opens the door, then enters the goal.
    """
    lines = words.splitlines()
    cells = {(r, c): x for r, row in enumerate(lines[6:]) for c, x in enumerate(row.split())}
    at, here = next((cell, x) for cell, x in cells.items() if x in drawing.AGENT)
    locked = any(x[0] == "L" for x in cells.values())
    wanted = "k" if locked and "You carry nothing." in lines else "L" if locked else "G"
    begun = (at, drawing.AGENT.index(here))
    waiting, first = deque([begun]), {begun: ""}
    while waiting:
        (row, column), way = pose = waiting.popleft()
        down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[way]
        front = (row + down, column + right)
        if cells[front][0] == wanted:
            return first[pose] or {"k": "pick up", "L": "toggle", "G": "forward"}[wanted]
        turns = {"left": ((row, column), (way - 1) % 4), "right": ((row, column), (way + 1) % 4)}
        ahead = {"forward": (front, way)} if cells[front][0] in ".D" else {}
        for action, after in {**turns, **ahead}.items():
            if after not in first:
                first[after] = first[pose] or action
                waiting.append(after)
    raise AssertionError(f"no way to {wanted}:\n{words}")


def test_an_agent_that_reads_only_the_text_wins():
    env = jaxenvs.make("Grid-DoorKey-6x6-v0", obs="full")
    step = jax.jit(env.step)
    for seed in range(8):
        state, done = env.reset(jax.random.key(seed)).state, False
        for _ in range(40):
            action = env.action_names.index(reader(env.describe(state)))
            _, state, reward, done, *_ = step(jax.random.key(0), state, np.int32(action))
            if done:
                break
        assert done and reward > 0.5, seed


def test_the_old_name_of_a_module_works_and_warns():
    sys.modules.pop("jaxenvs.grid.view", None)
    with pytest.warns(DeprecationWarning, match=r"jaxenvs\.grid\.facts\.observation_layout"):
        view = importlib.import_module("jaxenvs.grid.view")
    assert view.observation_layout is observation_layout
