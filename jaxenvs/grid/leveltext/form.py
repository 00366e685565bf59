"""Reader and writer of levels and states of MiniGrid and BabyAI as text: headers and a picture.

A text with the header `time` is a state; any other text is a level.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core import gridworld
from ...core.gridworld import AgentState, pose_of
from ...levels import cells
from ...levels.blocks import Block, Header
from ...levels.errors import LevelError, warn
from .. import tiles
from ..env import GridEnv
from ..state import REJECTED, GridState, Level
from ..tiles import Colour, Kind
from . import goals, kinds, maze, mutation, painting, picture

COMMON = ("mission", "grey", "under", "carrying", "task", "time", "rejected")
FORMS = (None, "minigrid", "maze")
palette, unpacked, packed = painting.palette, painting.unpacked, painting.packed
sprites, missions, place = painting.sprites, painting.missions, painting.place
GREY_BOX = Kind.BOX | Colour.GREY << 4
# Name of an object that can be carried -> tile byte. For a grey box with a key, the name tells the
# key's colour: for example, `grey box with red key`.
HELD = {
    **picture.PORTABLE,
    **{f"grey box with {tiles.name(k)}": Kind.KEY_BOX | k & 0xF0 for k in
       (Kind.KEY | colour << 4 for colour in Colour)},
}  # fmt: skip
WALKABLE = {
    "nothing": tiles.EMPTY,
    **{
        name: code
        for name, code in picture.NAMES.items()
        if code & 15 in (Kind.FLOOR, Kind.GOAL, Kind.LAVA, Kind.DOOR)
    },
}
# Names of objects below the agent. An agent in an open door of the outer wall that looks outwards
# faces its own cell, so it can close the door.
UNDER = WALKABLE | {n: code for n, code in picture.NAMES.items() if code & 15 == Kind.CLOSED_DOOR}


class Parsed(NamedTuple):
    """The contents of a level's or state's text, without the mission."""

    grid: np.ndarray  # uint8 (rows, columns): tile bytes
    seen: picture.Seen  # result of `picture.read`, with the agent's pose
    carried: int  # tile byte of the carried object, 0 for none
    is_state: bool  # whether the text is a state, not a level


def names(env: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the header names that `env` allows once, and those that it allows repeatedly."""
    return (*COMMON, "target", "balls"), ("contents",)


def block(text: str, first: int, form: str | None) -> Block | None:
    """Convert a maze in jaxued's text format to a `Block`; return None for any other text.

    first: line number of the first line of `text`.
    form: "maze" if the text must be a maze; any other text then raises `LevelError`.
    """
    return maze.block(text, first) if form == "maze" or maze.is_maze(text) else None


def read(env: Any, block: Block, *, strict: bool) -> Any:
    """Return the level or state whose text is `block`; raise `LevelError` if it is invalid."""
    found = parsed(env, block, strict=strict)
    task = _task(env, block, found.grid, begins=not found.is_state)
    if not found.is_state:
        return level(env, block, found, task)
    pose = agent(block, found)
    return GridState(time=time(block), grid=jnp.asarray(found.grid), agent=pose, task=task)


