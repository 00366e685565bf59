"""Tests of datasets: reading returns what was written, Minari can read it, errors name faults."""

import json
import shutil
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import demos
from jaxenvs.core.spaces import Box, Dict, Discrete, MultiDiscrete
from jaxenvs.demos import DemosError, layout, reading

pytest.importorskip("h5py")
NAME = "here/some/mine-v0"


def played(env, count=3, limit=7, seed=0):
    """Return episodes of random play."""

    def choose(key, obs, state, memory):
        size = len(jax.tree.leaves(obs)[0])
        return memory, jax.vmap(env.action_space.sample)(jax.random.split(key, size))

    env = env.with_params(max_steps_in_episode=limit)
    levels = jax.vmap(env.sample_level)(jax.random.split(jax.random.key(seed), count))
    return demos.Recorder(env, choose).play(count, jax.random.key(1), levels, ())


def written(folder, env, episodes, id="BabyAI-GoToLocal-v0", **metadata):
    writer = demos.Writer(NAME, env, id, {"view_size": 7}, folder)
    for episode in episodes:
        writer.add(episode)
    return writer.finish(**metadata)


@pytest.fixture(scope="module")
def baby():
    env = jaxenvs.make("BabyAI-GoToLocal-v0", view_size=7)
    return env, played(env)


def assert_equal(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)
    assert jax.tree.map(lambda leaf: leaf.dtype, left) == jax.tree.map(
        lambda leaf: leaf.dtype, right
    )


@pytest.mark.full
def test_a_recorded_episode_is_the_episode_of_its_actions(baby):
    """Replaying a recorded episode's actions gives the recorded observations, rewards and ends.

    Observation i precedes action i, and the last observation follows the last action.
    """
    env, episodes = baby
    env = env.with_params(max_steps_in_episode=7)
    level = jax.tree.map(
        lambda leaf: leaf[1],
        jax.vmap(env.sample_level)(jax.random.split(jax.random.key(0), 3)),
    )
    episode = episodes[1]
    obs, state = env.reset_to(jax.random.key(5), level)
    assert_equal(jax.tree.map(lambda leaf: leaf[0], episode.obs), jax.device_get(obs))
    for at in range(len(episode)):
        step = env.step(jax.random.key(5), state, jnp.int32(episode.action[at]))
        state = step.state
        seen = jax.tree.map(lambda leaf, at=at: leaf[at + 1], episode.obs)
        assert_equal(seen, jax.device_get(step.obs))
        assert episode.reward[at] == step.reward
        assert (episode.terminated[at], episode.truncated[at]) == (step.terminated, step.truncated)
        assert bool(step.done) == (at == len(episode) - 1)


def test_what_is_written_is_read(tmp_path, baby):
    env, episodes = baby
    given = [
        demos.Episode(**{**vars(e), "options": {"level": f"a\nb {i}"}, "infos": infos(e)})
        for i, e in enumerate(episodes)
    ]
    path = written(tmp_path, env, given, mine="x")
    found = demos.load(NAME, env, tmp_path)
    assert found.episodes == 3 and found.metadata["mine"] == "x"
    for number, episode in enumerate(given):
        read = found.episode(number)
        assert_equal(
            (read.obs, read.action, read.reward), (episode.obs, episode.action, episode.reward)
        )
        assert_equal(read.terminated, episode.terminated)
        assert_equal(dict(read.infos), dict(episode.infos))
        assert dict(read.options) == episode.options
    assert_equal(
        demos.load(path).obs, found.obs | {"direction": found.obs["direction"].astype(int)}
    )
    assert demos.load(path).action.dtype == np.int64  # dtype of a Discrete space in Minari
    steps = jax.tree.map(lambda leaf: leaf[found.obs_index[int(found.starts[2])]], found.obs)
    assert_equal(steps, jax.tree.map(lambda leaf: leaf[0], given[2].obs))
    np.testing.assert_allclose(found.returns, [e.reward.sum() for e in given], rtol=1e-6)


def infos(episode):
    return {"optimal_steps": np.arange(len(episode) + 1, dtype=np.int32)}


