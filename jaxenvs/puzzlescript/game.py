"""Parse the source text of a PuzzleScript game into tables."""

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path

from . import sounds, suspicious, tables
from .colors import PALETTES, palette
from .names import Names, Objects, Sprite
from .rules import Reader
from .tables import Groups, Level, Win
from .text import GameError, Line, Problems, lines

VALUES = (
    "title",
    "author",
    "homepage",
    "background_color",
    "text_color",
    "key_repeat_interval",
    "realtime_interval",
    "again_interval",
    "flickscreen",
    "zoomscreen",
    "color_palette",
    "youtube",
)
SCREENS = ("flickscreen", "zoomscreen")
SWITCHES = (
    "run_rules_on_level_start",
    "norepeat_action",
    "require_player_movement",
    "debug",
    "verbose_logging",
    "throttle_movement",
    "noundo",
    "noaction",
    "norestart",
    "scanline",
)
LARGEST = 4_000_000  # maximum size of a source file, bytes


@dataclasses.dataclass(frozen=True)
class Game:
    """A parsed game: its objects, rules, win conditions and levels.

    A mask is an int whose bits stand for the members of a set. In masks of objects, the object with
    id o has bit o. In masks of movements, movement m of layer l has bit 5 l + m.
    """

    name: str
    prelude: dict[str, str]  # options before the first section; "" if an option has no value
    objects: tuple[str, ...]  # names by id; the first id of an object listed twice is unused
    sprites: tuple[Sprite, ...]  # sprite of each object, by id
    layer_of: tuple[int, ...]  # collision layer of each object, by id
    layers: int  # number of collision layers
    background: int  # id of the default background object
    player: int  # mask of the player's objects
    player_is_aggregate: bool  # whether a player needs all objects of `player` in one cell
    main: Groups  # rules that are not marked `late`
    late: Groups  # rules marked `late`, which run after the movement of objects
    wins: tuple[Win, ...]
    glyphs: dict[str, int]  # object mask of each character that levels may contain
    levels: tuple[Level | str, ...]  # levels and messages (str) in the order of the source
    warnings: tuple[str, ...]
    errors: tuple[str, ...]  # error messages; () unless parsed with on_error="engine"


def load(path: str | os.PathLike[str], on_error: str = "raise") -> Game:
    """Parse the file of a game, as `parse` does for its text.

    Raises `GameError` also if the file is too large or not UTF-8.
    """
    path = Path(path)
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise GameError(
                f"{path}: the file has {size:,} bytes, and a game at most {LARGEST:,}; give a "
                "PuzzleScript source"
            )
        source = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GameError(f"{path}: not UTF-8 text ({error}); save it as UTF-8") from error
    return parse(source, str(path), on_error)


def parse(source: str, name: str = "game", on_error: str = "raise") -> Game:
    """Parse the source text of a game.

    With `on_error="raise"`, raises a `GameError` if the text has errors; its message lists each
    error with `name` and the line number. With `on_error="engine"`, returns the game in spite of
    errors that PuzzleScript's engine tolerates. It raises the `GameError` if the engine may refuse
    the game: if a rule has unequal brackets, an ambiguous movement or a modifier without an object.
    Unlike the engine, it accepts more than five errors.
    """
    if on_error not in ("raise", "engine"):
        raise ValueError(f'on_error={on_error!r}: give "raise" or "engine"')
    problems = Problems(name)
    reading = _Reading(Names(problems))
    for section, line in lines(source, problems):
        reading.read(section, line)
    try:
        game = reading.game(name)
    except (LookupError, ValueError) as error:
        if not problems.errors:
            raise
        problems.check()
        raise AssertionError from error
    if on_error == "raise" or problems.is_fatal:
        problems.check()
    return game


