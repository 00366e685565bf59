"""Checks of rulesets: the bytes must encode goals, rules and tiles, and the goal must be possible.

The goal is impossible if one of its objects is neither on the map nor made by a rule.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np
from jax.core import Tracer

from . import tiles
from .rulesets import BESIDE_TILE, GOALS, HELD, RULES, Goal, Rule, Ruleset
from .tiles import Colour, Kind

A_TILE = (
    f"a tile is a kind from 1 to {max(Kind)} and a colour from 1 to {max(Colour)}, such as (3, 1) "
    "for a red ball"
)
_SHAPES = {"goal": (5,), "rules": (None, 7), "init_tiles": (None, 2)}


class _Named(NamedTuple):
    """A field of the goal or of a rule that names a tile, such as the second tile of rule 3.

    The arrays have the values of this field in all rulesets of a batch.
    """

    what: str  # name, in error messages, of the goal or rule: `its goal`, `rule 3`
    role: str  # name, in error messages, of the field: `its second tile`, `its product`
    pair: np.ndarray  # (kind, colour) in the field of each ruleset, uint8 (rulesets, 2)
    # bool (rulesets,): whether the field is used. A goal or rule about one tile has no second tile.
    where: np.ndarray


def check(ruleset: Ruleset, size: int) -> None:
    """Raise `ValueError` if a ruleset, or one in a batch, cannot be played on a grid of this size.

    The first byte of a goal or rule must be a value of `Goal` or `Rule`, and each tile that it
    names must exist. Each tile of the goal must be on the map at the start or be made by a rule.
    Raises `TypeError` for wrong shapes or dtypes. Of traced arrays, only shapes and dtypes are
    checked.
    """
    _check_shapes(ruleset)
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(ruleset)):
        return
    goal, rules, init_tiles = (
        np.asarray(array).reshape(-1, *np.shape(array)[-len(shape) :])
        for array, shape in ((getattr(ruleset, name), shape) for name, shape in _SHAPES.items())
    )
    _check_kinds("its goal", goal[:, 0], GOALS, Goal)
    for number in range(rules.shape[1]):
        _check_kinds(f"rule {number}", rules[:, number, 0], RULES, Rule)
    for named in (*_named(goal, rules), *_laid(init_tiles)):
        _check_tiles(named)
    _check_place(goal, size)
    _check_goal(goal, rules, init_tiles)


def _check_shapes(ruleset: Ruleset) -> None:
    batch = np.shape(ruleset.goal)[:-1]
    for name, shape in _SHAPES.items():
        array = getattr(ruleset, name)
        given, dtype = np.shape(array), getattr(array, "dtype", None)
        wanted = (*batch, *shape)
        fits = len(given) == len(wanted) and all(
            b in (None, a) for a, b in zip(given, wanted, strict=True)
        )
        if not fits or dtype != np.uint8:
            text = str((*batch, *("n" if size is None else size for size in shape))).replace(
                "'", ""
            )
            raise TypeError(
                f"Ruleset: {name} must be an array uint8{text}, got {dtype}{given}; "
                "Ruleset.of makes one of lists"
            )


def _check_kinds(what: str, kind: np.ndarray, forms: tuple[Any, ...], names: Any) -> None:
    wrong = kind >= len(forms)
    if wrong.any():
        known = ", ".join(f"{k.value} {k.name}" for k in names)
        _refuse(wrong, f"{what} has the kind {kind[wrong.argmax()]}, which does not exist: {known}")


def _named(goal: np.ndarray, rules: np.ndarray) -> Iterator[_Named]:
    """Yield each field of goals and rules that names a tile, with its values in the whole batch."""
    count = np.array([form.tiles for form in GOALS])[goal[:, 0]]
    yield _Named("its goal", "its tile", goal[:, 1:3], count >= 1)
    yield _Named("its goal", "its second tile", goal[:, 3:5], count >= 2)
    counts = np.array([form.tiles for form in RULES])[rules[..., 0]]
    for number in range(rules.shape[1]):
        rule, count = rules[:, number], counts[:, number]
        yield _Named(f"rule {number}", "its tile", rule[:, 1:3], count >= 1)
        yield _Named(f"rule {number}", "its second tile", rule[:, 3:5], count == 2)
        yield _Named(f"rule {number}", "its product", rule[:, 3:5], count == 1)
        yield _Named(f"rule {number}", "its product", rule[:, 5:7], count == 2)


def _laid(init_tiles: np.ndarray) -> Iterator[_Named]:
    for number in range(init_tiles.shape[1]):
        pair = init_tiles[:, number]
        yield _Named(f"initial tile {number}", "it", pair, (pair != 0).any(axis=-1))


def _check_tiles(named: _Named) -> None:
    kind, colour = named.pair.T
    known = (kind >= 1) & (kind <= max(Kind)) & (colour >= 1) & (colour <= max(Colour))
    wrong = named.where & ~known
    if wrong.any():
        kind, colour = named.pair[wrong.argmax()].tolist()
        said = "is" if named.role == "it" else f"names no tile: {named.role} is"
        _refuse(wrong, f"{named.what} {said} ({kind}, {colour}); {A_TILE}")


def _check_place(goal: np.ndarray, size: int) -> None:
    for kind, place in ((Goal.TILE_AT, goal[:, 3:5]), (Goal.AGENT_AT, goal[:, 1:3])):
        wrong = (goal[:, 0] == kind) & (place >= size).any(axis=-1)
        if wrong.any():
            row, column = place[wrong.argmax()].tolist()
            _refuse(
                wrong,
                f"its goal is about row {row}, column {column}; rows and columns of this "
                f"environment are 0 to {size - 1}",
            )


def _check_goal(goal: np.ndarray, rules: np.ndarray, init_tiles: np.ndarray) -> None:
    """Raise `ValueError` unless each tile of the goal is on the map or made by a rule.

    A goal `HOLD` must name a tile that the agent can carry, a goal `ON` one that it can stand on.
    """
    flags = np.array([form.flags for form in RULES])[rules[..., 0]]
    pair = (flags & BESIDE_TILE) != 0
    product = np.where(pair[..., None], rules[..., 5:7], rules[..., 3:5])
    made = np.where(flags > 0, tiles.decode(product), 0)
    lying = tiles.decode(init_tiles)
    kind, count = goal[:, 0], np.array([form.tiles for form in GOALS])[goal[:, 0]]
    for number, columns in enumerate((slice(1, 3), slice(3, 5))):
        tile = tiles.decode(goal[:, columns])[:, None]
        lies = (lying == tile).any(axis=1) | _in_layouts(tile[:, 0])
        found = lies | (made == tile).any(axis=1)
        _check_found((count > number) & ~found, tile, "is neither on the map nor made by a rule")
        if number == 0:
            become = ((made == tile) & (flags == HELD)).any(axis=1)
            held = _is_any(tile[:, 0], tiles.THINGS) | become
            _check_found((kind == Goal.HOLD) & ~held, tile, "cannot be picked up")
            beneath = _is_any(tile[:, 0], tiles.WALKABLE) | ((made == tile) & pair).any(axis=1)
            _check_found((kind == Goal.ON) & ~beneath, tile, "cannot be stood on")


def _is_any(code: np.ndarray, kinds: tuple[Kind, ...]) -> np.ndarray:
    return np.isin(code & 15, kinds)


def _in_layouts(code: np.ndarray) -> np.ndarray:
    """Return a mask of the tiles that layouts contain: floor, wall, or a closed or open door."""
    door = _is_any(code, (Kind.CLOSED_DOOR, Kind.OPEN_DOOR)) & np.isin(
        code >> 4, tiles.DOOR_COLOURS
    )
    return (code == tiles.FLOOR) | (code == tiles.WALL) | door


def _check_found(wrong: np.ndarray, tile: np.ndarray, why: str) -> None:
    if wrong.any():
        name = tiles.name(int(tile[wrong.argmax(), 0]))
        _refuse(wrong, f"its goal cannot be reached: a {name} {why}")


def _refuse(wrong: np.ndarray, text: str) -> NoReturn:
    """Raise `ValueError` about the first ruleset for which `wrong` is True.

    For a batch, the message has the ruleset's index.
    """
    which = f"ruleset {wrong.argmax()}" if wrong.size > 1 else "the ruleset"
    raise ValueError(f"{which}: {text}")
