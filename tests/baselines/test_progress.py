"""Tests of a run's progress line: return, a learner's metric, time left, current activity."""

import dataclasses
import io
import re
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console, Group
from rich.text import Text

from jaxenvs.baselines import registry
from jaxenvs.baselines.core.terminal import activity, clock
from jaxenvs.baselines.evaluation import final
from jaxenvs.baselines.puzzles import davi, world
from jaxenvs.baselines.run import loop
from jaxenvs.baselines.run.progress import OLDEST, ProgressLine, Returns
from jaxenvs.baselines.storage import runs


def played(lengths: np.ndarray, returns: np.ndarray, rollout_steps: int, updates: int) -> list:
    """Simulate a run with given episodes; return the mean return shown after each update.

    Episode j of environment i has `lengths[i, j]` steps and return `returns[i, j]`.
    """
    ends, shown, found = lengths.cumsum(axis=1), Returns(rollout_steps), []
    for update in range(updates):
        first, last = update * rollout_steps, (update + 1) * rollout_steps
        ended = (ends > first) & (ends <= last)
        begun = np.where(ends <= last, ends, 0).max(axis=1)
        total = np.where(ended, returns, 0.0).sum()
        shown.take(np.array([ended.sum()]), np.array([total]), int((last - begun).max()))
        found.append(shown.mean)
    return found


def test_no_return_is_shown_before_each_environment_has_ended_an_episode():
    """Three environments end successful episodes every 5 steps; the fourth fails after 50 steps.

    No mean is shown before step 50: it would be 1, because only successful episodes have ended.
    """
    lengths = np.full((4, 100), 5)
    lengths[3] = 50
    returns = np.where(lengths == 5, 1.0, 0.0)
    found = played(lengths, returns, rollout_steps=10, updates=10)
    assert found[:4] == [None] * 4 and found[4] == pytest.approx(6 / 7)


def test_the_return_is_that_of_all_episodes_where_long_ones_end_together():
    """Half of the episodes succeed after 5 steps; the others fail at the limit of 40 steps.

    All environments begin together, so only successful episodes end in the first updates. The mean
    return shown must nevertheless be about 0.5.
    """
    rng = np.random.default_rng(0)
    lengths = rng.choice([5, 40], size=(256, 80))
    found = played(lengths, (lengths == 5) * 1.0, rollout_steps=10, updates=60)
    assert found[:3] == [None] * 3 and None not in found[4:]
    assert abs(np.mean(found[20:]) - 0.5) < 0.02 and max(found[6:]) < 0.7


def test_several_seeds_count_alike():
    shown = Returns(10)
    shown.take(np.array([2, 8]), np.array([2.0, 0.0]), 4)
    assert shown.mean == 0.5
    shown.take(np.array([0, 0]), np.array([0.0, 0.0]), 14)
    assert shown.mean == 0.5  # the mean over both updates


def metrics(episodes: int, total: float, **more: int) -> dict:
    """Return the metrics of an update, for one seed."""
    known = {"episodes": episodes, "return_sum": total, "length_sum": 9, **more}
    return {name: np.array([[value]]) for name, value in known.items()}


def config(id: str = "Grid-v0") -> runs.Config:
    """Return the configuration of a run of one seed."""
    return runs.Config(id=id, fields={}, seed=0, seeds=1, settings={"rollout_steps": 10})


def test_the_line_shows_a_dash_first_and_the_log_has_every_episode(capsys):
    with ProgressLine(config(), 100, updates=2, done=0) as line:
        (first,) = line.update(metrics(3, 3.0, **{OLDEST: 10}))
        assert "100 of 200 steps   return -" in line._text()
        (second,) = line.update(metrics(1, 0.0, **{OLDEST: 5}))
        assert "200 of 200 steps   return 0.000" in line._text()
    assert (first["return"], second["return"]) == ([1.0], [0.0]) and OLDEST not in first


@pytest.mark.parametrize("id", ["Grid-ObstructedMaze-2Dlhb-v0", "my_long.module:Mine-" + 30 * "x"])
def test_a_terminal_of_80_columns_shows_id_bar_and_time_left(id):
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    line = ProgressLine(config(id), 1_000_000, updates=4000, done=0, console=screen)
    line.update(metrics(3, 3.0, **{OLDEST: 1}))
    line.update(metrics(3, 3.0, **{OLDEST: 1}))
    line._compiled = (line._compiled[0] - 60.0, 1)
    line.show("a note that is long enough to reach beyond the end of the second line")
    first, second = drawn(line, screen)
    assert id[:39] in first and first.count("━") >= 8
    assert re.search(r" 66:3\d:\d\d left$", first)
    assert "2,000,000 of 4,000,000,000 steps  return 1.000" in second
    assert max(len(first), len(second)) <= 80


def drawn(line: ProgressLine, screen: Console) -> list[str]:
    """Return the lines on the screen, without colour codes."""
    with screen.capture() as shown:
        screen.print(Group(*line._bar.get_renderables()))
    return [Text.from_ansi(text).plain.rstrip() for text in shown.get().splitlines()]


def test_before_the_first_numbers_it_says_what_goes_on():
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    line = ProgressLine(config(), 100, updates=4, done=0, console=screen)
    assert drawn(line, screen)[0].endswith("compiling 0:00")


