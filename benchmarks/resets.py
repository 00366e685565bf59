"""What new worlds cost: time of a step by reset source and by how many episodes end in it.

    python -m jaxenvs.benchmarks.resets --ids Grid-DoorKey-8x8-v0 --limits 0 640 100 10

The environments' clocks start staggered over the time limit, so that about num_envs / limit
episodes end in every step instead of all of them at once; limit 0 is a limit that no episode
reaches. For `exact`, `trips` is how often its loop ran in a step, counted from the episodes that
ended.
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

from . import contestants, exclusive, instrument, throughput, timing
from .contestants import Contestant
from .tables import gpu

SOURCES = ("fresh", "pool", "exact")
NEVER = 1 << 30  # steps
CHUNKS = 64  # environments over those that `exact` serves at a time, as make_vec chooses


class Runner(timing.BatchRunner):
    """A batch of staggered clocks that also counts who ended."""

    def __init__(self, contestant: Contestant, seconds: float, chunk: int) -> None:
        super().__init__(contestant, seconds)
        with exclusive.held():
            self.state, stored = self.rollout(self.key, self.state)
            done = np.asarray(stored[0][1])
        self.ended = float(done.sum(axis=1).mean())
        self.trips = float(trips(done, chunk).mean())


def trips(done: np.ndarray, chunk: int) -> np.ndarray:
    """How often `exact` runs its loop in each step, of who ended (steps, envs).

    Environment `group * chunk + lane` is served by its lane, one in a trip.
    """
    steps, envs = done.shape
    padded = np.pad(done, ((0, 0), (0, -envs % chunk)))
    return padded.reshape(steps, -1, chunk).sum(axis=1).max(axis=1)


def staggered(env_id: str, num_envs: int, source: str, limit: int, chunk: int) -> Contestant:
    """This library's batch under a time limit, its environments at all times of an episode."""
    fields = contestants.obs_field(env_id)
    venv = jaxenvs.make_vec(env_id, num_envs, reset_source=source, chunk=chunk, **fields)
    params = venv.default_params.replace(max_steps_in_episode=limit or NEVER)
    clocks = jnp.arange(num_envs, dtype=jnp.int32) % max(limit, 1)
    clocks = jax.random.permutation(jax.random.key(0), clocks)  # or those that end share a lane

    def reset(key: Array) -> Any:
        state = venv.reset(key, params).state
        set_clock = jax.vmap(lambda one, time: one.replace(time=time))
        return state.replace(env=set_clock(state.env, clocks))

    def step(key: Array, state: Any, action: Array) -> tuple:
        stepped = venv.step(key, state, action, params)
        return stepped.state, (stepped.obs, stepped.done), stepped.reward, stepped.done

    plain = contestants.ours(env_id, num_envs, source)
    refresh = lambda key, state: venv.refresh(key, state, params)  # noqa: E731
    return dataclasses.replace(plain, reset=reset, step=step, refresh=refresh)


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Time every source under every limit; sources take turns."""
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
    """Run the command line."""
    parser = instrument.parser("resets", __doc__)
    add = parser.add_argument
    add("--ids", nargs="+", default=["Grid-DoorKey-8x8-v0"], help="ids (default: %(default)s)")
    add("--batch", type=int, default=4096, help="environments in the batch")
    add("--limits", nargs="+", type=int, default=[0, 640, 100, 10], help="time limits; 0: none")
    add("--reset-source", nargs="+", default=SOURCES, choices=SOURCES, help="default: all three")
    add("--seconds", type=float, default=0.2, help="length of one repeat")
    add("--repeats", type=int, default=5, help="repeats, of which the median is reported")
    args = parser.parse_args(argv)
    records = measure(args)
    print(gpu.resets(records).plain())
    instrument.write(args.json, {**throughput.header(args), "rows": records})
