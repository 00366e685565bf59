"""Tests of `jaxenvs levels`, and of the option `--levels` of other commands."""

import json

import jax
import pytest

import jaxenvs
from jaxenvs import cli, levels
from jaxenvs.commands.fields import gathered

MAZE = ">#.\n.#.\n..G"


@pytest.fixture
def maze(tmp_path):
    (tmp_path / "maze.txt").write_text(MAZE)
    return str(tmp_path / "maze.txt")


def run(*argv):
    return cli.main(["levels", *argv])


def test_convert_and_show(maze, tmp_path, capsys):
    out = str(tmp_path / "level.txt")
    assert run("convert", maze, "--id", "Grid-Empty-5x5-v0", "--out", out) == 0
    assert "wrote 1 level to" in capsys.readouterr().out
    assert run("show", out) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "level 0\nid: Grid-Empty-5x5-v0\nmission: get to the green goal square\n"
    )
    assert run("convert", out, "--form", "maze") == 0
    assert capsys.readouterr().out == f"{MAZE}\n"


def test_mutate_writes_copies(maze, tmp_path, capsys):
    out = str(tmp_path / "more.txt")
    argv = ("mutate", maze, "--id", "Grid-Empty-5x5-v0", "--edits", "4", "--copies", "3")
    assert run(*argv, "--out", out) == 0
    assert len(levels.load(out)) == 3
    assert run(*argv) == 0
    assert capsys.readouterr().out.count("---") == 2


def test_check_reports_the_first_fault(maze, tmp_path, capsys):
    assert run("check", maze, "--id", "Grid-Empty-5x5-v0") == 0
    assert "1 level can be read" in capsys.readouterr().out
    (tmp_path / "wrong.txt").write_text("id: Grid-Empty-5x5-v0\ngrid:\nWGXX")
    assert run("check", str(tmp_path / "wrong.txt")) == 1
    assert "wrong.txt: line 3, column 3: unknown pair 'XX'" in capsys.readouterr().err


def test_check_goes_on_after_a_file_without_levels(maze, tmp_path, capsys):
    (tmp_path / "empty.txt").write_text("\n")
    assert run("check", str(tmp_path), "--id", "Grid-Empty-5x5-v0") == 1
    shown = capsys.readouterr()
    assert "empty.txt' contains no level" in shown.err and "1 level can be read" in shown.out


@pytest.mark.full
def test_solve_prints_steps_and_plan(maze, tmp_path, capsys):
    (tmp_path / "two.txt").write_text(f"{MAZE}\n---\n>#.\n.#.\n.#G")
    two, out = str(tmp_path / "two.txt"), str(tmp_path / "plans.json")
    assert run("solve", two, "--id", "Grid-Empty-5x5-v0", "--json", out) == 1
    shown = capsys.readouterr().out
    assert "    0  6          0.9460  right, forward, forward, left, forward, forward" in shown
    assert "    1  no plan    0.0000  -" in shown
    solved, none = json.loads((tmp_path / "plans.json").read_text())
    assert solved["steps"] == solved["upper"] == solved["lower"] == 6 and solved["proven"]
    assert none["unsolvable"] and none["steps"] is None and none["plan"] == []
    gif = str(tmp_path / "plan.gif")
    assert run("solve", maze, "--id", "Grid-Empty-5x5-v0", "--gif", gif) == 0
    assert (tmp_path / "plan.gif").read_bytes().startswith(b"GIF")
    assert run("solve", two, "--id", "Grid-Empty-5x5-v0", "--gif", gif) == 2
    assert "--gif draws one level" in capsys.readouterr().err
    for name in ("plan", "plan.bmp", "plan.png"):  # refused before the search
        wrong = str(tmp_path / name)
        assert run("solve", maze, "--id", "Grid-Empty-5x5-v0", "--gif", wrong) == 2
        printed = capsys.readouterr()
        assert f"--gif: {wrong} must end in .gif" in printed.err and not printed.out


@pytest.mark.full
def test_the_command_solve_takes_files_of_levels(maze, tmp_path, capsys):
    assert cli.main(["solve", "Grid-Empty-5x5-v0", "--levels", maze]) == 0
    assert "    0  6          0.9460  right, forward" in capsys.readouterr().out
    assert cli.main(["solve", "Grid-Empty-5x5-v0", "--levels", maze, "--watch"]) == 2
    assert "--watch does not apply to --levels FILE" in capsys.readouterr().err
    for flag, value in (("--seed", "0"), ("--algorithm", "beam"), ("--speed", "9")):
        assert cli.main(["solve", "Grid-Empty-5x5-v0", "--levels", maze, flag, value]) == 2
        assert f"{flag} does not apply to --levels FILE" in capsys.readouterr().err
    assert cli.main(["solve", "Grid-Empty-5x5-v0"]) == 2
    assert "add --levels FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("Grid-Dynamic-Obstacles-5x5-v0", "obstacles of Grid-Dynamic-Obstacles-5x5-v0 move"),
        ("Grid-Playground-v0", "no mission"),
    ],
)
def test_solve_explains_ids_without_an_optimum(id, message, tmp_path, capsys):
    env = jaxenvs.make(id)
    text = levels.write(env, env.sample_level(jax.random.key(0)))
    (tmp_path / "level.txt").write_text(text)
    assert run("solve", str(tmp_path / "level.txt"), "--id", id) == 2
    assert message in capsys.readouterr().err


