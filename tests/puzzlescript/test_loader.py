"""Tests of the PuzzleScript loader: it compiles games as the engine does; errors name the line."""

import json
import random

import engine
import pytest

from jaxenvs import puzzlescript
from jaxenvs.puzzlescript import GameError, expand
from jaxenvs.puzzlescript.colors import PALETTES, palette, rgb

MINIMAL = (engine.HERE / "games" / "minimal.txt").read_text("utf-8")
PORTER = (engine.HERE / "games" / "porter.txt").read_text("utf-8")
RECORDED = json.loads(engine.TABLES.read_text("utf-8"))


def parsed(rule: str, legend: str = "", **options):
    """Parse the minimal game with `rule` as its only rule, and with additional legend lines."""
    before, after = MINIMAL.split("[ > Player | Crate ] -> [ > Player | > Crate ]")
    before = before.replace("SOUNDS", f"{legend}\nSOUNDS") if legend else before
    return puzzlescript.parse(before + rule + after, **options)


@pytest.mark.parametrize("path", engine.GAMES, ids=lambda path: path.stem)
def test_tables_equal_the_recorded_ones_of_the_engine(path):
    found = engine.digests(engine.of_loader(puzzlescript.load(path)))
    assert found == RECORDED[path.stem]


@pytest.mark.skipif(not engine.CHECKOUT, reason="JAXENVS_PUZZLESCRIPT names no checkout")
def test_tables_of_the_engines_demo_games_equal_the_engines():
    checked = 0
    with engine.Engine() as node:
        for path in sorted(engine.Path(engine.CHECKOUT, "src", "demo").glob("*.txt")):
            source = path.read_text("utf-8")
            answer = node.ask(source=source)
            if answer["count"] == 0 and "tables" in answer:
                found = engine.of_loader(puzzlescript.parse(source, path.name))
                assert found == engine.of_engine(answer["tables"]), path.name
                checked += 1
    assert checked > 80


def test_a_rule_becomes_one_rule_for_each_direction():
    game = puzzlescript.parse(MINIMAL)
    (group,) = game.main.rules
    assert [rule.direction for rule in group] == ["down", "down", "right", "right"]
    player, crate = (1 << game.objects.index(name) for name in ("player", "crate"))
    first = group[3].rows[0]
    assert [cell.op for cell in first] == [player, crate]
    # 8 is the bit of the movement to the right. Each layer has 5 bits; Player and Crate are on
    # layer 2.
    assert first[0].mp == first[1].replacement.ms == 8 << 5 * 2
    assert game.player == player and game.wins[0].kind == "all"


def test_in_rules_of_two_movements_the_first_varies_fastest():
    rules = parsed("right [ moving Player | moving Crate ] -> again").main.rules[0]
    layer = 5 * 2
    moves = [tuple(cell.mp >> layer for cell in rule.rows[0]) for rule in rules]
    ways = (1, 2, 4, 8, 16)
    assert moves == [(first, second) for second in ways for first in ways]


def test_a_created_object_has_no_movement():
    (rule,) = parsed("right [ > Player | ] -> [ | Crate ]").main.rules[0]
    assert rule.rows[0][1].replacement.mc == 31 << 5 * 2
    (rule,) = parsed("late right [ Player | ] -> [ | Crate ]").late.rules[0]
    assert rule.rows[0][1].replacement.mc == 0


def test_a_random_direction_on_the_left_stands_for_up_and_left():
    (rule,) = parsed("[ randomdir Player ] -> [ Player ]").main.rules[0]
    assert rule.rows[0][0].mp == 0b101 << 5 * 2
    assert rule.rows[0][0].replacement.mc == rule.rows[0][0].mp


def test_a_contradiction_in_any_cell_removes_a_rule_without_an_error():
    """A rule is removed with a warning if one of its cells contradicts itself (`Crate no Mob`).

    No error is reported for the other cell, which requires two objects of one layer.
    """
    rule = "right [ Player Crate | Crate no Mob ] -> [ | ]"
    game = parsed(rule, "Mob = Player or Crate")
    assert not game.main.rules and "asks for an object and for none of it" in game.warnings[0]


