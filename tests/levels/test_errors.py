"""Tests of the errors that invalid texts of levels raise, and of randomly mutated texts."""

import random

import pytest
import texts
from defaults import with_full

import jaxenvs
from jaxenvs import levels

EMPTY = ["WGWGWGWGWG", "WG>>    WG", "WG      WG", "WG    GGWG", "WGWGWGWGWG"]
FUZZED = ("Grid-PutNear-6x6-N2-v0", "Puzzle-Sokoban-6x6-v0")
FUZZED_IN_FULL = ("BabyAI-BossLevel-v0", "BabyAI-KeyInBox-v0", "Grid-Dynamic-Obstacles-5x5-v0")
FUZZED_IN_FULL += ("Grid-ObstructedMaze-1Dlhb-v0", "XLand-R1-9x9-v0")


# Strings that random edits of a text insert.
NOISE = ("", " ", "\n", ",", ":", "0", "9" * 30, "-1", "G", ">>", "\0", "é")


def picture(**rows):
    """Return the picture `EMPTY` with some rows replaced; `r1="WG..."` replaces row 1."""
    return "\n".join(rows.get(f"r{i}", row) for i, row in enumerate(EMPTY))


# (text of a level of Grid-Empty-5x5, beginning of the error message, part of the message).
WRONG = [
    ("", "line 1, column 1", "the text is empty"),
    (picture(r2="WG    WG"), "line 3, column 9", "the row has 8 characters, the first row 10"),
    (">#.\n.#\n..G", "line 2", "2 characters, the first row 3; all rows are equally long"),
    (picture(r2="WG     WG"), "line 3, column 9", "an odd number"),
    (picture(r2="WG  XX  WG"), "line 3, column 5", "unknown pair 'XX'; known are two spaces, WG"),
    (picture(r1="WG      WG"), "line 1, column 1", "the picture has 0 agents, expected one"),
    (picture(r2="WG  <<  WG"), "line 3, column 5", "the picture has 2 agents, expected one"),
    (picture(r0="WG  WGWGWG"), "line 1, column 3", "draw a wall, WG"),
    (f"under: wall\ngrid:\n{picture()}", "line 1, column 8", "'wall' is no object that fits"),
    ("WGWGWGWG\nWG>>GGWG\nWGWGWGWG", "line 1, column 1", "the grid of this environment 5 and 5"),
    ("\n".join(["WG" * 6, "WG>>    GGWG", *["WG        WG"] * 3, "WG" * 6]), "line 1", "size=6"),
    (f"mission: get the ball\ngrid:\n{picture()}", "line 1, column 10", "no such mission"),
    (f"limit: 9\nlimit: 9\ngrid:\n{picture()}", "line 2", "`limit:` is given twice"),
    (f"limit: 9\nmax_steps_in_episode: 5\ngrid:\n{picture()}", "line 2", "are the same param"),
    (f"limit: many\ngrid:\n{picture()}", "line 1, column 8", "a number of dtype int32"),
    (f"limit: 0\ngrid:\n{picture()}", "line 1, column 8", "must be at least 1"),
    (f"limt: 9\ngrid:\n{picture()}", "line 1", "unknown name `limt`; allowed are"),
    (f"limt: 9\ngrid:\n{picture()}", "line 1", "did you mean 'limit'"),
    (f"id: Grid-DoorKey-5x5-v0\ngrid:\n{picture()}", "line 1, column 5", "no level of Empty"),
    (f"limit: 9\n{picture()}", "line 1", "no line `grid:`"),
    (f"nothing\ngrid:\n{picture()}", "line 1", "is not a line `name: value`"),
    (picture(r2="WG  \0\0  WG"), "line 3, column 5", "NUL byte"),
    (f"source: {'x' * 70_000}\ngrid:\n{picture()}", "line 1", "more than 65,536"),
    (f"{picture()}\n---\n{picture()}", "line 6", "read several with jaxenvs.levels.load"),
    (f"grey: 1,1\ngrid:\n{picture()}", "line 4, column 3", "whose pair does not end in G"),
    (f"grey: 9,1\ngrid:\n{picture()}", "line 1, column 7", "outside the grid"),
    (f"grey: a\ngrid:\n{picture()}", "line 1, column 7", "write `row,column`"),
    (f"carrying: red key\ngrid:\n{picture()}", "line 1, column 11", "starts with empty hands"),
    (f"task: 1\ngrid:\n{picture()}", "line 1, column 7", "have no task"),
    (f"contents: 1,2 red key\ngrid:\n{picture()}", "line 1", "only a grey box"),
]


