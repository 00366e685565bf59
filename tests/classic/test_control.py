"""Tests of Pendulum, both MountainCars and Acrobot against Gymnasium.

Some tests show deliberate differences from Gymnasium.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.classic import Acrobot, MountainCar, MountainCarContinuous, Pendulum
from jaxenvs.render.controls import TIME
from jaxenvs.render.frames import board_painter

IDS = {
    "Classic-Acrobot-v0": "Acrobot-v1",
    "Classic-MountainCar-v0": "MountainCar-v0",
    "Classic-MountainCarContinuous-v0": "MountainCarContinuous-v0",
    "Classic-Pendulum-v0": "Pendulum-v1",
}
ROWS, STEPS = 64, 60
# Ranges of the random states from which steps are compared with Gymnasium, as two lists with one
# number per variable: half the width of the variable's range, and the middle of the range.
WIDE = {
    "Classic-Acrobot-v0": ([np.pi, np.pi, 4 * np.pi, 9 * np.pi], [0.0] * 4),
    "Classic-MountainCar-v0": ([0.9, 0.07], [-0.3, 0.0]),
    "Classic-MountainCarContinuous-v0": ([0.9, 0.07], [-0.3, 0.0]),
    "Classic-Pendulum-v0": ([np.pi, 8.0], [0.0] * 2),
}
# Tolerances above the default. At Acrobot's largest velocities, a step of 0.2 s amplifies rounding
# errors a thousandfold.
TOLERANCE = {"Classic-Acrobot-v0": 2e-3}


@pytest.fixture(scope="module")
def gymnasium():
    return pytest.importorskip("gymnasium")


def numbers(state):
    """Return a batch of states as a float32 array [states, variables], in Gymnasium's order."""
    names = [field.name for field in dataclasses.fields(state) if field.name != "time"]
    return np.stack([np.asarray(getattr(state, name)) for name in names], axis=1)


def arrived(env, now):
    """Return a mask of the terminal states in `now` (states, variables)."""
    if isinstance(env, Acrobot):
        return -np.cos(now[:, 0]) - np.cos(now[:, 0] + now[:, 1]) > 1
    goal = np.inf if isinstance(env, Pendulum) else env.default_params.goal
    return (now[:, 0] >= goal) & (now[:, 1] >= 0)


@pytest.mark.parametrize("id", IDS)
def test_steps_equal_gymnasiums(id, gymnasium):
    """Compare steps of both environments from the same float32 states and actions.

    When an episode has terminated, a new episode starts from a random state.
    """
    env, rng = jaxenvs.make(id), np.random.default_rng(0)
    theirs = gymnasium.make(IDS[id]).unwrapped
    key, (most, middle) = jax.random.key(0), WIDE[id]
    step = jax.jit(jax.vmap(lambda state, action: env.step(key, state, action)))
    begin = jax.jit(jax.vmap(lambda level: env.reset_to(key, level).state))
    sample = jax.jit(jax.vmap(env.action_space.sample))

    def anywhere():
        return (middle + rng.uniform(-1, 1, (ROWS, len(most))) * most).astype(np.float32)

    now, ended, close = anywhere(), 0, TOLERANCE.get(id, 2e-6)
    for number in range(STEPS):
        actions = np.asarray(sample(jax.random.split(jax.random.key(number), ROWS)))
        ours = jax.device_get(step(begin(now), actions))
        rows = []
        for row in range(ROWS):
            theirs.state = now[row].astype(np.float64)
            rows.append(theirs.step(actions[row])[:3])
        obs, reward, terminated = map(np.array, zip(*rows, strict=True))
        # Our terminal states do not change, which is a deliberate difference from Gymnasium.
        same = ~arrived(env, now)
        assert same.sum() > ROWS / 4
        np.testing.assert_allclose(ours.obs[same], obs[same], rtol=close, atol=close)
        assert np.median(abs(ours.obs - obs)[same]) < 1e-6
        np.testing.assert_allclose(ours.reward[same], reward[same], rtol=2e-6, atol=1e-6)
        np.testing.assert_array_equal(ours.terminated[same], terminated[same])
        ended += int(ours.terminated[same].sum())
        after = numbers(ours.state)
        now = np.where((ours.terminated | ~same)[:, None], anywhere(), after)
    assert "Pendulum" in id or ended > 10


