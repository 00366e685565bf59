"""The jobs of `card`, the most important first, by the instruments in this folder.

A job is a function of a `Work`. What it needs beyond the library it imports when it runs, so that
a missing package costs that job alone. `tiny` stands for sizes that a CPU measures in seconds.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from . import card_profiles, card_search, card_steps, card_tests, card_training, kernels, timing
from .card_work import Work

XLA_DEFAULTS = MappingProxyType({"XLA_FLAGS": ""})
WITH_CPU = MappingProxyType({"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})


class Job(NamedTuple):
    """One job: its process ends after `most` minutes at the latest."""

    name: str
    what: str
    run: Callable[[Work], None]
    minutes: float  # estimate, compilation included; of what goes on in slices, of one
    most: float = 9.0  # minutes, compilation included
    needs: tuple[str, ...] = ()  # packages without which it measures nothing
    environment: Mapping[str, str] = MappingProxyType({})  # of its process, on a GPU
    files: int = 1  # that it leaves
    goes_on: bool = False  # also where the code has changed
    alone: bool = False  # after the others: it computes on the device without timing anything


TRAINS = ("chex", "flax", "optax", "orbax.checkpoint", "tyro", "rich", "matplotlib")

JOBS = (
    Job("craft", "steps/s of Craft-Classic", card_steps.craft, 8),
    Job("full", "steps/s of the whole game", card_steps.whole_game, 6),
    Job("full-symbolic", "the whole game compared with craftax", card_steps.whole_game_seen, 6),
    Job("profiles", "kernels and HLO of ten programs", card_profiles.run, 6, files=2),
    Job("training", "steps/s of PPO", card_training.speeds, 4, needs=TRAINS),
    Job("training-full", "steps/s of PPO in the whole game", card_training.full, 6, needs=TRAINS),
    Job("training-rnn", "steps/s of recurrent PPO", card_training.recurrent, 6, needs=TRAINS),
    Job("doorkey", "DoorKey compared with NAVIX and XLand-MiniGrid", card_steps.doorkey, 3),
    Job("rules", "rule worlds compared with XLand-MiniGrid", card_steps.rules, 2),
    Job("babyai", "exact against pool for BabyAI", card_steps.babyai, 5),
    Job("resets", "cost of new worlds, and each kernel, of Craft", card_steps.step_costs, 4),
    Job("korf", "Korf's hundred 15-puzzles, with proof", card_search.korf_hundred, 3),
    Job("puzzles", "steps/s of puzzles, nodes/s of search", card_search.puzzles, 4),
    Job("families", "steps/s of the classes of Grid and BabyAI", card_steps.families, 7),
    Job(
        "billion",
        "1 B steps of PPO, a slice",
        card_training.billion,
        6,
        needs=TRAINS,
        files=2,
        goes_on=True,
    ),
    Job("graphs", "without flags for XLA", card_steps.graphs, 3, environment=XLA_DEFAULTS),
    Job(
        "tests",
        "tests that need a GPU",
        card_tests.run,
        5,
        needs=("pytest",),
        environment=WITH_CPU,
        alone=True,
    ),
)


def shorten() -> None:
    """Let batches begin at once and rollouts be short: figures of `tiny` are no figures."""
    timing.AGE_STEPS, timing.AGE_SECONDS = 1, 0.01
    timing.ROLLOUT_STEPS = (8, 8)
    kernels.LENGTH = 8