def test_minari_opens_a_dataset(tmp_path, monkeypatch, baby):
    """Minari reads the spaces and all values, and every value is an element of its space."""
    minari = pytest.importorskip("minari", reason="Minari is not installed")
    env, episodes = baby
    given = [
        demos.Episode(**{**vars(e), "options": {"level": "a"}, "infos": infos(e)}) for e in episodes
    ]
    scores = {"ref_min_score": 0.0, "ref_max_score": 0.5, "num_episodes_average_score": 3}
    written(tmp_path, env, given, algorithm_name="random", author=["a"], **scores)
    monkeypatch.setenv(layout.ROOT, str(tmp_path))
    assert set(minari.list_local_datasets()) == {NAME}
    assert {"here", "here/some"} <= set(minari.namespace.list_local_namespaces())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari warns if jaxenvs is not installed
        data = minari.load_dataset(NAME)
        made = data.recover_environment()
    assert data.total_episodes == 3 and data.total_steps == sum(map(len, given))
    assert not data.storage.jpeg_encoding
    assert data.observation_space == made.observation_space
    assert data.action_space == made.action_space
    assert made.unwrapped.jaxenv == env
    assert minari.get_normalized_score(data, np.array([0.25])) == [0.5]
    for episode, mine in zip(data.iterate_episodes(), given, strict=True):
        jax.tree.map(np.testing.assert_array_equal, episode.observations, dict(mine.obs))
        np.testing.assert_array_equal(episode.actions, mine.action)
        assert episode.actions.dtype == np.int64
        assert all(data.action_space.contains(action) for action in episode.actions)
        for at in range(len(mine) + 1):
            row = jax.tree.map(lambda leaf, at=at: leaf[at], episode.observations)
            row["direction"] = np.int64(row["direction"])
            assert data.observation_space.contains(row)
        assert len(episode.infos["optimal_steps"]) == len(mine) + 1
    assert [m["options"]["level"] for m in data.storage.get_episode_metadata(range(3))] == ["a"] * 3


def test_a_dataset_of_minari_is_read(tmp_path, monkeypatch):
    """Minari stores minigrid's missions as text; loading converts them to the env's word ids."""
    minari = pytest.importorskip("minari", reason="Minari is not installed")
    gymnasium = pytest.importorskip("gymnasium")
    monkeypatch.setenv(layout.ROOT, str(tmp_path))
    space = gymnasium.spaces.Dict(
        {
            "direction": gymnasium.spaces.Discrete(4),
            "image": gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8),
            "mission": gymnasium.spaces.Text(100, charset="abcdefghijklmnopqrstuvwxyz "),
        }
    )
    image = np.zeros((3, 7, 7, 3), np.uint8) + np.uint8(1)
    obs = {"direction": np.array([0, 1, 2]), "image": image, "mission": ["go to the red ball"] * 3}
    buffer = minari.data_collector.EpisodeBuffer(
        id=0,
        observations=obs,
        actions=np.array([1, 2]),
        rewards=[0.0, 0.9],
        terminations=[False, True],
        truncations=[False, False],
        infos={},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            "minigrid/there-v1",
            [buffer],
            observation_space=space,
            action_space=gymnasium.spaces.Discrete(7),
            jpeg_encoding=False,
        )
    plain = demos.load("minigrid/there-v1")
    assert plain.obs["mission"].tolist() == ["go to the red ball"] * 3
    env = jaxenvs.make("BabyAI-GoToLocal-v0")
    found = demos.load("minigrid/there-v1", env)
    wanted = env.upstream_obs({"image": image[0], "direction": 1, "mission": "go to the red ball"})
    assert_equal(jax.tree.map(lambda leaf: leaf[1], found.obs), wanted)
    assert found.action.dtype == np.int32 and found.terminated.tolist() == [False, True]


