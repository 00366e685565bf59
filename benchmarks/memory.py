"""Device memory of a batch: state, pool, and the peaks of a step and a reset.

    python -m jaxenvs.benchmarks.memory --ids Craft-Classic-Ids-v0 --batch 65536

XLA's compiler reports the memory that two programs need: one resets all environments, the other is
a scan of random steps that reuses the memory of its input state (donation). Both are compiled for
an H200 that exists only as a description (see `gpu_work`) or, with `--here`, for this device. The
scan stores the observations and rewards of all steps, as a learner would; only a single step's
observations and rewards count. The pool has the prepared levels of reset source `pool`, or the
prepared first states of reset source `stock`.
"""

import sys
from collections.abc import Sequence
from typing import Any

import jax
from jax.stages import Compiled

from jaxenvs.core.starts import tree_bytes

from . import gpu_work
from .harness import instrument
from .harness.contestants import Contestant
from .tables.gpu import MEMORY
from .tables.text import tabulated

STEPS = 8  # number of steps of the scan


def measure(contestant: Contestant, here: bool = False) -> dict[str, Any]:
    """Compile a reset and a scan of steps; return figures of their memory, in bytes.

    The figures are the peaks of both programs, and the sizes of state and level pool.
    """
    key = jax.eval_shape(jax.random.key, 0)
    state = jax.eval_shape(contestant.reset, key)
    rollout = contestant.rollout(STEPS)
    stored = jax.eval_shape(rollout, key, state)[1]
    compiled = gpu_work.compile_here if here else gpu_work.compile_ahead
    bytes_of_state, pool = gpu_work.state_bytes(contestant)
    kept = tree_bytes(stored)
    return {
        "env_id": contestant.env_id,
        "num_envs": contestant.num_envs,
        "reset_source": contestant.reset_source,
        "obs": contestant.obs,
        "state": bytes_of_state,
        "pool": pool,
        # Peak memory of a step. The peak of the scan includes the observations and rewards of all
        # steps (`kept`). So subtract `kept`, and add the observations and rewards of one step.
        "step": peak(compiled(rollout, (key, state), 1)) - kept + kept // STEPS,
        # Peak memory of the reset, while the levels of all environments are generated.
        "reset": peak(compiled(contestant.reset, (key,), None)),
    }


def peak(compiled: Compiled) -> int:
    """Return the peak number of bytes that a program needs.

    The peak is the size of arguments, temporaries and results. A result that reuses an argument's
    memory is not counted again.
    """
    found: Any = compiled.memory_analysis()
    sizes = found.argument_size_in_bytes + found.output_size_in_bytes
    return int(sizes - found.alias_size_in_bytes + found.temp_size_in_bytes)


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("memory", __doc__)
    add = parser.add_argument
    add("--ids", nargs="+", default=["Craft-Classic-Ids-v0"], help="default: %(default)s")
    add("--batch", type=int, default=65_536, help="environments in the batch")
    instrument.add_sources(parser)
    add("--here", action="store_true", help="compile for this device, not a described GPU")
    args = parser.parse_args(argv)
    if not args.here:
        gpu_work.choose_target(here=False)
    records = []
    for contestant in gpu_work.asked(args.ids, args.batch, args.reset_source):
        records.append(measure(contestant, args.here))
        name = f"{contestant.env_id}, {contestant.reset_source}"
        print(f"{name}: counted", file=sys.stderr, flush=True)
    print(tabulated(records, MEMORY).plain())
    about = {**gpu_work.report((), args.here), "steps": STEPS, "rows": records}
    instrument.write(args.json, about)
