"""Tests of params that are given to `make`, or to commands with `--param`."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import cli, wrappers
from jaxenvs.benchmarks import throughput
from jaxenvs.core import registry

LIMIT = "max_steps_in_episode"
CASES = [
    ({LIMIT: 0}, ValueError, "max_steps_in_episode=0 must be at least 1"),
    ({LIMIT: 2.5}, TypeError, "must be a number of dtype int32, got float 2.5"),
    ({LIMIT: "x"}, TypeError, "must be a number of dtype int32, got str 'x'"),
    ({LIMIT: None}, TypeError, "must be a number of dtype int32, got None"),
    ({"max_steps": 3}, TypeError, "its params are max_steps_in_episode; did you mean"),
    ({"view_sise": 3}, TypeError, "did you mean 'view_size'"),
    ({"given_params": ()}, TypeError, "has no field or param 'given_params'"),
]


def test_make_takes_params_which_are_part_of_the_environment():
    env = jaxenvs.make("Grid-v0", max_steps_in_episode=10, view_size=5)
    assert (env.default_params.max_steps_in_episode, env.view_size) == (10, 5)
    assert env != jaxenvs.make("Grid-v0", view_size=5) and "max_steps_in_episode=10" in env.name
    assert env == jaxenvs.make("Grid-v0", view_size=5).with_params(max_steps_in_episode=1e1)
    assert hash(env) == hash(jaxenvs.make("Grid-v0", view_size=5, max_steps_in_episode=10))


@pytest.mark.parametrize("sticky", [False, True])
def test_episodes_end_at_the_given_limit(sticky):
    env = jaxenvs.make("Grid-v0", max_steps_in_episode=3)
    if sticky:
        env = wrappers.StickyAction(env=jaxenvs.make("Grid-v0")).with_params(max_steps_in_episode=3)
    venv = jaxenvs.make_vec(env, 2)
    _, state = venv.reset(jax.random.key(0))
    ends = []
    for _ in range(3):
        step = venv.step(jax.random.key(1), state, jnp.zeros(2, jnp.int32))
        state = step.state
        ends.append(step.truncated.tolist())
    assert ends == [[False, False], [False, False], [True, True]]


def test_make_vec_takes_params_with_an_id():
    venv = jaxenvs.make_vec("Classic-CartPole-v0", 2, gravity=5, max_steps_in_episode=9)
    params = venv.default_params
    assert (params.gravity, params.max_steps_in_episode) == (5, 9)
    assert params.gravity.dtype == np.float32 and params.force == 10


@pytest.mark.parametrize(("given", "error", "words"), CASES)
def test_a_wrong_param_says_what_to_write(given, error, words):
    with pytest.raises(error, match=re.escape(words)):
        jaxenvs.make("Grid-v0", **given)


def test_params_that_are_no_single_numbers_are_not_offered():
    with pytest.raises(TypeError, match=r"its params are max_steps_in_episode(;|$)"):
        jaxenvs.make("XLand-R1-9x9-v0", ruleset=3)


def test_no_param_has_the_name_of_a_constructor_field():
    from jaxenvs.core import param_values

    for id in registry.representatives():
        env = jaxenvs.make(id)
        fields = {field.name for field in param_values.constructor_fields(env)}
        assert not fields & set(param_values.names(env)), id


def test_a_subclass_that_adds_params_takes_both():
    assert jaxenvs.make("Classic-Pendulum-v0", max_steps_in_episode=7).default_params != (
        jaxenvs.make("Classic-Pendulum-v0").default_params
    )

    class Heavy(type(jaxenvs.make("Classic-CartPole-v0"))):
        @property
        def default_params(self):
            """Return params with twice the usual mass."""
            return super().default_params.replace(cart_mass=np.float32(2.0))

    params = Heavy().with_params(gravity=1.0).default_params
    assert (params.cart_mass, params.gravity) == (2, 1)


@pytest.mark.parametrize("made", ["mixin", "field"])
def test_default_params_that_come_from_elsewhere_take_them_too(made):
    base = type(jaxenvs.make("Classic-CartPole-v0"))
    usual = base().default_params

    class Mixin:
        default_params = usual

    class OfMixin(Mixin, base):
        """Environment that inherits its params from a base class that is not an environment."""

    class OfField(base):
        """Environment that stores its params in a field."""

        default_params: jaxenvs.Params = usual

    env = {"mixin": OfMixin, "field": OfField}[made]()
    assert env.default_params == usual
    params = env.with_params(gravity=1.0).with_params(max_steps_in_episode=7).default_params
    assert (params.gravity, params.max_steps_in_episode) == (1, 7)


def test_a_wrapper_keeps_the_params_that_it_adds():
    env = wrappers.LogWrapper(wrappers.StickyAction(jaxenvs.make("Grid-v0")))
    given = {"repeat_probability": 0.5, LIMIT: 3}
    for changed in (env.with_params(**given), env.with_params(**{LIMIT: 3}).with_params(**given)):
        assert changed.default_params.repeat_probability == np.float32(0.5)
        assert changed.default_params.env.max_steps_in_episode == 3
    words = "its params are repeat_probability, max_steps_in_episode; did you mean 'repeat"
    with pytest.raises(TypeError, match=words):
        env.with_params(repeat_probabilty=0.5)


COMMANDS = [
    ["play", "Grid-v0", "--gif", "a.gif"],
    ["watch", "Grid-v0", "--gif", "a.gif"],
    ["solve", "Puzzle-SlidingTile-3x3-v0"],
    ["bench", "--ids", "Grid-v0", "--out", "b"],
    ["train", "Grid-v0", "--out", "c"],
]
BAD = [
    ("max_steps=5", "did you mean 'max_steps_in_episode'"),
    (f"{LIMIT}=0", "max_steps_in_episode=0 must be at least 1"),
    (f"{LIMIT}=x", "must be a number of dtype int32, got str 'x'"),
    (LIMIT, f"--param {LIMIT}: write NAME=VALUE, such as max_steps_in_episode=50"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(("pair", "words"), BAD)
def test_every_command_refuses_a_bad_param_alike(
    command, pair, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command, "--param", pair]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_set_and_param_name_each_other(capsys):
    assert cli.main(["play", "Grid-v0", "--gif", "a.gif", "--set", f"{LIMIT}=5"]) == 2
    assert "is a param of Grid-v0; give it by --param" in capsys.readouterr().err
    assert cli.main(["train", "Grid-v0", "--param", "view_size=5"]) == 2
    assert "is a constructor field of Grid-v0; give it by --set" in capsys.readouterr().err
    assert cli.main(["train", "gym:CartPole-v1", "--ray", "--param", "a=5"]) == 2
    assert "a Gymnasium environment has no params" in capsys.readouterr().err


def test_a_player_sees_the_given_limit(capsys, tmp_path):
    page = tmp_path / "a.html"
    argv = ["play", "Grid-v0", "--html", str(page), "--frames", "6", f"--param={LIMIT}=2"]
    assert cli.main(argv) == 0
    assert "after 2 steps" in page.read_text("utf-8")


def test_a_plan_is_drawn_within_the_given_limit(capsys, tmp_path):
    argv = ["solve", "Puzzle-SlidingTile-3x3-v0", "--set", "scramble=2", "--param", f"{LIMIT}=5"]
    assert cli.main(argv) == 0 and "proven optimal" in capsys.readouterr().out


def test_bench_measures_the_given_params_and_leaves_out_peers(monkeypatch, tmp_path):
    made = []
    runner = throughput.timing.Runner()
    monkeypatch.setattr(throughput.timing, "take_turns", lambda runners, repeats: [])
    monkeypatch.setattr(throughput.report, "progress", lambda group: None)
    monkeypatch.setattr(throughput.report, "ratios", lambda groups: [])
    monkeypatch.setattr(
        throughput.timing, "BatchRunner", lambda batch, seconds: made.append(batch) or runner
    )
    monkeypatch.setattr(throughput.report, "show", lambda groups, missing: made.append(missing))
    monkeypatch.setattr(throughput.report, "write", lambda results, out: made.append(results))
    argv = ["--ids", "Grid-Empty-5x5-v0", "--quick", "--out", str(tmp_path / "b")]
    assert throughput.main([*argv, "--param", f"{LIMIT}=5"]) == 0
    _, missing, results = made
    assert results["params"] == {LIMIT: 5}
    assert {row["contestant"] for row in missing} >= {"minigrid"}
    assert all("measure it without --param" in row["reason"] for row in missing)
    written = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert written["params"] == {LIMIT: 5}
