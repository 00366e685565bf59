"""Kernels and bytes of a whole PPO update on an H200, compiled without a GPU.

    python -m jaxenvs.benchmarks.update_work --json benchmarks/results/update_work.json

The bytes are those that the kernels write and read. The counts cover the whole training program:
environment, policy and learning (`gpu_work` counts the environment's steps only). A conditional
counts as its branch with the most kernel launches. A loop whose number of iterations is unknown
counts as one iteration. The command needs no GPU, but `pip install "jax[cuda13]" ".[train]"`.
"""

import time
from collections.abc import Sequence
from typing import Any

import jaxenvs
from jaxenvs.baselines import presets, registry
from jaxenvs.baselines.on_policy import ppo

from . import gpu_work, scaling
from .gpu_model import hlo
from .harness import instrument
from .tables.gpu import UPDATES
from .tables.text import tabulated

IDS = (
    "Grid-DoorKey-8x8-v0",
    "BabyAI-GoToLocal-v0",
    "Craft-Classic-Ids-v0",
    "Puzzle-SlidingTile-4x4-v0",
)


def measure(id: str, preset: str | None = "gpu", **changed: Any) -> dict[str, Any]:
    """Compile one PPO update with a preset; return the numbers of its kernels and bytes.

    `changed` overrides settings of the preset.
    """
    env = jaxenvs.make(id)
    # A reset source says where the levels of new episodes come from. Choose the default of a GPU:
    # `stock` replaces `exact`, and None keeps any other default of the environment. JAX sees no GPU
    # here, so `usual_source` in `jaxenvs.core.vector` would choose `exact`.
    source = "stock" if env.reset_source == "exact" else None
    tuned = {"reset_source": source, **presets.preset(id, preset).settings, "chunk": 1, **changed}
    settings = ppo.Settings(**tuned)
    agent = registry.build("ppo", env, settings, scaling.Described(1))
    begun = time.perf_counter()
    module = hlo.parse(scaling.compile_chunk(agent))
    launched = list(hlo.kernels(module, module.entry))
    shown = ("num_envs", "rollout_steps", "epochs", "minibatches", "bfloat16", "unroll", "hidden")
    return {
        "id": id,
        "preset": preset or "usual",
        **{name: getattr(settings, name) for name in shown},
        "reset_source": agent.env.reset_source,
        "kernels": sum(kernel.count for kernel in launched),
        "bytes": sum(kernel.count * (kernel.written + kernel.read) for kernel in launched),
        "conditions": sum(k.count for k in launched if k.opcode == "conditional"),
        "compile_seconds": round(time.perf_counter() - begun, 1),
    }


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("update_work", __doc__)
    parser.add_argument("--ids", nargs="+", default=IDS, help="environments to train in")
    args = parser.parse_args(argv)
    gpu_work.choose_target(False)
    rows: list[dict[str, Any]] = []
    for id in args.ids:
        rows.append(measure(id))
        figures = instrument.dated(rows, target=gpu_work.AHEAD)
        # Write the file after every id, so that an interrupted run keeps the finished ids.
        instrument.write(args.json, figures)
    print(tabulated(rows, UPDATES).plain())
