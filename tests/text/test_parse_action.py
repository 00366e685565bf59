"""Tests of actions that are read from text."""

import numpy as np
import pytest

import jaxenvs
from jaxenvs.text import ActionError, parse_action

GRID = jaxenvs.make("Grid-Empty-5x5-v0")
CUBE = jaxenvs.make("Puzzle-Cube-2x2-v0")
LAMPS = jaxenvs.make("Puzzle-LightsOut-5x5-v0")
PENDULUM = jaxenvs.make("Classic-Pendulum-v0")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pick up", "pick up"),
        ("PICK  UP.", "pick up"),
        ("pick", "pick up"),
        ("3", "pick up"),
        ("#3", "pick up"),
        ("3 pick up", "pick up"),
        ('"pick up"', "pick up"),
        ("`forward`", "forward"),
        ("**Action:** pick up", "pick up"),
        ("The key is ahead.\nAction: pick up", "pick up"),
        ("Action: left? No.\nFinal answer: forward.", "forward"),
        ("Action: 3 (pick up)", "pick up"),
        ("action = Forward to reach the key", "forward"),
        ("The action is forward, because the way is free", "forward"),
        ("<action>toggle</action>", "toggle"),
        ("<|ACTION|>drop<|END|>", "drop"),
        ('{"thought": "a key", "action": "pick up"}', "pick up"),
        (r"\boxed{left}", "left"),
        ("I go on.\n\nforward", "forward"),
        ("Action:\nleft", "left"),
    ],
)
def test_answers_are_read(text, name):
    assert parse_action(GRID, text) == GRID.action_names.index(name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("U'", "U'"),
        ("'U''", "U'"),
        ('"u\'"', "U'"),
        ("Action: U'", "U'"),
        ("u", "U"),
        ("U\u2019", "U'"),
        ("Action: U\u2032", "U'"),
        ("\u2018U\u2019", "U"),
        ("Action: U' to turn the corner", "U'"),
        ("Action: 'U'", "U"),
        ("Action: 'U''", "U'"),
        ("Action: 'U' to turn the corner", "U"),
        ("{'action': 'U'}", "U"),
        ("{'action': 'U''}", "U'"),
    ],
)
def test_the_apostrophe_of_a_name_is_kept(text, name):
    assert CUBE.action_names[parse_action(CUBE, text)] == name


@pytest.mark.parametrize("text", ["`U'`, 'U'", "2 F'", "U' then R", "U R'", "U2"])
def test_an_answer_with_two_turns_is_refused(text):
    for answer in (text, f"Action: {text}"):
        with pytest.raises(ActionError, match="There is no action"):
            parse_action(CUBE, answer)


@pytest.mark.parametrize(
    "text",
    [
        "3,4",
        "3, 4",
        "Action: 3,4",
        "Action: 3, 4",
        "19",
        "Action: 3, 4 (a lamp)",
        "Action: (3, 4) on",
    ],
)
def test_cells_are_read_with_spaces(text):
    assert LAMPS.action_names[parse_action(LAMPS, text)] == "3,4"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pic up", "There is no action 'pic up'; did you mean 'pick up'?"),
        ("d", "'d' matches 2 actions: 4 drop, 6 done."),
        ("3 forward", "There is no action '3 forward'"),
        ("99", "There is no action '99'"),
        ("I should not toggle", "There is no action"),
        ("", "There is no action ''"),
    ],
)
def test_other_texts_are_refused_with_the_legal_actions(text, said):
    with pytest.raises(ActionError) as caught:
        parse_action(GRID, text)
    assert str(caught.value).startswith(said)
    assert isinstance(caught.value, ValueError) and caught.value.legal == tuple(range(7))


@pytest.mark.parametrize(
    "answer",
    """left or right|left, right|left; right|left/right|left-forward|left, then right|3, 4
    3 or 4|3, 4 to be sure|1 (left)|1 - left|1. left|left (1)|left? No, right.|[left, right]
    left\uff0cright|left is wrong, so right|3? No, 4.|'left' or 'right'|0 left, then right
    "left": "right"|left, or 1 because it is free""".replace("\n", "|").split("|"),
)
def test_an_answer_with_two_actions_is_refused(answer):
    for mark in ("Action: ", "The best action is ", "<action>"):
        with pytest.raises(ActionError, match="There is no action"):
            parse_action(GRID, f"{mark}{answer}")


@pytest.mark.parametrize(
    "answer",
    """left (0)|0 (left)|0 - left|0 left, because|left, not right|left. Right is a wall.|left, left
    left because right is a wall|left (2 cells to go)|left to go right later""".replace(
        "\n", "|"
    ).split("|"),
)
def test_an_answer_may_give_a_reason(answer):
    assert parse_action(GRID, f"Action: {answer}") == 0


def test_an_illegal_action_is_refused():
    for legal in ([0, 1], np.arange(7) < 2, (np.arange(7) < 2).astype(np.int8)):
        with pytest.raises(
            ActionError, match="'forward' is not legal now; legal actions: 0 left, 1"
        ):
            parse_action(GRID, "forward", legal)
        assert parse_action(GRID, "right", legal) == 1
    assert parse_action(GRID, "d", [4]) == 4  # the only legal name that begins with d


@pytest.mark.parametrize("legal", [[7], np.ones(6, bool), np.ones((7, 1), bool), "left", [1] * 7])
def test_bad_legal_actions_are_an_error_of_the_caller(legal):
    with pytest.raises(ValueError, match=r"legal must be a mask .* or different indices below 7"):
        parse_action(GRID, "left", legal)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("[1.0]", 1.0),
        ("torque: -1", -1.0),
        ("Action: -2", -2.0),
        ("full clockwise", -2.0),
        ("Action: no torque", 0.0),
    ],
)
def test_continuous_actions_are_numbers_or_names(text, value):
    found = parse_action(PENDULUM, text)
    assert found.dtype == np.float32 and found.tolist() == [value]


@pytest.mark.parametrize("text", ["7", "1, 2", "full", "push", "nan", ""])
def test_other_continuous_actions_are_refused_with_the_form(text):
    with pytest.raises(ActionError, match=r"write 1 number \(torque\) of Box"):
        parse_action(PENDULUM, text)


class Levers(jaxenvs.Env):
    """Environment whose action is a pair of indices."""

    action_space = jaxenvs.spaces.MultiDiscrete([3, 4])
    observation_space = jaxenvs.spaces.Box(0, 9, (2, 2), np.uint8)
    default_params = jaxenvs.Params(max_steps_in_episode=np.int32(5))
    action_names = ("left", "right")


def test_composite_actions_are_one_number_for_each_component():
    assert parse_action(Levers(), "2, 3").tolist() == [2, 3]
    assert parse_action(Levers(), "Action: left: 2, right: 0").tolist() == [2, 0]
    for text in ("2, 4", "1.5, 1", "1"):
        with pytest.raises(ActionError, match=r"write 2 numbers \(left, right\)"):
            parse_action(Levers(), text)


class Nested(Levers):
    """Environment whose action is a dictionary."""

    action_space = jaxenvs.spaces.Dict({"a": jaxenvs.spaces.Discrete(2)})


def test_actions_that_cannot_be_written_are_refused():
    with pytest.raises(ActionError, match="cannot be written as text"):
        parse_action(Nested(), "0")
