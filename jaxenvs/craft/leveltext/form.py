"""Reader and writer of Craft levels and states as text: a map per floor, the player, items, mobs.

The picture of the map has one character per cell; an empty line separates the floors of the full
game. Lines such as `legend: T tree` explain the characters. A text with a line `time:` is a state
of an episode. Any other text is a level: maps, and in the full game ladders, effects of potions and
a kit (the floor and the possessions with which the player starts).

The lines of a state name the values of `World`, such as `vitals: health 9, food 8`. A value that is
left out equals the value at the start of an episode. A line about mobs, projectiles or ladders may
begin with `floor 3`; the line then describes the stored values of floor 3. A line without `floor`
describes the player's floor. Positions are map rows and columns, counted from 0.

A state that was read equals the state that was written, bit for bit. A level that was read begins
the same episodes as the level that was written. Only the light of its cells is rounded: to steps of
1/255, or to 0 or 1 if no pixels are observed.
"""

from typing import Any

import jax
import numpy as np

from ...levels import cells
from ...levels.blocks import Block
from ..env import CraftEnv
from ..state import CraftState
from . import begun, picture, states

FORMS = (None,)


def names(env: CraftEnv) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of lines `name: value` that may occur once, and of lines that may repeat."""
    once, repeated = states.names(env.rules), begun.names(env.rules)
    return ("time", *once[0], *repeated[0]), ("legend", *{*once[1], *repeated[1]})


def read(env: CraftEnv, block: Block, *, strict: bool) -> Any:
    """Return the level or state that a text describes; raise `LevelError` if it is invalid."""
    grid = picture.grid(env, block)
    light = picture.light(env, block, grid)
    time = block.get("time")
    _check_kind(env, block, is_state=time is not None)
    if time is None:
        return begun.level(env, block, grid, light)
    steps = cells.integer(time, time.value, 0, 2**31 - 1)
    return states.state(env, block, grid, light, steps)


def _check_kind(env: CraftEnv, block: Block, *, is_state: bool) -> None:
    """Raise `LevelError` if a level's text has a line that only states have, or the reverse."""
    ours, theirs = (states, begun) if is_state else (begun, states)
    allowed, others = (sum(module.names(env.rules), ()) for module in (ours, theirs))
    for header in block.headers:
        if header.name in others and header.name not in allowed:
            raise header.error(
                "a state has no such line; a level has it, and no line `time:`"
                if is_state
                else "a level has no such line; a state also has a line `time: 0`"
            )


def write(env: CraftEnv, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the text of a level or state: headers as (name, value), and rows of the picture."""
    value = jax.device_get(value)
    if isinstance(value, CraftState):
        grid, headers = np.asarray(value.map), states.lines(env, value)
    else:
        grid, headers = begun.grid(env, value), begun.lines(env, value)
    legend, rows = picture.drawn(env.rules, grid)
    return [*headers, *legend], rows
