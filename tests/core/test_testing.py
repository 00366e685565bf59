"""Tests of the contract checker: a good environment passes, and each fault is found and named."""

import dataclasses
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int32

import jaxenvs
from jaxenvs import testing
from jaxenvs.core.env import Ending, Env, Params, State, Transition
from jaxenvs.core.spaces import Box, Dict, Discrete
from jaxenvs.testing import contract, fuzzing


@jaxenvs.struct
class WalkState(State):
    """State with the index of the walker's cell."""

    cell: Int32[Array, ""]


class Walk(Env):
    """Environment: walk to the last of five cells in a row; the first cell forbids going left."""

    reward_range = (0.0, 1.0)

    @property
    def default_params(self) -> Params:
        """Return params with a time limit of nine steps."""
        return Params(max_steps_in_episode=np.int32(9))

    @property
    def action_space(self) -> Discrete:
        """Return a space of two actions, left and right."""
        return Discrete(2)

    @property
    def observation_space(self) -> Box:
        """Return a space of one number, the index of the cell."""
        return Box(0, 4, (1,), np.int32)

    def draw_level(self, key, params):
        """Draw one of the first three cells."""
        return jax.random.randint(key, (), 0, 3, jnp.int32)

    def reset_state(self, key, level, params):
        """Begin in the start cell, which is the level."""
        return WalkState(time=jnp.int32(0), cell=level)

    def step_state(self, key, state, action, params):
        """Walk one cell to the left or right; the last cell gives reward 1 and terminates."""
        cell = jnp.maximum(state.cell + 2 * action - 1, 0)
        return Transition(state.replace(cell=cell), (cell == 4).astype(jnp.float32), cell == 4)

    def observe(self, state, params=None):
        """Observe the index of the cell."""
        return jnp.minimum(state.cell, 4)[None]

    def action_mask(self, state, params=None):
        """Allow left only if there is a cell on the left."""
        return jnp.stack([state.cell > 0, jnp.bool_(True)])

    def ending(self, level):
        """Return a start cell two steps before the last cell, and the actions that lead there."""
        return Ending(jnp.int32(2), (1, 1))


class SoonerThanSaid(Walk):
    """Fault: the task terminates before the last action that `ending` returns."""

    def ending(self, level):
        """Return a start cell one step before the last cell, but two actions."""
        return Ending(jnp.int32(3), (1, 1))


class LaterThanSaid(Walk):
    """Fault: the actions that `ending` returns do not terminate the task."""

    def ending(self, level):
        """Return a start cell from which one action does not reach the last cell."""
        return Ending(level, (1,))


class CutAtItsEnd(Walk):
    """Fault: if the task terminates at the time limit, the step is also truncated."""

    def step(self, key, state, action, params=None):
        """Make a step, and set truncated at the time limit, even if the task terminates."""
        step = super().step(key, state, action, params)
        limit = self.default_params if params is None else params
        return step._replace(truncated=step.state.time >= limit.max_steps_in_episode)


class HalfLimit(Walk):
    """Environment whose time limit is half the limit in the params: no fault."""

    def time_limit(self, state, params):
        """Return half the limit, rounded up."""
        return (params.max_steps_in_episode + 1) // 2


class BothEnds(Walk):
    """Fault: terminates and truncates in the same step."""

    def step(self, key, state, action, params=None):
        """Make a step; set truncated if the task terminates."""
        step = super().step(key, state, action, params)
        return step._replace(truncated=step.truncated | step.terminated)


class NoLimit(Walk):
    """Fault: is never truncated."""

    def step(self, key, state, action, params=None):
        """Make a step, and clear truncated."""
        step = super().step(key, state, action, params)
        return step._replace(truncated=jnp.zeros_like(step.truncated))


class TooMuch(Walk):
    """Fault: a reward is above its range."""

    def step_state(self, key, state, action, params):
        """Double the reward."""
        moved = super().step_state(key, state, action, params)
        return moved._replace(reward=2 * moved.reward)


class Nothing(Walk):
    """Fault: a reward is NaN."""

    def step_state(self, key, state, action, params):
        """Make the reward NaN (0 / 0)."""
        moved = super().step_state(key, state, action, params)
        return moved._replace(reward=moved.reward / moved.reward)


class Beyond(Walk):
    """Fault: an observation is outside its space."""

    def observe(self, state, params=None):
        """Observe the index of the cell plus one; in the last cell this is 5."""
        return super().observe(state) + 1


