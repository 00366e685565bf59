"""Tests of single-file checkpoints, which carry a run to another machine; damage is refused."""

import zlib
from pathlib import Path

import msgpack
import numpy as np
import pytest
from flax import serialization
from small_run import ROW, TREES, saved_run, trees

from jaxenvs.baselines.run import train
from jaxenvs.baselines.storage import checkpoints
from jaxenvs.baselines.storage.runs import Run, RunError
from jaxenvs.benchmarks.card import carried
from jaxenvs.benchmarks.card import results as card_work
from jaxenvs.benchmarks.card import training as card_training


@pytest.fixture
def carrier(tmp_path) -> Path:
    """Return the single-file checkpoint packed from a run with checkpoints of updates 1 and 2."""
    file = tmp_path / "h200-billion.checkpoint"
    assert carried.pack(saved_run(tmp_path), file) == 2
    return file


def test_the_run_of_the_other_machine_goes_on_from_the_newest_checkpoint(carrier, tmp_path):
    assert carried.update_of(carrier) == 2
    run = carried.unpack(carrier, tmp_path / "there" / "run")
    assert run.config == saved_run(tmp_path / "again").config
    update, found = run.restore(TREES)
    assert update == 2
    for part, name in (("weights", "a"), ("learner", "key")):
        array = found[part][name]
        assert array.dtype == trees(2)[part][name].dtype
        np.testing.assert_array_equal(array, trees(2)[part][name])


def test_levels_of_a_stock_are_carried(tmp_path):
    run, stock = saved_run(tmp_path), {"stock": {"counters": np.arange(3, dtype=np.int32)}}
    run.save(3, trees(3) | stock)
    carried.pack(run, tmp_path / "file")
    there = carried.unpack(tmp_path / "file", tmp_path / "there")
    update, found = there.restore(TREES | stock)
    np.testing.assert_array_equal(found["stock"]["counters"], [0, 1, 2])
    assert update == 3


def test_a_run_without_a_checkpoint_leaves_no_file(tmp_path):
    run = saved_run(tmp_path)
    for path in run.checkpoints.iterdir():
        path.rename(tmp_path / path.name)
    assert carried.pack(run, tmp_path / "file") == 0
    assert carried.update_of(tmp_path / "file") == 0


def changed(file: Path, **entries) -> None:
    """Rewrite a checkpoint file with some entries replaced."""
    content = serialization.msgpack_restore(zlib.decompress(file.read_bytes()))
    packed = serialization.msgpack_serialize(content | entries)
    file.write_bytes(zlib.compress(packed))


def claiming(file: Path, dtype: str, shape: list[int]) -> None:
    """Write a checkpoint file with an array whose header declares `dtype` and `shape`.

    The header is false: the array has only four bytes of data.
    """
    said = msgpack.packb([shape, dtype, bytes(4)])
    array = msgpack.ExtType(1, said)  # flax's encoding of an array
    content = {"config": {}, "update": 1, "arrays": {"weights.a": array}}
    file.write_bytes(zlib.compress(msgpack.packb(content)))


NONE = np.zeros(0, np.uint8)
HOSTILE = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-4]),
    "no content": lambda file: file.write_bytes(b"\0" * 100),
    "a list": lambda file: file.write_bytes(zlib.compress(msgpack.packb([]))),
    "half of it": lambda file: file.write_bytes(zlib.compress(msgpack.packb([[1, 2]])[:-1])),
    "objects": lambda file: claiming(file, "O", [1]),
    "no dtype": lambda file: claiming(file, "x", [1]),
    "huge": lambda file: claiming(file, "float32", [2**40]),
    "negative": lambda file: claiming(file, "float32", [-3, -1]),
    "no array": lambda file: changed(file, arrays={"weights.a": 1}),
    "a path": lambda file: changed(file, arrays={"weights./../../x": NONE}),
    "another part": lambda file: changed(file, arrays={"checkpoints.x": NONE}),
    "no update": lambda file: changed(file, update=-1),
    "no config": lambda file: changed(file, config={"id": 1}),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_file_that_is_not_as_it_was_written_is_refused(carrier, tmp_path, how):
    HOSTILE[how](carrier)
    with pytest.raises(RunError, match="damaged"):
        carried.unpack(carrier, tmp_path / "there")
    outside = {"run", "there", carrier.name}
    assert {path.name for path in tmp_path.iterdir()} <= outside


