"""The controls with which a person plays: keys for actions, and pointing at a board.

Keys have the names of pygame ("left", "space", "a"); a capital letter means this letter with Shift.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Place = tuple[int, int]  # row, column


class ActionKeys(NamedTuple):
    """The name and the keys of one action, the main key first.

    While a policy plays, the arrow keys and Space control the playback and select no actions. An
    action with such a key should therefore also have a letter, which selects it at any time.
    """

    name: str
    keys: tuple[str, ...] = ()
    does: str = ""  # description of the action for the help; "" if the name is enough


class Pointing(NamedTuple):
    """Selection of actions by pointing at the picture of an environment.

    The picture is divided evenly into `rows` times `columns` rectangles, called places. A place
    shows, for example, a lamp of Lights Out or a peg of the Tower of Hanoi. The player selects a
    place with the mouse, or with a cursor that keys move.
    """

    rows: int  # number of rows into which the picture is divided
    columns: int
    # Function of (state, place) that returns the action for a place, or None if the place has no
    # action. If `pair` is set, the arguments are (state, first place, second place). If `writes` is
    # set, they are (state, place, digit).
    action: Callable[..., int | None]
    does: str  # description, for the help, of the actions that the player selects by pointing
    pair: bool = False  # whether the player selects two places, such as a move's origin and target
    writes: bool = False  # whether the keys 1 to 9 write a digit at the place of the cursor

    def moved(self, place: Place, down: int, right: int) -> Place:
        """Return the place that lies `down` rows below and `right` columns to the right of `place`.

        Movement beyond an edge continues at the opposite edge.
        """
        return (place[0] + down) % self.rows, (place[1] + right) % self.columns


class Controls(NamedTuple):
    """The keys and the pointing with which a person plays an environment."""

    # Name and keys of each action, in order; empty if keys cannot select actions.
    actions: tuple[ActionKeys, ...] = ()
    pointing: Pointing | None = None
    # Entry i is the element of the action space that `actions[i]` selects. If the tuple is empty,
    # `actions[i]` selects the Discrete action i.
    values: tuple[Any, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the actions, in order."""
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
    """Return actions from tuples (name, keys, optional description).

    Keys are separated by commas, as in "a, left".
    """
    return tuple(ActionKeys(name, tuple(keys.split(", ")), *does) for name, keys, *does in rows)


def by_name(names: Iterable[str]) -> tuple[ActionKeys, ...]:
    """Return actions with default keys: arrows and letters, or digits.

    Actions called `up`, `right`, `down` and `left` get an arrow key and a letter. Any other action
    gets its index as its key, or no key if the index is above 9.
    """
    digit = {i: (str(i),) for i in range(10)}
    return tuple(
        ActionKeys(name, ARROWS.get(name, digit.get(i, ()))) for i, name in enumerate(names)
    )


def pointed(names: Iterable[str], pointing: Pointing) -> Controls:
    """Return controls for a game that is played by pointing; its actions have no keys."""
    return Controls(tuple(map(ActionKeys, names)), pointing)


def cell_names(rows: int, columns: int) -> tuple[str, ...]:
    """Return the names "row,column" of all cells of a board, such as a Sudoku board.

    The cells are listed row by row; rows and columns are counted from 0.
    """
    return tuple(f"{row},{column}" for row in range(rows) for column in range(columns))


def cells(rows: int, columns: int, does: str) -> Controls:
    """Return controls for a puzzle whose action i selects cell i of the board, row by row."""

    def action(state: Any, cell: Place) -> int:
        return cell[0] * columns + cell[1]

    return pointed(cell_names(rows, columns), Pointing(rows, columns, action, does))


def sign(key: str) -> str:
    """Return a key's label for the help, such as `Enter` for "return" and `Shift U` for "U"."""
    if len(key) == 1 and key.isupper():
        return f"Shift {key}"
    if key.startswith("ctrl "):
        return f"Ctrl+{sign(key.removeprefix('ctrl ')).replace('Shift ', 'Shift+').title()}"
    return SIGNS.get(key, key.capitalize())
