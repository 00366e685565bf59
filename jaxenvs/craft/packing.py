"""Packing of state values into 32-bit words, described by tables of fields.

A `Field` names a value and the number of bits that it takes. `word_of` packs the fields of a word
and `of_word` unpacks them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32

from ..core.bits import cut, join


class Field(NamedTuple):
    """A value that is packed into some of the bits of a 32-bit word."""

    name: str  # name of the attribute that holds the value; `attribute.key` for an entry of a dict
    bits: int
    low: int = 0  # lowest value of the field; it is stored as 0
    flag: bool = False  # whether the value is a boolean
    saturates: bool = False  # whether values out of the range are clipped to the range
    real: bool = False  # whether the value is a float32, which takes a whole word


class Packing(NamedTuple):
    """All packed fields of Classic or of the full game. Each group of fields starts a new word.

    No field is split over two words.
    """

    player: tuple[tuple[Field, ...], ...]
    mob: tuple[Field, ...]
    projectile: tuple[Field, ...]  # fields of one projectile, which fit in one word
    plant: tuple[Field, ...]  # fields of one plant, which fit in one word
    # Fields of the player's floor that belong to no mob, projectile or plant.
    floor: tuple[tuple[Field, ...], ...] = ()


# The fields that are packed into one word, and the NamedTuple that holds their values.
Thing = tuple[Sequence[Field], Any]


class Known(NamedTuple):
    """Words that were packed earlier, with the values that they store.

    `words_of` reuses a word if its values have not changed since then, instead of packing it again.
    """

    things: Sequence[Thing] = ()
    words: Sequence[Array] = ()


UNKNOWN = Known()


def fields_of(
    names: Iterable[str], bits: int, low: int = 0, flag: bool = False
) -> tuple[Field, ...]:
    """Return one `Field` per name, all with the same number of bits and the same range."""
    return tuple(Field(name, bits, low, flag) for name in names)


def real(name: str) -> Field:
    """Return a `Field` for a float32, which takes a whole word."""
    return Field(name, 32, real=True)


def field_of(packing: Packing, name: str) -> Field:
    """Return the `Field` called `name` among the fields that store the player."""
    return next(field for group in packing.player for field in group if field.name == name)


def word_of(fields: Sequence[Field], it: Any) -> Int32[Array, "*slots"]:
    """Pack the fields `fields` of the NamedTuple `it` into one 32-bit word.

    If the values are arrays over slots, as the fields of `Plants` are, return one word per slot.
    """
    return join(*((stored(field, read(it, field.name)), field.bits) for field in fields))


def of_word(fields: Sequence[Field], word: Int32[Array, "*slots"]) -> dict[str, Any]:
    """Unpack the output of `word_of` into a dict of values by field name."""
    if fields[0].real:
        return {fields[0].name: value_of(fields[0], word)}
    values = cut(word, *(field.bits for field in fields))
    return {f.name: value_of(f, value) for f, value in zip(fields, values, strict=True)}


def words_of(things: Sequence[Thing], known: Known) -> list[Int32[Array, ""]]:
    """Pack each of `things`, a pair (fields, NamedTuple with their values), into one word.

    `known` has words that were packed earlier for the first entries of `things`, in the same order.
    A known word is reused if each of its values is still the same traced array (by `is`).
    """
    words = []
    for i, (fields, it) in enumerate(things):
        reused = i < len(known.words) and all(
            read(it, field.name) is read(known.things[i][1], field.name) for field in fields
        )
        words.append(known.words[i] if reused else word_of(fields, it))
    return words


def of_words(groups: Sequence[Sequence[Field]], words: Iterator[Array]) -> dict[str, Any]:
    """Take the next words from an iterator, unpack them, and return a dict of values by field name.

    `groups` are the groups of fields that the words store, see `split`.
    """
    values: dict[str, Any] = {}
    for fields in split(groups):
        values |= of_word(fields, next(words))
    return values


def split(groups: Sequence[Sequence[Field]]) -> list[list[Field]]:
    """Distribute groups of fields over words; return one list of fields per word.

    Each group starts a new word, and continues in another word when 32 bits are full.
    """
    words: list[list[Field]] = []
    for group in groups:
        words.append([])
        for field in group:
            if sum(f.bits for f in words[-1]) + field.bits > 32:
                words.append([])
            words[-1].append(field)
    return words


def read(it: Any, name: str) -> Any:
    """Return the attribute `name` of the NamedTuple `it`.

    A name of the form `attribute.key` stands for the entry `key` of an attribute that is a dict.
    """
    attribute, _, key = name.partition(".")
    return getattr(it, attribute)[key] if key else getattr(it, attribute)


def written(it: Any, values: dict[str, Any]) -> Any:
    """Return a copy of the NamedTuple `it` with new values; `values` has them by field name.

    A name of the form `attribute.key` replaces the entry `key` of an attribute that is a dict.
    """
    changes = nested(values)
    kept = {name: getattr(it, name) for name, part in changes.items() if isinstance(part, dict)}
    return it._replace(**changes | {name: part | changes[name] for name, part in kept.items()})


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Return `values` with all entries named `attribute.key` collected into one dict per attribute.

    For example, `vitals.food` and `vitals.drink` become the entries `food` and `drink` of the dict
    `vitals`. All other values are kept as they are.
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        attribute, _, key = name.partition(".")
        if key:
            found.setdefault(attribute, {})[key] = value
        else:
            found[attribute] = value
    return found


def stored(field: Field, value: Any) -> Any:
    """Return the integer that is packed for the value of a field.

    A float32 is packed as the integer with the same bits. From any other value, the lowest value of
    the field is subtracted, so that the integer is not negative. If the field saturates, the value
    is first clipped to the field's range.
    """
    if field.real:
        return jax.lax.bitcast_convert_type(value, jnp.int32)
    if field.saturates:
        most = field.low + (1 << field.bits) - 1
        value = value.clip(field.low, most) if field.low else jnp.minimum(value, most)
    return value if field.low == 0 else value + (-field.low)


def value_of(field: Field, stored: Array) -> Any:
    """Return the value of a field, given the integer that is packed for it: inverse of `stored`."""
    if field.real:
        return jax.lax.bitcast_convert_type(stored, jnp.float32)
    if field.flag:
        return stored if stored.dtype == jnp.bool_ else stored != 0
    return stored if field.low == 0 else stored - (-field.low)
