"""Tests of run directories and checkpoints: atomic writes, and errors that name the fix."""

import dataclasses
import json

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from jaxenvs.baselines.evaluation import curve
from jaxenvs.baselines.storage import checkpoints, runs
from jaxenvs.baselines.storage.runs import Config, Run, RunError

TREES = {
    "weights": {"a": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "learner": {"key": np.array([1, 2], np.uint32), "done": [np.array(True), np.array(3, np.int8)]},
}


def config(**changes) -> Config:
    """Return the configuration of a run that is never trained."""
    chosen = {"id": "Grid-v0", "fields": {}, "seed": 0, "seeds": 1, "settings": {"hidden": (8, 8)}}
    return Config(**(chosen | changes))


@pytest.fixture
def run(tmp_path) -> Run:
    """Return a run with checkpoints of updates 1 and 2."""
    run = Run.create(tmp_path / "run", config())
    for update in (1, 2):
        run.save(update, changed(update))
    return run


def changed(update: int) -> dict:
    """Return the pytrees of a checkpoint, with weights that depend on the number of the update."""
    return TREES | {"weights": {"a": TREES["weights"]["a"] + update}}


def truncate(run: Run, name: str) -> None:
    """Cut the largest file of a checkpoint in half."""
    files = [path for path in (run.path / "checkpoints" / name).rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])


def restored_update(run: Run) -> int:
    """Restore the newest intact checkpoint; return its update, and check its weights."""
    update, trees = run.restore(TREES)
    np.testing.assert_array_equal(trees["weights"]["a"], changed(update)["weights"]["a"])
    return update


def test_a_checkpoint_comes_back_with_types_and_structure(run):
    update, trees = run.restore(TREES)
    assert update == 2
    np.testing.assert_array_equal(trees["weights"]["a"], TREES["weights"]["a"] + 2)
    assert [leaf.dtype for leaf in trees["learner"]["done"]] == [np.bool_, np.int8]
    assert trees["learner"]["key"].dtype == np.uint32
    only_weights = run.restore({"weights": TREES["weights"]})[1]
    assert only_weights.keys() == {"weights"}


def test_a_part_that_may_be_replaced_need_not_fit(run):
    run.save(3, TREES | {"stock": {"ring": np.zeros(4)}})
    for size, names in ((4, {*TREES, "stock"}), (5, {*TREES})):
        asked = TREES | {"stock": {"ring": np.zeros(size)}}
        assert run.restore(asked, replaceable=("stock", "other"))[1].keys() == names
    with pytest.raises(RunError, match="does not fit: ring"):
        run.restore(TREES | {"stock": {"ring": np.zeros(5)}})
    other = TREES | {"none": {"a": np.zeros(1)}}
    assert run.restore(other, replaceable=("none",))[1].keys() == {*TREES}


def test_the_last_two_are_kept(run):
    run.save(10, changed(10))
    assert [path.name for path in checkpoints.saved(run.checkpoints)] == ["00000002", "00000010"]
    assert restored_update(run) == 10


@pytest.mark.parametrize("broken", ["arrays", "rename"])
def test_a_save_that_fails_midway_harms_nothing(run, monkeypatch, broken):
    real = ocp.StandardCheckpointer.save

    def half(self, directory, *args, **kwargs):
        real(self, directory, *args, **kwargs)
        self.wait_until_finished()
        raise OSError(28, "No space left on device")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    if broken == "arrays":
        monkeypatch.setattr(ocp.StandardCheckpointer, "save", half)
    else:
        monkeypatch.setattr(checkpoints.os, "rename", refuse)
    with pytest.raises(RunError, match=r"No space left.* is untouched; free some space"):
        run.save(3, changed(3))
    monkeypatch.undo()
    assert [path.name for path in run.checkpoints.iterdir()] == ["00000001", "00000002"]
    assert restored_update(run) == 2
    run.save(3, changed(3))
    assert restored_update(run) == 3


