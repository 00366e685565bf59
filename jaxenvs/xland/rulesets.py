"""Rulesets: tasks as data, in XLand-MiniGrid 0.9.3's bytes or in the uint32 that steps read.

A rule is `[kind, tile, colour, (tile, colour,) made tile, made colour]`, a goal `[kind, tile,
colour, (tile, colour)]`; unused bytes are 0. Source of the kinds and the order of bytes:
`xminigrid/core/rules.py` and `goals.py`.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import UInt8, UInt32

from ..core.struct import Struct, struct


class Rule(IntEnum):
    """Kinds of rules: the condition on tiles a and b under which they turn into another tile."""

    NONE = 0
    HOLD = 1  # the agent carries a
    AGENT_NEAR = 2  # a next to the agent
    NEAR = 3  # a next to b
    UP = 4  # b above a; sides are sides of the grid, not of the agent
    RIGHT = 5
    DOWN = 6
    LEFT = 7
    AGENT_UP = 8  # a above the agent
    AGENT_RIGHT = 9
    AGENT_DOWN = 10
    AGENT_LEFT = 11


class Goal(IntEnum):
    """Kinds of goals: the condition on tiles a and b, or on the agent."""

    NONE = 0  # never reached
    HOLD = 1
    ON = 2  # the agent stands on a
    AGENT_NEAR = 3
    NEAR = 4
    TILE_AT = 5  # a is in the cell (row, column)
    AGENT_AT = 6  # the agent is in the cell (row, column)
    UP = 7  # b above a
    RIGHT = 8
    DOWN = 9
    LEFT = 10
    AGENT_UP = 11  # a above the agent
    AGENT_RIGHT = 12
    AGENT_DOWN = 13
    AGENT_LEFT = 14


# Flags in the highest byte of packed rules and goals. Bits 0 to 3 are the sides (up, right, down,
# left) on which the other tile may be.
BESIDE_AGENT, BESIDE_TILE, HELD, ON_PUT = 16, 32, 64, 128  # ON_PUT: `put down` triggers it, too
ON, TILE_AT, AGENT_AT = 1, 2, 3  # highest byte of goals that test one cell
_ALL = 15


def _beside(test: int) -> tuple[int, ...]:
    return tuple(test | 1 << side for side in range(4))


class Form(NamedTuple):
    """Encoding of a kind of rule or goal."""

    tiles: int  # number of tiles that the kind names, without the product
    flags: int  # highest byte of the packed uint32
    place: bool = False  # whether the kind names a row and a column


_AGENT_SIDES = tuple(Form(1, flags) for flags in _beside(BESIDE_AGENT | ON_PUT))
_TILE_SIDES = tuple(Form(2, flags) for flags in _beside(BESIDE_TILE))
RULES = (  # form of each `Rule`
    Form(0, 0),
    Form(1, HELD),
    Form(1, BESIDE_AGENT | _ALL),
    Form(2, BESIDE_TILE | _ALL),
    *_TILE_SIDES,
    *_AGENT_SIDES,
)
GOALS = (  # form of each `Goal`
    Form(0, 0),
    Form(1, HELD),
    Form(1, ON),
    Form(1, BESIDE_AGENT | _ALL),
    Form(2, BESIDE_TILE | _ALL),
    Form(1, TILE_AT, place=True),
    Form(0, AGENT_AT, place=True),
    *_TILE_SIDES,
    *_AGENT_SIDES,
)


@struct
class Ruleset(Struct):
    """Task: a goal, rules, and the objects on the map at the start."""

    goal: UInt8[Any, "*batch 5"]
    rules: UInt8[Any, "*batch rules 7"]  # rules in the order in which they apply; 0: none
    init_tiles: UInt8[Any, "*batch tiles 2"]  # (tile, colour); (0, 0) for none

    @classmethod
    def of(cls, goal: Any, rules: Any = (), init_tiles: Any = ()) -> "Ruleset":
        """Build a ruleset from lists; trailing zeros can be left out.

        Raises `ValueError` if a list is too long or a number is not a byte.
        """
        return cls(
            goal=_bytes("the goal", [goal], 5)[0],
            rules=_bytes("a rule", rules, 7),
            init_tiles=_bytes("an initial tile", init_tiles, 2),
        )

    def sized(self, num_rules: int, num_tiles: int) -> "Ruleset":
        """Pad with empty rules and tiles, or drop trailing empty ones.

        Raises `ValueError` if more are in use; for traced arrays, every entry counts as used.
        """
        rules = _sized(self.rules, num_rules, "rules", "num_rules")
        init_tiles = _sized(self.init_tiles, num_tiles, "initial tiles", "num_tiles")
        return self.replace(rules=rules, init_tiles=init_tiles)

    def packed(self) -> "PackedRuleset":
        """Return the task in the form that steps read.

        Tiles and colours above 15 lose their high bits.
        """
        return PackedRuleset(
            goal=_packed_goal(self.goal),
            rules=_packed_rules(self.rules),
            init_tiles=_joined(self.init_tiles, 0).astype(np.uint8),
        )


@struct
class PackedRuleset(Struct):
    """Task in the form that steps read: one uint32 for the goal and one for each rule."""

    # From the lowest byte: tile a, tile b (or row), product (or column), flags (`BESIDE_AGENT` to
    # `AGENT_AT`).
    goal: UInt32[Any, "*batch"]
    rules: UInt32[Any, "*batch rules"]
    init_tiles: UInt8[Any, "*batch tiles"]  # tile bytes; 0 for none

    def unpacked(self) -> Ruleset:
        """Return the task in xminigrid's bytes; unused bytes are 0."""
        return Ruleset(
            goal=_unpacked_goal(self.goal),
            rules=_unpacked_rules(self.rules),
            init_tiles=_parted(self.init_tiles.astype(np.uint32)).astype(np.uint8),
        )


