"""Measure the cost of a step and of a new level in each environment class.

    python -m jaxenvs.benchmarks.families --json families.json

The figures are kernels and bytes of a step, bytes of state, and the cost of a new level.
Kernels and bytes are counted as in `gpu_work`, for several reset sources: the ways in which
`make_vec` gets the level of the next episode. The cost of a new level is a ratio of CPU times: the
time to draw candidate levels until one is accepted, divided by the time of a step. Figures that the
file of `--json` already has are kept.

Reset source `fresh` generates a level for every environment in every step. It is counted only for
classes whose levels are cheap to generate. The default of these classes is `auto`, which is `fresh`
on a GPU unless the batch is very large. In other classes, a step with `fresh` would draw candidate
levels until the level of every environment is accepted.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

import jaxenvs

from . import gpu_work
from .harness import contestants, instrument
from .tables.families import counted
from .tables.text import line

# The benchmark names each environment class that exceeds one of these limits: kernels per step, and
# bytes of state per environment.
KERNELS, STATE = 24, 900
KEPT = (
    *("kernels", "copies", "kernels_per_trip", "written", "read", "state"),
    *("model_us", "model_us_per_trip"),
)
TRIPS = 16  # number of steps, or of batches of candidate levels, that one timed run makes
REPEATS = 4  # number of timed runs, of which the fastest one counts


def sources(env_id: str) -> tuple[str, ...]:
    """Return the reset sources for which the GPU work of a step is counted.

    `fresh` is among them only if levels are cheap to generate.
    """
    expensive = jaxenvs.spec(env_id).reset_source == "exact"
    return ("pool", "exact") if expensive else ("fresh", "pool", "exact")


def count(env_id: str, wanted: Sequence[str], batch: int, here: bool) -> dict[str, dict]:
    """Return the GPU work of a step (kernels, bytes and others) for each wanted reset source."""
    found = {}
    for source in wanted:
        batched = contestants.ours(env_id, batch, source)
        # Do not refill the level pool: the refill is outside the loop over steps, in which work is
        # counted, but would be compiled too.
        batched = dataclasses.replace(batched, refresh=lambda key, state: state)
        work, _ = gpu_work.measure(batched, here)
        found[source] = {name: round(work[name], 1) for name in KEPT}
    return found


def level_cost(env_id: str, batch: int) -> dict[str, float]:
    """Measure the cost of a step and of a new level on the CPU; return four figures.

    A candidate is a drawn level, which the environment accepts or rejects. `candidates` is the mean
    number of candidates until one is accepted. `step_ns` and `candidate_ns` are the CPU nanoseconds
    of one environment's step and of one candidate. `world_steps` is the time to get an accepted
    level, divided by the time of a step.
    """
    with jax.default_device(jax.devices("cpu")[0]):
        draw, none = _drawer(env_id, batch)
        draw_seconds, (states, accepted) = _processor_seconds(draw, none)
        step_seconds, _ = _processor_seconds(_stepper(env_id, batch), states)
    candidates = TRIPS * batch / float(accepted)
    scale = 1e9 / TRIPS / batch
    return {
        "step_ns": round(step_seconds * scale, 1),
        "candidate_ns": round(draw_seconds * scale, 1),
        "candidates": round(candidates, 2),
        "world_steps": round(draw_seconds * candidates / step_seconds, 2),
    }


Loop = Callable[[Array, Any], tuple[Any, Any]]


def _stepper(env_id: str, batch: int) -> Loop:
    """Return a function that makes `TRIPS` steps of a batch without auto-reset.

    The function returns the final states, and the observations and rewards of all steps.
    """
    rollout = contestants.ours(env_id, batch, contestants.NO_RESET).rollout(TRIPS)
    return lambda key, states: rollout(key, jaxenvs.VectorState(env=states, ended=None, pool=None))


def _drawer(env_id: str, batch: int) -> tuple[Loop, Any]:
    """Return a pair: a function (key, states), and the value to pass to it as `states`.

    The function draws `TRIPS` batches of candidate levels. It returns the initial states in the
    last batch of levels, and the number of accepted candidates in all batches. It ignores the
    values of `states`, which are all zero, and uses only their shapes and dtypes.
    """
    env = jaxenvs.make(env_id, **contestants.obs_field(env_id))
    params = env.checked_params(None, "level_cost")

    def begin(key: Array) -> tuple[Any, Array]:
        key_level, key_state = jax.random.split(key)
        level = env.candidate(key_level, jnp.int32(0), params)
        return env.reset_to(key_state, level, params).state, env.accepts(level)

    def body(carry: tuple[Any, Array], key: Array) -> tuple[tuple[Any, Array], None]:
        states, accepted = jax.vmap(begin)(jax.random.split(key, batch))
        return (states, carry[1] + accepted.sum(dtype=jnp.int32)), None

    def run(key: Array, none: Any) -> tuple[Any, Any]:
        return jax.lax.scan(body, (none, jnp.int32(0)), jax.random.split(key, TRIPS))

    shapes = jax.eval_shape(jax.vmap(begin), jax.random.split(jax.random.key(0), batch))[0]
    return run, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def _processor_seconds(run: Loop, start: Any) -> tuple[float, Any]:
    """Return the CPU seconds of the fastest of `REPEATS` calls of `run`, and a result of `run`.

    The result is the first of the two values that the last call returned. CPU seconds are summed
    over all threads. An additional first call of `run` compiles and is not timed.
    """
    run = jax.jit(run)
    last, _ = jax.block_until_ready(run(jax.random.key(0), start))
    spent = []
    for number in range(REPEATS):
        begin = time.process_time()
        last, _ = jax.block_until_ready(run(jax.random.key(number), start))
        spent.append(time.process_time() - begin)
    return min(spent), last


def excess(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each figure above its limit, `KERNELS` or `STATE`.

    The number of kernels of reset source `exact` has no limit.
    """
    found = []
    for record in records:
        for source, work in record["work"].items():
            if source != "exact" and work["kernels"] > KERNELS:
                found.append(f"{record['id']}, {source}: {work['kernels']} kernels")
        state = next(iter(record["work"].values()))["state"]
        if state > STATE:
            found.append(f"{record['id']}: {state:,.0f} bytes of state")
    return found


