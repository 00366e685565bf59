"""Tests of XLand's rules by drawings: a board, a task, actions, and the expected board.

The expected boards were checked with xminigrid 0.9.3. Boards have 3 x 3 cells inside walls. A cell
is a word: the letters of its kind and its colour, as in `jaxenvs.xland.facts`. In the agent's cell,
one of `^ > v <` comes before the letters.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.core.gridworld import packed
from jaxenvs.xland import Action, XLand, XLandState, parse_ruleset, tiles
from jaxenvs.xland.facts import sign
from jaxenvs.xland.sprites import SPRITES

AGENT = "^>v<"  # the agent's character in drawings, by direction
FORWARD, RIGHT, LEFT, PICKUP, PUT, TOGGLE = Action
ENV = XLand(size=5, num_rules=2, num_tiles=2)
STEP = jax.jit(ENV.step)
CODES = {sign(code): code for code in SPRITES.names}
NEAR = "near(red ball, green square) -> blue pyramid"


class Play:
    """A board on which a test plays actions; `won` is whether the last action reached the goal."""

    def __init__(self, picture, task, holds=""):
        grid = np.full((5, 5), tiles.WALL, np.uint8)
        for row, line in enumerate(picture.split("|"), 1):
            for column, word in enumerate(line.split(), 1):
                if word[0] in AGENT:
                    pose = row, column, AGENT.index(word[0])
                    word = word[1:] or "."
                grid[row, column] = CODES[word]
        pocket = CODES[holds] if holds else 0
        self.state = XLandState(
            time=jnp.int32(0), grid=jnp.asarray(grid), agent=packed(*pose, pocket)
        )
        text = task if "goal:" in task else f"goal: none\n{task}"
        ruleset = parse_ruleset(text).sized(2, 2)
        self.params = ENV.default_params.replace(ruleset=ruleset.packed())

    def __call__(self, *actions):
        for action in actions:
            made = STEP(jax.random.key(0), self.state, jnp.int32(action), self.params)
            self.state, self.won = made.state, bool(made.terminated)
        return self.picture()

    def picture(self):
        board = [[sign(tile) for tile in row] for row in self.state.grid[1:4, 1:4].tolist()]
        row, column = int(self.state.row) - 1, int(self.state.column) - 1
        below = "" if board[row][column] == "." else board[row][column]
        board[row][column] = AGENT[int(self.state.direction)] + below
        return " | ".join(" ".join(line) for line in board)

    @property
    def holds(self):
        code = int(self.state.pocket)
        return sign(code) if code else ""


def test_empty_hands_put_down_beside_a_pair_and_it_reacts():
    assert Play(". or sg | . ^ . | . . .", NEAR)(PUT) == ". . pb | . ^ . | . . ."


def test_one_ball_turns_two_squares():
    play = Play("sg . sg | . ^ . | . . .", NEAR, holds="or")
    assert play(PUT) == "pb . pb | . ^ . | . . ." and play.holds == ""


@pytest.mark.parametrize("chained", [False, True])
def test_a_chain_runs_through_in_one_step_only_in_the_order_of_the_rules(chained):
    rules = [
        "near(green square, agent) -> blue pyramid",
        "near(red ball, agent) -> green square",
    ]
    if chained:
        rules.reverse()
    play = Play(". or . | . ^ . | . . .", "\n".join(["goal: near(blue pyramid, agent)", *rules]))
    if not chained:
        assert play(FORWARD) == ". sg . | . ^ . | . . ." and not play.won
    assert play(FORWARD) == ". pb . | . ^ . | . . ." and play.won


def test_what_is_picked_up_changes_in_the_hands_twice():
    task = (
        "goal: hold(blue pyramid)\n"
        "hold(red ball) -> green square\nhold(green square) -> blue pyramid"
    )
    play = Play(". or . | . ^ . | . . .", task)
    assert play(PICKUP) == ". . . | . ^ . | . . ." and play.holds == "pb" and play.won


def test_a_full_hand_that_picks_up_triggers_what_is_held():
    play = Play(". . . | . ^ . | . . .", "hold(red ball) -> green square", holds="or")
    assert play(FORWARD) == ". ^ . | . . . | . . ." and play.holds == "or"
    play(PICKUP)
    assert play.holds == "sg"


def test_the_floor_below_the_agent_turns_into_a_thing():
    task = "near(green goal tile, red ball) -> blue pyramid"
    play = Play(". . . | . ^Gg . | . . .", task, holds="or")
    assert play(PUT) == ". . . | . ^pb . | . . ."


def test_hands_can_be_full_of_floor():
    play = Play(". or . | . ^ sg | . . .", "hold(red ball) -> floor")
    play(PICKUP)
    assert play.holds == "."
    assert play(RIGHT, PICKUP) == ". . . | . > sg | . . ." and play.holds == "."
    assert play(LEFT, PUT) == ". . . | . ^ sg | . . ." and play.holds == ""
    assert play(RIGHT, PICKUP) == ". . . | . > . | . . ." and play.holds == "sg"


def test_only_forward_triggers_what_is_near_the_agent_even_if_blocked():
    play = Play(". or . | . ^ . | . . .", "near(red ball, agent) -> green square")
    assert play(PUT, RIGHT, LEFT) == ". or . | . ^ . | . . ."
    assert play(FORWARD) == ". sg . | . ^ . | . . ."


def test_sides_of_the_agent_are_those_of_the_grid_and_put_down_triggers_them():
    task = "goal: right_of(green square, agent)\nright_of(red ball, agent) -> green square"
    play = Play(". . . | . v or | . . .", task)
    assert play(PUT) == ". . . | . v sg | . . ." and play.won


def test_two_equal_things_react():
    play = Play("or . . | . ^ . | . . .", "near(red ball, red ball) -> blue pyramid", holds="or")
    assert play(PUT) == "pb . . | . ^ . | . . ."


def test_a_pair_that_a_rule_takes_does_not_count_for_the_goal():
    task = f"goal: near(red ball, green square)\n{NEAR}"
    play = Play("sg . . | . ^ . | . . .", task, holds="or")
    assert play(PUT) == "pb . . | . ^ . | . . ." and not play.won


def test_who_stands_on_the_goal_wins_by_forward_even_if_blocked():
    play = Play(". or . | . ^Gg . | . . .", "goal: on(green goal tile)")
    play(RIGHT, LEFT)
    assert not play.won
    play(FORWARD)
    assert play.won


def test_a_key_of_another_colour_does_not_fit_and_is_kept():
    play = Play(". Lr . | . ^ . | . . .", NEAR, holds="kg")
    assert play(TOGGLE) == ". Lr . | . ^ . | . . ."
    play = Play(". Lr . | . ^ . | . . .", NEAR, holds="kr")
    assert play(TOGGLE) == ". Dr . | . ^ . | . . ." and play.holds == "kr"
    assert play(TOGGLE) == ". Cr . | . ^ . | . . ."
