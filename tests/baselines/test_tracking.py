"""Tests of tracking a run: log sinks, callback, evaluations, the best policy, videos."""

import csv
import importlib.util
import json
import re
import shutil
import struct
import types
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from small_run import ROW, saved_run
from tiny import FLAGS

from jaxenvs import cli
from jaxenvs.baselines.core import episodes as evaluation
from jaxenvs.baselines.core import playing
from jaxenvs.baselines.evaluation import command, export
from jaxenvs.baselines.evaluation.final import agents_of
from jaxenvs.baselines.run import keeping, options, progress, sinks, tracking
from jaxenvs.baselines.run.train import main
from jaxenvs.baselines.storage import checkpoints, runs
from jaxenvs.core.extras import MissingExtraError
from jaxenvs.core.typed import installation

pytestmark = pytest.mark.full

GROUP = "tiny_runs"  # tests of this group share a worker, which compiles the run's program once
ID = "Grid-Empty-Random-5x5-v0"
CLOCKS = ("seconds", "steps_per_second")
LOOKS = ["--log", "csv,tensorboard", "--eval-every", "1", "--video-every", "2"]


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def total(updates: int) -> list[str]:
    return ["--total-steps", str(updates * 8 * 32)]


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory):
    """Return a run of four updates with the flags `LOOKS`, and the log records its callback got."""
    needs("tensorboardX")
    out, rows = tmp_path_factory.mktemp("runs") / "looked-at", []
    real = progress.ProgressLine.show

    def show(line, note=""):
        """Check that records are logged before they are shown: a killed run loses none."""
        assert len(runs.Run.open(out).records()) == line._done
        real(line, note)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress.ProgressLine, "show", show)
        flags = [ID, *FLAGS, *total(4), *LOOKS, "--out", str(out)]
        assert main(flags, callback=rows.append) == 0
    return out, rows


def newest(run) -> dict[str, np.ndarray]:
    return checkpoints.contents(checkpoints.saved(run / "checkpoints")[-1])


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    """Return (steps, value) pairs by name, as TensorBoard reads them from a folder."""
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder))
    read.Reload()
    tags = read.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in tags}


def check_sinks(run) -> None:
    """Check that the CSV file and TensorBoard contain the log, each update once and in order."""
    rows = [sinks.flat(row, ["seed3", "seed4"]) for row in runs.Run.open(run).records()]
    with (run / "log.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["update"] for row in table] == ["1", "2", "3", "4"]
    for line, row in zip(table, rows, strict=True):
        found = {name: float(cell) for name, cell in line.items() if cell}
        assert found == {name: value for name, value in row.items() if value is not None}
    found = scalars(run / "tensorboard")
    assert found.keys() >= {"return", "entropy/seed3", "eval_return/seed4"}
    for name, points in found.items():
        known = [(row["steps"], row[name]) for row in rows if row.get(name) is not None]
        if name not in CLOCKS:
            np.testing.assert_allclose(points, known, rtol=1e-6)


def test_sinks_and_callback_have_the_rows_of_the_log(looked_at):
    out, called = looked_at
    assert called == runs.Run.open(out).records() and len(called) == 4
    check_sinks(out)
    assert (out / "curve.png").is_file()


def test_training_is_the_same_without_looks(looked_at, tmp_path):
    assert main([ID, *FLAGS, *total(4), "--out", str(tmp_path / "run")]) == 0
    bare, looked = newest(tmp_path / "run"), newest(looked_at[0])
    assert not [name for name in bare if name.startswith("best")]
    assert looked.keys() - bare.keys() == {k for k in looked if k.startswith("best")}
    for name, leaf in bare.items():
        np.testing.assert_array_equal(leaf, looked[name])


def test_evaluations_are_rows_and_the_best_policy_is_kept(looked_at, tmp_path):
    out, rows = looked_at
    result = json.loads((out / "eval.json").read_text())
    assert rows[-1]["eval_return"] == [seed["mean_return"] for seed in result["per_seed"]]
    assert rows[-1]["eval_success"] == [seed["success_rate"] for seed in result["per_seed"]]
    returns = np.float32([row["eval_return"] for row in rows])
    saved = newest(out)
    np.testing.assert_array_equal(saved["best.return"], returns.max(axis=0))
    np.testing.assert_array_equal(saved["best.update"], 1 + returns.argmax(axis=0))
    # The return of each loaded best policy, on the same levels, must equal the recorded return.
    run = runs.Run.open(out)
    policies = [runs.load_policy(out, seed, best=True) for seed in (0, 1)]
    weights = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(p.weights for p in policies))
    _, _, learner = options.prepare([ID, *FLAGS, "--out", str(tmp_path / "same")])
    agents = agents_of(run.config)
    player = evaluation.EvaluatedPolicy.of(learner, agents).player(2, 16)
    played = player.finish(player.begin(weights, agents.keys))
    np.testing.assert_allclose(played.returns.mean(axis=1), saved["best.return"], atol=1e-6)


