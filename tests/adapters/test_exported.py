"""Tests that results of `ExportedBatch` are separate buffers, which other packages may change.

The tests need no PyTorch. In place of a tensor, they use a NumPy array that shares the memory of a
JAX array.
"""

import ctypes
import pickle

import jax
import numpy as np
import pytest
from exports import ECHO, MODES, SEED, actions_for, assert_same, copied, native
from worlds import DOORS, Doors, by_default

import jaxenvs
from jaxenvs.adapters.exported import ExportedBatch

ROWS = 32
IDS = ("Grid-DoorKey-5x5-v0", "Craft-Classic-Symbolic-v0", "Puzzle-2048-v0", "Classic-CartPole-v0")
every_mode = pytest.mark.parametrize("mode", MODES)


def batch(env, mode="same_step", rows=ROWS, **settings):
    device = jax.local_devices(backend="cpu")[0]
    return ExportedBatch(env, rows, where="to_torch_vec", device=device, autoreset=mode, **settings)


def memory(array):
    """Return a writable view of a JAX array's buffer as bytes, in place of a DLPack tensor."""
    address = array.unsafe_buffer_pointer()
    return np.ctypeslib.as_array((ctypes.c_uint8 * array.nbytes).from_address(address))


def overwrite(results):
    for leaf in jax.tree.leaves(results):
        memory(leaf)[:] = 0xAB


def every_row(rows=ROWS):
    return jax.numpy.ones(rows, bool)


def play(envs, actions, mode, use, seed=SEED):
    """Yield `use(results)` after each reset and step; overwrite the actions after each step."""
    results = envs.begin(seed, every_row(envs.num_envs), True)
    yield use(results)
    # Use memory that starts at a multiple of 64 bytes: JAX copies memory that is not aligned.
    room = np.zeros(envs.num_envs + 64, np.int32)
    start = (-room.ctypes.data % 64) // 4
    given = room[start : start + envs.num_envs]
    for action in actions:
        given[:] = action
        results = jax.block_until_ready(envs.advance(jax.dlpack.from_dlpack(given)))
        given[:] = -1
        done = np.array(results[2]) | np.array(results[3])
        yield use(results)
        if mode == "none" and done.any():
            yield use(envs.begin(None, jax.numpy.asarray(done), False))


@pytest.mark.full
@every_mode
@pytest.mark.parametrize("env", [ECHO, *by_default(IDS[:1], IDS, full=IDS[1:])], ids=str)
def test_changed_results_and_actions_change_no_later_result(env, mode):
    """Overwriting results and actions after their use does not change later results.

    The later results are compared with results of a `make_vec` batch.
    """
    env = jaxenvs.make(env) if isinstance(env, str) else env
    actions = actions_for(env, 30, ROWS)

    def use(results):
        seen = copied(results)
        overwrite(results)
        return seen

    found = list(play(batch(env, mode), actions, mode, use))
    assert_same(found, native(env, actions, mode))


@pytest.mark.full
@every_mode
@pytest.mark.parametrize("env", [ECHO, *by_default(IDS[:1], IDS, full=IDS[1:])], ids=str)
def test_no_later_step_overwrites_a_result_that_is_kept(env, mode):
    env = jaxenvs.make(env) if isinstance(env, str) else env
    actions = actions_for(env, 200, ROWS)
    kept = list(play(batch(env, mode), actions, mode, lambda results: (results, copied(results))))
    assert_same([copied(results) for results, _ in kept], [seen for _, seen in kept])
    places = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves([one[0] for one in kept])]
    assert len(set(places)) == len(places)


def test_results_are_not_the_state():
    envs = batch(ECHO)
    results = envs.begin(0, every_row(), True)
    for _ in range(3):
        theirs = {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(envs._carry)}
        ours = {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(results)}
        assert not theirs & ours
        results = envs.advance(jax.numpy.zeros(ROWS, jax.numpy.int32))


def test_results_are_separate_without_compilation():
    """Results are separate buffers also without `jit`.

    Without `jit`, a function can return an input itself, so results could share its buffer.
    """
    actions = actions_for(ECHO, 3, 2)
    with jax.disable_jit():
        envs = batch(ECHO, "none", 2)
        found = list(play(envs, actions, "none", lambda results: (copied(results), results)))
        places = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(found) if is_jax(leaf)]
        state = {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(envs._carry.state)}
    assert len(set(places)) == len(places) and not state & set(places)
    assert_same([copied(results) for _, results in found], [seen for seen, _ in found])


def is_jax(leaf):
    return isinstance(leaf, jax.Array)


def test_a_seed_restarts_the_sequence_and_no_seed_continues_it():
    envs, rows = batch(DOORS, rows=4), every_row(4)

    def begun(seed):
        return copied(envs.begin(seed, rows, True))

    first, second = begun(3), begun(None)
    assert_same([first, second], [begun(3), begun(None)])
    assert first[0]["number"].tolist() != second[0]["number"].tolist()
    drawn = [copied(batch(DOORS, rows=64).begin(None, every_row(64), True)) for _ in range(2)]
    assert drawn[0][0]["number"].tolist() != drawn[1][0]["number"].tolist()


@pytest.mark.full
def test_a_pickled_batch_continues_identically():
    envs = batch(DOORS)
    actions = actions_for(DOORS, 12, ROWS)
    list(play(envs, actions[:6], "same_step", copied))
    copy = pickle.loads(pickle.dumps(envs))
    both = [
        [copied(each.advance(jax.numpy.asarray(one))) for one in actions[6:]]
        for each in (envs, copy)
    ]
    assert_same(*both)


@pytest.mark.full
def test_one_compilation_for_all_batches_of_a_kind():
    traces = []

    class Counted(Doors):
        def step_state(self, *args):
            traces.append(args)
            return super().step_state(*args)

    env = Counted()
    limited = env.default_params.replace(max_steps_in_episode=7)
    for params in (None, limited):
        envs = batch(env, params=params)
        list(play(envs, actions_for(env, 3, ROWS), "same_step", copied))
    assert len(traces) == 1


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: e.advance(np.zeros(3, np.int32)), ValueError, "no episode has begun"),
        (lambda e: e.begin(0, every_row(3), False), ValueError, "all environments once"),
        (lambda e: e.begin(-1, every_row(3), True), ValueError, "reset: seed=-1 is out of range"),
        (lambda e: e.begin(2**32, every_row(3), True), ValueError, "from 0 to 4294967295"),
        (lambda e: e.begin("a", every_row(3), True), TypeError, "seed must be a Python int"),
        (lambda e: batch(DOORS, "SameStep", 3), ValueError, "did you mean 'same_step'"),
        (lambda e: batch(DOORS, rows=3, params=3), TypeError, "to_torch_vec: params must be like"),
        (lambda e: batch(3), TypeError, "to_torch_vec: needs an id"),
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(batch(DOORS, rows=3))
