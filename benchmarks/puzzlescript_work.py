"""Kernels, bytes and predicted time of PuzzleScript's micro-step on an H200, without a GPU.

    python -m jaxenvs.benchmarks.puzzlescript_work --json benchmarks/results/puzzlescript_work.json

A turn is a loop over micro-steps, each of which applies a rule or moves objects. After the last
micro-step, the end of the turn runs once. The command compiles a batch of turns of 64 games ahead
of time, and counts the kernels of one micro-step and of one end of a turn. It needs no GPU, but
`pip install "jax[cuda13]"`.
"""

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxenvs.core.random import mix, uniform
from jaxenvs.puzzlescript import collection, load
from jaxenvs.puzzlescript.machine import Board, Machine, Packer, Size
from jaxenvs.puzzlescript.machine.sizes import SIZES

from . import gpu_work
from .gpu_model import hlo, kernel_time
from .harness import instrument
from .tables.gpu import MICRO_STEPS
from .tables.text import tabulated

GAMES = 64  # number of games in the batch
# The sizes, first for games without random numbers, then for games with random numbers.
KINDS = {**SIZES, **{f"{name}-random": size._replace(draws=True) for name, size in SIZES.items()}}


def compiled(size: Size, num_envs: int) -> str:
    """Compile a turn of a batch for an absent H200; return its HLO text.

    Raises `RuntimeError` if the CUDA plugin is missing.
    """
    shape: Any = jax.ShapeDtypeStruct
    tables = Packer(load(collection.paths("crates")[0])).tables(size)
    tables = jax.tree.map(lambda x: shape((GAMES, *x.shape), x.dtype), tables)
    numbers, flags = shape((num_envs,), jnp.int32), shape((num_envs,), jnp.bool_)
    planes = shape((num_envs, size.objects, size.side, size.words), jnp.uint32)
    boards = Board(planes, planes, numbers, numbers, flags, flags)

    def play(tables: Any, game: Any, board: Any, action: Any, seed: Any) -> Any:
        def one(game: Any, board: Any, action: Any, seed: Any) -> Any:
            draw = jax.tree_util.Partial(_number, seed)
            return Machine(size).play(tables, game, board, action, draw)

        return jax.vmap(one)(game, board, action, seed)

    arguments = (tables, numbers, boards, numbers, shape((num_envs,), jnp.uint32))
    return gpu_work.compile_ahead(play, arguments).as_text() or ""


def _number(seed: Any, i: Any) -> Any:
    return uniform(mix(seed ^ i.astype(jnp.uint32)))


def loops(module: hlo.Module) -> tuple[list[hlo.Kernel], list[hlo.Kernel]]:
    """Return the kernels of one micro-step, and the other kernels of one turn's loop iteration.

    Raises `ValueError` if the program does not have one loop of unknown length inside another one.
    """
    scope, found = module.entry, []
    for _ in range(2):
        inner = [loop for loop in module.whiles(scope) if loop.trips is None]
        if len(inner) != 1:
            raise ValueError(f"expected one loop of unknown length in {scope}, found {len(inner)}")
        scope = inner[0].attribute("body")
        conditions = hlo.kernels(module, inner[0].attribute("condition"))
        found.append([*hlo.kernels(module, scope), *conditions])
    turn, step = found
    inside = {kernel.name for kernel in step}
    return step, [kernel for kernel in turn if kernel.name not in inside]


def measure(name: str, num_envs: int) -> dict[str, Any]:
    """Compile a batch of turns in the size `name` of `KINDS`; return the record of its work."""
    start = time.perf_counter()
    module = hlo.parse(compiled(KINDS[name], num_envs))
    step, end = (kernel_time.timed(module, part) for part in loops(module))
    return {
        "size": name,
        "num_envs": num_envs,
        "kernels": len(step),
        "end_kernels": len(end),
        "written": sum(kernel.written for kernel in step) / num_envs,
        "read": sum(kernel.read for kernel in step) / num_envs,
        "model_us": sum(kernel.microseconds for kernel in step),
        "compile_seconds": time.perf_counter() - start,
    }


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("puzzlescript_work", __doc__)
    parser.add_argument(
        "--sizes", nargs="+", default=tuple(KINDS), choices=tuple(KINDS), help="sizes"
    )
    parser.add_argument("--batch", type=int, default=4096, help="environments in the batch")
    args = parser.parse_args(argv)
    gpu_work.choose_target(False)
    rows = []
    for name in args.sizes:
        work = measure(name, args.batch)
        rows.append({k: round(v, 1) if isinstance(v, float) else v for k, v in work.items()})
        figures = instrument.dated(rows, target=gpu_work.AHEAD)
        # Write the file after every size, so that an interrupted run keeps the finished sizes.
        instrument.write(args.json, figures)
    print(tabulated(rows, MICRO_STEPS).plain())
