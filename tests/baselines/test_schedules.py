"""Tests of schedules in runs that are resumed with more steps: they neither jump nor go back."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from test_value_units import SalaryMap
from tiny import Endless, Push, learner

from jaxenvs.baselines.core import minibatches, rollouts
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.off_policy import dqn, q_learning
from jaxenvs.baselines.on_policy import ppo, rl2
from jaxenvs.baselines.puzzles import cost_to_go, world
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop, options
from jaxenvs.baselines.storage import runs

EMPTY, CUBE = "Grid-Empty-5x5-v0", "Puzzle-Cube-2x2-v0"
WEIGHTS = {"weights": {"a": np.zeros(1, np.float32)}}  # contents of a checkpoint
ENVS = {"num_envs": 4, "rollout_steps": 2, "anneal": True}
EPSILON = {**ENVS, "epsilon_share": 1.0}
REPLAY = {**EPSILON, "capacity": 400, "warm_up": 16, "gradient_steps": 2}
PUZZLE = {"walks": 2, "scramble": 3, "gradient_steps": 2}


def epsilon(settings, update):
    return settings.epsilon(jnp.int32(update))


def rate(settings, update):
    """Return the learning rate after all gradient steps of this many updates."""
    steps = (update - settings.cold_updates) * settings.gradient_steps
    return minibatches.learning_rate(settings)(np.int32(steps))


def importance(settings, update):
    """Return the exponent of DQN's importance weights (beta of prioritised replay) at `update`.

    A stand-in for the gradient step returns the exponent as a metric, `beta`.
    """
    nothing = dict.fromkeys(rollouts.Runner._fields, ())
    runner = rollouts.Runner(**{**nothing, "weights": jnp.zeros(1)})

    def learn(update):
        step = lambda beta, learned, draw: (learned, {"beta": beta})  # noqa: E731
        given = types.SimpleNamespace(settings=settings), runner._replace(updates=update)
        return q_learning.learn_when_ready(*given, jax.random.key(0), step, names=("beta",))[1][
            "beta"
        ]

    return jax.vmap(learn, axis_name=SEEDS)(jnp.int32([update]))[0]


def privileged_share(settings, update):
    """Return the fraction of RL²'s environments that show the policy their task at `update`."""
    count = jnp.int32(update * settings.gradient_steps)
    chain = minibatches.optimiser(settings)
    envs, patch = 1000, pytest.MonkeyPatch()
    runner = rl2.Runner(
        weights=(), optimiser=minibatches.with_step_count(chain.init(jnp.zeros(1)), count)
    )
    runner = runner._replace(world=types.SimpleNamespace(env=jnp.zeros(envs)))
    network = types.SimpleNamespace(with_goal=lambda memory, goal: goal)
    learner = types.SimpleNamespace(
        settings=settings, env=types.SimpleNamespace(num_envs=envs), network=network
    )
    with patch.context() as patched:
        patched.setattr(rl2, "task", lambda *_: jnp.ones(rl2.GOAL_SIZE, jnp.int32))
        patched.setattr(ppo, "choose", lambda learner, runner, key, mask: (runner.memory, 0, {}))
        return (rl2.choose(learner, runner, jax.random.key(0), None)[0] > 0).mean()


def step_of(chain, count):
    """Return the learning rate of an Adam optimiser after `count` steps.

    The learning rate is the change of a weight, divided by the change at learning rate 1.
    """
    weight, one = jnp.float32(0.0), jnp.float32(1.0)

    def moved(chain):
        state = minibatches.with_step_count(chain.init(weight), jnp.int32(count))
        return minibatches.apply_gradient(chain, one, state, weight)[0]

    return moved(chain) / moved(optax.adam(1.0))


def davi_rate(settings, update):
    return step_of(cost_to_go.optimiser(settings), update * settings.gradient_steps)


def heuristic_rate(settings, update):
    steps = (update - settings.model_updates) * settings.gradient_steps
    return step_of(world.optimisers(settings)["q"], steps)


def model_rate(settings, update):
    return step_of(world.optimisers(settings)["model"], update * settings.gradient_steps)


