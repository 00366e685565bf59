"""Tests that a batch is described like its single states, for each value of `detail`."""

import functools

import defaults
import jax
import jax.numpy as jnp
import pytest
from market import Market, Purse

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.core.facts import count
from jaxenvs.text import describe_batch

IDS = (
    "BabyAI-GoToLocal-v0",
    "Classic-CartPole-v0",
    "Puzzle-Minesweeper-10x10-v0",
    "Puzzle-Sokoban-6x6-v0",
    "XLand-R1-9x9-v0",
)
# Other ids, such as the representatives of further puzzles, are checked with the marker `slow`.
IN_FULL = (
    "Classic-Pendulum-v0",
    "Craft-Classic-Ids-v0",
    "Grid-DoorKey-6x6-v0",
    "Puzzle-2048-v0",
    "Puzzle-SlidingTile-3x3-v0",
    "Puzzle-TSP-10-v0",
    "PuzzleScript-v0",
)
ROWS, STEPS = 3, 2


@functools.cache
def moments(env):
    """Return two batches of states: before and after the last of `STEPS` random actions."""

    def play(key):
        state = env.reset(key).state
        states = [state]
        for i in range(STEPS):
            action = env.action_space.sample(jax.random.fold_in(key, i))
            states.append(env.step(key, states[-1], action).state)
        return states[-2:]

    return jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(3), ROWS))


def row(states, index):
    return jax.tree.map(lambda leaf: leaf[index], states)


def check(env):
    before, after = moments(env)
    for detail in ("full", "short"):
        single = [env.describe(row(after, i), detail=detail) for i in range(ROWS)]
        assert describe_batch(env, after, detail) == single
        assert all(detail == "full" or text.count("\n") < 3 for text in single)
    single = [env.describe_changes(row(before, i), row(after, i)) for i in range(ROWS)]
    assert describe_batch(env, after, "changes", before) == single
    assert describe_batch(env, after, "changes", after) == ["Nothing changed."] * ROWS


@pytest.mark.parametrize("id", defaults.params(IDS, full=IN_FULL))
def test_a_batch_has_the_texts_of_its_states(id):
    env = jaxenvs.make(id)
    assert env.has_text_inputs
    check(env)


@pytest.mark.parametrize(
    ("id", "obs"),
    [
        ("Grid-DoorKey-6x6-v0", "full"),
        *defaults.with_full(("Grid-DoorKey-6x6-v0", "dict"), ("XLand-R1-9x9-v0", "dict")),
    ],
)
def test_observations_with_a_direction_have_these_texts_too(id, obs):
    env = jaxenvs.make(id, obs=obs)
    check(env)
    assert "You face " in env.describe(row(moments(env)[0], 0), detail="short")


@pytest.mark.parametrize("kind", ["EpisodeStatistics", "StickyAction"])
def test_wrappers_describe_batches(kind):
    env = getattr(wrappers, kind)(env=jaxenvs.make("Grid-Empty-5x5-v0"))
    assert env.has_text_inputs
    check(env)


class Shop(Market):
    """Environment `Market` with one fact, the number of coins."""

    def facts(self, state, params=None):
        return (count("coins", int(state.coins)),)


class Old(Shop):
    """Environment whose `describe` has no argument `detail`."""

    def describe(self, state, params=None):
        return "\n".join(["Old.", "b", "c", f"{int(state.coins)} coins"])


PURSES = Purse(time=jnp.zeros(2, jnp.int32), coins=jnp.array([2, 3], jnp.int32))


def test_environments_without_text_inputs_describe_batches():
    env = Shop()
    assert not env.has_text_inputs
    texts = describe_batch(env, PURSES)
    assert texts[1].splitlines()[0] == "You have 3 coins." and texts[0] == env.describe(
        row(PURSES, 0)
    )
    assert describe_batch(env, PURSES, "short")[0].count("\n") == 2
    more = PURSES.replace(coins=PURSES.coins + 1)
    assert describe_batch(env, more, "changes", PURSES)[0].startswith("You have 3 coins.")
    assert env.describe_changes(row(PURSES, 0), row(PURSES, 0)) == "Nothing changed."


def test_describe_without_levels_of_detail_keeps_working():
    assert describe_batch(Old(), PURSES) == ["Old.\nb\nc\n2 coins", "Old.\nb\nc\n3 coins"]
    assert describe_batch(Old(), PURSES, "short") == ["Old.\nb\nc"] * 2
    assert Old().describe_changes(row(PURSES, 0), row(PURSES, 1)) == "3 coins"
    assert wrappers.Flatten(env=Old()).describe(row(PURSES, 0)).startswith("Old.")
    assert describe_batch(wrappers.Flatten(env=Old()), PURSES) == describe_batch(Old(), PURSES)


class Shouting(wrappers.Wrapper):
    """Wrapper that overrides `describe`."""

    def describe(self, state, params=None, detail="full"):
        return self.env.describe(state, params, detail).upper()


def test_a_wrapper_that_overrides_describe_describes_batches():
    env = Shouting(jaxenvs.make("Grid-Empty-5x5-v0"))
    assert not env.has_text_inputs
    texts = describe_batch(env, moments(env)[0], "short")
    assert all(text == text.upper() for text in texts)
    assert env.describe_changes(row(moments(env)[0], 0), row(moments(env)[0], 0)) == (
        "Nothing changed."
    )


def test_trials_describe_the_task_of_each_trial():
    env = jaxenvs.make("XLand-R1-9x9-v0", obs="dict").trials("trivial-21k", episodes=2)
    state = env.reset(jax.random.key(0)).state
    other = state.replace(task=state.task + 1)
    goals = [env.describe(one, detail="short").splitlines()[0] for one in (state, other)]
    assert goals[0] != goals[1]
    assert next(fact.value for fact in env.facts(state)) in goals[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"detail": "long"}, "detail='long' is not one of 'full', 'short', 'changes'"),
        ({"detail": "changes"}, "needs before"),
        ({"before": PURSES}, "before was given with detail='full'"),
        ({"states": row(PURSES, 0)}, "for one state call env.describe"),
    ],
)
def test_errors(given, said):
    with pytest.raises(ValueError, match=said):
        describe_batch(Shop(), **{"states": PURSES, **given})


def test_an_unknown_detail_of_describe_is_refused():
    with pytest.raises(ValueError, match="detail='changes' is not one of 'full', 'short'"):
        Shop().describe(row(PURSES, 0), detail="changes")
