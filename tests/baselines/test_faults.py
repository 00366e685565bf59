"""Tests of faults: a full disk, a run killed before its first checkpoint, damaged checkpoints."""

import dataclasses
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import test_train
from small_run import ID, ROW, TREES, names, saved_run, trees
from tiny import FLAGS

from jaxenvs.baselines.run import keeping, train
from jaxenvs.baselines.storage import checkpoints
from jaxenvs.baselines.storage.runs import Config, Run, RunError

GROUP = "tiny_runs"  # tests of this group share a worker, which compiles the runs' program once
TINY = [*FLAGS, "--checkpoint-every", "1"]
steps = test_train.total


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return the folder of a finished run of four updates."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    assert train.main([ID, *TINY, *steps(4), "--out", str(out)]) == 0
    return out


@pytest.fixture
def run(tmp_path) -> Run:
    """Return a run with checkpoints of updates 1 and 2."""
    return saved_run(tmp_path)


@pytest.fixture
def full(monkeypatch):
    """Make a run's writes fail, as on a full disk, while the fixture's attribute `now` is True."""
    state = type("Disk", (), {"now": True})()

    def refusing(real):
        def write(*arguments):
            if state.now:
                raise OSError(28, "No space left on device")
            return real(*arguments)

        return write

    monkeypatch.setattr(checkpoints, "write", refusing(checkpoints.write))
    monkeypatch.setattr(Run, "log", refusing(Run.log))
    monkeypatch.setattr(keeping, "draw", refusing(keeping.draw))
    return state


# Tests of a full disk.


def test_a_full_disk_is_reported_and_what_was_missed_is_made_up_for(run, full, capsys):
    keeper = keeping.Keeper(run)
    keeper.log([ROW])
    keeper.save(3, trees(3))
    with pytest.raises(RunError, match=r"is untouched; free some space, then use --resume .*run$"):
        keeper.end()
    said = capsys.readouterr().err
    # Two of the four warnings are about the log.
    assert said.count("warning: ") == 4 and said.count("Training continues") == 4
    assert "checkpoint of update 3 could not be written" in said and "No space left" in said
    assert names(run) == ["00000001", "00000002"]
    assert run.restore(TREES)[0] == 2
    full.now = False
    keeper.log([ROW | {"update": 2}])
    keeper.save(4, trees(4))
    keeper.end()
    assert [row["update"] for row in run.records()] == [1, 2]
    assert names(run) == ["00000002", "00000004"]
    assert capsys.readouterr().err == ""


@pytest.mark.full
def test_training_goes_on_while_the_disk_is_full(finished, tmp_path, full, monkeypatch, capsys):
    out = tmp_path / "run"

    def begun(keeper, update, trees):
        keeper.wait()
        full.now = update in (2, 3)
        return real(keeper, update, trees)

    real = keeping.Keeper.save
    monkeypatch.setattr(keeping.Keeper, "save", begun)
    full.now = False
    assert train.main([ID, *TINY, *steps(4), "--out", str(out)]) == 0
    run = Run.open(out)
    said = capsys.readouterr().err
    assert "checkpoint of update 2" in said and "checkpoint of update 3" in said
    assert names(run) == ["00000001", "00000004"]
    assert [row["update"] for row in run.records()] == [1, 2, 3, 4]
    same_end(out, finished)


def same_end(out: Path, like: Path) -> None:
    """Assert that the last checkpoints of two runs have equal arrays."""
    ends = [checkpoints.contents(checkpoints.saved(p / "checkpoints")[-1]) for p in (out, like)]
    assert ends[0].keys() == ends[1].keys()
    for name, array in ends[0].items():
        np.testing.assert_array_equal(array, ends[1][name])


def test_a_row_that_half_fits_on_the_disk_is_not_left_in_the_log(run, monkeypatch):
    run.log([ROW])
    before = (run.path / "log.jsonl").read_bytes()
    real = Path.open

    class Nearly:
        """Stand-in for a file on a disk that has room for ten more bytes."""

        def __init__(self, file):
            self.file, self.room = file, 10

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, content):
            if not self.room:
                raise OSError(28, "No space left on device")
            written, self.room = self.room, 0
            return self.file.write(content[:written])

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr(Path, "open", lambda *a, **k: Nearly(real(*a, **k)))
    with pytest.raises(OSError, match="No space left"):
        run.log([ROW | {"update": 2}])
    monkeypatch.undo()
    assert (run.path / "log.jsonl").read_bytes() == before


