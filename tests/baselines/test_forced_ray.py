"""Tests that learners on Ray count a decision and its forced steps as one, without a cluster.

The reference is `Napper`, see sleeping.py.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sleeping import FIELDS, KEY, alike, both, decided, decisions_of, played
from tiny import Clock
from tiny_sleep import ForcedSleeper, Sleeper

import jaxenvs
from jaxenvs.baselines import registry
from jaxenvs.baselines.core import forced, minibatches
from jaxenvs.baselines.core.devices import ALONE
from jaxenvs.baselines.core.learner import Learner
from jaxenvs.baselines.core.rollouts import Rollout
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.ray import actors, apex, explorers, gym_envs
from jaxenvs.baselines.ray import ppo as ray_ppo
from jaxenvs.baselines.ray.learners import improve
from jaxenvs.baselines.registry import ALGORITHMS

SLEEPY = "gym:tiny_gym:Sleepy-v0"
ROW = ALGORITHMS["ppo-ray"]


def on_ray(env, **settings):
    """Return a learner of PPO on Ray for one actor with four environments."""
    sizes = {"num_envs": 4, "rollout_steps": 12, "minibatches": 2, "hidden": (8,), "embed": 0}
    made = ray_ppo.Settings(actors=1, **sizes, **settings)
    made.check()
    registry.check_forced(ROW, env, made)
    return Learner(ROW, env, registry.network(ROW, env, vars(made)), made)


def weights_of(agent):
    """Return new weights, as actors receive them."""
    return jax.device_get(jax.vmap(functools.partial(ray_ppo.init, agent))(KEY[None]).weights)


def test_v_trace_equals_that_of_one_step_sleeps():
    """Compare advantages, targets, their scales, losses and gradients."""
    skipping, after, rollout, plain, *_ = both()
    here = rollout.forced.here
    # The only legal action has probability 1.
    rollout = rollout._replace(log_prob=jnp.where(here, 0.0, rollout.log_prob))
    ours = ray_ppo.corrected(skipping, after, rollout)
    _, reference = played(plain)
    parts = []
    for env, count in enumerate(decided(rollout)):
        names = (*FIELDS, "log_prob", "mask")
        fields = {name: getattr(reference, name)[:count, env, None] for name in names}
        at_end = after._replace(obs=reference.obs[count, env, None])
        made = ray_ppo.corrected(plain, at_end, Rollout(**fields))
        parts.append(jax.tree.map(lambda leaf: leaf[:, 0], made))
    theirs = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
    for a, b in zip(decisions_of(ours[1:], here), theirs[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)

    def learned(agent, batch):
        orders = jnp.arange(len(batch[1]), dtype=jnp.int32)[None]
        offset, scale = ray_ppo.centred(agent, batch, orders)
        step = functools.partial(minibatches.gradients, agent, ppo.loss)
        return scale, jax.jit(step)(after.weights, *batch, offset[0], scale[0])

    alike(learned(skipping, minibatches.as_steps(ours)), learned(plain, theirs))


def test_the_weights_of_fragments_are_normalised_together():
    """Actors with different numbers of decisions weight all decisions equally."""
    skipping, after, rollout, *_ = both()
    batch = (rollout._replace(memory=()), after.obs)
    done = rollout.terminated | rollout.truncated
    asleep = after.world.env.asleep
    parts = [
        forced.marked(rollout.forced.here[:, half], asleep[half], done[:, half], ALONE)
        for half in (slice(0, 4), slice(4, 8))
    ]
    apart = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *parts)
    assert np.abs(apart.policy - rollout.forced.policy).max() > 0.01
    agent = on_ray(Sleeper(), skip_forced=True)
    agent = Learner(ROW, agent.env, skipping.network, agent.settings)
    runners = jax.device_get(jax.tree.map(lambda leaf: leaf[None], ray_ppo.init(agent, KEY)))
    results = []
    for marks in (rollout.forced, apart):
        fields = batch[0]._replace(forced=marks)._asdict()
        copy = jax.tree.map(jnp.asarray, runners)
        results.append(improve(agent, copy, jax.device_get((fields, after.obs))))
    alike(results[0][0].weights, results[1][0].weights, 1e-6)
    share = 1.0 - rollout.forced.here.mean()
    np.testing.assert_allclose(results[0][1]["decisions"], share, rtol=1e-5)


@pytest.mark.parametrize("env", [Sleeper(), pytest.param(ForcedSleeper(), marks=pytest.mark.full)])
def test_an_actor_marks_forced_steps(env, monkeypatch):
    monkeypatch.setattr(jaxenvs, "make", lambda id, **fields: env)
    asked = {} if isinstance(env, ForcedSleeper) else {"skip_forced": True}
    agent = on_ray(env, **asked)
    weights = weights_of(agent)
    sampler = actors.JaxSampler("Sleeper-v0", {}, actors.Sampling.of(agent), 0)
    first, obs = sampler.collect(weights)
    second, _ = sampler.collect(weights)
    is_marked(first, second, obs)


def test_an_actor_in_gymnasium_marks_forced_steps():
    env = gym_envs.look(SLEEPY, {})
    agent = on_ray(env, skip_forced=True)
    weights = weights_of(agent)
    sampler = actors.GymSampler(SLEEPY, {}, actors.Sampling.of(agent), 0)
    first, obs = sampler.collect(weights)
    second, _ = sampler.collect(weights)
    is_marked(first, second, obs)


def is_marked(first, second, obs):
    """Check the forced steps of a fragment; in `Sleeper`, observations end in `asleep`."""
    marks = first["forced"]
    asleep = first["obs"][..., 1] > 0
    assert asleep.any() and not asleep.all()
    np.testing.assert_array_equal(marks.here, asleep)
    np.testing.assert_array_equal(second["obs"][0], obs)
    done = first["terminated"] | first["truncated"]
    later = np.concatenate([asleep, obs[None, :, 1] > 0])[1:]
    np.testing.assert_array_equal(marks.following, later & ~done)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("id", ["Sleeper-v0", SLEEPY])
def test_transitions_of_ape_x_lead_from_decision_to_decision(id, n_step, monkeypatch):
    """Compare all transitions of four calls with a loop over the steps of each environment."""
    monkeypatch.setattr(jaxenvs, "make", lambda id, **fields: Sleeper())
    monkeypatch.setattr("jaxenvs.baselines.ray.explorers.use_one_thread", lambda: None)
    env = gym_envs.look(id, {}) if id == SLEEPY else Sleeper()
    row, sizes = ALGORITHMS["apex"], {"num_envs": 3, "rollout_steps": 9, "hidden": (8,), "embed": 0}
    settings = apex.Settings(actors=1, skip_forced=True, epsilon=1.0, epsilon_power=0.0, **sizes)
    registry.check_forced(row, env, settings)
    agent = Learner(row, env, registry.network(row, env, vars(settings)), settings)
    given = (actors.Sampling.of(agent), n_step, 0.9, settings.epsilons(0))
    actor, records = explorers.Explorer(id, {}, explorers.Exploration(*given), 0), []
    collect = actor._envs.collect
    actor._envs.collect = lambda weights: records.append(collect(weights)) or dict(records[-1])
    weights = jax.device_get(jax.vmap(agent.init)(KEY[None]).weights)
    made = [actor.sample(weights, 0) for _ in range(4)]
    record = jax.tree.map(lambda *leaves: np.concatenate(leaves), *records)
    found = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(part for _, part in made))
    assert sum(about["items"] for about, _ in made) == len(found["reward"])
    here = record["mask"].sum(axis=-1) == 1
    shares = [about["decisions"] for about, _ in made]
    np.testing.assert_allclose(np.mean(shares), 1.0 - here.mean(), rtol=1e-5)
    expected = [one for env in range(3) for one in plain_items(record, here, env, n_step)]
    keys = ("obs", "action", "reward", "discount", "next_obs", "next_mask")
    count = len(found["error"])
    ours = np.hstack([np.reshape(found[name], (count, -1)) for name in keys])
    # after a termination, the next observation and its mask have no effect
    ours[:, 5:] *= ours[:, 4:5] > 0.0
    ours, theirs = (np.array(sorted(map(tuple, rows))) for rows in (ours, expected))
    assert len(ours) > 30 and here.mean() > 0.2
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def plain_items(record, here, env, n_step):
    """Return the transitions of one environment that its steps complete, as flat rows."""
    steps, ends = len(here), record["terminated"] | record["truncated"]
    found = []
    # A window of the replay buffer is complete if the slots of n steps and final observations
    # after it are written.
    slots, decisions = [], []
    for step in range(steps):
        if not here[step, env]:
            decisions.append(step)
            slots.append(step)
        if record["truncated"][step, env]:
            slots.append(-1)
    written = len(slots) - (record["final_mask"][-1, env].sum() == 1 and not ends[-1, env])
    for begin in decisions:
        total, discount, count, step = 0.0, 1.0, 0, begin
        if slots.index(begin) + n_step > written:
            continue
        while True:
            total += discount * record["reward"][step, env]
            asleep = record["final_mask"][step, env].sum() == 1 and not ends[step, env]
            discount *= 1.0 if asleep else 0.9
            count += not asleep
            if ends[step, env] or count == n_step:
                break
            step += 1
        goes_on = not record["terminated"][step, env]
        discount *= goes_on
        parts = (record["obs"][begin, env], record["action"][begin, env], total, discount)
        after = (record["final_obs"][step, env], record["final_mask"][step, env])
        parts += tuple(goes_on * each for each in after)
        found.append(tuple(np.hstack([np.ravel(part) for part in parts])))
    return found


def test_gymnasium_environments_without_masks_are_refused():
    env = gym_envs.look("gym:tiny_gym:Signal-v0", {})
    with pytest.raises(ValueError, match=r"Signal-v0 forbids no action.*omit --skip-forced"):
        on_ray(env, skip_forced=True)
    with pytest.raises(ValueError, match="forbids no action"):
        on_ray(Clock(), skip_forced=True)
