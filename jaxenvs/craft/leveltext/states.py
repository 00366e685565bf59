"""States in a Craft text: time, player, items, mobs, projectiles, plants and ladders."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...levels import cells
from ...levels.blocks import Block as Text
from ..env import CraftEnv
from ..full_rows import SIZE
from ..packing import Field, nested
from ..packing import read as value_in
from ..state import EARNED_BITS, CraftState, Mob, Plants, Projectile, floor_words, of_floor
from ..tables import ROLES, Rules
from . import picture, values

THINGS = ("mob", "projectile", "missile")  # names of lines that describe one slot of a floor
SLOT = Field("slot", 6)  # index of a slot in its line; `_slot` checks its range


def names(rules: Rules) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a state's lines: those that occur once, and those that may repeat."""
    full = ("floor", "light", "missile") if rules.is_full else ()
    return ("achievements", *_of_player(rules)), ("mob", "projectile", "plant", *full)


def _of_player(rules: Rules) -> dict[str, dict[str, Field]]:
    """Return the fields of the player by line: name of the line -> (name in the line -> field).

    For example, the field `vitals.food` is in the line `vitals` under the name `food`. A field
    without a dot in its name is in the line `player`.
    """
    found: dict[str, dict[str, Field]] = {}
    for field in itertools.chain(*rules.packing.player):
        line, dot, name = field.name.partition(".")
        found.setdefault(line if dot else "player", {})[name or field.name] = field
    return found


def _of_floor(rules: Rules) -> dict[str, Field]:
    """Return a floor's fields that belong to no mob or projectile, by the last part of the name.

    For example, the name `stairs.down_row` becomes `down_row`.
    """
    return {field.name.split(".")[-1]: field for field in itertools.chain(*rules.packing.floor)}


@functools.lru_cache(maxsize=8)
def _start(env: CraftEnv) -> tuple[Any, Any]:
    """Return state and `World` at the start of an episode on an empty map, as NumPy arrays."""
    level = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), env.level_shape)
    state = env.reset_state(jax.random.key(0), level, env.default_params)
    return jax.device_get((state, env.world(state)))


# The following functions write states.


def lines(env: CraftEnv, state: Any) -> list[tuple[str, str]]:
    """Return the lines of a state, as (name, value).

    Values and slots that equal those at the start of an episode are left out.
    """
    rules, world = env.rules, jax.device_get(env.world(jax.tree.map(jnp.asarray, state)))
    _, start = _start(env)
    headers = [("time", f"{int(state.time)}")]
    for line, fields in _of_player(rules).items():
        headers += _line(line, _changed(fields, world, start))
    bits = [(int(word) >> bit) & 1 for word in world.earned for bit in range(EARNED_BITS)]
    earned = [a.name.lower() for a, bit in zip(rules.achievements, bits, strict=False) if bit]
    headers += _line("achievements", earned)
    fields = {field.name: field for field in rules.packing.plant}
    headers += _slots("plant", fields, _rows(world.plants), _rows(start.plants))
    headers += _floor_lines(env, world, start, ())
    if rules.is_full:
        for number, words in enumerate(np.asarray(state.floors)):
            packed = iter([jnp.asarray(word) for word in words])
            stored = jax.device_get(of_floor(rules, env.slots, packed))
            headers += _floor_lines(env, start._replace(**stored), start, (f"floor {number}",))
        if state.light.size:
            headers += picture.light_lines(np.asarray(state.light))
    return headers


