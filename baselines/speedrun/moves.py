"""Replay solutions of puzzles in plain Python, independently of jaxenvs' puzzles.

The cube is built from coordinates: x points to the face R, y to U and z to F. A turn rotates the
stickers of one layer in space.
"""

from collections.abc import Sequence

Vector = tuple[int, int, int]

# Direction of each face, in the order of the stickers.
NORMALS: dict[str, Vector] = {
    **{"U": (0, 1, 0), "F": (0, 0, 1), "R": (1, 0, 0)},
    **{"B": (0, 0, -1), "L": (-1, 0, 0), "D": (0, -1, 0)},
}


def _places(size: int) -> list[tuple[Vector, Vector]]:
    """Return (position, direction) of each sticker: faces U F R B L D, rows, columns.

    U is seen with B on top, the sides with U on top, and D with F on top.
    """
    last = size - 1
    found = []
    for face, normal in NORMALS.items():
        for row in range(size):
            for column in range(size):
                right, down = 2 * column - last, 2 * row - last
                place = {
                    "U": (right, last, down),
                    "F": (right, -down, last),
                    "R": (last, -down, -right),
                    "B": (-right, -down, -last),
                    "L": (-last, -down, right),
                    "D": (right, -last, -down),
                }[face]
                found.append((place, normal))
    return found


def _clockwise(face: str, at: Vector) -> Vector:
    """Rotate a vector by a quarter turn clockwise, as seen from outside the face."""
    x, y, z = at
    return {
        "U": (-z, y, x),
        "D": (z, y, -x),
        "R": (x, z, -y),
        "L": (x, -z, y),
        "F": (y, -x, z),
        "B": (-y, x, z),
    }[face]


def turned(stickers: Sequence[int], turn: str, size: int) -> list[int]:
    """Return the stickers of a cube after a turn such as `R` or `R'` (anticlockwise)."""
    face, quarters = turn[0], {"": 1, "2": 2, "'": 3}[turn[1:]]
    places, axis, last = _places(size), NORMALS[turn[0]], size - 1
    number = {place: i for i, place in enumerate(places)}
    found = list(stickers)
    for i, (at, normal) in enumerate(places):
        if sum(a * b for a, b in zip(at, axis, strict=True)) != last:
            continue  # not in the layer of the face
        for _ in range(quarters):
            at, normal = _clockwise(face, at), _clockwise(face, normal)
        found[number[at, normal]] = stickers[i]
    return found


def solves_cube(stickers: Sequence[int], turns: Sequence[str]) -> bool:
    """Return whether the turns give each face of a cube one colour."""
    size = round((len(stickers) / 6) ** 0.5)
    each, board = size * size, list(stickers)
    for turn in turns:
        board = turned(board, turn, size)
    return all(len({*board[i : i + each]}) == 1 for i in range(0, 6 * each, each))


def solves_tiles(numbers: Sequence[int], moves: Sequence[int]) -> bool:
    """Return whether the moves sort a square of tiles, with the blank (0) at the end.

    A move shifts the blank: 0 up, 1 right, 2 down, 3 left. A move out of the square fails.
    """
    size, board = round(len(numbers) ** 0.5), list(numbers)
    for move in moves:
        row, column = divmod(board.index(0), size)
        to_row, to_column = row + (-1, 0, 1, 0)[move], column + (0, 1, 0, -1)[move]
        if not (0 <= to_row < size and 0 <= to_column < size):
            return False
        a, b = row * size + column, to_row * size + to_column
        board[a], board[b] = board[b], board[a]
    return board == [*range(1, size * size), 0]