def refuse(id, text, place, part):
    """Check that reading `text` as a level raises a `LevelError`.

    Its message must be a single line that starts with `place` and contains `part`.
    """
    with pytest.raises(levels.LevelError) as caught:
        jaxenvs.make(id).read_level(text)
    message = str(caught.value)
    assert message.startswith(place) and part in message and "\n" not in message


@pytest.mark.parametrize(("text", "place", "part"), WRONG)
def test_an_error_has_the_place_and_the_fault(text, place, part, as_a_user):
    refuse("Grid-Empty-5x5-v0", text, place, part)


ROOM = "WGWGWGWGWG\nWG>>  KRWG\nWG      WG\nWG  ABKRWG\nWGWGWGWGWG"
WRONG_MISSIONS = [
    ("", "line 1, column 1", "a level of BabyAI needs a mission"),
    ("go to the red key", "line 1, column 10", "2 objects of the picture fit its first"),
    ("go to the red key", "line 1, column 10", "so write `a` instead of `the`"),
    ("go to a blue ball", "line 1, column 10", "so write `the` instead of `a`"),
    ("go to the green ball", "line 1, column 10", "no object of the picture fits"),
    ("open the door", "line 1, column 10", "'open the door' is no instruction of this"),
    ("go to the moon", "line 1, column 10", "write one such as `go to the red ball`"),
    ("go to a red key and go to the blue ball", "line 1, column 10", "1 instruction at most"),
    ("go to a red key, then go to the blue ball", "line 1, column 10", "1 instruction at most"),
]


@pytest.mark.parametrize(("mission", "place", "part"), WRONG_MISSIONS)
def test_a_wrong_mission_is_an_error(mission, place, part):
    text = f"mission: {mission}\ngrid:\n{ROOM}" if mission else ROOM
    refuse("BabyAI-GoToLocalS5N2-v0", text, place, part)


def test_an_object_that_no_level_has_causes_a_warning():
    env = jaxenvs.make("Grid-Empty-5x5-v0")
    text = picture(r2="WG  VR  WG")
    with pytest.warns(levels.LevelWarning, match="line 3, column 5: no level of Empty has a lava"):
        env.read_level(text)
    with pytest.raises(levels.LevelError, match="no level of Empty has a lava"):
        levels.read(env, text, strict=True)


def originals(id):
    env = jaxenvs.make(id)
    if id.startswith("Puzzle"):
        drawn = [env.sample_level(key) for key in texts.jax.random.split(texts.jax.random.key(0))]
        return [env.level_text(level) for level in drawn]
    drawn, states = texts.drawn(id, 4)
    values = [texts.at(drawn, i) for i in range(4)] + [texts.at(states, i, 9 * i) for i in range(4)]
    return [levels.write(env, value) for value in values]


def mutated(rng, text):
    """Return a text after 1 to 4 random edits: copied cells or characters, or inserted noise."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = text or " "
        place, start = rng.randrange(len(text)), rng.randrange(len(text))
        piece = text[start : start + rng.choice((1, 2, 2, 12))]
        lines = [line for line in text.split("\n") if len(line) > 1 and ":" not in line]
        kind = rng.randrange(3) if lines else 1
        if kind == 0:
            old, new = rng.choice(lines), rng.choice(lines)
            at, of = (2 * rng.randrange(len(line) // 2) for line in (old, new))
            text = text.replace(old, old[:at] + new[of : of + 2] + old[at + 2 :], 1)
        elif kind == 1:
            text = text[:place] + piece + text[place + len(piece) :]
        else:
            noise = rng.choice([*NOISE, piece])
            text = text[:place] + noise + text[place + rng.randint(0, 3) :]
    return text


def fuzz(id, count):
    env, rng, wrong = jaxenvs.make(id), random.Random(id), 0
    good = originals(id)
    for _ in range(count):
        text = mutated(rng, rng.choice(good))
        try:
            found = levels.read(env, text)
        except levels.LevelError as error:
            assert "\n" not in str(error)
            wrong += 1
        else:  # no error: writing the level and reading the text must give the same level
            texts.assert_same(levels.read(env, levels.write(env, found)), found)
    return wrong


@pytest.mark.filterwarnings("ignore::jaxenvs.levels.LevelWarning")
@pytest.mark.parametrize("id", [*FUZZED, *with_full(*FUZZED_IN_FULL)])
def test_mutated_texts_raise_only_the_documented_error(id):
    assert fuzz(id, 60) > 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jaxenvs.levels.LevelWarning")
@pytest.mark.parametrize("id", FUZZED)
def test_ten_thousand_mutated_texts_raise_only_the_documented_error(id):
    assert fuzz(id, 10_000 // len(FUZZED) + 1) > 100
