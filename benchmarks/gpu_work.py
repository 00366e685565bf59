"""Kernels, bytes, predicted time and state size of an environment step on an H200, without a GPU.

XLA compiles a scan of random steps ahead of time for a GPU that exists only as a description. The
scan stores every observation and reward. `gpu_model` then counts kernels and bytes in the compiled
HLO. The command needs `pip install "jax[cuda13]"` (4 GB, best in a separate environment), but no
GPU:

    python -m jaxenvs.benchmarks.gpu_work --ids Grid-DoorKey-8x8-v0 --reset-source pool --verbose

`--verbose` lists the kernels, the longest by predicted time first. `--here` compiles for the GPU of
this machine instead.
"""

import argparse
import contextlib
import functools
import importlib.util
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Compiled, Traced

import jaxenvs
from jaxenvs.commands.parser import Parser
from jaxenvs.core.starts import tree_bytes

from .gpu_model import hlo, kernel_time
from .harness import contestants, instrument
from .harness.contestants import Contestant
from .peers import environments as peers
from .tables.gpu import counted

PLUGINS = tuple(name.replace("-", "_") for name in contestants.CUDA_PLUGINS)
FIX = 'gpu_work needs the CUDA compiler (no GPU): pip install "jax[cuda13]"'
# Number of steps of the scan. It identifies the scan in the HLO, because no other loop has this
# number of iterations.
LENGTH = 61
AHEAD = "NVIDIA H200, compiled ahead of time"
# Options of XLA that save the time to optimise machine code.
QUICK = {"xla_backend_optimization_level": 0, "xla_gpu_disable_gpuasm_optimizations": True}


def compile_rollout(contestant: Contestant, length: int = LENGTH, here: bool = False) -> str:
    """Compile a rollout for an absent H200 or, with `here`, for this device; return its HLO text.

    Raises `RuntimeError` if the CUDA plugin is missing.
    """
    key = jax.eval_shape(jax.random.key, 0)
    state = jax.eval_shape(contestant.reset, key)
    compiled = compile_here if here else compile_ahead
    return compiled(contestant.rollout(length), (key, state), donate=1).as_text() or ""


def compile_here(function: Callable, shapes: Sequence[Any], donate: int | None = None) -> Compiled:
    """Return `function` compiled for arguments of these shapes and for this machine's device.

    `donate` is the index of the argument whose memory the result may reuse.
    """
    return jax.jit(function, donate_argnums=donate).lower(*shapes).compile()


def compile_ahead(function: Callable, shapes: Sequence[Any], donate: int | None = None) -> Compiled:
    """Return `function` compiled for arguments of these shapes and for an H200.

    The machine needs no GPU, because the H200 is only a description (see `described`). `donate` is
    the index of the argument whose memory the result may reuse. Raises `RuntimeError` if the CUDA
    plugin is missing.
    """
    mesh = described(1, "device")
    whole = (NamedSharding(mesh, PartitionSpec()),) * len(shapes)
    return finish(jax.jit(function, in_shardings=whole, donate_argnums=donate).trace(*shapes))


# Cache the mesh, because each new description has new device objects, which JAX treats as different
# devices.
@functools.cache
def described(count: int, axis: str) -> Mesh:
    """Return a mesh of `count` H200s of one host that exist only as a description.

    JAX can compile programs for this mesh, but cannot run them.

    Raises `RuntimeError` if the CUDA plugin is missing.
    """
    if not has_compiler():
        raise RuntimeError(FIX)
    target = files("jaxenvs.benchmarks").joinpath("h200_target.txtpb").read_text()
    topology = topologies.get_topology_desc(
        "", platform="cuda", target_config=target, topology=f"1x1x{count}"
    )
    return Mesh(np.array(topology.devices), (axis,))


def finish(traced: Traced) -> Compiled:
    """Compile a function that was traced for GPUs that exist only as a description.

    The compilation cache is not used. Machine code is not optimised, because nothing runs it; the
    HLO, its schedule and its memory are the same as usual.
    """
    with _no_cache():
        return traced.lower(lowering_platforms=("cuda",)).compile(compiler_options=QUICK)


@contextlib.contextmanager
def _no_cache() -> Iterator[None]:
    """Disable JAX's compilation cache, which cannot load programs for an absent GPU."""
    enabled = jax.config.values["jax_enable_compilation_cache"]
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()  # JAX reads the flag only when it initialises the cache
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", enabled)
        compilation_cache.reset_cache()


