"""Scripted players for MiniGrid that succeed or fail on purpose; they see the whole state."""

import copy

import numpy as np
import upstream
from minigrid.utils.baby_ai_bot import BabyAIBot
from walking import (
    PORTABLE,
    StuckError,
    ahead,
    around,
    enter,
    face,
    fetch,
    kind,
    look,
    pose_of,
    put_down,
    route,
    things,
    toggle,
    turn,
)

from jaxenvs.grid import Action

PATIENCE = 100  # largest number of searches that MiniGrid's bot may make per action


def plan(env, player):
    """Return the actions of a player; None if the player gets stuck.

    The player acts in a copy of the environment, with the same random numbers, until the episode
    ends or the player stops.
    """
    env, actions, ended = copy.deepcopy(env), [], False
    try:
        for action in player(env):
            if ended:
                break
            actions.append(int(action))
            *_, terminated, truncated, _ = env.step(action)
            ended = terminated or truncated
    except (StuckError, RecursionError):
        return None
    return actions


# Players that succeed, or that play where there is no task.


def to_the_goal(env):
    yield from enter(env, lambda thing: thing.type == "goal")


def through_the_door(env):
    """Open the only door."""
    yield from toggle(env, lambda thing: thing.type == "door")


def pick_up_the_target(env):
    """Pick up the target of the mission."""
    yield from fetch(env, things(env, lambda thing: thing is env.obj), from_boxes=False)


def fetch_the_target(env):
    wanted = (env.targetType, env.targetColor)
    cells = things(env, lambda thing: (thing.type, thing.color) == wanted)
    yield from fetch(env, cells, clearing=False, from_boxes=False)


def done_next_to_the_target(env):
    """Go to the cell where the target was at first, and take action `done`."""
    target = tuple(int(i) for i in env.target_pos)
    yield from face(env, lambda front: front == target, clearing=False)
    yield Action.DONE


def drop_where(env, wanted):
    """Fetch the object that the mission moves; drop it in a free cell with `wanted(distance)`.

    The distance is the larger of the row and column differences between the cell and the target.
    """
    yield from fetch(env, [env.move_pos], clearing=False, from_boxes=False)
    here = pose_of(env)[:2]

    def is_drop(cell):
        distance = max(abs(a - b) for a, b in zip(cell, env.target_pos, strict=True))
        return wanted(distance) and look(env, cell) is None and cell != here

    yield from face(env, is_drop, clearing=False)
    yield Action.DROP


def near_the_target(env):
    """Carry the object to move next to the target, and drop it there."""
    yield from drop_where(env, lambda distance: distance <= 1)


def red_then_blue(env):
    yield from toggle(env, lambda thing: thing is env.red_door)
    yield from toggle(env, lambda thing: thing is env.blue_door)


def onto(env, cell):
    """Walk to the free cell `cell` and step onto it."""
    yield from face(env, lambda front: front == tuple(int(i) for i in cell))
    yield Action.FORWARD


def hunting(wanted):
    """Return a player that walks into an object of kind `wanted`, with a new plan for each step."""

    def hunt(env):
        while True:
            way = route(env, lambda front: kind(look(env, front)) == wanted, False, frozenset())
            if way is None:
                yield Action.LEFT
            elif len(way) == 1 or way[0][:2] != way[1][:2]:
                yield Action.FORWARD
            else:
                yield turn(*way[:2])

    return hunt


def busy_with_everything(env):
    """Carry objects and open doors in an environment without a task."""
    while True:
        items = things(env, lambda thing: thing.type in (*PORTABLE, "door"))
        cell = items[int(env.np_random.integers(len(items)))]
        found = look(env, cell)
        if found.type == "door":
            yield from toggle(env, lambda thing, door=found: thing is door)
        else:
            yield from fetch(env, [cell])
            yield from put_down(env)


# The players below fail at their task.


def into_lava(env):
    yield from enter(env, lambda thing: thing.type == "lava")


def fetch_another(env):
    wanted = (env.targetType, env.targetColor)
    cells = things(env, lambda t: t.type in PORTABLE and (t.type, t.color) != wanted)
    yield from fetch(env, cells, clearing=False, from_boxes=False)


def toggle_the_target(env):
    target = tuple(int(i) for i in env.target_pos)
    yield from face(env, lambda front: front == target, clearing=False)
    yield Action.TOGGLE


def done_elsewhere(env):
    """Take action `done` in a cell that is not next to the target, so that the mission fails."""
    while abs(np.subtract(env.agent_pos, env.target_pos)).sum() == 1:
        x, y, direction = pose_of(env)
        way = [(x, y, (direction + i) % 4) for i in range(4)]
        free = [i for i, pose in enumerate(way) if look(env, ahead(pose)) is None]
        if not free:
            raise StuckError
        yield from [Action.RIGHT] * free[0]
        yield Action.FORWARD
    yield Action.DONE


def pick_another_up(env):
    cells = things(env, lambda t: t.type in PORTABLE and t.cur_pos != env.move_pos)
    yield from fetch(env, cells, clearing=False, from_boxes=False)


def drop_it_far_away(env):
    yield from drop_where(env, lambda distance: distance > 1)


def blue_first(env):
    yield from toggle(env, lambda thing: thing is env.blue_door)


def red_closed_again(env):
    yield from toggle(env, lambda thing: thing is env.red_door)
    yield Action.TOGGLE
    yield from toggle(env, lambda thing: thing is env.blue_door)


