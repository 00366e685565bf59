"""Tests of the command `jaxenvs`: its table of commands, its help, and shell completion."""

import dataclasses
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import jaxenvs
from jaxenvs import cli
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import options
from jaxenvs.commands import checking, completion, table
from jaxenvs.core import background, registry
from jaxenvs.core.typed import installation

PYTHON = sys.executable  # a fixture of this file changes sys.executable

IDS = jaxenvs.registry.list()


def run(argv: list[str], capsys) -> tuple[int, str, str]:
    """Run a command; return exit code, output and errors."""
    try:
        code = cli.main(argv)
    except SystemExit as stopped:
        code = stopped.code
    return (code, *capsys.readouterr())


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_examples_that_name_it(name, capsys):
    code, out, err = run([name, "--help"], capsys)
    assert (code, err) == (0, "") and f"usage: jaxenvs {name} " in out
    assert max(map(len, out.splitlines())) <= 80, "in a pipe"
    examples = out.partition("examples:\n")[2].splitlines()
    assert len(examples) >= 2 and all(line.startswith(f"  jaxenvs {name}") for line in examples)
    words = " ".join(examples).split()
    ids = [word for word in words if "-v0" in word and not word.startswith("Mine-")]
    for id in ids:
        assert jaxenvs.spec(id)
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert all(option in out.partition("examples:")[0] for option in options)


def test_the_help_lists_all_commands(capsys):
    code, out, _ = run(["--help"], capsys)
    assert code == 0 and all(f"\n  {name} " in out for name in cli.COMMANDS)
    assert max(map(len, out.splitlines())) <= 80
    assert run([], capsys)[0] == 2
    assert run(["--version"], capsys)[1] == f"jaxenvs {jaxenvs.__version__}\n"


