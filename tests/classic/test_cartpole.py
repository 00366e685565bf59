"""Tests of CartPole against Gymnasium's `CartPole-v1`, and of the deliberate differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.classic import CartPole
from jaxenvs.classic.cartpole import ANGLE_LIMIT, POSITION_LIMIT
from jaxenvs.render.controls import TIME
from jaxenvs.render.frames import board_painter

ID = "Classic-CartPole-v0"
ROWS, STEPS = 64, 100


@pytest.fixture(scope="module")
def gymnasium():
    return pytest.importorskip("gymnasium")


@pytest.fixture(scope="module")
def theirs(gymnasium):
    """Return Gymnasium's `CartPole-v1`, including the wrapper that enforces the time limit."""
    env = gymnasium.make("CartPole-v1")
    yield env
    env.close()


@pytest.fixture(scope="module")
def batch_step():
    """Return the compiled step of a batch of states."""
    env = jaxenvs.make(ID)
    return jax.jit(jax.vmap(lambda state, action: env.step(jax.random.key(0), state, action)))


def states(observed):
    """Return a batch of states whose observations are `observed` (states, 4)."""
    begin = jaxenvs.make(ID).reset_to
    return jax.vmap(lambda level: begin(jax.random.key(0), level).state)(jnp.asarray(observed))


def test_steps_equal_gymnasiums(theirs, batch_step):
    """Compare steps of both environments from the same float32 states and actions.

    When an episode has terminated, a new episode starts from a random state.
    """
    rng, theirs = np.random.default_rng(0), theirs.unwrapped
    wide = np.array([2.5, 3.0, 0.2, 3.0])
    now = rng.uniform(-wide, wide, (ROWS, 4)).astype(np.float32)
    now[:, 0] = now[:, 0].clip(-POSITION_LIMIT, POSITION_LIMIT)
    ended, compared = 0, 0
    for _ in range(STEPS):
        actions = rng.integers(0, 2, ROWS).astype(np.int32)
        ours = jax.device_get(batch_step(states(now), jnp.asarray(actions)))
        rows = []
        for row in range(ROWS):
            theirs.state, theirs.steps_beyond_terminated = now[row].astype(np.float64), None
            rows.append(theirs.step(actions[row])[:3])
        obs, reward, terminated = map(np.array, zip(*rows, strict=True))
        np.testing.assert_allclose(ours.obs, obs, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(ours.reward, reward)
        np.testing.assert_array_equal(ours.terminated, terminated)
        compared += len(rows)
        ended += int(ours.terminated.sum())
        again = rng.uniform(-wide, wide, (ROWS, 4)).astype(np.float32) * np.float32(0.9)
        now = np.where(ours.terminated[:, None], again, ours.obs)
    assert compared == ROWS * STEPS and ended > 500


def test_spaces_equal_gymnasiums(theirs):
    env = jaxenvs.make(ID)
    assert env.action_space.n == theirs.action_space.n
    ours = env.observation_space
    np.testing.assert_array_equal(ours.low, theirs.observation_space.low)
    np.testing.assert_array_equal(ours.high, theirs.observation_space.high)
    assert ours.dtype == theirs.observation_space.dtype


def test_gymnasiums_id_is_an_alias():
    assert jaxenvs.make("CartPole-v1") == jaxenvs.make(ID)


def balancing(obs):
    """Return the action of a linear policy that always keeps the pole upright."""
    return (obs @ jnp.array([0.1, 0.3, 3.0, 1.0], jnp.float32) > 0).astype(jnp.int32)


def test_a_balanced_episode_is_truncated_at_500_as_in_gymnasium(theirs):
    env = jaxenvs.make(ID)
    obs, _ = theirs.reset(seed=3)

    def act(state, _):
        step = env.step(jax.random.key(0), state, balancing(env.observe(state)))
        return step.state, step

    first = env.reset_to(jax.random.key(0), jnp.asarray(obs)).state
    _, ours = jax.jit(lambda state: jax.lax.scan(act, state, length=500))(first)
    rewards, lasted = 0.0, 0
    truncated = terminated = False
    while not (truncated or terminated):
        obs, reward, terminated, truncated, _ = theirs.step(int(balancing(jnp.asarray(obs))))
        rewards, lasted = rewards + reward, lasted + 1
    assert (lasted, rewards, terminated) == (500, 500.0, False)
    np.testing.assert_array_equal(np.flatnonzero(ours.truncated), [499])
    assert not ours.terminated.any() and ours.reward.sum() == 500


@pytest.mark.parametrize(
    ("level", "action", "ends"),
    [
        # The cart's position after the step is 2.398, inside the limit 2.4.
        ((2.39, 0.4, 0.0, 0.0), 1, False),
        ((2.39, 0.6, 0.0, 0.0), 1, True),  # position after the step: 2.402, beyond the limit 2.4
        ((-2.39, -0.6, 0.0, 0.0), 0, True),
        # The pole's angle after the step is 0.208, inside the limit 0.2094.
        ((0.0, 0.0, 0.2, 0.4), 0, False),
        ((0.0, 0.0, 0.2, 0.6), 0, True),  # angle after the step: 0.212, beyond the limit 0.2094
        ((0.0, 0.0, -0.2, -0.6), 0, True),
    ],
)
def test_an_episode_ends_beyond_a_limit(level, action, ends, batch_step):
    step = batch_step(states(np.array([level], np.float32)), jnp.array([action], jnp.int32))
    assert step.terminated[0] == ends
    assert step.reward[0] == 1


def test_the_limit_itself_may_be_reached():
    env = jaxenvs.make(ID)
    at = jnp.array([POSITION_LIMIT, 0.0, ANGLE_LIMIT, 0.0], jnp.float32)
    state = env.reset_to(jax.random.key(0), at).state
    assert not env.step(jax.random.key(0), state, 0).terminated


def test_the_state_does_not_change_after_termination(batch_step):
    fallen = np.array([[0.5, 1.0, 0.3, 2.0]], np.float32)
    step = batch_step(states(fallen), jnp.array([1], jnp.int32))
    np.testing.assert_array_equal(step.obs, fallen)
    assert (step.reward[0], step.terminated[0]) == (0, True)


def test_initial_states_are_uniform_around_zero():
    env = jaxenvs.make(ID)
    first = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 20_000)).obs
    first = np.asarray(first)
    assert (abs(first) <= 0.05).all()
    frequencies = np.histogram(first, bins=10, range=(-0.05, 0.05))[0] / first.size
    np.testing.assert_allclose(frequencies, 0.1, atol=0.004)
    correlation = np.corrcoef(first.T) - np.eye(4)
    assert abs(correlation).max() < 0.03


