"""Reader and writer of levels and states of BabyAI as text.

MiniGrid's levels have the same format (`jaxenvs.grid.leveltext`) with fewer headers. Only BabyAI
has, for example, the headers `marks` and `progress`, which contain the fields of `BabyState` with
these names. Headers number a mission's instructions from 1. A mission such as "a, then b" has two
sides: numbers 1 and 2 are the left side, 3 and 4 the right side, so b has number 3. Headers number
descriptions, such as "a red ball", from 1 too: instruction i has the descriptions 2i - 1 and 2i.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.checks import counted
from ...core.random import Key
from ...grid import tiles
from ...grid.env import GridEnv
from ...grid.leveltext import form as grids
from ...grid.leveltext import goals, painting, picture
from ...grid.state import Level
from ...grid.tiles import Kind
from ...levels import cells
from ...levels.blocks import Block, Header
from ...levels.errors import LevelError
from ...levels.palette import Headers, Picture
from .. import mission as m
from ..env import BabyEnv, BabyLevel, BabyState
from . import mutation, sentences

# Name in the header `progress` -> lowest bit in `BabyState.progress`, and number of bits.
PROGRESS = {"done": (0, 4), "checked": (4, 4), "held": (8, 8)}


def shared_contents(env: BabyEnv) -> bool:
    """Return whether all boxes (`Kind.BOX`) of a level have the same contents, as in `KeyInBox`.

    The encoded mission of the level then stores these contents.
    """
    return type(env).contents is not GridEnv.contents


FORMS, block = grids.FORMS, grids.block
palette, sprites, place = painting.palette, painting.sprites, painting.place


def missions(env: BabyEnv) -> tuple[str, ...]:
    """Return one example of a mission per verb of `env`; other missions are also valid."""
    return tuple(sentences.EXAMPLES[verb] for verb in env.verbs)


def unpacked(env: BabyEnv, block: Block) -> Picture:
    """Convert a block (the text of a level) to a picture of the editor.

    The picture differs from the result of `painting.unpacked` only if all boxes contain the same
    object (`shared_contents`). It then has one header `contents` with the object's name, in place
    of a header for each box.
    """
    if not shared_contents(env):
        return painting.unpacked(env, block)
    found = painting.unpacked_with(env, block, fills=False)
    rest = [header for header in found.headers if header[0] != "contents"]
    held = {value.partition(" ")[2]: None for name, value in found.headers if name == "contents"}
    return found._replace(headers=(*rest, *(("contents", content) for content in held)))


def packed(env: BabyEnv, found: Picture) -> tuple[Headers, list[str]]:
    """Convert a picture of the editor to the headers and the rows of a level's text.

    If all boxes have the same contents, the picture's header `contents` is repeated for each box.
    """
    headers, rows = painting.packed(env, found)
    if not shared_contents(env):
        return headers, rows
    boxes = [
        f"{r},{c}" for r, row in enumerate(found.cells) for c, sign in enumerate(row)
        if sign[0] == "B"
    ]  # fmt: skip
    rest = tuple(header for header in headers if header[0] != "contents")
    held = [value for name, value in headers if name == "contents"]
    return (*rest, *(("contents", f"{box} {one}") for one in held for box in boxes)), rows


def names(env: BabyEnv) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the header names that `env` allows once, and those that it allows repeatedly."""
    return (*grids.COMMON, "strict", "progress"), ("contents", "marks")


def read(env: BabyEnv, block: Block, *, strict: bool) -> BabyLevel | BabyState:
    """Return the level or state that a block describes; raise `LevelError` if it is invalid.

    strict: whether an ambiguous or unusual level is an error instead of a warning.
    """
    found = grids.parsed(env, block, strict=strict, shared_contents=shared_contents(env))
    if found.is_state:
        pose = grids.agent(block, found)
        return read_state(env, block, found.grid, pose, grids.time(block))
    return read_level(env, block, grids.level(env, block, found, None))


