"""Tests of `first_actions`: optimal actions for states in the middle of episodes."""

import blind
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.levels import check_first_actions, first_actions

pytestmark = pytest.mark.full

IDS = ("BabyAI-PutNextS4N1-v0",)
FULL = (
    "BabyAI-GoToObj-v0",
    "Grid-DoorKey-5x5-v0",
    "Grid-Fetch-5x5-N2-v0",
    "Grid-GoToDoor-5x5-v0",
    "Grid-LavaCrossingS9N1-v0",
    "Grid-MemoryS7-v0",
    "Grid-RedBlueDoors-6x6-v0",
)
COUNT = 8


def visited(env, steps, seed=0):
    """Return the states of a batch after random play, and the compiled step of the batch."""
    venv = jaxenvs.make_vec(env, COUNT)
    step = jax.jit(lambda state, action: venv.step(jax.random.key(7), state, action))
    state = jax.jit(venv.reset)(jax.random.key(seed)).state
    for action in np.random.default_rng(seed).integers(0, 7, (steps, COUNT)):
        state = step(state, jnp.asarray(action, jnp.int32)).state
    return state, step


@pytest.mark.parametrize("id", [*IDS, *(pytest.param(id, marks=pytest.mark.full) for id in FULL)])
def test_labels_lead_to_success_in_as_few_steps_as_blind_search_needs(id):
    env = jaxenvs.make(id)
    state, step = visited(env, 25)
    label = jax.jit(lambda states: first_actions(env, states, node_budget=1 << 14))
    search, fewest = blind.Blind(env), []
    search.begin = lambda state: state
    for row in range(COUNT):
        try:
            fewest.append(search.shortest(jax.tree.map(lambda leaf, i=row: leaf[i], state.env)))
        except blind.TooLargeError:
            fewest.append(-1)
    taken, known = np.zeros(COUNT, int), np.asarray(label(state.env)[1])
    won = np.zeros(COUNT, bool)
    assert (known == np.array([each is not None for each in fewest])).all()
    while (known & ~won).any():
        action, now = label(state.env)
        assert now[known & ~won].all()
        after = step(state, action)
        taken += ~won
        won |= np.asarray(after.done & (after.reward > 0))
        assert won[known & np.asarray(after.done)].all()
        state = after.state
    compared = [i for i in range(COUNT) if fewest[i] not in (None, -1)]
    assert [taken[i] for i in compared] == [fewest[i] for i in compared]
    assert len(compared) >= COUNT // 2


def test_any_number_of_states_can_be_labelled():
    """65 states are searched in two groups of 33, so the last state is searched twice."""
    env = jaxenvs.make("Grid-Empty-Random-5x5-v0")
    levels = jax.vmap(env.sample_level)(jax.random.split(jax.random.key(0), 65))
    states = jax.vmap(env.reset_to)(jax.random.split(jax.random.key(1), 65), levels).state
    label = jax.jit(lambda states: first_actions(env, states, node_budget=1 << 14))
    actions, known = label(states)
    assert actions.shape == known.shape == (65,) and known.all()
    goal = np.array([3, 3])
    for row, action in enumerate(np.asarray(actions).tolist()):
        state = jax.tree.map(lambda leaf, i=row: leaf[i], states)
        away = goal - [int(state.row), int(state.column)]
        ahead = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)][int(state.direction)])
        # The optimal action is forward if that leads nearer to the goal, else a turn.
        assert (action == 2) == bool(away @ ahead > 0)


@pytest.mark.full
def test_a_small_budget_leaves_states_without_a_label():
    env = jaxenvs.make("Grid-DoorKey-5x5-v0")
    state, _ = visited(env, 0)
    label = jax.jit(lambda states: first_actions(env, states, node_budget=64, batch_size=8))
    assert not label(state.env)[1].all()


def test_an_environment_without_an_optimum_is_refused():
    with pytest.raises(TypeError, match="move at random"):
        check_first_actions(jaxenvs.make("Grid-Dynamic-Obstacles-5x5-v0"))
