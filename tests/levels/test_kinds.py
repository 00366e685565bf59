"""Tests of the kinds of levels among which a log distinguishes success."""

import types
from pathlib import Path

import jax.numpy as jnp
import pytest

import jaxenvs
from jaxenvs.babyai import mission as m
from jaxenvs.puzzlescript import PuzzleScript

BALL, DOOR = m.description(6, 0), m.description(4, 0)
ONE = {
    "go_to": m.go_to(BALL),
    "open": m.open_door(DOOR, strict=True),
    "pick_up": m.pick_up(BALL),
    "put_next": m.put_next(BALL, DOOR),
}
NO = jnp.zeros_like(ONE["open"])
AFTER = NO | 1 << m.AFTER


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        *((name, (word, NO, NO, NO)) for name, word in ONE.items()),
        ("and", (ONE["go_to"], ONE["open"], NO, NO)),
        ("sequence", (ONE["go_to"], NO, ONE["open"] | AFTER, NO)),
        ("sequence", (ONE["put_next"], ONE["open"], ONE["pick_up"], ONE["go_to"])),
    ],
)
def test_babyai_has_a_kind_for_each_verb_and_form(kind, words):
    env = jaxenvs.make("BabyAI-BossLevel-v0")
    # the highest bits of a mission's first instruction are the tile inside the boxes
    task = jnp.stack(words).at[0].add(jnp.uint32(5 << m.CONTENTS))
    found = int(env.level_kind(types.SimpleNamespace(task=task)))
    assert env.level_kinds[found] == kind


@pytest.mark.parametrize(
    ("id", "kinds"),
    [
        ("BabyAI-BossLevel-v0", ("go_to", "pick_up", "open", "put_next", "and", "sequence")),
        ("BabyAI-GoToSeq-v0", ("go_to", "and", "sequence")),
        ("BabyAI-Synth-v0", ("go_to", "pick_up", "open", "put_next")),
        ("BabyAI-ActionObjDoor-v0", ("go_to", "open", "pick_up")),
        ("BabyAI-GoToRedBall-v0", ()),
        ("BabyAI-PickupLoc-v0", ()),
        ("Grid-DoorKey-8x8-v0", ()),
    ],
)
def test_only_ids_whose_levels_differ_have_kinds(id, kinds):
    assert jaxenvs.make(id).level_kinds == kinds


def test_the_kind_of_a_short_mission():
    """Its array has one instruction."""
    env = jaxenvs.make("BabyAI-ActionObjDoor-v0")
    state = types.SimpleNamespace(task=m.single(ONE["pick_up"]))
    assert env.level_kinds[int(env.level_kind(state))] == "pick_up"


def test_puzzlescript_has_a_kind_for_each_level_or_game():
    env = PuzzleScript(game="crates")
    count = int(env.collection.levels[0])
    assert env.level_kinds == tuple(f"level_{number}" for number in range(count))
    ranged = PuzzleScript(game="crates", levels="1:3")
    assert ranged.level_kinds == ("level_1", "level_2")
    state = types.SimpleNamespace(instance=ranged.level_of(2).instance)
    assert int(ranged.level_kind(state)) == 1
    assert PuzzleScript(game="crates", level=0).level_kinds == ()


def test_games_of_equal_names_have_different_kinds(tmp_path):
    source = PuzzleScript(game="crates").collection.games[0].name
    text = next(Path(jaxenvs.__file__).parent.rglob(f"{Path(source).stem}.txt")).read_text()
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(text)
    assert PuzzleScript(game=str(tmp_path)).level_kinds == ("a_0", "a_1")


@pytest.mark.full
def test_puzzlescript_distinguishes_games():
    env = PuzzleScript(game="shipped", games="lodestone,crates")
    assert set(env.level_kinds) == {"lodestone", "crates"}
    for kind, name in enumerate(env.level_kinds):
        game = [Path(each.name).stem for each in env.collection.games].index(name)
        state = types.SimpleNamespace(instance=types.SimpleNamespace(game=jnp.int32(game)))
        assert int(env.level_kind(state)) == kind