def test_levels_repeat_the_last_glyph_and_get_a_background():
    game = puzzlescript.parse(MINIMAL + "\nmessage Well (done)!\nP**\nO\n")
    first, message, second = game.levels
    assert (first.width, first.height, message) == (3, 1, "Well (done)!")
    goal, background = (1 << game.objects.index(name) for name in ("goal", "background"))
    assert second.cells[1::2] == (goal | background,) * 3
    assert all(cell & background for cell in first.cells)


def test_a_message_may_follow_a_comment():
    """Its text is the rest of the line, in lower case as in the engine."""
    game = puzzlescript.parse(MINIMAL + "\n(one) message Well done :(\n\nP**\n")
    _, message, level = game.levels
    assert message == "well done :(" and level.width == 3


def test_doubled_brackets_add_an_empty_row_to_each_side():
    rules = parsed("right [ [ > Player | Crate ] ] -> [ [ > Player | > Crate ] ]").main.rules[0]
    (rule,) = rules
    assert [len(row) for row in rule.rows] == [2, 1]


def test_text_behind_the_pixels_of_a_sprite_names_its_object():
    pixels = "00000\n" * 5
    source = MINIMAL.replace("Crate\nBrown", f"Crate\nBrown\n{pixels[:-1]};\n")
    game = puzzlescript.parse(source.replace("P*O", "P;O"))
    crate = 1 << game.objects.index("crate")
    assert [bool(cell & crate) for cell in game.levels[0].cells] == [False, True, False]


MISTAKES = [
    ("[ > Player | Crate ] -> [ > Player ]", "brackets on both sides"),
    ("[ > Player | Create ] -> [ > Player | ]", "CREATE is not defined"),
    ("> [ Player ] -> [ ]", "the direction of a rule is up, down"),
    ("[ Player > ] -> [ ]", "`>` needs an object after it"),
    ("[ > > Player ] -> [ ]", "one modifier at a time"),
    ("late [ > Player ] -> [ ]", "a late rule has no movements"),
    ("[ Player | Crate ]", "a rule needs an arrow"),
    ("[ Player ] -> [ ] boom", "`boom` is not a command; use cancel, restart"),
    ("[ Player Crate ] -> [ ]", "PLAYER and CRATE are on one layer"),
    ("[ ... | Player ] -> [ ... | ]", "`...` must be between two cells"),
    ("[ Player | ... | ... | Crate ] -> [ | ... | ... | ]", "two `...` need a cell between them"),
    ("[ Player | ... | | ... | | ... | ] -> win", "a row has at most two `...`"),
    ("late rigid [ Player ] -> [ ]", "a late rule cannot be rigid"),
    ("+ [ Player ] -> [ ]", "`+` joins a rule to the previous one"),
    ("startloop", "STARTLOOP without ENDLOOP"),
    ("endloop", "ENDLOOP outside of a loop"),
    ("[ Player ] -> [ Thing ]", "THING on the right: the left does not tell which of goal"),
    ("[ Player ] -> [ moving Player ]", "`moving` on the right"),
    ("[ no Both ] -> [ ]", "`no both`: BOTH is an aggregate"),
]


@pytest.mark.parametrize(("rule", "message"), MISTAKES)
def test_an_error_in_a_rule_names_its_line(rule, message):
    line = MINIMAL[: MINIMAL.index("[ >")].count("\n") + 1
    with pytest.raises(GameError) as error:
        parsed(rule, "Thing = Goal or Crate\nBoth = Goal and Crate")
    assert f"game:{line + 2}: " in str(error.value) and message in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Crate\nBrown", "Crate\nBrawn", "game:7: CRATE: 'brawn' is not a colour"),
        ("Goal\nYellow", "Goal\nYellow\n00200", "game:10: colour 2 does not exist: GOAL has 1"),
        ("Goal\nYellow", "Crate\nYellow", "CRATE is already defined"),
        (". = Background", ". = Ground", "game:11: GROUND is not defined"),
        (". = Background", ". = Goal and Crate or Player", "join names by `and` alone"),
        ("P = Player", "P Player", "game:12: a line of the legend is A = B"),
        ("Player, Crate", "Player", "game:6: CRATE is in no collision layer"),
        (
            "Background\nGoal\nPlayer, Crate",
            "Background, Goal\nPlayer, Crate",
            "alone on its layer",
        ),
        ("All Goal on Crate", "Every Goal", "a win condition is `all X on Y`"),
        ("P*O", "P*X", "game:25: `x` is not defined; add it to the legend"),
        ("P*O", "", "no levels; a game needs at least one that is not a message"),
        ("LEGEND\n", "", "section SOUNDS must follow section LEGEND"),
        ("Player\nWhite", "Hero\nWhite", "no object is called player"),
        ("SOUNDS", "SOUNDS\nCrate bang 12", "CRATE needs a verb: move"),
        ("OBJECTS", "zoom 3\nOBJECTS", "game:1: 'zoom' is not an option; use title"),
        ("OBJECTS", "color_palette 99\nOBJECTS", "palette '99': use mastersystem"),
    ],
)
def test_an_error_in_another_section_names_its_line(old, new, message):
    assert old in MINIMAL
    with pytest.raises(GameError) as error:
        puzzlescript.parse(MINIMAL.replace(old, new, 1))
    assert message in str(error.value)