def _bytes(what: str, rows: Any, width: int) -> np.ndarray:
    table = np.zeros((max(1, len(rows)), width), np.uint8)
    for row, values in zip(table, rows, strict=False):
        numbers = [int(value) for value in values]
        if len(numbers) > width or not all(0 <= number < 256 for number in numbers):
            raise ValueError(f"Ruleset: {what} has up to {width} bytes, got {numbers}")
        row[: len(numbers)] = numbers
    return table


def _sized(table: Any, rows: int, what: str, field: str) -> Any:
    count, traced = table.shape[-2], isinstance(table, Tracer)
    if count > rows and not traced:
        used = np.asarray(table).any(axis=-1).reshape(-1, count).any(axis=0)
        count = int(np.flatnonzero(used).max(initial=-1)) + 1
    if count > rows:
        raise ValueError(
            f"the ruleset has {count} {what}, this environment holds {rows}; make it with "
            f"{field}={count}"
        )
    missing = max(0, rows - table.shape[-2])
    return _module(table).pad(
        table[..., :rows, :], [(0, 0)] * (table.ndim - 2) + [(0, missing), (0, 0)]
    )


def _module(array: Any) -> Any:
    """Return NumPy for NumPy arrays, so that tables need no JAX backend, else jax.numpy."""
    return jnp if isinstance(array, jax.Array) else np


def _column(forms: tuple[Form, ...], kind: Any, of: str) -> Any:
    """Return attribute `of` of each kind's form; a kind that is too large counts as the last."""
    column = np.array([getattr(form, of) for form in forms], np.uint32)
    index = kind.clip(0, len(forms) - 1).astype(np.int32)
    return _module(kind).asarray(column)[index]


def _joined(table: Any, at: int) -> Any:
    """Join columns `at` (kind) and `at + 1` (colour) to tile bytes as uint32."""
    columns = table[..., at : at + 2].astype(np.uint32) & np.uint32(15)
    return columns[..., 0] | columns[..., 1] << np.uint32(4)


def _parted(code: Any) -> Any:
    """Split tile bytes into (kind, colour) on a new last axis."""
    return _module(code).stack([code & np.uint32(15), code >> np.uint32(4)], axis=-1)


def word(a: Any, b: Any, c: Any, flags: Any) -> Any:
    """Pack tile a, tile b (or row), product (or column) and flags, all uint32, into one uint32."""
    return a | b << np.uint32(8) | c << np.uint32(16) | flags << np.uint32(24)


def _bytes_of(word: Any) -> list[Any]:
    """Return the four bytes that `word` packed, as uint32."""
    return [word >> np.uint32(shift) & np.uint32(255) for shift in (0, 8, 16, 24)]


def _packed_rules(rules: Any) -> Any:
    kind, where = rules[..., 0], _module(rules).where
    pair = _column(RULES, kind, "tiles") == 2
    a, second, third = (_joined(rules, at) for at in (1, 3, 5))
    b, made = where(pair, second, np.uint32(0)), where(pair, third, second)
    return where(kind == 0, np.uint32(0), word(a, b, made, _column(RULES, kind, "flags")))


def _unpacked_rules(word: Any) -> Any:
    module = _module(word)
    a, b, made, flags = _bytes_of(word)
    kind = _kind(RULES, flags)
    pair = _column(RULES, kind, "tiles") == 2
    second, third = module.where(pair, b, made), module.where(pair, made, np.uint32(0))
    columns = [kind[..., None], *map(_parted, (a, second, third))]
    return module.concatenate(columns, axis=-1).astype(np.uint8)


def _packed_goal(goal: Any) -> Any:
    where, kind, raw = _module(goal).where, goal[..., 0], goal.astype(np.uint32)
    flags, named, at = (_column(GOALS, kind, name) for name in ("flags", "tiles", "place"))
    a = where(named > 0, _joined(goal, 1), np.uint32(0))
    b = where(named > 1, _joined(goal, 3), np.uint32(0))
    row, column = (where(named > 0, raw[..., 3 + i], raw[..., 1 + i]) for i in (0, 1))
    nothing = np.uint32(0)
    return word(a, where(at != 0, row, b), where(at != 0, column, nothing), flags)


def _unpacked_goal(word: Any) -> Any:
    module = _module(word)
    a, b, column, flags = _bytes_of(word)
    kind = _kind(GOALS, flags)
    place = module.stack([b, column], axis=-1)
    at, named = (_column(GOALS, kind, name)[..., None] for name in ("place", "tiles"))
    second = module.where(at != 0, place, _parted(b))
    first = module.where(named > 0, _parted(a), second)
    second = module.where((at != 0) & (named == 0), np.uint32(0), second)
    return module.concatenate([kind[..., None], first, second], axis=-1).astype(np.uint8)


def _kind(forms: tuple[Form, ...], flags: Any) -> Any:
    """Return the kinds (`Rule` or `Goal`) whose flags these are; the inverse of `_column`."""
    kinds = np.zeros(256, np.uint32)
    kinds[[form.flags for form in forms]] = np.arange(len(forms))
    return _module(flags).asarray(kinds)[flags.astype(np.int32)]
