"""A checkpoint in one file: what is carried is what was saved, and a damaged file is refused."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from small_run import TREES, saved_run, trees

from jaxenvs.baselines.runs import RunError
from jaxenvs.benchmarks import carried


@pytest.fixture
def carrier(tmp_path) -> Path:
    """The file of a run with checkpoints of updates 1 and 2."""
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


def test_a_run_without_a_checkpoint_leaves_no_file(tmp_path):
    run = saved_run(tmp_path)
    for path in run.checkpoints.iterdir():
        path.rename(tmp_path / path.name)
    assert carried.pack(run, tmp_path / "file") == 0
    assert carried.update_of(tmp_path / "file") == 0


def changed(file: Path, **header) -> None:
    """Give a file's header other entries."""
    line, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(json.dumps(json.loads(line) | header).encode() + b"\n" + rest)


HOSTILE = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-4]),
    "no header": lambda file: file.write_bytes(b"\0" * 100),
    "a list": lambda file: file.write_bytes(b"[]\n"),
    "objects": lambda file: changed(file, arrays=[["weights.a", "O", [1], 10]]),
    "huge": lambda file: changed(file, arrays=[["weights.a", "float32", [2**40], 10]]),
    "negative": lambda file: changed(file, arrays=[["weights.a", "float32", [-1, -1], 10]]),
    "a path": lambda file: changed(file, arrays=[["weights./../../x", "float32", [0], 0]]),
    "another part": lambda file: changed(file, arrays=[["checkpoints.x", "uint8", [0], 0]]),
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


def test_what_inflates_beyond_its_array_is_not_inflated(carrier, tmp_path):
    bomb = zlib.compress(b"\0" * 10**7)
    header = {"config": {}, "update": 1, "arrays": [["weights.a", "uint8", [4], len(bomb)]]}
    carrier.write_bytes(json.dumps(header).encode() + b"\n" + bomb)
    with pytest.raises(RunError, match="cut or too long"):
        carried.unpack(carrier, tmp_path / "there")
