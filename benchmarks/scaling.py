"""Training on several devices: steps per second, kernels, and collectives per update.

    python -m jaxenvs.benchmarks.scaling                    # 1, 2, 4 and 8 simulated CPU devices
    python -m jaxenvs.benchmarks.scaling --described        # compiled for H200s, without a GPU
    python -m jaxenvs.benchmarks.scaling --here --num-envs 1024 4096 16384 65536   # real devices

The learner is PPO with the preset of the id. Each measurement on simulated or real devices runs in
a separate process, because the number of devices is fixed when JAX starts; the numbers of devices
are measured in turns. `--described` needs no GPU, but `pip install "jax[cuda13]" ".[train]"`.
"""

import argparse
import collections
import dataclasses
import functools
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Compiled

import jaxenvs
from jaxenvs.baselines import presets, registry
from jaxenvs.baselines.core.devices import DEVICES, Devices
from jaxenvs.baselines.core.learner import Learner
from jaxenvs.baselines.run import loop
from jaxenvs.commands.parser import Parser
from jaxenvs.core.starts import tree_bytes

from . import gpu_work
from .gpu_model import hlo
from .harness import device_lock, instrument
from .tables import training

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


@dataclasses.dataclass(frozen=True)
class Described(Devices):
    """H200s that exist only as a description: JAX can compile programs for them, not run them."""

    @property
    def mesh(self) -> Mesh:
        """Mesh of the described H200s, over which arrays are divided."""
        return gpu_work.described(self.count, DEVICES)


def learner(
    id: str,
    num_envs: int,
    devices: Devices,
    preset: str | None = None,
    algorithm: str = "ppo",
    **given: Any,
) -> Learner:
    """Return a learner with the preset of an id.

    `num_envs` is the total over all devices; `given` overrides settings of the preset.
    """
    tuned = presets.preset(id, preset, algorithm)
    kind = registry.ALGORITHMS[algorithm].load().Settings
    settings = kind(**{**tuned.settings, "num_envs": num_envs, **given})
    return registry.build(algorithm, jaxenvs.make(id), settings, devices)


def compile_chunk(agent: Learner) -> Compiled:
    """Return the compiled program that makes one chunk of updates (one or more) per call.

    The program is compiled for the devices of `agent`, which exist only as a description.
    """
    keys = jax.eval_shape(lambda: jnp.stack([jax.random.key(0)]))
    params = jax.eval_shape(lambda: agent.params)
    runners = jax.eval_shape(functools.partial(loop.start, agent), keys, params)

    def placed(spec: PartitionSpec, tree: Any) -> Any:
        sharding = NamedSharding(agent.devices.mesh, spec)
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree
        )

    where = loop.partition(agent)
    runners = type(where)(*map(placed, where, runners))
    traced = loop.run_chunk.trace(agent, runners, placed(PartitionSpec(), params))
    return gpu_work.finish(traced)


def exchanges(text: str, minibatches: int) -> dict[str, Any]:
    """Return the numbers of kernels and of collectives (such as all-reduce) of an update.

    `text` is the HLO of the update. `minibatch` in the result is the number of collectives per
    minibatch, counted in the loop that has `minibatches` iterations.
    """
    module = hlo.parse(text)
    launched = list(hlo.kernels(module, module.entry))
    loops = [
        each
        for name in module.computations
        for each in module.whiles(name)
        if each.trips == minibatches and collectives(module, each.attribute("body"))
    ]
    body = collectives(module, loops[0].attribute("body")) if loops else {}
    return {
        "kernels": sum(kernel.count for kernel in launched),
        "update": collectives(module, module.entry),
        "minibatch": body,
    }


def collectives(module: hlo.Module, computation: str) -> dict[str, int]:
    """Count the collectives in one run of an HLO computation; return the number per opcode."""
    found: collections.Counter[str] = collections.Counter()
    for kernel in hlo.kernels(module, computation):
        kind = kernel.opcode.removesuffix("-start")
        if kind in COLLECTIVES:
            found[kind] += kernel.count
    return dict(found)


def describe(id: str, num_envs: int, count: int) -> dict[str, Any]:
    """Compile an update for `count` H200s; return the numbers of its kernels and collectives."""
    agent = learner(id, num_envs, Described(count))
    minibatches = agent.settings.epochs * agent.settings.minibatches
    found = exchanges(compile_chunk(agent).as_text() or "", minibatches)
    key = jax.eval_shape(lambda: jax.random.key(0))
    runner = jax.eval_shape(learner(id, num_envs, Devices()).init, key)
    asked = {"id": id, "num_envs": num_envs, "devices": count, "minibatches": minibatches}
    return {**asked, **found, "exchanged_bytes": tree_bytes(runner.weights)}