# Result of `upstream.family` -> (players that succeed, players that fail). In families that are not
# listed, players succeed by entering the goal.
PLAYERS = {
    **{name: ([to_the_goal], [into_lava]) for name in ("LavaCrossing", "LavaGap", "DistShift")},
    "Unlock": ([through_the_door], []),
    **{
        name: ([pick_up_the_target], [])
        for name in ("UnlockPickup", "BlockedUnlockPickup", "KeyCorridor", "ObstructedMaze")
    },
    "Memory": (
        [lambda env: onto(env, env.success_pos)],
        [lambda env: onto(env, env.failure_pos)],
    ),
    "Fetch": ([fetch_the_target], [fetch_another]),
    "GoToDoor": ([done_next_to_the_target], [toggle_the_target, done_elsewhere]),
    "GoToObject": ([done_next_to_the_target], [toggle_the_target, done_elsewhere]),
    "PutNear": ([near_the_target], [pick_another_up, drop_it_far_away]),
    "RedBlueDoor": ([red_then_blue], [blue_first, red_closed_again]),
    "DynamicObstacles": ([hunting("goal")], [hunting("wall"), hunting("ball")]),
    "Playground": ([busy_with_everything], []),
}


def reward_of(env, actions):
    """Return the reward of the last action in `actions`, played in a copy of the environment."""
    env, reward = copy.deepcopy(env), 0.0
    for action in actions:
        _, reward, *_ = env.step(action)
    return reward


def players(env):
    """Return the players that succeed in this environment, and those that fail."""
    family = upstream.family(env)
    if family != "BabyAI":
        return PLAYERS.get(family, ([to_the_goal], []))
    strict = any(getattr(atom, "strict", False) for atom in atoms(env.instrs))
    return [the_bot, instructed], [against_the_instruction] if strict else []


# Players of BabyAI.


def atoms(instr):
    """Return the simple instructions of `instr`, in the order of the sentence.

    If `instr` is itself a simple instruction, it is the only entry of the list.
    """
    if hasattr(instr, "instr_a"):
        return [*atoms(instr.instr_a), *atoms(instr.instr_b)]
    return [instr]


class Bot(BabyAIBot):
    """MiniGrid's expert for BabyAI; it raises `StuckError` after `PATIENCE` searches per action.

    Without this limit, the expert can loop forever.
    """

    searches = 0  # number of searches so far for the current action

    def replan(self, action_taken=None):
        self.searches = 0
        return super().replan(action_taken)

    def _breadth_first_search(self, *args, **kwargs):
        self.searches += 1
        if self.searches > PATIENCE:
            raise StuckError
        return super()._breadth_first_search(*args, **kwargs)


def the_bot(env):
    """Act like MiniGrid's expert; raise `StuckError` if the expert raises an error."""
    bot, action = Bot(env), None
    while True:
        try:
            action = bot.replan(action)
        except Exception as error:  # the expert raises many types of errors
            raise StuckError from error
        yield action


def instructed(env):
    """Carry out the simple instructions of the mission, one after the other."""
    yield from follow(env, env.instrs)


def follow(env, instr):
    name = type(instr).__name__
    if name == "AfterInstr":
        yield from follow(env, instr.instr_b)
        yield from follow(env, instr.instr_a)
    elif hasattr(instr, "instr_a"):
        yield from follow(env, instr.instr_a)
        yield from follow(env, instr.instr_b)
    else:
        yield from OBEY[name](env, instr)


def go_to(env, instr):
    cells = {tuple(int(i) for i in cell) for cell in instr.desc.obj_poss}
    yield from face(env, cells.__contains__)
    yield Action.DONE  # Any action succeeds in front of the target.


def open_it(env, instr):
    yield from toggle(env, lambda thing: any(thing is door for door in instr.desc.obj_set))


def lying(env, desc):
    """Return the cells of the objects that fit `desc` and are not carried."""
    return things(env, lambda thing: any(thing is one for one in desc.obj_set))


def pick_up(env, instr):
    if any(env.carrying is thing for thing in instr.desc.obj_set):
        yield from put_down(env)
    yield from fetch(env, lying(env, instr.desc), from_boxes=False)


def put_next(env, instr):
    if not any(env.carrying is thing for thing in instr.desc_move.obj_set):
        yield from fetch(env, lying(env, instr.desc_move), from_boxes=False)
    here = pose_of(env)[:2]
    near = {c for spot in instr.desc_fixed.obj_poss for c in around([int(i) for i in spot])}
    free = {cell for cell in near if look(env, cell) is None and cell != here}
    # Turn first, so that the drop is not in the first step: if the agent starts with the object,
    # MiniGrid does not count a drop in the first step.
    yield Action.LEFT
    yield from face(env, free.__contains__)
    yield Action.DROP


OBEY = {
    "GoToInstr": go_to,
    "OpenInstr": open_it,
    "PickupInstr": pick_up,
    "PutNextInstr": put_next,
}


def against_the_instruction(env):
    """Toggle a wrong door or pick up a wrong object, so that a strict instruction fails."""
    for atom in atoms(env.instrs):
        if getattr(atom, "strict", False):
            doors = type(atom).__name__ == "OpenInstr"
            wanted = ("door",) if doors else PORTABLE
            others = things(
                env,
                lambda thing, wanted=wanted, atom=atom: (
                    thing.type in wanted and not any(thing is one for one in atom.desc.obj_set)
                ),
            )
            if not others:
                raise StuckError
            if doors:
                yield from face(env, set(others).__contains__)
                yield Action.TOGGLE
            else:
                yield from fetch(env, others, from_boxes=False)