def _measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    kept = {}
    if args.json and args.json.exists():
        kept = {record["id"]: record for record in json.loads(args.json.read_text())["rows"]}
    records = []
    for env_id in contestants.chosen(args.ids):
        records.append(_completed(env_id, kept.get(env_id, {}), args))
        print(line(counted(records[-1:]).rows[0]), flush=True)
        instrument.write(args.json, _report(records, args))
    return records


def _completed(env_id: str, record: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Return the complete record of an id.

    `record` has the figures of the id that were read from the file of `--json`; it is empty if
    there are none. These figures are kept, and all missing figures are measured.
    """
    work = record.get("work", {})
    lacking = [source for source in sources(env_id) if source not in work]
    work = work | count(env_id, lacking, args.batch, args.here)
    return {
        "id": env_id,
        "default": jaxenvs.spec(env_id).reset_source,
        "work": {source: work[source] for source in sources(env_id)},
        "world": record.get("world") or level_cost(env_id, args.cpu_batch),
    }


def _report(records: list[dict[str, Any]], args: argparse.Namespace) -> dict[str, Any]:
    about = gpu_work.report((), args.here)
    return {**about, "batch": args.batch, "cpu_batch": args.cpu_batch, "rows": records}


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("families", __doc__)
    add = parser.add_argument
    add("--ids", nargs="+", default=["families"], help="ids, `families` (one of each) or `all`")
    add("--batch", type=int, default=4096, help="environments in the batch on the GPU")
    add("--cpu-batch", type=int, default=1024, help="environments in the batch on the CPU")
    add("--here", action="store_true", help="compile for this machine's GPU, not a described one")
    args = parser.parse_args(argv)
    gpu_work.choose_target(args.here)
    records = _measure(args)
    print(counted(records).plain())
    print("\n".join(f"above the limits: {name}" for name in excess(records)))
