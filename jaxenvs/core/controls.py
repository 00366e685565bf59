"""Controls as data: the keys of each action, and what pointing at the board does.

Keys have pygame's names ("left", "space", "a"); a capital letter is the letter with Shift.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Place = tuple[int, int]  # row, column


class ActionKeys(NamedTuple):
    """One action: its name and its keys, the best one first.

    While a policy plays, arrows and Space move in time, so a letter should be among the keys.
    """

    name: str
    keys: tuple[str, ...] = ()
    does: str = ""  # for the help, where the name does not say it


class Pointing(NamedTuple):
    """How pointing at places on the board, with the mouse or a cursor, becomes actions.

    The board is divided evenly into places, such as the lamps of a board or the pegs of a tower.
    """

    rows: int  # of places
    columns: int
    # The action of (state, place), or None where there is none. With `pair` of (state, from, to),
    # with `writes` of (state, place, digit).
    action: Callable[..., int | None]
    does: str  # for the help
    pair: bool = False  # whether it takes two places
    writes: bool = False  # whether the digits 1 to 9 act at the cursor

    def moved(self, place: Place, down: int, right: int) -> Place:
        """Return the place beside, around the edge."""
        return (place[0] + down) % self.rows, (place[1] + right) % self.columns


class Controls(NamedTuple):
    """What a person can do in an environment."""

    actions: tuple[ActionKeys, ...] = ()  # by their numbers; none where keys cannot play it
    pointing: Pointing | None = None
    # Elements of the action space that they stand for; () where actions are their numbers.
    values: tuple[Any, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the actions."""
        return tuple(row.name for row in self.actions)


SIGNS = {
    "return": "Enter",
    "escape": "Esc",
    "left shift": "Left Shift",
    ",": "Comma",
    ".": "Period",
}
ARROWS = {"up": ("up", "w"), "right": ("right", "d"), "down": ("down", "s"), "left": ("left", "a")}


def keyed(*rows: tuple[str, ...]) -> tuple[ActionKeys, ...]:
    """Return the actions in order, each from its name, its keys ("a, left") and what it does."""
    return tuple(ActionKeys(name, tuple(keys.split(", ")), *does) for name, keys, *does in rows)


def by_name(names: Iterable[str]) -> tuple[ActionKeys, ...]:
    """Arrows and letters for actions named `up`, `right`, `down` or `left`; digits for others."""
    digit = {i: (str(i),) for i in range(10)}
    return tuple(
        ActionKeys(name, ARROWS.get(name, digit.get(i, ()))) for i, name in enumerate(names)
    )


def pointed(names: Iterable[str], pointing: Pointing) -> Controls:
    """Return controls of actions that are places: they have names and no keys."""
    return Controls(tuple(map(ActionKeys, names)), pointing)


def cell_names(rows: int, columns: int) -> tuple[str, ...]:
    """Row and column, from 0, of each cell of a board."""
    return tuple(f"{row},{column}" for row in range(rows) for column in range(columns))


def cells(rows: int, columns: int, does: str) -> Controls:
    """Return controls of actions that are the cells of a board, row by row."""

    def action(state: Any, cell: Place) -> int:
        return cell[0] * columns + cell[1]

    return pointed(cell_names(rows, columns), Pointing(rows, columns, action, does))


def sign(key: str) -> str:
    """What is written on a key; `Shift U` for a capital letter."""
    if len(key) == 1 and key.isupper():
        return f"Shift {key}"
    return SIGNS.get(key, key.capitalize())
