"""Kernels, bytes, predicted time and memory of a whole update on an H200, compiled without a GPU.

    python -m jaxenvs.benchmarks.update_work --json benchmarks/results/update_work.json

Each row is a preset named `gpu`: the counts cover the whole training program with environment,
policy and learning (`gpu_work` counts the environment's steps only). The bytes are those that the
kernels write and read. A conditional counts as its branch with the most kernel launches. The work
of loops whose number of iterations is unknown, such as the generation of new levels, is counted
separately, for one iteration. The memory is the compiler's own figure. `--algo ppo-rnn --ids
Craft-Ids-v0` measures one learner in one environment, and keeps the other rows of the file. The
command needs no GPU, but `pip install "jax[cuda13]" ".[train]"`, and minutes for each row.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jaxenvs
from jaxenvs.baselines import presets, registry

from . import gpu_work, scaling
from .gpu_model import hlo, kernel_time
from .harness import instrument
from .tables.gpu import UPDATES
from .tables.text import tabulated


class Case(NamedTuple):
    """A learner and an environment, and settings that differ from the learner's preset."""

    algorithm: str
    id: str
    changed: Mapping[str, Any] = {}


# The largest number of environments, with the preset's minibatches of 32,768 steps.
MILLION = {"num_envs": 1_048_576, "rollout_steps": 32, "minibatches": 1024}
# At least one environment for each preset named `gpu`, see `presets.PRESETS`.
CASES = (
    Case("ppo", "Grid-DoorKey-8x8-v0"),
    Case("ppo", "BabyAI-GoToLocal-v0"),
    Case("ppo", "Puzzle-SlidingTile-4x4-v0"),
    Case("ppo", "Craft-Classic-Ids-v0"),
    Case("ppo", "Craft-Ids-v0"),
    Case("ppo-rnn", "Craft-Classic-Symbolic-v0"),
    Case("ppo-rnn", "Craft-Classic-Ids-v0"),
    Case("ppo-rnn", "Craft-Ids-v0"),
    Case("ppo-rnn", "Craft-Ids-v0", MILLION),
    Case("rl2", "XLand-R1-9x9-v0"),
    Case("rl2", "XLand-R4-13x13-v0"),
)
SHOWN = ("num_envs", "rollout_steps", "epochs", "minibatches", "bfloat16", "unroll", "hidden")
LONGEST = 4  # number of kernels that a row lists: those that take the most time


def measure(
    id: str, preset: str | None = "gpu", algorithm: str = "ppo", **changed: Any
) -> dict[str, Any]:
    """Compile one update of a learner with a preset; return the numbers of its kernels and bytes.

    `changed` overrides settings of the preset.
    """
    env = jaxenvs.make(id)
    # A reset source says where the levels of new episodes come from. Choose the default of a GPU:
    # `stock` replaces `exact`, and None keeps any other default of the environment. JAX sees no GPU
    # here, so `usual_source` in `jaxenvs.core.vector` would choose `exact`.
    source = "stock" if env.reset_source == "exact" else None
    tuned = presets.preset(id, preset, algorithm).settings
    settings = (
        registry.ALGORITHMS[algorithm]
        .load()
        .Settings(**{"reset_source": source, **tuned, "chunk": 1, **changed})
    )
    agent = registry.build(
        algorithm,
        registry.training_env(algorithm, env, settings),
        settings,
        scaling.Described(1),
    )
    begun = time.perf_counter()
    compiled = scaling.compile_chunk(agent)
    seconds = time.perf_counter() - begun
    work = counted(hlo.parse(compiled.as_text() or ""), settings)
    memory = compiled.memory_analysis()
    return {
        "algorithm": algorithm,
        "id": id,
        "preset": preset or "usual",
        "changed": dict(changed),
        "date": time.strftime("%Y-%m-%d"),
        **{name: getattr(settings, name) for name in SHOWN},
        "reset_source": agent.env.reset_source,
        **work,
        # Bytes of all arrays that are alive at once, at the worst moment of the update.
        "peak_bytes": memory.peak_memory_in_bytes if memory else None,
        "compile_seconds": round(seconds, 1),
    }