def test_it_says_compiling_until_the_first_numbers_only():
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    line = ProgressLine(config(), 100, updates=2, done=0, console=screen)
    for left in ("- left", "0:00 left"):
        line.update(metrics(3, 3.0))
        line.show()
        assert drawn(line, screen)[0].endswith(f" {left}")
    whole = ProgressLine(config(), 100, updates=1, done=0, console=screen)
    whole.update(metrics(3, 3.0))
    whole.show()
    assert drawn(whole, screen)[0].endswith(" 0:00 left")


def test_times_have_hours_only_where_needed():
    assert [clock(s) for s in (0, 59.6, 61, 3600, 7383)] == [
        "0:00",
        "1:00",
        "1:01",
        "1:00:00",
        "2:03:03",
    ]


class Terminal(io.StringIO):
    """Text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True, as terminals do."""
        return True


def test_activity_shows_what_goes_on_and_keeps_lines_whole(monkeypatch, capsys):
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", screen)
    with activity("Grid-v0", "evaluating", "evaluating ..."):
        print("x" * 200)
        assert "x" not in screen.getvalue()
    said = screen.getvalue()
    assert "evaluating 0:00" in said and said.endswith("x" * 200 + "\n")


def test_without_a_terminal_activity_is_a_line(capsys):
    with activity("Grid-v0", "evaluating", "evaluating ..."):
        print("done")
    with activity("Grid-v0", "starting"):
        pass
    assert capsys.readouterr().out == "Grid-v0: evaluating ...\ndone\n"


def test_an_error_in_an_activity_leaves_what_was_printed(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    with pytest.raises(ValueError, match="bad"), activity("Grid-v0", "evaluating"):
        print("first")
        raise ValueError("bad")
    assert screen.getvalue().endswith("first\n")


def puzzle_run(path, algorithm: str, **settings) -> tuple[runs.Run, Any]:
    """Return a run of a puzzle learner, and the learner."""
    module = {"davi": davi, "world": world}[algorithm]
    made = module.Settings(total_steps=4, **settings)
    fields = {"size": 2, "scramble": 2}
    known = dataclasses.asdict(made)
    about = runs.Config("Puzzle-SlidingTile-3x3-v0", fields, 0, 1, known, algorithm)
    run = runs.Run.create(path / algorithm, about)
    return run, registry.build(about.algorithm, about.env, made)


def descended(learner, weights, key, count):
    """Stand in for greedy descent: report boards 0, 2, 4, ... as solved, each in three moves."""
    return jnp.arange(count) % 2 == 0, jnp.full(count, 3, jnp.int32)


@pytest.mark.parametrize(
    ("algorithm", "more", "words", "end"),
    [
        ("davi", {}, ["Greedy descent from 4 boards, without search: 50.0% in 3.0 moves"], ""),
        ("davi", {"q": True}, [], " --algorithm qstar"),
        ("world", {}, ["Moves predicted: 75.00%", "played in the puzzle: 50.0%"], ""),
    ],
)
def test_puzzle_learners_end_with_the_command_that_uses_them(
    algorithm, more, words, end, tmp_path, capsys, monkeypatch
):
    run, learner = puzzle_run(tmp_path, algorithm, **more)
    module = {"davi": davi, "world": world}[algorithm]
    monkeypatch.setattr(module, "descend", descended)
    monkeypatch.setattr(world, "gather", lambda *_: ())
    monkeypatch.setattr(world, "predicted_share", lambda *_: jnp.float32(0.75))
    final.report(run, learner, {"bias": jnp.zeros((1, 2))}, 4)
    said = capsys.readouterr().out
    typed = "Puzzle-SlidingTile-3x3-v0 --set size=2 scramble=2"
    assert f"jaxenvs solve {typed} --model {run.path}{end}\n" in said
    assert all(word in said for word in words)


@pytest.mark.parametrize(
    ("algorithm", "losses", "words"),
    [
        ("davi", ["loss"], r"67,200 of 67,200 boards   boards solved 50%   loss 0\.25   "),
        (
            "world",
            ["transition", "q_loss"],
            r"100 of 100 gradient steps   boards solved 50%   Q loss 0\.25",
        ),
    ],
)
def test_puzzle_learners_show_their_metric_with_its_unit(
    algorithm, losses, words, tmp_path, capsys
):
    run, learner = puzzle_run(tmp_path, algorithm)
    numbers = dict.fromkeys(losses, 0.25)
    with loop.progress_line(run, learner, 0) as line:
        line.update(metrics(32, 16.0, **numbers))
        line.show()
    said = capsys.readouterr().out
    assert re.search(words.removesuffix("   "), said) and "return" not in said


def test_the_model_of_a_world_is_learned_first():
    record = {"update": 1, "return": [0.0], "transition": [0.5], "q_loss": [0.0]}
    settings = world.Settings(total_steps=400, gradient_steps=100)
    assert world.shown(settings, record) == "model loss 0.5 nats"
    small = {**record, "transition": [1.23e-07]}
    # The whole line must fit into a terminal of 80 columns.
    steps = "  99,900 of 100,000 gradient steps  "
    assert len(f"{steps}{world.shown(settings, small)}  1,000 steps/s") <= 80
    later = {**record, "update": 3, "return": [0.25]}
    assert world.shown(settings, later) == "boards solved 25%   Q loss 0"
    davis = {"return": [0.5], "loss": [0.125]}
    assert davi.shown(davi.Settings(), davis) == "boards solved 50%   loss 0.125"
