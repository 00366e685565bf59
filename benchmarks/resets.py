"""Cost of new levels: time of a step by reset source and by the number of episodes that end in it.

    python -m jaxenvs.benchmarks.resets --ids Grid-DoorKey-8x8-v0 --limits 0 640 100 10

The environments' step counters start at values spread evenly from 0 to the time limit, so about
num_envs / limit episodes end in every step instead of all in the same step. With limit 0 no episode
is truncated. A reset source is where the level of a new episode comes from. The source `exact`
generates levels in a loop, for ended episodes only. `trips` is the number of iterations per step
that this loop makes on a CPU, computed from the episodes that ended.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import jaxenvs

from .harness import contestants, device_lock, instrument, timing
from .harness.contestants import Contestant
from .tables import gpu

SOURCES = ("fresh", "pool", "exact")
NEVER = 1 << 30  # time limit in steps that no episode reaches
# Reset source `exact` generates batch // CHUNKS levels at a time. This is the default of `make_vec`
# for most environments on a CPU.
CHUNKS = 64


class Runner(timing.BatchRunner):
    """Timed runs of a batch made by `staggered`; also counts the episodes that end per step."""

    def __init__(self, contestant: Contestant, seconds: float, chunk: int) -> None:
        super().__init__(contestant, seconds)
        with device_lock.held():
            self.state, stored = self.rollout(self.key, self.state)
            done = np.asarray(stored[0][1])
        self.ended = float(done.sum(axis=1).mean())
        self.trips = float(trips(done, chunk).mean())


def trips(done: np.ndarray, chunk: int) -> np.ndarray:
    """Return the number of iterations that reset source `exact` makes in each step on a CPU.

    `done` has shape [steps, envs]. One iteration generates a level in each of `chunk` lanes. Lane i
    serves the environments i, i + chunk, i + 2 chunk, ..., and resets one of its done environments
    per iteration. So the number of iterations is the largest number of done environments in a lane.
    Rejected levels, which cost further iterations, are not counted.
    """
    steps, envs = done.shape
    padded = np.pad(done, ((0, 0), (0, -envs % chunk)))
    return padded.reshape(steps, -1, chunk).sum(axis=1).max(axis=1)


def staggered(env_id: str, num_envs: int, source: str, limit: int, chunk: int) -> Contestant:
    """Return a batch of this library's environments with the time limit `limit` (0: no limit).

    The step counters start at values spread evenly from 0 to the limit, so that the episodes end in
    different steps. The observation is replaced by the pair (observation, done), because a rollout
    stores only observations and rewards.
    """
    env = jaxenvs.make(env_id, **contestants.obs_field(env_id))
    params = env.default_params.replace(max_steps_in_episode=limit or NEVER)
    batch = contestants.ours(env_id, num_envs, source, params, chunk=chunk)
    clocks = jnp.arange(num_envs, dtype=jnp.int32) % max(limit, 1)
    # Shuffle the counters. Without shuffling, many environments whose episodes end in the same step
    # would be in one lane (see `trips`), which resets one environment per iteration.
    clocks = jax.random.permutation(jax.random.key(0), clocks)

    def reset(key: Array) -> Any:
        state = batch.reset(key)
        set_clock = jax.vmap(lambda one, time: one.replace(time=time))
        return state.replace(env=set_clock(state.env, clocks))

    def step(key: Array, state: Any, action: Array) -> tuple:
        state, obs, reward, done = batch.step(key, state, action)
        return state, (obs, done), reward, done

    return dataclasses.replace(batch, reset=reset, step=step)


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Time every reset source with every time limit; return the records.

    The reset sources are timed in turns.
    """
    chunk = max(8, args.batch // CHUNKS)
    records = []
    for env_id in args.ids:
        for limit in args.limits:
            runners = []
            for source in args.reset_source:
                batch = staggered(env_id, args.batch, source, limit, chunk)
                runners.append(Runner(batch, args.seconds, chunk))
            timing.take_turns(runners, args.repeats)
            for runner in runners:
                counted = {"limit": limit, "chunk": chunk, "ended_per_step": round(runner.ended, 2)}
                if runner.record.reset_source == "exact":
                    counted["trips_per_step"] = round(runner.trips, 3)
                records.append({**runner.record.as_dict(), **counted})
            print(f"{env_id}, time limit {limit}: measured", file=sys.stderr, flush=True)
    return records


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("resets", __doc__)
    add = parser.add_argument
    add("--ids", nargs="+", default=["Grid-DoorKey-8x8-v0"], help="ids (default: %(default)s)")
    add("--batch", type=int, default=4096, help="environments in the batch")
    add("--limits", nargs="+", type=int, default=[0, 640, 100, 10], help="time limits; 0: none")
    add("--reset-source", nargs="+", default=SOURCES, choices=SOURCES, help="default: all three")
    instrument.add_repeats(parser, seconds=0.2, repeats=5)
    args = parser.parse_args(argv)
    records = measure(args)
    print(gpu.resets(records).plain())
    instrument.write(args.json, {**instrument.header(args), "rows": records})
