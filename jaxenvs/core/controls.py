"""Controls of a player, as data: the keys of each action, and actions by pointing at the board.

Keys have pygame's names ("left", "space", "a"); a capital letter is the letter with Shift.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Place = tuple[int, int]  # row, column


class ActionKeys(NamedTuple):
    """One action: its name and its keys, the main key first.

    While a policy plays, arrows and Space step through time, so the keys should include a letter.
    """

    name: str
    keys: tuple[str, ...] = ()
    does: str = ""  # description in the help, if the name is not enough


class Pointing(NamedTuple):
    """Map from places on the board, chosen with the mouse or a cursor, to actions.

    The board is divided evenly into places, such as the lamps of a board or the pegs of a tower.
    """

    rows: int  # rows and columns of places
    columns: int
    # Function that returns the action for (state, place), or None if there is none. With `pair` its
    # arguments are (state, from, to), with `writes` (state, place, digit).
    action: Callable[..., int | None]
    does: str  # description in the help
    pair: bool = False  # whether an action takes two places
    writes: bool = False  # whether the digits 1 to 9 act at the cursor

    def moved(self, place: Place, down: int, right: int) -> Place:
        """Return the place this many rows down and columns to the right; edges wrap around."""
        return (place[0] + down) % self.rows, (place[1] + right) % self.columns


class Controls(NamedTuple):
    """Keys and pointing with which a person plays."""

    actions: tuple[ActionKeys, ...] = ()  # keys of each action; empty if keys cannot select actions
    pointing: Pointing | None = None
    # Element of the action space that each of `actions` selects; () if it is the action's index.
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
    """Return actions from rows (name, keys such as "a, left", optional description)."""
    return tuple(ActionKeys(name, tuple(keys.split(", ")), *does) for name, keys, *does in rows)


def by_name(names: Iterable[str]) -> tuple[ActionKeys, ...]:
    """Assign arrows and letters to `up`, `right`, `down` and `left`, and digits to other names."""
    digit = {i: (str(i),) for i in range(10)}
    return tuple(
        ActionKeys(name, ARROWS.get(name, digit.get(i, ()))) for i, name in enumerate(names)
    )


def pointed(names: Iterable[str], pointing: Pointing) -> Controls:
    """Return controls of a game played by pointing: its actions have names but no keys."""
    return Controls(tuple(map(ActionKeys, names)), pointing)


def cell_names(rows: int, columns: int) -> tuple[str, ...]:
    """Return the names "row,column" of a board's cells, both counted from 0."""
    return tuple(f"{row},{column}" for row in range(rows) for column in range(columns))


def cells(rows: int, columns: int, does: str) -> Controls:
    """Return controls for actions that are the cells of a board, row by row."""

    def action(state: Any, cell: Place) -> int:
        return cell[0] * columns + cell[1]

    return pointed(cell_names(rows, columns), Pointing(rows, columns, action, does))


def sign(key: str) -> str:
    """Return the label of a key; `Shift U` for a capital letter."""
    if len(key) == 1 and key.isupper():
        return f"Shift {key}"
    return SIGNS.get(key, key.capitalize())
