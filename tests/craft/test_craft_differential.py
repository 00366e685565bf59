"""Tests that Craft-Classic and craftax 1.6.1 agree, given equal starts, actions and draws."""

import functools

import jax
import jax.numpy as jnp
import lockstep
import numpy as np
import peer
import pytest
import starts
from craftax.craftax_classic.renderer import render_craftax_symbolic

from jaxenvs.core import platforms

ROWS = 8 * len(starts.KINDS)  # every policy plays every kind of start twice
STEPS, LONG_STEPS, TRIALS = 60, 200, 10
# Events that must occur in some trajectory, because otherwise the comparison does not cover them.
OFTEN = [
    "mobs revived",
    "mobs born",
    "mobs gone",
    "mobs unseen",
    "mobs sharing a cell",
    "arrows in flight",
    "blocks changed",
    "hurt",
    "hurt asleep",
    "woken",
    "plant slots full",
    "deep night",
    "died",
    "makes a tool on a table",
    "outside the map",
    "time limit",
]
SELDOM = ["several achievements at once"]


def check(report, least, events):
    print(report._replace(first=[]))
    assert not report.differences, report.first[:5]
    assert report.steps >= least
    assert report.events["choices unexplained"] == 0
    assert not [name for name in events if not report.events[name]]


@pytest.mark.full
def test_every_kind_of_start_plays_as_the_package():
    check(lockstep.trial(ROWS, STEPS, seed=0), least=1_500, events=OFTEN)


def test_the_observation_is_the_package_s_to_the_bit():
    """Compare observations bit by bit, except for the light, which has a tolerance of 1e-5.

    Compile with all of XLA's passes, as users do; `make test` disables some of them.
    """
    as_users_do = functools.partial(jax.jit, compiler_options={"xla_disable_hlo_passes": "none"})
    run = lockstep.sides()
    params = lockstep.numbers(len(starts.KINDS), seed=0)
    theirs, ours = run.begin(starts.batch(len(starts.KINDS), seed=0)[0], params)
    seen = as_users_do(jax.vmap(run.env.observe))(ours, params)
    wanted = as_users_do(jax.vmap(peer.loosely(render_craftax_symbolic)))(theirs)
    light = seen.shape[-1] - 2
    np.testing.assert_array_equal(np.delete(seen, light, 1), np.delete(wanted, light, 1))
    np.testing.assert_allclose(seen[:, light], wanted[:, light], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_fifty_thousand_steps_play_as_the_package(record_property):
    trials = [lockstep.trial(ROWS, LONG_STEPS, seed=100 * i) for i in range(1, TRIALS + 1)]
    report = lockstep.merged(trials)
    record_property("report", report._asdict())
    check(report, least=50_000, events=OFTEN + SELDOM)
    assert all(report.achievements.values()), report.achievements


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["thick", "edge", "workshop", "crowd"])
def test_one_world_alone_plays_as_the_package(kind):
    """Play worlds one at a time: without `vmap`, XLA compiles another program."""
    total = []
    for seed in range(4):
        for way in lockstep.PLAY.values():
            theirs = jax.tree.map(jnp.asarray, starts.make(kind, seed))
            params = lockstep.sides().env.default_params
            key = jax.random.PRNGKey(seed)
            run = lockstep.sides(batched=False)
            total.append(lockstep.play(theirs, key, jnp.int32(way), 60, params, run))
    check(lockstep.merged(total), least=200, events=[])


@pytest.mark.slow
def test_code_for_accelerators_plays_as_the_package(monkeypatch):
    """Run the code for GPUs on the test's platform; its results must also equal craftax's."""

    def elsewhere(*args, default, **platforms):
        return default(*args)

    monkeypatch.setattr(platforms, "is_cpu_alone", lambda: False)
    monkeypatch.setattr(jax.lax, "platform_dependent", elsewhere)
    lockstep.sides.cache_clear()
    try:
        check(lockstep.trial(ROWS, STEPS, seed=0), least=1_500, events=OFTEN)
    finally:
        lockstep.sides.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "slots"), [(32, (2, 1, 4, 1, 2)), (48, (6, 5, 4, 6, 16)), (96, (1, 1, 1, 2, 1))]
)
def test_other_sizes_and_slots_play_as_the_package(size, slots):
    """Play on maps smaller or larger than 64 x 64, and with fewer or more mob slots than usual."""
    report = lockstep.trial_of(size, peer.Slots(*slots), rows=32, steps=120, seed=size)
    check(report, least=1_000, events=["mobs born", "mobs gone", "hurt"])


def test_states_convert_both_ways():
    env = lockstep.sides().env
    theirs, kinds = starts.batch(ROWS, seed=3)
    ours = jax.jit(jax.vmap(lambda state: env.from_upstream(state)))(theirs)
    back = jax.jit(jax.vmap(lambda state: peer.to_craftax(env, state)))(ours)
    wanted, given = jax.device_get((peer.fields(theirs), peer.fields(back)))
    for name, value in wanted.items():
        tolerance = 1e-5 if value.dtype.kind == "f" else 0
        differs = abs(value.astype(float) - given[name]) > tolerance
        rows = differs.reshape(len(kinds), -1).any(axis=1)
        assert not rows.any(), (name, {kinds[row] for row in np.nonzero(rows)[0]})