def has_compiler() -> bool:
    """Return whether JAX's CUDA plugin, which contains the GPU compiler, is installed."""
    return any(importlib.util.find_spec(name) for name in PLUGINS)


def step_kernels(text: str, length: int = LENGTH) -> list[hlo.Kernel]:
    """Return the kernels that one step launches, with predicted times, from a rollout's HLO text.

    `length` is the number of steps of the rollout.
    """
    module = hlo.parse(text)
    scans = [loop for loop in module.whiles(module.entry) if loop.trips == length]
    if len(scans) != 1:
        raise ValueError(f"expected one loop of {length} trips in the program, found {len(scans)}")
    return kernel_time.timed(module, hlo.kernels(module, scans[0].attribute("body")))


def measure(contestant: Contestant, here: bool = False) -> tuple[dict[str, Any], str]:
    """Compile a rollout and count the work of one step; return the record and the HLO.

    Numbers of kernels and predicted times (microseconds) are for the whole batch; bytes are per
    environment. In `kernels` and `model_us`, a loop whose number of iterations is unknown counts as
    one launch, without the kernels in the loop. `kernels_per_trip` and `model_us_per_trip` are the
    work of these loops if each of them makes one iteration.
    """
    start = time.perf_counter()
    text = compile_rollout(contestant, here=here)
    seconds = time.perf_counter() - start
    once: list[hlo.Kernel] = []
    trip: list[hlo.Kernel] = []
    for kernel in step_kernels(text):
        (trip if kernel.dynamic else once).append(kernel)
    envs = contestant.num_envs
    state, pool = state_bytes(contestant)
    record: dict[str, Any] = {
        "name": contestant.name,
        "env_id": contestant.env_id,
        "num_envs": envs,
        "reset_source": contestant.reset_source,
        "obs": contestant.obs,
        "kernels": _launches(once),
        # Part of `kernels` that belongs to the scan around the environment's step: step counter,
        # keys, actions, stores.
        "loop_kernels": _launches(k for k in once if origin(k) == "loop"),
        # Part of `kernels` that only copies arrays.
        "copies": _launches(k for k in once if origin(k) == "copy"),
        "kernels_per_trip": _launches(trip),
        "written": sum(k.count * k.written for k in once) / envs,
        "read": sum(k.count * k.read for k in once) / envs,
        "written_per_trip": sum(k.count * k.written for k in trip) / envs,
        "read_per_trip": sum(k.count * k.read for k in trip) / envs,
        "state": state / envs,
        # Bytes of the level pool, which the batch shares, divided by the number of environments.
        "pool": pool / envs,
        "model_us": _microseconds(once),
        "model_us_per_trip": _microseconds(trip),
        "compile_seconds": seconds,
    }
    return record, text


def state_bytes(contestant: Contestant) -> tuple[int, int]:
    """Return the sizes in bytes of the batch's state, and of the levels or first states it shares.

    With the reset sources `pool` and `stock`, the batch shares prepared levels or first states.
    """
    state = jax.eval_shape(contestant.reset, jax.random.key(0))
    is_batch = isinstance(state, jaxenvs.VectorState)
    shared = tree_bytes((state.pool, state.stock)) if is_batch else 0
    return tree_bytes(state) - shared, shared


def origin(kernel: hlo.Kernel) -> str:
    """Return the part of a rollout that launches a kernel: `step`, `loop` or `copy`.

    `step` is the environment's step, `loop` the scan around it (step counter, keys, actions,
    stores), and `copy` a plain copy of an array.
    """
    if kernel.opcode.startswith("copy"):
        return "copy"
    scopes = [contestants.STEP_SCOPE in name for name in kernel.op_names]
    return "step" if any(scopes) else "loop"


def kernel_list(kernels: Iterable[hlo.Kernel], num_envs: int) -> str:
    """Return one line for each kernel, the kernel with the longest total time first.

    A line has the predicted microseconds of all launches, the `origin`, the bytes written and read
    per environment, the name, the shape of the result, and the fused JAX primitives.
    """
    lines = []
    for kernel in sorted(kernels, key=lambda kernel: -kernel.count * kernel.microseconds):
        times = f" x{kernel.count}" if kernel.count > 1 else ""
        once = " (per trip)" if kernel.dynamic else ""
        steps = {re.sub(r"\[.*", "", name.rsplit("/", 1)[-1]) for name in kernel.op_names}
        moved = f"{kernel.written / num_envs:8.1f} w {kernel.read / num_envs:8.1f} r"
        what = f"{kernel.name}{times}{once} {kernel.shape[:70]}"
        time = f"{kernel.count * kernel.microseconds:8.1f} us"
        lines.append(
            f"{time}  {origin(kernel):4} {moved}  {what}  [{' '.join(sorted(steps))[:160]}]"
        )
    return "\n".join(lines)


