"""Reader and writer of levels of XLand as text: a picture, and lines with the task.

The picture has two characters per cell: the kind and the colour of a tile. Lines such as `legend:
Br red ball` explain the pairs of characters; a text may also define its own pairs. Lines `task:`
have the syntax of `parse_ruleset`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.checks import counted
from ..core.gridworld import AgentState, packed, pose_of, unpacked
from ..levels import cells
from ..levels.blocks import Block
from ..levels.errors import LevelError
from . import tiles
from .env import XLand
from .state import Level, XLandState
from .tiles import Colour, Kind

FORMS = (None,)
AGENT = ("^^", ">>", "VV", "<<")  # pair of characters for each direction of the agent
KINDS = {
    Kind.FLOOR: "F",
    Kind.WALL: "W",
    Kind.BALL: "B",
    Kind.SQUARE: "S",
    Kind.PYRAMID: "P",
    Kind.GOAL: "G",
    Kind.KEY: "K",
    Kind.LOCKED_DOOR: "L",
    Kind.CLOSED_DOOR: "D",
    Kind.OPEN_DOOR: "_",
    Kind.HEX: "H",
    Kind.STAR: "*",
}
COLOURS = dict(zip(tuple(Colour)[1:], "rgbpyekowni", strict=True))
PLAIN = {tiles.FLOOR: "  ", tiles.WALL: "WG"}
PAIRS = {
    kind | colour << 4: PLAIN.get(kind | colour << 4, letter + COLOURS[colour])
    for kind, letter in KINDS.items()
    for colour in COLOURS
}
NAMES = {tiles.name(code): code for code in PAIRS}
WALKABLE = {name: code for name, code in NAMES.items() if code & 15 in tiles.WALKABLE}


def names(env: XLand) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a level's header lines (`name: value`), in two tuples.

    The first has names that a level may use once, the second has names that it may repeat.
    """
    return ("under", "time", "pocket"), ("task", "legend")


def fields(env: XLand, block: Block) -> dict[str, Any]:
    """Return {"task": text of the task} from the lines `task:` of a block; {} if there are none.

    The dict has constructor fields of `XLand`. Raises `LevelError` if the task is invalid.
    """
    lines = block.all("task")
    if not lines:
        return {}
    task = "; ".join(header.value for header in lines)
    try:
        XLand(size=env.size, layout=env.layout, num_rules=env.num_rules,
              num_tiles=env.num_tiles, task=task)  # fmt: skip
    except ValueError as error:
        raise lines[0].error(str(error)) from None
    return {"task": task}


def read(env: XLand, block: Block, *, strict: bool) -> Level | XLandState:
    """Return the level or state in a block (text of one level); raise `LevelError` if invalid."""
    known = {pair: code for code, pair in PAIRS.items()} | _legend(block)
    rows = [_pairs(block, number, known) for number in range(len(block.picture))]
    shape = (len(rows), len(rows[0]))
    if shape != env.grid_shape:
        raise LevelError(
            f"the picture has {shape[0]} rows and {shape[1]} columns, the grid of this environment "
            f"{env.size} and {env.size}; choose a layout and size that fit",
            block.line,
        )
    agents = [(r, c) for r, row in enumerate(rows) for c, pair in enumerate(row) if pair in AGENT]
    if len(agents) != 1:
        found = counted(len(agents), "agent")
        raise LevelError(f"the picture has {found}, expected one: ^^ >> VV or <<", block.line)
    ((row, column),) = agents
    direction, rows[row][column] = AGENT.index(rows[row][column]), "  "
    grid = np.array([[known[pair] for pair in line] for line in rows], np.uint8)
    if header := block.get("under"):
        grid[row, column] = cells.named(header, header.value, WALKABLE)
    return _value(block, grid, (row, column, direction))


def _value(block: Block, grid: np.ndarray, pose: tuple[int, int, int]) -> Level | XLandState:
    time, pocket = block.get("time"), block.get("pocket")
    if time is None:
        if pocket is not None:
            raise pocket.error("an episode starts with an empty pocket; a state has `time: 0`")
        return Level.of(grid, *pose)
    held = 0 if pocket is None else cells.named(pocket, pocket.value, NAMES)
    steps = cells.integer(time, time.value, 0, 2**31 - 1)
    agent = packed(*pose, held)
    return XLandState(time=jnp.int32(steps), grid=jnp.asarray(grid), agent=agent)


def _legend(block: Block) -> dict[str, int]:
    """Return the pairs of characters that the block's lines `legend:` define -> tile bytes."""
    found = {}
    for header in block.all("legend"):
        pair, name = header.value[:2], header.value[2:]
        if len(pair.strip()) != 2 or not name.startswith(" ") or pair in AGENT:
            raise header.error("write two characters and a tile, such as `legend: Br red ball`")
        found[pair] = cells.named(header, name, NAMES)
    return found


def _pairs(block: Block, number: int, known: dict[str, int]) -> list[str]:
    """Split row `number` of the picture into pairs of characters; raise `LevelError` if invalid."""
    line, width, place = block.picture[number], len(block.picture[0]), block.line + number
    if len(line) % 2 or len(line) != width:
        raise LevelError(
            f"the row has {counted(len(line), 'character')}, the first row {width}; a cell is two "
            "characters, and all rows are equally long",
            place,
            len(line) or 1,
        )
    pairs = [line[i : i + 2] for i in range(0, width, 2)]
    for column, pair in enumerate(pairs):
        if pair not in known and pair not in AGENT:
            raise LevelError(
                f"unknown pair {pair!r}; define it, such as by `legend: {pair} red ball`",
                place,
                1 + 2 * column,
            )
    return pairs


def write(env: XLand, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the headers (name, value) and the picture's rows of a level or state."""
    value = jax.device_get(value)
    is_state, grid = isinstance(value, AgentState), np.asarray(value.grid)
    row, column, direction = pose_of(value)
    unknown = set(np.unique(grid).tolist()) - PAIRS.keys()
    if unknown:
        raise ValueError(f"the tile byte {min(unknown):#04x} is no tile of a level")
    rows = [[PAIRS[code] for code in line] for line in grid.tolist()]
    rows[row][column] = AGENT[direction]
    headers = [("task", line.strip()) for line in env.task.replace("\n", ";").split(";")]
    headers = [(name, line) for name, line in headers if line]
    if is_state:
        headers.append(("time", str(int(value.time))))
        pocket = unpacked(value.agent)[3]
        headers += [("pocket", tiles.name(pocket))] if pocket else []
    if grid[row, column] != tiles.FLOOR:
        headers.append(("under", tiles.name(int(grid[row, column]))))
    shown = {pair for line in rows for pair in line} - {*AGENT, *PLAIN.values()}
    legend = sorted((pair, code) for code, pair in PAIRS.items() if pair in shown)
    headers += [("legend", f"{pair} {tiles.name(code)}") for pair, code in legend]
    return headers, ["".join(line) for line in rows]
