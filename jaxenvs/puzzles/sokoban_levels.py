"""Levels of Sokoban: drawn by playing backwards, or read from files as Boxoban's are.

A level is a map of push distances (which also tells walls and targets), boxes and a player.
"""

import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..core.files import read_text
from ..core.random import Key, below, choose, hashed, mix, permutation
from .cells import step_of

DEAD, WALL = 254, 255  # in a map of push distances: a box never comes to a target; a wall
CHARACTERS = " #.$*@+"  # floor, wall, target, box, box on target, player, player on target
PLAYS = 8
LARGEST = 2**28  # bytes of all files: two and a half times all of Boxoban
_FLOOR, _ANCHOR, _TARGETS, _PLAYER, _PULLS = (i << 16 for i in range(1, 6))  # counters of the hash


class Drawn(NamedTuple):
    """A level; cells are numbered row by row."""

    pushes: UInt8[Array, " cells"]  # least pushes of a box to a target, 0 on it; or DEAD, WALL
    boxes: UInt8[Array, " boxes"]  # cells, rising
    player: UInt8[Array, ""]


class Levels(NamedTuple):
    """Levels of a file, in few bytes each."""

    walls: np.ndarray  # uint8 (levels, cells / 8), bits
    targets: np.ndarray  # uint8 (levels, boxes), cells
    boxes: np.ndarray  # uint8 (levels, boxes), cells, rising
    player: np.ndarray  # uint8 (levels,), cell


# Maps.


def push_distances(
    floor: Bool[Array, "size size"], targets: Bool[Array, "size size"]
) -> UInt8[Array, " cells"]:
    """Least pushes of a lone box from each cell to a target, if the player could stand anywhere.

    0 on a target, `DEAD` where no pushes lead to one, `WALL` in walls; the border must be wall.
    """
    far = np.int32(DEAD)

    def nearer(distance: Array) -> Array:
        best = distance
        for turns in range(4):  # a push to the right, seen in each of four rotations
            there, room = (jnp.rot90(x, turns) for x in (distance, floor))
            after = jnp.roll(there, -1, axis=1) + 1
            possible = room & jnp.roll(room, 1, axis=1)
            pushed = jnp.where(possible, after, far)
            best = jnp.minimum(best, jnp.rot90(pushed, -turns))
        return best

    def go_on(pair: tuple[Array, Array]) -> Array:
        return (pair[0] != pair[1]).any()

    start = jnp.where(targets & floor, 0, far)
    pair = jax.lax.while_loop(go_on, lambda p: (p[1], nearer(p[1])), (start, nearer(start)))
    return jnp.where(floor, pair[1], np.int32(WALL)).astype(jnp.uint8).reshape(-1)


def flooded(
    free: UInt32[Array, " rows"], start: UInt32[Array, " rows"], turns: int
) -> UInt32[Array, " rows"]:
    """Cells reached with at most `turns` changes of row; a word for each row of cells."""

    def along(reach: Array) -> Array:
        """Fill each row to the next obstacles: by 1, 2, 4, 8 cells, to both sides."""
        left = right = reach
        room_left = room_right = free
        for width in (1, 2, 4, 8):
            shift = np.uint32(width)
            left = left | (room_left & (left << shift))
            right = right | (room_right & (right >> shift))
            room_left = room_left & (room_left << shift)
            room_right = room_right & (room_right >> shift)
        return left | right

    def grow(_: Array, reach: Array) -> Array:
        around = jnp.pad(along(reach), 1)
        return around[1:-1] | (free & (around[2:] | around[:-2]))

    return along(jax.lax.fori_loop(0, turns, grow, start))


def _to_rows(cells: Bool[Array, "size size"]) -> UInt32[Array, " size"]:
    bits = cells.astype(jnp.uint32) << np.arange(cells.shape[1], dtype=np.uint32)
    return bits.sum(axis=1, dtype=jnp.uint32)


def _to_cells(rows: UInt32[Array, " size"]) -> Bool[Array, " cells"]:
    columns = np.arange(rows.shape[0], dtype=np.uint32)
    return ((rows[:, None] >> columns) & np.uint32(1)).astype(jnp.bool_).reshape(-1)


# The generator.


