"""Memory that a batch needs on a device: state, pool, and what a step and a reset take besides.

    python -m jaxenvs.benchmarks.memory --ids Craft-Classic-Ids-v0 --batch 65536

It is the compiler's own account of two programs, for a described H200 (see gpu_work) or, with
`--here`, for the device at hand: making all worlds, and a scan of random steps with the state
donated. What the scan stores of every step is the learner's and is not counted.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from jax.stages import Compiled

from jaxenvs.commands.parser import Parser

from . import gpu_work
from .contestants import Contestant
from .tables import work

STEPS = 8  # of the scan


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of the whole batch."""

    env_id: str
    num_envs: int
    reset_source: str
    obs: str
    state: int
    pool: int
    step: int  # at most while stepping: state, pool, one observation, temporaries
    reset: int  # at most while the worlds are made

    @property
    def most(self) -> int:
        """What the device must have."""
        return max(self.step, self.reset)


def measure(contestant: Contestant, reset_source: str, obs: str, here: bool = False) -> Memory:
    """Compile both programs and read what they need."""
    key = jax.eval_shape(jax.random.key, 0)
    state = jax.eval_shape(contestant.reset, key)
    rollout = contestant.rollout(STEPS)
    stored = jax.eval_shape(rollout, key, state)[1]
    compiled = gpu_work.compile_here if here else gpu_work.compile_ahead
    bytes_of_state, pool = gpu_work.state_bytes(contestant)
    kept = gpu_work.tree_bytes(stored)
    return Memory(
        env_id=contestant.env_id,
        num_envs=contestant.num_envs,
        reset_source=reset_source,
        obs=obs,
        state=bytes_of_state,
        pool=pool,
        step=peak(compiled(rollout, (key, state), 1)) - kept + kept // STEPS,
        reset=peak(compiled(contestant.reset, (key,), None)),
    )


def peak(compiled: Compiled) -> int:
    """Bytes that a program needs: arguments, results (in their place or not) and temporaries."""
    found: Any = compiled.memory_analysis()
    sizes = found.argument_size_in_bytes + found.output_size_in_bytes
    return int(sizes - found.alias_size_in_bytes + found.temp_size_in_bytes)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = Parser("python -m jaxenvs.benchmarks.memory", __doc__)
    add = parser.add_argument
    add("--ids", nargs="+", default=["Craft-Classic-Ids-v0"], help="default: %(default)s")
    add("--batch", type=int, default=65_536, help="environments in the batch")
    add("--reset-source", nargs="+", default=["default"], help="as in gpu_work")
    add("--here", action="store_true", help="compile for this device, not a described GPU")
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    args = parser.parse_args(argv)
    rows = []
    try:
        if not args.here:
            gpu_work.choose_target(here=False)
        for contestant, source, obs in gpu_work.asked(args.ids, args.batch, args.reset_source):
            rows.append(measure(contestant, source, obs, args.here))
            print(f"{contestant.env_id}, {source}: counted", file=sys.stderr, flush=True)
    except (LookupError, RuntimeError, TypeError, ValueError) as error:
        print(error.args[0] if error.args else error, file=sys.stderr)
        return 2
    figures = [dataclasses.asdict(row) for row in rows]
    print(work.memory_needed(figures).plain())
    if args.json:
        target = str(jax.devices()[0]) if args.here else "NVIDIA H200, compiled ahead of time"
        about = {**gpu_work.report(()), "target": target, "steps": STEPS, "rows": figures}
        args.json.write_text(json.dumps(about, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