def test_physical_constants_may_differ_within_a_batch():
    """Check that a leaning pole at rest turns with gravity, and does not turn without gravity."""
    venv = jaxenvs.make_vec(ID, 2, autoreset="none")
    params = venv.default_params.replace(
        gravity=jnp.array([9.8, 0.0], jnp.float32), force=jnp.float32(0.0)
    )
    leaning = states(np.array([[0.0, 0.0, 0.1, 0.0]] * 2, np.float32))
    state = venv.reset(jax.random.key(0), params).state.replace(env=leaning)
    step = jax.jit(venv.step)(jax.random.key(1), state, jnp.zeros(2, jnp.int32), params)
    falls, stays = np.asarray(step.obs)[:, 3]
    assert falls == pytest.approx(0.0315, abs=1e-3) and stays == 0


def test_the_picture_shows_cart_and_pole_at_their_positions():
    tilted = states(np.array([[-1.0, 0, 0, 0], [1.0, 0, 0, 0], [0, 0, 0.2, 0]], np.float32))
    pictures = board_painter(CartPole(), 16)(tilted)
    height, width = pictures.shape[1:3]
    assert (height, width) == (5 * 16, 14 * 16)
    orange = (pictures[..., 0] > 200) & (pictures[..., 2] < 150)  # the pole is orange
    middle = [np.nonzero(row)[1].mean() for row in orange]
    pixels = 16 / 0.4
    np.testing.assert_allclose(middle[:2], [width / 2 - pixels, width / 2 + pixels], atol=1.0)
    assert middle[2] == pytest.approx(width / 2 + pixels / 2 * np.sin(0.2), abs=1.5)
    rows = np.nonzero(orange[0])[0]
    # The pole is 1 m long and upright, so its height is the number of pixels per metre.
    assert np.ptp(rows) == pytest.approx(pixels, abs=4)


def test_arrows_push():
    left, right = CartPole().controls.actions
    assert (left.name, right.name) == ("left", "right")
    assert "left" in left.keys and "right" in right.keys
    assert set(left.keys) - set(TIME) and set(right.keys) - set(TIME)