@pytest.mark.parametrize("id", IDS)
def test_spaces_limits_and_initial_states_equal_gymnasiums(id, gymnasium):
    env, theirs = jaxenvs.make(id), gymnasium.make(IDS[id])
    assert jaxenvs.make(IDS[id]) == env
    assert env.default_params.max_steps_in_episode == theirs.spec.max_episode_steps
    for ours, other in (
        (env.action_space, theirs.action_space),
        (env.observation_space, theirs.observation_space),
    ):
        assert ours.shape == other.shape
        if hasattr(other, "n"):
            assert ours.n == other.n
        else:
            np.testing.assert_array_equal(ours.low, other.low)
            np.testing.assert_array_equal(ours.high, other.high)
            assert ours.dtype == other.dtype
    keys = jax.random.split(jax.random.key(0), 4096)
    state = jax.jit(jax.vmap(env.reset))(keys).state
    first = numbers(state)
    least = {"Classic-Pendulum-v0": [-np.pi, -1], "Classic-Acrobot-v0": [-0.1] * 4}
    least = np.array(least.get(id, [-0.6, 0]), np.float32)
    most = np.array([-0.4, 0] if "Car" in id else -least, np.float32)
    assert (first >= least - 1e-6).all() and (first <= most + 1e-6).all()
    for column, low, high in zip(first.T, least, most, strict=True):
        if low < high:
            frequencies = np.histogram(column, bins=8, range=(low, high))[0] / len(column)
            np.testing.assert_allclose(frequencies, 1 / 8, atol=0.03)


@pytest.mark.parametrize(
    ("kind", "level", "action"),
    [
        (MountainCar, [0.55, 0.01], 0),
        (MountainCarContinuous, [0.5, 0.01], [-1.0]),
        (Acrobot, [np.pi, 0.0, 1.0, 1.0], 2),
    ],
)
def test_terminal_states_do_not_change(kind, level, action):
    env = kind()
    state = env.reset_to(jax.random.key(0), jnp.array(level, jnp.float32)).state
    step = env.step(jax.random.key(0), state, jnp.asarray(action, env.action_space.dtype))
    assert step.terminated and step.reward == 0
    np.testing.assert_array_equal(step.obs, env.observe(state))


def test_the_rods_angle_is_wrapped():
    env = Pendulum()
    state = env.reset_to(jax.random.key(0), jnp.array([3.0, 8.0], jnp.float32)).state
    assert env.step(jax.random.key(0), state, jnp.array([2.0])).state.angle == pytest.approx(
        3.4 - 2 * np.pi, abs=1e-5
    )


def test_an_action_out_of_range_is_clipped_and_reported():
    env = Pendulum()
    state = env.reset_to(jax.random.key(0), jnp.array([0.5, 0.0], jnp.float32)).state
    wild, most = (env.step(jax.random.key(0), state, jnp.array([x])) for x in (9.0, 2.0))
    assert wild.info["invalid_action"] and not most.info["invalid_action"]
    np.testing.assert_array_equal(wild.obs, most.obs)
    assert wild.reward == most.reward


def colour(picture, red, green, blue, near=40):
    """Return a mask of the pixels that have approximately this colour."""
    return (abs(picture.astype(int) - np.array([red, green, blue])) < near).all(axis=-1)


def test_pictures_show_objects_at_their_positions():
    """Check the centres of the rod, the lower link and the car in pictures, to a few pixels."""
    pixel = 16 / 0.35
    levels = jnp.array([[np.pi / 2, 0.0], [0.0, 0.0]], jnp.float32)
    begin = jax.vmap(lambda level: Pendulum().reset_to(jax.random.key(0), level).state)
    left, up = colour(board_painter(Pendulum(), 16)(begin(levels)), 236, 178, 96)
    rows, columns = np.nonzero(left)
    assert columns.mean() == pytest.approx(64 - pixel / 2, abs=3)
    assert rows.mean() == pytest.approx(64, abs=2)
    assert np.nonzero(up)[0].mean() == pytest.approx(64 - pixel / 2, abs=3)
    pixel = 16 / 0.6
    begin = jax.vmap(lambda level: Acrobot().reset_to(jax.random.key(0), level).state)
    links = board_painter(Acrobot(), 16)(begin(jnp.zeros((1, 4), jnp.float32)))
    rows, columns = np.nonzero(colour(links[0], 92, 150, 250))
    assert (rows.mean(), columns.mean()) == pytest.approx((64 + 1.5 * pixel, 64), abs=3)
    begin = jax.vmap(lambda level: MountainCar().reset_to(jax.random.key(0), level).state)
    levels = jnp.array([[-0.9, 0.0], [0.2, 0.0]], jnp.float32)
    cars = colour(board_painter(MountainCar(), 16)(begin(levels)), 92, 150, 250)
    for car, position in zip(cars, (-0.9, 0.2), strict=True):
        steep = np.arctan(1.35 * np.cos(3 * position))
        across = position - 0.06 * np.sin(steep)
        height = 0.45 * np.sin(3 * position) + 0.55 + 0.06 * np.cos(steep)
        rows, columns = np.nonzero(car)
        assert columns.mean() == pytest.approx((across + 1.2) * 16 / 0.15, abs=2)
        assert rows.mean() == pytest.approx((1.3 - height) * 16 / 0.15, abs=2)


@pytest.mark.parametrize("id", IDS)
def test_every_action_has_a_key(id):
    env = jaxenvs.make(id)
    controls = env.controls
    assert all(set(row.keys) - set(TIME) for row in controls.actions)
    keys = [key for row in controls.actions for key in row.keys]
    assert len(keys) == len(set(keys))
    if controls.values:
        values = np.array(controls.values, np.float32)
        assert values.min() == env.action_space.low and values.max() == env.action_space.high