SCHEDULES = {
    "epsilon": ("dqn", EMPTY, REPLAY, epsilon),
    "epsilon of pqn": ("pqn", EMPTY, {**EPSILON, "minibatches": 2}, epsilon),
    "importance": ("dqn", EMPTY, REPLAY, importance),
    "privileged_share": (
        "rl2",
        EMPTY,
        {**ENVS, "minibatches": 2, "privileged_share": 0.9},
        privileged_share,
    ),
    "rate": ("ppo", EMPTY, {**ENVS, "minibatches": 2}, rate),
    "rate of a replay": ("dqn", EMPTY, REPLAY, rate),
    "rate of sac": ("sac", "Classic-Pendulum-v0", {**ENVS, "warm_up": 8}, rate),
    "rate of davi": ("davi", CUBE, PUZZLE, davi_rate),
    "rate of a heuristic": ("world", CUBE, {**PUZZLE, "model_share": 0.3}, heuristic_rate),
    "rate of a model": ("world", CUBE, {**PUZZLE, "model_share": 0.7}, model_rate),
}
PLANNED, MORE = 100, 200  # number of updates as first planned, and after resuming with more


def saved(tmp_path, algorithm, id, done, **given):
    """Create a run of `PLANNED` updates; return the run and its settings.

    If `done` is above 0, the run has a checkpoint of update `done`.
    """
    kind = ALGORITHMS[algorithm].load().Settings
    steps = kind(total_steps=1, **given).steps_per_update
    settings = kind(**({"total_steps": PLANNED * steps} | given))
    config = runs.Config(id, {}, 0, 1, dataclasses.asdict(settings), algorithm)
    run = runs.Run.create(tmp_path / "run", config, overwrite=True)
    if done:
        run.save(done, WEIGHTS)
    return run, settings


def resumed(run, updates, *flags):
    """Return the settings of a run that is resumed and continues to this number of updates."""
    known = run.config
    kind = ALGORITHMS[known.algorithm].load().Settings
    total = updates * kind(**known.settings).steps_per_update
    asked = ["--resume", str(run.path), "--total-steps", str(total), *flags]
    return options.parse(asked, known.algorithm).settings


def kept(run, settings):
    """Write the settings to the run's configuration, as resuming does; return the reopened run."""
    config = dataclasses.replace(run.config, settings=dataclasses.asdict(settings))
    runs.Run(run.path, config).write_config()
    return runs.Run.open(run.path)


@pytest.mark.usefixtures("as_a_user")  # disable jaxtyping, which refuses stand-ins for a learner
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_goes_on_from_where_it_is(tmp_path, name):
    """When a run is resumed, its schedule continues, and reaches its last value at the new end."""
    algorithm, id, given, value = SCHEDULES[name]
    done = 60
    run, before = saved(tmp_path, algorithm, id, done, **given)
    after = resumed(run, MORE)
    assert after.updates == MORE
    np.testing.assert_allclose(value(after, done), value(before, done), rtol=1e-4)
    end = PLANNED if name != "rate of a model" else before.model_updates
    new_end = MORE if name != "rate of a model" else after.model_updates
    seen = [float(value(after, u)) for u in np.linspace(done, new_end, 5, dtype=int)]
    np.testing.assert_allclose(seen[-1], value(before, end), atol=2e-4)
    assert seen[0] != pytest.approx(seen[-1], rel=1e-3), "it still had a way to go"
    moves = np.sign(np.diff(seen))
    assert (moves == moves[0]).all()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("name", ["epsilon", "importance", "privileged_share"])
def test_a_schedule_of_a_finished_run_keeps_its_last_value(tmp_path, name):
    algorithm, id, given, value = SCHEDULES[name]
    run, before = saved(tmp_path, algorithm, id, PLANNED, **{**given, "anneal": False})
    after = resumed(run, MORE)
    for update in (PLANNED, 150, MORE):
        np.testing.assert_allclose(value(after, update), value(before, PLANNED), rtol=1e-4)


def test_a_new_chunk_must_divide_the_updates_that_are_left(tmp_path):
    """Otherwise the last call of the compiled program would pass the planned end."""
    run, _ = saved(tmp_path, "ppo", EMPTY, 60, **ENVS, minibatches=2)
    assert resumed(run, PLANNED, "--chunk", "20").updates == PLANNED
    with pytest.raises(runs.RunError, match=r"--chunk 7: .* has made 60 updates, so 45 are left"):
        resumed(run, PLANNED, "--chunk", "7")


