"""Tests of `PuzzleScript-v0`: fields, packed boards, text, masks, search, and folders of games."""

import errno
import re
import shutil
from pathlib import Path

import engine
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs import puzzlescript, search
from jaxenvs.puzzlescript import GameError, PuzzleScript, boards, collection, features, glyphs
from jaxenvs.puzzlescript.features import is_random

GAMES = sorted(path.stem for path in collection.SHIPPED.glob("*.txt"))
ALL = str(collection.SHIPPED)
SMALL = "crates"
# The game `shade` does not have the action `action`, and `wildfire` has the action `tick`.
FEW = ("crates", "lodestone", "shade", "wildfire")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Return an environment of the games in `FEW`, and its compiled step for batches."""
    folder = tmp_path_factory.mktemp("games")
    for game in FEW:
        shutil.copy(collection.SHIPPED / f"{game}.txt", folder)
    env = PuzzleScript(game=str(folder), again_limit=20)
    return env, jax.jit(jax.vmap(env.step, (0, 0, 0)))


def levels(env):
    """Return all levels of an environment, stacked."""
    counts = env.collection.levels
    found = [env.level_of(n, game) for game in range(len(counts)) for n in range(counts[game])]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)


@pytest.mark.full
def test_boards_survive_packing_in_random_play(everything):
    env, step = everything
    level = levels(env)
    count = len(level.instance.game)
    keys = jax.random.split(jax.random.key(0), count)
    state = jax.vmap(lambda key, one: env.reset_to(key, one).state)(keys, level)

    @jax.jit
    @jax.vmap
    def packed_again(instance, words):
        board = boards.unpacked(env.collection, instance, words)
        return boards.packed(env.collection, instance, board), board.objects

    draw = np.random.default_rng(0)
    seen = set()
    for _ in range(8):
        words, objects = packed_again(state.instance, state.board)
        np.testing.assert_array_equal(words, state.board)
        same_level = zip(np.asarray(state.instance.start), np.asarray(words), objects, strict=True)
        for start, mine, planes in same_level:
            seen.add((start.tobytes(), mine[:-1].tobytes(), np.asarray(planes).tobytes()))
        actions = jnp.asarray(draw.integers(0, env.num_actions, count), jnp.int32)
        state = step(keys, state, actions).state
    # Packing is one-to-one in each level: boards are equal exactly if their words are equal.
    assert len({(start, planes) for start, _, planes in seen}) == len(seen)
    assert len({(start, words) for start, words, _ in seen}) == len(seen)


@pytest.mark.full
def test_boards_keep_several_objects_of_a_layer(tmp_path):
    """A packed board can store two objects of one layer in the same cell.

    In the game of this test, play can lead to such a cell: a rule keeps a crate and adds a random
    object of the crate's layer.
    """
    source = (collection.SHIPPED / "crates.txt").read_text("utf-8")
    source = source.replace("O = Target", "O = Target\nThing = Wall or Crate", 1)
    rule = "[ > Player | Crate ] -> [ > Player | Crate random Thing ]"
    path = tmp_path / "both.txt"
    path.write_text(source.replace("[ > Player | Crate ] -> [ > Player | > Crate ]", rule), "utf-8")
    env = PuzzleScript(game=str(path), level=0)
    level = env.level_of(0)
    board = boards.unpacked(env.collection, level.instance, level.board)
    wall, crate = (env.collection.games[0].objects.index(name) for name in ("wall", "crate"))
    objects = board.objects.at[wall].set(board.objects[wall] | board.objects[crate])
    words = boards.packed(env.collection, level.instance, board._replace(objects=objects))
    again = boards.unpacked(env.collection, level.instance, words)
    np.testing.assert_array_equal(again.objects, objects)


@pytest.mark.full
def test_an_action_that_a_game_lacks_changes_nothing(everything):
    env, step = everything
    lacking = [(g, a) for g in range(len(FEW)) for a in range(6) if not env._allowed[g, a]]
    assert {a for _, a in lacking} == {4, 5}  # indices of the actions `action` and `tick`
    level = jax.tree.map(lambda *x: jnp.stack(x), *(env.level_of(0, g) for g, _ in lacking))
    keys = jax.random.split(jax.random.key(0), len(lacking))
    state = jax.vmap(lambda key, one: env.reset_to(key, one).state)(keys, level)
    after = step(keys, state, jnp.array([a for _, a in lacking], jnp.int32)).state
    np.testing.assert_array_equal(after.board, state.board)


def test_reset_draws_all_games_and_levels(everything):
    env, _ = everything
    draw = jax.jit(jax.vmap(lambda key: env.draw_level(key, None).instance))
    drawn = draw(jax.random.split(jax.random.key(0), 600))
    pairs = set(
        zip(np.asarray(drawn.game).tolist(), np.asarray(drawn.number).tolist(), strict=True)
    )
    assert pairs == {(g, n) for g, count in enumerate(env.collection.levels) for n in range(count)}
    assert np.bincount(drawn.game).min() > 600 / len(FEW) / 2


@pytest.mark.parametrize("game", [*FEW, *with_full(*(game for game in GAMES if game not in FEW))])
def test_levels_survive_text(game):
    env = PuzzleScript(game=game)
    for number in range(env.collection.levels[0]):
        level = env.level_of(number)
        # With `run_rules_on_level_start`, `level.board` is the board after a first turn. Write the
        # board before this turn, because `read_level` plays the turn again.
        board = boards.unpacked(env.collection, level.instance, level.board)
        board = board._replace(objects=level.instance.start)
        start = boards.packed(env.collection, level.instance, board)
        read = env.read_level(env.text(level.instance, start))
        np.testing.assert_array_equal(read.instance.start, level.instance.start)
        np.testing.assert_array_equal(read.board, level.board)


def test_a_name_of_an_object_that_is_listed_twice_means_its_last_number(tmp_path):
    """Only the last number is used by the game, so a level with the first would be inert."""
    source = (collection.SHIPPED / "crates.txt").read_text("utf-8")
    source = source.replace("Player, Wall, Crate", "Crate\nPlayer, Wall, Crate", 1)
    path = tmp_path / "twice.txt"
    path.write_text(source, "utf-8")
    game = PuzzleScript(game=str(path)).collection.games[0]
    numbers = [i for i, name in enumerate(game.objects) if name == "crate"]
    assert len(numbers) == 2
    cells = glyphs.parsed(game, "a\na = crate")
    assert cells == [[1 << numbers[-1] | 1 << game.background]]


@pytest.mark.parametrize("game", GAMES)
def test_a_level_copied_from_the_source_is_the_level(game):
    """`read_level` gives cells without a background the same background as the game's loader."""
    source = (collection.SHIPPED / f"{game}.txt").read_text("utf-8")
    env = PuzzleScript(game=game)
    for level in env.collection.games[0].levels:
        if isinstance(level, str):
            continue
        rows = source.splitlines()[level.line - 1 : level.line - 1 + level.height]
        cells = glyphs.parsed(env.collection.games[0], "\n".join(rows))
        assert tuple(row[x] for x in range(level.width) for row in cells) == level.cells


