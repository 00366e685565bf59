"""Parser of missions of BabyAI: convert a sentence to packed instructions."""

import re
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core.checks import counted
from ...grid.tiles import Colour, Kind
from ...levels.blocks import Header
from .. import mission as m

KINDS = {"object": 0, **{kind.name.lower(): int(kind) - 3 for kind in list(Kind)[4:8]}}
COLOURS = {"": m.ANY_COLOUR, **{colour.name.lower(): int(colour) for colour in Colour}}
PLACES = {
    "": m.ANYWHERE,
    "in front of you": m.FRONT,
    "behind you": m.BEHIND,
    "on your left": m.ON_LEFT,
    "on your right": m.ON_RIGHT,
}
VERBS = {"go to": m.GO_TO, "open": m.OPEN, "pick up": m.PICK_UP, "put": m.PUT_NEXT}
EXAMPLES = {
    m.GO_TO: "go to the red ball",
    m.OPEN: "open a door on your left",
    m.PICK_UP: "pick up the key",
    m.PUT_NEXT: "put the red ball next to a box",
}
_PLACE = "|".join(place for place in PLACES if place)
_NOUN = rf"(a|the)(?: ({'|'.join(c for c in COLOURS if c)}))? ({'|'.join(KINDS)})(?: ({_PLACE}))?"
_ONE = re.compile(rf"(go to|open|pick up) {_NOUN}")
_PUT = re.compile(rf"(put) {_NOUN} next to {_NOUN}")


class Sentence(NamedTuple):
    """A parsed mission: its instructions, and the articles of its descriptions."""

    words: np.ndarray  # uint32 (instructions,): packed instructions without the bits `UNIQUE`
    articles: dict[int, bool]  # index of each description in the sentence -> whether it has "the"


def parse(env: Any, header: Header) -> Sentence:
    """Parse the mission in a header; raise `LevelError` if levels of `env` cannot have it."""
    length = env.level_shape.task.shape[0]
    text = " ".join(header.value.split())
    left, joint, right = text.partition(", then ")
    if not joint:
        left, joint, right = text.partition(" after you ")
    slots = {0: left.split(" and "), 2: right.split(" and ") if joint else []}
    words, articles = np.zeros(4, np.uint32), dict[int, bool]()
    for first, parts in slots.items():
        if len(parts) > 2:
            raise header.error("`and` joins at most two instructions on each side")
        for number, part in enumerate(parts, first):
            words[number] = _instruction(env, header, part, number, articles)
    words[2] |= np.uint32((joint == " after you ") << m.AFTER)
    if words[length:].any():
        raise header.error(
            f"this environment has missions of {counted(length, 'instruction')} at most"
            if length < 3
            else "this environment has no such mission"
        )
    return Sentence(words[:length], articles)


def _instruction(
    env: Any, header: Header, text: str, number: int, articles: dict[int, bool]
) -> int:
    found = _ONE.fullmatch(text) or _PUT.fullmatch(text)
    if found is None:
        _refuse(env, header, text)
    verb = VERBS[found[1]]
    if verb not in env.verbs:
        _refuse(env, header, text)
    what = [found.groups()[i : i + 4] for i in range(1, len(found.groups()), 4)]
    for place, (article, *_) in enumerate(what):
        articles[2 * number + place] = article == "the"
    shifts = (m.FIRST, m.SECOND)
    return verb | sum(_described(one) << at for one, at in zip(what, shifts, strict=False))


def _described(parts: tuple[Any, ...]) -> int:
    """Return the packed description of (article, colour, kind, place); the article is ignored."""
    _, colour, kind, place = parts
    return KINDS[kind] | COLOURS[colour or ""] << 3 | PLACES[place or ""] << 6


def _refuse(env: Any, header: Header, text: str) -> NoReturn:
    examples = " or ".join(f"`{EXAMPLES[verb]}`" for verb in env.verbs)
    raise header.error(
        f"{text!r} is no instruction of this environment; write one such as {examples}, and join "
        "them by `and`, `, then` or `after you`"
    )


def with_articles(words: np.ndarray, unique: np.ndarray) -> np.ndarray:
    """Return the instructions with bit `UNIQUE` set in the descriptions where `unique` is True."""
    bits = np.asarray(unique, np.uint32).reshape(-1, 2)
    added = bits[:, 0] << (m.FIRST + m.UNIQUE) | bits[:, 1] << (m.SECOND + m.UNIQUE)
    return words | added.astype(np.uint32)