def test_what_inflates_too_far_is_not_inflated(carrier, tmp_path, monkeypatch):
    monkeypatch.setattr(carried, "LARGEST", 10**6)
    carrier.write_bytes(zlib.compress(b"\0" * 10**7))
    with pytest.raises(RunError, match="truncated or too long"):
        carried.unpack(carrier, tmp_path / "there")


class Training:
    """Stand-in for `jaxenvs train`: each call makes two updates, the third call ends the run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.words = folder, []
        monkeypatch.setattr(train, "main", self.main)
        monkeypatch.setattr(card_work, "BROUGHT_HOME", folder / "home")
        monkeypatch.setattr(card_training, "BROUGHT_HOME", folder / "home")

    def main(self, words: list[str]) -> int:
        self.words.append(words)
        if "--out" in words:
            path = Path(words[words.index("--out") + 1])
            saved_run(path.parent).path.rename(path)
            return self.logged(Run.open(path), 1, 2)
        run = Run.open(words[1])
        done, _ = run.restore(TREES)
        for update in (done + 1, done + 2):
            run.save(update, trees(update))
        if done == 4:
            run.write_json("eval.json", {"episodes": 4, "mean_return": 0.5, "per_seed": []})
        return self.logged(run, done + 1, done + 2) and 130 * (done < 4)

    def logged(self, run: Run, *updates: int) -> int:
        more = {"length": [9], "steps_per_second": 1000.0, "died/asleep": [0.25]}
        run.log([ROW | more | {"update": update} for update in updates])
        return 130

    def slice(self, scratch: str, rows: list) -> tuple[list, bool]:
        """Train until `train.main` returns; return all records, and whether the run must go on.

        Run folders are in the folder `scratch`. `rows` are the records of earlier calls.
        """
        header = {"tiny": False, "commit": "c", "rows": rows}
        file = self.folder / "out" / "h200-billion.json"
        work = card_work.Work(file, header, 600.0, self.folder / scratch)
        try:
            card_training.billion(work)
        except card_work.OutOfTimeError:
            return work.records, True
        return work.records, False


def test_slices_make_one_run_on_this_machine_and_the_next(tmp_path, monkeypatch):
    training = Training(tmp_path, monkeypatch)
    for folder in ("out", "here", "there"):
        (tmp_path / folder).mkdir()
    rows, more = training.slice("here", [])
    assert more and training.words[0][:3] == [card_training.CRAFT, "--preset", "gpu"]
    rows, more = training.slice("here", rows)
    assert more and training.words[1][:2] == ["--resume", str(tmp_path / "here" / "h200-billion")]
    # The results are carried to another machine, which has no run folder yet.
    (tmp_path / "out").rename(tmp_path / "home")
    (tmp_path / "out").mkdir()
    rows, more = training.slice("there", rows)
    assert not more and training.words[2][1] == str(tmp_path / "there" / "h200-billion")
    slices = [row for row in rows if row["part"] == "slice"]
    each = slices[0]["to_steps"] // 2
    spans = [(row["from_steps"] // each, row["to_steps"] // each) for row in slices]
    assert spans == [(0, 2), (2, 4), (4, 6)]
    assert [row["part"] for row in rows].count("curve") == 6
    ends = [row for row in rows if row["part"] == "diagnostics"]
    assert [(row["steps"] // each, row["died/asleep"]) for row in ends] == [
        (2, 0.25),
        (4, 0.25),
        (6, 0.25),
    ]
    assert rows[-1] == rows[-1] | {"part": "evaluation", "mean_return": 0.5}
    assert all(not isinstance(value, dict) for row in rows for value in row.values())
    kept = tmp_path / "there" / "h200-billion" / "checkpoints"
    assert [path.name for path in checkpoints.saved(kept)][-1] == "00000006"