def test_text_names_cells_without_a_glyph():
    env = PuzzleScript(game=SMALL)
    level = env.read_level("a.P\nO*.\na = target and wall")
    text = env.text(level.instance, level.board)
    assert text.splitlines()[-1].endswith(" = target and wall")
    read = env.read_level(text)
    np.testing.assert_array_equal(read.board, level.board)


def test_text_survives_other_backgrounds_capitals_and_many_kinds_of_cells(tmp_path):
    source = (collection.SHIPPED / "crates.txt").read_text("utf-8")
    source = source.replace("Wall #", "Grass ,\ngreen\n\nWall #", 1)
    source = source.replace("Background = Floor", "Background = Floor or Grass", 1)
    source = source.replace(
        "LAYERS\n================\n\nFloor", "LAYERS\n================\n\nFloor, Grass", 1
    )
    colours = [f"thing{i}\nred\n" for i in range(6)]
    source = source.replace("======\nLEGEND", "\n".join(colours) + "\n======\nLEGEND", 1)
    layers = "\n".join(f"thing{i}" for i in range(6))
    source = source.replace("Player, Wall, Crate", f"Player, Wall, Crate\n{layers}", 1)
    path = tmp_path / "many.txt"
    path.write_text(source, "utf-8")
    env = PuzzleScript(game=str(path))
    level = env.read_level("AP,\n#.,\nA = Wall and Grass")
    text = env.text(level.instance, level.board)
    np.testing.assert_array_equal(env.read_level(text).instance.start, level.instance.start)
    game = env.collection.games[0]
    kinds = [1 << game.background | i << len(game.objects) - 6 for i in range(64)]
    cells = [kinds[:32], kinds[32:]]
    assert glyphs.parsed(game, glyphs.written(game, cells)) == cells
    # A cell without a background gets the first one of the drawing, searched column by column.
    floor, grass, player = (1 << game.objects.index(name) for name in ("floor", "grass", "player"))
    assert glyphs.parsed(game, "P.\n,P") == [
        [player | grass, floor],
        [grass, player | grass],
    ]
    # A cell whose background was removed is written with the default background.
    assert glyphs.parsed(game, glyphs.written(game, [[player, 0, grass]])) == [
        [player | floor, floor, grass]
    ]
    draw = np.random.default_rng(0)
    choices = [floor, grass, player | floor, player | grass]
    for _ in range(300):
        cells = draw.choice(choices, (draw.integers(1, 4), draw.integers(1, 4))).tolist()
        assert glyphs.parsed(game, glyphs.written(game, cells)) == cells


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("##\n#?", "line 2, column 2: '?' is not a glyph of the game; known are"),
        ("##\n##\na = wal", "line 3: 'wal' is not an object; the objects are floor, target"),
        ("", "the level is empty"),
        ("#.\n#.?", "line 2, column 3: '?' is not a glyph of the game; known are"),
        ("#" * 30, "the level has 30 x 1 cells; this environment's levels have at most"),
    ],
)
def test_a_wrong_level_is_explained(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        PuzzleScript(game=SMALL).read_level(text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"game": "crate"}, "no such file or folder; the shipped games are .*crates"),
        ({"level": 99}, "level=99, but there are 3 levels, numbered from 0"),
        ({"level": 0, "game": ALL}, "a level can be chosen of one game, not of"),
        ({"size": "tiny"}, "size='tiny' is not one of 'exact', 'auto', 'small'"),
        ({"observation": "pixels"}, "observation='pixels' is not one of 'objects', 'planes'"),
        ({"again_limit": -1}, "again_limit=-1 is out of range; it must be from 0 to 1000000"),
        ({"again_limit": 2**31}, "again_limit=2147483648 is out of range"),
        ({"game": ""}, "game='': no such file or folder; the shipped games are"),
        ({"game": "a" * 5000}, "no such file or folder"),
        ({"game": "~nobody/games"}, "game='~nobody/games': no such file or folder"),
    ],
)
def test_a_wrong_field_is_explained(fields, message):
    with pytest.raises(ValueError, match=message):
        PuzzleScript(**{"game": SMALL, **fields})


