"""Tests of RL²'s network: memory of the latest reward, beliefs about the task, cell embeddings."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import spaces
from jaxenvs.baselines.on_policy import task_memory
from jaxenvs.baselines.on_policy.task_memory import TaskMemory
from jaxenvs.core.wrappers import PreviousStep

pytestmark = pytest.mark.full

KEY, MEMORY, STEPS = jax.random.key(0), 8, 6
ENV = PreviousStep(env=jaxenvs.make("XLand-R1-9x9-v0", obs="heading"))
NETWORK = TaskMemory.of(ENV, (8,), 4, memory=MEMORY)
GOAL = (7, 3 * 12 + 5, 4 * 12 + 1)  # the goal is a red square above a yellow ball


@functools.cache
def unrolled():
    """Return the network's states and outputs while acting, and its outputs in training.

    Acting and training get the same observations, the goal `GOAL`, and rewards at steps 2 and 4.
    """
    obs = jax.jit(jax.vmap(ENV.observation_space.sample))(jax.random.split(KEY, STEPS))
    obs["reward"] = jnp.zeros(STEPS).at[jnp.array([2, 4])].set(0.5)

    @jax.jit
    def run(key, obs):
        weights = NETWORK.init(key, jax.tree.map(lambda leaf: leaf[0], obs))

        def step(memory, obs):
            memory, *answer = NETWORK.think(weights, memory, obs, None)
            return memory, (memory, answer)

        goal = jnp.int32(GOAL)
        begin, none = NETWORK.with_goal(NETWORK.begin(), goal), jnp.zeros(STEPS, jnp.bool_)
        given = jnp.broadcast_to(goal, (STEPS, 3))
        return jax.lax.scan(step, begin, obs)[1], NETWORK.unroll(weights, begin, obs, none, given)

    return jax.device_get(run(KEY, obs))


def test_only_a_reward_updates_the_kept_part_of_the_state():
    (memories, _), _ = unrolled()
    _, kept, summary, _, given = np.split(memories, np.cumsum(NETWORK.parts)[:-1], axis=1)
    assert (kept[:2] == 0).all() and (summary != 0).all()
    np.testing.assert_array_equal(kept[2], summary[1])
    np.testing.assert_array_equal(kept[3], kept[2])
    np.testing.assert_array_equal(kept[4], summary[3])
    np.testing.assert_array_equal(kept[5], kept[4])
    np.testing.assert_array_equal(given, np.tile(GOAL, (STEPS, 1)))


def test_learning_unrolls_what_acting_computed():
    (_, (logits, value)), learned = unrolled()
    assert learned[2].kind.shape == (STEPS, 15) and learned[2].cells.shape == (STEPS, 3, 156)
    np.testing.assert_allclose(learned[0], logits, atol=1e-6)
    np.testing.assert_allclose(learned[1], value, atol=1e-6)


@pytest.mark.parametrize("obs", ["image", "heading", "dict", "rgb"])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_every_observation_has_a_network_with_float32_weights_and_outputs(obs, bfloat16):
    env = PreviousStep(env=jaxenvs.make("XLand-R1-9x9-v0", obs=obs))
    network = TaskMemory.of(env, (8,), 4, memory=MEMORY, bfloat16=bfloat16)
    sample = jax.eval_shape(env.observation_space.sample, KEY)
    weights = jax.eval_shape(network.init, KEY, sample)
    answer = jax.eval_shape(network.apply, weights, sample)
    memory, logits, value, belief = answer
    assert {leaf.dtype.name for leaf in jax.tree.leaves((weights, answer))} == {"float32"}
    assert logits.shape == (6,) and value.shape == () and memory.shape == (sum(network.parts),)
    assert (belief is None) == (obs == "rgb")
    lowered = jax.jit(network.apply).lower(weights, sample).as_text()
    assert ("bf16" in lowered) == bfloat16


def test_the_policy_receives_the_belief_or_the_given_goal():
    rng = np.random.default_rng(0)
    belief = task_memory.Belief(*(rng.normal(size=n).astype(np.float32) for n in (15, (3, 156))))
    seen = task_memory.Seen((), (), (), np.int32([5, 41, 49]), np.float32([0, 0, 1, 0]), False)

    def believed(given):
        return [
            np.asarray(part) for part in NETWORK.belief_features(belief, seen, jnp.float32(given))
        ]

    in_view, held, kind_by_direction, kind = believed((0, 0, 0))
    chances = np.exp(belief.cells) / np.exp(belief.cells).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(in_view, 2 * chances[:2, [5, 41, 49]].reshape(-1), rtol=1e-5)
    np.testing.assert_allclose(held, 2 * chances[:2] @ chances[2], rtol=1e-5)
    np.testing.assert_allclose(kind, np.exp(belief.kind) / np.exp(belief.kind).sum(), rtol=1e-5)
    np.testing.assert_allclose(kind_by_direction.reshape(15, 4)[:, 2], 2 * kind)
    in_view, held, _, kind = believed(GOAL)
    np.testing.assert_array_equal(in_view, [0, 2, 0, 0, 0, 2])
    np.testing.assert_allclose(held, 2 * chances[2, [41, 49]], rtol=1e-5)
    np.testing.assert_array_equal(kind, np.arange(15) == 7)


def test_cells_have_embeddings_only_where_their_kinds_are_few():
    cells = functools.partial(spaces.Box, 0, shape=(2, 2, 2), dtype=np.uint8)
    assert task_memory.kinds(cells(high=[12, 11])) == (13, 12)
    assert task_memory.kinds(cells(high=255)) == ()
    assert task_memory.kinds(spaces.Box(0.0, 1.0, (2, 2, 2), np.float32)) == ()
    assert task_memory.kinds(spaces.Discrete(4)) == ()
