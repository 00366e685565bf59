"""Tests of `jaxenvs eval --worst`, which reports success on the levels with the least success.

It draws only solvable levels, if the environment can tell which levels are solvable.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import Clock, learner
from tiny import Countdown as Levels

import jaxenvs
from jaxenvs.baselines.core.given_levels import GivenLevel
from jaxenvs.baselines.core.policy import Policy
from jaxenvs.baselines.evaluation import command, worst
from jaxenvs.baselines.run import train

KEY = jax.random.key(0)
MAZE = jaxenvs.make("Grid-AMaze-13x13-v0", size=6, walls=6, max_steps_in_episode=9)


def policy(env, **settings):
    """Return an untrained policy of an environment."""
    agent = learner(env, **settings)
    obs = jax.eval_shape(env.observation_space.sample, KEY)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), obs)
    return Policy.of(env, agent.network, agent.network.init(KEY, zeros))


def test_only_solvable_levels_are_kept():
    """Request 40 solvable mazes. A third of the drawn mazes cannot be solved in nine steps."""
    found, is_checked = worst.solvable_levels(GivenLevel(env=MAZE), 40)
    assert is_checked and found.grid.shape == (40, 6, 6)
    steps = jax.vmap(MAZE.optimal_steps)(jax.tree.map(jnp.asarray, found))
    assert (np.asarray(steps) <= 9).all() and len({grid.tobytes() for grid in found.grid}) > 30


def test_levels_of_other_environments_are_as_drawn():
    """Countdown cannot check whether a level is solvable, so all drawn levels are returned."""
    found, is_checked = worst.solvable_levels(GivenLevel(env=Levels()), 9)
    assert not is_checked and found.shape == (9,)


@pytest.mark.full
def test_a_maze_without_solvable_levels_is_an_error():
    """With a limit of five steps, none of the first 2,000 drawn mazes can be solved."""
    env = jaxenvs.make("Grid-AMaze-13x13-v0", levels="mazes", max_steps_in_episode=5)
    with pytest.raises(ValueError, match="only 0 of 2000 levels of AMaze"):
        worst.solvable_levels(GivenLevel(env=env), 100)


def test_success_is_that_of_each_level():
    """With any policy, an episode of Countdown succeeds exactly in levels 4 to 6.

    5,000 attempts do not fit into one batch, so the results of several batches are joined.
    """
    rate = worst.player(policy(Levels()), 3, False)
    levels = np.array([1, 5, 8, 4, 3, 6, 7], np.int32)
    wanted = [0, 1, 0, 1, 0, 1, 0]
    assert worst.success(rate, KEY, levels, 3).tolist() == wanted
    assert worst.success(rate, KEY, levels, 5000).tolist() == wanted


def test_the_worst_are_chosen_by_other_episodes(monkeypatch):
    """A first evaluation chooses the 10 and 1 percent of levels with the lowest success rates.

    A second evaluation, with other episodes, gives the reported success on these levels.
    """
    first, second = np.linspace(1, 0, 200), np.arange(200) / 1000
    rates = iter([first, second])
    monkeypatch.setattr(worst, "success", lambda *given: next(rates))
    found = worst.figures(policy(Levels()), KEY, 200, 10, False)
    assert found == {
        **{"levels": 200, "attempts": 10, "solvable": False, "mean": 0.0995},
        **{"worst_10_percent": 0.1895, "worst_1_percent": 0.1985},
    }
    assert "success on 200 levels as drawn 0.100, worst 10 % 0.190" in worst.as_text(found)


def test_an_environment_without_success_is_an_error():
    with pytest.raises(ValueError, match="--worst: Clock"):
        worst.check(Clock())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--attempts", "5"], "--attempts belongs to --worst N"),
        (["--json", "no/a.json"], "no folder no; create it first"),
    ],
)
def test_mistakes_are_found_before_the_run_is_read(flags, words, capsys):
    assert command.main(["nowhere", *flags]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.full
def test_the_command_writes_the_worst_levels(tmp_path, capsys):
    """Evaluate a PLR run twice: both evaluations must give the same figures."""
    flags = "Grid-AMaze-13x13-v0 --algo plr --set size=6 walls=6 --param max_steps_in_episode=9 "
    flags += "--num-envs 4 --rollout-steps 9 --minibatches 2 --hidden 8 --memory 4 --buffer 8 "
    flags += "--total-steps 72 --eval-episodes 4"
    run = str(tmp_path / "run")
    assert train.main([*flags.split(), "--out", run]) == 0
    found = []
    for number in range(2):
        file = tmp_path / f"{number}.json"
        assert command.main([run, "--worst", "100", "--episodes", "4", "--json", str(file)]) == 0
        found.append(json.loads(file.read_text())["seeds"][0]["worst"])
    assert found[0] == found[1] and found[0]["solvable"]
    assert found[0]["mean"] >= found[0]["worst_10_percent"]
    assert "success on 100 solvable levels" in capsys.readouterr().out
