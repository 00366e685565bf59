"""Rulesets: tasks as arrays, in two encodings.

`Ruleset` has the bytes of XLand-MiniGrid 0.9.3. A rule is `[kind, tile, colour, (tile, colour,)
made tile, made colour]` and a goal is `[kind, tile, colour, (tile, colour)]`; unused bytes are 0.
Source of the kinds and the order of bytes: `xminigrid/core/rules.py` and `goals.py`.
`PackedRuleset` has one uint32 for each rule and goal, which `engine.py` can test quickly.
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
    """Kinds of rules: the condition under which tile a (and tile b) turns into another tile."""

    NONE = 0
    HOLD = 1  # the agent carries tile a
    AGENT_NEAR = 2  # tile a is next to the agent
    NEAR = 3  # tile a is next to tile b
    UP = 4  # tile b is above tile a on the grid, whichever way the agent faces
    RIGHT = 5
    DOWN = 6
    LEFT = 7
    AGENT_UP = 8  # tile a is above the agent
    AGENT_RIGHT = 9
    AGENT_DOWN = 10
    AGENT_LEFT = 11


class Goal(IntEnum):
    """Kinds of goals: the condition on tile a, on tiles a and b, or on the agent's position."""

    NONE = 0  # no goal; it is never reached
    HOLD = 1
    ON = 2  # the agent stands on tile a
    AGENT_NEAR = 3
    NEAR = 4
    TILE_AT = 5  # tile a is in the cell (row, column)
    AGENT_AT = 6  # the agent is in the cell (row, column)
    UP = 7  # tile b is above tile a
    RIGHT = 8
    DOWN = 9
    LEFT = 10
    AGENT_UP = 11  # tile a is above the agent
    AGENT_RIGHT = 12
    AGENT_DOWN = 13
    AGENT_LEFT = 14


# Flags in the highest byte of packed rules and goals, for three conditions: tile a is next to the
# agent (`BESIDE_AGENT`), tile b is next to tile a (`BESIDE_TILE`), the agent carries tile a
# (`HELD`). Bits 0 to 3 are the allowed sides (up, right, down, left) of tile b relative to tile a,
# or of tile a relative to the agent. `ON_PUT` is set if both actions `FORWARD` and `PUT` trigger
# a condition `BESIDE_AGENT`, not `FORWARD` alone.
BESIDE_AGENT, BESIDE_TILE, HELD, ON_PUT = 16, 32, 64, 128
ON, TILE_AT, AGENT_AT = 1, 2, 3  # values of the highest byte of packed goals that test one cell
_ALL = 15


def _beside(test: int) -> tuple[int, ...]:
    return tuple(test | 1 << side for side in range(4))


class Form(NamedTuple):
    """Encoding of one kind of rule or goal, and the things that its condition names."""

    tiles: int  # number of tiles in the condition of the rule or goal: 0, 1 or 2
    flags: int  # highest byte of the packed uint32, which encodes the kind of the condition
    place: bool = False  # whether the condition names a row and a column of the grid


