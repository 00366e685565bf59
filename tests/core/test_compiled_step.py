"""What the compiled step writes: `exact` touches the rows that ended, in place, and no others."""

import re

import jax
import jax.numpy as jnp
import pytest

import jaxenvs

ROWS, SIZE = 512, 8
WHOLE = f"u8[{ROWS},{SIZE},{SIZE}]"  # the grids of all rows
FREE = {"parameter", "get-tuple-element", "bitcast", "tuple", "while", "call"}  # move no data
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%\S+ = (\S+?)(?:\{\S*)? ([\w\-]+)\(")


def compiled_text(source):
    """Optimised program of a scan of steps, its state donated."""
    venv = jaxenvs.make_vec("Grid-DoorKey-8x8-v0", ROWS, reset_source=source, pool_size=64)

    def rollout(state, key):
        def one(state, key):
            actions = jax.random.randint(key, (ROWS,), 0, 7)
            step = venv.step(key, state, actions)
            return step.state, (step.obs, step.reward, step.done)

        return jax.lax.scan(one, state, jax.random.split(key, 16))

    state = jax.eval_shape(venv.reset, jax.random.key(0)).state
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.jit(rollout, donate_argnums=0).lower(state, key).compile().as_text()


def writers(text):
    """Computation -> kinds of its instructions that write the grids of all rows."""
    bodies, name = {}, None
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith(" "):
            name = line.removeprefix("ENTRY ").split()[0].lstrip("%")
            bodies[name] = []
        elif name:
            bodies[name].append(line)
    scatters = {n for n, body in bodies.items() if any(" scatter(" in x for x in body)}
    fused = set(re.findall(r"fusion\(.*calls=%([\w.\-]+)", text))
    found = {}
    for name, body in bodies.items():
        for line in body if name not in fused else ():
            match = INSTRUCTION.match(line)
            if not match or match[1] != WHOLE or match[2] in FREE:
                continue
            called = re.search(r"calls=%([\w.\-]+)", line)
            in_place = match[2] == "scatter" or (called and called[1] in scatters)
            found.setdefault(name, []).append("scatter" if in_place else match[2])
    return found


@pytest.fixture(scope="module")
def exact():
    return writers(compiled_text("exact"))


def test_the_loop_over_ended_rows_only_scatters(exact):
    serving = [kinds for kinds in exact.values() if "scatter" in kinds]
    assert serving == [["scatter"]], "one scatter in place: no copy, no selection over all rows"


def test_the_step_around_it_writes_the_grids_no_more_than_the_move_does(exact):
    """One write by the move; XLA's CPU backend adds one copy into the carry of the scan."""
    others = sorted(kind for kinds in exact.values() for kind in kinds if "scatter" not in kinds)
    assert others.count("copy") <= 1 and len(others) <= 2


def test_fresh_shows_that_this_looks_in_the_right_place():
    """`fresh` selects over all rows, and is seen to have no scatter."""
    found = writers(compiled_text("fresh"))
    assert found and not any("scatter" in kinds for kinds in found.values())
    program = jax.jit(lambda grids, row: grids.at[row].set(jnp.uint8(0)) + grids)
    shape = jax.ShapeDtypeStruct((ROWS, SIZE, SIZE), jnp.uint8)
    text = program.lower(shape, jax.ShapeDtypeStruct((), jnp.int32)).compile().as_text()
    assert writers(text), "a write of all rows is noticed"
