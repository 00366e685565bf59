"""Tests of eager calls (outside of `jit`): they reuse the program that the first call compiled."""

import collections
import contextlib
import dataclasses
import functools
import gc
import pickle
import time
from typing import Any, ClassVar

import chex
import defaults
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int32

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.core import eager
from jaxenvs.core.env import Env, Params, State, Transition
from jaxenvs.core.spaces import Discrete
from jaxenvs.testing.contract import enable_x64

KEY = jax.random.key(0)
LATER = 10  # number of calls after the first
MOST_SECONDS = 5e-3  # limit on the CPU seconds of a later call


@contextlib.contextmanager
def counted():
    """Count JAX's tracing and compilation events while the context lasts."""
    counts, on = collections.Counter(), [True]

    def listen(event, seconds, **_):
        if on and event.startswith("/jax/core/compile/"):
            counts[event.removeprefix("/jax/core/compile/")] += 1

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield counts
    on.clear()


def seconds(call):
    """Return the CPU seconds of a call, until its results are ready.

    Wall time is not used, because it varies on a busy machine.
    """
    start = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - start


@pytest.mark.parametrize("id", defaults.params(defaults.QUICK, full=defaults.FAMILIES.values()))
def test_later_calls_compile_nothing_and_take_no_time(as_a_user, id):
    env = jaxenvs.make(id)
    keys = jax.random.split(KEY, LATER + 1)
    keys = [keys[i] for i in range(LATER + 1)]
    state = env.reset(keys[0]).state
    calls = {
        "reset": [functools.partial(env.reset, key) for key in keys],
        "step": [functools.partial(env.step, key, state, 0) for key in keys],
    }
    for name, (first, *later) in calls.items():
        jax.block_until_ready(first())
        with counted() as counts:
            times = [seconds(call) for call in later]
        print(f"{id} {name}: second {times[0] * 1e3:.2f} ms, least {min(times) * 1e3:.2f} ms")
        assert not counts, f"{name} compiles again: {dict(counts)}"
        assert min(times) < MOST_SECONDS, f"{name} takes {min(times) * 1e3:.1f} ms"


@jaxenvs.struct
class LineState(State):
    """State: the index of the cell that the walker is in."""

    cell: Int32[Array, ""]


class Line(Env):
    """Environment: a walk in a row of cells.

    Each call of `step_state` or `observe` appends one of its arguments to the list `called`.
    """

    size: int = 5
    called: ClassVar[list[Any]] = []

    @property
    def default_params(self):
        """Return params with a time limit of nine steps."""
        return Params(max_steps_in_episode=np.int32(9))

    @property
    def action_space(self):
        """Return a space of three actions: left, stay and right."""
        return Discrete(3)

    def draw_level(self, key, params):
        """Draw the start cell."""
        return jax.random.randint(key, (), 0, self.size, jnp.int32)

    def reset_state(self, key, level, params):
        """Begin in the drawn cell."""
        return LineState(time=jnp.int32(0), cell=jnp.asarray(level, jnp.int32))

    def step_state(self, key, state, action, params):
        """Walk to a neighbouring cell, within the row."""
        self.called.append(action)
        cell = jnp.clip(state.cell + action.astype(jnp.int32) - 1, 0, self.size - 1)
        return Transition(state.replace(cell=cell), jnp.float32(0), cell < 0)

    def observe(self, state, params=None):
        """Observe the index of the walker's cell."""
        self.called.append(state.cell)
        return state.cell


@pytest.fixture(autouse=True)
def nothing_called_yet():
    """Empty the list of recorded calls before each test."""
    Line.called.clear()


def traced():
    """Return the number of calls in `called` that were made while JAX traced."""
    return sum(isinstance(value, jax.core.Tracer) for value in Line.called)


def test_numbers_of_all_kinds_run_one_program(as_a_user):
    @chex.assert_max_traces(n=1)
    def walk(env, *args):
        return Line.step_state(env, *args)

    class Counted(Line):
        def step_state(self, key, state, action, params):
            return walk(self, key, state, action, params)

    env = Counted()
    state = env.reset(KEY).state
    numbers = [2, np.int32(2), np.int64(2), np.array(2), jnp.int32(2), jnp.asarray(2)]
    params = env.default_params
    for limit in (9, np.int32(9), jnp.int32(9)):
        params = params.replace(max_steps_in_episode=limit)
        steps = [env.step(KEY, state, number, params) for number in numbers]
        steps += [env.step(action=2, params=params, state=jax.device_get(state), key=KEY)]
        assert all(step.obs == steps[0].obs for step in steps)


def test_equal_environments_share_programs_and_others_do_not():
    for _ in range(3):
        Line(size=5).reset(KEY)
        pickle.loads(pickle.dumps(Line(size=5))).reset(KEY)
    assert traced() == len(Line.called) == 1
    assert Line(size=50).reset(KEY).state.cell > 4 and traced() == 2


@pytest.mark.parametrize("values", [(1, True, 1.0), (0.0, -0.0), ((1,), (1.0,))], ids=str)
def test_equal_fields_of_other_types_are_other_programs(as_a_user, values):
    class Shown(Line):
        """Environment whose observation is the value of its field `shown`."""

        shown: Any = 0

        def observe(self, state, params=None):
            return jax.tree.leaves(jax.tree.map(jnp.asarray, self.shown))

    for value in values:
        (obs,), wanted = Shown(shown=value).reset(KEY).obs, jnp.asarray(jax.tree.leaves(value)[0])
        assert obs.dtype == wanted.dtype and str(obs) == str(wanted)


