"""Tests of `solve`, which searches for actions that reach the goal of an XLand task.

The actions that it finds win; with `shortest=True`, no shorter sequence wins. For tasks without a
solution, `winnable` is False.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs import xland
from jaxenvs.xland import Goal, Level, Rule, Ruleset, XLand, inventory, solver, tiles
from jaxenvs.xland.rulesets import GOALS, RULES

SIZE = 5  # number of cells per side of the boards, walls included
SIGNS = {"#": tiles.WALL, ".": tiles.FLOOR, "b": 0x13, "s": 0x34, "p": 0x25, "G": 0x26}
FACING = "^>v<"
UNKNOWN = (
    Goal.NONE,
    Goal.ON,
    Goal.TILE_AT,
    Goal.AGENT_AT,
)  # kinds of goals that `random_task` does not draw


def drawn(*rows: str) -> Level:
    """Return the level of a drawing.

    b is a red ball, s a blue square, p a green pyramid, G a green goal tile, and ^ > v < the agent.
    """
    cells = ["#" * SIZE, *(f"#{row}#" for row in rows), "#" * SIZE]
    grid = [[SIGNS.get(cell, tiles.FLOOR) for cell in row] for row in cells]
    (place,) = ((r, c, FACING.index(x)) for r, row in enumerate(cells) for c, x in enumerate(row)
                if x in FACING)  # fmt: skip
    return Level.of(np.array(grid, np.uint8), *place)


@functools.cache
def world() -> tuple[XLand, Any]:
    env = XLand(layout="R1", size=SIZE, num_rules=4, num_tiles=4)
    return env, jax.jit(env.step)


def wins(ruleset: Ruleset, level: Level, actions: tuple[int, ...]) -> bool:
    """Return whether the last of the actions reaches the goal, and no earlier action does."""
    env, step = world()
    params = env.default_params.replace(ruleset=ruleset.sized(4, 4).packed())
    state, ended = env.reset_to(jax.random.key(0), level, params).state, []
    for action in actions:
        stepped = step(jax.random.key(0), state, jnp.int32(action), params)
        state = stepped.state
        ended.append(bool(stepped.terminated))
    return ended[-1] and not any(ended[:-1])


@pytest.mark.parametrize(
    ("task", "rows", "steps"),
    [
        # Plans: go forward, pick up; in the second level, turn and walk to the ball first.
        ("goal: hold(red ball)\nmap: red ball", ("b..", "...", "^.."), 2),
        ("goal: hold(red ball)\nmap: red ball", ("..b", "...", "^.."), 5),
        # Plan: pick up the ball, go forward, turn, and put the ball down next to the square.
        ("goal: near(red ball, blue square)\nmap: red ball, blue square", ("b.s", "^..", "..."), 4),
        # Plan: make a pyramid from the ball and the square, and pick it up.
        (
            "goal: hold(green pyramid)\nnear(red ball, blue square) -> green pyramid\n"
            "map: red ball, blue square",
            ("bs.", "^..", "..."),
            4,
        ),
        ("goal: on(green goal tile)\nmap: green goal tile", ("...", ".^.", "..G"), 4),
    ],
)
def test_the_shortest_way(task: str, rows: tuple[str, ...], steps: int):
    ruleset, level = xland.parse_ruleset(task), drawn(*rows)
    found = xland.solve(ruleset, level, shortest=True, node_budget=20_000)
    assert found.winnable and found.shortest and wins(ruleset, level, found.actions)
    assert (found.steps, len(found.actions), found.at_least) == (steps, steps, steps)
    quick = xland.solve(ruleset, level, node_budget=20_000)
    assert quick.winnable and wins(ruleset, level, quick.actions) and quick.steps >= steps


def random_task(rng: np.random.Generator) -> tuple[Ruleset, Level]:
    """Return a random task and a random level for it.

    Goal and rules name only four different tiles, so that many rules name a tile of the goal.
    """
    named = [(3, 1), (4, 3), (5, 2), (6, 2)]

    def numbers(forms: Any, kind: int, more: int) -> tuple[int, ...]:
        picked = rng.integers(len(named), size=forms[kind].tiles + more)
        return (kind, *(number for index in picked for number in named[index]))

    goal = rng.choice(
        [k for k in Goal if k not in (Goal.NONE, Goal.ON, Goal.TILE_AT, Goal.AGENT_AT)]
    )
    rules = [numbers(RULES, int(kind), 1) for kind in rng.choice(tuple(Rule)[1:], size=4)]
    ruleset = Ruleset.of(
        numbers(GOALS, int(goal), 0), rules, [named[i] for i in rng.integers(4, size=3)]
    )
    cells = rng.permutation(9)
    grid = np.full((SIZE, SIZE), tiles.WALL, np.uint8)
    grid[1:-1, 1:-1] = tiles.FLOOR
    for cell, pair in zip(cells, ruleset.init_tiles, strict=False):
        grid[1 + cell // 3, 1 + cell % 3] = pair[0] | pair[1] << 4
    row, column = divmod(int(cells[-1]), 3)
    return ruleset, Level.of(grid, 1 + row, 1 + column, int(rng.integers(4)))


@pytest.mark.parametrize("count", [24, pytest.param(600, marks=pytest.mark.slow)])
def test_what_the_inventory_rules_out_no_search_finds(count: int, monkeypatch):
    """The search finds no solution of a task that the inventory analysis proves unwinnable.

    `solve` normally runs the analysis before the search. The test replaces the analysis, so that
    `solve` searches in every case.
    """
    analyse = inventory.analyse
    monkeypatch.setattr(solver.validation, "check", lambda *given: None)
    monkeypatch.setattr(inventory, "analyse", lambda *given: inventory.Analysis(None, (), False))
    rng, counts = np.random.default_rng(3), {}
    for _ in range(count):
        ruleset, level = random_task(rng)
        possible = analyse(ruleset, solver._beside(level), solver._walled(level)).winnable
        found = solver.solve(ruleset, level, shortest=True, node_budget=20_000).winnable
        counts[possible, found] = counts.get((possible, found), 0) + 1
        assert (possible, found) != (False, True), xland.format_ruleset(ruleset)
    print(f"(inventory, search): {counts}")
    assert min(counts.get((True, True), 0), counts.get((False, False), 0)) > count / 4


def test_a_task_that_cannot_be_won():
    """A rule removes the ball as soon as the agent steps next to it, so the first level has no win.

    In the second level, the agent starts next to the ball and wins by picking it up.
    """
    ruleset = xland.parse_ruleset(
        "goal: hold(red ball)\nnear(red ball, agent) -> floor\nmap: red ball"
    )
    found = xland.solve(ruleset, drawn("b..", "...", "..^"))
    assert (found.winnable, found.steps, found.nodes) == (False, None, 0)
    found = xland.solve(ruleset, drawn("b..", "<..", "..."), shortest=True, node_budget=20_000)
    assert (found.winnable, found.steps, found.shortest) == (True, 2, True)


@pytest.mark.parametrize(
    ("goal", "rows", "winnable"),
    [
        ("left_of(red ball, green goal tile)", ("b..", "G..", "^.."), False),
        ("left_of(red ball, green goal tile)", ("b..", ".G.", "^.."), True),
        ("right_of(red ball, green goal tile)", ("b..", "G..", "^.."), True),
        ("left_of(green goal tile, red ball)", ("b..", "..G", "^.."), False),
        ("below(green goal tile, agent)", ("bG.", "...", "^.."), False),
        ("below(green goal tile, agent)", ("b..", ".G.", "^.."), True),
        ("above(green goal tile, agent)", ("bG.", "...", "^.."), True),
    ],
)
def test_a_goal_tile_at_a_wall_leaves_no_room(goal: str, rows: tuple[str, ...], winnable: bool):
    ruleset = xland.parse_ruleset(f"goal: {goal}\nmap: red ball, green goal tile")
    found = xland.solve(ruleset, drawn(*rows), node_budget=20_000)
    assert found.winnable == winnable and (found.nodes > 0) == winnable


def test_dead_ends_are_described_in_words():
    ruleset = xland.parse_ruleset(
        "goal: hold(green pyramid)\nnear(red ball, blue square) -> green pyramid\n"
        "hold(red ball) -> red key\nmap: red ball, blue square"
    )
    assert inventory.analyse(ruleset) == (True, ("a red ball becomes a red key",), True)
    safe = ruleset.replace(rules=ruleset.rules[:1])
    assert inventory.analyse(safe) == (True, (), True)
    level = drawn("b..", "..s", "^..")
    found = xland.solve(ruleset, level, node_budget=20_000)
    assert found.winnable and found.dead_end and wins(ruleset, level, found.actions)


def test_tasks_that_the_inventory_cannot_decide():
    text = "goal: {}\nmap: red ball, blue square"
    unknown = (None, (), False)
    for goal in ("at(agent, 1, 1)", "on(green goal tile)", "near(red ball, wall)"):
        assert inventory.analyse(xland.parse_ruleset(text.format(goal))) == unknown
    assert inventory.analyse(xland.parse_ruleset(text.format("none"))).winnable is False


VANISHES = "near(green goal tile, agent) -> floor\n"


@pytest.mark.parametrize(
    ("lines", "beside", "winnable"),
    [
        # Stepping next to the goal tile removes the tile. Putting an object down while standing
        # below the tile turns the tile into a key. Only an agent that starts next to the tile can
        # make the key before the tile vanishes.
        (f"goal: hold(red key)\n{VANISHES}above(green goal tile, agent) -> red key", True, True),
        (f"goal: hold(red key)\n{VANISHES}above(green goal tile, agent) -> red key", False, False),
        # In the next three tasks, a rule removes a ball and a square that lie together. In two of
        # the tasks, the rule fires whenever the goal would be reached. In the third, the ball can
        # be put beside or below the square, where the rule does not fire.
        ("goal: above(red ball, blue square)\nabove(red ball, blue square) -> floor", False, False),
        ("goal: above(red ball, blue square)\nnear(blue square, red ball) -> floor", False, False),
        ("goal: near(red ball, blue square)\nabove(red ball, blue square) -> floor", False, True),
        # The ball changes when the agent picks it up, so the square must be brought to the ball.
        ("goal: near(red ball, blue square)\nhold(red ball) -> floor", False, True),
        ("goal: hold(red ball)\nhold(red ball) -> pink key", False, False),
        ("goal: hold(red ball)\nhold(red ball) -> red key\nhold(red key) -> red ball", False, True),
        # The goal needs two different keys, but both can be made only from the same ball.
        ("goal: near(red key, pink key)\nnear(red ball, agent) -> red key\n"
         "hold(red ball) -> pink key", False, False),
        ("goal: near(red key, pink key)\nnear(red ball, agent) -> red key\n"
         "hold(blue square) -> pink key", False, True),
    ],
)  # fmt: skip
def test_what_an_inventory_allows(lines: str, beside: bool, winnable: bool):
    ruleset = xland.parse_ruleset(f"{lines}\nmap: red ball, blue square, green goal tile")
    around = frozenset({SIGNS["G"]} if beside else ())
    assert inventory.analyse(ruleset, around).winnable == winnable
