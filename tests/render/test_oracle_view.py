"""Tests of `--oracle`, which shows the least number of steps to success from the current state.

A search finds a plan. Steps along the plan need no new search; leaving the plan starts one.
"""

import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import cli, levels
from jaxenvs.commands.parser import UsageError
from jaxenvs.core.wrapper import Wrapper
from jaxenvs.core.wrappers.actions import ActionRepeat, StickyAction
from jaxenvs.core.wrappers.observations import FrameStack
from jaxenvs.grid import Action
from jaxenvs.render import screen
from jaxenvs.render.controls import Controller
from jaxenvs.render.oracle import Oracle, check
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.plans import Answer, Planner
from jaxenvs.render.session import Session
from jaxenvs.render.viewer import Viewer

ENV = jaxenvs.make("Grid-Empty-5x5-v0")
WALK = [Action.FORWARD, Action.FORWARD, Action.RIGHT, Action.FORWARD, Action.FORWARD]


class Counted(Planner):
    """A planner that answers at once, and counts the searches."""

    def __init__(self) -> None:
        super().__init__(self._count, waits=True)
        self.searches = 0

    def _count(self, env, state) -> Answer:
        self.searches += 1
        assert not isinstance(env, Wrapper)
        if (int(state.row), int(state.column), int(state.direction)) == (1, 1, 0):
            return Answer(5, tuple(map(int, WALK)), 5, True)
        return Answer(9, (Action.LEFT,) * 9, 7)


def test_a_state_on_the_plan_needs_no_search():
    session, planner = Session(ENV), Counted()
    oracle = Oracle(session, planner)
    left = []
    for action in WALK:
        left.append(oracle.answer(0).steps)
        session.act(action)
    assert left == [5, 4, 3, 2, 1] and planner.searches == 1
    assert oracle.answer(0) is None and oracle.status(0) == "episode over"
    session.seek(2)
    assert oracle.status(0) == "3 steps" and planner.searches == 1


def test_leaving_the_plan_searches_again():
    session, planner = Session(ENV), Counted()
    oracle = Oracle(session, planner)
    assert oracle.answer(0).plan[0] == Action.FORWARD
    session.act(Action.LEFT)
    assert oracle.status(0) == "7 to 9 steps" and planner.searches == 2
    session.act(Action.RIGHT)  # the first state again, two steps later
    assert oracle.answer(0).steps == 5 and planner.searches == 2


@pytest.mark.parametrize(
    ("wrapped", "actions", "steps"),
    [
        (FrameStack(ENV, 2), [Action.FORWARD], 4),
        (ActionRepeat(ENV, 2), [Action.FORWARD], 9),  # the wrapper moves two cells, not one
        # The wrapper repeats the right turn instead of turning left.
        (StickyAction(ENV).with_params(repeat_probability=1.0), [Action.RIGHT, Action.LEFT], 9),
    ],
)
def test_a_wrapper_can_leave_the_plan(wrapped, actions, steps):
    """The oracle drops its plan if a wrapper replaces the planned action or repeats it."""
    session = Session(wrapped)
    oracle = Oracle(session, Counted())
    for action in actions:
        oracle.answer(0)
        session.act(action)
    assert oracle.answer(0).steps == steps


def test_the_viewer_goes_on_until_the_answer_came():
    go_on = threading.Event()

    def solve(env, state):
        go_on.wait(60)
        return Answer(5, (Action.FORWARD,) * 5, 5, True)

    controller = Controller(Session(ENV), "an id")
    controller.oracle = Oracle(controller.session, Planner(solve))
    viewer = Viewer(controller)
    assert not viewer.goes_on
    before = screen.pixels(viewer.draw((800, 600)))
    assert viewer.goes_on and controller.oracle.status(0) == "compiling"
    assert not viewer.tick(0.01)
    go_on.set()
    until = time.monotonic() + 60
    while not viewer.tick(0.01) and time.monotonic() < until:
        time.sleep(0.01)
    after = screen.pixels(viewer.draw((800, 600)))
    assert not viewer.goes_on and (before != after).any()


def test_the_panel_keeps_its_layout():
    controller = Controller(Session(ENV, RANDOM), "an id", "watch")
    controller.oracle = Oracle(controller.session, Counted())
    first = screen.layout(controller, (800, 600))
    for _ in range(6):
        controller.session.forward()
        screen.draw(controller, (800, 600))
        assert screen.layout(controller, (800, 600)) == first


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("Grid-Dynamic-Obstacles-5x5-v0", "move at random"),
        ("Puzzle-TSP-20-v0", "differ in cost"),
        ("XLand-R1-9x9-v0", "only from the start of a level"),
        ("CartPole-v1", "has no exact solver"),
    ],
)
def test_an_environment_without_oracle_gets_a_sentence(id, words, capsys, tmp_path):
    with pytest.raises(UsageError, match=words):
        check(jaxenvs.make(id))
    out = str(tmp_path / "out.png")
    assert cli.main(["watch", id, "--oracle", "--screenshot", out]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1 and "Traceback" not in error


def test_text_mode_refuses_it(capsys):
    assert cli.main(["play", "Grid-Empty-5x5-v0", "--text", "--oracle"]) == 2
    assert "remove --text or --oracle" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize(
    "id", ["Grid-DoorKey-5x5-v0", "BabyAI-GoToLocal-v0", "Puzzle-Maze-10x10-v0"]
)
def test_real_plans_reach_success_from_any_state(id):
    session = Session(jaxenvs.make(id), RANDOM, seed=3)
    oracle = Oracle(session, waits=True)
    for _ in range(7):
        session.forward()
    found = oracle.answer(0)
    state, key = session.state(), jax.random.key(0)
    for action in found.plan:
        step = session.env.step(key, state, np.int32(action))
        state = step.state
    assert found.proven and len(found.plan) == found.steps
    assert bool(step.terminated) and float(step.reward) > 0


@pytest.mark.full
def test_levels_with_other_numbers_of_objects_share_a_program():
    env = jaxenvs.make("Grid-Fetch-8x8-N3-v0")
    drawn = [env.sample_level(jax.random.key(seed)) for seed in range(3)]
    emptied = [level.replace(grid=_without(level, n)) for n, level in enumerate(drawn)]
    wanted = [levels.solve(env, level)[0] for level in emptied]
    found = [levels.solve(env, level, shared=True)[0] for level in emptied]
    assert [one.steps for one in found] == [one.steps for one in wanted]
    began = time.process_time()
    for level in emptied:
        levels.solve(env, level, shared=True)
    assert time.process_time() - began < 3  # a new compilation would take 10 CPU seconds or more


def _without(level, count):
    """Return a level's grid after removing `count` objects that the mission does not name."""
    grid = np.array(level.grid)
    target = int(level.task) & 0xFF
    others = np.argwhere(((grid & 15 == 5) | (grid & 15 == 6)) & (grid != target))
    for row, column in others[:count]:
        grid[row, column] = 1
    return jnp.asarray(grid)
