"""Tests of the setups of Craft in records, tables, policies, evaluations and error messages."""

import dataclasses
import json

import jax
import numpy as np
import pytest
import tiny

import jaxenvs
from jaxenvs import cli
from jaxenvs.baselines.core import rollouts
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.core.policy import Policy
from jaxenvs.baselines.evaluation import compare, record, setups, upstream
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import options
from jaxenvs.baselines.storage.runs import Config, Run, load_policy
from jaxenvs.benchmarks import reference

ID = "Craft-Classic-Ids-v0"
GRID = "Grid-Empty-5x5-v0"
SETTINGS = dataclasses.asdict(ppo.Settings(hidden=(8,)))


def config(*argv):
    return options.config(options.parse(list(argv)))


def older(**fields):
    """Return the config of a Craft run that an earlier version made: it names no setup."""
    return Config(ID, {"size": 16, **fields}, 0, 1, SETTINGS)


def test_a_new_run_records_its_setup():
    assert config(ID).fields == {"setup": "original"}
    assert config(ID, "--setup", "eased").fields == {"setup": "eased"}
    assert config(ID, "--setup=masked", "--set", "size=16").fields == {
        "setup": "masked",
        "size": 16,
    }
    assert config(ID, "--set", "setup=eased").env.setup == "eased"
    assert config(GRID).fields == {}
    assert config(ID, "--setup", "eased").title == f"{ID} setup=eased"
    assert config(ID, "--setup", "eased").typed == f"{ID} --set setup=eased"


def test_an_older_run_was_trained_with_masks():
    old = older()
    assert old.env.setup == "masked" and old.env.uses_mask
    assert old.title == f"{ID} setup=masked size=16"
    assert "setup=masked" in old.typed and "setup=masked" in record.command(old)
    assert older(setup="original").env.setup == "original"
    assert Config(GRID, {}, 0, 1, SETTINGS).env_fields == {}


def test_an_evaluation_names_both_setups():
    assert setups.of(Config(GRID, {}, 0, 1, SETTINGS)) == {}
    found = setups.of(older(setup="eased"), {"setup": "original"})
    assert found == {"setup": {"trained": "eased", "evaluated": "original"}}
    assert setups.as_text(found) == ["Setup: trained eased, evaluated original."]
    assert setups.of(older()) == {"setup": {"trained": "masked", "evaluated": "masked"}}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([GRID, "--setup", "eased"], f"{GRID} has no setups; omit --setup"),
        ([GRID, "--set", "setup=eased"], f"{GRID} has no setups; omit --setup"),
        ([ID, "--setup", "easy"], "setup='easy' is not one of 'original', 'masked', 'eased'"),
    ],
)
def test_a_wrong_setup_is_refused_in_a_sentence(argv, says, capsys):
    assert cli.main(["train", *argv]) == 2
    assert says in capsys.readouterr().err


def saved(path, **fields):
    """Return the folder of a Craft run with untrained weights."""
    given = {"size": 16, **fields}
    agent = tiny.learner(older(**fields).env, "ppo", hidden=(8,))
    run = Run.create(path, Config(ID, given, 0, 1, dataclasses.asdict(agent.settings)))
    obs = agent.env.env.reset(jax.random.key(0)).obs
    weights = jax.vmap(lambda key: agent.network.init(key, obs))(
        jax.random.split(jax.random.key(0), 1)
    )
    run.save(1, {"weights": weights})
    return str(run.path)


@pytest.mark.full
def test_a_policy_is_evaluated_in_another_setup(tmp_path, capsys):
    run, file = saved(tmp_path / "run", setup="eased"), tmp_path / "eval.json"
    argv = ["eval", run, "--setup", "original", "--episodes", "4", "--json", str(file)]
    argv += ["--param", "max_steps_in_episode=8"]
    assert cli.main(argv) == 0
    assert "Setup: trained eased, evaluated original." in capsys.readouterr().out
    found = json.loads(file.read_text())
    assert found["setup"] == {"trained": "eased", "evaluated": "original"}
    assert found["fields"]["setup"] == "original"
    assert found["seeds"][0]["here"]["terminated_rate"] == 0  # the original's limit truncates
    assert cli.main([a for a in argv if a not in ("--setup", "original")]) == 0
    found = json.loads(file.read_text())
    assert found["setup"] == {"trained": "eased", "evaluated": "eased"}
    assert found["seeds"][0]["here"]["terminated_rate"] == 1


@pytest.mark.full
def test_an_older_policy_never_takes_an_illegal_action(tmp_path):
    run = saved(tmp_path / "run")
    policy, free = load_policy(run), load_policy(run, fields={"setup": "original"})
    assert policy.env.setup == "masked"
    state = jax.jit(policy.env.reset)(jax.random.key(0)).state
    mask = np.asarray(policy.env.action_mask(state))
    assert not mask.all()
    keys = jax.random.split(jax.random.key(1), 512)
    for each, is_legal in ((policy, True), (free, False)):
        act = jax.jit(jax.vmap(lambda key, each=each: each.act(key, each.begin(), state)[1]))
        assert mask[np.asarray(act(keys))].all() == is_legal
    assert free.apply(free.env.observe(state)) is not None  # needs no mask
    with pytest.raises(TypeError, match="forbids some actions"):
        policy.apply(policy.env.observe(state))


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_learners_use_no_mask_in_the_original_setup(algorithm):
    for setup, masked in (("original", False), ("masked", True), ("eased", True)):
        env = jaxenvs.make(ID, setup=setup, size=16)
        learner = tiny.learner(env, algorithm, hidden=(8,))
        states = jax.eval_shape(learner.env.reset, jax.random.key(0)).state.env
        mask = jax.eval_shape(lambda s, a=learner: rollouts.legal_now(a, s), states)
        assert (mask is not None) == masked
        # One update can be traced, although the info still has `final_mask`.
        begin = jax.vmap(learner.init, axis_name=SEEDS)
        runners = jax.eval_shape(begin, jax.random.split(jax.random.key(0), 2))
        jax.eval_shape(jax.vmap(learner.update, axis_name=SEEDS), runners)


def test_eased_play_in_the_original_package_is_refused():
    policy = Policy(jaxenvs.make(ID, setup="eased"), tuple, lambda *given: given, ID)
    with pytest.raises(upstream.NotThereError, match="give --setup original or --setup masked"):
        upstream.play(policy, "craftax", jax.random.key(0), 2)


def test_random_play_is_recorded_for_the_setup_masked_only():
    scores = {"a": [np.array([30.0])], "b": [np.array([20.0])]}
    old = Config(ID, {}, 0, 1, SETTINGS)
    assert compare._normalised(scores, [old])["a"][0][0] == 1.0
    with pytest.raises(ValueError, match=r"no random play of .*setup=original"):
        compare._normalised(scores, [Config(ID, {"setup": "original"}, 0, 1, SETTINGS)])


def test_tables_name_the_setup():
    run = {"id": ID, "command": f"jaxenvs train {ID} --seeds 1 --set setup=masked"}
    assert reference.observation(run) == "`ids`, masked"
    assert reference.observation({**run, "command": f"jaxenvs train {ID}"}) == "`ids`, original"
    assert reference.observation({"id": GRID, "command": ""}) == "`image`"
    assert reference._apart(ID, "ppo", run["command"]) == []
    eased = run["command"].replace("masked", "eased")
    assert reference._apart(ID, "ppo", eased) == ["setup=eased"]
