"""The jobs of `card`, in order of worth: what each measures, by the instruments beside this file.

A job is a function of a `Work`. What it needs beyond the library it imports when it runs, so that
a missing package costs that job alone. `tiny` stands for sizes that a CPU measures in seconds.
"""

import argparse
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax

import jaxenvs

from . import card_tests, card_training, contestants, gpu_work, kernels, peers, resets, timing
from .card_work import Records, Work

IDS = "Craft-Classic-Ids-v0"
SYMBOLIC, PIXELS = "Craft-Classic-Symbolic-v0", "Craft-Classic-Pixels-v0"
DOORKEY = "Grid-DoorKey-8x8-v0"
CRAFTAX = f"craftax (optimistic {peers.RATIO})"
TOP = 16  # kernels of a step that have a record
WHOLE_LOOP = MappingProxyType({"XLA_FLAGS": "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL"})
WITH_CPU = MappingProxyType({"JAX_PLATFORMS": "cuda,cpu"})

# Id, environments, those beside it; what matters most comes first.
CRAFT = (
    (IDS, 4096, ()),
    (IDS, 65_536, ()),
    (SYMBOLIC, 4096, (CRAFTAX,)),
    (PIXELS, 4096, ()),
    (IDS, 262_144, ()),
    (SYMBOLIC, 65_536, ()),
    (PIXELS, 16_384, ()),
    (IDS, 1024, ()),
    (IDS, 16_384, ()),
    (SYMBOLIC, 1024, (CRAFTAX,)),
    (PIXELS, 1024, (CRAFTAX,)),
    (SYMBOLIC, 16_384, ()),
    (SYMBOLIC, 262_144, ()),
)
PUZZLES = (
    "Puzzle-SlidingTile-5x5-v0",
    "Puzzle-Cube-3x3-v0",
    "Puzzle-2048-v0",
    "Puzzle-Maze-10x10-v0",
)
SEARCHED = (
    ("Puzzle-SlidingTile-4x4-v0", 10_000),
    ("Puzzle-SlidingTile-4x4-v0", 100_000),
    ("Puzzle-Cube-2x2-v0", 10_000),
)
MISSIONS = ("BabyAI-GoToLocal-v0", "BabyAI-BossLevel-v0", "BabyAI-GoTo-v0")


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


GRADUAL = "pool, a 16th anew"  # before every rollout; `pool` alone is drawn anew as a whole


def turns(
    work: Work, env_id: str, num_envs: int, sources: Sequence[str], others: Sequence[str] = ()
) -> Records:
    """Steps per second of our reset sources and of other packages, taken in turns."""
    seconds, repeats, pool = (0.01, 2, 16) if work.tiny else (0.25, 5, 4096)
    case = {"id": env_id, "num_envs": num_envs}
    runners = []
    for name in (*sources, *others):
        try:
            if name in others:
                batch: Any = peers.peer(name, env_id, num_envs)
            else:
                batch = _batch(env_id, num_envs, name, pool)
            runners.append(timing.BatchRunner(batch, seconds))
        except ImportError:
            work.miss(name, peers.install(name))
        except RuntimeError as error:  # out of memory, most likely
            work.fail(error, **case, contestant=name)
    measured = timing.take_turns(runners, repeats)
    return [_flat(each) | launches(r) for each, r in zip(measured, runners, strict=True)]


