"""Tests of how commands answer arguments that new users type first, such as `--lr` or 1e5."""

import argparse
import re

import numpy as np
import pytest

import jaxenvs
from jaxenvs import cli
from jaxenvs.baselines.core import episodes as evaluation
from jaxenvs.baselines.core import playing
from jaxenvs.baselines.registry import ALGORITHMS, check_actions
from jaxenvs.baselines.run import flags, options
from jaxenvs.commands import listing, parser
from jaxenvs.commands.page import page
from jaxenvs.core import registry


def refused(capsys, *argv: str) -> str:
    """Return the error of a command that refuses its arguments."""
    assert cli.main([*argv]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["--lr", "1e-3"], "--learning-rate"),
        (["--lr=1e-3"], "--learning-rate"),
        (["--ne", "8"], "--num-envs"),
        (["--learning-rat", "1"], "--learning-rate"),
    ],
)
def test_train_suggests_the_flag_with_these_initials_or_a_similar_one(typed, meant, capsys):
    err = refused(capsys, "train", "Grid-v0", *typed)
    assert err.startswith(f"jaxenvs train: unrecognized arguments: {' '.join(typed)}; did you mean")
    assert f"did you mean '{meant}'" in err


def test_train_names_the_learners_that_have_a_flag(capsys):
    err = refused(capsys, "train", "Grid-v0", "--negentropy", "1")
    assert "--negentropy 1; --negentropy is a flag of --algo sac, tqc or crossq; " in err
    err = refused(capsys, "train", "Grid-v0", "--told", "1")  # old name of a setting
    assert "unrecognized arguments: --told 1; --told is a flag of --algo rl2; " in err


def test_a_word_without_dashes_is_no_flag_of_a_learner(capsys):
    err = refused(capsys, "train", "Grid-v0", "gamma", "0.9")
    assert "unrecognized arguments: gamma 0.9; `jaxenvs train --help`" in err


def test_other_commands_suggest_by_initials_too(capsys):
    with pytest.raises(SystemExit):
        cli.main(["watch", "Grid-v0", "--rs", "1"])
    assert "; did you mean '--run-seed'?" in capsys.readouterr().err


def test_a_count_may_have_an_exponent():
    argv = ["Grid-v0", "--total-steps", "1e5", "--seeds", "2e0", "--eval-every", "1e1"]
    asked = options.parse(argv)
    assert (asked.settings.total_steps, asked.seeds, asked.eval_every) == (100_000, 2, 10)
    assert all(isinstance(x, int) for x in (asked.settings.total_steps, asked.seeds))
    assert options.parse(["Grid-v0", "--total-steps", "100_000"]).settings.total_steps == 100_000
    assert options.parse(["Grid-v0", "--eval-every", "None"]).eval_every is None
    assert parser.number(1, 10**6)("1e4") == 10_000


@pytest.mark.parametrize("text", ["1.5", "1e-1", "x", "inf", "nan", "1e400"])
def test_counts_must_be_whole_numbers(text, capsys):
    with pytest.raises(SystemExit):
        options.parse(["Grid-v0", "--total-steps", text])
    assert "is not a whole number, such as" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(argparse.ArgumentTypeError, match="must be a whole number, 1 to 9"):
        parser.number(1, 9)(text)


def test_errors_name_a_help_command_that_can_be_typed(capsys, monkeypatch):
    monkeypatch.setattr(flags, "program", lambda: ".venv/bin/jaxenvs")
    err = refused(capsys, "train", "Grid-v0", "--rate", "1")
    assert "`.venv/bin/jaxenvs train --help` lists the arguments" in err


SUGGESTED = [
    ("Grid-v0", "sac", {"ppo", "dqn", "muzero", "dyna"}, {"davi", "world", "rl2", "alphazero"}),
    ("Classic-Pendulum-v0", "dqn", {"ppo", "sac", "crossq"}, {"c51", "muzero", "apex"}),
    ("Puzzle-SlidingTile-3x3-v0", "td3", {"davi", "world", "alphazero"}, {"rl2", "sac"}),
    ("Classic-CartPole-v0", "td3", {"ppo", "alphazero"}, {"davi", "dyna", "rl2"}),
    ("XLand-R1-9x9-v0", "td3", {"rl2", "ppo-rnn"}, {"davi", "alphazero"}),
]


@pytest.mark.parametrize(("id", "given", "able", "unable"), SUGGESTED)
def test_only_learners_that_support_the_id_are_suggested(id, given, able, unable):
    with pytest.raises(ValueError, match="give --algo") as caught:
        check_actions(ALGORITHMS[given], jaxenvs.make(id))
    named = set(re.split(r", | or ", str(caught.value).rpartition("give --algo ")[2]))
    assert able <= named and not unable & named


def test_list_shows_ids_that_contain_the_word_first(capsys):
    assert listing.main(["lava"]) == 0
    ids = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    named = ["lava" in id.lower() for id in ids]
    assert named == sorted(named, reverse=True) and True in named and False in named
    assert ids[0] == "Grid-LavaCrossingS9N1-v0" and "Grid-DistShift1-v0" in ids


def test_list_without_words_keeps_its_order(capsys):
    assert listing.main([]) == 0
    ids = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert ids == registry.list()


def test_pages_have_no_duplicate_rows():
    """The page that `jaxenvs info` prints shows no run twice, even one in two result files."""
    for id in ("Grid-MemoryS7-v0", "Grid-MemoryS13-v0", "Classic-CartPole-v0"):
        for section in page(id).sections:
            assert len(set(section.rows)) == len(section.rows), (id, section.title)


def test_cartpole_defines_its_success(capsys):
    """CartPole's success rate is printed under its definition, "upright at the time limit".

    Without a definition, the success rate is printed as `success`.
    """
    env = jaxenvs.make("Classic-CartPole-v0")
    ends = np.array([[False, True]])
    played = playing.Episodes(np.array([[104.0, 500.0]]), np.array([[104, 500]]), ~ends, ends)
    found = evaluation.summary(played, [{"seed": 0}])
    print(evaluation.as_text({**found, "success_is": env.success_is}))
    said = capsys.readouterr().out
    assert "return 302.000, upright at the time limit 50.0%, length 302.0" in said
    print(evaluation.as_text(found))
    assert ", success 50.0%, " in capsys.readouterr().out