@pytest.mark.parametrize("name", ["eval", "export", "watch"])
def test_commands_take_the_best_policy(tmp_path, monkeypatch, capsys, name):
    def load(run, seed, best, params=None, simulations=None, fields=None):
        raise runs.RunError(f"{seed}, {best}")

    monkeypatch.setattr(runs, "load_policy", load)
    monkeypatch.setattr(command, "load_policy", load)
    monkeypatch.setattr(export, "load_policy", load)
    files = ["--gif", str(tmp_path / "x.gif")] if name == "watch" else []
    run = str(saved_run(tmp_path).path)
    assert cli.main([name, run, "--best", *files]) == 2
    assert f"jaxenvs {name}: 0, True" in capsys.readouterr().err


def test_a_run_without_evaluations_has_no_best_policy(tmp_path, capsys):
    run = saved_run(tmp_path)
    shapes = {"a": jax.ShapeDtypeStruct((2, 3), np.float32)}
    assert run.best(shapes) is None
    with pytest.raises(runs.RunError, match="no best policy: train it with --eval-every K"):
        runs.load_policy(run.path, best=True)
    assert cli.main(["watch", "--random", ID, "--best"]) == 2
    assert "--best needs a run" in capsys.readouterr().err


def test_films_show_an_episode(looked_at):
    films = sorted((looked_at[0] / "videos").iterdir())
    assert [film.name for film in films] == ["00000002.gif", "00000004.gif"]
    for film in films:
        with Image.open(film) as picture:
            # A video has the first frame and a frame per step; the time limit is 100 steps.
            assert 2 <= picture.n_frames <= 101


@pytest.mark.full
def test_a_killed_run_goes_on_with_its_looks(looked_at, tmp_path):
    """Resume a run from its checkpoint of update 2, as if it was killed after logging update 4.

    The resumed run must repeat the evaluations and videos of the whole run.
    """
    again = tmp_path / "again"
    shutil.copytree(looked_at[0], again)
    shutil.rmtree(again / "checkpoints" / "00000004")
    (again / "videos" / ".00000004.gif.7.part").touch()
    assert main(["--resume", str(again)]) == 0
    check_sinks(again)
    for name, leaf in newest(looked_at[0]).items():
        np.testing.assert_array_equal(leaf, newest(again)[name])
    like = [
        [{k: v for k, v in row.items() if k not in CLOCKS} for row in runs.Run.open(run).records()]
        for run in (looked_at[0], again)
    ]
    assert like[0] == like[1] and len(list((again / "videos").iterdir())) == 2


