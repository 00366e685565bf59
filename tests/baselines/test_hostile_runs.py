"""Tests of malicious run directories: they are refused or skipped, and never executed."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorstore
from small_run import ROW, TREES, names, saved_run, trees

from jaxenvs.baselines.storage import checkpoints, folder, runs
from jaxenvs.baselines.storage.runs import Run, RunError


@pytest.fixture
def run(tmp_path) -> Run:
    """Return a run with checkpoints of updates 1 and 2."""
    return saved_run(tmp_path)


def manifest(path: Path, **changes) -> None:
    """Change fields in the manifest of a checkpoint."""
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("name", ["../../../secret", "/etc/passwd", "/dev/zero", "weights/../x"])
def test_a_manifest_names_only_files_of_its_checkpoint(run, tmp_path, capsys, name):
    (tmp_path / "secret").write_text("x")
    newest = run.checkpoints / "00000002"
    files = json.loads((newest / "manifest.json").read_text())["files"]
    manifest(newest, files=files | {name: [1, "0" * 64]})
    assert run.restore(TREES)[0] == 1
    assert f"00000002 is damaged ({name!r} is missing)" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["file", "folder", "device", "pipe"])
def test_only_plain_files_of_the_checkpoint_are_opened(run, tmp_path, capsys, kind):
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


def test_unknown_files_are_damage_but_hidden_files_of_file_managers_are_not(run, capsys):
    newest = run.checkpoints / "00000002"
    (newest / ".DS_Store").write_text("x")
    assert run.restore(TREES)[0] == 2
    (newest / "weights" / "extra.pkl").write_bytes(pickle.dumps(_Bomb()))
    assert run.restore(TREES)[0] == 1


@pytest.mark.parametrize("name", folder.WRITTEN)
def test_a_run_whose_parts_are_links_is_refused(run, tmp_path, name):
    other = tmp_path / "mine"
    if (run.path / name).exists():
        (run.path / name).rename(other)
    (run.path / name).symlink_to(other)
    with pytest.raises(RunError, match=f"{name} is a link, .*put a copy in its place"):
        Run.open(run.path)


def test_only_folders_that_training_creates_are_removed(run, tmp_path):
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
def test_an_unreadable_config_is_refused(run, content, says):
    content = content if isinstance(content, bytes) else content.encode()
    (run.path / "config.json").write_bytes(content)
    with pytest.raises(RunError, match=says) as caught:
        Run.open(run.path)
    assert "restore the file or train again" in str(caught.value)


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
        (
            {"settings": {"hidden": [5], "embed": 2, "network": "nowhere:Net"}},
            r"No module named 'nowhere'; give module:name",
        ),
        ({"settings": {"hidden": [10**12], "embed": 2}}, "does not fit"),
        ({"seeds": 10**9}, "does not fit"),
    ],
)
def test_an_invalid_config_is_refused(run, changes, says):
    config = json.loads((run.path / "config.json").read_text()) | changes
    (run.path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=says):
        runs.load_policy(run.path)


def test_arrays_of_a_manifest_must_fit_into_memory(run):
    newest = run.checkpoints / "00000002"
    manifest(newest, arrays={"weights": {"a": "float32[1000000000000]"}})
    huge = {"weights": {"a": runs.jax.ShapeDtypeStruct((10**12,), np.float32)}}
    with pytest.raises(RunError, match=r"claims to hold 4,000 GB, and this machine has"):
        run.restore(huge)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"shape":[2,3]', b'"shape":[1000000,1000000]', r"float32\[1000000, 1000000\] th"),
        (b'"chunks":[2,3]', b'"chunks":[200000,300000]', "a chunk of a is larger than the array"),
    ],
)
def test_arrays_that_decompress_to_a_larger_size_are_refused(run, old, new, says):
    """Changed array metadata is refused even if its hashes in the manifest were updated."""
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


def test_errors_of_orbax_name_the_checkpoint_to_remove(run):
    newest = run.checkpoints / "00000002"
    (newest / "weights" / "manifest.ocdbt").write_bytes(b"\x80\x04\x95garbage")
    signed(newest)
    with pytest.raises(RunError, match=r"cannot be read .*remove .*00000002 to use the previous"):
        run.restore(TREES)


def signed(path: Path) -> None:
    """Write the current hashes of a checkpoint's files to its manifest, as an attacker would."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != "manifest.json")
    prints = {file.relative_to(path).as_posix(): checkpoints._fingerprint(file) for file in files}
    manifest(path, files=prints)


@pytest.mark.parametrize("row", ["[1]", '{"update": "x"}', "[" * 10**5, '"x"', "\xff", '{"up'])
def test_a_log_is_read_up_to_the_first_invalid_line(run, row):
    run.log([ROW])
    with (run.path / "log.jsonl").open("a", encoding="latin-1") as file:
        file.write(row + "\n")
    assert run.records() == [ROW]
    run.rewind(1)
    assert (run.path / "log.jsonl").read_text() == json.dumps(ROW) + "\n"


class _Bomb:
    """Object that writes a file when it is unpickled."""

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
from jaxenvs.baselines.storage import checkpoints
from jaxenvs.baselines.storage.runs import Run, RunError
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
