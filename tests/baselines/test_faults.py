"""Faults: a full disk, damaged checkpoints, and folders of runs that somebody made to do harm."""

import dataclasses
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorstore

from jaxenvs.baselines import checkpoints, keeping, loop, ppo, runs
from jaxenvs.baselines.runs import Config, Run, RunError

ID = "Grid-Empty-Random-5x5-v0"
TINY = ["--num-envs", "8", "--rollout-steps", "32", "--hidden", "8", "--embed", "2"]
TINY += ["--eval-episodes", "4", "--checkpoint-every", "1"]
TREES = {
    "weights": {"a": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "learner": {"key": np.array([1, 2], np.uint32)},
}
ROW = {"update": 1, "steps": 8, "episodes": [1], "return": [0.5]}


def steps(updates: int) -> list[str]:
    """The flag for a number of updates."""
    return ["--total-steps", str(updates * 8 * 32)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run of four updates."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    assert ppo.main([ID, *TINY, *steps(4), "--out", str(out)]) == 0
    return out


def trees(update: int) -> dict:
    """Trees that tell the update."""
    return TREES | {"weights": {"a": TREES["weights"]["a"] + update}}


def names(run: Run) -> list[str]:
    """What is in the folder of checkpoints."""
    return sorted(path.name for path in run.checkpoints.iterdir())


@pytest.fixture
def run(tmp_path) -> Run:
    """A run with checkpoints of updates 1 and 2."""
    settings = dataclasses.asdict(ppo.Settings(hidden=(8,)))
    run = Run.create(tmp_path / "run", Config(ID, {}, 0, 1, settings))
    for update in (1, 2):
        run.save(update, trees(update))
    return run


@pytest.fixture
def full(monkeypatch):
    """A disk that is full while `full.now` is set, for checkpoints and for the log."""
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


# A full disk.


def test_a_full_disk_is_told_and_what_was_missed_is_made_up_for(run, full, capsys):
    keeper = keeping.Keeper(run)
    keeper.log([ROW])
    keeper.save(3, trees(3))
    said = capsys.readouterr().err
    assert said.count("warning: ") == 3 and said.count("Training goes on") == 3
    assert "checkpoint of update 3 could not be written" in said and "No space left" in said
    assert names(run) == ["00000001", "00000002"]
    assert run.restore(TREES)[0] == 2
    with pytest.raises(RunError, match=r"is untouched; free some space, then use --resume .*run$"):
        keeper.end()
    full.now = False
    keeper.log([ROW | {"update": 2}])
    keeper.save(4, trees(4))
    keeper.end()
    assert [row["update"] for row in run.rows()] == [1, 2]
    assert names(run) == ["00000002", "00000004"]
    assert capsys.readouterr().err == ""


def test_training_goes_on_while_the_disk_is_full(finished, tmp_path, full, monkeypatch, capsys):
    out = tmp_path / "run"
    updates = []

    def counted(learner, runners):
        updates.append(len(updates) + 1)
        full.now = len(updates) in (2, 3)
        return real(learner, runners)

    real = loop.run_chunk
    monkeypatch.setattr(loop, "run_chunk", counted)
    full.now = False
    assert ppo.main([ID, *TINY, *steps(4), "--out", str(out)]) == 0
    run = Run.open(out)
    said = capsys.readouterr().err
    assert "checkpoint of update 2" in said and "checkpoint of update 3" in said
    assert names(run) == ["00000001", "00000004"]
    assert [row["update"] for row in run.rows()] == [1, 2, 3, 4]
    same_end(out, finished)


def same_end(out: Path, like: Path) -> None:
    """Compare every array of the last checkpoints."""
    ends = [checkpoints.contents(checkpoints.saved(p / "checkpoints")[-1]) for p in (out, like)]
    assert ends[0].keys() == ends[1].keys()
    for name, array in ends[0].items():
        np.testing.assert_array_equal(array, ends[1][name])


def test_a_row_that_half_fits_on_the_disk_is_not_left_in_the_log(run, monkeypatch):
    run.log([ROW])
    before = (run.path / "log.jsonl").read_bytes()
    real = Path.open

    class Nearly:
        """A file on a disk with room for ten bytes."""

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
    """A file system of 1 MiB in memory, on which a file grows until nothing fits; then it goes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)])
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        argv = [ID, *TINY, *steps(3), "--out", str(disk / "run")]
        assert ppo.main(argv) == 0
        run, ballast = Run.open(disk / "run"), disk / "ballast"
        whole = names(run)
        with pytest.raises(OSError, match="No space left"):
            ballast.write_bytes(b"0" * 2**20)
        assert ppo.main(["--resume", str(disk / "run"), *steps(6)]) != 0
        assert names(run) == whole and run.restore(_shapes(run))[0] == 3
        ballast.unlink()
        assert ppo.main(["--resume", str(disk / "run"), *steps(6)]) == 0
        assert names(run) == ["00000005", "00000006"]
        assert [row["update"] for row in run.rows()] == [1, 2, 3, 4, 5, 6]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _shapes(run: Run) -> dict:
    """Shapes of everything in the newest checkpoint."""
    newest = checkpoints.saved(run.checkpoints)[-1]
    arrays = checkpoints.contents(newest)
    return {
        part: {k.partition(".")[2]: v for k, v in arrays.items() if k.split(".")[0] == part}
        for part in ("weights", "learner")
    }


# Killed before the first checkpoint.


def test_a_run_killed_before_its_first_checkpoint_begins_anew(finished, tmp_path, capsys):
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    for name in names(Run.open(out)):
        shutil.rmtree(out / "checkpoints" / name)
    (out / ".curve.png.77.part").write_text("half")
    assert ppo.main(["--resume", str(out)]) == 0
    assert "has no checkpoint yet; it begins anew" in capsys.readouterr().err
    same_end(out, finished)
    assert len(Run.open(out).rows()) == 4 and not (out / ".curve.png.77.part").exists()


def test_what_a_kill_at_the_very_start_leaves_is_no_obstacle(tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / ".config.json.4711.part").write_text("{")
    Run.create(tmp_path / "run", Config(ID, {}, 0, 1, {}))
    assert Run.open(tmp_path / "run").config.id == ID


def test_a_folder_of_checkpoints_that_was_moved_away_is_missed(run):
    shutil.rmtree(run.checkpoints)
    assert run.has_begun
    with pytest.raises(RunError, match=r"no whole checkpoint in .*train anew"):
        run.restore(TREES)


# Damage.


def spoil(file: Path, dice: random.Random) -> str:
    """Damage one file; return how."""
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
    """Damage files of the newest checkpoint; how often the one before was taken, else it fails."""
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


def manifest(path: Path, **changes) -> None:
    """Change what a manifest says."""
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


# Folders made to do harm.


@pytest.mark.parametrize("name", ["../../../secret", "/etc/passwd", "/dev/zero", "weights/../x"])
def test_a_manifest_names_files_of_its_own_only(run, tmp_path, capsys, name):
    (tmp_path / "secret").write_text("x")
    newest = run.checkpoints / "00000002"
    files = json.loads((newest / "manifest.json").read_text())["files"]
    manifest(newest, files=files | {name: [1, "0" * 64]})
    assert run.restore(TREES)[0] == 1
    assert f"00000002 is damaged ({name!r} is missing)" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["file", "folder", "device", "pipe"])
def test_what_is_no_plain_file_of_the_checkpoint_is_not_opened(run, tmp_path, capsys, kind):
    newest = run.checkpoints / "00000002"
    made = newest / "weights" / "more"
    if kind == "pipe":
        os.mkfifo(made)
    else:
        target = {"file": tmp_path / "a", "folder": tmp_path, "device": Path("/dev/zero")}[kind]
        (tmp_path / "a").write_text("x")
        made.symlink_to(target)
    assert run.restore(TREES)[0] == 1
    assert "weights/more is no plain file" in capsys.readouterr().err


def test_files_that_nobody_wrote_are_damage_but_what_file_managers_leave_is_not(run, capsys):
    newest = run.checkpoints / "00000002"
    (newest / ".DS_Store").write_text("x")
    assert run.restore(TREES)[0] == 2
    (newest / "weights" / "extra.pkl").write_bytes(pickle.dumps(_Bomb()))
    assert run.restore(TREES)[0] == 1


@pytest.mark.parametrize("name", runs.WRITTEN)
def test_a_run_whose_parts_are_links_is_refused(run, tmp_path, name):
    other = tmp_path / "mine"
    if (run.path / name).exists():
        (run.path / name).rename(other)
    (run.path / name).symlink_to(other)
    with pytest.raises(RunError, match=f"{name} is a link, .*put a copy in its place"):
        Run.open(run.path)


def test_only_folders_that_training_names_so_are_removed(run, tmp_path):
    kept = {"2024-photos", "1", "notes"}
    for name in kept:
        (run.checkpoints / name).mkdir()
    (tmp_path / "mine").mkdir()
    (run.checkpoints / "00000000").symlink_to(tmp_path / "mine")
    run.save(3, trees(3))
    assert set(names(run)) == kept | {"00000000", "00000002", "00000003"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[" * 10**5, "recursion"),
        ("1" * 5000, "is damaged"),
        (" " * (2**20 + 1), "has more than 1,048,576 bytes"),
        (b"\x80\x04\x95pickle", "is damaged"),
    ],
)
def test_a_config_that_is_none_is_refused(run, content, says):
    content = content if isinstance(content, bytes) else content.encode()
    (run.path / "config.json").write_bytes(content)
    with pytest.raises(RunError, match=says) as caught:
        Run.open(run.path)
    assert "restore the file or train anew" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": 0}, "seeds 0 from 0 on"),
        ({"seed": -1}, "seeds 1 from -1 on"),
        ({"id": "../../etc"}, "unknown environment id"),
        ({"fields": {"size": 10**9}}, "out of range|is not|no field|correct it"),
        ({"settings": {}}, "no network has the settings {'hidden': None"),
        ({"settings": {"hidden": "wide", "embed": 2}}, "no network has the settings"),
        ({"settings": {"hidden": [-5], "embed": 2}}, "no network has the settings"),
        ({"settings": {"hidden": [10**12], "embed": 2}}, "does not fit"),
        ({"seeds": 10**9}, "does not fit"),
    ],
)
def test_a_config_that_cannot_be_is_refused(run, changes, says):
    config = json.loads((run.path / "config.json").read_text()) | changes
    (run.path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=says):
        runs.load_policy(run.path)


def test_what_a_manifest_agrees_to_hold_is_still_no_more_than_memory(run):
    newest = run.checkpoints / "00000002"
    manifest(newest, arrays={"weights": {"a": "float32[1000000000000]"}})
    huge = {"weights": {"a": runs.jax.ShapeDtypeStruct((10**12,), np.float32)}}
    with pytest.raises(RunError, match=r"is said to hold 4,000 GB, and this machine has"):
        run.restore(huge)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"shape":[2,3]', b'"shape":[1000000,1000000]', r"float32\[1000000, 1000000\] th"),
        (b'"chunks":[2,3]', b'"chunks":[200000,300000]', "a chunk of a is larger than the array"),
    ],
)
def test_arrays_that_swell_when_they_are_read_are_refused(run, old, new, says):
    """The files of Orbax itself, with a manifest that agrees to them."""
    newest = run.checkpoints / "00000002"
    store = tensorstore.KvStore.open(
        {"driver": "ocdbt", "base": f"file://{newest / 'weights'}/"}
    ).result()
    known = store.read(b"a/.zarray").result().value
    assert old in known
    store.write(b"a/.zarray", known.replace(old, new)).result()
    signed(newest)
    with pytest.raises(RunError, match=says):
        run.restore(TREES)


def test_what_orbax_cannot_read_names_the_checkpoint_to_remove(run):
    newest = run.checkpoints / "00000002"
    (newest / "weights" / "manifest.ocdbt").write_bytes(b"\x80\x04\x95garbage")
    signed(newest)
    with pytest.raises(RunError, match=r"cannot be read .*remove .*00000002, and the one before"):
        run.restore(TREES)


def signed(path: Path) -> None:
    """Make the manifest agree to the files, as whoever means harm would."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != "manifest.json")
    prints = {file.relative_to(path).as_posix(): checkpoints._fingerprint(file) for file in files}
    manifest(path, files=prints)


@pytest.mark.parametrize("row", ["[1]", '{"update": "x"}', "[" * 10**5, '"x"', "\xff", '{"up'])
def test_a_log_is_read_up_to_the_first_line_that_is_no_row(run, row):
    run.log([ROW])
    with (run.path / "log.jsonl").open("a", encoding="latin-1") as file:
        file.write(row + "\n")
    assert run.rows() == [ROW]
    run.rewind(1)
    assert (run.path / "log.jsonl").read_text() == json.dumps(ROW) + "\n"


class _Bomb:
    """Unpickling it would write a file."""

    def __reduce__(self):
        return os.system, ("touch exploded",)


WATCH = """
import sys
from pathlib import Path

forbidden = {"pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}

def hook(event, arguments):
    if armed and event in forbidden:
        raise SystemExit(f"executed: {event} {arguments}")

armed = False
sys.addaudithook(hook)
from jaxenvs.baselines import checkpoints
from jaxenvs.baselines.runs import Run, RunError
armed = True
run = Run.open(sys.argv[1])
for path in checkpoints.saved(run.checkpoints):
    try:
        checkpoints.contents(path)
        print(path.name, "read")
    except RunError as error:
        print(path.name, "refused")
"""


def test_pickles_in_a_run_are_never_executed(run, tmp_path):
    newest = run.checkpoints / "00000002"
    for name in ("_METADATA", "manifest.ocdbt", "_CHECKPOINT_METADATA"):
        (newest / "weights" / name).write_bytes(pickle.dumps(_Bomb()))
    signed(newest)
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(run.path)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split("\n")[:2] == ["00000001 read", "00000002 refused"], done.stderr[-2000:]
    assert not (tmp_path / "exploded").exists()
