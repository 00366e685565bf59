"""Tests of fields of `PuzzleScript`: games and levels to draw from, observation, mask, shaping."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.puzzlescript import PuzzleScript, collection, observations
from jaxenvs.puzzlescript.selection import select

SMALL = "crates"
FEW = ("crates", "lodestone", "spring")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the path of a folder with the games in `FEW`, for the field `game`."""
    path = tmp_path_factory.mktemp("games")
    for game in FEW:
        shutil.copy(collection.SHIPPED / f"{game}.txt", path)
    return str(path)


def chosen(folder, levels="all", games=""):
    """Return the selected levels as a set of their indices in the collection."""
    places = select(collection.read(folder, None, "exact"), levels, games).places.tolist()
    assert len({*places}) == len(places)
    return {*places}


@pytest.mark.parametrize("game", ["shipped", SMALL])
def test_the_splits_are_disjoint_and_complete(game):
    train, test, every = (chosen(game, split) for split in ("train", "test", "all"))
    count = len(collection.read(game, None, "exact").game)
    assert train and test and not train & test
    assert train | test == every == {*range(count)}
    assert (train, test) == (chosen(game, "train"), chosen(game, "test"))


def test_a_split_does_not_depend_on_the_other_games(folder):
    alone = [chosen(game, "test") for game in FEW]
    first = collection.read(folder, None, "exact").first
    shifted = {
        place + at for places, at in zip(alone, first.tolist(), strict=True) for place in places
    }
    assert shifted == chosen(folder, "test")


def test_ranges_and_names_select(folder):
    read = collection.read(folder, None, "exact")
    assert read.levels.tolist() == [3, 4, 4]
    assert chosen(folder, "0:1") == {0, 3, 7}
    assert chosen(folder, "-1:") == {2, 6, 10}
    assert chosen(folder, "3:") == {6, 10}  # crates has no level 3
    assert chosen(folder, "::2", "crates") == {0, 2}
    assert chosen(folder, games="crates, spring") == chosen(folder, games="-lodestone")
    assert chosen(folder, games="crates,spring,-spring") == {0, 1, 2}


@pytest.mark.parametrize("fields", [{"levels": "train"}, {"levels": "test", "games": "-crates"}])
def test_resets_draw_the_selected_levels_only(folder, fields):
    env = PuzzleScript(game=folder, **fields)
    draw = jax.jit(jax.vmap(lambda key: env.draw_level(key, None).instance))
    drawn = draw(jax.random.split(jax.random.key(0), 2000))
    first = env.collection.first[np.asarray(drawn.game)]
    assert {*(first + np.asarray(drawn.number)).tolist()} == chosen(folder, **fields)
    start = np.asarray(drawn.start)
    is_same = start == env.collection.boards[first + np.asarray(drawn.number)]
    assert is_same.all()


def test_a_selection_keeps_the_spaces(folder):
    every, part = (
        PuzzleScript(game=folder),
        PuzzleScript(game=folder, games="spring", levels="test"),
    )
    assert part.observation_space == every.observation_space
    assert part.action_names == every.action_names


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"levels": "tset"}, "levels='tset' is not all, train, test or a range .* mean 'test'"),
        ({"levels": "0:9:0"}, "levels='0:9:0' is not"),
        ({"levels": "7:"}, "levels='7:' selects no level; .*: crates 3"),
        ({"level": 0, "levels": "test"}, "selects no level; .*: crates 1"),
        ({"games": "crate"}, "no game is called 'crate'; the games are crates; did you mean"),
        ({"games": "-crates"}, "leaves no game; the games are crates"),
        ({"mask": "none"}, "mask='none' is not one of 'changes', 'inputs'"),
        ({"observation": "name"}, "did you mean 'names'"),
        ({"shaping": -1.0}, "shaping=-1.0 is out of range"),
        ({"shaping": float("inf")}, "shaping=inf is out of range; it must be finite"),
        ({"shaping": float("nan")}, "shaping=nan is out of range"),
        ({"shaping": 1e39}, "shaping=1e\\+39 is out of range; it must be finite in float32"),
        ({"levels": "9" * 5000 + ":"}, "levels='9+:' is not all, train, test or a range"),
        ({"mask": np.array(["changes", "inputs"])}, "mask=array.* is not one of 'changes'"),
    ],
)
def test_a_wrong_selection_is_explained(fields, message):
    with pytest.raises(ValueError, match=message):
        PuzzleScript(**{"game": SMALL, **fields})


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        ("levels", 1, "levels must be a str, such as"),
        ("games", 1, "games must be a str, such as"),
        ("shaping", "1", "shaping must be a Python float, got str '1'"),
        ("shaping", True, "shaping must be a Python float, got bool True"),
    ],
)
def test_a_field_of_another_type_is_explained(field, given, message):
    with pytest.raises(TypeError, match=message):
        jaxenvs.make("PuzzleScript-v0", game=SMALL, **{field: given})


def test_games_share_the_names_of_objects(folder):
    env, own = (PuzzleScript(game=folder, observation=kind) for kind in ("names", "objects"))
    every = observations.names(env.collection)
    assert len({*every}) == len(every) == env.observation_space.shape[-1]
    assert {"player", "wall"} <= {*every}
    for g, game in enumerate(env.collection.games):
        level = env.level_of(0, g)
        shared = np.asarray(env.observe_board(level.instance, level.board))
        mine = np.asarray(own.observe_board(level.instance, level.board))
        for i, name in enumerate(game.objects):
            np.testing.assert_array_equal(shared[..., every.index(name)], mine[..., i])
        others = [i for i, name in enumerate(every) if name not in game.objects]
        assert not shared[..., others].any()


def test_sprites_are_the_pixels_of_the_picture():
    env = PuzzleScript(game=SMALL, observation="sprites")
    obs, state = env.reset(jax.random.key(0))
    side = env.collection.size.side
    pixels = np.asarray(obs).reshape(side, side, 5, 5, 3).swapaxes(1, 2).reshape(5 * side, -1, 3)
    np.testing.assert_array_equal(pixels, env.picture(state, 5))


@pytest.mark.full
def test_a_mask_of_inputs_allows_actions_without_effect():
    changes, inputs = (
        PuzzleScript(game=SMALL, level=0, mask=each) for each in ("changes", "inputs")
    )
    state = changes.reset(jax.random.key(0)).state
    assert not changes.action_mask(state).all() and inputs.action_mask(state).all()


@pytest.mark.full
def test_shaping_rewards_sum_to_the_decrease_of_missing_cells():
    shaped, plain = (PuzzleScript(game=SMALL, level=2, shaping=each) for each in (0.25, 0.0))
    level = plain.level_of(0)
    actions = plain.ending(level).actions
    totals = []
    for env in (shaped, plain):
        state = env.reset_to(jax.random.key(0), level).state
        step = jax.jit(env.step)
        total, ended = 0.0, False
        for action in actions:
            result = step(jax.random.key(0), state, jnp.int32(action))
            low, high = env.reward_range
            assert low <= float(result.reward) <= high
            state, total = result.state, total + float(result.reward)
            ended = bool(result.terminated)
        assert ended
        totals.append(total)
    assert totals == [1.5, 1.0]  # with shaping, each of the two targets that get a crate adds 0.25
