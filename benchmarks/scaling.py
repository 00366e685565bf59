"""Training on several devices: steps per second, kernels, and what devices exchange per update.

    python -m jaxenvs.benchmarks.scaling                    # 1, 2, 4 and 8 simulated CPU devices
    python -m jaxenvs.benchmarks.scaling --described        # compiled for H200s that are not there
    python -m jaxenvs.benchmarks.scaling --here --num-envs 1024 4096 16384 65536   # on what is here

The learner is PPO with the preset of the id. Each simulated or real measurement has a process of
its own; they take turns. `--described` needs `pip install "jax[cuda13]" "jaxenvs[train]"`, no GPU.
"""

import argparse
import collections
import dataclasses
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding

import jaxenvs
from jaxenvs.baselines import loop, networks, ppo, presets
from jaxenvs.baselines.devices import DEVICES, Devices
from jaxenvs.commands.parser import Parser

from . import contestants, gpu_work, hlo
from .tables.text import Column, layout, whole

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
AT_ONCE = "--xla_force_host_platform_device_count="
DEVICES_AND_ENVS: dict[str, Column] = {
    "devices": lambda row: str(row["devices"]),
    "environments": lambda row: whole(row["num_envs"]),
}


@dataclasses.dataclass(frozen=True)
class Described(Devices):
    """H200s that need not be there."""

    @property
    def mesh(self) -> Mesh:
        """A mesh that programs can be compiled for, not run on."""
        return gpu_work.described(self.count, DEVICES)


def learner(id: str, num_envs: int, devices: Devices, preset: str | None = None) -> ppo.PPO:
    """PPO with the preset of an id, on `num_envs` environments over all devices."""
    row = presets.preset(id, preset)
    settings = ppo.Settings(**{**row.settings, "num_envs": num_envs})
    venv = devices.batch(jaxenvs.make(id), num_envs, settings.reset_source)
    network = networks.build(venv.env, settings.hidden, settings.embed)
    return ppo.PPO(venv, network, settings, devices)


def compile_chunk(agent: ppo.PPO) -> str:
    """HLO of one call of the training program on described devices."""
    mesh, where = agent.devices.mesh, loop.layout(agent)
    keys = jax.eval_shape(lambda: jnp.stack([jax.random.key(0)]))
    runners = jax.eval_shape(functools.partial(loop.start, agent), keys)._asdict()

    def placed(name: str) -> Any:
        sharding = NamedSharding(mesh, where[name])
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            runners[name],
        )

    traced = loop.run_chunk.trace(agent, agent.runner(**{name: placed(name) for name in runners}))
    return gpu_work.finish(traced).as_text() or ""


def exchanges(text: str, minibatches: int) -> dict[str, Any]:
    """Launches of one update, its collectives, and those of a minibatch, of compiled HLO."""
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
    """How often each kind of exchange happens in a run of a computation."""
    found: collections.Counter[str] = collections.Counter()
    for kernel in hlo.kernels(module, computation):
        kind = kernel.opcode.removesuffix("-start")
        if kind in COLLECTIVES:
            found[kind] += kernel.count
    return dict(found)


def describe(id: str, num_envs: int, count: int) -> dict[str, Any]:
    """Compile an update for `count` H200s and count."""
    agent = learner(id, num_envs, Described(count))
    minibatches = agent.settings.epochs * agent.settings.minibatches
    found = exchanges(compile_chunk(agent), minibatches)
    key = jax.eval_shape(lambda: jax.random.key(0))
    runner = jax.eval_shape(learner(id, num_envs, Devices()).init, key)
    asked = {"id": id, "num_envs": num_envs, "devices": count, "minibatches": minibatches}
    return {**asked, **found, "exchanged_bytes": gpu_work.tree_bytes(runner.weights)}


def measure(
    id: str, num_envs: int, count: int, seconds: float, preset: str | None = None
) -> dict[str, Any]:
    """Train for some seconds on the devices of this process."""
    agent = learner(id, num_envs, Devices(count), preset)
    keys = jnp.stack([jax.random.key(0)])
    begun = time.perf_counter()
    runners, _ = jax.block_until_ready(loop.run_chunk(agent, loop.start(agent, keys)))
    compiled = time.perf_counter() - begun
    times: list[float] = []
    while sum(times) < seconds:
        begun = time.perf_counter()
        runners, _ = jax.block_until_ready(loop.run_chunk(agent, runners))
        times.append(time.perf_counter() - begun)
    steps = agent.settings.chunk * agent.settings.steps_per_update
    return {
        "id": id,
        "num_envs": num_envs,
        "devices": count,
        "device": jax.devices()[0].device_kind,
        "steps": steps,  # of each of these times
        "times_s": times,
        "steps_per_second": steps * len(times) / sum(times),
        "compile_seconds": compiled,
    }


