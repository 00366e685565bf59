"""Tests of `jaxenvs speedrun`: entries, attempts, results files and replays."""

import copy
import json
import re
import sys

import jax
import numpy as np
import pytest

import jaxenvs
from jaxenvs import cli
from jaxenvs.baselines.run import options
from jaxenvs.baselines.speedrun import boards, moves, results, training
from jaxenvs.baselines.speedrun.attempts import attempt, figures, reaches
from jaxenvs.baselines.speedrun.command import words
from jaxenvs.baselines.speedrun.entries import ENTRIES, HEURISTIC, POLICY, SEARCH, Entry
from jaxenvs.commands.parser import UsageError
from jaxenvs.core import registry

TINY = Entry(
    name="tiny",
    id="Classic-CartPole-v0",
    bar=8.0,
    measure="return",
    budget=100 * 4 * 8,
    package="gymnasium",
    flags=("--num-envs", "4", "--rollout-steps", "8", "--hidden", "4", "--chunk", "1"),
    every=4 * 8,
    episodes=16,
)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Add an entry that takes seconds, and work in an empty folder."""
    monkeypatch.setitem(ENTRIES, TINY.name, TINY)
    monkeypatch.chdir(tmp_path)
    return TINY


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_every_entry_builds_and_its_flags_parse(entry, tmp_path):
    spec = registry.spec(entry.id)
    env = jaxenvs.make(entry.id)
    if entry.kind == POLICY:
        assert env.package == entry.package and spec.upstream
    else:
        assert not entry.package
    assert entry.trains == (entry.kind != SEARCH)
    if not entry.trains:
        return assert_all_of_korf(entry)
    algorithm, rest, _ = training.prepared(entry, 3, (), tmp_path)
    training.check_learner(entry, (), replays=True)
    read = options.with_source(options.parse(rest, algorithm), algorithm)
    config = options.config(read, algorithm)
    assert (config.seed, config.seeds) == (3, 1) and not config.params
    assert {*config.fields} <= {"obs", "setup"}  # what new runs always record
    assert read.settings.total_steps == entry.budget
    training.check_flags(entry.flags)
    # Evaluations are frequent: at least ten fit into the budget.
    assert 10 * entry.every <= entry.budget
    if entry.kind == POLICY and entry.every:
        assert read.eval_every * read.settings.steps_per_update == entry.every
    else:
        assert read.eval_every is None


def assert_all_of_korf(entry):
    from jaxenvs.benchmarks.card import korf

    assert entry.episodes == len(korf.LEVELS) == 100


def test_there_are_nine_entries_and_craft_1b_uses_its_whole_budget():
    assert len(ENTRIES) >= 9
    assert {"doorkey-8x8", "classic-90", "craft-1b", "cube-2x2", "15-puzzle-korf"} < {*ENTRIES}
    assert ENTRIES["craft-1b"].every == 0 and ENTRIES["craft-1b"].bar == pytest.approx(0.183 * 226)
    assert ENTRIES["classic-90"].bar == pytest.approx(0.9 * 22)


def test_an_attempt_stops_at_the_bar_and_is_replayed(tiny, capsys):
    assert cli.main(["speedrun", "tiny", "--seed", "2"]) == 0
    out = capsys.readouterr().out
    assert "s with compilation" in out and "in gymnasium" in out and "bar 8: reached" in out
    (made,) = results.read(results.Path("speedrun-tiny.json"))["attempts"]
    assert (made["seed"], made["reached"]) == (2, True)
    # It stops long before the budget.
    assert 4 * 8 <= made["steps"] <= 10 * 4 * 8
    assert 0 <= made["training_seconds"] < made["seconds"]
    for place in ("here", "there"):
        assert made[place]["episodes"] == 16 and made[place]["mean"] >= 8
    assert made["there"]["package"] == "gymnasium" and made["there"]["version"]
    # The same seed is not run twice, and one seed is not a row.
    assert cli.main(["speedrun", "tiny", "--seed", "2"]) == 2
    assert "already has seed 2; give another --seed or --json" in capsys.readouterr().err
    assert cli.main(["speedrun", "--check", "speedrun-tiny.json"]) == 1
    assert "1 of 5 seeds" in capsys.readouterr().out


def test_a_missed_bar_has_exit_code_1(tiny, monkeypatch, capsys):
    hard = tiny._replace(bar=501.0, budget=2 * 4 * 8)
    monkeypatch.setitem(ENTRIES, "tiny", hard)
    argv = ["speedrun", "tiny", "--seeds", "2", "--no-replay", "--json", "two.json"]
    assert cli.main([*argv, "--out", "runs", "--", "--learning-rate", "1e-4"]) == 1
    out = capsys.readouterr().out
    assert out.count("bar 501: missed") == 2 and out.count("the row is not accepted") == 2
    content = json.loads(results.Path("two.json").read_text())
    assert [each["seed"] for each in content["attempts"]] == [0, 1]
    assert content["attempts"][0]["flags"] == [*hard.flags, "--learning-rate", "1e-4"]
    assert results.Path("runs/seed-1/config.json").is_file()
    found = results.problems(content)
    assert any("seed 1: missed the bar of 501" in problem for problem in found)
    assert any("it was not replayed" in problem for problem in found)


@pytest.mark.parametrize(
    ("name", "package", "installs"),
    [
        ("tiny", "gymnasium", "[gym]"),
        ("doorkey-8x8", "minigrid", "[minigrid]"),
        ("classic-90", "craftax", "install --no-deps craftax"),
    ],
)
def test_a_missing_package_is_an_error_before_training(
    tiny, monkeypatch, capsys, name, package, installs
):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("jaxenvs.baselines.speedrun.command.attempt", None)
    assert cli.main(["speedrun", name]) == 2
    said = capsys.readouterr().err
    assert f"{name} replays the policy in {package}; this needs {package}, not installed" in said
    assert installs in said and "or give --no-replay, and the row is not accepted" in said


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["carpole"], "no entry 'carpole'; choose one of cartpole, .*did you mean 'cartpole'"),
        (["cartpole", "--", "--seeds", "3"], "--seeds is fixed by the entry"),
        (["cartpole", "--", "--total-steps=5"], "--total-steps is fixed by the entry"),
        (["cartpole", "--", "--total_steps=5"], "--total-steps is fixed by the entry"),
        (["doorkey-8x8", "--", "--set", "obs=full"], "--set is fixed by the entry"),
        (["classic-90", "--no-replay", "--", "--setup", "eased"], "--setup is fixed by the entry"),
        (["doorkey-8x8", "--", "--algo", "bc", "--demos", "x"], "--demos is fixed by the entry"),
        (["cartpole", "--", "--algo", "apex"], "--algo apex trains in other processes"),
        (["cartpole", "--", "--algo", "davi"], "needs a policy .* davi in .* learns none"),
        (["memory-s7", "--", "--previous"], "minigrid does not show the previous step"),
        (["cube-2x2", "--", "--algo", "last-move"], "last-move learns none; give --algo davi"),
        (["15-puzzle-korf", "--", "--width", "3"], "15-puzzle-korf trains nothing; omit --width 3"),
        (["cartpole", "--json", "no/file.json"], "no folder no; create it first"),
        (["--check", "absent.json"], "absent.json cannot be read as JSON"),
    ],
)
def test_bad_input_is_an_error(tiny, capsys, argv, says):
    assert cli.main(["speedrun", *argv]) == 2
    assert re.search(says, capsys.readouterr().err)


def test_evaluations_are_a_fixed_number_of_steps_apart():
    def every(flags):
        _, rest, settings = training.prepared(ENTRIES["doorkey-8x8"], 0, flags, results.Path("x"))
        return int(rest[rest.index("--eval-every") + 1]), settings.updates

    assert every(["--num-envs", "32", "--rollout-steps", "64"]) == (20, 1465)
    assert every(["--num-envs", "16", "--rollout-steps", "64"]) == (40, 2930)
    # Updates of 524,288 steps: an evaluation after each, and after a single one of 4 M steps.
    assert every(["--num-envs", "4096", "--rollout-steps", "128"]) == (1, 6)
    assert every(["--num-envs", "8192", "--rollout-steps", "512"]) == (1, 1)


def test_training_stops_when_the_interval_of_an_evaluation_is_above_the_bar():
    entry = TINY._replace(bar=0.5)

    def stops(evaluations, entry=entry):
        watch = training.Watch(entry)
        rows = [{"eval_return": [mean], "eval_error": [error]} for mean, error in evaluations]
        rows.insert(1, {})  # an update without an evaluation
        times = ({"seconds": 1.0 + i, "steps": 10 * i} for i in range(len(rows)))
        return [watch(row | time) for row, time in zip(rows, times, strict=True)], watch.timing

    said, timing = stops([(0.4, 0.01), (0.6, 0.06), (0.6, 0.05)])
    assert said == [False, False, False, True]
    assert timing.steps == 30 and timing.training_seconds == 3.0
    assert stops([(0.9, 0.0)] * 2, entry._replace(every=0))[0] == [False] * 3


def test_compiled_programs_are_forgotten_and_the_cache_is_off_meanwhile():
    compiled = []
    program = jax.jit(lambda x: (compiled.append(0), x)[1])
    program(1.0)
    was = jax.config.values["jax_enable_compilation_cache"]
    with training.uncached():
        assert not jax.config.values["jax_enable_compilation_cache"]
        program(1.0)
    assert len(compiled) == 2 and jax.config.values["jax_enable_compilation_cache"] == was


def test_the_interval_of_a_mean():
    found = figures(np.array([0.0, 1.0] * 50))
    error = 1.959964 * 0.502519 / 10
    assert found == {
        "mean": 0.5,
        "low": pytest.approx(0.5 - error, abs=1e-5),
        "high": pytest.approx(0.5 + error, abs=1e-5),
        "episodes": 100,
    }


def test_the_replay_may_miss_the_bar_only_by_chance():
    here = {"mean": 8.5, "low": 8.0, "high": 9.0, "episodes": 16}
    assert reaches(TINY, here, None) and reaches(TINY, here, {**here, "mean": 7.9, "high": 8.1})
    assert not reaches(TINY, here, {**here, "mean": 7.8, "high": 7.9})
    assert not reaches(TINY, {**here, "mean": 7.9}, here)


def row(seed: int, **changes):
    """Return a valid attempt of `doorkey-8x8`."""
    entry = ENTRIES["doorkey-8x8"]
    result = {"mean": 0.96, "low": 0.955, "high": 0.965, "episodes": entry.episodes}
    return {
        **{"seed": seed, "reached": True, "bar": entry.bar, "measure": entry.measure},
        **{"budget": entry.budget, "flags": [], "steps": 500_000, "seconds": 9.0 + seed},
        **{"training_seconds": 5.0, "here": result},
        "there": {**result, "package": "minigrid", "version": "3.2.0"},
        **{"date": "2026-11-29 08:00", "commit": "abc", "device": "cpu: cpu"},
        **{"processor": "AMD EPYC", "cpus": 2},
        "versions": {"python": "3.11.7", "jaxenvs": "0.1.0", "jax": "0.10.2"},
        **changes,
    }


def content(*attempts, entry="doorkey-8x8"):
    return {"format": 1, "entry": entry, "attempts": list(attempts)}


FIVE = content(*map(row, range(5)))


def test_five_good_seeds_are_a_valid_row(tmp_path, capsys):
    file = tmp_path / "row.json"
    file.write_text(json.dumps(FIVE))
    assert results.problems(results.read(file)) == []
    assert cli.main(["speedrun", "--check", str(file)]) == 0
    assert "is a valid row" in capsys.readouterr().out


def changed(path, value):
    """Return five good attempts, of which the last has another value at `path`."""
    made = copy.deepcopy(FIVE)
    place = made["attempts"][4]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (content(*map(row, range(4))), "4 of 5 seeds"),
        (content(*map(row, (0, 1, 2, 3, 5))), "not consecutive: no attempt may be left out"),
        (content(*map(row, (0, 1, 2, 3, 3))), "not consecutive"),
        (changed(["here", "mean"], 0.94), "outside its interval"),
        (changed(["here"], {"mean": 0.9, "low": 0.8, "high": 0.96, "episodes": 256}), "missed"),
        (changed(["there", "high"], 0.9), "outside its interval"),
        (changed(["reached"], False), "reached is False, but the results say True"),
        (changed(["there"], None), "run it again without --no-replay"),
        (changed(["there", "package"], "gymnasium"), "in gymnasium, not in minigrid"),
        (changed(["there", "version"], ""), "version of minigrid is missing"),
        (changed(["here", "episodes"], 16), "here has 16 episodes or boards, not 256"),
        (changed(["bar"], 0.5), "bar is 0.5, the entry has 0.95"),
        (changed(["budget"], 5), "budget is 5"),
        (changed(["steps"], 9_000_000), "9,000,000 steps exceed the budget of 3,000,000"),
        (changed(["seconds"], 1.0), "training cannot last longer than the whole"),
        (changed(["flags"], ["--set", "size=5"]), "--set is fixed by the entry"),
        (changed(["flags"], ["--embed", "2"]), "the attempts differ in flags"),
        (changed(["device"], "gpu: H200"), "the attempts differ in device"),
        (changed(["versions", "jax"], "0.9"), "the attempts differ in versions"),
        (changed(["versions", "jax"], ""), "versions lack jax"),
        (changed(["commit"], "abc-dirty"), "uncommitted changes"),
    ],
)
def test_a_file_that_is_not_a_row_is_refused(found, says, tmp_path, capsys):
    file = tmp_path / "row.json"
    file.write_text(json.dumps(found))
    assert cli.main(["speedrun", "--check", str(file)]) == 1
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "not a results file of format 1"),
        (json.dumps({**FIVE, "format": 2}), "not a results file of format 1"),
        (json.dumps(content(row(0), entry="chess")), "no entry is named 'chess'"),
        (json.dumps(content()), "at least one attempt"),
        (json.dumps(content({})), "attempts[0] has no seed"),
        (json.dumps(content(row(0, seconds="9"))), "attempts[0].seconds is '9'"),
        (json.dumps(content(row(0, seconds=float("nan")))), "attempts[0].seconds is nan"),
        (json.dumps(content(row(True))), "attempts[0].seed is True"),
        (json.dumps(content(row(0, flags=[3]))), "attempts[0].flags must be texts"),
        (json.dumps(content(row(0, here={}))), "attempts[0].here has no mean"),
        (json.dumps(content(row(0, here=None))), "attempts[0].here is None"),
        (json.dumps(content(3)), "attempts[0] must be an object"),
    ],
)
def test_a_file_of_another_structure_is_refused(text, says, tmp_path, capsys):
    file = tmp_path / "row.json"
    file.write_text(text)
    assert cli.main(["speedrun", "--check", str(file)]) == 2
    assert says in capsys.readouterr().err


def test_another_entry_needs_another_file(tmp_path):
    file = tmp_path / "row.json"
    file.write_text(json.dumps(FIVE))
    with pytest.raises(UsageError, match="has attempts of doorkey-8x8; give another --json"):
        results.check_free(file, ENTRIES["cartpole"], [9])
    results.check_free(file, ENTRIES["doorkey-8x8"], [5])


def test_recorded_rows_are_valid_and_listed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")  # in a narrow terminal, each cell has a line
    recorded = results.recorded()
    for found in recorded:
        assert results.problems(found) == [], found["entry"]
    assert cli.main(["speedrun"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in ENTRIES:
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert ("no recorded row" in line) == (name not in {each["entry"] for each in recorded})


def test_words_of_an_attempt():
    said = words(ENTRIES["doorkey-8x8"], row(1))
    assert said.splitlines()[0] == (
        "doorkey-8x8, seed 1: 10.0 s with compilation (5.0 s of training), 500,000 steps, "
        "AMD EPYC, 2 cores"
    )
    assert "in minigrid 3.2.0: return 0.96 (95 %: 0.955 to 0.965) over 256" in said


@pytest.mark.parametrize("id", ["Puzzle-Cube-2x2-v0", "Puzzle-Cube-3x3-Half-v0"])
def test_plain_python_turns_a_cube_as_jaxenvs_does(id):
    puzzle = jaxenvs.make(id)
    board = np.asarray(puzzle.sample_level(jax.random.key(3)).board)
    for action, name in enumerate(puzzle.action_names):
        ours = np.asarray(puzzle.apply((), board, np.int32(action)).board)
        assert moves.turned(board.tolist(), name, puzzle.size) == ours.tolist(), name


def test_plain_python_recognises_solutions():
    cube = jaxenvs.make("Puzzle-Cube-2x2-v0")
    board = cube.read_level("R U F'").board.tolist()
    assert moves.solves_cube(board, ["F", "U'", "R'"])
    assert not moves.solves_cube(board, ["F", "U'", "R"]) and not moves.solves_cube(board, [])
    assert moves.solves_tiles([1, 2, 3, 4, 5, 6, 7, 0, 8], [2, 3, 1]) is False
    assert moves.solves_tiles([1, 2, 3, 4, 5, 0, 7, 8, 6], [2])
    assert not moves.solves_tiles([1, 2, 3, 4, 5, 0, 7, 8, 6], [1, 2])  # the blank leaves


def test_a_blank_moves_in_plain_python_as_in_jaxenvs():
    puzzle = jaxenvs.make("Puzzle-SlidingTile-4x4-v0")
    start = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 13, 14, 15, 12]
    level, action = puzzle.level(start), np.int32(2)
    assert moves.solves_tiles(start, [2])
    assert puzzle.is_goal((), puzzle.apply((), level.board, action).board)


@pytest.mark.full
def test_an_attempt_at_the_cube_searches_and_replays(tmp_path):
    flags = ("--algo", "davi", "--width", "16", "--walks", "2", "--gradient-steps", "2")
    entry = ENTRIES["cube-2x2"]._replace(budget=10 * 2 * 21 * 2, bar=0.0, flags=flags, every=1)
    made = attempt(entry._replace(episodes=8), 0, (), tmp_path / "run")
    assert made["reached"] and 84 <= made["steps"] <= 5 * 84
    assert made["there"]["package"] == "plain Python"
    # The replay agrees with the search, which proves that its plans are correct.
    assert made["here"]["mean"] == made["there"]["mean"]


def test_the_best_weights_of_a_cost_to_go_are_kept(monkeypatch):
    """Training makes a few updates more after the evaluation that stops it."""

    def solved(learner, weights, known):
        return boards.Plans(np.zeros((10, 1)), np.arange(10) < int(weights["solved"]))

    monkeypatch.setattr(boards, "solved", solved)
    known = boards.Known(None, None, np.zeros(10))
    searches = boards.Searches(1, known, None)
    assert searches.best is None
    shares = []
    for update, count in enumerate((2, 9, 5)):
        searches.begin(update, {"solved": jax.numpy.array([count])})
        row = {}
        searches.finish(row)
        shares += row["eval_return"]
    assert shares == [0.2, 0.9, 0.5]
    assert searches.solved(known).optimal.mean() == 0.9


@pytest.mark.full
def test_the_easiest_of_korfs_boards_are_solved_and_replayed(monkeypatch):
    # enough nodes for two boards, in less memory
    monkeypatch.setattr(boards.card, "node_budget", lambda words, small: 4_000_000)
    entry = ENTRIES["15-puzzle-korf"]._replace(episodes=2)
    timing, here, there = boards.korfs(entry, 1)
    assert here.tolist() == there.tolist() == [True, True]
    assert 0 < timing.training_seconds < timing.seconds and timing.steps > 1000


def test_an_entry_of_each_kind_exists():
    assert {entry.kind for entry in ENTRIES.values()} == {POLICY, HEURISTIC, SEARCH}