def test_inside_a_trace_nothing_changes():
    """Inside a trace, methods are traced as usual, even if all arguments are constants."""
    env, venv = Line(), jaxenvs.make_vec(Line(), 3)
    state, states, keys = env.reset(KEY).state, venv.reset(KEY).state, jax.random.split(KEY, 2)
    actions = jnp.ones(3, jnp.int32)
    functions = [
        lambda: env.step(KEY, state, 1),
        lambda: jax.vmap(env.reset)(keys),
        lambda: venv.step(KEY, states, actions),
        lambda: jax.lax.map(env.sample_level, keys),
    ]
    for function in functions:
        within = str(jax.make_jaxpr(function)())
        with eager.op_by_op():
            assert str(jax.make_jaxpr(function)()) == within
        assert "Line." not in within, "no program of an eager call"


def test_without_jit_each_operation_runs_by_itself():
    env = Line()
    compiled = env.step(KEY, env.reset(KEY).state, 2)
    for context in (jax.disable_jit, eager.op_by_op):
        Line.called.clear()
        with context():
            step = env.step(KEY, env.reset(KEY).state, 2)
        assert Line.called and traced() == 0
        chex.assert_trees_all_equal(step, compiled)


def test_errors_are_the_same_as_without_compilation(as_a_user):
    """An eager call, which is compiled, raises the same errors as without compilation.

    Their messages and contexts are equal, and no traceback has a frame of JAX.
    """
    env, state = Line(), Line().reset(KEY).state
    params = env.default_params.replace(max_steps_in_episode=2**40)
    unsigned = params.replace(max_steps_in_episode=np.uint32(2**32 - 1))
    calls = [
        (lambda: env.step(KEY, state, 1.5), "integer of Discrete"),
        (lambda: env.step(KEY, state, 2**40), "got int 1099511627776"),
        (lambda: env.step(KEY, state, "left"), "got str 'left'"),
        (lambda: env.reset(0), "got int 0"),
        (lambda: env.reset(KEY, params), "got int 1099511627776"),
        (lambda: env.reset(KEY, unsigned), "got uint32"),
        (lambda: env.reset(), "missing 1 required positional argument: 'key'"),
        (lambda: env.tiles(state), "has no tiles to draw"),
    ]
    for call, words in calls:
        errors = []
        for context in (contextlib.nullcontext, eager.op_by_op):
            with context(), pytest.raises((TypeError, NotImplementedError), match=words) as raised:
                call()
            errors.append((str(raised.value), repr(raised.value.__context__)))
            assert not [at for at in raised.traceback if "/jax/" in str(at.path)], "a frame of JAX"
        assert errors[0] == errors[1]


def test_code_that_cannot_be_compiled_runs_uncompiled():
    class Python(Line):
        """Environment whose step has an `if` on the action, which fails while tracing."""

        def step_state(self, key, state, action, params):
            word = "left" if action < 1 else "right"
            return super().step_state(key, state, action, params)._replace(info={"word": word})

    class Unhashable(Line):
        """Environment with a list as a field, so that it cannot be hashed."""

        cells: list = dataclasses.field(default_factory=list)

    env = Python()
    assert env.step(KEY, env.reset(KEY).state, 2).info["word"] == "right"
    assert Unhashable().reset(KEY).obs == Line().reset(KEY).obs


class Twice(wrappers.Wrapper):
    """Wrapper that overrides `step`, as third-party code may do."""

    def step(self, key, state, action, params=None):
        """Make two steps of the environment."""
        return super().step(key, super().step(key, state, action, params).state, action, params)


@pytest.mark.full
def test_wrappers_batches_and_their_other_methods_are_compiled_as_a_whole():
    env = Twice(env=wrappers.FrameStack(env=Line(), count=2))
    venv = jaxenvs.make_vec(Line(), 3)
    actions, rows = jnp.full(3, 2), jnp.array([True, False, True])

    def play(key):
        state, states = env.reset(key).state, venv.reset(key).state
        return [
            env.sample_level(key),
            env.reset_to(key, jnp.int32(3)),
            env.step(key, state, 2),
            env.observe(state),
            env.action_mask(state),
            venv.step(key, states, actions),
            venv.reset_rows(key, states, rows),
            venv.action_mask(states),
            venv.refresh(key, states),
        ]

    first = play(KEY)
    with counted() as counts:
        again = play(KEY)
    assert not counts, dict(counts)
    with eager.op_by_op():
        chex.assert_trees_all_equal(play(KEY), first, again)


def test_with_x64_on_the_dtypes_are_the_same():
    env = Line()
    with enable_x64(True):
        step = env.step(KEY, env.reset(KEY).state, 2)
        assert env.step(KEY, env.reset(KEY).state, np.int64(2**40)).info["invalid_action"]
        with pytest.raises(TypeError, match="dtype int32, got int 4294967296"):
            env.reset(KEY, env.default_params.replace(max_steps_in_episode=2**32))
    chex.assert_trees_all_equal_dtypes(step, env.step(KEY, env.reset(KEY).state, 2))


@pytest.mark.full
def test_programs_of_deleted_environments_are_dropped(monkeypatch, request):
    kept = functools.lru_cache(maxsize=4)(eager.program.__wrapped__)
    monkeypatch.setattr(eager, "program", kept)
    client = jax.devices()[0].client

    def reset(sizes):
        for size in sizes:
            Line(size=size).reset(KEY)
        gc.collect()
        return len(client.live_executables())

    gc.freeze()  # from here on, `gc.collect` ignores all objects that exist now
    request.addfinalizer(gc.unfreeze)
    before = reset(range(10, 14))
    assert reset(range(14, 24)) <= before and kept.cache_info().currsize == 4
