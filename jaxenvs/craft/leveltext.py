"""Reader and writer of worlds of Craft as text: a map per floor, the player, items and mobs.

The picture has one character per cell; an empty line separates the floors of the full game. Lines
`legend: T tree` explain the characters. A text with a line `time:` is a state of an episode. Any
other text is a level: maps, and in the full game ladders, effects of potions and a kit.

The lines of a state name the values of `World`, such as `vitals: health 9, food 8`. A value that is
left out equals the value at the start of an episode. A line about mobs, projectiles or ladders may
begin with `floor 3`; the line then describes the stored values of floor 3. A line without `floor`
describes the player's floor. Positions are map rows and columns, counted from 0.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.checks import counted, suggestion
from ..levels import cells
from ..levels.blocks import Block as Text
from ..levels.blocks import Header
from ..levels.errors import LevelError
from .env import CraftEnv
from .floors import FullLevel
from .full_rows import COLOURS, STAIRS
from .ground import BLOCK, DARKEST, ITEM, LIT
from .kits import KITS
from .packing import Field, nested
from .packing import read as value_in
from .state import EARNED_BITS, CraftState, Level, Mob, Plants, Projectile, floor_words, of_floor
from .tables import ROLES, Action, Block, Item, Rules

FORMS = (None,)
SIGNS: dict[int, str] = {
    Block.GRASS: ".", Block.WATER: "~", Block.STONE: "#", Block.TREE: "T", Block.PATH: ",",
    Block.COAL: "c", Block.IRON: "i", Block.DIAMOND: "d", Block.SAND: ":", Block.LAVA: "!",
    Block.PLANT: "p", Block.RIPE_PLANT: "P", Block.CRAFTING_TABLE: "t", Block.FURNACE: "f",
    Block.WALL: "W", Block.DARKNESS: "'",
}  # fmt: skip
# Characters for cells whose block's sign is already taken: printable ASCII, then accented letters.
POOL = tuple(map(chr, (*range(33, 127), *range(192, 256))))
MARKS = {"item": ITEM, "lit": LIT}  # words after the block in a legend of the full game
FACING = {name: int(Action[name.upper()]) for name in ("left", "right", "up", "down")}
STATE_LINES = ("player", "counters", "achievements", "items", "vitals")
FULL_LINES = ("traits", "spells", "charms", "effects", "boss")
THINGS = ("mob", "projectile", "plant")  # names of lines that each describe one slot


def names(env: CraftEnv) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the header names that are allowed once, and those that are allowed repeatedly."""
    if env.rules.is_full:
        once = ("time", *STATE_LINES, *FULL_LINES, "kit")
        return once, ("legend", "light", "floor", "missile", *THINGS)
    return ("time", *STATE_LINES), ("legend", *THINGS)


def read(env: CraftEnv, block: Text, *, strict: bool) -> Any:
    """Return the level or state that a text describes; raise `LevelError` if it is invalid."""
    grid = _grid(env, block)
    light = _light(env, block, grid)
    time = block.get("time")
    if time is None:
        return _level(env, block, grid, light)
    if kit := block.get("kit"):
        raise kit.error("a kit belongs to a level; a state has the lines `items:` and `traits:`")
    steps = cells.integer(time, time.value, 0, 2**31 - 1)
    return _state(env, block, grid, light, steps)