def counted(module: hlo.Module, settings: Any) -> dict[str, Any]:
    """Return the numbers of kernels and bytes and the predicted times of an update's program.

    Times are in microseconds. Numbers that end in `_per_trip` are the work of loops whose number of
    iterations is unknown, if each of them makes one iteration; the other numbers leave it out.
    """
    kernels = kernel_time.timed(module, hlo.kernels(module, module.entry))
    once = [kernel for kernel in kernels if not kernel.dynamic]
    trip = [kernel for kernel in kernels if kernel.dynamic]
    inside = acting(module, settings.rollout_steps // settings.unroll)
    return {
        "kernels": sum(kernel.count for kernel in once),
        "kernels_per_trip": sum(kernel.count for kernel in trip),
        "bytes": sum(kernel.count * (kernel.written + kernel.read) for kernel in once),
        "bytes_per_trip": sum(kernel.count * (kernel.written + kernel.read) for kernel in trip),
        "conditions": sum(kernel.count for kernel in once if kernel.opcode == "conditional"),
        "model_us": microseconds(once),
        "model_us_per_trip": microseconds(trip),
        # Part of `model_us` in the loop over the steps of the rollout: environments and policy.
        "acting_us": microseconds(k for k in once if (k.within, k.name) in inside),
        "longest": longest(once),
    }


def microseconds(kernels: Iterable[hlo.Kernel]) -> float:
    """Return the predicted time of all launches of some kernels."""
    return round(sum(kernel.count * kernel.microseconds for kernel in kernels), 1)


def acting(module: hlo.Module, trips: int) -> set[tuple[str, str]]:
    """Return computation and name of each kernel in the loop over the steps of a rollout.

    It is the largest loop of `trips` iterations without kernels of a gradient.
    """
    found: list[list[hlo.Kernel]] = [[]]
    for name in module.computations:
        for loop in module.whiles(name):
            if loop.trips == trips:
                kernels = list(hlo.kernels(module, loop.attribute("body")))
                if not any("jvp(" in scope for kernel in kernels for scope in kernel.op_names):
                    found.append(kernels)
    return {(kernel.within, kernel.name) for kernel in max(found, key=len)}


def longest(kernels: Iterable[hlo.Kernel]) -> list[dict[str, Any]]:
    """Return the kernels with the most time in all launches, with the JAX scope of each."""
    found = sorted(kernels, key=lambda kernel: -kernel.count * kernel.microseconds)
    return [
        {
            "kernel": kernel.name,
            "launches": kernel.count,
            "us": microseconds([kernel]),
            "shape": kernel.shape[:60],
            "scope": max(kernel.op_names, default="")[-120:],
        }
        for kernel in found[:LONGEST]
    ]


def chosen(algorithm: str | None, ids: Sequence[str] | None) -> Iterator[Case]:
    """Yield the cases that the options select; a pair that is no case has the plain preset."""
    known = [case for case in CASES if algorithm in (None, case.algorithm)]
    if ids is None:
        yield from known
        return
    for id in ids:
        yield from [case for case in known if case.id == id] or [Case(algorithm or "ppo", id)]


def merged(rows: Iterable[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with `new` in place of the row of the same case, in the order of `CASES`."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row.get("algorithm"), row["id"], row.get("changed")

    order = [(case.algorithm, case.id, dict(case.changed)) for case in CASES]
    both = [*(row for row in rows if key(row) != key(new) and key(row) in order), new]
    return sorted(both, key=lambda row: order.index(key(row)) if key(row) in order else len(order))


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("update_work", __doc__)
    parser.add_argument("--algo", choices=sorted({case.algorithm for case in CASES}))
    parser.add_argument("--ids", nargs="+", help="environments to train in (default: all cases)")
    args = parser.parse_args(argv)
    gpu_work.choose_target(False)
    rows: list[dict[str, Any]] = []
    if args.json and args.json.is_file():
        rows = json.loads(args.json.read_text())["rows"]
    for case in chosen(args.algo, args.ids):
        rows = merged(rows, measure(case.id, "gpu", case.algorithm, **case.changed))
        # Write the file after every case, so that an interrupted run keeps the finished ones.
        instrument.write(args.json, instrument.dated(rows, target=gpu_work.AHEAD))
    print(tabulated(rows, UPDATES).plain())