def test_the_package_runs_as_the_command():
    words = [sys.executable, "-m", "jaxenvs", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == f"jaxenvs {jaxenvs.__version__}\n"


BAD = [
    (["trian"], "no command 'trian' (`jaxenvs --help` lists all); did you mean 'train'"),
    (["--completion"], "give a shell, bash, zsh, fish"),
    (["--completion", "csh"], "give a shell, bash, zsh, fish, not 'csh'"),
    (["check"], "ID"),
    (["check", "Grid-Emty-5x5-v0"], "did you mean 'Grid-Empty-5x5-v0'"),
    (["check", "Grid-v0", "Grid-Emty-5x5-v0"], "did you mean 'Grid-Empty-5x5-v0'"),
    (["check", "Grid-v0", "--steps", "x"], "'x' must be a whole number, 0 to"),
    (["check", "Grid-v0", "--seed", "-1"], "'-1' must be a whole number, 0 to"),
    (["bench", "--batches", "x"], "'x' must be a whole number, 1 to"),
    (["bench", "--repeats", "0"], "'0' must be a whole number, 1 to"),
    (["bench", "--seconds", "x"], "--seconds: 'x' must be a number from 1e-06 to 1e+06"),
    (["bench", "--wide"], "`jaxenvs bench --help` lists the arguments"),
    (["bench", "--batch", "64"], "arguments: --batch 64; did you mean '--batches'"),
    (["play", "Grid-v0", "--sed=1"], "arguments: --sed=1; did you mean '--seed'"),
    (["bench", "--ids", "Grid-Emty-5x5-v0"], "did you mean 'Grid-Empty-5x5-v0'"),
]


@pytest.mark.parametrize(("argv", "says"), BAD)
def test_bad_input_is_one_sentence(argv, says, capsys):
    code, out, err = run(argv, capsys)
    assert (code, out) == (2, "") and says in err and err.count("\n") == 1
    assert err.startswith(f"jaxenvs {argv[0]}: ") or argv[0] not in cli.COMMANDS


def test_the_help_installs_completion_scripts_where_the_shells_look(capsys, tmp_path):
    said = run(["--help"], capsys)[1].partition("to install completion")[2]
    lines = "jaxenvs() { echo script of $2; }\n" + said.partition("\n")[2]
    home = {**os.environ, "HOME": str(tmp_path)}
    subprocess.run(["bash", "-e"], input=lines, text=True, env=home, check=True)
    for shell, (folder, file) in cli.SCRIPTS.items():
        assert (tmp_path / folder[2:] / file).read_text() == f"script of {shell}\n"


def test_a_missing_package_is_named_with_its_extra(capsys, monkeypatch):
    absent = table.Command("nothing", "no_such_package.of_a_test", {}, "train")
    monkeypatch.setitem(cli.COMMANDS, "absent", absent)
    code, _, err = run(["absent"], capsys)
    needed = f"no_such_package, not installed here: run {installation('train')}"
    assert code == 2 and needed in err


TRAIN = ("chex", "flax", "matplotlib", "mctx", "optax", "orbax", "rich", "tyro")
EXTRAS = (
    *TRAIN,
    "PIL",
    "gymnasium",
    "imageio",
    "imageio_ffmpeg",
    "minigrid",
    "pygame",
    "ray",
)
WITHOUT = """
import contextlib, io, json, sys
hidden, commands = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(hidden))
from jaxenvs import cli
for argv in commands:
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(argv)
        except SystemExit as stopped:
            code = stopped.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def without(hidden: tuple[str, ...], commands: list[list[str]], folder) -> list[list]:
    """Run commands in a process that cannot import `hidden`; return codes, outputs and errors."""
    given = [sys.executable, "-W", "error", "-c", WITHOUT, json.dumps([hidden, commands])]
    done = subprocess.run(given, capture_output=True, text=True, cwd=folder, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.full
def test_without_extras_errors_name_the_extra_and_completion_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    there = {extra: installation(extra) for extra in ("play", "train")}
    (tmp_path / "run").mkdir()
    drawn = ["--gif", "a.gif"]
    asked = [["train", "Grid-v0"], ["train", "--help"], ["watch", "run", *drawn]]
    asked += [
        ["play", "Grid-v0", *drawn, "--frames", "1"],
        *([["--completion", s] for s in cli.SHELLS]),
    ]
    *refused, bash, zsh, fish = without(EXTRAS, asked, tmp_path)
    for (command, *_), (code, out, err) in zip(asked, refused, strict=False):
        assert (code, out) == (2, "") and err.count("\n") == 1
        extra = "play" if command == "play" else "train"
        assert err.startswith(f"jaxenvs {command}: this needs ")
        assert err.endswith(f"not installed here: run {there[extra]}\n")
        assert extra == "play" or ", ".join(TRAIN) in err
    for code, out, err in (bash, zsh, fish):
        assert (code, err) == (0, "") and "train" in out and "tile-size" in out
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.fixture
def output(monkeypatch):
    """Return a function (file, *argv) -> exit code that runs `jaxenvs` with stdout in `file`."""

    def call(file, *argv):
        monkeypatch.setattr(sys, "argv", ["jaxenvs", *argv])
        with file, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", file)
            return cli.program()

    return call


def closed_pipe(unbuffered: bool):
    """Return the writing end of a pipe whose reading end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    return io.TextIOWrapper(os.fdopen(writing, "wb", buffering=0), write_through=unbuffered)


@pytest.mark.parametrize("argv", [["list"], ["--help"], ["info", "--help"], ["solve", "--help"]])
def test_a_closed_pipe_prints_no_error(argv, output, capsys):
    assert output(closed_pipe(unbuffered=False), *argv) == 141
    if "--help" not in argv[1:]:  # argparse ignores the error when it prints --help.
        assert output(closed_pipe(unbuffered=True), *argv) == 141
    assert capsys.readouterr().err == ""


def test_a_full_disk_prints_one_sentence(output, capsys):
    assert output(open("/dev/full", "w"), "list") == 1  # noqa: SIM115 - closed by the call
    said = "jaxenvs: the output cannot be written: No space left on device\n"
    assert capsys.readouterr().err == said


def test_other_errors_and_exit_codes_propagate(output, monkeypatch, tmp_path):
    def main():
        raise FileNotFoundError(2, "of the test")

    with (tmp_path / "out").open("w") as file:
        with pytest.raises(SystemExit) as stopped:
            output(file, "list", "--wide")
        assert stopped.value.code == 2
    monkeypatch.setattr(cli, "main", main)
    with pytest.raises(FileNotFoundError):
        output((tmp_path / "out").open("w"))


def test_ctrl_c_ends_the_process_at_once_and_silently(output, monkeypatch, capsys, tmp_path):
    def check_env(id, *, steps, seed):
        raise KeyboardInterrupt

    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr(checking, "check_env", check_env)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit) as stopped:
        output((tmp_path / "out").open("w"), "check", "Grid-v0")
    assert stopped.value.code == 130 and capsys.readouterr().err == ""