def write(env: CraftEnv, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the text of a level or state: headers as (name, value), and rows of the picture."""
    value = jax.device_get(value)
    if isinstance(value, CraftState):
        grid, headers = np.asarray(value.map), _state_lines(env, value)
    else:
        grid, headers = _level_cells(env, value), _level_lines(env, value)
    floors = grid if grid.ndim == 3 else grid[None]
    signs = _signs(env.rules, np.unique(grid).tolist())
    headers += [("legend", f"{sign} {_name(env.rules, code)}") for code, sign in signs.items()]
    rows: list[str] = []
    for floor in floors.tolist():
        rows += ["".join(signs[code] for code in row) for row in floor] + [""]
    return headers, rows[:-1]


# The following functions convert the cells of the map to characters and back.


def _name(rules: Rules, code: int) -> str:
    """Return the words for a cell, such as `path item lit`; `code` is the byte of the cell."""
    if not rules.is_full:
        return Block(code).name.lower()
    marks = (word for word, bit in MARKS.items() if code & bit)
    return " ".join((Block(code & BLOCK).name.lower(), *marks))


def _code(rules: Rules, header: Header, text: str) -> int:
    """Return the byte of a cell from words: a block, and in the full game also `item` and `lit`."""
    word, *marks = text.split()
    known = {block.name.lower(): int(block) for block in rules.blocks}
    code = cells.named(header, word, known)
    allowed = MARKS if rules.is_full else {}
    for mark in marks:
        if mark not in allowed or code & allowed[mark]:
            after = "`item` and `lit`, once each" if allowed else "nothing"
            raise header.error(f"{mark!r} does not fit here; after the block, write {after}")
        code |= allowed[mark]
    return code


def _signs(rules: Rules, codes: Sequence[int]) -> dict[int, str]:
    """Return a dict from each byte in `codes` to the character that stands for it in the picture.

    The character is the sign of the byte's block. If another byte already has this sign, the
    character is taken from POOL.
    """
    found: dict[int, str] = {}
    blocks = {code: code & BLOCK if rules.is_full else code for code in codes}
    for code, block in blocks.items():
        if block >= len(rules.blocks):
            raise ValueError(f"levels.write: the map has the byte {code}, which is no cell")
        own = SIGNS.get(Block(block), Block(block).name[0])
        # Signs of the other blocks on the map. They are reserved for these blocks, so this byte
        # cannot take them.
        kept = {SIGNS.get(each) for each in blocks.values()} - {own}
        taken = kept | {*found.values()}
        found[code] = next(sign for sign in (own, *POOL) if sign not in taken)
    return found


def _grid(env: CraftEnv, block: Text) -> np.ndarray:
    """Return the bytes of all cells, uint8 (size, size), in the full game (floors, size, size)."""
    known = {}
    for header in block.all("legend"):
        sign, name = header.value[:1], header.value[1:]
        if not name.startswith(" ") or not name.strip():
            raise header.error("write a character and a block, such as `legend: T tree`")
        if sign in known:
            raise header.error(f"the character {sign!r} is already explained; remove a line")
        known[sign] = _code(env.rules, header, name)
    shape = env.state_shape.map.shape
    rows = [(number, row) for number, row in enumerate(block.picture, block.line) if row.strip()]
    wanted = int(np.prod(shape[:-1]))
    if len(rows) != wanted:
        floors = f" ({shape[0]} floors of {shape[1]} rows)" if env.rules.is_full else ""
        raise LevelError(
            f"the picture has {counted(len(rows), 'row')}, expected {wanted}{floors}", block.line
        )
    for number, row in rows:
        if len(row) != shape[-1]:
            raise LevelError(
                f"the row has {counted(len(row), 'character')}, expected {shape[-1]}, one per cell",
                number,
                min(len(row), shape[-1]) + 1,
            )
        explained = "explain it, such as by `legend: T tree`"
        cells.check_characters(row, number, known, explained)
    return np.array([[known[sign] for sign in row] for _, row in rows], np.uint8).reshape(shape)


# Light: lines `light`, which a text has only if pictures depend on the light. A line has two
# hexadecimal digits per cell; `ff*48` stands for 48 cells with the light ff.


def _light_lines(light: np.ndarray) -> Iterator[tuple[str, str]]:
    """Yield one line `light` per floor, as (name, value); `light` is uint8 (floors, size, size)."""
    for floor, row in enumerate(light.reshape(light.shape[0], -1).tolist()):
        runs = [(value, len(list(run))) for value, run in itertools.groupby(row)]
        words = (f"{value:02x}*{count}" if count > 1 else f"{value:02x}" for value, count in runs)
        yield "light", f"floor {floor}, {' '.join(words)}"


def _light(env: CraftEnv, block: Text, grid: np.ndarray) -> np.ndarray | None:
    """Return the light of all cells, 0 to 255 as uint8; None in Classic, whose cells have no light.

    A floor without a line `light` has the value 255 in lit cells and 0 in dark cells.
    """
    if not env.rules.is_full:
        return None
    found = np.where(grid & LIT, 255, 0).astype(np.uint8)
    for header in block.all("light"):
        place, _, text = header.value.partition(",")
        floor = _floor(env, header, place)
        values: list[int] = []
        for word in text.split():
            digits, _, count = word.partition("*")
            if len(digits) != 2 or not set(digits) <= set("0123456789abcdef"):
                raise header.error(f"{word!r} is no light; write two digits 0 to f, such as ff*48")
            values += [int(digits, 16)] * (cells.integer(header, count, 1, 9999) if count else 1)
        if len(values) != found[0].size:
            raise header.error(f"the floor has {found[0].size} cells, the line {len(values)}")
        found[floor] = np.reshape(values, found[0].shape)
    return found


def _floor(env: CraftEnv, header: Header, text: str) -> int:
    """Return the index of the floor that a text such as `floor 3` names."""
    word, _, number = text.strip().partition(" ")
    if word != "floor":
        raise header.error("begin the line with the floor, such as `floor 3,`")
    return cells.integer(header, number, 0, len(env.rules.floors) - 1)


# The following functions read and write levels.


def _lying(stairs: Mapping[str, np.ndarray], grid: np.ndarray) -> np.ndarray:
    """Return the `Item` on each cell: a ladder, a torch or none.

    `grid` says only whether a cell has an item. At the position of a ladder in `stairs`, the item
    is this ladder; at any other position, it is a torch.
    """
    last = grid.shape[0] - 1
    items = np.where(grid & ITEM, int(Item.TORCH), int(Item.NONE)).astype(np.uint8)
    for floor in range(last + 1):
        ways = {"down": (Item.LADDER_DOWN, floor < last), "up": (Item.LADDER_UP, 0 < floor < last)}
        for way, (item, exists) in ways.items():
            row, column = stairs[f"{way}_row"][floor], stairs[f"{way}_column"][floor]
            if exists and items[floor, row, column]:
                items[floor, row, column] = item
    return items


def _stairs(level: FullLevel) -> dict[str, np.ndarray]:
    both = np.concatenate([level.down_ladders, level.up_ladders], axis=1).T
    return dict(zip(STAIRS, both, strict=True))


def _level_cells(env: CraftEnv, level: Any) -> np.ndarray:
    """Return the bytes of a level's cells; raise `ValueError` if no text can describe them."""
    if not env.rules.is_full:
        return np.asarray(level.map)
    marks = np.where(level.items, ITEM, 0) | np.where(np.asarray(level.light) > DARKEST, LIT, 0)
    grid = (np.asarray(level.map) | marks).astype(np.uint8)
    if (_lying(_stairs(level), grid) != level.items).any():
        raise ValueError("levels.write: a ladder lies at no ladder's position of its floor")
    return grid


def _level_lines(env: CraftEnv, level: Any) -> list[tuple[str, str]]:
    if not env.rules.is_full:
        return []
    headers = [("kit", KITS[int(level.kit)].name)] if int(level.kit) else []
    effects = zip(COLOURS, np.asarray(level.potion_mapping).tolist(), strict=True)
    headers.append(("effects", ", ".join(f"{colour} {effect}" for colour, effect in effects)))
    stairs = _stairs(level)
    for floor in range(len(env.rules.floors)):
        values = ", ".join(f"{name} {int(stairs[name][floor])}" for name in STAIRS)
        headers.append(("floor", f"floor {floor}, {values}"))
    light = np.round(np.asarray(level.light) * 255).astype(np.uint8)
    return headers + (list(_light_lines(light)) if env.obs == "pixels" else [])


def _level(env: CraftEnv, block: Text, grid: np.ndarray, light: Any) -> Any:
    allowed = ("legend", *(("kit", "effects", "floor", "light") if env.rules.is_full else ()))
    for header in block.headers:
        if header.name not in allowed and header.name in itertools.chain(*names(env)):
            raise header.error("a level has no such line; a state also has a line `time: 0`")
    if not env.rules.is_full:
        return Level(map=jnp.asarray(grid))
    floors, size = grid.shape[:2]
    values = {name: np.full(floors, size // 2, np.int32) for name in STAIRS}
    fields = {name: Field(name, 6) for name in STAIRS}
    for header in block.all("floor"):
        number, given = _numbered(env, header, fields)
        if number is None:
            raise header.error("begin the line with the floor, such as `floor 3,`")
        for name, value in given.items():
            values[name][number] = value
    kit, effects = block.get("kit"), block.get("effects")
    known = {row.name: number for number, row in enumerate(KITS)}
    potions = _pairs(effects, {colour: Field(colour, 3) for colour in COLOURS}) if effects else {}
    return FullLevel(
        map=jnp.asarray(grid & BLOCK),
        items=jnp.asarray(_lying(values, grid)),
        light=jnp.asarray(light, jnp.float32) / 255,
        down_ladders=jnp.asarray(np.stack([values[name] for name in STAIRS[:2]], axis=1)),
        up_ladders=jnp.asarray(np.stack([values[name] for name in STAIRS[2:]], axis=1)),
        potion_mapping=jnp.asarray(
            [potions.get(colour, number) for number, colour in enumerate(COLOURS)], jnp.int32
        ),
        kit=jnp.int32(cells.named(kit, kit.value, known) if kit else 0),
    )


# The following functions read and write states.


@functools.lru_cache(maxsize=8)
def _start(env: CraftEnv) -> tuple[Any, Any]:
    """Return the state and the `World` at the start of an episode in an empty world, as NumPy."""
    level = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), env.level_shape)
    state = env.reset_state(jax.random.key(0), level, env.default_params)
    return jax.device_get((state, env.world(state)))


def _line(name: str) -> tuple[str, str]:
    """Return the header line that shows a field of `World`, and the field's name in this line.

    For example, `vitals.food` is in the line `vitals` under the name `food`. A name without a dot
    is in the line `player`.
    """
    line, dot, rest = name.partition(".")
    return (line, rest) if dot else ("player", name)


def _by_line(rules: Rules) -> dict[str, dict[str, Field]]:
    """Return the fields of the player by header line: line -> (name in the line -> field)."""
    found: dict[str, dict[str, Field]] = {}
    for field in itertools.chain(*rules.packing.player):
        line, name = _line(field.name)
        found.setdefault(line, {})[name] = field
    return found


def _floor_fields(rules: Rules) -> dict[str, Field]:
    """Return a floor's fields that belong to no mob or projectile, by the last part of the name.

    For example, the name `stairs.down_row` becomes `down_row`.
    """
    return {field.name.split(".")[-1]: field for field in itertools.chain(*rules.packing.floor)}


def _shown(field: Field, value: Any) -> str:
    """Return the text for the value of a field: `yes` or `no`, a direction, or a number."""
    if field.flag:
        return "yes" if value else "no"
    if field.name == "facing":
        return next((name for name, code in FACING.items() if code == int(value)), f"{int(value)}")
    return str(np.float32(value)) if field.real else f"{int(value)}"


def _parsed(header: Header, field: Field, text: str) -> Any:
    """Parse the value of a field from a text; raise `LevelError` if the field cannot store it."""
    if field.flag:
        if text not in ("yes", "no"):
            raise header.error(f"{field.name} is {text!r}; write yes or no")
        return np.bool_(text == "yes")
    if field.real:
        try:
            value = np.float32(text if len(text) < 40 else "long")
        except ValueError:
            value = np.float32(np.nan)
        if not np.isfinite(value):
            raise header.error(f"{field.name} is {text!r}; write a number")
        return value
    if field.name == "facing" and text in FACING:
        return np.int32(FACING[text])
    return np.int32(cells.integer(header, text, field.low, field.low + (1 << field.bits) - 1))


def _pairs(header: Header, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Parse a line `name value, name value`; raise `LevelError` for an unknown or repeated name."""
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in header.value.split(","))):
        name, _, text = part.rpartition(" ")
        if name not in fields:
            near = suggestion(name, fields)
            raise header.error(
                f"unknown value {name or text!r}; known are {', '.join(fields)}{near}"
            )
        if name in found:
            raise header.error(f"{name} is given twice; remove one")
        found[name] = _parsed(header, fields[name], text)
    return found


def _numbered(
    env: CraftEnv, header: Header, fields: Mapping[str, Field]
) -> tuple[int | None, dict[str, Any]]:
    """Parse a line of names and values; return its floor and a dict of all other values.

    The floor is None if the line has no part such as `floor 3`.
    """
    floor = Field("floor", 6)
    found = _pairs(header, {"floor": floor, **fields} if env.rules.is_full else fields)
    if "floor" not in found:
        return None, found
    number = int(found.pop("floor"))
    if number >= len(env.rules.floors):
        raise header.error(f"floor {number}: floors are 0 to {len(env.rules.floors) - 1}")
    return number, found


def _state_lines(env: CraftEnv, state: Any) -> list[tuple[str, str]]:
    """Return the header lines of a state, without the values that equal those at the start."""
    rules, world = env.rules, jax.device_get(env.world(jax.tree.map(jnp.asarray, state)))
    _, start = _start(env)
    headers = [("time", f"{int(state.time)}")]
    for line, fields in _by_line(rules).items():
        values = {name: value_in(world, field.name) for name, field in fields.items()}
        new = [
            f"{name} {_shown(field, values[name])}"
            for name, field in fields.items()
            if values[name] != value_in(start, field.name)
        ]
        headers += [(line, ", ".join(new))] if new else []
    bits = [(int(word) >> bit) & 1 for word in world.earned for bit in range(EARNED_BITS)]
    earned = [a.name.lower() for a, bit in zip(rules.achievements, bits, strict=False) if bit]
    headers += [("achievements", ", ".join(earned))] if earned else []
    plants, empty = world.plants, start.plants
    for slot in range(plants.age.shape[0]):
        one = Plants(*(np.asarray(values)[slot] for values in plants))
        none = Plants(*(np.asarray(values)[slot] for values in empty))
        headers += _thing("plant", {f.name: f for f in rules.packing.plant}, slot, one, none)
    headers += _floor_lines(env, world, start, "")
    if rules.is_full:
        for number, words in enumerate(np.asarray(state.floors)):
            stored = _of_words(env, words)
            headers += _floor_lines(env, stored, start, f"floor {number}, ")
        if state.light.size:
            headers += _light_lines(np.asarray(state.light))
    return headers


def _of_words(env: CraftEnv, words: np.ndarray) -> Any:
    """Return the `World` at the start, with one floor's values replaced by those in `words`."""
    _, start = _start(env)
    values = of_floor(env.rules, env.slots, iter([jnp.asarray(word) for word in words]))
    return start._replace(**jax.device_get(values))


def _floor_lines(env: CraftEnv, world: Any, start: Any, where: str) -> list[tuple[str, str]]:
    """Return the lines about a floor: ladders, mobs, projectiles. Each line begins with `where`."""
    rules, headers = env.rules, []
    new = [
        f"{name} {_shown(field, value_in(world, field.name))}"
        for name, field in _floor_fields(rules).items()
        if value_in(world, field.name) != value_in(start, field.name)
    ]
    headers += [("floor", where + ", ".join(new))] if new else []
    for role in ROLES:
        fields = {"type": Field("type", 6), **{f.name: f for f in rules.mob_fields}}
        types = [row.name for row in rules.types(role)]
        both = zip(world.mobs[role], start.mobs[role], strict=True)
        for slot, (mob, empty) in enumerate(both):
            headers += _thing("mob", fields, slot, mob, empty, types, where)
    shots = [row.name for row in rules.projectiles]
    fields = {"type": Field("type", 6), **{f.name: f for f in rules.projectile_fields}}
    for name in ("projectile", "missile"):
        both = zip(getattr(world, f"{name}s"), getattr(start, f"{name}s"), strict=True)
        for slot, (one, empty) in enumerate(both):
            headers += _thing(name, fields, slot, one, empty, shots, where)
    return headers


def _thing(
    line: str,
    fields: Mapping[str, Field],
    slot: int,
    it: Any,
    empty: Any,
    types: Sequence[str] = (),
    where: str = "",
) -> list[tuple[str, str]]:
    """Return a list with the line about one slot; an empty list if the slot is equal to `empty`."""
    values = {name: getattr(it, name) for name in fields}
    if all(values[name] == getattr(empty, name) for name in fields):
        return []
    words = [f"type {types[int(it.type)]}"] if types else []
    words.append(f"slot {slot}")
    words += [f"{n} {_shown(f, values[n])}" for n, f in fields.items() if n != "type"]
    return [(line, where + ", ".join(words))]


def _state(
    env: CraftEnv, block: Text, grid: np.ndarray, light: np.ndarray | None, time: int
) -> CraftState:
    rules, (begun, start) = env.rules, _start(env)
    values = {}
    for line, fields in _by_line(rules).items():
        header = block.get(line)
        found = _pairs(header, fields) if header else {}
        for name, field in fields.items():
            values[field.name] = found.get(name, value_in(start, field.name))
        if header and line == "player":
            _check_player(env, header, values)
    floors: dict[int | None, Any] = {None: start}
    floors |= dict.fromkeys(range(len(rules.floors)), start)
    floors = {number: _with_things(env, block, world, number) for number, world in floors.items()}
    world = floors.pop(None)._replace(**nested(values), earned=_earned(rules, block, start))
    world = world._replace(plants=_plants(env, block, start.plants))
    more: dict[str, Any] = {}
    if rules.is_full:
        words = [jnp.stack(floor_words(rules, stored)) for _, stored in sorted(floors.items())]
        kept = begun.light if env.obs != "pixels" else light
        more = {"floors": jnp.stack(words), "light": jnp.asarray(kept)}
    world = jax.tree.map(jnp.asarray, world)
    return env.packed(jnp.int32(time), jnp.asarray(grid), world, **more)


def _check_player(env: CraftEnv, header: Header, values: Mapping[str, Any]) -> None:
    """Raise `LevelError` if the player is off the map, faces no direction or is on no floor."""
    size = env.state_shape.map.shape[-1]
    for name in ("row", "column"):
        if values[name] >= size:
            raise header.error(f"{name} {values[name]}: rows and columns are 0 to {size - 1}")
    if values["facing"] not in FACING.values():
        raise header.error(f"facing {values['facing']}: write one of {', '.join(FACING)}")
    if env.rules.is_full and values["floor"] >= len(env.rules.floors):
        raise header.error(f"floor {values['floor']}: floors are 0 to {len(env.rules.floors) - 1}")


def _with_things(env: CraftEnv, block: Text, world: Any, number: int | None) -> Any:
    """Return `world` with the ladders, mobs and projectiles that the lines of one floor give.

    `number` is the index of the floor; None selects the lines without a floor.
    """
    rules, fields = env.rules, _floor_fields(env.rules)
    for header in block.all("floor"):
        where, found = _numbered(env, header, fields)
        if where == number:
            new = {fields[name].name: value for name, value in found.items()}
            old = {f.name: value_in(world, f.name) for f in fields.values()}
            world = world._replace(**nested(old | new))
    mobs = {role: list(world.mobs[role]) for role in ROLES}
    for header in block.all("mob"):
        where, found, role, slot = _of_mob(env, header)
        if where == number:
            mobs[role][slot] = Mob(**{**mobs[role][slot]._asdict(), **found})
    world = world._replace(mobs={role: tuple(slots) for role, slots in mobs.items()})
    for name in ("projectile", "missile") if rules.is_full else ("projectile",):
        slots = list(getattr(world, f"{name}s"))
        for header in block.all(name):
            where, found, slot = _of_projectile(env, header, len(slots))
            if where == number:
                slots[slot] = Projectile(**{**slots[slot]._asdict(), **found})
        world = world._replace(**{f"{name}s": tuple(slots)})
    return world


def _typed(header: Header, types: Sequence[str]) -> tuple[str, Header]:
    """Return the name in a line's part `type NAME`, and the line without this part."""
    parts = [part.strip() for part in header.value.split(",")]
    named = [part for part in parts if part.split(" ")[0] == "type"]
    if len(named) != 1:
        raise header.error(f"write one `type`, such as `type {types[0]}`")
    name = named[0].partition(" ")[2].strip()
    if name not in types:
        known = ", ".join(types)
        raise header.error(f"unknown type {name!r}; known are {known}{suggestion(name, types)}")
    rest = ", ".join(part for part in parts if part != named[0])
    return name, Header(header.name, rest, header.line)


def _slot(header: Header, found: dict[str, Any], count: int) -> int:
    slot = found.pop("slot", None)
    if slot is None or slot >= count:
        raise header.error(f"write the slot, 0 to {count - 1}, such as `slot 0`")
    return int(slot)


def _of_mob(env: CraftEnv, header: Header) -> tuple[int | None, dict[str, Any], str, int]:
    """Parse a line `mob`; return the floor or None, the mob's values, its role and its slot."""
    rules = env.rules
    name, rest = _typed(header, [row.name for row in rules.mobs])
    role = next(row.role for row in rules.mobs if row.name == name)
    fields = {"slot": Field("slot", 6), **{f.name: f for f in rules.mob_fields if f.name != "type"}}
    where, found = _numbered(env, rest, fields)
    slot = _slot(header, found, env.slots.mobs[role])
    found["type"] = np.int32([row.name for row in rules.types(role)].index(name))
    if "marked" not in fields and "alive" in found:
        found["marked"] = found["alive"]
    return where, found, role, slot


def _of_projectile(
    env: CraftEnv, header: Header, count: int
) -> tuple[int | None, dict[str, Any], int]:
    """Parse a line `projectile` or `missile`; return the floor or None, the values and the slot."""
    types = [row.name for row in env.rules.projectiles]
    name, rest = _typed(header, types)
    known = {f.name: f for f in env.rules.projectile_fields if f.name != "type"}
    where, found = _numbered(env, rest, {"slot": Field("slot", 6), **known})
    slot = _slot(header, found, count)
    return where, {**found, "type": np.int32(types.index(name))}, slot


def _plants(env: CraftEnv, block: Text, empty: Plants) -> Plants:
    """Return the plants: the slots at the start of an episode, changed by the lines `plant`."""
    fields = {f.name: f for f in env.rules.packing.plant}
    values = {name: np.array(getattr(empty, name)) for name in fields}
    for header in block.all("plant"):
        found = _pairs(header, {"slot": Field("slot", 6), **fields})
        slot = _slot(header, found, len(values["age"]))
        for name, value in found.items():
            values[name][slot] = value
    return Plants(**values)


def _earned(rules: Rules, block: Text, start: Any) -> tuple[Any, ...]:
    """Return the bit masks of the achievements that the line `achievements` names."""
    masks, header = [0] * len(start.earned), block.get("achievements")
    known = {achievement.name.lower(): int(achievement) for achievement in rules.achievements}
    for name in filter(None, (part.strip() for part in header.value.split(","))) if header else ():
        if name not in known:
            assert header is not None
            raise header.error(f"unknown achievement {name!r}{suggestion(name, known)}")
        word, bit = divmod(known[name], EARNED_BITS)
        masks[word] |= 1 << bit
    return tuple(np.int32(mask) for mask in masks)