def test_solve_takes_levels_of_one_environment(tmp_path, capsys):
    level = levels.read(jaxenvs.make("Grid-Empty-5x5-v0"), MAZE)
    ids = ("Grid-Empty-5x5-v0", "Grid-Empty-Random-5x5-v0")
    entries = [levels.Entry(level, notes={"id": id}) for id in ids]
    levels.save(tmp_path / "two.txt", entries)
    assert run("solve", str(tmp_path / "two.txt")) == 2
    assert "levels of 2 environments" in capsys.readouterr().err


def test_mistakes_are_explained(maze, tmp_path, capsys):
    given = ("--id", "Grid-Empty-5x5-v0")
    before = (tmp_path / maze).read_bytes()
    assert run("solve", maze, *given, "--json", maze) == 2
    assert "would replace the levels" in capsys.readouterr().err
    assert (tmp_path / maze).read_bytes() == before
    assert run("mutate", maze, *given, "--out", str(tmp_path / "no" / "a.txt")) == 2
    assert f"no folder {tmp_path / 'no'}; create it first" in capsys.readouterr().err
    assert run("show", maze) == 2
    assert "the level has no line `id:`" in capsys.readouterr().err
    assert run("show", str(tmp_path / "missing.txt")) == 2
    assert "no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given",
    [
        ("edit", "--out", "x.txt"),
        ("edit", "--json", "x.json"),
        ("edit", "--gif", "x.gif"),
        ("show", "--gif", "x.gif"),
        ("solve", "--edits", "3"),
        ("check", "--web"),
    ],
)
def test_an_option_of_another_action_is_refused(given, maze, capsys):
    action, option, *value = given
    assert run(action, maze, "--id", "Grid-Empty-5x5-v0", option, *value) == 2
    assert f"{option} does not apply to {action}, only to" in capsys.readouterr().err


@pytest.mark.full
def test_an_unsolvable_level_has_no_animation(tmp_path, capsys):
    (tmp_path / "maze.txt").write_text(">#.\n##.\n..G")
    given = ("--id", "Grid-Empty-5x5-v0", "--gif", str(tmp_path / "plan.gif"))
    assert run("solve", str(tmp_path / "maze.txt"), *given) == 1
    assert "the level is unsolvable" in capsys.readouterr().err
    assert not (tmp_path / "plan.gif").exists()


@pytest.mark.parametrize("action", ["show", "check"])
def test_a_folder_without_levels_is_a_mistake(action, tmp_path, capsys):
    """A folder without a .txt file is an error, also for `check`, which once reported success."""
    assert run(action, str(tmp_path)) == 2
    assert "the folder has no .txt file" in capsys.readouterr().err


def test_the_option_levels_is_short_for_a_field():
    for argv in (["ID", "--levels", "a.txt"], ["ID", "--levels=a.txt"]):
        assert gathered(argv, levels=True) == ["ID", "--set", "levels=a.txt"]
    assert gathered(["--set", "size=5", "--levels", "a"], levels=True) == [
        *("--set", "size=5", "levels=a")
    ]
    assert gathered(["ID", "--levels"], levels=True) == ["ID", "--levels"]
    # The option after `--levels` is not taken as the file name of `--levels`.
    assert gathered(["ID", "--levels", "--seed", "3"], levels=True) == [
        *("ID", "--levels", "--seed", "3")
    ]
    assert gathered(["ID", "--levels", "a"]) == ["ID", "--levels", "a"]


def test_training_records_the_file(maze, tmp_path):
    from jaxenvs.baselines.run import options

    parsed = options.parse(["Grid-Empty-5x5-v0", "--levels", maze, "--total-steps", "1e4"])
    config = options.config(parsed)
    assert config.fields["levels"] == maze
    level = config.env.sample_level(jax.random.key(0))
    assert levels.write(jaxenvs.make("Grid-Empty-5x5-v0"), level, form="maze") == MAZE


@pytest.mark.full
def test_bench_measures_levels_of_a_file(maze, tmp_path):
    argv = ["bench", "--ids", "Grid-Empty-5x5-v0", "--levels", maze, "--quick", "--no-peers"]
    assert cli.main([*argv, "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "bench.json").read_text())["params"] == {"levels": maze}


def test_solve_checks_folders_before_the_search(maze, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(levels, "solve", None)  # the test fails if the command calls `solve`
    missing = str(tmp_path / "no" / "plans.json")
    argv = ["levels", "solve", str(maze), "--id", "Grid-Empty-5x5-v0", "--json", missing]
    assert cli.main(argv) == 2 and "create it first" in capsys.readouterr().err


def test_printed_levels_can_be_read_again(maze, tmp_path, capsys):
    given = ("--id", "Grid-Empty-5x5-v0", "--param", "max_steps_in_episode=7")
    assert run("convert", maze, *given) == 0
    printed = capsys.readouterr().out
    assert run("convert", maze, *given, "--out", str(tmp_path / "out.txt")) == 0
    assert printed == (tmp_path / "out.txt").read_text()
    assert "id: Grid-Empty-5x5-v0" in printed and "limit: 7" in printed


@pytest.mark.parametrize("flag", ["--set", "--param"])
def test_fields_need_an_id(flag, maze, capsys):
    assert run("show", maze, flag, "size=9") == 2
    assert f"{flag} needs the environment: add --id ID" in capsys.readouterr().err
