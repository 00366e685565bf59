"""Tests of RL²: memory in a trial (several episodes of one task), held-out tasks, evaluation."""

import dataclasses
import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import xland
from jaxenvs.baselines import registry
from jaxenvs.baselines.core import rollouts
from jaxenvs.baselines.core.learner import SEEDS, Learner
from jaxenvs.baselines.on_policy import ppo, rl2
from jaxenvs.baselines.on_policy.hidden_tasks import shows_task
from jaxenvs.baselines.on_policy.task_memory import Belief
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import checkpoints, runs
from jaxenvs.core.wrappers import PreviousStep

pytestmark = pytest.mark.full

ID, LIMIT, TRIAL, STEPS, ROWS = "XLand-R1-9x9-v0", 6, 20, 48, 8
ENV = jaxenvs.make(ID, num_rules=1, num_tiles=5)
KEY = jax.random.key(0)
LABELS = [{"seed": 3}, {"seed": 4}]


def tasks(limit: int, **lengths: int):
    """Return trials of an easy task and an impossible task, and the params of the trials."""
    # Goals of the two tasks: be near a wall (easy), and hold an object that does not exist.
    goals = [(xland.Goal.AGENT_NEAR, 2, 6), (xland.Goal.HOLD, 12, 11)]
    rulesets = [xland.Ruleset.of(goal, (), [(3, 1)]).packed() for goal in goals]
    both = xland.Benchmark(rulesets=jax.tree.map(lambda *leaves: jnp.stack(leaves), *rulesets))
    trials, params = xland.Trials.of(ENV, both, **lengths)
    return trials, params.replace(env=params.env.replace(max_steps_in_episode=jnp.int32(limit)))


@functools.cache
def agent() -> Learner:
    """Return an RL² learner in trials of 20 steps.

    The params that `collected` gets limit the episodes to 6 steps.
    """
    sizes = {"num_envs": ROWS, "rollout_steps": STEPS, "hidden": (8,), "embed": 2, "memory": 8}
    settings = rl2.Settings(**sizes, minibatches=2, task_loss=0.1, privileged_share=0.5)
    return registry.build(
        "rl2", PreviousStep(env=tasks(LIMIT, episodes=0, steps=TRIAL)[0]), settings
    )


@jax.jit
def collected(params):
    """Collect a rollout. Return (runner before, runner after, rollout, targets, last values).

    A runner is the training state. The targets are PPO's, for random rewards. The last values are
    the network's values of the observations after the rollout.
    """

    def one_seed(key):
        before = rl2.init(agent(), key, params)._replace(params=params)
        after, rollout = rollouts.collect(agent(), before, key, rl2.choose)
        noise = jax.random.normal(key, rollout.reward.shape)
        noisy = ppo.targets(agent(), after, rollout._replace(reward=noise))
        last = rollouts.think(agent(), after, None)[2]
        return before, after, rollout, noisy, last

    seeds = jax.vmap(one_seed, axis_name=SEEDS)(KEY[None])
    return jax.tree.map(lambda leaf: leaf[0], seeds)


@pytest.fixture(scope="module")
def rollout():
    """Return the result of `collected` as NumPy arrays."""
    found = collected(tasks(LIMIT, episodes=0, steps=TRIAL)[1])
    return jax.device_get(
        [part._replace(key=()) if hasattr(part, "key") else part for part in found]
    )


def test_trials_begin_at_different_times_and_last_as_long_as_they_should(rollout):
    _, _, seen, _, _ = rollout
    assert not seen.terminated.any()
    ends = [np.flatnonzero(seen.truncated[:, row]) for row in range(ROWS)]
    assert len({steps[0] for steps in ends}) > 3
    assert all((np.diff(steps) == TRIAL).all() and steps[0] < TRIAL for steps in ends)


def test_memory_lasts_for_a_trial(rollout):
    _, after, seen, _, _ = rollout
    cleared = (after.memory == 0).all(axis=-1)
    np.testing.assert_array_equal(cleared, seen.truncated[-1])
    inside = after.world.env.env
    kept = (inside.env.time == 0) & ~seen.truncated[-1]
    assert kept.any() and not cleared[kept].any() and (inside.episode[kept] > 0).all()