@pytest.mark.usefixtures("as_a_user")
def test_a_robust_curriculum_goes_on_but_does_not_restart_its_learning_rate(tmp_path):
    """It takes fewer gradient steps than updates, so its learning rate has not fallen to 0."""
    given = {"num_envs": 4, "rollout_steps": 8, "minibatches": 2, "anneal": True}
    run, _ = saved(tmp_path, "plr", EMPTY, PLANNED, **given)
    assert resumed(run, MORE).updates == MORE
    with pytest.raises(runs.RunError, match="robust curriculum does not learn in every update"):
        resumed(run, MORE, "--learning-rate", "1e-4")


def test_a_run_with_the_same_total_has_the_same_settings(tmp_path):
    """Resuming with the same total gives equal settings, so JAX needs no new compilation."""
    run, before = saved(tmp_path, "dqn", EMPTY, 60, **REPLAY)
    assert resumed(run, PLANNED) == before
    run = kept(run, resumed(run, MORE))
    run.save(80, WEIGHTS)
    after = resumed(run, MORE)
    assert dataclasses.asdict(after) == run.config.settings
    assert after.plans == ((60, PLANNED),)


@pytest.mark.parametrize(
    "name",
    [
        "rate",
        pytest.param("rate of sac", marks=pytest.mark.full),
        pytest.param("rate of davi", marks=pytest.mark.full),
    ],
)
def test_a_learning_rate_that_has_fallen_begins_anew_if_asked(tmp_path, name):
    """A run whose learning rate has fallen to 0 can continue only with a new --learning-rate."""
    algorithm, id, given, value = SCHEDULES[name]
    run, before = saved(tmp_path, algorithm, id, PLANNED, **given)
    with pytest.raises(runs.RunError, match=r"learning rate has fallen to 0.* --learning-rate"):
        resumed(run, MORE)
    assert resumed(run, PLANNED) == before, "it may be evaluated again"
    # Restart with the initial learning rate of the run, or with the new learning rate 1e-5.
    for first in (before.learning_rate, 1e-5):
        after = resumed(run, MORE, "--learning-rate", str(first))
        seen = [float(value(after, update)) for update in (PLANNED, 150, MORE)]
        np.testing.assert_allclose(seen, [first, first / 2, 0.0], rtol=1e-4, atol=1e-9)
    again = kept(run, after)
    run.save(150, WEIGHTS)
    assert resumed(again, MORE) == after
    longer = resumed(again, 300)
    seen = [float(value(longer, update)) for update in (150, 225, 300)]
    np.testing.assert_allclose(seen, [5e-6, 2.5e-6, 0.0], rtol=1e-4, atol=1e-9)


def test_what_cannot_begin_anew_says_so(tmp_path):
    algorithm, id, given, _ = SCHEDULES["rate of a model"]
    run, _ = saved(tmp_path, algorithm, id, PLANNED, **given)
    with pytest.raises(runs.RunError, match=r"fallen to 0.* train again with --out NEW"):
        resumed(run, MORE)
    with pytest.raises(runs.RunError, match=r"trained with --learning-rate 0\.003 and cannot"):
        resumed(run, MORE, "--learning-rate", "1e-3")
    run, _ = saved(tmp_path, "ppo", EMPTY, PLANNED, **ENVS, minibatches=2)
    swept = dataclasses.replace(run.config, sweep={"learning_rate": [0.1, 0.2]}, seeds=2)
    run = runs.Run.create(run.path, swept, overwrite=True)
    run.save(PLANNED, WEIGHTS)
    with pytest.raises(runs.RunError, match=r"fallen to 0.* train again with --out NEW"):
        resumed(run, MORE)


def test_the_heuristic_is_not_interrupted_by_a_second_model(tmp_path):
    """The learner `world` trains the model of a puzzle first, then the heuristic.

    A run that has begun to train the heuristic never trains the model again, even if it is resumed
    with a larger `total_steps`.
    """
    algorithm, id, given, _ = SCHEDULES["rate of a heuristic"]
    run, before = saved(tmp_path, algorithm, id, 60, **given)
    assert before.model_updates == resumed(run, MORE).model_updates == 30
    run, _ = saved(tmp_path, algorithm, id, 20, **given)
    assert resumed(run, MORE).model_updates == 20 + round(180 * (0.3 - 0.2) / 0.8)