def turns(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure each number of devices in each round, every time in a process of its own."""
    for turn in range(args.rounds):
        for count in args.devices:
            for num_envs in args.num_envs:
                row = in_own_process(args.id, num_envs, count, args.seconds, args.here)
                speed = f"{row['steps_per_second']:,.0f} steps/s"
                print(f"round {turn}: {count} devices, {num_envs} envs: {speed}", flush=True)
                yield row


def in_own_process(
    id: str, num_envs: int, count: int, seconds: float, here: bool
) -> dict[str, Any]:
    """Measure in a process that has `count` devices: simulated ones unless `here`."""
    environment = dict(os.environ)
    if not here:
        environment |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{AT_ONCE}{count}"}
    asked = json.dumps([id, num_envs, count, seconds])
    done = subprocess.run(
        [sys.executable, "-m", "jaxenvs.benchmarks.scaling", "--one", asked],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{count} devices, {num_envs} environments: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def medians(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each number of devices and environments: medians over the rounds."""
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["num_envs"], row["devices"]), []).append(row)
    found = []
    for group in groups.values():
        speeds = [row["steps_per_second"] for row in group]
        found.append(
            group[0]
            | {
                "steps_per_second": round(statistics.median(speeds)),
                "all": [round(speed) for speed in speeds],
                "times_s": [seconds for row in group for seconds in row["times_s"]],
                "compile_seconds": round(group[0]["compile_seconds"], 1),  # later ones: from disk
            }
        )
    return found


def speed_table(rows: Sequence[dict[str, Any]]) -> str:
    """Speeds as plain text."""
    one = {row["num_envs"]: row["steps_per_second"] for row in rows if row["devices"] == 1}

    def relative(row: dict[str, Any]) -> str:
        alone = one.get(row["num_envs"])
        return f"{row['steps_per_second'] / alone:.2f}" if alone else "-"

    columns = {
        **DEVICES_AND_ENVS,
        "steps/s": lambda row: whole(row["steps_per_second"]),
        "of one device": relative,
        "compile": lambda row: f"{row['compile_seconds']:.0f} s",
    }
    return layout(rows, columns).plain()


def described_table(rows: Sequence[dict[str, Any]]) -> str:
    """Kernels and exchanges of an update as plain text: in all, and in a minibatch."""

    def exchanged(kind: str) -> Column:
        counts = "{}, {} in a minibatch"
        return lambda row: counts.format(*(row[p].get(kind, 0) for p in ("update", "minibatch")))

    columns = {
        **DEVICES_AND_ENVS,
        "kernels": lambda row: whole(row["kernels"]),
        "minibatches": lambda row: str(row["minibatches"]),
        **{kind: exchanged(kind) for kind in COLLECTIVES[:2]},
    }
    return layout(rows, columns).plain()


def _parser() -> Parser:
    parser = Parser("python -m jaxenvs.benchmarks.scaling", __doc__)
    add = parser.add_argument
    add("--id", default="Grid-DoorKey-8x8-v0", help="environment to train on")
    add("--devices", nargs="+", type=int, default=[1, 2, 4, 8], help="numbers of devices")
    add("--num-envs", nargs="+", type=int, default=[256], help="environments of all devices")
    add("--seconds", type=float, default=10.0, help="length of a measurement, without compilation")
    add("--rounds", type=int, default=3, help="measurements of each number of devices")
    add("--here", action="store_true", help="use this machine's devices, not simulated ones")
    add("--described", action="store_true", help="count for described H200s instead")
    add("--json", type=Path, metavar="FILE", help="write all figures there, beside older ones")
    add("--one", help=argparse.SUPPRESS)  # id, environments, devices, seconds: of the own process
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    args = _parser().parse_args(argv)
    if args.one:
        print(json.dumps(measure(*json.loads(args.one))))
        return 0
    try:
        if args.described:
            gpu_work.choose_target(False)
            kind = "described"
            rows = [describe(args.id, n, count) for n in args.num_envs for count in args.devices]
            print(described_table(rows))
        else:
            kind = "here" if args.here else "simulated"
            rows = medians(list(turns(args)))
            print(speed_table(rows))
    except (LookupError, RuntimeError, ValueError) as error:
        print(error.args[0] if error.args else error, file=sys.stderr)
        return 2
    if args.json:
        found = json.loads(args.json.read_text()) if args.json.is_file() else {}
        about = {"date": time.strftime("%Y-%m-%d"), "versions": contestants.versions()}
        found[kind] = {**about, "cpus": os.cpu_count(), "rows": rows}
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