def test_the_best_policy_outlives_a_resume_without_evaluations(looked_at, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(looked_at[0], again)
    shutil.rmtree(again / "checkpoints" / "00000004")
    before = newest(again)
    flags = ["--eval-every", "None", "--video-every", "None", "--log", "csv"]
    assert main(["--resume", str(again), *flags, "--eval-episodes", "16"]) == 0
    assert runs.Run.open(again).config.tracking == {"log": "csv", "eval_episodes": 16}
    assert "eval_return" not in runs.Run.open(again).records()[-1]
    assert checkpoints.newest(again / "checkpoints") == 4
    for name in ("best.return", "best.update"):
        np.testing.assert_array_equal(newest(again)[name], before[name])


def test_a_callback_ends_a_run(tmp_path):
    out = tmp_path / "run"
    flags = [ID, *FLAGS, *total(4), "--out", str(out)]
    assert main(flags, callback=lambda row: row["update"] == 2) == 0
    rows = runs.Run.open(out).records()
    # The callback ended the run after update 2, while update 3 was already running.
    assert [row["update"] for row in rows] == [1, 2, 3]
    assert checkpoints.newest(out / "checkpoints") == 3 and (out / "eval.json").is_file()


class Full(sinks.Csv):
    """CSV sink whose disk is full at the first attempt to write."""

    failures = 1

    def log(self, rows):
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        super().log(rows)


def test_a_sink_that_fails_ends_nothing(tmp_path, capsys):
    run, sink = saved_run(tmp_path), Full()
    sink.start(run, [])
    keeper = keeping.Keeper(run, sinks={"csv": sink})
    keeper.log([ROW])
    assert "--log csv could not be written ([Errno 28]" in capsys.readouterr().err
    keeper.log([ROW | {"update": 2}])
    with (run.path / "log.csv").open(newline="") as file:
        assert [row["update"] for row in csv.DictReader(file)] == ["1", "2"]


def test_tensorboard_has_each_row_at_once_and_goes_on_after_a_failure(tmp_path):
    """When `log` returns, its record is in the file, even after an earlier write has failed."""
    needs("tensorboardX")
    run, sink = saved_run(tmp_path), sinks.TensorBoard()
    sink.start(run, [])
    sink.log([ROW, ROW | {"steps": 16}])
    assert scalars(run.path / "tensorboard")["return"] == [(8, 0.5), (16, 0.5)]
    file = sink._writer._py_recordio_writer._writer
    file.write(b"part of a row")
    file.close()
    with pytest.raises(ValueError, match="closed file"):
        sink.log([ROW | {"steps": 24}])
    sink.log([ROW | {"steps": 32}])
    assert scalars(run.path / "tensorboard")["return"] == [(8, 0.5), (16, 0.5), (32, 0.5)]
    sink.close()


def test_rows_with_more_columns_make_a_new_table(tmp_path):
    run, sink = saved_run(tmp_path), sinks.Csv()
    sink.start(run, [])
    assert (run.path / "log.csv").read_text() == ""
    for row in (ROW, ROW | {"update": 2, "return": [None]}, ROW | {"eval_return": [1.5]}):
        run.log([row])
        sink.log([row])
    assert (run.path / "log.csv").read_text() == (
        "update,steps,episodes,return,eval_return\n1,8,1.0,0.5,\n2,8,1.0,,\n1,8,1.0,0.5,1.5\n"
    )


def test_seeds_have_a_mean_and_a_name_each():
    row = {"update": 3, "return": [1.0, None, 3.0], "kl": [None] * 3, "seconds": None}
    assert sinks.flat(row, ["seed5", "seed6", "seed7"]) == {
        **{"update": 3, "return": 2.0, "seconds": None, "kl": None},
        **{"return/seed5": 1.0, "return/seed6": None, "return/seed7": 3.0},
        **{"kl/seed5": None, "kl/seed6": None, "kl/seed7": None},
    }


@pytest.mark.parametrize(("name", "package"), sinks.NEEDED.items())
def test_the_extra_of_a_sink_is_named(monkeypatch, name, package):
    monkeypatch.setitem(sinks.NEEDED, name, "no_such_package")
    with pytest.raises(MissingExtraError, match=re.escape(installation(name))):
        options.parse(["Grid-v0", "--log", name])


def test_a_sink_that_cannot_be_opened(tmp_path):
    needs("tensorboardX")
    run = saved_run(tmp_path)
    (run.path / "tensorboard").write_text("a file")
    with pytest.raises(runs.RunError, match=r"--log tensorboard: .* cannot be written"):
        sinks.started("csv,tensorboard", run)


def history(content: bytes) -> Iterator[dict]:
    """Yield the log records in a file that W&B writes offline.

    The file has a header of 7 bytes, followed by a LevelDB log in blocks of 32 KiB, whose records
    are protobuf messages.
    """
    from wandb.proto import wandb_internal_pb2

    at, data = 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        _, size, kind = struct.unpack_from("<IHB", content, at)
        data, at = data + content[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):  # a full record, or the last part of a record
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            data = b""
            if record.WhichOneof("record_type") == "history":
                items = record.history.item
                yield {(i.key or i.nested_key[0]): json.loads(i.value_json) for i in items}


def test_weights_and_biases_offline(tmp_path, monkeypatch):
    """W&B's offline files contain the rows, and a resumed run has the same id."""
    needs("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run, found = saved_run(tmp_path), []
    for update in (1, 2):
        (sink,) = sinks.started("wandb", run).values()
        sink.log([ROW | {"update": update, "steps": 8 * update, "loss": [None]}])
        sink.close()
        run.log([ROW | {"update": update}])
    for file in sorted(run.path.glob("wandb/offline-run-*/*.wandb")):
        found += [(file.stem, row) for row in history(file.read_bytes())]
    assert [(row["update"], row["return"], row["_step"]) for _, row in found] == [
        (1, 0.5, 8),
        (2, 0.5, 16),
    ]
    assert found[0][0] == found[1][0] and not any("loss" in row for _, row in found)


def test_each_seed_keeps_its_own_best(tmp_path):
    argv = [ID, *FLAGS, "--out", str(tmp_path / "run"), "--eval-every", "2"]
    asked, run, learner = options.prepare(argv)
    (look,) = tracking.looks(run, learner, asked, 0, None)
    look._player = types.SimpleNamespace(finish=lambda begun: begun)
    for update, returns in ((2, [0.5, 0.1]), (4, [0.4, 0.3]), (6, [0.5, 0.2])):
        played = playing.Episodes(*(np.array(returns)[:, None] for _ in range(3)))
        look._pending = update, {"a": np.full((2, 3), update)}, played
        look.finish(row := {})
        assert row["eval_return"] == returns
    best = look.parts()["best"]
    np.testing.assert_array_equal(best["update"], [2, 4])
    np.testing.assert_array_equal(best["weights"]["a"], [[2] * 3, [4] * 3])
    look.finish(row := {})
    assert row == {}  # no evaluation is pending, so `finish` adds nothing to the row


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(runs.RunError, match=r"davi in .* learns none: omit --eval-every"):
        options.parse(["Puzzle-Cube-2x2-v0", "--eval-every", "2"], "davi")
    with pytest.raises(runs.RunError, match="with Ray no policy is shown before the end"):
        options.parse(["Grid-v0", "--eval-every", "2"], "ppo-ray")
    for flag in ("--eval-every", "--video-every"):
        with pytest.raises(runs.RunError, match=f"{flag} 5: the run has 4 updates; give at most"):
            options.prepare([ID, *FLAGS, *total(4), flag, "5"])
    assert sinks.check("csv,, ,csv") == ["csv"]


@pytest.mark.parametrize("flag", [["--html"], ["--video-every", "1"]])
def test_what_cannot_be_drawn_is_refused_before_training(flag, monkeypatch):
    monkeypatch.setattr(options, "is_drawn", lambda env: False)
    with pytest.raises(runs.RunError, match=f"{flag[0]}: {ID}"):
        options.prepare([ID, *FLAGS, *total(4), *flag])