def test_a_game_with_errors_loads_as_in_the_engine_on_request():
    source = MINIMAL.replace("Goal\nYellow", "Goal\nYellow Yallow", 1)
    game = puzzlescript.parse(source, "mine.txt", on_error="engine")
    assert game.errors == ("mine.txt:9: GOAL: 'yallow' is not a colour; give names or #rrggbb",)
    with pytest.raises(ValueError, match="on_error='skip'"):
        puzzlescript.parse(source, on_error="skip")


@pytest.mark.parametrize(
    "rule",
    [
        "[ Player ] -> [ vertical Player ]",
        "[ Player | Crate ] -> [ Player ]",
        "[ Player ] -> [ random Zed ]",
    ],
)
def test_errors_that_the_engine_does_not_tolerate_are_always_raised(rule):
    with pytest.raises(GameError):
        parsed(rule, on_error="engine")


def test_tabs_and_byte_order_marks_are_spaces():
    plain = puzzlescript.parse(f"title  A b\n{MINIMAL}")
    for source in (
        f"title\tA b\n{MINIMAL}",
        "\ufefftitle A b\n" + MINIMAL.replace("\n", "\ufeff\n"),
    ):
        assert puzzlescript.parse(source) == plain
    assert plain.prelude == {"title": "A b"}


def test_a_rule_that_stands_for_too_many_rules_is_an_error(monkeypatch):
    monkeypatch.setattr(expand, "MOST_RULES", 100)
    properties = " | ".join(["Thing"] * 8)
    for row in ("moving Crate | moving Crate | moving Crate", properties):
        with pytest.raises(GameError, match="stands for more than 100 rules; write one movement"):
            parsed(f"[ {row} ] -> again", "Thing = Goal or Crate")
    assert len(parsed("right [ moving Crate | moving Crate ] -> again").main.rules[0]) == 25


def test_a_long_line_of_arrows_is_read_quickly():
    with pytest.raises(GameError, match="a rule has only one arrow"):
        parsed("->" * 50_000)


def test_files_that_are_not_text_are_refused(tmp_path):
    path = tmp_path / "game.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GameError, match="not UTF-8"):
        puzzlescript.load(path)
    with pytest.raises(FileNotFoundError):
        puzzlescript.load(tmp_path / "none.txt")


@pytest.mark.parametrize("seed", range(2))
def test_corrupted_sources_raise_only_documented_errors(seed):
    draw = random.Random(seed)
    pieces = [
        "[",
        "]",
        "->",
        "|",
        "...",
        "(",
        ")",
        "=",
        "no",
        "late",
        "\n",
        "player",
        "+",
        "and",
        ">",
    ]
    for _ in range(10):
        source = list(PORTER)
        for _ in range(draw.randrange(1, 6)):
            start = draw.randrange(len(source))
            source[start : start + draw.choice([0, 1, 3, 40])] = draw.choice(pieces)
        try:
            puzzlescript.parse("".join(source))
        except GameError as error:
            assert str(error).startswith("game:")


def test_palettes_have_all_colours():
    for number, name in enumerate(PALETTES, 1):
        assert palette(name) == palette(str(number))
    assert palette("15") is None and palette("0") is None
    assert rgb("#f80", {}) == (255, 136, 0, 255) and rgb("transparent", {})[3] == 0
    assert rgb("white", palette("arnecolors")) == (255, 255, 255, 255)
