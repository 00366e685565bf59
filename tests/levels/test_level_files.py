"""Tests of level files, state files, and environments that draw levels from a fixed set.

The set is a level file or a list of levels, given as `jaxenvs.make(ID, levels=...)`.
"""

import json
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import texts
from defaults import with_full

import jaxenvs
from jaxenvs import levels, wrappers

ID = "Grid-DoorKey-5x5-v0"


@pytest.fixture(scope="module")
def env():
    return jaxenvs.make(ID)


@pytest.fixture(scope="module")
def drawn(env):
    return [jax.device_get(env.sample_level(jax.random.key(i))) for i in range(3)]


@pytest.fixture
def file(tmp_path, env, drawn):
    levels.save(tmp_path / "some.txt", drawn, env)
    return tmp_path / "some.txt"


def test_a_file_keeps_levels_params_and_notes(tmp_path, env, drawn):
    notes = {"author": "a person", "optimal": "12"}
    limited = env.with_params(max_steps_in_episode=9)
    levels.save(tmp_path / "some.txt", [levels.Entry(drawn[0], {}, notes), drawn[1]], limited)
    assert (
        (tmp_path / "some.txt").read_text().startswith(f"id: {ID}\nauthor: a person\noptimal: 12")
    )
    first, second = levels.load(tmp_path / "some.txt")  # the file names its environment's id
    texts.assert_same(first.level, drawn[0])
    texts.assert_same(second.level, drawn[1])
    assert first.params == {"max_steps_in_episode": 9}
    assert first.notes == {"id": ID, **notes}
    levels.save(tmp_path / "again.txt", [first, second])
    assert (tmp_path / "again.txt").read_text() == (tmp_path / "some.txt").read_text()


def test_a_byte_order_mark_is_accepted(file, drawn):
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert len(levels.load(file)) == len(drawn)


def test_a_folder_has_the_levels_of_its_files(tmp_path, env, drawn):
    for name, level in zip("bca", drawn, strict=True):
        levels.save(tmp_path / f"{name}.txt", [level], env)
    found = levels.load(tmp_path)
    for entry, level in zip(found, (drawn[2], drawn[0], drawn[1]), strict=True):
        texts.assert_same(entry.level, level)


def test_an_error_in_a_file_names_the_file_and_the_line(tmp_path, env, file):
    file.write_text(file.read_text().replace("KY", "QQ"))
    with pytest.raises(
        levels.LevelError, match=r"some.txt: line \d+, column \d+: unknown pair 'QQ'"
    ):
        levels.load(file, env)
    with pytest.raises(ValueError, match="no such file or folder"):
        levels.load(tmp_path / "missing.txt", env)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"the folder has no \.txt file"):
        levels.load(tmp_path / "empty", env)
    (tmp_path / "bare.txt").write_text(
        levels.write(env, levels.read(env, texts_of(env)), "minigrid")
    )
    with pytest.raises(levels.LevelError, match=r"the level has no line `id:`"):
        levels.load(tmp_path / "bare.txt")


def texts_of(env):
    return levels.write(env, env.sample_level(jax.random.key(0)))


@pytest.mark.parametrize("named", [None, "Grid-Empty-5x5-v0"])
def test_a_level_imports_no_module(tmp_path, monkeypatch, named):
    (tmp_path / "hostile_module.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "level.txt"
    path.write_text("id: hostile_module:Grid-Empty-5x5-v0\ngrid:\nWGWG\n")
    env = named and jaxenvs.make(named)
    with pytest.raises(levels.LevelError, match="names a module, which a level cannot import") as e:
        levels.load(path, env)
    assert (e.value.line, e.value.column) == (1, 5) and "hostile_module" not in sys.modules


def test_a_folder_is_read_past_pipes_and_folders(tmp_path, env, drawn):
    (tmp_path / "a.txt").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "b.txt")
    (tmp_path / "c.txt").write_text(levels.write(env, drawn[0]))
    assert len(levels.load(tmp_path, env)) == 1


def test_a_text_in_place_of_a_path_is_an_error(env, drawn):
    with pytest.raises(ValueError, match="no such file or folder"):
        levels.load(levels.write(env, drawn[0]) * 100, env)


def test_episodes_begin_in_the_levels_of_a_file(file, drawn):
    env = jaxenvs.make(ID, levels=str(file))
    venv = jaxenvs.make_vec(env, 64)
    grids = np.asarray(jax.jit(venv.reset)(jax.random.key(0)).state.env.grid)
    which = [(grids == level.grid).all(axis=(1, 2)) for level in drawn]
    counts = np.array(which).sum(axis=1)
    assert counts.sum() == 64 and (counts > 5).all()
    assert jaxenvs.make(ID, levels=drawn).levels == env.levels
    assert "<3 levels of" in repr(env)


def test_later_episodes_begin_in_the_levels_too(file, drawn):
    venv = jaxenvs.make_vec(ID, 8, levels=str(file), max_steps_in_episode=2)
    state = venv.reset(jax.random.key(0)).state
    step = jax.jit(venv.step)
    for turn in range(5):
        state = step(jax.random.key(turn), state, jnp.zeros(8, jnp.int32)).state
        for grid in np.asarray(state.env.grid):
            assert any((grid == level.grid).all() for level in drawn)


@pytest.mark.parametrize("source", ["exact", *with_full("fresh", "stock")])
def test_levels_that_a_generator_might_reject_are_drawn(source):
    env = jaxenvs.make("BabyAI-GoToLocalS5N2-v0")
    drawn = [jax.device_get(env.sample_level(jax.random.key(i))) for i in range(2)]
    made = jaxenvs.make("BabyAI-GoToLocalS5N2-v0", levels=drawn, max_steps_in_episode=2)
    venv = jaxenvs.make_vec(made, 8, reset_source=source)
    state = venv.reset(jax.random.key(0)).state
    step = jax.jit(venv.step)
    for turn in range(4):
        state = step(jax.random.key(turn), state, jnp.zeros(8, jnp.int32)).state
    for task, marks in zip(np.asarray(state.env.task), np.asarray(state.env.marks), strict=True):
        assert any((task == level.task).all() and (marks == level.marks).all() for level in drawn)


