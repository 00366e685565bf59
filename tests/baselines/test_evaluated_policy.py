"""Tests that all evaluations of a run use the same kind of policy, and describe it."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import jaxenvs
from jaxenvs import cli
from jaxenvs.baselines.core import episodes as evaluation
from jaxenvs.baselines.core.learner import Learner
from jaxenvs.baselines.evaluation import final
from jaxenvs.baselines.evaluation.final import agents_of
from jaxenvs.baselines.model_based import alphazero, muzero
from jaxenvs.baselines.run import tracking, train
from jaxenvs.baselines.run.options import Options
from jaxenvs.baselines.storage.runs import Config, Run, load_policy
from jaxenvs.render import pilots

pytestmark = pytest.mark.full

KEY, EPISODES = jax.random.key(0), 8
CARTPOLE = "Classic-CartPole-v0"
SEEN = "Box(by element within [-inf, inf], (4,), float32)"


def made(folder, algorithm: str, id: str, fields=None, seeds: int = 1, **config):
    """Return a run with untrained weights, its learner, and the weights."""
    given = config.pop("settings", {})
    agent = tiny.learner(jaxenvs.make(id, **(fields or {})), algorithm, **given)
    settings = dataclasses.asdict(agent.settings)
    run = Run.create(folder, Config(id, fields or {}, 0, seeds, settings, algorithm, **config))
    weights = weights_of(agent, seeds)
    run.save(1, {"weights": weights})
    return run, agent, weights


def weights_of(agent: Learner, seeds: int):
    """Return untrained weights with a first axis over seeds."""
    obs = agent.env.env.reset(KEY).obs
    return jax.jit(jax.vmap(lambda key: agent.network.init(key, obs)))(jax.random.split(KEY, seeds))


def balanced(learner, weights, key, obs, mask, state, params, greedy):
    """Stand in for AlphaZero's search: balance the pole or, if `greedy`, always push left."""
    right = (obs[:, 2] + obs[:, 3] > 0) & (not greedy)
    return right.astype(jnp.int32)


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Return a run of AlphaZero with two seeds, its learner, its weights, and its eval.json.

    The evaluation replaces the search by the function `balanced`, which compiles quickly.
    """
    folder = tmp_path_factory.mktemp("runs") / "run"
    run, agent, weights = made(folder, "alphazero", CARTPOLE, seeds=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alphazero, "decide", balanced, raising=False)
        final.report(run, agent, weights, EPISODES)
        yield run, agent, weights, json.loads((run.path / "eval.json").read_text())


@pytest.fixture(scope="module")
def imagined(tmp_path_factory):
    """Return an untrained run of MuZero, its learner, and its weights."""
    return made(tmp_path_factory.mktemp("runs") / "cartpole", "muzero", CARTPOLE)


@pytest.mark.full
def test_eval_json_states_each_policy_that_it_ran(planned):
    *_, result = planned
    seen = {"observation": SEEN}
    search = {"search": True, "simulations": 8, "model": "true environment", **seen}
    assert result["policy"] == {"actions": "sampled", **search}
    assert result["greedy_search"]["policy"] == {"actions": "greedy", **search}
    alone = {"actions": "sampled", "search": False, "simulations": 0, **seen}
    assert result["without_search"]["policy"] == alone
    kinds = [result, result["greedy_search"], result["without_search"]]
    assert {kind["episodes"] for kind in kinds} == {EPISODES}
    greedy, sampled, alone = (kinds[i]["mean_return"] for i in (1, 0, 2))
    assert greedy < alone < sampled - 50


def test_evaluations_while_training_play_the_policy_of_eval_json(planned):
    run, agent, weights, result = planned
    asked = Options(settings=agent.settings, eval_every=1, eval_episodes=EPISODES)
    (look,) = tracking.looks(run, agent, asked, 0, None)
    row, searched = {}, "actions sampled, search with 8 simulations in the true environment"
    look.begin(1, weights)
    look.finish(row)
    assert row["eval_return"] == [seed["mean_return"] for seed in result["per_seed"]]
    assert row["eval_policy"] == f"{EPISODES} episodes, {searched}, observation {SEEN}"


def test_eval_greedy_is_for_every_evaluation_of_a_run(tmp_path, imagined):
    _, agent, _ = imagined
    config = imagined[0].config
    run = Run(tmp_path, dataclasses.replace(config, tracking={"eval_greedy": True}))
    main, other = (
        evaluation.EvaluatedPolicy.of(agent, agents_of(run.config)),
        evaluation.EvaluatedPolicy.of(agent, agents_of(run.config), other=True),
    )
    assert (main.facts["actions"], other.facts["actions"]) == ("greedy", "sampled")


@pytest.mark.full
@pytest.mark.parametrize(
    ("flags", "simulations", "actions"),
    [
        (["--in", "gymnasium"], 4, "sampled"),
        (["--simulations", "0", "--greedy"], 0, "greedy"),
    ],
)
def test_eval_searches_as_in_training_unless_told(
    tmp_path, capsys, imagined, flags, simulations, actions
):
    run, file = imagined[0], tmp_path / "eval.json"
    argv = ["eval", str(run.path), "--episodes", "4", "--json", str(file), *flags]
    assert cli.main(argv) == 0
    found = json.loads(file.read_text())
    assert found["policy"].pop("observation").startswith("Box(")
    model = {"model": "learned model"} if simulations else {}
    search = {"search": simulations > 0, "simulations": simulations, **model}
    assert found["policy"] == {"actions": actions, **search} and found["episodes"] == 4
    said = capsys.readouterr().out
    searched = f"search with {simulations} simulations in the learned model"
    wanted = searched if simulations else "no search"
    assert f"Evaluated over 4 episodes: actions {actions}, {wanted}, observation Box(" in said


def test_the_number_of_simulations_is_that_of_training_unless_given(imagined):
    run, agent, _ = imagined
    assert load_policy(run.path).search.learner == dataclasses.replace(
        agent, env=load_policy(run.path).search.learner.env
    )
    assert load_policy(run.path, simulations=7).search.simulations == 7
    assert load_policy(run.path, simulations=0).search is None


def test_learners_without_a_search_refuse_simulations(tmp_path, capsys):
    run, *_ = made(tmp_path / "run", "ppo", CARTPOLE)
    assert cli.main(["eval", str(run.path), "--simulations", "4"]) == 2
    assert "ppo has no search: omit simulations=4, or give 0" in capsys.readouterr().err
    assert load_policy(run.path, simulations=0).search is None
    assert cli.main(["watch", CARTPOLE, "--simulations", "4"]) == 2
    assert "--simulations needs a run" in capsys.readouterr().err


def test_the_best_policy_comes_with_the_evaluation_that_chose_it(tmp_path, capsys):
    run, _, weights = made(tmp_path / "run", "ppo", CARTPOLE)
    best = {"weights": weights, "return": np.float32([9.0]), "update": np.int32([2])}
    run.save(2, {"weights": weights, "best": best})
    policy = "16 episodes, actions greedy, no search, observation image"
    rows = [{"update": 1, "steps": 8, "eval_return": [7.0]}]
    rows += [{"update": 2, "steps": 16, "eval_return": [9.0], "eval_policy": policy}]
    rows += [{"update": 3, "steps": 24, "eval_return": [9.5]}]  # after the last checkpoint
    run.log(rows)
    file = tmp_path / "eval.json"
    argv = ["eval", str(run.path), "--best", "--episodes", "2", "--json", str(file)]
    assert cli.main(argv) == 0
    chosen = {"update": 2, "return": 9.0, "policy": policy}
    assert json.loads(file.read_text())["chosen_by"] == [chosen]
    assert f"The best while training, chosen over {policy}." in capsys.readouterr().out


@pytest.mark.full
def test_greedy_search_draws_nothing_and_sampled_search_does(imagined):
    _, agent, weights = imagined
    one = jax.tree.map(lambda leaf: leaf[0], weights)
    obs = jnp.linspace(-0.1, 0.1, 32, dtype=jnp.float32).reshape(8, 4)

    @jax.jit
    @jax.vmap
    def actions(key):
        given = one, key, obs, None, None, None
        return muzero.decide(agent, *given, True), muzero.decide(agent, *given, False)

    greedy, sampled = map(np.asarray, actions(jax.random.split(KEY, 8)))
    assert (greedy == greedy[0]).all() and not (sampled == sampled[0]).all()


def test_agents_of_a_sweep_search_with_their_own_settings(tmp_path):
    sweep = {"gamma": [0.5, 0.9]}
    run = made(tmp_path / "run", "alphazero", CARTPOLE, seeds=2, sweep=sweep)[0]
    found = [load_policy(run.path, seed).search.learner.settings.gamma for seed in (0, 1)]
    assert found == [0.5, 0.9]


def test_watch_shows_the_search(planned):
    policy = load_policy(planned[0].path)
    for greedy, name in ((False, "search (8), sampled"), (True, "search (8), greedy")):
        pilot = pilots.of_policy(policy, greedy)
        # The pole leans to the right.
        state = policy.env.reset(KEY).state.replace(angle=jnp.float32(0.2))
        choose = functools.partial(pilot.choose, env=policy.env, params=None, memory=())
        _, action = jax.jit(choose)(KEY, state=state)
        assert (pilot.name, int(action)) == (name, int(not greedy))
    assert pilots.of_policy(load_policy(planned[0].path, simulations=0)).name == "policy, sampled"


def test_export_says_that_the_search_is_not_in_the_program(imagined, monkeypatch, capsys, tmp_path):
    from jaxenvs.baselines.evaluation import export

    written = []
    monkeypatch.setattr(export, "write", lambda policy, run, folder: written.append(policy.search))
    monkeypatch.setattr(export, "require", lambda *_: None)
    assert cli.main(["export", str(imagined[0].path), "--out", str(tmp_path)]) == 0
    assert "contains only the network, not the search of muzero" in capsys.readouterr().out
    assert written == [None]


def test_greedy_evaluations_are_refused_where_actors_sample(tmp_path, capsys):
    argv = ["gym:CartPole-v1", "--ray", "--eval-greedy", "--out", str(tmp_path / "run")]
    assert train.main(argv) == 2
    assert "--eval-greedy: actors of Ray sample actions" in capsys.readouterr().err