def test_pictures_of_minari_are_decoded(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari", reason="Minari is not installed")
    gymnasium = pytest.importorskip("gymnasium")
    monkeypatch.setenv(layout.ROOT, str(tmp_path))
    space = gymnasium.spaces.Box(0, 255, (48, 40, 3), np.uint8)
    picture = np.full((2, 48, 40, 3), 90, np.uint8)
    buffer = minari.data_collector.EpisodeBuffer(
        id=0,
        observations=picture,
        actions=np.array([1]),
        rewards=[0.0],
        terminations=[True],
        truncations=[False],
        infos={},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            "pixels-v0",
            [buffer],
            observation_space=space,
            action_space=gymnasium.spaces.Discrete(7),
        )
    found = demos.load("pixels-v0")
    assert found.obs.shape == (2, 48, 40, 3) and abs(found.obs.astype(int) - 90).max() <= 2


def test_spaces_as_json():
    spaces = Dict(
        {
            "b": Box(0, 1, (2,), np.bool_),
            "a": Discrete(3),
            "c": MultiDiscrete([2, 4]),
            "d": Box(-np.inf, np.inf, (1,), np.float32),
        }
    )
    found = layout.space_json(spaces)["subspaces"]
    assert list(found) == ["a", "b", "c", "d"]
    assert found["a"] == {"type": "Discrete", "dtype": "int64", "start": 0, "n": 3}
    assert found["b"] == {"type": "MultiBinary", "n": [2]}
    assert found["c"]["nvec"] == [2, 4] and found["c"]["start"] == [0, 0]
    assert json.loads(json.dumps(found["d"]))["low"] == [-np.inf]


@pytest.mark.parametrize("name", ["a", "a-v", "../a-v0", "/a-v0", "a b-v0", "a//b-v0", "ä-v0"])
def test_other_names_are_refused(name, tmp_path, as_a_user):
    with pytest.raises(DemosError, match="such as jaxenvs/mine/oracle-v0"):
        demos.Writer(name, jaxenvs.make("Grid-Empty-5x5-v0"), "Grid-Empty-5x5-v0", {}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_taken_is_refused_and_can_be_replaced(tmp_path, baby):
    env, episodes = baby
    path = written(tmp_path, env, episodes)
    with pytest.raises(DemosError, match="--overwrite"):
        written(tmp_path, env, episodes)
    writer = demos.Writer(NAME, env, "BabyAI-GoToLocal-v0", {}, tmp_path, overwrite=True)
    # The old dataset stays until the new one is complete.
    assert demos.load(NAME, env, tmp_path).episodes == 3
    writer.add(episodes[0])
    writer.finish()
    assert demos.load(NAME, env, tmp_path).episodes == 1
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []


def test_a_folder_that_is_no_dataset_is_never_replaced(tmp_path, baby):
    (tmp_path / NAME).mkdir(parents=True)
    (tmp_path / NAME / "precious").touch()
    with pytest.raises(DemosError, match="is no dataset"):
        demos.Writer(NAME, baby[0], "BabyAI-GoToLocal-v0", {}, tmp_path, overwrite=True)
    assert (tmp_path / NAME / "precious").exists()


@pytest.mark.parametrize(("first", "second"), [("a-v0", "a-v0/b-v0"), ("a-v0/b-v0", "a-v0")])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_dataset_inside_another_one_is_refused(first, second, overwrite, tmp_path, baby):
    env, episodes = baby
    writer = demos.Writer(first, env, "BabyAI-GoToLocal-v0", {}, tmp_path)
    writer.add(episodes[0])
    writer.finish()
    with pytest.raises(DemosError, match=r"would lie inside it|is no dataset"):
        demos.Writer(second, env, "BabyAI-GoToLocal-v0", {}, tmp_path, overwrite=overwrite)
    assert demos.load(first, env, tmp_path).episodes == 1


def test_a_dataset_is_not_replaced_with_one_inside(tmp_path, baby):
    env, episodes = baby
    path = written(tmp_path, env, episodes)
    inner = path / "other-v0"
    shutil.copytree(path, inner)
    with pytest.raises(DemosError, match="other-v0 lies inside it"):
        demos.Writer(NAME, env, "BabyAI-GoToLocal-v0", {}, tmp_path, overwrite=True)
    assert demos.load(inner, env).episodes == 3


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of file sizes")
@pytest.mark.parametrize("kilobytes", [0, 4, 10, 100])
def test_a_full_disk_leaves_nothing(kilobytes, tmp_path):
    """A full disk raises `OSError`, leaves no file, and does not crash the process at its exit.

    HDF5 would crash at the exit if the write error occurred inside HDF5.
    """
    code = f"""
import resource, jaxenvs, numpy as np
from jaxenvs import demos
resource.setrlimit(resource.RLIMIT_FSIZE, ({kilobytes * 1024}, -1))
env = jaxenvs.make("Classic-CartPole-v0")
ends = np.zeros(500, bool)
episode = demos.Episode(np.zeros((501, 4)), np.zeros(500), np.zeros(500), ends, ends)
writer = demos.Writer("some/mine-v0", env, "Classic-CartPole-v0", folder={str(tmp_path)!r})
try:
    for _ in range(20):
        writer.add(episode)
    writer.finish()
except OSError as error:
    print(error.filename, error.strerror)
finally:
    writer.discard()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "main_data.hdf5 File too large" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_dataset_without_episodes_is_not_written(tmp_path, baby):
    writer = demos.Writer(NAME, baby[0], "BabyAI-GoToLocal-v0", {}, tmp_path)
    with pytest.raises(DemosError, match="no episode"):
        writer.finish()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_faults_of_datasets_are_sentences(tmp_path, baby):
    env, episodes = baby
    with pytest.raises(DemosError, match="there is no dataset nothing-v0"):
        demos.load("nothing-v0", env, tmp_path)
    path = written(tmp_path, env, episodes)
    with pytest.raises(DemosError, match=r"shape|one array|\['direction'"):
        demos.load(path, jaxenvs.make("Grid-Empty-5x5-v0"))
    with pytest.raises(DemosError, match="the shape"):
        demos.load(path, jaxenvs.make("BabyAI-GoToLocal-v0", view_size=5))
    main = path / layout.DATA / layout.MAIN
    main.write_bytes(main.read_bytes()[:300])
    with pytest.raises(DemosError, match="is damaged"):
        demos.load(path)
    (path / layout.DATA / layout.METADATA).write_text("[")
    with pytest.raises(DemosError, match="cannot be read"):
        demos.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"total_episodes": float("inf")},
        {"observation_space": "{"},
        {"observation_space": "[1]"},
        {"observation_space": "[" * 100_000},
    ],
)
def test_damaged_metadata_is_a_sentence(change, tmp_path, baby):
    path = written(tmp_path, *baby)
    file = path / layout.DATA / layout.METADATA
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DemosError, match="is damaged"):
        demos.load(path)


@pytest.mark.parametrize("fault", ["nan", "text", "columns", "huge", "loop", "infos"])
def test_damaged_arrays_are_sentences(fault, tmp_path, baby):
    """Loading a file with faulty arrays fails with a one-sentence message.

    A fault is, for example, a reward of NaN, or an array too large for memory: sizes are checked
    before memory is allocated.
    """
    path = written(tmp_path, *baby)
    h5py = layout.h5py()
    with h5py.File(path / layout.DATA / layout.MAIN, "r+") as file:
        for group in file.values():
            count = len(group["rewards"])
            del group["rewards"]
            if fault == "huge":
                group.create_dataset("rewards", (10**12,), "f4", chunks=(1000,))
            elif fault == "loop":
                del group["observations"]
                group["observations/a"] = h5py.SoftLink(f"{group.name}/observations")
                group["rewards"] = np.zeros(count)
            elif fault == "infos":
                group["infos/optimal_steps"] = np.zeros(count)
                group["rewards"] = np.zeros(count)
            else:
                given = {"nan": [np.nan], "text": [b"x"], "columns": [[1.0, 2.0]]}
                group["rewards"] = given[fault] * count
    with pytest.raises(DemosError, match="is damaged"):
        demos.load(path)


@pytest.mark.parametrize("wrong", [np.nan, 0.5, -1, 7, 2**40])
def test_values_outside_of_a_space_are_refused(wrong, tmp_path, baby):
    env, (episode, *_) = baby
    actions = np.full(len(episode), wrong)
    found = demos.joined([demos.Episode(**{**vars(episode), "action": actions})])
    with pytest.raises(DemosError, match="action: some values"):
        reading._fitted(found, env, "mine")


def test_an_episode_with_too_few_observations_is_refused(tmp_path, baby):
    env, (episode, *_) = baby
    writer = demos.Writer(NAME, env, "BabyAI-GoToLocal-v0", {}, tmp_path)
    with pytest.raises(ValueError, match="needs"):
        writer.add(demos.Episode(**{**vars(episode), "action": episode.action[1:]}))
    writer.discard()