def write(env: BabyEnv, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the headers (name, value) and the picture's rows of a level or state.

    form: None for the usual text; "minigrid" and "maze" write only the picture, without headers.
    """
    found, rows = grids.common(env, value, form)
    if form is not None:
        return found, rows
    block = Block(tuple(Header(*pair, 0) for pair in found), tuple(rows))
    return found + headers(env, jax.device_get(value), block), rows


def mutate(env: BabyEnv, key: Key, level: Any, edits: Any) -> BabyLevel:
    """Return the level after `edits` random edits."""
    return mutation.mutate(env, key, level, edits)


def read_level(env: BabyEnv, block: Block, level: Level) -> BabyLevel:
    """Return the level with the mission and marks of the block; raise `LevelError` if invalid."""
    header = block.get("task")
    if header is not None:
        task = jnp.asarray(goals.raw_task(header, env.level_shape.task))
        goals.check_mission(block, goals.mission(env, task))
        marked = _marked(env)(level.replace(task=task)).replace(task=task)
    else:
        words, articles = _words(env, block, np.asarray(level.grid))
        marked = jax.device_get(_marked(env)(level.replace(task=jnp.asarray(words))))
        _check_articles(block, marked, articles)
    return marked.replace(
        task=jnp.asarray(marked.task), marks=_marks(block, marked.marks), pose=level.pose,
        grid=level.grid, accepted=level.accepted,
    )  # fmt: skip


def read_state(env: BabyEnv, block: Block, grid: np.ndarray, agent: Any, time: Any) -> BabyState:
    """Return the state with the mission, marks and progress of the block.

    Raises `LevelError` if they are invalid.
    """
    marks = _marks(block, np.zeros(grid.shape, np.uint8))
    progress = _progress(block)
    header = block.get("task")
    if header is not None:
        task = goals.raw_task(header, env.level_shape.task)
        goals.check_mission(block, goals.mission(env, jnp.asarray(task)))
    else:
        words, articles = _words(env, block, grid)
        task = _with_articles(env, words, articles, np.asarray(marks), progress)
    return BabyState(
        time=time, grid=jnp.asarray(grid), agent=agent, task=jnp.asarray(task), marks=marks,
        progress=jnp.int32(progress),
    )  # fmt: skip


def headers(env: BabyEnv, value: Any, block: Block) -> list[tuple[str, str]]:
    """Return the headers of a level's or state's text that exist only for BabyAI.

    block: the picture, and the headers that BabyAI and MiniGrid share.
    """
    task, grid = np.asarray(value.task), np.asarray(value.grid)
    strict = [i for i, word in enumerate(task, 1) if int(word) >> m.STRICT & 1]
    found = [("strict", ", ".join(map(str, strict)))] if strict else []
    content = int(task[0]) >> m.CONTENTS
    if content and shared_contents(env):
        boxes = np.argwhere(grid & 15 == Kind.BOX).tolist()
        found += [("contents", f"{r},{c} {tiles.name(content)}") for r, c in boxes]
    if isinstance(value, BabyState):
        found += _progress_headers(int(value.progress))
    found += _marks_headers(env, value)
    tried = Block((*block.headers, *(Header(*pair, 0) for pair in found)), block.picture)
    return found if _is_read(env, value, tried) else [*found, ("task", " ".join(map(str, task)))]


def _is_read(env: BabyEnv, value: Any, block: Block) -> bool:
    """Return whether `block`, which has no header `task`, is read with the same task as `value`."""
    try:
        if isinstance(value, BabyState):
            found = read_state(
                env, block, np.asarray(value.grid), *map(jnp.asarray, (value.agent, value.time))
            )
        else:
            found = read_level(env, block, _plain(value))
    except LevelError:
        return False
    return bool(np.array_equal(found.task, value.task))


def _plain(level: Any) -> Level:
    names = ("grid", "pose", "task", "accepted")
    return Level(**{n: jax.tree.map(jnp.asarray, getattr(level, n)) for n in names})


@functools.lru_cache(maxsize=64)
def _marked(env: BabyEnv) -> Any:
    return jax.jit(env.marked)


def _words(env: BabyEnv, block: Block, grid: np.ndarray) -> tuple[np.ndarray, dict[int, bool]]:
    """Return the packed instructions of a block's mission, and its articles (`Sentence.articles`).

    The bits `UNIQUE` of the instructions are not set.
    """
    header = block.get("mission")
    if header is None:
        example = sentences.EXAMPLES[env.verbs[0]]
        raise LevelError(
            f"a level of BabyAI needs a mission; add a line such as `mission: {example}`",
            block.line,
        )
    words, articles = sentences.parse(env, header)
    for i in _numbers(block.get("strict"), len(words)):
        if not words[i]:
            raise _strict_error(block, i)
        words[i] |= np.uint32(1 << m.STRICT)
    words[0] |= np.uint32(_content(env, block, grid) << m.CONTENTS)
    return words, articles


def _strict_error(block: Block, number: int) -> LevelError:
    header = block.get("strict")
    assert header is not None
    return header.error(f"the mission has no instruction {number + 1}")


def _content(env: BabyEnv, block: Block, grid: np.ndarray) -> int:
    """Return the tile byte of the contents of the level's boxes; 0 if they are empty."""
    if not shared_contents(env):
        return 0
    lines = block.all("contents")
    found = dict(picture.content_of(header, grid.shape) for header in lines)
    boxes = {(row, column) for row, column in np.argwhere(grid & 15 == Kind.BOX).tolist()}
    if lines and (found.keys() != boxes or len(set(found.values())) > 1):
        raise lines[0].error(
            "all boxes of a level have the same contents; write one line `contents:` for each box"
        )
    return next(iter(found.values()), 0)


def _numbers(header: Header | None, most: int, text: str | None = None) -> list[int]:
    """Convert the numbers in a header, which begin with 1, to indices, which begin with 0.

    most: largest allowed number in the text.
    text: the part of the header's value that has the numbers; None means the whole value.
    """
    if header is None:
        return []
    parts = (header.value if text is None else text).replace(",", " ").split()
    return [cells.integer(header, part, 1, most) - 1 for part in parts]


def _marks(block: Block, usual: Any) -> Any:
    """Return the marks from the headers `marks` of a block; without them, return `usual`."""
    lines = block.all("marks")
    if not lines:
        return jnp.asarray(usual)
    marks = np.zeros(usual.shape, np.uint8)
    for header in lines:
        number, colon, places = header.value.partition(":")
        if not colon and header.value != "none":
            raise header.error("write `marks: DESCRIPTION: row,column; ...`, or `marks: none`")
        for bit in _numbers(header, 8, number) if colon else ():
            for place in cells.cells(header, places, usual.shape):
                marks[place] |= np.uint8(1 << bit)
    return jnp.asarray(marks)


def _marks_headers(env: BabyEnv, value: Any) -> list[tuple[str, str]]:
    marks = np.asarray(value.marks) if hasattr(value, "marks") else None
    if marks is None:
        return []
    if not isinstance(value, BabyState):
        if np.array_equal(_marked(env)(_plain(value)).marks, marks):
            return []
        if not marks.any():
            return [("marks", "none")]
    together: dict[str, list[str]] = {}
    for bit in range(8):
        where = np.argwhere(marks >> bit & 1).tolist()
        if where:
            together.setdefault(cells.written((r, c) for r, c in where), []).append(str(bit + 1))
    return [("marks", f"{', '.join(bits)}: {where}") for where, bits in together.items()]


def _progress(block: Block) -> int:
    """Return the field `progress` of a state, from a header such as `progress: done 1; held 2`."""
    header, found = block.get("progress"), 0
    for part in header.value.split(";") if header else ():
        name, _, numbers = part.strip().partition(" ")
        if name not in PROGRESS:
            known = ", ".join(PROGRESS)
            assert header is not None
            raise header.error(
                f"{name!r} is not one of {known}; write such as `done 1; checked 1, 3`"
            )
        lowest, width = PROGRESS[name]
        for number in _numbers(header, width, numbers):
            found |= 1 << (lowest + number)
    return found


def _progress_headers(progress: int) -> list[tuple[str, str]]:
    parts = []
    for name, (lowest, width) in PROGRESS.items():
        bits = [str(i + 1) for i in range(width) if progress >> (lowest + i) & 1]
        parts += [f"{name} {', '.join(bits)}"] if bits else []
    return [("progress", "; ".join(parts))] if parts else []


def _with_articles(
    env: BabyEnv, words: np.ndarray, articles: dict[int, bool], marks: np.ndarray, progress: int
) -> np.ndarray:
    """Return the mission of a state with the bits `UNIQUE` of all descriptions.

    The bit of a description that the sentence contains is set if the article is `the`. The bit of
    any other description is set if exactly one object, on the map or in the agent's hands, has the
    mark of the description.
    """
    counts = [
        int((marks >> d & 1).sum()) + (progress >> (8 + d) & 1) for d in range(2 * len(words))
    ]
    unique = [articles.get(d, count == 1) for d, count in enumerate(counts)]
    if m.PUT_NEXT not in env.verbs:
        unique[1::2] = unique[::2]
    return sentences.with_articles(words, np.array(unique))


def _check_articles(block: Block, level: BabyLevel, articles: dict[int, bool]) -> None:
    """Raise `LevelError` if the mission names an absent object, or has a wrong article."""
    header = block.get("mission")
    assert header is not None
    for number, says_the in sorted(articles.items()):
        count = int((level.marks >> number & 1).sum())
        which = f"description {number + 1}" if number else "its first description"
        if count == 0:
            raise header.error(f"no object of the picture fits {which} of the mission")
        if says_the != (count == 1):
            fit, right, wrong = ("fits", "the", "a") if count == 1 else ("fit", "a", "the")
            raise header.error(
                f"{counted(count, 'object')} of the picture {fit} {which} of the mission, so write "
                f"`{right}` instead of `{wrong}`"
            )
