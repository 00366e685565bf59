"""Tests of the rules of grid worlds. Levels are drawn as text, see drawing.py.

Most tests play actions in a drawn level and compare the result with a drawing.
"""

import functools

import drawing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import upstream

from jaxenvs.grid import Kind, tiles

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
LIMIT = 20


@functools.cache
def world(rows, columns, limit=LIMIT):
    env = upstream.DrawnGrid(rows=rows + 2, columns=columns + 2, limit=limit)
    return env, jax.jit(env.reset_to), jax.jit(env.step)


def play(picture, *actions, limit=LIMIT):
    """Play actions in the level of a drawing; return the result of each step."""
    level = drawing.parse(picture)
    rows, columns = level.grid.shape
    env, reset_to, step = world(rows - 2, columns - 2)
    params = env.default_params.replace(max_steps_in_episode=np.int32(limit))
    key = jax.random.key(0)
    state = reset_to(key, level, params).state
    assert drawing.draw(state) == drawing.tidy(picture)
    steps = []
    for action in actions:
        steps.append(step(key, state, jnp.int32(action), params))
        state = steps[-1].state
    return steps


def holds(state):
    """Return the word for the carried object, such as "kr" for a red key, or "" for none."""
    return drawing.word(int(state.carried)) if state.carried else ""


def becomes(before, actions, after, carried=""):
    """Assert that actions turn the level `before` into `after`, without a reward or an end."""
    steps = play(before, *actions)
    assert drawing.draw(steps[-1].state) == drawing.tidy(after)
    assert holds(steps[-1].state) == carried
    for step in steps:
        assert not step.terminated and not step.truncated and step.reward == 0
    assert steps[-1].state.time == len(actions)


TURNS = [
    (LEFT, ">", "^"),
    (LEFT, "^", "<"),
    (LEFT, "<", "v"),
    (LEFT, "v", ">"),
    (RIGHT, ">", "v"),
    (RIGHT, "v", "<"),
    (RIGHT, "<", "^"),
    (RIGHT, "^", ">"),
]


@pytest.mark.parametrize(("action", "before", "after"), TURNS)
def test_turning_only_turns(action, before, after):
    becomes(f". {before} kr .", [action], f". {after} kr .")


STRIDES = {
    ">": ". . . \n . . > \n . . .",
    "v": ". . . \n . . . \n . v .",
    "<": ". . . \n < . . \n . . .",
    "^": ". ^ . \n . . . \n . . .",
}


@pytest.mark.parametrize("agent", STRIDES)
def test_forward_goes_where_the_agent_looks(agent):
    becomes(f". . . \n . {agent} . \n . . .", [FORWARD], STRIDES[agent])


@pytest.mark.parametrize("cell", ["fb", "Dr", "fe", "Dy"])
def test_forward_enters_floor_and_open_doors_and_leaves_them_whole(cell):
    becomes(f"> {cell} . .", [FORWARD], f". >{cell} . .")
    becomes(f"> {cell} . .", [FORWARD, FORWARD], f". {cell} > .")


@pytest.mark.parametrize("cell", ["#", "kr", "ob", "xg", "Cp", "Le"])
def test_forward_is_blocked_without_a_penalty(cell):
    becomes(f"> {cell} . .", [FORWARD], f"> {cell} . .")


def test_the_border_blocks():
    becomes(". . . >", [FORWARD], ". . . >")


def test_the_goal_ends_the_episode_and_pays():
    (*_, last) = steps = play("> . . G", FORWARD, FORWARD, FORWARD)
    assert drawing.draw(last.state) == ". . . >G"
    assert [bool(step.terminated) for step in steps] == [False, False, True]
    np.testing.assert_allclose(last.reward, 1 - 0.9 * 3 / LIMIT, atol=1e-7)
    assert not last.truncated


def test_lava_kills_and_the_agent_is_seen_standing_in_it():
    (last,) = play("> ~ . .", FORWARD)
    assert drawing.draw(last.state) == ". >~ . ."
    assert last.terminated and not last.truncated and last.reward == 0


@pytest.mark.parametrize("cell", ["G", "~"])
@pytest.mark.parametrize("action", [LEFT, RIGHT, PICKUP, DROP, TOGGLE, DONE])
def test_goal_and_lava_count_only_when_entered(cell, action):
    (step,) = play(f"> {cell} . .", action)
    assert not step.terminated and step.reward == 0
    assert step.state.grid[1, 2] == drawing.code(cell)


@pytest.mark.parametrize("item", ["kr", "kg", "ob", "op", "xy", "xe"])
def test_keys_balls_and_boxes_are_picked_up_and_dropped(item):
    becomes(f"> {item} . .", [PICKUP], "> . . .", carried=item)
    becomes(f"> {item} . .", [PICKUP, FORWARD, DROP], f". > {item} .")


@pytest.mark.parametrize("cell", [".", "#", "fb", "Dr", "Cr", "Lr", "G", "~"])
def test_nothing_else_is_picked_up(cell):
    becomes(f"> {cell} . .", [PICKUP], f"> {cell} . .")