def parsed(env: Any, block: Block, *, strict: bool, shared_contents: bool = False) -> Parsed:
    """Parse a block, the text of a level or state, except the mission.

    Raises `LevelError` if the text is invalid.

    shared_contents: whether all boxes contain the same object, which the mission stores. Otherwise
        each box stores its own contents.
    """
    header = block.get("grey")
    shape = (len(block.picture), len(block.picture[0]) // 2)
    grey = None if header is None else cells.cells(header, header.value, shape)
    seen = picture.read(block, grey, strict=strict)
    check_shape(env, block, shape)
    grid, is_state = seen.grid, block.get("time") is not None
    if header := block.get("under"):
        grid[seen.cell] = cells.named(header, header.value, UNDER)
    if not shared_contents:
        _fill_boxes(block, grid)
    carried = _carried(env, block, grid, is_state=is_state)
    if not is_state:
        check_closed(block, grid, seen.cell)
    warn_of_kinds(env, block, grid, strict=strict)
    return Parsed(grid, seen, carried, is_state)


def level(env: Any, block: Block, found: Parsed, task: Any) -> Level:
    """Return the level of `env` with the parsed grid and pose, and with `task`."""
    accepted = jnp.bool_(not _rejected(block)) if env.marks_rejected else None
    pose = (*found.seen.cell, found.seen.direction)
    return Level.of(found.grid, *pose, task=task, accepted=accepted)


def agent(block: Block, found: Parsed) -> Any:
    """Return the field `agent` of a state: pose, carried object and flag `REJECTED`, packed."""
    pose = gridworld.packed(*found.seen.cell, found.seen.direction, found.carried)
    return pose | jnp.int32(REJECTED if _rejected(block) else 0)


def _rejected(block: Block) -> bool:
    header = block.get("rejected")
    return header is not None and cells.flag(header)


def time(block: Block) -> Any:
    """Return the number of steps taken so far, from the header `time` of a state."""
    header = block.get("time")
    assert header is not None
    return jnp.int32(cells.integer(header, header.value, 0, 2**31 - 1))


def _task(env: GridEnv, block: Block, grid: np.ndarray, *, begins: bool) -> Any:
    header, like = block.get("task"), env.level_shape.task
    if header is None:
        task = goals.of_mission(env, block)
        task = goals.complete(env, block, task, grid, begins=begins)
        return None if task is None else jnp.asarray(task)
    task = jnp.asarray(goals.raw_task(header, like))
    goals.check_mission(block, goals.mission(env, task))
    return task


def _fill_boxes(block: Block, grid: np.ndarray) -> None:
    """Put a key into the grey box that each header such as `contents: 4,1 red key` names."""
    for header in block.all("contents"):
        place, content = picture.content_of(header, grid.shape)
        if content & 15 != Kind.KEY or grid[place] != GREY_BOX:
            raise header.error(
                "only a grey box can have contents here, and only a key; write such as `contents: "
                "4,1 red key`"
            )
        grid[place] = Kind.KEY_BOX | content & 0xF0


def _carried(env: Any, block: Block, grid: np.ndarray, *, is_state: bool) -> int:
    """Return the tile byte of the object that the agent of a state carries; 0 for none.

    A level has no field for a carried object. The object lies in a cell of `Level.grid`, from which
    the reset moves it into the agent's hands. For a level, therefore write the object of the header
    `carrying` to the cell that the header names, and return 0.
    """
    header = block.get("carrying")
    if header is None:
        return 0
    if is_state:
        return cells.named(header, header.value, HELD)
    if not env.starts_carrying:
        raise header.error(
            "an episode of this environment starts with empty hands; a state has a line `time: 0`"
        )
    place, _, name = header.value.partition(" ")
    found = cells.cell(header, place, grid.shape)
    if grid[found] != tiles.EMPTY:
        raise header.error("this cell is not empty; name the cell where the object lay")
    grid[found] = cells.named(header, name, picture.PORTABLE)
    return 0


def check_shape(env: Any, block: Block, shape: tuple[int, int]) -> None:
    """Raise `LevelError` unless the picture has the size of the environment's grid."""
    wanted = env.grid_shape
    if shape == wanted:
        return
    fit = next((f"{name}={n}" for name, n in _sizes(env) if _shape(env, name, n) == shape), "")
    advice = f"make it with {fit}" if fit else "it has no field with which this size fits"
    raise LevelError(
        f"the picture has {shape[0]} rows and {shape[1]} columns, the grid of this environment "
        f"{wanted[0]} and {wanted[1]}; {advice}",
        block.line,
    )


def _sizes(env: Any) -> Any:
    return (
        (name, n) for name in ("size", "room_size") if hasattr(env, name) for n in range(3, 128)
    )


def _shape(env: Any, name: str, number: int) -> tuple[int, int] | None:
    try:
        return dataclasses.replace(env, **{name: number}).grid_shape
    except (TypeError, ValueError):
        return None


def check_closed(block: Block, grid: np.ndarray, start: cells.Cell) -> None:
    """Raise `LevelError` if the agent can reach the edge of the grid without passing a door.

    Also raises `LevelError` if the agent starts on an object that blocks it.
    """
    blocked = np.isin(grid & 15, (Kind.WALL, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR, Kind.DOOR))
    if grid[start] & 15 not in (Kind.EMPTY, *(code & 15 for code in WALKABLE.values())):
        raise picture.error(block, start, "the agent stands on an object that blocks it")
    here = np.zeros(grid.shape, bool)
    here[start] = True
    reached = cells.flooded(here, ~blocked)
    reached[1:-1, 1:-1] = False
    if reached.any():
        row, column = np.argwhere(reached)[0].tolist()
        raise picture.error(
            block, (row, column), "the agent can reach the edge of the grid here; draw a wall, WG"
        )


def warn_of_kinds(env: Any, block: Block, grid: np.ndarray, *, strict: bool) -> None:
    """Warn of the first object whose kind no level of `env` has; raise an error if `strict`."""
    known = kinds.of(env)
    if known is None:
        return
    always = {Kind.EMPTY, Kind.WALL, *known}
    if always & {Kind.CLOSED_DOOR, Kind.LOCKED_DOOR}:
        always |= {Kind.DOOR, Kind.CLOSED_DOOR}
    strange = ~np.isin(grid & 15, [int(kind) for kind in always])
    if strange.any():
        row, column = np.argwhere(strange)[0].tolist()
        warn(
            f"no level of {type(env).__name__} has a {tiles.name(int(grid[row, column]))}; its "
            "rules may not expect it",
            block.line + row,
            1 + 2 * column,
            strict=strict,
        )


def write(env: Any, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the headers (name, value) and the picture's rows of a level or state.

    form: None for the format that `read` restores; "minigrid" for a picture as minigrid draws it,
        or "maze" for a maze in jaxued's format, both without headers.
    """
    headers, rows = common(env, value, form)
    if form is not None:
        return headers, rows
    value = jax.device_get(value)
    block = Block(tuple(Header(*pair, 0) for pair in headers), tuple(rows))
    headers += _contents(np.asarray(value.grid))
    is_state = isinstance(value, AgentState)
    return headers + _task_headers(env, value, block, begins=not is_state), rows


def common(env: Any, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the headers that MiniGrid and BabyAI share, and the picture's rows.

    If `form` is "minigrid" or "maze", the list of headers is empty: these formats have none.
    """
    is_state = isinstance(value, AgentState)
    if form == "minigrid" and not is_state and env.starts_carrying:
        level = jax.tree.map(jnp.asarray, value)
        value, is_state = env.reset_to(jax.random.key(0), level).state, True
    value = jax.device_get(value)
    row, column, direction = pose_of(value)
    grid = np.asarray(value.grid)
    rows = picture.write(grid, (row, column), direction, minigrid=form == "minigrid")
    if form is not None:
        return [], rows if form == "minigrid" else maze.drawn(rows)
    under = int(grid[row, column])
    mission = goals.mission(env, value.task)
    headers = [("mission", mission)] if mission else []
    headers += [("under", tiles.name(under))] if under != tiles.EMPTY else []
    return headers + (_state_headers(value) if is_state else _level_headers(value)), rows


def _state_headers(state: GridState) -> list[tuple[str, str]]:
    carried = gridworld.unpacked(state.agent)[3]
    name = next((name for name, code in HELD.items() if code == carried), "")
    headers = [("time", str(int(state.time)))]
    headers += [("carrying", name)] if carried else []
    return headers + ([("rejected", "yes")] if int(state.agent) & REJECTED else [])


def _level_headers(value: Level) -> list[tuple[str, str]]:
    rejected = value.accepted is not None and not value.accepted
    return [("rejected", "yes")] if rejected else []


def _contents(grid: np.ndarray) -> list[tuple[str, str]]:
    boxes = np.argwhere(grid & 15 == Kind.KEY_BOX).tolist()
    keys = [tiles.name(Kind.KEY | int(grid[r, c]) & 0xF0) for r, c in boxes]
    return [("contents", f"{r},{c} {key}") for (r, c), key in zip(boxes, keys, strict=True)]


def _task_headers(env: Any, value: Any, block: Block, *, begins: bool) -> list[tuple[str, str]]:
    """Return the headers to add to `block` so that `read` restores the task of `value`."""
    grid = np.asarray(value.grid)
    for extra in ([], goals.lines(env, value.task, grid)):
        more = tuple(Header(*pair, 0) for pair in extra)
        tried = Block((*block.headers, *more), block.picture)
        try:
            found = _task(env, tried, grid, begins=begins)
        except LevelError:
            continue
        if np.array_equal(found, value.task) or (found is None and value.task is None):
            return extra
    return [("task", " ".join(str(part) for part in np.ravel(value.task)))]


def mutate(env: Any, key: Any, level: Any, edits: Any) -> Any:
    """Return the level after `edits` random edits."""
    return mutation.mutate(env, key, level, edits)
