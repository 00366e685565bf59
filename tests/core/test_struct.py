"""Tests of structs: they compare and hash by value, so params can be static arguments of `jit`."""

import copy
import functools
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.core.env import Params
from jaxenvs.core.struct import Struct, struct

IDS = jaxenvs.registry.list()
CARTPOLE = jaxenvs.make("Classic-CartPole-v0")


@struct
class Tables(Params):
    """Params whose fields include arrays."""

    table: Any
    rate: Any = 0.1


@struct
class Other(Tables):
    """Params with the same fields in another class."""


def tables(**changes):
    """Return equal params made of new arrays in each call."""
    fields = {"max_steps_in_episode": 9, "table": np.arange(6, dtype=np.int32).reshape(2, 3)}
    return Tables(**{**fields, **changes})


def test_params_of_every_id_compare_and_hash_by_value():
    for id in IDS:
        env = jaxenvs.make(id)
        params, again = env.default_params, env.default_params
        assert (params == again) is True and hash(params) == hash(again), id
        less = params.replace(max_steps_in_episode=np.int32(1))
        assert (params == less) is False and (params != less) is True, id


SAME = [
    {"table": jnp.arange(6, dtype=jnp.int32).reshape(2, 3)},
    {"max_steps_in_episode": np.int32(9)},
    {"max_steps_in_episode": jnp.int32(9)},
    {"rate": np.float32(0.1)},
    {"rate": jnp.float32(0.1)},
]


@pytest.mark.parametrize("changes", SAME)
def test_structs_compare_by_value(changes):
    assert tables() == tables(**changes) and hash(tables()) == hash(tables(**changes))


DIFFERENT = [
    {"table": np.arange(1, 7, dtype=np.int32).reshape(2, 3)},
    {"table": np.arange(6, dtype=np.int32)},
    {"table": np.arange(6, dtype=np.int16).reshape(2, 3)},
    # The same bytes in memory, but another byte order.
    {"table": np.arange(6, dtype="<i4").view(">i4").reshape(2, 3)},
    {"max_steps_in_episode": 10},
    {"max_steps_in_episode": 9.0},
    {"max_steps_in_episode": True},
    {"max_steps_in_episode": np.full(4, 9, np.int32)},
    {"max_steps_in_episode": 2**40},
    {"rate": None},
    {"rate": -0.1},
]


@pytest.mark.parametrize("changes", DIFFERENT)
def test_another_value_shape_or_dtype_is_another_struct(changes):
    assert (tables() == tables(**changes)) is False
    assert len({tables(), tables(**changes), tables()}) == 2


def test_another_class_is_another_struct():
    fields = {"max_steps_in_episode": 9, "table": np.zeros(2)}
    assert Tables(**fields) != Other(**fields) and Tables(**fields) != fields


def test_copies_are_equal():
    params = tables(rate=jnp.float32(0.5))
    for same in (copy.deepcopy(params), pickle.loads(pickle.dumps(params)), params.replace()):
        assert same is not params and same == params and hash(same) == hash(params)
    wrapped = wrappers.StickyAction(env=CARTPOLE)
    assert wrapped.default_params == wrapped.default_params, "params within params"


def test_states_compare_by_value_too():
    state = jax.jit(CARTPOLE.reset)(jax.random.key(0)).state
    assert state == state.replace(time=jnp.int32(0)) and state != state.ticked()


def test_a_class_may_compare_in_its_own_way():
    @struct
    class Loose(Struct):
        """Struct whose `__eq__` returns True for any object."""

        number: Any

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    assert Loose(number=1) == Loose(number=2) and hash(Loose(number=np.zeros(3))) == 0


def test_traced_params_say_how_they_are_given():
    @jax.jit
    def compare(limit):
        return tables(max_steps_in_episode=limit) == tables()

    with pytest.raises(TypeError, match="as an ordinary argument"):
        compare(9)
    with pytest.raises(TypeError, match="as an ordinary argument"):
        jax.vmap(lambda limit: hash(tables(max_steps_in_episode=limit)))(jnp.arange(2))


class Wrapper:
    """Imitation of gymnax's wrappers: environment and params are static arguments of `jit`."""

    def __init__(self, env):
        self.env, self.traces = env, 0

    @functools.partial(jax.jit, static_argnums=(0, 4))
    def step(self, key, state, action, params):
        """Make a step; the params are a static argument."""
        self.traces += 1
        return self.env.step(key, state, action, params)


def test_params_are_static_arguments_of_wrappers(compiled):
    env, key, wrapped = CARTPOLE, jax.random.key(0), Wrapper(CARTPOLE)
    state = compiled("Classic-CartPole-v0").reset(key, env.default_params).state
    steps = [wrapped.step(key, state, 0, env.default_params) for _ in range(2)]
    assert wrapped.traces == 1 and not steps[1].truncated, "equal params are one program"
    limited = env.default_params.replace(max_steps_in_episode=1)
    assert wrapped.step(key, state, 0, limited).truncated and wrapped.traces == 2


def test_params_with_tables_are_static_arguments_too():
    env = jaxenvs.make("Craft-Classic-Ids-v0")
    wrapped = Wrapper(env)
    for _ in range(2):
        jax.eval_shape(
            lambda key, state: wrapped.step(key, state, 0, env.default_params),
            jax.random.key(0),
            env.state_shape,
        )
    assert wrapped.traces == 1