class _Reading:
    """State of the parser: the parts of a game's source read so far."""

    def __init__(self, names: Names) -> None:
        self.names, self.problems = names, names.problems
        self.objects, self.rules = Objects(names), Reader(names)
        self.prelude: dict[str, str] = {}
        self.wins: list[tuple[int, list[str]]] = []
        # line number, and text after a comment in a row
        self.after_comments: list[tuple[int, str]] = []
        self.levels: list[str | list[tuple[int, str]]] = []
        self.in_level = False

    def read(self, section: str, line: Line) -> None:
        """Parse a line of the section `section`."""
        if section in ("objects", "levels"):  # in these sections, blank lines have a meaning
            (self.objects.read if section == "objects" else self._read_level)(line)
        elif line.text:
            self._readers[section](line)

    @property
    def _readers(self) -> dict[str, Callable[[Line], None]]:
        """Function that parses a line, for each section other than `objects` and `levels`."""
        return {
            "": self._read_option,
            "legend": self.names.read_legend,
            "sounds": lambda line: sounds.check(line, self.names),
            "collisionlayers": self.names.read_layer,
            "rules": self.rules.read,
            "winconditions": self._read_win,
        }

    def _read_win(self, line: Line) -> None:
        self.wins.append((line.number, line.first.split()))
        if line.rest:
            self.problems.error(line.number, f"nothing may follow the comment: {line.rest!r}")

    def _read_option(self, line: Line) -> None:
        found = re.match(r"(\w+|\S*)\s*(.*)", line.first)
        assert found is not None
        word, value = found.groups()
        if word in ("title", "author", "homepage"):
            start = line.raw.lower().index(word) + len(word)
            value = line.raw[start:].partition("(")[0]
        if word in self.prelude:
            self.problems.warn(line.number, f"{word} is given twice; the last one counts")
        if line.text != line.first:
            self.problems.warn(line.number, "the text after the comment is ignored")
        if word in VALUES and value.strip():
            self.prelude[word] = value.strip()
            self._check_option(word, value.strip(), line.number)
        elif word in VALUES:
            self.problems.error(line.number, f"{word} needs a value")
        elif word in SWITCHES:
            self.prelude[word] = ""
            if value.strip():
                self.problems.warn(
                    line.number, f"{word} takes no value; {value.strip()!r} is ignored"
                )
        else:
            self.problems.error(
                line.number, f"{word!r} is not an option; use {', '.join((*VALUES, *SWITCHES))}"
            )

    def _check_option(self, word: str, value: str, line: int) -> None:
        """Record an error or a warning if the value of the option `word` is invalid or ignored."""
        if word in ("background_color", "text_color") and not Objects.COLOR.fullmatch(value):
            self.problems.error(line, f"{word} {value!r}: give a colour name or #rrggbb")
        if word == "color_palette" and palette(value) is None:
            self.problems.error(line, f"palette {value!r}: use {', '.join(PALETTES)}")
        if word in SCREENS and not re.fullmatch(r"0*[1-9]\d*x0*[1-9]\d*", value):
            self.problems.warn(line, f"{word} {value!r}: give WIDTHxHEIGHT in cells, such as 10x8")
        if word == "youtube":
            self.problems.warn(line, "youtube is ignored")

    def _read_level(self, line: Line) -> None:
        """Parse a line of the section `levels`: a row of a level, a message, or a blank line."""
        if line.text.startswith("message"):
            if not re.match(r"message(\s|$)", line.text):
                self.problems.warn(line.number, "write a space after `message`")
            self.levels.append(line.raw.strip()[len("message") :].strip())
            self.in_level = False
        elif not line.text:
            self.in_level = False
        else:
            if not self.in_level:
                self.levels.append([])
                self.in_level = True
            rows = self.levels[-1]
            assert isinstance(rows, list)
            rows.append((line.number, line.first))
            if line.rest:
                self.after_comments.append((line.number, line.rest))
            if len(line.first) != len(rows[0][1]):
                self.problems.warn(
                    line.number, "rows of a level differ in length; the first one decides"
                )

    def game(self, name: str) -> Game:
        """Build the game from all lines that were read, and record its errors."""
        names = self.names
        if not names.layers:
            self.problems.error(0, "no collision layers; every object needs one")
            self.problems.check()
        if not any(isinstance(each, list) for each in self.levels):
            self.problems.error(0, "no levels; a game needs at least one that is not a message")
        names.number()
        for line, text in self.after_comments:
            tables.check_glyphs(line, text, names)
        suspicious.check(self.rules.rules, names)
        main, late = tables.groups(self.rules, names)
        made = [
            each if isinstance(each, str) else tables.level(each, names) for each in self.levels
        ]
        return Game(
            name=name,
            prelude=self.prelude,
            objects=tuple(names.order),
            sprites=tuple(names.sprites[each] for each in names.order),
            layer_of=tuple(names.layer_of[each] for each in names.order),
            layers=len(names.layers),
            background=names.ids[names.background],
            player=names.mask("player"),
            player_is_aggregate=names.is_aggregate("player"),
            main=main,
            late=late,
            wins=tables.wins(self.wins, names),
            glyphs=tables.glyphs(names),
            levels=tuple(each for each in made if each is not None),
            warnings=tuple(self.problems.described(self.problems.warnings)),
            errors=tuple(self.problems.described(self.problems.errors)),
        )
