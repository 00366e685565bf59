"""How numbers lie in words: rows of fields that say what is kept, and in how many bits."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32

from ..core.bits import cut, join, kept


class Field(NamedTuple):
    """A number in a word."""

    name: str  # of an attribute, or "attribute.key" of one that is a dict
    bits: int
    low: int = 0  # the least value; it is kept as 0
    flag: bool = False  # a boolean
    saturates: bool = False  # a value out of range is clipped
    real: bool = False  # float32, in a word of its own


class Packing(NamedTuple):
    """The fields of everything; a group of fields begins a new word, no field crosses two."""

    player: tuple[tuple[Field, ...], ...]
    mob: tuple[Field, ...]
    projectile: tuple[Field, ...]  # one word for a slot, as the next
    plant: tuple[Field, ...]
    floor: tuple[tuple[Field, ...], ...] = ()  # what else belongs to the player's floor


Thing = tuple[Sequence[Field], Any]  # numbers of it that lie in one word


def fields_of(
    names: Iterable[str], bits: int, low: int = 0, flag: bool = False
) -> tuple[Field, ...]:
    """Fields of as many bits each."""
    return tuple(Field(name, bits, low, flag) for name in names)


def real(name: str) -> Field:
    """A field of a float32."""
    return Field(name, 32, real=True)


def field_of(packing: Packing, name: str) -> Field:
    """The field of a number of the player."""
    return next(field for group in packing.player for field in group if field.name == name)


def word_of(fields: Sequence[Field], it: Any) -> Int32[Array, "*slots"]:
    """Pack the fields of one thing, or of arrays of things, into one word each."""
    return join(*((_stored(field, read(it, field.name)), field.bits) for field in fields))


def of_word(fields: Sequence[Field], word: Int32[Array, "*slots"]) -> dict[str, Any]:
    """Undo `word_of`: values by name."""
    if fields[0].real:
        return {fields[0].name: _value(fields[0], word)}
    values = cut(word, *(field.bits for field in fields))
    return {f.name: _value(f, value) for f, value in zip(fields, values, strict=True)}


def words_of(
    things: Sequence[Thing], known: tuple[Sequence[Thing], Sequence[Array]] | None = None
) -> list[Int32[Array, ""]]:
    """Pack things, each with the fields of a word.

    `known` are the things as they were read, and their words: one whose fields are the same is
    taken.
    """
    if known is None:
        return [word_of(fields, it) for fields, it in things]
    words = []
    for (fields, it), (_, was), word in zip(things, *known, strict=False):  # or more words
        same = all(read(it, field.name) is read(was, field.name) for field in fields)
        words.append(word if same else word_of(fields, it))
    return words


def of_words(groups: Sequence[Sequence[Field]], words: Iterator[Array]) -> dict[str, Any]:
    """Unpack groups of fields, taking their words from the iterator."""
    values: dict[str, Any] = {}
    for fields in split(groups):
        values |= of_word(fields, next(words))
    return values


def split(groups: Sequence[Sequence[Field]]) -> list[list[Field]]:
    """The fields of each word."""
    words: list[list[Field]] = []
    for group in groups:
        words.append([])
        for field in group:
            if sum(f.bits for f in words[-1]) + field.bits > 32:
                words.append([])
            words[-1].append(field)
    return words


def held(fields: Sequence[Field], it: Any) -> Any:
    """The same thing with these numbers computed once, see `core.settle`: all in one word."""
    pairs = [(_stored(field, read(it, field.name)), field.bits) for field in fields]
    stored = zip(fields, kept(*pairs), strict=True)
    return written(it, {field.name: _value(field, value) for field, value in stored})


def read(it: Any, name: str) -> Any:
    """A number of a thing by the name of its field."""
    attribute, _, key = name.partition(".")
    return getattr(it, attribute)[key] if key else getattr(it, attribute)


def written(it: Any, values: dict[str, Any]) -> Any:
    """A thing with other numbers, by the names of their fields."""
    changes = nested(values)
    kept = {name: getattr(it, name) for name, part in changes.items() if isinstance(part, dict)}
    return it._replace(**changes | {name: part | changes[name] for name, part in kept.items()})


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Values by attribute; those named `attribute.key` become a dict."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        attribute, _, key = name.partition(".")
        if key:
            found.setdefault(attribute, {})[key] = value
        else:
            found[attribute] = value
    return found


def _stored(field: Field, value: Any) -> Any:
    if field.real:
        return jax.lax.bitcast_convert_type(value, jnp.int32)
    if field.saturates:
        most = field.low + (1 << field.bits) - 1
        value = value.clip(field.low, most) if field.low else jnp.minimum(value, most)
    return value if field.low == 0 else value + (-field.low)


def _value(field: Field, stored: Array) -> Any:
    if field.real:
        return jax.lax.bitcast_convert_type(stored, jnp.float32)
    if field.flag:
        return stored if stored.dtype == jnp.bool_ else stored != 0
    return stored if field.low == 0 else stored - (-field.low)
