"""Tests of BabyAI missions in handmade levels, in MiniGrid 3.2.0 and in this library."""

import upstream
from minigrid.core.world_object import Ball, Key
from minigrid.envs.babyai.core.verifier import BeforeInstr, GoToInstr, ObjDesc

import jaxenvs
from jaxenvs.grid import Action

ID = "BabyAI-GoToSeqS5R2-v0"  # id whose rooms have 3 x 3 free cells


def go_to_a_key_then_to_a_ball(env):
    """Put a ball ahead of the agent and a key at its back, and set the mission.

    The mission is to go to the key first, and then to the ball.
    """
    env.grid.set(1, 2, Key("blue"))
    env.grid.set(3, 2, Ball("red"))
    for x in (1, 3):
        env.grid.get(x, 2).init_pos = env.grid.get(x, 2).cur_pos = (x, 2)
    env.agent_pos, env.agent_dir = (2, 2), 0
    env.connect_all()
    env.instrs = BeforeInstr(GoToInstr(ObjDesc("key", "blue")), GoToInstr(ObjDesc("ball", "red")))


def test_a_failed_drop_clears_the_first_cell_of_a_carried_object():
    """Facing the first cell of a carried ball counts as facing the ball, until a drop action.

    In both episodes, the agent picks up the ball, faces the key, and then faces the ball's first
    cell. In the second episode, the agent also takes a drop action while it faces the key. The drop
    action has no other effect, because the key occupies the cell ahead.
    """
    env = upstream.make(ID)
    env.gen_mission = lambda: go_to_a_key_then_to_a_ball(env)
    turn = [Action.LEFT] * 2
    episodes = []
    for drops, wins in ((0, True), (1, False)):
        actions = [Action.PICKUP, *turn, *[Action.DROP] * drops, *turn]
        episodes.append(upstream.record(env, actions, seed=0))
        assert (episodes[-1].reward[-1] > 0) == wins
    counts, _ = upstream.differences(jaxenvs.make(ID), episodes)
    assert counts == dict.fromkeys(upstream.FIELDS, 0)