def test_a_finished_command_does_not_wait_for_the_background(output, monkeypatch, tmp_path):
    def leave(code):
        raise SystemExit(f"left with {code}")

    monkeypatch.setattr(os, "_exit", leave)
    # Use a separate thread name: a thread of an earlier test may still be running.
    monkeypatch.setattr(background, "NAME", "background of this test")
    go_on, job = threading.Event(), background.Background()
    assert output((tmp_path / "out").open("w"), "--version") == 0
    job.begin(go_on.wait)
    with pytest.raises(SystemExit, match="left with 0"):
        output((tmp_path / "out").open("w"), "--version")
    go_on.set()
    job.take()
    job.close()
    assert output((tmp_path / "out").open("w"), "--version") == 0


def test_the_process_prints_nothing_about_a_closed_pipe():
    with closed_pipe(unbuffered=False) as pipe:
        command = [sys.executable, "-m", "jaxenvs.cli", "list"]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")
    (script,) = (
        e for e in importlib.metadata.entry_points(group="console_scripts", name="jaxenvs")
    )
    assert script.load() is cli.program


def test_check_reports_each_id_and_returns_the_worst_code(capsys, monkeypatch):
    asked = []

    def check_env(id, *, steps, seed):
        asked.append((id, steps, seed))
        if id.startswith("Puzzle"):
            raise checking.ContractError("breaks its contract:\nreset: it is random")
        return ["reset", "step"]

    monkeypatch.setattr(checking, "check_env", check_env)
    argv = ["check", "Grid-v0", "Puzzle-2048-v0", "Craft-Classic-Ids-v0", "--steps", "9"]
    code, out, err = run([*argv, "--seed", "3"], capsys)
    assert code == 1 and asked == [(id, 9, 3) for id in argv[1:4]]
    assert out.splitlines()[0] == "Grid-v0: keeps the contract (2 checks, 9 random steps)"
    assert len(out.splitlines()) == 2 and err.startswith("Puzzle-2048-v0: breaks its contract:")