class BeyondAtFirst(Walk):
    """Fault: only the first observation is outside its space."""

    def observe(self, state, params=None):
        """Observe -1, which is outside the space, in the first state of an episode."""
        return jnp.where(state.time == 0, -1, super().observe(state))


class BeyondOnce(Walk):
    """Fault: only the observation after ten steps is outside its space."""

    def observe(self, state, params=None):
        """Observe -1, which is outside the space, after ten steps of an episode."""
        return jnp.where(state.time == 10, -1, super().observe(state))


class TwoClocks(Walk):
    """Fault: the clock counts every step twice."""

    def step_state(self, key, state, action, params):
        """Make a step, and advance the clock once more."""
        moved = super().step_state(key, state, action, params)
        return moved._replace(state=moved.state.ticked())


class Silent(Walk):
    """Fault: invalid actions are not reported."""

    def step(self, key, state, action, params=None):
        """Report every action as valid."""
        step = super().step(key, state, action, params)
        return step._replace(info={"invalid_action": jnp.bool_(False)})


class WrongMask(Walk):
    """Fault: an action that the mask forbids moves the walker."""

    def action_mask(self, state, params=None):
        """Return a mask that always forbids left, although `step` carries it out."""
        return jnp.array([False, True])


class NoNumber(Walk):
    """Fault: the info contains NaN."""

    def step_state(self, key, state, action, params):
        """Take the logarithm of a number that may be negative."""
        moved = super().step_state(key, state, action, params)
        return moved._replace(info={"log": jnp.log(state.cell - 1.0)})


class First(BothEnds, TooMuch, Beyond, Silent):
    """Environment with several faults that do not hide each other; one fuzzing run finds all."""


class Second(NoLimit, BeyondAtFirst, WrongMask, NoNumber):
    """Environment with four other faults that do not hide each other."""


class Third(TwoClocks, Nothing):
    """Environment with two other faults that do not hide each other."""


FUZZED = {
    First: {
        "terminated and truncated",
        "truncated before or after the limit",
        "reward outside",
        "observation outside",
        "invalid action not reported",
    },
    Second: {
        "truncated before or after the limit",
        "first observation outside",
        "masked action did something",
        "not a number",
    },
    # A masked action must change nothing but the clock, which it advances by 1. An environment that
    # counts every step twice breaks this rule too.
    Third: {"clock", "masked action did something", "reward outside"},
}


@pytest.mark.full
@pytest.mark.parametrize("env_class", FUZZED)
def test_hostile_play_finds(env_class):
    with jax.numpy_dtype_promotion("standard"):
        found = testing.fuzz(env_class(), steps=500, rows=32, length=16)
    assert found.steps == 512
    assert {rule for rule, count in found.broken.items() if count} == FUZZED[env_class]


@jaxenvs.struct
class PrizeParams(Params):
    """Params with the reward of the last cell."""

    prize: Any


class Prize(Walk):
    """Environment whose rewards are within `reward_range` only with the default params."""

    @property
    def default_params(self) -> Params:
        """Return params with a prize of 1."""
        return PrizeParams(max_steps_in_episode=np.int32(9), prize=np.float32(1))

    def step_state(self, key, state, action, params):
        """Walk and get the prize at the end."""
        moved = super().step_state(key, state, action, params)
        return moved._replace(reward=moved.reward * params.prize)


@pytest.mark.full
def test_a_good_environment_passes():
    """A correct environment passes all checks, here inside a wrapper that has its own params."""
    wrapped = jaxenvs.wrappers.StickyAction(env=HalfLimit())
    done = testing.check_env(wrapped, steps=500)
    assert done == [*testing.CHECKS, "hostile_steps"]


def test_spaces_hold_for_params_as_near_as_is_asked():
    """Rewards outside their range count as a fault only if `variation` is at most `near`.

    `variation` sets how far params may differ from their defaults. `near` is 0 by default.
    """
    fuzzer = testing.Fuzzer(Prize(), rows=32, length=16, near=0.5)
    for variation, breaks in ((0.0, False), (0.5, True), (1.0, False)):
        found = fuzzer.play(jax.random.key(0), 0.5, variation)
        assert (found["reward outside"] > 0) == breaks
    assert testing.Fuzzer(Prize()).near == 0.0


@jaxenvs.struct
class SecretState(WalkState):
    """State with a hidden number."""

    secret: Int32[Array, ""]


class Secret(Walk):
    """Fault: `fully_observed` is True, but a number of the state is not observed."""

    fully_observed = True

    def reset_state(self, key, level, params):
        """Draw the hidden number."""
        secret = jax.random.randint(key, (), 0, 9, jnp.int32)
        return SecretState(time=jnp.int32(0), cell=level, secret=secret)


