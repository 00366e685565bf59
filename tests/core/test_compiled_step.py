"""Tests that a compiled step of a batch with reset source `exact` writes grids in place.

`exact` generates levels for the done environments only, in a loop.
"""

import os
import re
import subprocess
import sys

import jax
import pytest

import jaxenvs

ROWS, SIZE = 512, 8
CELLS = SIZE * SIZE
# Shapes that the compiler may give to the array of all grids of the batch.
WHOLE = {f"u8[{ROWS},{SIZE},{SIZE}]", f"u8[{ROWS},{CELLS}]", f"u8[{ROWS * CELLS}]"}
# HLO instructions that move no data
FREE = {"parameter", "get-tuple-element", "bitcast", "tuple", "while", "call"}
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%\S+ = (\S+?)(?:\{\S*)? ([\w\-]+)\(")


def compiled_text(source):
    """Return the HLO text of a scan over steps, compiled to reuse the memory of its input state."""
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


def as_users_compile(source):
    """Return `compiled_text` from a process without the tests' XLA flags."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    command = [sys.executable, __file__, source]
    return subprocess.check_output(command, env=environment, text=True, timeout=300)


def writers(text):
    """Return the instructions that write the array of all grids of the batch.

    The result maps the name of each HLO computation to a list of opcodes. The opcode `scatter`
    stands for a write in place.
    """
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
            if not match or match[1] not in WHOLE or match[2] in FREE:
                continue
            called = re.search(r"calls=%([\w.\-]+)", line)
            in_place = match[2] == "scatter" or (called and called[1] in scatters)
            found.setdefault(name, []).append("scatter" if in_place else match[2])
    return found


@pytest.mark.full
def test_exact_writes_grids_by_scatters_alone():
    """The array of all grids is written twice per step, both times in place, and never copied.

    One write is the agent's move. The other write is in the loop over done episodes.
    """
    found = writers(as_users_compile("exact"))
    assert sorted(kind for kinds in found.values() for kind in kinds) == ["scatter", "scatter"]


@pytest.mark.full
def test_fresh_shows_that_this_looks_in_the_right_place():
    """Control: `writers` finds that a step with `fresh` rewrites the grids of all environments."""
    found = writers(as_users_compile("fresh"))
    assert "fusion" in [kind for kinds in found.values() for kind in kinds]


if __name__ == "__main__":
    print(compiled_text(sys.argv[1]))