def measure(
    id: str,
    num_envs: int,
    count: int,
    seconds: float,
    preset: str | None = None,
    algorithm: str = "ppo",
    **given: Any,
) -> dict[str, Any]:
    """Time training with `algorithm` for `seconds` on `count` devices; return the record.

    `given` overrides settings of the preset.
    """
    agent = learner(id, num_envs, Devices(count), preset, algorithm, **given)
    keys, params = jnp.stack([jax.random.key(0)]), agent.params
    begun = time.perf_counter()
    start = loop.start.lower(agent, keys, params).compile()
    with device_lock.held():
        runners = jax.block_until_ready(start(keys, params))
    run = loop.run_chunk.lower(agent, runners, params).compile()
    compiled = time.perf_counter() - begun
    times: list[float] = []
    with device_lock.held():
        runners, _ = jax.block_until_ready(run(runners, params))
        while sum(times) < seconds:
            begun = time.perf_counter()
            runners, _ = jax.block_until_ready(run(runners, params))
            times.append(time.perf_counter() - begun)
    steps = agent.settings.chunk * agent.settings.steps_per_update
    return {
        "id": id,
        "num_envs": num_envs,
        "devices": count,
        "device": jax.devices()[0].device_kind,
        "steps": steps,  # number of environment steps that each time in `times_s` measures
        "times_s": times,
        "steps_per_second": steps * len(times) / sum(times),
        "compile_seconds": compiled,
    }


def turns(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure training on each number of devices, once per round; yield the records.

    Each measurement runs in a separate process.
    """
    for turn in range(args.rounds):
        for count in args.devices:
            for num_envs in args.num_envs:
                record = in_own_process(args.id, num_envs, count, args.seconds, args.here)
                speed = f"{record['steps_per_second']:,.0f} steps/s"
                print(f"round {turn}: {count} devices, {num_envs} envs: {speed}", flush=True)
                yield record


def in_own_process(
    id: str, num_envs: int, count: int, seconds: float, here: bool
) -> dict[str, Any]:
    """Return the record of `measure`, run in a new process with `count` devices.

    With `here` the process uses real devices, otherwise simulated ones.
    """
    begin = None if here else functools.partial(simulated, count)
    with ProcessPoolExecutor(1, get_context("spawn"), begin) as process:
        return process.submit(measure, id, num_envs, count, seconds).result()


def simulated(count: int) -> None:
    """Give this process `count` CPU devices and no others; call it before JAX starts."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", count)


def medians(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one record for each combination of number of devices and number of environments.

    Every round has measured each combination once. The record has the median speed, and the speeds
    and times of all rounds.
    """
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["num_envs"], record["devices"]), []).append(record)
    found = []
    for group in groups.values():
        speeds = [record["steps_per_second"] for record in group]
        found.append(
            group[0]
            | {
                "steps_per_second": round(statistics.median(speeds)),
                "all": [round(speed) for speed in speeds],
                "times_s": [seconds for record in group for seconds in record["times_s"]],
                # Only the first round compiles; later rounds load the program from JAX's cache.
                "compile_seconds": round(group[0]["compile_seconds"], 1),
            }
        )
    return found


def _parser() -> Parser:
    parser = instrument.parser("scaling", __doc__)
    add = parser.add_argument
    add("--id", default="Grid-DoorKey-8x8-v0", help="environment to train on")
    add("--devices", nargs="+", type=int, default=[1, 2, 4, 8], help="numbers of devices")
    add("--num-envs", nargs="+", type=int, default=[256], help="environments over all devices")
    add("--seconds", type=float, default=10.0, help="length of a measurement, without compilation")
    add("--rounds", type=int, default=3, help="measurements of each number of devices")
    add("--here", action="store_true", help="use this machine's devices, not simulated ones")
    add("--described", action="store_true", help="count for described H200s instead")
    return parser


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    args = _parser().parse_args(argv)
    if args.described:
        gpu_work.choose_target(False)
        kind = "described"
        records = [describe(args.id, n, count) for n in args.num_envs for count in args.devices]
        print(training.exchanged(records).plain())
    else:
        kind = "here" if args.here else "simulated"
        records = medians(list(turns(args)))
        print(training.scaled(records).plain())
    older = json.loads(args.json.read_text()) if args.json and args.json.is_file() else {}
    figures = instrument.dated(records, cpus=os.cpu_count())
    instrument.write(args.json, {**older, kind: figures})