def test_layers_are_not_reset_again_late_in_a_run(tmp_path):
    run, before = saved(tmp_path, "dqn", EMPTY, 80, **REPLAY, reset_every=4)
    after = resumed(run, MORE)
    assert (
        before.update_at(q_learning.LAST_RESET)
        == after.update_at(q_learning.LAST_RESET)
        == pytest.approx(70)
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("algorithm", "env", "given"),
    [
        ("dqn", Endless(), {"warm_up": 96}),
        ("sac", Push(), {"warm_up": 76}),
        ("td3", Push(), {"warm_up": 76, "actor_every": 2}),
        ("muzero", Endless(), {"warm_up": 96}),
        ("dyna", SalaryMap(), {"warm_up": 192}),
    ],
)
def test_the_learning_rate_counts_the_updates_of_the_warm_up(algorithm, env, given):
    """The learning rate depends on the count of all updates, including updates in the warm-up."""
    agent = learner(env, algorithm, **given)
    runners = loop.start(agent, jax.random.key(0)[None])
    for update in range(1, 6):
        runners, _ = loop.run_chunk(agent, runners)
        states = runners.optimiser
        states = states if isinstance(states, dict) else {"": states}
        for name, state in states.items():
            every = 1 if name in ("", "critic") else agent.settings.actor_every
            counted = int(minibatches.step_count(jax.tree.map(lambda leaf: leaf[0], state)))
            known = int(agent.settings.updates_of(counted, every))
            assert known == update or counted == 0, name
    assert counted > 0


def test_steps_are_counted_beyond_int32():
    """Learning rates and epsilon in a run of 2**33 steps are as expected from its progress."""
    large = {"num_envs": 8192, "rollout_steps": 16, "total_steps": 2**33}
    of_ppo = ppo.Settings(**large, learning_rate=1.0)
    of_dqn = dqn.Settings(**large, epsilon_share=1.0, gradient_steps=1024, warm_up=2**32)
    of_sac = (
        ALGORITHMS["sac"]
        .load()
        .Settings(
            **large, anneal=True, learning_rate=1.0, replays=1000, actor_every=3, warm_up=8192
        )
    )
    for one in (of_ppo, of_dqn, of_sac):
        one.check()
        assert one.updates == 65536
    for share in (0.25, 0.5, 1.0):
        update = int(share * 65536)
        assert float(rate(of_ppo, update)) == pytest.approx(1 - share)
        assert float(rate(of_sac, update)) == pytest.approx(1 - share)
        of_actor = minibatches.learning_rate(of_sac, every=3)
        assert float(of_actor(np.int32(update * 16_000 // 3))) == pytest.approx(1 - share, abs=1e-4)
        assert float(epsilon(of_dqn, update)) == pytest.approx(1.0 - 0.95 * share)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("update", [1, 16_383, 16_384, 65_536, 2**30])
def test_learning_begins_after_the_warm_up_and_never_ends(update):
    """Learning begins after the warm-up, and continues when the number of steps exceeds int32.

    The number of steps reaches 2**31 after 16,384 updates.
    """
    large = {"num_envs": 8192, "rollout_steps": 16, "total_steps": 2**33, "warm_up": 2 * 8192 * 16}
    seen = float(importance(dqn.Settings(**large), update))
    if update < 2:
        assert np.isnan(seen), "nothing is learned"
    else:
        assert seen == pytest.approx(0.4 + 0.6 * min(update / 65_536, 1.0))


@pytest.mark.parametrize(
    ("algorithm", "given", "words"),
    [
        ("sac", {}, "8,589,934,600 gradient steps, more than the 2,147,483,647"),
        ("dqn", {"num_envs": 1, "gradient_steps": 1}, "slots of a replay buffer"),
        ("davi", {"walks": 1, "scramble": 1}, "gradient steps"),
    ],
)
def test_runs_that_cannot_be_counted_are_refused(algorithm, given, words):
    kind = ALGORITHMS[algorithm].load().Settings
    with pytest.raises(ValueError, match=words):
        kind(**{"total_steps": 2**33, **given}).check()
