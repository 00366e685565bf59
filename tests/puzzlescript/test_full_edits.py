"""Random edits of game sources: the loader and the original engine accept the same sources.

If both accept a source, their tables are equal. JAXENVS_PUZZLESCRIPT is the path of a checkout of
the engine.
"""

import random
import re

import engine
import pytest

from jaxenvs import puzzlescript
from jaxenvs.puzzlescript import GameError

INSERTED = """
( ) [ ] | -> no random randomdir late rigid + > < ^ v ... again cancel win message = == ,
and or on all some 0 . * @ Player Background Crate stationary moving parallel horizontal
up sfx1 startloop endloop foo é (x) (x x) checkpoint restart transparent #fff red
orthogonal action noaction title 10
"""
EDITS = 400  # number of edited sources of each seed


def edited(draw: random.Random, source: str) -> str:
    """Return a source after one to three edits of characters, words or lines."""
    for _ in range(draw.choice([1, 1, 1, 2, 2, 3])):
        kind, place = draw.random(), draw.randrange(len(source) + 1)
        if kind < 0.45:
            text = draw.choice([*INSERTED.split(), "\n", " ", "\t"]) + draw.choice(["", " ", "\n"])
            source = source[:place] + text + source[place:]
        elif kind < 0.6:
            source = source[:place] + source[place + draw.randint(1, 3) :]
        elif kind < 0.75:
            lines = source.split("\n")
            lines.insert(draw.randrange(len(lines)), draw.choice(lines))
            source = "\n".join(lines)
        else:
            one, other = (draw.choice([*re.finditer(r"\S+", source)]) for _ in range(2))
            source = source[: one.start()] + other[0] + source[one.end() :]
    return source


@pytest.mark.full
@pytest.mark.skipif(not engine.CHECKOUT, reason="JAXENVS_PUZZLESCRIPT is not set")
@pytest.mark.parametrize("seed", range(3))
def test_loader_and_engine_accept_the_same_sources(seed):
    sources = [path.read_text("utf-8") for path in engine.GAMES]
    draw, both = random.Random(seed), 0
    with engine.Engine() as node:
        for _ in range(EDITS):
            source = edited(draw, draw.choice(sources))
            answer = node.ask(source=source)
            try:
                game = puzzlescript.parse(source)
            except GameError as error:
                assert answer["count"] > 0, f"{error}\n{source}"
                continue
            assert answer["count"] == 0, f"{answer['errors']}\n{source}"
            tables, expected = engine.of_loader(game), engine.of_engine(answer["tables"])
            assert tables == {name: expected[name] for name in tables}, source
            both += 1
    assert both > EDITS // 20