def test_what_a_killed_save_left_is_cleared_away(run):
    left = run.checkpoints / ".saving-00000003"
    left.mkdir()
    (left / "half").write_text("x")
    assert restored_update(run) == 2
    run.save(4, changed(4))
    assert not left.exists()
    assert restored_update(run) == 4


@pytest.mark.parametrize("name", ["manifest.json", "largest"])
def test_a_truncated_checkpoint_is_passed_over(run, capsys, name):
    if name == "largest":
        truncate(run, "00000002")
    else:
        manifest = run.checkpoints / "00000002" / name
        manifest.write_text(manifest.read_text()[:100])
    assert restored_update(run) == 1 == checkpoints.newest_intact(run.checkpoints)
    assert checkpoints.newest(run.checkpoints) == 2
    assert "00000002 is damaged" in capsys.readouterr().err
    # Training repeats update 2, whose new checkpoint replaces the damaged one.
    run.save(2, changed(2))
    assert restored_update(run) == 2


def test_without_a_whole_checkpoint_the_message_says_what_to_do(run):
    truncate(run, "00000001")
    truncate(run, "00000002")
    with pytest.raises(
        RunError, match=r"no intact checkpoint in .*train again with\s.*--overwrite"
    ):
        run.restore(TREES)


def test_a_missing_file_is_damage(run):
    next((run.checkpoints / "00000002").rglob("manifest.ocdbt")).unlink()
    assert restored_update(run) == 1


def test_a_checkpoint_of_another_environment_is_refused(run):
    other = dataclasses.replace(run, config=config(id="Grid-DoorKey-5x5-v0"))
    with pytest.raises(RunError, match="is a checkpoint of Grid-v0, but this run is of Grid-Door"):
        other.restore(TREES)
    other = dataclasses.replace(run, config=config(fields={"view_size": 5}))
    with pytest.raises(RunError, match="but this run is of Grid-v0 view_size=5; put it back"):
        other.restore(TREES)


def test_a_checkpoint_of_other_settings_is_refused(run):
    wider = TREES | {"weights": {"a": np.zeros((2, 4), np.float32)}}
    with pytest.raises(RunError, match=r"a is float32\[2, 3\] there and float32\[2, 4\] here"):
        run.restore(wider)
    more = TREES | {"weights": TREES["weights"] | {"b": np.zeros(1, np.float32)}}
    with pytest.raises(RunError, match=r"b is missing there .*train again"):
        run.restore(more)


def test_config_round_trip(run):
    assert Run.open(run.path) == run
    assert Run.open(run.path).config.settings["hidden"] == (8, 8)


def test_lists_of_a_config_are_tuples_again(run):
    nested = config(fields={"shapes": (("one", 2), "two")}, settings={"hidden": (8, 8)})
    written = dataclasses.replace(run, config=nested)
    written.write_config()
    assert Run.open(run.path).config == nested


@pytest.mark.parametrize(
    ("seeds", "says"), [(1, "has 1 seed: give 0, not 3"), (2, "one of 0 to 1")]
)
def test_a_seed_that_a_run_has_not(run, seeds, says):
    fewer = dataclasses.replace(run, config=config(seeds=seeds))
    fewer.check_seed(seeds - 1)
    with pytest.raises(RunError, match=says):
        fewer.check_seed(3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is damaged"),
        ("[]", "holds no object"),
        (json.dumps(dataclasses.asdict(config()) | {"algorithm": ["ppo"]}), "algorithm is"),
        ('{"format": 1}', "id is 'missing'"),
        (json.dumps(dataclasses.asdict(config()) | {"format": 2}), "format 2, known is 1"),
        (json.dumps(dataclasses.asdict(config()) | {"colour": 2}), "colour"),
        (json.dumps(dataclasses.asdict(config()) | {"settings": []}), "settings must be an object"),
    ],
)
def test_a_damaged_config_says_what_to_do(run, content, words):
    (run.path / "config.json").write_text(content)
    with pytest.raises(RunError, match=words) as caught:
        Run.open(run.path)
    assert "train again with --out" in str(caught.value)


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(RunError, match=r"no config.json.*give the directory"):
        Run.open(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"no config.json"):
        runs.load_policy(tmp_path)