def _launches(kernels: Iterable[hlo.Kernel]) -> int:
    return sum(kernel.count for kernel in kernels)


def _microseconds(kernels: Iterable[hlo.Kernel]) -> float:
    return sum(kernel.count * kernel.microseconds for kernel in kernels)


def _parser() -> Parser:
    parser = instrument.parser("gpu_work", __doc__)
    add = parser.add_argument
    add("--ids", nargs="+", default=["Grid-DoorKey-8x8-v0"], help="ids, `families` or `all`")
    add("--batch", type=int, default=4096, help="environments in the batch")
    instrument.add_sources(parser)
    add("--obs", nargs="+", default=[None], help="values of `obs` (default: as `jaxenvs bench`)")
    add("--here", action="store_true", help="compile for this machine's GPU, not a described one")
    add("--peers", action="store_true", help="also count installed peers")
    add("--dump-hlo", type=Path, metavar="DIR", help="write the compiled programs to DIR")
    add(
        "--verbose",
        action="store_true",
        help="list every kernel, the longest by predicted time first",
    )
    return parser


def _contestants(args: argparse.Namespace) -> Iterator[Contestant]:
    """Yield the batches of environments that the command-line options select."""
    for env_id in contestants.chosen(args.ids):
        yield from asked([env_id], args.batch, args.reset_source, args.obs)
        for other in (each for each in peers.of(env_id) if each.in_jax) if args.peers else ():
            try:
                yield other.build(other.name, env_id, args.batch)
            except ImportError:
                print(f"{other.name}: {other.install}", file=sys.stderr)
            except LookupError as error:
                print(error.args[0], file=sys.stderr)


def asked(
    ids: Sequence[str], batch: int, sources: Sequence[str], obs: Sequence[str | None] = (None,)
) -> Iterator[Contestant]:
    """Yield a batch of this library for each combination of id, observation and reset source."""
    for env_id, wanted, source in itertools.product(contestants.chosen(list(ids)), obs, sources):
        yield contestants.ours(env_id, batch, source, **contestants.obs_field(env_id, wanted))


def report(records: Iterable[dict[str, Any]], here: bool = False) -> dict[str, Any]:
    """Return a header (date, versions, target GPU) with the records, whose floats are rounded."""
    figures = [
        {k: round(v, 1) if isinstance(v, float) else v for k, v in record.items()}
        for record in records
    ]
    target = f"{jax.devices()[0].device_kind}, compiled on it" if here else AHEAD
    policy = "uniform random actions; every observation and reward is stored"
    return instrument.dated(figures, target=target, policy=policy)


def choose_target(here: bool) -> None:
    """Prepare JAX to compile for a described H200 or, with `here`, for this machine's GPU.

    For a described H200, let JAX load the CUDA plugin without a GPU, and use the CPU as the default
    device.

    Raises `RuntimeError` if the CUDA compiler is missing. With `here`, also raises it if JAX finds
    no GPU.
    """
    if not has_compiler():
        raise RuntimeError(FIX)
    if here:
        if jax.default_backend() != "gpu":
            raise RuntimeError("gpu_work --here: jax finds no GPU; leave --here out")
        return
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    if not os.environ.get("JAX_PLATFORMS"):
        jax.config.update("jax_platforms", "cpu")


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    args = _parser().parse_args(argv)
    choose_target(args.here)
    records = []
    for contestant in _contestants(args):
        work, text = measure(contestant, args.here)
        records.append(work)
        title = [work[key] for key in ("name", "env_id", "reset_source", "obs")]
        if args.dump_hlo:
            args.dump_hlo.mkdir(parents=True, exist_ok=True)
            (args.dump_hlo / f"{'-'.join(title)}.hlo").write_text(text)
        if args.verbose:
            print(*title)
            print(kernel_list(step_kernels(text), work["num_envs"]))
    figures = report(records, args.here)
    print(counted(figures["rows"]).plain())
    instrument.write(args.json, figures)