def _batch(id: str, num_envs: int, source: str, pool: int) -> contestants.Contestant:
    """This library's batch with a pool of that many levels, if it has one."""
    plain, drawn = ("pool", pool // 16) if source == GRADUAL else (source, pool)
    made = contestants.ours(id, num_envs, plain, pool_size=pool, refresh_size=drawn)
    return dataclasses.replace(made, reset_source=source)


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """A record whose raw times have the name that all jobs give them."""
    return {("times_s" if name == "seconds" else name): value for name, value in record.items()}


def launches(runner: timing.BatchRunner) -> dict[str, int]:
    """Kernels of a step, counted in the very program that was timed; nothing on a CPU."""
    if jax.default_backend() == "cpu":
        return {}
    try:
        program: Any = runner.rollout
        found = gpu_work.step_kernels(program.as_text(), runner.record.length)
    except (AttributeError, LookupError, TypeError, ValueError):  # another loop has as many trips,
        return {}  # or the text of the program is not as of the releases known
    return {
        "kernels": sum(kernel.count for kernel in found if not kernel.dynamic),
        "kernels_per_trip": sum(kernel.count for kernel in found if kernel.dynamic),
    }


def craft(work: Work) -> None:
    """Craft-Classic, three observations, 1,024 to 262,144 environments, beside craftax."""
    for env_id, num_envs, others in ((IDS, 8, ()),) if work.tiny else CRAFT:
        figures = functools.partial(turns, work, env_id, num_envs, ("exact", "pool"), others)
        work.measure(figures, id=env_id, num_envs=num_envs)


def step_costs(work: Work) -> None:
    """Craft-Classic-Ids: `resets` by how many episodes end, and the time of each kernel."""
    env_id, batch = (DOORKEY, 16) if work.tiny else (IDS, 4096)
    for limit in (4,) if work.tiny else (0, 1000, 100):
        work.measure(functools.partial(_resets, work, env_id, batch, limit), id=env_id, limit=limit)
    for num_envs in (batch,) if work.tiny else (batch, 65_536):
        for source in ("exact",) if work.tiny else ("exact", "pool"):
            case = {"id": env_id, "num_envs": num_envs, "reset_source": source, "part": "kernels"}
            work.measure(functools.partial(_kernels, case), **case)


def _resets(work: Work, env_id: str, batch: int, limit: int) -> Records:
    asked = argparse.Namespace(
        ids=[env_id],
        batch=batch,
        limits=[limit],
        reset_source=("exact", "pool"),
        seconds=0.01 if work.tiny else 0.2,
        repeats=2 if work.tiny else 5,
    )
    return [_flat(record) | {"part": "resets"} for record in resets.measure(asked)]


def _kernels(case: dict[str, Any]) -> Records:
    """A record for the whole step, then one for each of the longest kernels."""
    batch = contestants.ours(case["id"], case["num_envs"], case["reset_source"])
    found = kernels.measure(batch)
    whole = {"microseconds": found["step"], "busy": found["busy"]}
    longest = list(found["microseconds"].items())[:TOP]
    each = [
        {"kernel": name, "microseconds": us, "launches": found["launches"][name]}
        for name, us in longest
    ]
    return [case | record for record in (whole, *each)]


def families(work: Work) -> None:
    """One id of each class of Grid and BabyAI, by its default source, then from a pool."""
    grids = [id for family in contestants.GRIDS for id in jaxenvs.registry.representatives(family)]
    for source in ("default", "pool"):
        for env_id in grids[4:5] if work.tiny else grids:
            _alone(work, env_id, 8 if work.tiny else 4096, source)


def _alone(work: Work, env_id: str, num_envs: int, source: str) -> None:
    named = jaxenvs.spec(env_id).reset_source if source == "default" else source
    figures = functools.partial(turns, work, env_id, num_envs, (named,))
    work.measure(figures, id=env_id, num_envs=num_envs, reset_source=named)


def puzzles(work: Work) -> None:
    """Nodes per second of A* on the 15-puzzle and the 2x2x2 cube, steps per second of puzzles."""
    for env_id, batch_size in (("Puzzle-SlidingTile-3x3-v0", 64),) if work.tiny else SEARCHED:
        figures = functools.partial(_searched, work, env_id, batch_size)
        work.measure(figures, id=env_id, batch_size=batch_size)
    for num_envs in (8,) if work.tiny else (4096, 65_536):
        for env_id in PUZZLES[:1] if work.tiny else PUZZLES:
            _alone(work, env_id, num_envs, "default")


def _searched(work: Work, env_id: str, batch_size: int) -> Records:
    from . import searching

    levels, budget, repeats = (1, 100_000, 1) if work.tiny else (4, 8_000_000, 3)
    found = _flat(searching.measure(env_id, batch_size, levels, budget, 0, repeats))
    return [{"id": found.pop("env_id"), "algorithm": "astar", **found}]


def babyai(work: Work) -> None:
    """BabyAI's levels: `exact`, and pools of which all or a 16th is drawn before a rollout."""
    for num_envs in (8,) if work.tiny else (4096, 65_536):
        for env_id in MISSIONS[:1] if work.tiny else MISSIONS:
            figures = functools.partial(turns, work, env_id, num_envs, ("exact", "pool", GRADUAL))
            work.measure(figures, id=env_id, num_envs=num_envs)


def graphs(work: Work) -> None:
    """Programs of `craft` and `families` with their whole loop as one CUDA graph."""
    asked = ((IDS, 4096), (IDS, 65_536), (SYMBOLIC, 4096), (DOORKEY, 4096), (DOORKEY, 65_536))
    for env_id, num_envs in ((DOORKEY, 8),) if work.tiny else asked:
        sources = ("fresh" if env_id == DOORKEY else "exact", "pool")[: 1 if work.tiny else 2]
        figures = functools.partial(turns, work, env_id, num_envs, sources)
        work.measure(figures, id=env_id, num_envs=num_envs)


TRAINS = ("chex", "flax", "optax", "orbax.checkpoint", "tyro", "rich", "matplotlib")

JOBS = (
    Job("craft", "steps/s of Craft-Classic", craft, 8),
    Job("training", "steps/s of PPO", card_training.speeds, 4, needs=TRAINS),
    Job("resets", "cost of new worlds, and each kernel, of Craft", step_costs, 4),
    Job("families", "steps/s of the classes of Grid and BabyAI", families, 7),
    Job("puzzles", "steps/s of puzzles, nodes/s of search", puzzles, 4),
    Job(
        "billion",
        "1 B steps of PPO, a slice",
        card_training.billion,
        6,
        needs=TRAINS,
        files=2,
        goes_on=True,
    ),
    Job(
        "tests", "tests that need a GPU", card_tests.run, 5, needs=("pytest",), environment=WITH_CPU
    ),
    Job("babyai", "exact against pool for BabyAI", babyai, 5),
    Job("graphs", "the loop as one CUDA graph", graphs, 3, environment=WHOLE_LOOP),
)


def shorten() -> None:
    """Let batches begin at once and rollouts be short: figures of `tiny` are no figures."""
    timing.AGE_STEPS, timing.AGE_SECONDS = 1, 0.01
    timing.ROLLOUT_STEPS = (8, 8)
    kernels.LENGTH = 8