def _line(name: str, parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return a list with one line of comma-separated parts; an empty list if there are no parts."""
    return [(name, ", ".join(parts))] if parts else []


def _changed(fields: Mapping[str, Field], it: Any, start: Any) -> list[str]:
    """Return the texts, such as `food 8`, of the fields whose values differ in `it` and `start`."""
    both = {name: (value_in(it, f.name), value_in(start, f.name)) for name, f in fields.items()}
    return [
        values.shown(name, fields[name], value)
        for name, (value, old) in both.items()
        if not values.same(value, old)
    ]


def _rows(plants: Plants) -> list[Plants]:
    """Split a `Plants` of arrays over slots into a list with one `Plants` of scalars per slot."""
    return [Plants(*row) for row in zip(*(np.asarray(column) for column in plants), strict=True)]


def _floor_lines(
    env: CraftEnv, world: Any, start: Any, where: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the lines about a floor: ladders, mobs, projectiles. Each line begins with `where`."""
    rules, new = env.rules, _changed(_of_floor(env.rules), world, start)
    headers = _line("floor", [*where, *new] if new else [])
    fields = {field.name: field for field in rules.mob_fields}
    for role in ROLES:
        types = [row.name for row in rules.types(role)]
        headers += _slots("mob", fields, world.mobs[role], start.mobs[role], types, where)
    fields = {field.name: field for field in rules.projectile_fields}
    types = [row.name for row in rules.projectiles]
    headers += _slots("projectile", fields, world.projectiles, start.projectiles, types, where)
    return headers + _slots("missile", fields, world.missiles, start.missiles, types, where)


def _slots(
    line: str,
    fields: Mapping[str, Field],
    slots: Sequence[Any],
    empty: Sequence[Any],
    types: Sequence[str] = (),
    where: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """Return a line for each slot that differs from the same slot at the start of an episode.

    `empty` has the slots at the start.
    """
    headers = []
    for number, (it, old) in enumerate(zip(slots, empty, strict=True)):
        if _changed(fields, it, old):
            named = [f"type {_type(line, types, int(it.type))}"] if types else []
            rest = [
                values.shown(name, field, getattr(it, name))
                for name, field in fields.items()
                if name != "type"
            ]
            headers += _line(line, [*where, *named, f"slot {number}", *rest])
    return headers


def _type(line: str, types: Sequence[str], index: int) -> str:
    """Return `types[index]`; raise `ValueError` if there is no such type."""
    if index >= len(types):
        raise ValueError(f"levels.write: a {line} has the type {index}, which does not exist")
    return types[index]


# The following functions read states.


def state(
    env: CraftEnv, block: Text, grid: np.ndarray, light: np.ndarray | None, time: int
) -> CraftState:
    """Return the state that a text with the line `time` describes.

    `grid` has the bytes of all cells, `light` their light (None in Classic). `time` is the number
    in the line `time`.
    """
    rules, (begun, start) = env.rules, _start(env)
    player: dict[str, Any] = {}
    for line, fields in _of_player(rules).items():
        header = block.get(line)
        found = values.pairs((header, values.listed(header)), fields) if header else {}
        if header:
            values.check_on_map(header, found, grid.shape[-1])
            if "floor" in found and found["floor"] > rules.last_floor:
                raise header.error(f"floor {found['floor']}: floors are 0 to {rules.last_floor}")
        for name, field in fields.items():
            player[field.name] = found.get(name, value_in(start, field.name))
    about = {name: values.by_floor(rules, block.all(name)) for name in THINGS}
    facts = values.each_floor(rules, block.all("floor"))
    about["floor"] = {number: [line] for number, line in facts.items()}
    floors = [_with_things(env, start, about, number) for number in range(len(rules.floors))]
    world = _with_things(env, start, about, None)._replace(
        **nested(player), earned=_earned(rules, block, start), plants=_plants(env, block, start)
    )
    more: dict[str, Any] = {}
    if rules.is_full:
        kept = light if env.obs == "pixels" else begun.light
        words = jnp.stack([jnp.stack(floor_words(rules, floor)) for floor in floors])
        more = {"floors": words, "light": jnp.asarray(kept)}
    world = jax.tree.map(jnp.asarray, world)
    return env.packed(jnp.int32(time), jnp.asarray(grid), world, **more)


def _with_things(
    env: CraftEnv,
    world: Any,
    about: Mapping[str, Mapping[int | None, Sequence[values.Line]]],
    number: int | None,
) -> Any:
    """Return `world` with the ladders, mobs and projectiles that the lines of one floor give.

    `about` has the lines by name and floor. `number` is the index of the floor; None selects the
    lines without a floor.
    """
    rules, fields = env.rules, _of_floor(env.rules)
    lines = {name: grouped.get(number, ()) for name, grouped in about.items()}
    new = {field.name: value_in(world, field.name) for field in fields.values()}
    for line in lines["floor"]:
        found = values.pairs(line, fields)
        values.check_on_map(line[0], found, SIZE)
        new |= {fields[name].name: value for name, value in found.items()}
    mobs = {role: list(slots) for role, slots in world.mobs.items()}
    given: set[tuple[str, int]] = set()
    for line in lines["mob"]:
        row, rest = _typed(line, rules.mobs)
        index, found = _slot(rest, rules.mob_fields, len(mobs[row.role]), row.role, given)
        found["type"] = np.int32(rules.types(row.role).index(row))
        if "alive" in found:  # a living mob occupies its cell unless the line says `marked no`
            found = {"marked": found["alive"], **found}
        mobs[row.role][index] = Mob(**{**mobs[row.role][index]._asdict(), **found})
    flying = {}
    for name in ("projectile", "missile"):
        slots = list(getattr(world, f"{name}s"))
        for line in lines[name]:
            row, rest = _typed(line, rules.projectiles)
            index, found = _slot(rest, rules.projectile_fields, len(slots), name, given)
            found["type"] = np.int32(rules.projectiles.index(row))
            slots[index] = Projectile(**{**slots[index]._asdict(), **found})
        flying[f"{name}s"] = tuple(slots)
    mobs = {role: tuple(slots) for role, slots in mobs.items()}
    return world._replace(**nested(new), mobs=mobs, **flying)


def _typed(line: values.Line, rows: Sequence[Any]) -> tuple[Any, values.Line]:
    """Return the row whose name is in a line's part `type NAME`, and the line without this part."""
    (header, parts), known = line, [row.name for row in rows]
    named = [part for part in parts if part.split()[0] == "type"]
    if len(named) != 1:
        raise header.error(f"write one `type`, such as `type {known[0]}`")
    indices = {name: index for index, name in enumerate(known)}
    name = named[0].removeprefix("type").strip()
    row = rows[cells.named(header, name, indices, header.name)]
    return row, (header, [part for part in parts if part != named[0]])


def _slot(
    line: values.Line, fields: Sequence[Field], count: int, kind: str, given: set[tuple[str, int]]
) -> tuple[int, dict[str, Any]]:
    """Parse the values of a slot; return its index, 0 to `count` - 1, and the other values.

    `given` has the slots of earlier lines, as (kind, index). This function adds the slot to it, and
    raises `LevelError` if an earlier line has the same slot.
    """
    header, _ = line
    named = {field.name: field for field in fields if field.name != "type"}
    found = values.pairs(line, {"slot": SLOT, **named})
    index = int(found.pop("slot", count))
    if index >= count:
        raise header.error(f"write the slot, 0 to {count - 1}, such as `slot 0`")
    if (kind, index) in given:
        raise header.error(f"an earlier line has the {kind} slot {index}, too; remove one")
    given.add((kind, index))
    return index, found


def _plants(env: CraftEnv, block: Text, start: Any) -> Plants:
    """Return the plants: the slots at the start of an episode, changed by the lines `plant`."""
    columns = {name: np.array(column) for name, column in start.plants._asdict().items()}
    given: set[tuple[str, int]] = set()
    for header in block.all("plant"):
        count = len(columns["age"])
        line = (header, values.listed(header))
        index, found = _slot(line, env.rules.packing.plant, count, "plant", given)
        for name, value in found.items():
            columns[name][index] = value
    return Plants(**columns)


def _earned(rules: Rules, block: Text, start: Any) -> tuple[Any, ...]:
    """Return the bit masks of the achievements that the line `achievements` names."""
    masks, header = [0] * len(start.earned), block.get("achievements")
    known = {achievement.name.lower(): int(achievement) for achievement in rules.achievements}
    if header:
        for name in values.listed(header):
            word, bit = divmod(cells.named(header, name, known, "achievement"), EARNED_BITS)
            if masks[word] >> bit & 1:
                raise header.error(f"{name} is given twice; remove one")
            masks[word] |= 1 << bit
    return tuple(np.int32(mask) for mask in masks)