@pytest.fixture(scope="module")
def scripts():
    """Yield a dict from shell to completion script, and the words that the scripts complete.

    The words are read once, from the help of all commands. Users' scripts also call Python, to
    cache ids of packages installed later. Here they call `false` instead, so they cache nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        known = completion.words()
        patch.setattr(completion, "words", lambda: known)
        patch.setattr(sys, "executable", "false")
        yield {shell: completion.script(shell) for shell in cli.SHELLS}, known


def test_words_come_from_the_help(scripts):
    _, known = scripts
    assert list(known) == list(cli.COMMANDS)
    assert {"--gif", "--keys", "--tile-size"} < set(known["play"].options)
    assert {"--algo", "--entropy", "--capacity", "--simulations"} < set(known["train"].options)
    assert set(known["train"].places["--algo"]) >= {"ppo", "davi", "ppo-ray"}
    assert known["solve"].places["--terminate"] == ("first", "optimal")
    ids = known["info"].places[""]
    assert set(IDS) < set(ids) and "CartPole-v1" in ids
    assert known["watch"].places["--random"] == known["watch"].places[""] == ids
    assert known["bench"].places["--ids ..."] == ("families", "all", *ids)
    assert all("--help" in word.options for word in known.values())
    valued = {option for option, takes_value in known["watch"].options.items() if takes_value}
    flags = {"--panel", "--greedy", "--best", "--help", "--web", "--resume", "--oracle"}
    assert valued == set(known["watch"].options) - flags
    assert known["train"].options["--resume"] and not known["train"].options["--overwrite"]


def accepted(name: str) -> set[str]:
    """Return the flags of a learner, named after the fields of its dataclasses."""
    fields = dataclasses.fields(ALGORITHMS[name].load().Settings)
    names = [field.name for field in (*fields, *dataclasses.fields(options.Options))]
    flags = {"--" + name.replace("_", "-") for name in names}
    return flags | {flag.replace("--", "--no-") for flag in flags}


def test_every_completed_flag_of_train_exists(scripts):
    offered = scripts[1]["train"].options
    known = set().union(*map(accepted, ALGORITHMS)) | {"--help", "--algo", "--ray"}
    assert not set(offered) - known
    assert {"--bfloat16", "--no-bfloat16", "--param"} <= set(offered)
    assert {"--skip-forced", "--no-skip-forced"} <= set(offered)
    assert not offered["--skip-forced"] and not offered["--no-skip-forced"]  # they take no value


def test_every_flag_of_train_is_completed(scripts):
    offered = scripts[1]["train"].options
    settings = {"--" + f.name.replace("_", "-") for f in dataclasses.fields(options.Options)}
    assert settings - {"--settings", "--id"} <= set(offered)


def test_completed_puzzles_are_those_that_solve_accepts(scripts):
    puzzles = set(scripts[1]["solve"].places[""])
    assert puzzles == {id for id in IDS if isinstance(jaxenvs.make(id), jaxenvs.puzzles.Puzzle)}
    assert not puzzles & {"Puzzle-2048-v0", "Puzzle-Minesweeper-10x10-v0"} and len(puzzles) > 20


# Files and folders in the shell's working directory.
FILES, FOLDERS = {"my.txt", "myruns"}, {"myruns"}
DOOR = {"Grid-DoorKey-16x16-v0"}
COMPLETED = [
    (["ch"], {"check"}),
    ([""], set(cli.COMMANDS)),
    (["--comp"], {"--completion"}),
    (["--completion", "z"], {"zsh"}),
    (["info", "Grid-Empty-R"], {id for id in IDS if id.startswith("Grid-Empty-R")}),
    (["info", "Grid-v0", "my"], FILES),
    (["play", "Grid-v0", "--scr"], {"--screenshot"}),
    (["play", "Grid-v0", "--gif", "my"], FILES),
    (["solve", "--terminate", "o"], {"optimal"}),
    (["solve", "Puzzle-Sk"], {"Puzzle-Skewb-v0"}),
    (["watch", "--random", "Classic-C"], {"Classic-CartPole-v0"}),
    (["watch", "Grid-DoorKey-16"], DOOR),
    (["watch", "my"], FOLDERS),
    (["list", ""], {id.split("-")[0] for id in IDS}),
    (["train", "--algo", "ppo-r"], {"ppo-rnn", "ppo-ray"}),
    (["train", "--algo=ppo-r"], {"ppo-rnn", "ppo-ray"}),
    (["train", "--algo="], set(ALGORITHMS)),
    (["train", "Grid-DoorKey-16"], DOOR),
    (["train", "--resume", "my"], FILES),
    (["train", "--resume=my"], FILES),
    (["train", "Grid-v0", "--algo", "dqn", "--capac"], {"--capacity"}),
    (["bench", "my"], FILES),
    (["bench", "--ids", "fa"], {"families"}),
    (["bench", "--ids", "Grid-v0", "Grid-DoorKey-16"], DOOR),
    (["bench", "--ids", "Grid-v0", "--reset-source", "po"], {"pool"}),
    (["bench", "--ids", "Grid-v0", "--batches", "my"], FILES),
    (["check", "Grid-v0", "Grid-DoorKey-16"], DOOR),
    (["check", "--steps", "my"], FILES),
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Use a separate folder for the scripts' cache of words."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Create and enter the shell's working directory, which has a file and a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.txt").touch()
    (tmp_path / "myruns").mkdir()
    return tmp_path


def in_bash(script: str, words: list[str]) -> set[str]:
    words = [part for word in words for part in re.split("(=)", word) if part or not word]
    line = " ".join(f"'{word}'" for word in ["jaxenvs", *words])
    ask = f"COMP_WORDS=({line}) COMP_CWORD={len(words)}; _jaxenvs"
    ask += '; printf "%s\\n" "${COMPREPLY[@]-}"'
    given = f"{script}\n{ask}"
    done = subprocess.run(["bash", "-u"], input=given, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    # With no words from the script, bash completes file names itself.
    return set(done.stdout.split()) or FILES


def in_fish(script: str, words: list[str]) -> set[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".fish") as file:
        file.write(script)
        file.flush()
        ask = f"source {file.name}; complete -C 'jaxenvs {' '.join(words)}'"
        command = ["fish", "--no-config", "-c", ask]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split("\t")[0] for line in done.stdout.splitlines()]
    return {line.rpartition("=")[2].rstrip("/") for line in lines}


ZSH = """compset() { [[ $1 == -P && $2 == "*=" ]] || echo wrong }
compadd() {
    local found=1 w
    shift
    for w in "$@"; do [[ $w == ${word}* ]] && echo $w && found=0; done
    return $found
}
_files() { [[ $1 == -/ ]] && compadd -- FOLDERS || compadd -- FILES }"""


def in_zsh(script: str, words: list[str]) -> set[str]:
    given = " ".join(f"'{word}'" for word in ["jaxenvs", *words])
    body = script.rpartition("\n")[0]  # without the last line, which registers the function
    shown = ZSH.replace("FOLDERS", " ".join(FOLDERS)).replace("FILES", " ".join(FILES))
    ask = f"words=({given}); CURRENT={len(words) + 1}"
    whole = f"{shown}\n{body}\n{ask}\n_jaxenvs"
    done = subprocess.run(["zsh", "-f"], input=whole, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return set(done.stdout.split())


ASK = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.fixture(params=ASK)
def shell(request):
    """Return the name of a shell; skip the test if it is not installed."""
    if not shutil.which(request.param):
        pytest.skip(f"no {request.param} here")
    return request.param


@pytest.mark.parametrize(("words", "fits"), COMPLETED)
def test_a_shell_completes(words, fits, shell, scripts, here):
    assert ASK[shell](scripts[0][shell], words) == fits


PRINTS = """#!/bin/sh
echo "$@" >> {log}
printf '%s\\n' 'Late-Walk-v0 Late-Puzzle-v0' Late Late-Puzzle-v0
"""


def test_ids_of_a_package_installed_later_are_completed(shell, here, monkeypatch):
    log, python, site = (here / name for name in ("log", "a python", "a site"))
    python.write_text(PRINTS.format(log=log))
    python.chmod(0o755)
    (site / "late-1.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "path", [str(site)])
    script = completion.script(shell)
    for words, fits in (
        (["info", "La"], {"Late-Walk-v0", "Late-Puzzle-v0"}),
        (["check", "Late-Walk-v0", "Late-P"], {"Late-Puzzle-v0"}),
        (["bench", "--ids", "La"], {"Late-Walk-v0", "Late-Puzzle-v0"}),
        (["list", ""], {"Late"}),
        (["solve", "La"], {"Late-Puzzle-v0"}),
    ):
        assert ASK[shell](script, words) == fits
        # Python runs only for the first completion; later words come from the cache
        assert log.read_text() == "-P -m jaxenvs.commands.completion\n"
    later = time.time() + 9
    os.utime(site, (later, later))  # make the folder newer, as an installation does
    ASK[shell](script, ["list", ""])
    assert log.read_text().count("\n") == 2


def test_cached_words_come_from_the_registry(capsys, monkeypatch):
    for name in ("_specs", "_aliases"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    jaxenvs.register("Late-Walk-v0", aliases=["Upstream-Walk-v3"])(jaxenvs.grid.doorkey.DoorKey)
    assert completion.main() == 0
    ids, families, puzzles = capsys.readouterr().out.splitlines()
    assert {"Late-Walk-v0", "Upstream-Walk-v3", *IDS} <= {*ids.split()}
    assert families.split() == sorted({*jaxenvs.registry.families(), "Late"})
    assert "Puzzle-Skewb-v0" in puzzles.split() and "Late-Walk-v0" not in puzzles.split()


def test_no_word_needs_quoting_in_a_shell(scripts):
    for text in scripts[0].values():
        for kind in completion.KINDS:
            (given,) = re.findall(rf'\b{kind}="([^"]*uzzle[^"]*)"', text)
            assert not set(given) & set("$`\\'*?[]{}<>|&;")


def test_other_encodings_print_escapes(tmp_path):
    """A name that the terminal's encoding lacks is printed with escapes, without a traceback."""
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    argv = [
        PYTHON,
        "-m",
        "jaxenvs",
        "watch",
        "--random",
        "Grid-Empty-5x5-v0",
        "--frames",
        "1",
    ]
    done = subprocess.run(
        [*argv, "--gif", str(tmp_path / "é.gif")],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "\\xe9.gif: 1 picture" in done.stdout, done.stderr
