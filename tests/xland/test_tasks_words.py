"""Tests of tasks as text: parsing inverts formatting, and descriptions name every tile."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxenvs import xland
from jaxenvs.xland import Goal, Rule, Ruleset
from jaxenvs.xland.rulesets import GOALS, RULES

TILES = st.tuples(st.integers(1, 12), st.integers(1, 11))
PLACES = st.tuples(st.integers(0, 255), st.integers(0, 255))


@st.composite
def goals(draw) -> tuple[int, ...]:
    kind = draw(st.sampled_from(Goal))
    numbers = [number for _ in range(GOALS[kind].tiles) for number in draw(TILES)]
    return (kind, *numbers, *(draw(PLACES) if GOALS[kind].place else ()))


@st.composite
def rules(draw) -> tuple[int, ...]:
    kind = draw(st.sampled_from(tuple(Rule)[1:]))
    return (kind, *(number for _ in range(RULES[kind].tiles + 1) for number in draw(TILES)))


RULESETS = st.builds(
    Ruleset.of, goals(), st.lists(rules(), max_size=5), st.lists(TILES, max_size=6)
)


@settings(max_examples=100, deadline=None)
@given(RULESETS)
def test_text_and_rulesets_are_inverses(ruleset):
    text = xland.format_ruleset(ruleset)
    assert xland.parse_ruleset(text) == ruleset
    assert xland.format_ruleset(xland.parse_ruleset(text)) == text
    assert xland.format_ruleset(ruleset.sized(9, 23)) == text  # padding does not appear in the text


@settings(max_examples=100, deadline=None)
@given(RULESETS, st.data())
def test_the_description_depends_on_every_tile(ruleset, data):
    name = data.draw(st.sampled_from(["goal", "rules", "init_tiles"]))
    changed = getattr(ruleset, name).copy()
    places = np.argwhere(changed)
    places = places[places[:, -1] > 0] if name != "init_tiles" else places
    if len(places):
        index = tuple(data.draw(st.sampled_from(places.tolist())))
        changed[index] = changed[index] % 11 + 1
        other = ruleset.replace(**{name: changed})
        assert xland.describe(other) != xland.describe(ruleset)


def test_a_task_of_each_kind_reads_as_it_is_written():
    text = """
        # a comment
        goal: above( blue  square , red ball)   # b is above a
        near(red ball, blue square) -> green pyramid
        near(agent, red hex) -> floor
        left_of(closed red door, agent) -> pink key
        hold(grey star) -> white goal tile

        map: red ball, blue square
        map: wall
    """
    ruleset = xland.parse_ruleset(text)
    assert ruleset == Ruleset.of(
        (Goal.UP, 3, 1, 4, 3),
        [
            (Rule.NEAR, 3, 1, 4, 3, 5, 2),
            (Rule.AGENT_NEAR, 11, 1, 1, 7),
            (Rule.AGENT_LEFT, 9, 1, 7, 11),
            (Rule.HOLD, 12, 6, 6, 9),
        ],
        [(3, 1), (4, 3), (2, 6)],
    )
    assert xland.describe(ruleset) == (
        "Goal: put a blue square directly above a red ball. "
        "A red ball and a blue square put next to it become a green pyramid. "
        "A red hex that you step next to vanishes. "
        "A closed red door directly left of you becomes a pink key. "
        "A grey star that you pick up becomes a white goal tile. "
        "On the map lie a red ball, a blue square and a wall."
    )


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ("none", "There is no goal."),
        ("hold(red key)", "Goal: hold a red key."),
        ("on(orange goal tile)", "Goal: step onto an orange goal tile."),
        ("near(red key, agent)", "Goal: step next to a red key."),
        ("right_of(red key, agent)", "Goal: get a red key directly right of you."),
        ("near(red key, red hex)", "Goal: put a red key next to a red hex."),
        ("below(red key, red hex)", "Goal: put a red key directly below a red hex."),
        ("at(red key, 3, 7)", "Goal: get a red key into row 3, column 7."),
        ("at(agent, 3, 7)", "Goal: be in row 3, column 7."),
    ],
)
def test_goals_in_words(goal: str, words: str):
    ruleset = xland.parse_ruleset(f"goal: {goal}\nmap: red hex, red hex, red key")
    assert xland.describe(ruleset) == f"{words} On the map lie 2 red hexes and a red key."


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("near(red ball, blue square)", "this is neither a goal, a rule nor a map; write `goal: "),
        (
            "goal: nea(red ball, red key)",
            "`nea` is not a test; the tests are hold, near, .*`near`?",
        ),
        ("goal: near", "`near` is not a test; write hold(a), near(a, b) or near(a, agent), "),
        ("goal: near(red ball)", "near is written near(a, b) or near(a, agent)"),
        ("goal: hold(red ball, red key)", "hold is written hold(a)"),
        ("hold(red ball) -> read key", "`read key` is not a tile; .*; did you mean `red key`?"),
        ("hold(agent) -> red key", "`agent` is not a tile; "),
        ("above(agent, red key) -> floor", "`agent` is not a tile; "),
        ("on(red ball) -> red key", "`on` and `at` are for goals; "),
        ("goal: at(red ball, 3)", "at is written at(a, row, column) or at(agent, row, column)"),
        (
            "goal: at(red ball, 3, -1)",
            "`-1` is not a row or column; these are numbers from 0 to 255",
        ),
        ("goal: none", "there is a goal already; a task has one"),
        ("map: red ball, , red key", "`` is not a tile; "),
    ],
)
def test_messages_name_the_line_and_say_what_is_allowed(line: str, message: str):
    pattern = ".*".join(re.escape(part) for part in message.split(".*"))
    start = re.escape(f"parse_ruleset: line 3, `{line}`: ")
    with pytest.raises(ValueError, match=f"^{start}{pattern}"):
        xland.parse_ruleset(f"goal: hold(red ball)\n\n{line}  # here\n")


def test_a_task_needs_a_goal():
    with pytest.raises(ValueError, match="there is no goal; add a line such as `goal: "):
        xland.parse_ruleset("map: red ball")


@pytest.mark.parametrize("function", [xland.describe, xland.format_ruleset])
def test_invalid_tasks_are_refused(function):
    batch = Ruleset(goal=np.zeros((2, 5), np.uint8), rules=np.zeros((2, 1, 7), np.uint8),
                    init_tiles=np.zeros((2, 1, 2), np.uint8))  # fmt: skip
    with pytest.raises(ValueError, match=r"needs one ruleset, got a batch of shape \(2,\)"):
        function(batch)
    with pytest.raises(ValueError, match="goal kind 15 is not one of 0 to 14"):
        function(Ruleset.of((15, 3, 1)))
    with pytest.raises(ValueError, match="rule kind 12 is not one of 0 to 11"):
        function(Ruleset.of((0,), [(12, 3, 1)]))
    with pytest.raises(ValueError, match=r"\(3, 0\) is not a tile: kinds are 1 to 12"):
        function(Ruleset.of((1, 3, 0)))