def draw(key: Key, size: int, boxes: int, pulls: int) -> Drawn:
    """Draw a level that has a solution and is not solved.

    Boxes begin on the targets and are pulled away; the same moves backwards are a solution. There
    is room for the first pull by construction, and no pull may bring the last box back. Of `PLAYS`
    such plays the one that needs the most pushes is taken.
    """
    floor = rooms(key, size, boxes)
    cells = floor.reshape(-1)
    lines = _lines(cells)
    first, player, kept = _anchor(key, lines)
    targets = _targets(key, cells & ~kept, lines.any(axis=0), first, boxes)
    pushes = push_distances(floor, _among(targets, cells.size).reshape(floor.shape))
    rows = _to_rows(floor)

    def play(number: Array) -> tuple[Array, Array]:
        def pull(i: Array, where: tuple[Array, Array]) -> tuple[Array, Array]:
            drawn = hashed(key, _PULLS + number * pulls + i)
            return _pull(drawn, rows, targets, *where)

        return jax.lax.fori_loop(0, pulls, pull, (targets, player))

    placed, players = jax.vmap(play)(jnp.arange(PLAYS, dtype=jnp.int32))
    left = pushes[placed].astype(jnp.int32).sum(axis=1, dtype=jnp.int32)
    best = jnp.argmax(left)
    reach = _to_cells(_reach(rows, placed[best], players[best])[1])
    start = choose(_words(key, _PLAYER, cells.size), reach)
    return Drawn(pushes, rising(placed[best]).astype(jnp.uint8), start.astype(jnp.uint8))


def _words(key: Key, purpose: int, count: int) -> UInt32[Array, " {count}"]:
    """Random words for one purpose."""
    return hashed(key, np.arange(purpose, purpose + count, dtype=np.uint32))


def rising(boxes: Int32[Array, " boxes"]) -> Int32[Array, " boxes"]:
    """Sort different cells."""
    rank = permutation(boxes.astype(jnp.uint32))
    place = np.arange(boxes.shape[0], dtype=np.int32)
    return jnp.where(rank[None, :] == place[:, None], boxes[None, :], 0).sum(
        axis=1, dtype=jnp.int32
    )


