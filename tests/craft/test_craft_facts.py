"""Tests of `facts` (the rows of a panel) and text descriptions of Craft-Classic's states."""

import pytest
from scene import ENV, scene

from jaxenvs.craft import CLASSIC
from jaxenvs.craft.facts import KEYS


@pytest.fixture(scope="module")
def state():
    drawing = """
        .  .  .  .  .  .  .
        .  Z  T  .  .  .  ~
        .  .  .  >  B  .  ~
        .  .  .  .  .  D  .
    """
    return scene(drawing, items={"wood": 2, "sapling": 1}, vitals={"food": 3}, time=210)


def test_description_of_a_state(state):
    assert ENV.describe(state).splitlines()[:8] == [
        "Health 9 of 9, food 3 of 9, drink 9 of 9, energy 9 of 9.",
        "You have 2 wood and 1 sapling.",
        "Time: day 1, night.",
        "Light: 0%.",
        "You face right; in front of you: a crafting table.",
        "You see a zombie 1 step up and 2 to the left.",
        "The nearest things: a crafting table 1 step to the right, a tree 1 step up and 1 to the "
        "left, water 3 steps to the right and a diamond 1 step down and 2 to the right.",
        "Your view; @ is you, . grass, , sand, ~ water, t tree, d diamond, T crafting table, "
        "Z zombie:",
    ]
    assert ENV.describe(state).splitlines()[8:] == [
        ", , , , , , , , ,",
        ", . . . . . . . ,",
        ", . Z t . . . ~ ,",
        ", . . . @ T . ~ ,",
        ", . . . . . d . ,",
        ", , , , , , , , ,",
        ", , , , , , , , ,",
    ]


def test_facts_are_what_the_panel_draws(state):
    facts = {fact.label: fact for fact in ENV.facts(state)}
    assert facts["food"][1:5] == ("3 of 9", "bar", 3, 9)
    assert facts["wood"][1:4] == ("2", "count", 2) and facts["iron sword"].amount == 0
    assert facts["time"].kind == "clock" and facts["time"].amount == pytest.approx(0.5)
    for fact in facts.values():
        icon = ENV.icon(fact.icon, 12, (1, 2, 3))
        assert (icon is None) == (fact.kind in ("clock", "text"))
        assert icon is None or icon.shape == (12, 12, 3)


def test_action_names_follow_the_action_numbers():
    assert [name.replace(" ", "_") for name in ENV.action_names] == [
        a.name.lower() for a in CLASSIC.actions
    ]
    assert len(KEYS) == len(CLASSIC.actions)
