"""For each mistake that PuzzleScript's compiler reports, the loader's message names the line.

Each row of `mistakes.tsv` makes one mistake in `GAME`: it replaces the text `old`, or the text that
`PLACES` has for the key `old`, by `new`. Only the first message is compared. In rows for mistakes
that the original engine does not report, `kind` starts with "own". JAXENVS_PUZZLESCRIPT is the path
of a checkout of the engine.
"""

import csv
from typing import NamedTuple

import engine
import pytest

from jaxenvs import puzzlescript
from jaxenvs.puzzlescript import GameError

GAME = (engine.HERE / "games" / "minimal.txt").read_text("utf-8")
GAME = GAME.replace("SOUNDS", "Thing = Goal or Crate\nBoth = Goal and Crate\nSOUNDS")
RULE = "[ > Player | Crate ] -> [ > Player | > Crate ]"
PLACES = {
    "PRELUDE": "OBJECTS",
    "LEGEND": "Both = Goal",
    "SOUNDS": "COLLISIONLAYERS",
    "RULE": RULE,
    "WIN": "All Goal on Crate",
    "LEVEL": "P*O",
}
BEFORE = ("PRELUDE", "LEGEND", "SOUNDS")  # keys of PLACES: `new` is inserted before their text


class Mistake(NamedTuple):
    """A row of `mistakes.tsv`: `new` replaces `old` in a game, and causes `message`."""

    kind: str
    old: str
    new: str
    message: str

    @property
    def source(self) -> str:
        """Source text of the game with the mistake."""
        old = PLACES.get(self.old, self.old.replace("\\n", "\n"))
        new = self.new.replace("\\n", "\n").replace("RULE", RULE if self.old == "RULE" else "RULE")
        return GAME.replace(old, f"{new}\n{old}" if self.old in BEFORE else new, 1)


with (engine.HERE / "mistakes.tsv").open(encoding="utf-8") as file:
    ROWS = [Mistake(*row) for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.old}: {row.new}"[:60])
def test_a_mistake_has_a_message_with_its_line(row):
    message = (f"game:{row.message}", f"game: {row.message}")
    assert row.source != GAME
    if row.kind.endswith("error"):
        with pytest.raises(GameError) as error:
            puzzlescript.parse(row.source)
        assert str(error.value).startswith(message)
    else:
        assert puzzlescript.parse(row.source).warnings[0].startswith(message)


@pytest.mark.full
@pytest.mark.skipif(not engine.CHECKOUT, reason="JAXENVS_PUZZLESCRIPT is not set")
def test_the_engine_reports_the_same_mistakes():
    with engine.Engine() as node:
        for row in ROWS:
            answer = node.ask(source=row.source)
            assert (answer["count"] > 0) == (row.kind == "error"), row
            assert bool(answer["errors"]) != row.kind.startswith("own"), row