@pytest.mark.slow
def test_training_on_a_disk_that_is_really_full(tmp_path):
    """Train on a 1 MiB disk; resume while a large file fills the disk, and after its deletion."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)])
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        argv = [ID, *TINY, *steps(3), "--out", str(disk / "run")]
        assert train.main(argv) == 0
        run, ballast = Run.open(disk / "run"), disk / "ballast"
        whole = names(run)
        with pytest.raises(OSError, match="No space left"):
            ballast.write_bytes(b"0" * 2**20)
        assert train.main(["--resume", str(disk / "run"), *steps(6)]) != 0
        assert names(run) == whole and run.restore(_shapes(run))[0] == 3
        ballast.unlink()
        assert train.main(["--resume", str(disk / "run"), *steps(6)]) == 0
        assert names(run) == ["00000003", "00000006"]
        assert [row["update"] for row in run.records()] == [1, 2, 3, 4, 5, 6]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _shapes(run: Run) -> dict:
    """Return the arrays of a run's newest checkpoint, from which `restore` takes the shapes."""
    newest = checkpoints.saved(run.checkpoints)[-1]
    arrays = checkpoints.contents(newest)
    return {
        part: {k.partition(".")[2]: v for k, v in arrays.items() if k.split(".")[0] == part}
        for part in ("weights", "learner")
    }


# Tests of a run that is killed before its first checkpoint.


def test_a_run_killed_before_its_first_checkpoint_begins_anew(finished, tmp_path, capsys):
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    for name in names(Run.open(out)):
        shutil.rmtree(out / "checkpoints" / name)
    (out / ".curve.png.77.part").write_text("half")
    assert train.main(["--resume", str(out)]) == 0
    assert "has no checkpoint yet; it begins anew" in capsys.readouterr().err
    same_end(out, finished)
    assert len(Run.open(out).records()) == 4 and not (out / ".curve.png.77.part").exists()


def test_what_a_kill_at_the_very_start_leaves_is_no_obstacle(tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / ".config.json.4711.part").write_text("{")
    Run.create(tmp_path / "run", Config(ID, {}, 0, 1, {}))
    assert Run.open(tmp_path / "run").config.id == ID


def test_a_folder_of_checkpoints_that_was_moved_away_is_missed(run):
    shutil.rmtree(run.checkpoints)
    assert run.has_begun
    with pytest.raises(RunError, match=r"no intact checkpoint in .*train again"):
        run.restore(TREES)


# Tests of damaged checkpoints.


def spoil(file: Path, dice: random.Random) -> str:
    """Damage one file at random; return the kind of damage."""
    content = bytearray(file.read_bytes())
    how = dice.choice(("cut", "flip", "remove", "empty", "add", "garbage"))
    if how == "remove":
        file.unlink()
        return how
    if how == "flip" and content:
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    changed = {
        "cut": content[: dice.randrange(max(1, len(content)))],
        "empty": b"",
        "add": content + b"\0",
        "garbage": dice.randbytes(max(1, len(content))),
    }
    file.write_bytes(changed.get(how, content))
    return how


def damages(run: Run, folder: Path, count: int) -> int:
    """Damage a random file of the newer of two checkpoints, and restore; repeat `count` times.

    Check that the older checkpoint is restored if the damage changed a file other than the
    manifest. Return how often the older checkpoint was restored.
    """
    dice, passed = random.Random(0), 0
    for _ in range(count):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(run.path, folder)
        newest = folder / "checkpoints" / "00000002"
        files = sorted(path for path in newest.rglob("*") if path.is_file())
        file = dice.choice(files)
        before = file.read_bytes()
        how = spoil(file, dice)
        update, found = dataclasses.replace(run, path=folder).restore(TREES)
        same = file.exists() and file.read_bytes() == before
        assert update == (2 if same else 1) or file.name == checkpoints.MANIFEST, (file, how)
        np.testing.assert_array_equal(found["weights"]["a"], trees(update)["weights"]["a"])
        passed += update == 1
    return passed


def test_any_damage_is_passed_over(run, tmp_path):
    assert damages(run, tmp_path / "spoilt", 12) > 6


@pytest.mark.slow
def test_much_damage_is_passed_over(run, tmp_path):
    count = 150
    passed = damages(run, tmp_path / "spoilt", count)
    print(
        f"\n{count} damaged checkpoints: {passed} passed over, {count - passed} with equal arrays"
    )