def rooms(key: Key, size: int, boxes: int) -> Bool[Array, "{size} {size}"]:
    """Draw the floor: a square room for the boxes, and a random walk from it that widens."""
    inner = size - 2
    side = max(3, int(np.ceil(np.sqrt(boxes + 2))))
    steps = inner * inner * 3 // 4
    drawn = _words(key, _FLOOR, steps + 2)
    corner = below(drawn[:2], inner - side + 1)
    ways = drawn[2:]
    # It continues straight with probability 1/2.
    turns = ((ways >> np.uint32(2)) & np.uint32(1)) != 0
    time = np.arange(steps, dtype=np.int32)
    latest = jax.lax.cummax(jnp.where(turns, time, 0))
    way = (ways & np.uint32(3)).astype(jnp.int32)[latest]
    down, right = step_of(way)
    path = jnp.stack([jnp.cumsum(down, dtype=jnp.int32), jnp.cumsum(right, dtype=jnp.int32)])
    path = _reflected(path + (corner + side // 2)[:, None], inner)
    wide = jnp.stack([(ways >> np.uint32(bit)) & np.uint32(3) == 0 for bit in (4, 6)])
    end = path + wide.astype(jnp.int32)
    line = np.arange(inner, dtype=np.int32)
    on = (line >= path[..., None]) & (line <= end[..., None])  # 2, steps, inner
    walked = (on[0][:, :, None] & on[1][:, None, :]).any(axis=0)
    room = (line >= corner[:, None]) & (line < corner[:, None] + side)
    return jnp.pad(walked | (room[0][:, None] & room[1][None, :]), 1)


def _reflected(position: Array, count: int) -> Array:
    """Fold the whole numbers into 0 .. count - 1: a walk that turns back at both ends."""
    folded = position % (2 * count - 2)
    return jnp.minimum(folded, 2 * count - 2 - folded)


def _lines(cells: Bool[Array, " cells"]) -> Bool[Array, "4 cells"]:
    """Where a box could be pulled in each direction: two more cells of the mask are in a line."""
    return jnp.stack(
        [cells & jnp.roll(cells, -d) & jnp.roll(cells, -2 * d) for d in _deltas(cells)]
    )


def _deltas(cells: Array) -> list[int]:
    """Difference of the cells' numbers in each direction."""
    size = math.isqrt(cells.size)
    return [-size, 1, size, -1]


def _anchor(key: Key, lines: Bool[Array, "4 cells"]) -> tuple[Array, Array, Array]:
    """Choose a cell from which a box can be pulled: (cell, player's cell, the three cells)."""
    count = lines.shape[1]
    index = np.arange(count, dtype=np.int32)
    chosen = choose(_words(key, _ANCHOR, lines.size), lines.reshape(-1))
    delta = jnp.asarray(np.array(_deltas(lines[0]), np.int32))[chosen // count]
    cell = chosen % count
    kept = (index == cell) | (index == cell + delta) | (index == cell + 2 * delta)
    return cell, cell + delta, kept


def _targets(
    key: Key,
    mask: Bool[Array, " cells"],
    better: Bool[Array, " cells"],
    first: Int32[Array, ""],
    boxes: int,
) -> Int32[Array, " {boxes}"]:
    """Choose different cells of the mask besides the first, preferring the better ones."""
    drawn = _words(key, _TARGETS, mask.size) >> np.uint32(1)
    drawn = drawn | (better.astype(jnp.uint32) << np.uint32(31))
    index = np.arange(mask.size, dtype=np.int32)
    place = np.arange(boxes, dtype=np.int32)

    def add(i: Array, chosen: tuple[Array, Array]) -> tuple[Array, Array]:
        targets, mask = chosen
        cell = choose(drawn, mask)
        return jnp.where(place == i, cell, targets), mask & (index != cell)

    targets = jnp.full((boxes,), 0, jnp.int32) + first
    return jax.lax.fori_loop(1, boxes, add, (targets, mask))[0]


def _among(cells: Int32[Array, " count"], size: int) -> Bool[Array, " {size}"]:
    return (np.arange(size, dtype=np.int32)[:, None] == cells).any(axis=1)


def _reach(
    floor: UInt32[Array, " size"], boxes: Int32[Array, " boxes"], player: Int32[Array, ""]
) -> tuple[UInt32[Array, " size"], UInt32[Array, " size"]]:
    """Cells without a box, and those that the player can walk to, a word for each row.

    Some of the farthest may be missing; none is wrong.
    """
    size = floor.shape[0]
    line = np.arange(size, dtype=np.int32)

    def rows(cells: Array) -> Array:
        bits = jnp.uint32(1) << (cells % size).astype(jnp.uint32)
        here = cells // size == line[:, None]
        return jnp.where(here, bits, np.uint32(0)).sum(axis=1, dtype=jnp.uint32)

    free = floor & ~rows(boxes)
    return free, flooded(free, rows(player[None]), turns=size)


def _has(rows: UInt32[Array, " size"], cells: Int32[Array, "*cells"]) -> Bool[Array, "*cells"]:
    """Tell which of the cells are among those given by rows."""
    size = rows.shape[0]
    return ((rows[cells // size] >> (cells % size).astype(jnp.uint32)) & np.uint32(1)) != 0


def _pull(
    word: UInt32[Array, ""],
    floor: UInt32[Array, " size"],
    targets: Int32[Array, " boxes"],
    boxes: Int32[Array, " boxes"],
    player: Int32[Array, ""],
) -> tuple[Array, Array]:
    """Pull a random box that the player can reach, if possible away from where it began and not
    onto another target."""
    size, count = floor.shape[0], boxes.shape[0]
    deltas = np.array([-size, 1, size, -1], np.int32)[:, None]
    free, reach = _reach(floor, boxes, player)
    stand, behind = boxes + deltas, (boxes + 2 * deltas).clip(0, size * size - 1)  # 4, boxes
    before = (boxes[:, None] == targets).any(axis=-1).astype(jnp.int32)
    after = (stand[..., None] == targets).any(axis=-1)
    solves = before.sum(dtype=jnp.int32) - before + after.astype(jnp.int32) == count
    able = (_has(reach, stand) & _has(free, behind) & ~solves).reshape(-1)
    away = _apart(stand, targets, size) > _apart(boxes, targets, size)
    rank = _hashed(word, able.size) >> np.uint32(2)
    rank = rank | (away.reshape(-1).astype(jnp.uint32) << np.uint32(30))
    rank = rank | ((away & ~after).reshape(-1).astype(jnp.uint32) << np.uint32(31))
    chosen = choose(rank, able)
    moves = able.any()
    moved = (np.arange(count, dtype=np.int32) == chosen % count) & moves
    boxes = jnp.where(moved, stand.reshape(-1)[chosen], boxes)
    return boxes, jnp.where(moves, behind.reshape(-1)[chosen], player)


def _apart(a: Array, b: Array, size: int) -> Array:
    """Rows and columns between cells."""
    return abs(a // size - b // size) + abs(a % size - b % size)


def _hashed(word: UInt32[Array, ""], count: int) -> UInt32[Array, " {count}"]:
    """Hash one word to several."""
    return mix(word ^ mix(jnp.arange(1, count + 1, dtype=jnp.uint32)))


# Files.


@functools.lru_cache(maxsize=16)
def read(path: str, size: int, boxes: int) -> Levels:
    """Read the levels of a Boxoban file, or of all `.txt` files of a folder in order of names.

    Lines that begin with `;` and empty lines separate levels. `ValueError` names the wrong line.
    The levels are cached: a file that changes later is not read again.
    """
    place = Path(path).expanduser()
    if not place.exists():
        raise ValueError(f"sokoban: levels={path!r}: there is no such file or folder")
    files = sorted(place.rglob("*.txt")) if place.is_dir() else [place]
    size_of_all = sum(file.stat().st_size for file in files)
    if size_of_all > LARGEST:
        raise ValueError(
            f"sokoban: levels={path!r} has {size_of_all:,} bytes, more than {LARGEST:,}"
        )
    if not files:
        raise ValueError(f"sokoban: levels={path!r}: the folder has no .txt file")
    found = [level for file in files for level in _levels_of(file, size, boxes)]
    if not found:
        raise ValueError(f"sokoban: levels={path!r} has no level")
    walls, targets, placed, players = zip(*found, strict=True)
    bits = np.packbits(np.stack(walls), axis=1, bitorder="little")
    return Levels(bits, np.stack(targets), np.stack(placed), np.array(players, np.uint8))


def at(levels: Levels, number: Int32[Array, ""], size: int) -> Drawn:
    """Unpack a level."""
    index = np.arange(size * size)
    octets = jnp.asarray(levels.walls)[number][index // 8]
    walls = (octets >> (index % 8).astype(np.uint8)) & np.uint8(1)
    targets = _among(jnp.asarray(levels.targets)[number].astype(jnp.int32), size * size)
    shape = (size, size)
    pushes = push_distances((walls == 0).reshape(shape), targets.reshape(shape))
    return Drawn(pushes, jnp.asarray(levels.boxes)[number], jnp.asarray(levels.player)[number])


class Parsed(NamedTuple):
    """A level of a text."""

    walls: np.ndarray  # bool (cells,)
    targets: np.ndarray  # uint8 (boxes,), cells
    boxes: np.ndarray  # uint8 (boxes,), cells, rising
    player: int  # cell


def _levels_of(file: Path, size: int, boxes: int) -> Iterator[Parsed]:
    rows: list[str] = []
    lines = read_text(file, LARGEST, errors="replace").split("\n")
    for number, line in enumerate([*lines, ""], 1):
        line = line.rstrip("\r")
        if line.strip() and not line.startswith(";"):
            rows.append(line)
        elif rows:
            yield parsed(rows, size, boxes, number - len(rows), str(file))
            rows = []


def parsed(rows: list[str], size: int, boxes: int, first: int = 1, file: str = "sokoban") -> Parsed:
    """Read one level, whose first row is line `first`; `ValueError` says what is wrong where."""
    _check_rows(rows, size, first, file)
    shown = np.array([list(row) for row in rows])
    found = {
        what: np.flatnonzero(np.isin(shown, list(marks))).astype(np.uint8)
        for what, marks in (("player", "@+"), ("box", "$*"), ("target", ".*+"))
    }
    for what, count in (("player", 1), ("box", boxes), ("target", boxes)):
        if len(found[what]) != count:
            raise ValueError(
                f"{file}: line {first}: the level has {len(found[what])} cells with a {what}, "
                f"expected {count}"
            )
    walls = (shown == "#").reshape(-1)
    return Parsed(walls, found["target"], found["box"], int(found["player"][0]))


def _check_rows(rows: list[str], size: int, first: int, file: str) -> None:
    """Raise unless this is a square of known characters enclosed by walls."""
    for number, row in enumerate(rows, first):
        if len(row) != size:
            raise ValueError(f"{file}: line {number} has {len(row)} characters, expected {size}")
        if unknown := set(row) - set(CHARACTERS):
            raise ValueError(
                f"{file}: line {number} has {min(unknown)!r}; known are '#' wall, ' ' floor, "
                "'@' player, '$' box, '.' target, '*' box on target, '+' player on target"
            )
    if len(rows) != size:
        raise ValueError(f"{file}: line {first}: the level has {len(rows)} rows, expected {size}")
    for number, row in enumerate(rows, first):
        outer = row if number in (first, first + size - 1) else row[0] + row[-1]
        if set(outer) != {"#"}:
            raise ValueError(f"{file}: line {number}: the border must be wall, '#'")