class Unhashable(Walk):
    """Fault: has a list as a field."""

    cells: list = dataclasses.field(default_factory=list)


class Numbers(NamedTuple):
    """Params that are not a struct."""

    max_steps_in_episode: Any


class LooseParams(Walk):
    """Fault: params contain an array and are unhashable."""

    @property
    def default_params(self):
        """Return params with a time limit of nine steps."""
        return Numbers(np.int32([9]))


class Weak(Walk):
    """Fault: the info is weakly typed."""

    def step_state(self, key, state, action, params):
        """Put an array made from a Python number into the info: the array is weakly typed."""
        moved = super().step_state(key, state, action, params)
        return moved._replace(info={"weight": jnp.asarray(1.0) * 2})


@jaxenvs.struct
class KeyState(WalkState):
    """State that contains the words of a random key."""

    words: Array


class Foresight(Walk):
    """Fault: the state stores the key."""

    def reset_state(self, key, level, params):
        """Begin with the key in the state."""
        words = jax.random.key_data(key)
        return KeyState(time=jnp.int32(0), cell=level, words=words)


class ForesightFromLevel(Foresight):
    """Fault: the level contains a key, from which the outcomes of random steps follow."""

    def draw_level(self, key, params):
        """Split the key, and return the words of one of the new keys."""
        return jax.random.key_data(jax.random.split(key, 3)[2])

    def reset_state(self, key, level, params):
        """Begin in the first cell."""
        return KeyState(time=jnp.int32(0), cell=jnp.int32(0), words=level)

    def step_state(self, key, state, action, params):
        """Replace the action by a random one, drawn with the key in the state."""
        drawn = jax.random.bernoulli(jax.random.wrap_key_data(state.words)).astype(jnp.int32)
        return super().step_state(key, state, drawn, params)


class Bits(Walk):
    """Environment whose state has random words that do not reveal the future: no fault."""

    def reset_state(self, key, level, params):
        """Begin with random bits in the state."""
        words = jax.random.bits(key, (4,), jnp.uint32)
        return KeyState(time=jnp.int32(0), cell=level, words=words)


class Wide(Walk):
    """Fault: the dtype of the info depends on whether JAX has 64-bit types enabled."""

    def step_state(self, key, state, action, params):
        """Put an array into the info that has 64-bit integers if JAX has them enabled."""
        moved = super().step_state(key, state, action, params)
        return moved._replace(info={"numbers": jnp.arange(3)})


class TwoNumbers(Walk):
    """Fault: the space has one entry more than the observation."""

    @property
    def observation_space(self) -> Box:
        """Return a space of two numbers, although the observation is one number."""
        return Box(0, 4, (2,), np.int32)


class Impure(Walk):
    """Fault: rewards differ between compilations."""

    count = itertools.count()

    def step_state(self, key, state, action, params):
        """Return a constant reward of 0 or 1, alternating between compilations."""
        moved = super().step_state(key, state, action, params)
        return moved._replace(reward=jnp.float32(next(self.count) % 2))


class OtherWhenEager(Walk):
    """Fault: behaves differently without jit."""

    def step_state(self, key, state, action, params):
        """Give reward 1 in every step outside of jit."""
        moved = super().step_state(key, state, action, params)
        eager = not isinstance(state.cell, jax.core.Tracer)
        return moved._replace(reward=jnp.float32(1.0)) if eager else moved


class OwnReset(Walk):
    """Fault: reset does not use a sampled level."""

    def reset(self, key, params=None):
        """Begin in cell 3, which is not the sampled level."""
        return self.reset_to(key, jnp.int32(3), params)


class Recompiled(Walk):
    """Fault: the first state is weakly typed, so the second step compiles again."""

    def reset_to(self, key, level, params=None):
        """Begin in cell 1, whose index is weakly typed."""
        obs, state = super().reset_to(key, level, params)
        return jaxenvs.Reset(obs, state.replace(cell=jnp.asarray(1) * 1))


class NumbersForMask(Walk):
    """Fault: the mask is not boolean."""

    def action_mask(self, state, params=None):
        """Return a mask of integers."""
        return jnp.ones(2, jnp.int32)


class NoSprite(Walk):
    """Fault: a tile has no sprite."""

    def tiles(self, state):
        """Return the index of the cell as the only tile."""
        return state.cell[None, None] + 7

    def atlas(self, tile_size):
        """Return sprites of tiles 0 to 4 only, although `tiles` returns indices from 7 on."""
        return np.zeros((5, tile_size, tile_size, 3), np.uint8)


