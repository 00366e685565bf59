"""The jobs of the command `card`, the most important first.

A job's function takes a `results.Work`, in which it stores its records. It imports optional
packages only when it runs, so a missing package prevents only that job. Tiny runs test the jobs
with sizes that a CPU can measure in seconds.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import kernels, torch_steps
from ..harness import timing
from ..tables.card import HEURISTICS, MAZES
from . import gpu_tests, heuristics, mazes, profiles, search, steps, training
from .results import Work

XLA_DEFAULTS = MappingProxyType({"XLA_FLAGS": ""})
WITH_CPU = MappingProxyType({"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})


class Job(NamedTuple):
    """A measurement that runs in a separate process; `card` kills it after `most` minutes."""

    name: str
    what: str
    run: Callable[[Work], None]
    # Estimated minutes of the job, compilation included. For a job that continues a long training
    # run: minutes of the part (slice) that the job trains.
    minutes: float
    # Time limit in minutes, compilation included, after which the process is killed.
    most: float = 9.0
    needs: tuple[str, ...] = ()  # packages without which the job can measure nothing
    # Environment variables that are set for the job's process if there is a GPU.
    environment: Mapping[str, str] = MappingProxyType({})
    files: int = 1  # number of files that the job writes
    # Whether the job also resumes results that were measured with another version of the code.
    goes_on: bool = False
    # Whether the job runs after all others, one at a time. True for jobs that use the GPU without
    # the device lock, because they measure no times: they would disturb the timing of other jobs.
    alone: bool = False


TRAINS = ("chex", "flax", "optax", "orbax.checkpoint", "tyro", "rich", "matplotlib")
SLICES: dict[str, Any] = {"needs": TRAINS, "files": 2, "goes_on": True}
# Options of jobs that use JAX and PyTorch. By default JAX preallocates most of the GPU's memory,
# which would leave too little for PyTorch.
SHARED: dict[str, Any] = {
    "needs": ("torch", "gymnasium"),
    "environment": MappingProxyType({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
}
ON_BOTH: dict[str, Any] = {"needs": ("pytest",), "environment": WITH_CPU, "alone": True}

# Long runs of Craft: name of the job, environment, setup, number of steps.
CRAFT_RUNS = (
    ("classic-1b", training.CRAFT, "original", 1_000_000_000),
    ("craft-1b", training.WHOLE, "original", 1_000_000_000),
    ("craft-2b-eased", training.WHOLE, "eased", 2_000_000_000),
)

JOBS = (
    Job("craft", "steps/s of Craft-Classic", steps.job("craft"), 8),
    Job("full", "steps/s of the whole game", steps.job("full"), 6),
    Job("full-symbolic", "the whole game compared with craftax", steps.job("full-symbolic"), 6),
    Job("profiles", "kernels and HLO of ten programs", profiles.run, 6, files=2),
    Job("training", "steps/s of PPO", training.speeds, 4, needs=TRAINS),
    Job("training-full", "steps/s of PPO in the whole game", training.full, 6, needs=TRAINS),
    Job("training-rnn", "steps/s of recurrent PPO", training.recurrent, 6, needs=TRAINS),
    Job("doorkey", "DoorKey compared with NAVIX and XLand-MiniGrid", steps.job("doorkey"), 3),
    Job("rules", "rule worlds compared with XLand-MiniGrid", steps.rules, 2),
    Job("babyai", "exact against pool for BabyAI", steps.job("babyai"), 5),
    Job("resets", "cost of new worlds, and each kernel, of Craft", steps.step_costs, 4),
    Job("korf", "Korf's hundred 15-puzzles, with proof", search.korf_hundred, 3),
    Job("puzzles", "steps/s of puzzles, nodes/s of search", search.puzzles, 4),
    Job("families", "steps/s of the classes of Grid and BabyAI", steps.families, 7),
    Job("torch", "steps/s of tensors compared with NumPy", torch_steps.card, 3, **SHARED),
    Job("billion", "1 B steps of PPO, a slice", training.billion, 6, **SLICES),
    *(
        Job(
            name,
            f"recurrent PPO in {id}, setup {setup}, a slice",
            training.setup_run(id, setup, steps),
            6,
            **SLICES,
        )
        for name, id, setup, steps in CRAFT_RUNS
    ),
    *(
        Job(name, f"{title}, a slice", heuristics.job(name), 6, **SLICES)
        for name, title in HEURISTICS.items()
    ),
    *(
        Job(f"maze-{name}", f"{title} in mazes, a slice", mazes.job(name), 6, **SLICES)
        for name, title in MAZES.items()
    ),
    Job("graphs", "without flags for XLA", steps.job("graphs"), 3, environment=XLA_DEFAULTS),
    Job("tests", "tests that need a GPU", gpu_tests.run, 5, **ON_BOTH),
)


def shorten() -> None:
    """Shorten warm-up and rollouts for tiny runs; they only test the jobs, not the speed."""
    timing.AGE_STEPS, timing.AGE_SECONDS = 1, 0.01
    timing.ROLLOUT_STEPS = (8, 8)
    kernels.LENGTH = 8