_AGENT_SIDES = tuple(Form(1, flags) for flags in _beside(BESIDE_AGENT | ON_PUT))
_TILE_SIDES = tuple(Form(2, flags) for flags in _beside(BESIDE_TILE))
RULES = (  # `Form` of each `Rule`, indexed by the kind
    Form(0, 0),
    Form(1, HELD),
    Form(1, BESIDE_AGENT | _ALL),
    Form(2, BESIDE_TILE | _ALL),
    *_TILE_SIDES,
    *_AGENT_SIDES,
)
GOALS = (  # `Form` of each `Goal`, indexed by the kind
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
    # Rules, in the order in which they apply. Entries of kind 0 are padding.
    rules: UInt8[Any, "*batch rules 7"]
    # (kind, colour) of each object; entries (0, 0) are padding.
    init_tiles: UInt8[Any, "*batch tiles 2"]

    @classmethod
    def of(cls, goal: Any, rules: Any = (), init_tiles: Any = ()) -> "Ruleset":
        """Return a ruleset built from lists of bytes; trailing zeros can be left out.

        Raises `ValueError` if a list is too long or contains a number outside 0 to 255.
        """
        return cls(
            goal=_bytes("the goal", [goal], 5)[0],
            rules=_bytes("a rule", rules, 7),
            init_tiles=_bytes("an initial tile", init_tiles, 2),
        )

    def sized(self, num_rules: int, num_tiles: int) -> "Ruleset":
        """Return the ruleset with exactly `num_rules` rules and `num_tiles` initial tiles.

        Pads with empty rules and tiles, or drops trailing empty ones. Raises `ValueError` if a rule
        or tile to be dropped is not empty or is traced.
        """
        rules = _sized(self.rules, num_rules, "rules", "num_rules")
        init_tiles = _sized(self.init_tiles, num_tiles, "initial tiles", "num_tiles")
        return self.replace(rules=rules, init_tiles=init_tiles)

    def packed(self) -> "PackedRuleset":
        """Return the ruleset in the encoding that `engine.advance` reads.

        Tile kinds and colours above 15 lose their high bits.
        """
        return PackedRuleset(
            goal=_packed_goal(self.goal),
            rules=_packed_rules(self.rules),
            init_tiles=_joined(self.init_tiles, 0).astype(np.uint8),
        )


@struct
class PackedRuleset(Struct):
    """Task in the encoding that `engine.advance` reads: a uint32 for the goal, and one per rule."""

    # Bytes of each uint32, lowest first: tile a, tile b (or row), product (or column), flags.
    # The flags are `BESIDE_AGENT` and the constants after it.
    goal: UInt32[Any, "*batch"]
    rules: UInt32[Any, "*batch rules"]
    # Tile byte of each object; entries 0 are padding.
    init_tiles: UInt8[Any, "*batch tiles"]

    def unpacked(self) -> Ruleset:
        """Return the task in xminigrid's encoding; the inverse of `Ruleset.packed`."""
        return Ruleset(
            goal=_unpacked_goal(self.goal),
            rules=_unpacked_rules(self.rules),
            init_tiles=_split(self.init_tiles.astype(np.uint32)).astype(np.uint8),
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
    """Return jax.numpy for a JAX array, else NumPy, so that NumPy input needs no JAX backend."""
    return jnp if isinstance(array, jax.Array) else np


def _column(forms: tuple[Form, ...], kind: Any, of: str) -> Any:
    """Look up attribute `of` in the `Form` of each kind; kinds that are too large are clipped."""
    column = np.array([getattr(form, of) for form in forms], np.uint32)
    index = kind.clip(0, len(forms) - 1).astype(np.int32)
    return _module(kind).asarray(column)[index]


def _joined(table: Any, at: int) -> Any:
    """Return tile bytes, as uint32, from columns `at` (kind) and `at + 1` (colour) of `table`."""
    columns = table[..., at : at + 2].astype(np.uint32) & np.uint32(15)
    return columns[..., 0] | columns[..., 1] << np.uint32(4)


def _split(code: Any) -> Any:
    """Return pairs (kind, colour) of tile bytes, on a new last axis."""
    return _module(code).stack([code & np.uint32(15), code >> np.uint32(4)], axis=-1)


def word(a: Any, b: Any, c: Any, flags: Any) -> Any:
    """Pack four bytes given as uint32: tile a, tile b or row, product or column, and flags."""
    return a | b << np.uint32(8) | c << np.uint32(16) | flags << np.uint32(24)


def _bytes_of(word: Any) -> list[Any]:
    """Return the four bytes of a packed uint32, lowest first, each as a uint32 array."""
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
    columns = [kind[..., None], *map(_split, (a, second, third))]
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
    second = module.where(at != 0, place, _split(b))
    first = module.where(named > 0, _split(a), second)
    second = module.where((at != 0) & (named == 0), np.uint32(0), second)
    return module.concatenate([kind[..., None], first, second], axis=-1).astype(np.uint8)


def _kind(forms: tuple[Form, ...], flags: Any) -> Any:
    """Return the `Rule` or `Goal` for each value of `flags`, the highest byte of a uint32."""
    kinds = np.zeros(256, np.uint32)
    kinds[[form.flags for form in forms]] = np.arange(len(forms))
    return _module(flags).asarray(kinds)[flags.astype(np.int32)]