def test_params_of_a_file_apply_unless_others_are_given(tmp_path, env, drawn):
    limited = env.with_params(max_steps_in_episode=9)
    levels.save(tmp_path / "some.txt", drawn, limited)
    path = str(tmp_path / "some.txt")
    assert jaxenvs.make(ID, levels=path).default_params.max_steps_in_episode == 9
    made = jaxenvs.make(ID, levels=path, max_steps_in_episode=7)
    assert made.default_params.max_steps_in_episode == 7
    mixed = [levels.Entry(drawn[0], {"max_steps_in_episode": n}) for n in (7, 8)]
    with pytest.raises(ValueError, match="all levels of a file share their params"):
        jaxenvs.make(ID, levels=mixed)


def test_states_and_levels_of_other_sizes_are_refused(env, drawn):
    state = env.reset(jax.random.key(0)).state
    with pytest.raises(ValueError, match="level 0 is a state"):
        jaxenvs.make(ID, levels=[state])
    with pytest.raises(TypeError, match=r"level 0: level.grid has shape \(5, 5\)"):
        jaxenvs.make("Grid-DoorKey-6x6-v0", levels=drawn)
    with pytest.raises(ValueError, match="at least one"):
        jaxenvs.make(ID, levels=[])


def test_equal_sets_of_levels_share_a_compiled_program(drawn):
    first, second = (jaxenvs.make(ID, levels=drawn) for _ in range(2))
    assert first == second and hash(first) == hash(second)
    assert first != jaxenvs.make(ID, levels=drawn[:2])


def test_a_saved_state_continues_bit_for_bit(tmp_path):
    env = jaxenvs.make("BabyAI-OpenRedDoor-v0")
    state = env.reset(jax.random.key(3)).state
    levels.save_state(tmp_path / "state.npz", env, state)
    loaded = levels.load_state(tmp_path / "state.npz", env)
    texts.assert_same(loaded, jax.device_get(state))
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), state)
    levels.save_state(tmp_path / "batch.npz", env, batch)
    texts.assert_same(levels.load_state(tmp_path / "batch.npz", env), jax.device_get(batch))


def test_a_state_of_another_environment_or_version_is_refused(tmp_path, env):
    path = tmp_path / "state.npz"
    levels.save_state(path, env, env.reset(jax.random.key(0)).state)
    with pytest.raises(
        ValueError, match="has id 'Grid-DoorKey-5x5-v0', here it is 'Grid-DoorKey-6"
    ):
        levels.load_state(path, jaxenvs.make("Grid-DoorKey-6x6-v0"))
    with pytest.raises(ValueError, match=r"has environment .*, here it is"):
        levels.load_state(path, jaxenvs.make(ID, view_size=5))
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"]))
    arrays["about"] = np.array(json.dumps({**about, "version": "0.0"}))
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"has version '0.0', here it is"):
        levels.load_state(path, env)
    path.write_bytes(b"no state")
    with pytest.raises(ValueError, match="is no file of save_state"):
        levels.load_state(path, env)


def test_wrappers_stay_around_levels_that_set_fields():
    env = jaxenvs.make("XLand-R1-9x9-v0")
    text = levels.write(env, env.sample_level(jax.random.key(0)))
    lines = "task: map: red ball, blue square\ntask: goal: hold(red ball)\ngrid:"
    entry = levels.parse(env, text.replace("grid:", lines))
    assert entry.fields
    made = levels.from_levels(wrappers.TimeLimit(env, 7), [entry])
    bare = levels.from_levels(env, [entry])
    assert made.unwrapped == bare.unwrapped != env
    assert int(made.time_limit(made.reset(jax.random.key(0)).state, made.default_params)) == 7


def test_one_level_in_place_of_a_list_is_refused(tmp_path, env, drawn, as_a_user):
    for one in (drawn[0], levels.stack(drawn)):
        with pytest.raises(TypeError, match="give a list of levels, got one"):
            levels.from_levels(env, one)
        with pytest.raises(TypeError, match="give a list of levels, got one"):
            levels.save(tmp_path / "a.txt", one, env)
    with pytest.raises(ValueError, match="no levels were given"):
        levels.save(tmp_path / "a.txt", [], env)
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("notes", [{"title": "a\n---\nb"}, {"title": "a\n"}, {"colour": "red"}])
def test_notes_that_cannot_be_read_are_refused(env, drawn, notes):
    with pytest.raises(ValueError, match="must be one line, with one of the names seed, source"):
        levels.write(env, levels.Entry(drawn[0], notes=notes))
    with pytest.raises(ValueError, match="has no param 'speed'; params: "):
        levels.write(env, levels.Entry(drawn[0], {"speed": 1}))


@pytest.mark.parametrize("value", [-5, 0, 1.5, "abc", "7\nfoo: 3"])
def test_params_that_cannot_be_read_are_refused(env, drawn, value):
    with pytest.raises(ValueError, match="the param max_steps_in_episode="):
        levels.write(env, levels.Entry(drawn[0], {"max_steps_in_episode": value}))


def test_a_state_of_a_wrapper_is_no_level(env):
    wrapped = wrappers.LogWrapper(env)
    with pytest.raises(TypeError, match=r"give a level of env\.sample_level or levels\.read"):
        levels.write(wrapped, wrapped.reset(jax.random.key(0)).state)