def test_full_hands_neither_pick_up_nor_swap():
    becomes("> kr ob .", [PICKUP, FORWARD, PICKUP], ". > ob .", carried="kr")


@pytest.mark.parametrize("cell", ["#", "fb", "Dr", "Cr", "Lb", "G", "~", "ob", "kr", "xg"])
def test_things_are_dropped_on_bare_cells_only(cell):
    becomes(f"kr < {cell} .", [PICKUP, LEFT, LEFT, DROP], f". > {cell} .", carried="kr")


def test_empty_hands_drop_nothing():
    becomes("> . . .", [DROP], "> . . .")


def test_a_dropped_thing_can_be_picked_up_again():
    becomes("> kr . .", [PICKUP, DROP], "> kr . .")
    becomes("> kr . .", [PICKUP, DROP, PICKUP], "> . . .", carried="kr")


def test_doors_open_and_close_again():
    becomes("> Cr . .", [TOGGLE], "> Dr . .")
    becomes("> Cr . .", [TOGGLE, TOGGLE], "> Cr . .")
    becomes("> Dr . .", [TOGGLE, FORWARD], "> Cr . .")


@pytest.mark.parametrize("colour", "rgbpye")
def test_the_key_of_its_colour_unlocks_a_door_for_good_and_is_kept(colour):
    to_the_door = [PICKUP, LEFT, LEFT]
    before, key, door = f"k{colour} < L{colour} .", f"k{colour}", colour
    becomes(before, [*to_the_door, TOGGLE], f". > D{door} .", carried=key)
    becomes(before, [*to_the_door, TOGGLE, TOGGLE], f". > C{door} .", carried=key)
    # The agent closes the door, drops the key, and opens the door again: once unlocked, the door
    # opens without a key.
    without_key = [*to_the_door, TOGGLE, TOGGLE, LEFT, LEFT, DROP, RIGHT, RIGHT, TOGGLE]
    becomes(before, without_key, f"k{colour} > D{door} .")


@pytest.mark.parametrize("item", ["", "kb", "or", "xr"])
def test_nothing_but_its_key_opens_a_locked_door(item):
    becomes(f"{item or '.'} < Lr .", [PICKUP, LEFT, LEFT, TOGGLE], ". > Lr .", carried=item)


def test_a_toggled_box_vanishes_with_nothing_inside():
    becomes("> xr . .", [TOGGLE], "> . . .")
    becomes("> xr . .", [TOGGLE, FORWARD], ". > . .")


@pytest.mark.parametrize("cell", [".", "#", "kr", "ob", "fb"])
def test_toggling_anything_else_does_nothing(cell):
    becomes(f"> {cell} . .", [TOGGLE], f"> {cell} . .")


@pytest.mark.parametrize("cell", [".", "#", "kr", "ob", "xg", "Cr", "Dr", "Lr", "fb"])
def test_done_does_nothing(cell):
    becomes(f"> {cell} . .", [DONE], f"> {cell} . .")


def test_the_limit_truncates_and_keeps_truncating():
    steps = play("> . . .", DONE, DONE, DONE, DONE, limit=3)
    assert [bool(step.truncated) for step in steps] == [False, False, True, True]
    assert not any(step.terminated for step in steps)
    assert steps[2].discount == 1, "truncated: the value is bootstrapped"


def test_the_goal_in_the_last_step_pays_a_tenth_and_is_not_truncated():
    """Success in the last step sets only `terminated`; MiniGrid sets `truncated` as well."""
    last = play(". > . G", FORWARD, FORWARD, limit=2)[-1]
    assert last.terminated and not last.truncated and last.discount == 0
    np.testing.assert_allclose(last.reward, 0.1, atol=1e-7)


def test_lava_in_the_last_step_is_not_truncated():
    last = play("> ~ . .", FORWARD, limit=1)[-1]
    assert last.terminated and not last.truncated and last.reward == 0


def test_rewards_stay_finite_without_any_time():
    last = play("> G . .", FORWARD, limit=0)[-1]
    assert last.terminated and np.isfinite(last.reward)


def test_the_agent_sees_the_carried_object_instead_of_the_tile_below():
    """In the image, the agent's cell shows the carried object, never the goal or door below."""
    steps = play("> kr Dg .", DONE, PICKUP, FORWARD, FORWARD)
    cells = [step.obs[3, 6].tolist() for step in steps]
    assert cells == [[1, 0, 0], [Kind.KEY, 0, 0], [Kind.KEY, 0, 0], [Kind.KEY, 0, 0]]
    assert play("> G . .", FORWARD)[-1].obs[3, 6].tolist() == [1, 0, 0]


def test_objects_stay_when_the_agent_turns_away():
    becomes("> kr . .", [PICKUP, RIGHT, RIGHT, RIGHT, RIGHT], "> . . .", carried="kr")


def test_drawings_can_be_read_back():
    picture = ". # G ~ \n kr og xb fp \n Dy Ce Lr >"
    steps = play(picture, DONE)
    assert drawing.draw(steps[0].state) == drawing.tidy(picture)
    codes = np.array([tiles.WALL, drawing.code("Lr")])
    assert (codes == [0x52, Kind.LOCKED_DOOR]).all()