def test_previous_actions_and_rewards_are_those_of_the_step_before(rollout):
    _, after, seen, _, _ = rollout
    reward = np.concatenate([seen.obs["reward"], after.obs["reward"][None]])
    action = np.concatenate([seen.obs["action"], after.obs["action"][None]])
    assert (action[0] == 0).all() and (reward[0] == 0).all()
    np.testing.assert_array_equal(action[1:], np.where(seen.truncated, 0, seen.action + 1))
    np.testing.assert_array_equal(reward[1:], np.where(seen.truncated, 0, seen.reward))
    assert (reward > 0).any()


def test_the_first_environments_receive_the_true_goal(rollout):
    before, _, seen, _, _ = rollout
    hidden, given = seen.task
    np.testing.assert_array_equal(given[:, : ROWS // 2], hidden[:, : ROWS // 2, :3])
    assert not given[:, ROWS // 2 :].any()
    goals = np.where(before.world.env.env.task == 0, xland.Goal.AGENT_NEAR, xland.Goal.HOLD)
    np.testing.assert_array_equal(hidden[0, :, 0], goals)
    cells = np.where(before.world.env.env.task == 0, 2 * 12 + 6, 12 * 12 + 11)
    np.testing.assert_array_equal(hidden[0, :, 1], cells)
    assert set(np.unique(hidden[..., 3])) <= {0, 3 * 12 + 1}  # pocket: empty, or the red ball
    counted = rl2.uninformed(seen)
    assert not counted.truncated[:, : ROWS // 2].any()
    np.testing.assert_array_equal(counted.truncated[:, ROWS // 2 :], seen.truncated[:, ROWS // 2 :])


def test_the_loss_of_a_belief_is_its_cross_entropy():
    rng = np.random.default_rng(0)
    kind, cells = rng.normal(size=(5, 15)), rng.normal(size=(5, 3, 7))
    hidden = np.stack([rng.integers(0, n, 5) for n in (15, 7, 7, 7)], axis=1).astype(np.int32)

    def entropy(logits, labels):
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return -np.log(chances[np.arange(5), labels]).mean()

    wanted = entropy(kind, hidden[:, 0]) + sum(
        entropy(cells[:, i], hidden[:, i + 1]) for i in range(3)
    )
    belief = Belief(jnp.float32(kind), jnp.float32(cells))
    found = jax.jit(rl2.task_loss)(belief, jnp.asarray(hidden))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_advantages_reach_over_episodes_to_the_end_of_the_trial(rollout):
    _, _, _, (seen, advantage, target), last = rollout
    gamma, decay = agent().settings.gamma, agent().settings.gae_lambda
    wanted, later, following = np.zeros((STEPS, ROWS)), np.zeros(ROWS), last
    for step in reversed(range(STEPS)):
        cut = seen.truncated[step]
        following = np.where(cut, seen.truncation_value[step], following)
        surprise = seen.reward[step] + gamma * following - seen.value[step]
        later = surprise + gamma * decay * np.where(cut, 0.0, later)
        wanted[step], following = later, seen.value[step]
    np.testing.assert_allclose(advantage, wanted, atol=1e-4)
    np.testing.assert_allclose(target, wanted + seen.value, atol=1e-4)


def test_a_trial_of_the_evaluation_has_the_returns_of_its_episodes():
    """Evaluate two tasks: the first is easy and is solved; the second cannot be solved."""
    limit = 10 * LIMIT
    trials, params = tasks(limit, episodes=3)
    weights = jax.jit(agent().network.init)(KEY, jax.jit(PreviousStep(env=trials).reset)(KEY).obs)
    play = jax.jit(rl2.play, static_argnums=(0, 1, 2))
    trial = jax.device_get(play(trials, agent().network, 2, weights, KEY, params))
    assert trial.returns.shape == trial.solved.shape == (2, 3)
    np.testing.assert_array_equal(trial.returns > 0, trial.solved)
    assert trial.solved[0].any() and not trial.solved[1].any()
    assert trial.lengths[1] == 3 * limit > trial.lengths[0]


def test_the_summary_covers_trials_and_their_episodes():
    returns = np.arange(20, dtype=np.float32).reshape(2, 5, 2)
    said = rl2.summary(rl2.Trial(returns, returns > 9, np.full((2, 5), 7, np.int32)), LABELS)
    sums = returns.sum(axis=2)
    assert said["episodes"] == 5 and [each["seed"] for each in said["per_seed"]] == [3, 4]
    assert said["mean_return"] == 9.5 and said["mean_length"] == 3.5
    assert said["trials"]["mean"] == sums.mean() and said["trials"]["median"] == np.median(sums)
    assert said["per_seed"][1]["trials"]["p20"] == pytest.approx(np.quantile(sums[1], 0.2))
    assert said["by_episode"]["mean"] == [9.0, 10.0]
    assert said["rise"] == {"mean": 1.0, "error": 0.0}
    # Under one of the five tasks, raise the return of the second episode by 2.
    returns[:, 0, 1] += 2.0
    rise = rl2.summary(rl2.Trial(returns, returns > 9, np.full((2, 5), 7, np.int32)), LABELS)[
        "rise"
    ]
    assert rise == {"mean": 1.4, "error": pytest.approx(0.8 / 10**0.5, abs=1e-6)}
    assert [seed["by_episode"]["success_rate"] for seed in said["per_seed"]] == [[0, 0], [1, 1]]


def test_tasks_of_the_evaluation_are_never_trained_on():
    settings = rl2.Settings(task_set="trivial-21k", held_out=0.1)
    trials, others = rl2.learned(ENV, settings), rl2.tested(ENV, settings)
    learned, tested = trials.default_params, others.default_params
    assert (trials.num_tasks, others.num_tasks) == (18_900, 2_100)
    goals = [set(np.asarray(params.tasks.goal).tolist()) for params in (learned, tested)]
    assert [len(each) for each in goals] == [18_900, 2_100] and not goals[0] & goals[1]


SMALL = "--num-envs 4 --rollout-steps 8 --hidden 8 --embed 2 --memory 8 --minibatches 2"
SMALL += " --trial-steps 12 --test-episodes 2 --total-steps 64 --checkpoint-every 1"
ARGV = [ID, "--algo", "rl2", "--task-set", "trivial-21k", *SMALL.split(), "--eval-episodes", "3"]
ARGV += ["--set", "num_rules=1", "num_tiles=5"]


def test_the_command_trains_and_writes_the_evaluation(tmp_path, capsys):
    out = tmp_path / "run"
    assert train.main([*ARGV, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Evaluated under 3 held-out tasks, 2 episodes each: sum of returns" in said
    result = json.loads((out / "eval.json").read_text())
    assert len(result["by_episode"]["median"]) == 2 and result["mean_length"] > 2
    seen = "image, previous action and reward"
    facts = {"actions": "sampled", "search": False, "simulations": 0, "observation": seen}
    assert result["policy"] == {**facts, "episode": "trial of 2 episodes"}
    assert "mean_return is of an episode in a trial" in result["unit"]
    assert f"no search, observation {seen}, each episode a trial of 2 episodes)" in said
    assert [row["steps"] for row in runs.Run.open(out).records()] == [32, 64]
    policy = runs.load_policy(out)
    obs = jax.eval_shape(policy.env.reset, KEY).obs
    assert set(obs) == {"obs", "action", "reward"}
    assert policy.env.env.episodes == 2 and policy.env.env.num_tasks == 2100


@pytest.mark.slow
def test_a_resumed_run_is_bit_identical(tmp_path):
    out = tmp_path / "run"
    assert train.main([*ARGV, "--out", str(out), "--seeds", "2"]) == 0
    run = runs.Run.open(out)
    evaluated = (out / "eval.json").read_text()
    whole = checkpoints.contents(checkpoints.saved(run.checkpoints)[-1])
    # Tasks are not saved, because there may be a million.
    assert not any("tasks" in name for name in whole)
    shutil.rmtree(checkpoints.saved(run.checkpoints)[-1])
    assert train.main(["--resume", str(out), "--eval-episodes", "3"]) == 0
    again = checkpoints.contents(checkpoints.saved(run.checkpoints)[-1])
    assert whole.keys() == again.keys()
    for name in whole:
        np.testing.assert_array_equal(whole[name], again[name])
    assert (out / "eval.json").read_text() == evaluated


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--task-set", "huge"], "--task-set huge: choose one of trivial-21k, small-1m, medium-1m"),
        (["--task-set", ""], "--task-set (none): choose one of trivial-21k"),
        (["--held-out", "1"], "held_out=1.0 must be above 0 and below 1"),
        (["--trial-steps", "0"], "trial_steps=0 and trial_episodes=0: a trial would never end"),
        (["--reset-source", "pool"], "reset_source=pool: levels of a pool belong to one task"),
        (["--reset-source", "stock"], "reset_source=stock: every step of a stock reads all params"),
        (["--privileged-share", "1.5"], "privileged_share=1.5 must be at most 1"),
        (
            ["--set", "obs=rgb"],
            "--task-loss and --privileged-share need an observation with a map of few kinds",
        ),
        (
            ["--set", "obs=dict"],
            "obs=dict shows the task, which rl2 must infer: its evaluation under held-out "
            "tasks would show them too; give --set obs=image or obs=heading or obs=rgb or "
            "obs=rgb_full",
        ),
        (["--test-episodes", "0"], "test_episodes=0 must be at least 1"),
        (["--held-out", "0.0001"], "--eval-episodes 3: each is a trial under a held-out task, and"),
        (["--minibatches", "3"], "does not split into minibatches=3; choose a divisor of 4"),
    ],
)
def test_settings_that_cannot_work_say_why(tmp_path, capsys, flags, words):
    assert train.main([*ARGV, *flags, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err


def test_the_old_flag_of_privileged_share_works_and_warns(tmp_path, capsys):
    for flags in (["--told", "1.5"], ["--told=1.5"]):
        assert train.main([*ARGV, *flags, "--out", str(tmp_path / "run")]) == 2
        printed = capsys.readouterr().err
        assert "warning: --told is now --privileged-share; the old name goes" in printed
        assert "privileged_share=1.5 must be at most 1" in printed
    assert train.main([*ARGV, "--help"]) == 0
    printed = capsys.readouterr().out
    assert "--privileged-share" in printed and "--told" not in printed


def test_a_run_with_the_old_name_of_privileged_share_loads(tmp_path):
    settings = dataclasses.asdict(rl2.Settings(privileged_share=0.6))
    old = {("told" if name == "privileged_share" else name): v for name, v in settings.items()}
    run = runs.Run.create(tmp_path / "run", runs.Config(ID, {}, 0, 1, old, "rl2"))
    assert "told" in json.loads((run.path / "config.json").read_text("utf-8"))["settings"]
    assert runs.Run.open(run.path).config.settings == settings


def test_a_run_that_observed_the_task_is_not_evaluated(tmp_path):
    """A run whose observations show the task, which older versions allowed, is not evaluated."""
    settings = dataclasses.asdict(rl2.Settings(task_set="trivial-21k"))
    run = runs.Run.create(tmp_path / "run", runs.Config(ID, {"obs": "dict"}, 0, 1, settings, "rl2"))
    with pytest.raises(runs.RunError, match="obs=dict shows the task"):
        runs.load_policy(run.path)


def test_observations_of_the_task_are_found_by_tracing():
    shown = [name for name in ENV.observations if shows_task(dataclasses.replace(ENV, obs=name))]
    assert shown == ["dict"]


def test_an_environment_without_tasks_is_refused(tmp_path, capsys):
    argv = ["Grid-v0", "--algo", "rl2", "--task-set", "trivial-21k", "--out", str(tmp_path / "run")]
    assert train.main(argv) == 2
    assert "has no sets of tasks; rl2 needs some, such as those of XLand" in capsys.readouterr().err


def test_tasks_are_arguments_of_the_program_and_not_constants_in_it():
    params = tasks(LIMIT, episodes=0, steps=TRIAL)[1]
    runners = jax.eval_shape(functools.partial(loop.start, agent()), KEY[None], params)
    assert runners.params is None
    lowered = loop.run_chunk.lower(agent(), runners, params)
    given = {leaf.shape for leaf in jax.tree.leaves(lowered.args_info[0][1])}
    assert params.tasks.init_tiles.shape in given
