"""Tests of the reported effects of an action: rules that fired, changed cells, the goal."""

import functools

import jax
import numpy as np
import pygame
import pytest

from jaxenvs.core.facts import Effects
from jaxenvs.core.wrappers import StickyAction
from jaxenvs.render import boards, facts, text
from jaxenvs.render.canvas import CUT, MUTED, Canvas
from jaxenvs.render.pen import Pen
from jaxenvs.render.session import Session
from jaxenvs.xland import Action, Benchmark, Level, Trials, XLand, parse_ruleset, tiles

BALL, SQUARE, PYRAMID = 0x13, 0x34, 0x25
CHAIN = parse_ruleset(
    """
    goal: near(red key, agent)
    hold(red ball) -> blue ball
    near(red ball, blue square) -> green pyramid
    above(green pyramid, agent) -> red key
    map: red ball, blue square
    """
)


@functools.cache
def world() -> XLand:
    return XLand(size=9, num_rules=4, num_tiles=2, obs="dict")


def level(pocket_at: tuple[int, int], square_at: tuple[int, int]) -> Level:
    """Return a level: a ball at `pocket_at`, a square at `square_at`, an agent that faces up."""
    grid = np.full((9, 9), tiles.WALL, np.uint8)
    grid[1:-1, 1:-1] = tiles.FLOOR
    grid[pocket_at], grid[square_at] = BALL, SQUARE
    return Level.of(grid, 4, 4, 0)


def played(env, params, start: Level, *actions: int):
    """Return the effects of the last action, and the states before and after it."""
    after = env.reset_to(jax.random.key(0), start, params).state
    for action in actions:
        before, after = after, env.step(jax.random.key(0), after, action, params).state
    return env.effects(before, actions[-1], after, params), before, after


def test_rules_that_fire_are_named_with_the_cells_they_change():
    env = world()
    params = env.params_for(CHAIN)
    start = level((3, 4), (4, 6))
    assert played(env, params, start, Action.RIGHT)[0] == Effects()
    held, *_ = played(env, params, start, Action.PICKUP)
    assert held == Effects(facts=(1,), cells=())  # the rule changed only the carried object
    ball = params.replace(ruleset=CHAIN.replace(rules=CHAIN.rules[1:]).sized(4, 2).packed())
    actions = (Action.PICKUP, Action.RIGHT, Action.PUT)
    paired, before, after = played(env, ball, start, *actions)
    assert paired == Effects(facts=(1,), cells=((4, 5), (4, 6)))
    assert (
        env.effects(before, Action.FORWARD, after, ball) == Effects()
    )  # no effects, because FORWARD does not lead to `after`; PUT does
    assert [env.facts(after, ball)[i].value for i in paired.facts] == [
        "A red ball and a blue square put next to it become a green pyramid"
    ]


def test_a_goal_that_is_reached_is_named_before_the_rules():
    env = world()
    params = env.params_for(CHAIN)
    start = level((1, 1), (7, 7))
    start = start.replace(grid=start.grid.at[3, 4].set(np.uint8(PYRAMID)))
    won, *_ = played(env, params, start, Action.FORWARD)
    assert won == Effects(facts=(0, 3), cells=((3, 4),))


@pytest.mark.full
@pytest.mark.parametrize("wrapped", ["sticky", "trials"])
def test_wrappers_pass_effects_on(wrapped):
    env, start = world(), level((3, 4), (4, 6))
    if wrapped == "sticky":
        outer = StickyAction(env=env)
        params = outer.default_params.replace(
            env=env.params_for(CHAIN), repeat_probability=np.float32(0)
        )
    else:
        rulesets = jax.tree.map(lambda leaf: leaf[None], CHAIN.sized(4, 2).packed())
        outer, params = Trials.of(env, Benchmark(rulesets=rulesets))
    drawn = outer.sample_level(jax.random.key(0), params)
    inside = drawn.replace(level=start) if wrapped == "trials" else start
    assert played(outer, params, inside, Action.PICKUP)[0] == Effects(facts=(1,))


def test_players_show_effects(monkeypatch):
    env = world()  # the default task: a ball that is put next to a square becomes a pyramid
    session = Session(env, level=level((3, 4), (4, 6)))
    plain = boards.pictures(session, 8).copy()
    for action in (Action.PICKUP, Action.RIGHT, Action.PUT):
        assert session.effects() == Effects() and "Just now" not in text.scene(session)
        session.act(action)
    assert "\nJust now: A red ball and a blue square put next to it become" in text.scene(session)
    framed = (boards.pictures(session, 8) == boards.LIT).all(axis=-1)[0]
    corners = framed[::8, ::8]
    assert np.argwhere(corners).tolist() == [[4, 5], [4, 6]] and plain.shape[1:3] == framed.shape
    written = []
    monkeypatch.setattr(Pen, "paragraph", lambda pen, words, colour, size: written.append(colour))
    canvas = Canvas(pygame.Surface((8, 8)), 1.0)
    facts.mission(Pen(canvas, 8), env.facts(session.state()), session.effects().facts)
    assert written == [MUTED, CUT]
    session.seek(session.cursor - 1)
    assert session.effects() == Effects()