FAULTS = [
    ("value", Unhashable, "unhashable"),
    ("value", LooseParams, "params must compare and hash by value"),
    ("types", Weak, r"step.info\['weight'\] is weakly typed"),
    ("x64", Wide, r"step.info\['numbers'\] is int64: give it a dtype of 32 bits"),
    ("no_key", Foresight, "the state holds the words of a key"),
    ("no_key", ForesightFromLevel, "the state holds the words of a key"),
    ("spaces", TwoNumbers, "the first observation is not in Box"),
    ("spaces", BeyondOnce, "the observation of step 9 is not in Box"),
    ("spaces", TooMuch, r"rewards \[2\."),
    ("transforms", Impure, r"'reward'(.|\s)*\[step 0 alone and in a scan\]"),
    ("eager", OtherWhenEager, r"'reward'(.|\s)*\[step, eager\]"),
    ("level", OwnReset, r"'obs'(.|\s)*\[reset_to\(sample_level\) and reset\]"),
    ("one_compilation", Recompiled, "it compiles again"),
    ("time_limit", TwoClocks, "the clock"),
    ("time_limit", NoLimit, "truncated at the limit"),
    ("ending", SoonerThanSaid, "by its ending it must be not terminated after action 1 of 2"),
    ("ending", LaterThanSaid, "by its ending it must be terminated after action 1 of 1"),
    ("ending", CutAtItsEnd, "truncated at the limit, although the task ended there"),
    ("sight", Secret, r"two states with equal observations differ in \.secret: observe it, or"),
    ("masks", NumbersForMask, r"the mask is int32\(2,\)"),
    ("pictures", NoSprite, "tiles"),
]


@pytest.mark.parametrize(("check", "env_class", "words"), FAULTS)
def test_a_fault_is_named(as_a_user, check, env_class, words):
    with pytest.raises((AssertionError, TypeError), match=words):
        testing.CHECKS[check](testing.Subject.of(env_class()))


def test_words_that_are_drawn_are_no_key():
    testing.CHECKS["no_key"](testing.Subject.of(Bits()))


def test_floats_of_two_programs_may_differ_in_the_last_bits_only():
    one = jnp.float32([0.5, 300.0])
    near, far = (one * jnp.float32(1 + n * 2.0**-23) for n in (1, 8))
    contract.assert_same(one, near, "floats")
    for other, one_program in ((far, False), (near, True)):
        with pytest.raises(AssertionError, match="floats"):
            contract.assert_same(one, other, "floats", one_program)
    with pytest.raises(AssertionError, match="floats"):
        contract.assert_same(one.astype(jnp.int32), one.astype(jnp.int32) + 1, "floats")


@pytest.mark.full
def test_all_faults_are_reported_at_once(as_a_user):
    with pytest.raises(testing.ContractError) as raised:
        testing.check_env(TooMuch(), steps=500)
    first, *rest = str(raised.value).splitlines()
    assert first == "TooMuch() breaks its contract:"
    (play,) = [line for line in rest if line.startswith("hostile_steps: AssertionError: in 16,384")]
    assert "steps of seed 0, steps that break a rule: {'reward outside': " in play


def test_only_environments_are_checked(as_a_user):
    with pytest.raises(TypeError, match="needs an id or an environment, got int 3"):
        testing.check_env(3)
    with pytest.raises(jaxenvs.UnknownIdError, match="did you mean"):
        testing.check_env("Grid-Emty-5x5-v0")


def test_hostile_actions_of_every_space():
    space = Dict({"a": Box(-1.0, 1.0, (3,), np.float32), "b": Box(0, 1, (), np.bool_)})
    drawn = jax.vmap(lambda key: fuzzing._wild(key, space))(jax.random.split(jax.random.key(0), 64))
    assert drawn["a"].shape == (64, 3) and not (jnp.abs(drawn["a"]) <= 1).any()
    assert drawn["b"].dtype == np.bool_ and 0 < drawn["b"].mean() < 1


def test_params_vary_as_far_as_asked():
    fuzzer = testing.Fuzzer(jaxenvs.make("Classic-CartPole-v0"), rows=400)
    params = fuzzer._vary(jax.random.key(0), jnp.float32(2.0))
    limits, counts = np.unique(params.max_steps_in_episode, return_counts=True)
    assert {*limits} == {*fuzzing.LIMITS, 500} and counts[limits == 500] > 300
    force = np.asarray(params.force)
    assert 2.4 < force.min() < 3.5 and 30 < force.max() < 41