def test_an_earlier_run_is_replaced_only_on_demand(run):
    notes = run.path / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(RunError, match=r"--resume .*--overwrite.*--out"):
        Run.create(run.path, config())
    Run.create(run.path, config(seed=5), overwrite=True)
    assert Run.open(run.path).config.seed == 5
    assert not checkpoints.saved(run.checkpoints) and notes.read_text() == "mine"


def test_other_peoples_files_are_never_overwritten(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match="has files but is not a run; give another directory"):
        Run.create(tmp_path, config(), overwrite=True)
    assert (tmp_path / "thesis.txt").exists()
    with pytest.raises(RunError, match=r"cannot be written|is not a run"):
        Run.create(tmp_path / "thesis.txt", config())


def test_the_log_is_rewound_to_the_checkpoint(run):
    run.log([{"update": u, "steps": u * 8} for u in (1, 2, 3)])
    with (run.path / "log.jsonl").open("a") as file:
        # An incomplete line, as after a power failure.
        file.write('{"update": 4, "ste')
    assert [row["update"] for row in run.records()] == [1, 2, 3]
    # write an evaluation, which is outdated once training continues
    run.write_json("eval.json", {})
    run.rewind(2)
    assert not (run.path / "eval.json").exists()
    run.log([{"update": 3, "steps": 24}])
    assert [row["update"] for row in run.records()] == [1, 2, 3]


def test_points_of_the_curve_average_the_latest_episodes():
    counts, means = [4, 0, 6, 10, 5, 5], [1.0, None, 0.5, 0.2, 0.0, 1.0]
    rows = [
        {"steps": 8 * i, "episodes": [n, 0], "return": [mean, None]}
        for i, (n, mean) in enumerate(zip(counts, means, strict=True))
    ]
    steps, returns = curve.points(rows, latest=10)
    np.testing.assert_array_equal(steps, [0, 8, 16, 24, 32, 40])
    np.testing.assert_allclose(returns[:, 0], [np.nan, np.nan, 0.7, 0.2, 2 / 15, 0.5])
    assert np.isnan(returns[:, 1]).all()


def test_points_of_a_short_run_average_a_tenth_of_its_episodes():
    rows = [{"steps": i, "episodes": [1], "return": [float(i)]} for i in range(50)]
    _, returns = curve.points(rows)
    np.testing.assert_allclose(returns[:, 0], [*[np.nan] * 4, *np.arange(2.0, 48.0)])


def test_the_curve_is_a_picture(tmp_path):
    rows = [{"steps": 10**6 * i, "episodes": [300, 1], "return": [0.1 * i, None]} for i in range(9)]
    curve.draw(tmp_path / "curve.png", rows, "Grid-v0", ["seed 0", "seed 1"])
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    curve.draw(tmp_path / "none.png", [], "Grid-v0", ["seed 0", "seed 1"])
    assert not (tmp_path / "none.png").exists()


def test_arrays_without_elements_are_kept(tmp_path):
    """Orbax rejects arrays of size 0, so only the manifest of a checkpoint contains them.

    Craft's state has such an array, the light, if the agent does not observe pixels.
    """
    state = {
        "light": np.zeros((4, 0), np.uint8),
        "map": np.arange(6),
        "time": np.ones((), np.float32),
    }
    trees = {"world": state}
    checkpoints.save(tmp_path, 5, trees, "a test")
    shapes = {"world": {k: jax.ShapeDtypeStruct(x.shape, x.dtype) for k, x in state.items()}}
    update, found = checkpoints.restore(tmp_path, shapes, "a test")
    assert update == 5
    for name, leaf in state.items():
        np.testing.assert_array_equal(found["world"][name], leaf, strict=True)
    assert checkpoints.contents(tmp_path / "00000005").keys() >= {"world.light", "world.map"}
    other = {"world": {**shapes["world"], "light": jax.ShapeDtypeStruct((3, 0), np.uint8)}}
    with pytest.raises(checkpoints.RunError, match=r"light is uint8\[4, 0\] there"):
        checkpoints.restore(tmp_path, other, "a test")