def test_a_game_too_large_for_a_size_is_explained(tmp_path):
    source = (collection.SHIPPED / "crates.txt").read_text("utf-8")
    wide = tmp_path / "wide.txt"
    wide.write_text(source.replace("######\n#O...#", "#" * 70 + "\n#O...#"), "utf-8")
    assert PuzzleScript(game=str(wide)).collection.size.side == 70
    for size, most in (("small", 16), ("large", 64), ("auto", 64)):
        with pytest.raises(GameError, match=rf"wide.txt has 70 cells .* \({most} fit\)"):
            PuzzleScript(game=str(wide), size=size)


@pytest.mark.parametrize(
    ("path", "draws", "rigid", "middle"),
    [
        (engine.HERE / "games" / "bodies.txt", False, 7, 0),
        (engine.HERE / "games" / "beams.txt", True, 0, 2),
        (collection.SHIPPED / "garden.txt", True, 0, 0),
        (collection.SHIPPED / "crates.txt", False, 0, 0),
    ],
    ids=lambda value: getattr(value, "stem", None),
)
def test_a_named_size_is_extended_only_by_the_rare_features_of_the_game(path, draws, rigid, middle):
    found = features.report(puzzlescript.load(path))
    assert found.fits == "small"
    used = {name.split()[0] for name in found.features}
    assert ("random" in used, "rigid" in used, "two" in used) == (draws, rigid > 0, middle > 0)
    for name in ("small", "auto"):
        size = PuzzleScript(game=str(path), size=name).collection.size
        assert (size.side, size.draws, size.rigid, size.middle) == (16, draws, rigid, middle)


def test_a_game_of_messages_is_explained(tmp_path):
    source = (collection.SHIPPED / "crates.txt").read_text("utf-8")
    path = tmp_path / "talk.txt"
    path.write_text(source[: source.index("#######\n#..O")], "utf-8")
    with pytest.raises(GameError, match="a game needs at least one that is not a message"):
        PuzzleScript(game=str(path))


