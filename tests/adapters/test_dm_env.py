"""Tests that `to_dm_env` passes dm_env's conformance test, for one id per family and for dicts."""

import pickle
import unittest

import dm_env
import jax
import numpy as np
import pytest
from dm_env import test_utils
from worlds import DOORS, FAMILIES, Doors

import jaxenvs
from jaxenvs.adapters import to_dm_env


class Conformance(test_utils.EnvironmentTestMixin):
    """dm_env's conformance tests, with actions that reach the end of an episode."""

    made = None  # the environment to test, or its id

    def make_object_under_test(self):
        """Return a new adapter with episodes of at most 8 steps."""
        env = jaxenvs.make(self.made) if isinstance(self.made, str) else self.made
        return to_dm_env(env, params=env.default_params.replace(max_steps_in_episode=8))

    def make_action_sequence(self):
        """Yield random actions for more than one episode."""
        numbers = np.random.default_rng(0)
        spec = self.environment.action_spec()
        for _ in range(20):
            yield numbers.integers(spec.minimum, spec.maximum + 1, spec.shape, spec.dtype)


class TestDicts(Conformance, unittest.TestCase):
    """An environment whose observation is a dict in a dict conforms."""

    made = DOORS


class TestVectors(Conformance, unittest.TestCase):
    """An environment whose actions are two numbers conforms."""

    made = Doors(vector=True)


class TestGrid(Conformance, unittest.TestCase):
    """A grid environment conforms."""

    made = "Grid-v0"


class TestPuzzle(Conformance, unittest.TestCase):
    """A puzzle conforms."""

    made = "Puzzle-2048-v0"


class TestClassic(Conformance, unittest.TestCase):
    """A classic environment conforms."""

    made = "Classic-CartPole-v0"


@pytest.mark.slow
class TestCraft(Conformance, unittest.TestCase):
    """A Craft environment conforms."""

    made = "Craft-Classic-Symbolic-v0"


@pytest.mark.slow
class TestBabyAI(Conformance, unittest.TestCase):
    """A BabyAI environment conforms."""

    made = "BabyAI-GoToObj-v0"


class TestXLand(Conformance, unittest.TestCase):
    """An XLand environment conforms."""

    made = "XLand-R1-9x9-v0"


class TestPuzzleScript(Conformance, unittest.TestCase):
    """A PuzzleScript game conforms."""

    made = "PuzzleScript-v0"


def test_every_family_is_here():
    made = {kind.made for kind in Conformance.__subclasses__() if isinstance(kind.made, str)}
    assert {jaxenvs.spec(id).family for id in made} == set(FAMILIES)


def play(env, steps=30):
    return [env.step(i % 3) for i in range(steps)]


def test_ends_and_limits_have_their_own_discounts():
    kinds = set()
    for step in play(to_dm_env(DOORS, seed=1), 60):
        if step.last():
            kinds.add(float(step.discount))
            # The reward equals `number` in the final observation of the episode that ended, not in
            # the first observation of the next.
            assert step.reward == step.observation["number"]
        elif step.mid():
            assert step.discount == 1.0
    assert kinds == {0.0, 1.0}


def test_seeds_repeat_everything():
    first, again, other = (play(to_dm_env(DOORS, seed=seed)) for seed in (1, 1, 2))
    assert jax.tree.map(np.array_equal, first, again) == jax.tree.map(lambda leaf: True, first)
    assert str(first) != str(other)
    env = to_dm_env(DOORS)
    assert len({int(env.reset().observation["number"]) for _ in range(20)}) > 2
    assert env.step(0).step_type is dm_env.StepType.MID
    # Observations are copies, which the caller may change.
    env.reset().observation["half"][...] = 9.0


def test_a_pickled_episode_continues_identically():
    env = to_dm_env(DOORS, seed=1)
    env.reset(), env.step(0)
    copy = pickle.loads(pickle.dumps(env))
    assert copy._step is env._step is to_dm_env(DOORS)._step
    assert str(play(env)) == str(play(copy))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: (env := to_dm_env(DOORS), env.reset(), env.step(3)), ValueError, "got 3"),
        (lambda: (env := to_dm_env(DOORS), env.reset(), env.step([0])), ValueError, r"\(\), got"),
        (lambda: to_dm_env(DOORS, seed="a"), TypeError, "seed must be an int, got str 'a'"),
        (lambda: to_dm_env(None), TypeError, "to_dm_env: needs an id"),
        (lambda: to_dm_env(DOORS, params=1), TypeError, "to_dm_env: params must be like"),
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