def test_an_environment_keeps_its_games_when_files_change(tmp_path):
    path = tmp_path / "mine.txt"
    shutil.copy(collection.SHIPPED / "crates.txt", path)
    env = PuzzleScript(game=str(path))
    side = env.collection.size.side
    path.write_text("", "utf-8")
    collection.read.cache_clear()
    assert env.collection.size.side == side


def test_an_empty_folder_is_explained(tmp_path):
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(GameError, match=r"the folder has no \.txt file"):
        PuzzleScript(game=str(tmp_path))


def test_a_random_game_cannot_be_searched(everything):
    env, _ = everything
    name = next(game.name for game in env.collection.games if is_random(game))
    with pytest.raises(ValueError, match=f"{name} draws random numbers, so no search is possible"):
        env.neighbours(env.level_of(0).instance, env.level_of(0).board)
    assert env.action_mask(env.reset(jax.random.key(0)).state).sum() in (4, 5, 6)


@pytest.mark.full
def test_a_named_size_plays_like_the_exact_one():
    exact, small = (PuzzleScript(game=SMALL, level=0, size=size) for size in ("exact", "small"))
    states = [env.reset(jax.random.key(0)).state for env in (exact, small)]
    for action in (2, 3, 0, 1, 1, 2):
        masks = [env.action_mask(state) for env, state in zip((exact, small), states, strict=True)]
        np.testing.assert_array_equal(*masks)
        states = [
            env.step(jax.random.key(0), state, action).state
            for env, state in zip((exact, small), states, strict=True)
        ]
        texts = [
            env.text(s.instance, s.board) for env, s in zip((exact, small), states, strict=True)
        ]
        assert texts[0] == texts[1]


@pytest.mark.full
def test_search_proves_the_length_that_breadth_first_finds():
    env = PuzzleScript(game=SMALL, level=0)
    level = env.level_of(0)
    shortest = len(env.ending(level).actions)
    for count in (False, True):
        puzzle = PuzzleScript(game=SMALL, level=0, count=count)
        found = search.astar(puzzle, level, batch_size=64, node_budget=20_000)
        assert bool(found.solved) and int(found.cost) >= shortest
        assert count or (bool(found.optimal) and int(found.cost) == shortest)


@pytest.mark.full
def test_games_of_a_folder_play_as_alone(tmp_path, everything):
    env, step = everything
    for game in ("crates", "lodestone"):
        alone, number = PuzzleScript(game=game), FEW.index(game)
        key, state = jax.random.key(0), alone.reset_to(jax.random.key(0), alone.level_of(0)).state
        both = env.reset_to(key, env.level_of(0, number)).state
        for action in (3, 2, 1, 1, 0, 3):
            state = alone.step(key, state, action).state
            batch = jax.tree.map(lambda leaf: leaf[None], both)
            actions = jnp.array([action], jnp.int32)
            both = jax.tree.map(lambda leaf: leaf[0], step(key[None], batch, actions).state)
            text = alone.text(state.instance, state.board)
            assert env.text(both.instance, both.board) == text


def test_the_command_reports_features_and_errors(tmp_path, capsys, monkeypatch):
    from jaxenvs import cli

    bad = tmp_path / "bad.txt"
    bad.write_text(engine.GAMES[0].read_text("utf-8").replace("Player", "Playr", 1), "utf-8")
    shutil.copy(collection.SHIPPED / "crates.txt", tmp_path)
    assert cli.main(["games", "check", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "Crates\n  3 levels, 5 objects, 4 rules after expansion\n" in out
    assert "size: small; search" in out and "1 of 2 games can be played" in out
    assert f"{bad}" in err and "no object is called player" in err
    assert cli.main(["games", "check", str(tmp_path / "none")]) == 2
    assert "no such file or folder; the shipped games are" in capsys.readouterr().err
    monkeypatch.setattr(Path, "read_text", unreadable)
    assert cli.main(["games", "check", "crates"]) == 1
    assert "Permission denied: 'crates.txt'" in capsys.readouterr().err


def unreadable(path, *_):
    """Raise the error that reading a file without permission raises."""
    raise PermissionError(errno.EACCES, "Permission denied", path.name)


def test_make_passes_the_fields():
    env = jaxenvs.make("PuzzleScript-v0", game=SMALL, level=1, observation="planes")
    obs, state = env.reset(jax.random.key(0))
    assert obs.dtype == jnp.uint32 and int(state.instance.number) == 0
    assert env.describe(state).startswith("Crates. ")
