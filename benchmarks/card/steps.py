"""Jobs of the command `card` that measure environment steps per second.

They compare the reset sources of this library with each other and with other packages. A reset
source is the origin of the level in which the next episode starts, see `make_vec`.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

import jaxenvs
from jaxenvs.core.vector import usual_source

from .. import gpu_work, kernels, resets
from ..harness import contestants, timing
from ..harness.contestants import NO_RESET
from ..peers import environments as peers
from .results import Records, Work

IDS = "Craft-Classic-Ids-v0"
SYMBOLIC, PIXELS = "Craft-Classic-Symbolic-v0", "Craft-Classic-Pixels-v0"
WHOLE_IDS, WHOLE_SYMBOLIC = "Craft-Ids-v0", "Craft-Symbolic-v0"
DOORKEY = "Grid-DoorKey-8x8-v0"
MISSIONS = ("BabyAI-GoToLocal-v0", "BabyAI-BossLevel-v0", "BabyAI-GoTo-v0")
CRAFTAX = f"craftax (optimistic {peers.RATIO})"
NAVIX, XLAND = "NAVIX", "XLand-MiniGrid"
TASKS = "medium-1m"  # name of XLand-MiniGrid's task set that the job `rules` uses
TOP = 16  # number of GPU kernels of a step that are recorded: the longest-running ones

# Variant of the reset source `pool`: before each rollout, one 16th of the prepared levels is
# replaced. With `pool`, all prepared levels are replaced.
GRADUAL = "pool, a 16th anew"
EXPENSIVE = ("exact", "pool", "stock")  # reset sources for levels that are slow to generate
WITH_BARE = (*EXPENSIVE, NO_RESET)
CHEAP = ("fresh", "pool", "stock")
BABYAI = ("exact", "pool", GRADUAL, "stock")


class Case(NamedTuple):
    """A comparison on one environment id at one batch size.

    This library with each reset source in `sources`, and the packages `others`, are timed in turns.
    """

    id: str
    num_envs: int
    sources: Sequence[str]
    others: Sequence[str] = ()


# Cases of each job, the most important first. The batches of all reset sources of a case are in GPU
# memory at the same time. Of `WHOLE_SYMBOLIC` with 262,144 environments only one batch fits, so
# this case has only the reset source `stock`.
CASES = {
    "craft": (
        Case(IDS, 65_536, WITH_BARE),
        Case(IDS, 262_144, WITH_BARE),
        Case(SYMBOLIC, 4096, EXPENSIVE, (CRAFTAX,)),
        Case(IDS, 4096, WITH_BARE),
        Case(PIXELS, 4096, EXPENSIVE),
        Case(SYMBOLIC, 65_536, EXPENSIVE),
        Case(PIXELS, 16_384, EXPENSIVE),
        Case(IDS, 1024, WITH_BARE),
        Case(IDS, 16_384, WITH_BARE),
        Case(SYMBOLIC, 1024, EXPENSIVE, (CRAFTAX,)),
        Case(PIXELS, 1024, EXPENSIVE, (CRAFTAX,)),
        Case(SYMBOLIC, 16_384, EXPENSIVE),
        Case(SYMBOLIC, 262_144, EXPENSIVE),
    ),
    "full": tuple(Case(WHOLE_IDS, envs, WITH_BARE) for envs in (65_536, 4096, 262_144)),
    "full-symbolic": (
        Case(WHOLE_SYMBOLIC, 4096, EXPENSIVE, (CRAFTAX,)),
        Case(WHOLE_SYMBOLIC, 65_536, EXPENSIVE, (CRAFTAX,)),
        Case(WHOLE_SYMBOLIC, 262_144, ("stock",)),
    ),
    "doorkey": tuple(
        Case(DOORKEY, envs, CHEAP, (NAVIX, XLAND)) for envs in (65_536, 4096, 1_048_576)
    ),
    "babyai": tuple(Case(id, envs, BABYAI) for envs in (4096, 65_536) for id in MISSIONS),
    "graphs": (  # these cases are compiled without the XLA flags of `core.gpu_flags`
        Case(IDS, 4096, ("exact", "pool")),
        Case(IDS, 65_536, ("exact", "pool")),
        Case(SYMBOLIC, 4096, ("exact", "pool")),
        Case(DOORKEY, 4096, ("fresh", "pool")),
        Case(DOORKEY, 65_536, ("fresh", "pool")),
    ),
}
TINY = {
    "craft": Case(IDS, 8, EXPENSIVE),
    "full": Case(WHOLE_IDS, 2, ("stock",)),
    "full-symbolic": Case(WHOLE_SYMBOLIC, 2, ("stock",)),
    "doorkey": Case(DOORKEY, 8, CHEAP),
    "babyai": Case(MISSIONS[0], 8, BABYAI),
    "graphs": Case(DOORKEY, 8, ("fresh",)),
}


def job(name: str) -> Callable[[Work], None]:
    """Return the function of the job `name`, which measures the cases `CASES[name]`.

    A tiny run, which only tests the job, measures only the case `TINY[name]`.
    """

    def run(work: Work) -> None:
        for case in (TINY[name],) if work.tiny else CASES[name]:
            figures = functools.partial(turns, work, *case)
            work.measure(figures, id=case.id, num_envs=case.num_envs)

    return run


def turns(
    work: Work, env_id: str, num_envs: int, sources: Sequence[str], others: Sequence[str] = ()
) -> Records:
    """Measure steps per second of this library's reset sources and of other packages, in turns.

    Return one record for each reset source and package.
    """
    pool = 16 if work.tiny else 4096
    ours = {name: functools.partial(_batch, env_id, num_envs, name, pool) for name in sources}
    theirs = {name: functools.partial(peers.peer, name, env_id, num_envs) for name in others}
    return raced(work, {"id": env_id, "num_envs": num_envs}, {**ours, **theirs})


def raced(work: Work, case: dict[str, Any], builders: Mapping[str, Callable[[], Any]]) -> Records:
    """Compile contestants in parallel, then measure their steps per second in turns.

    A contestant is a batch of environments of this library or of another package. `builders` map
    its name to a function that builds the batch. Return one record for each contestant. A
    contestant that is not installed or fails is stored in `work` with the reason.
    """
    seconds, repeats = (0.01, 2) if work.tiny else (0.25, 5)
    runners = []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        compiling = {}
        for name, build in builders.items():
            try:
                batch = build()
                compiling[name] = batch, pool.submit(timing.lower(batch))
            except ImportError:
                work.miss(name, peers.install(name))
            except (LookupError, RuntimeError, ValueError) as error:
                work.fail(error, **case, contestant=name)
        for name, (batch, programs) in compiling.items():
            try:
                runners.append(timing.BatchRunner(batch, seconds, programs.result()))
            # Most likely, the device has too little memory for this contestant.
            except (RuntimeError, ValueError) as error:
                work.fail(error, **case, contestant=name)
    measured = timing.take_turns(runners, repeats)
    return [flat(each) | launches(r) for each, r in zip(measured, runners, strict=True)]


def _batch(id: str, num_envs: int, source: str, pool: int) -> contestants.Contestant:
    """Return a batch of this library's environments with the reset source `source`.

    With the reset sources `pool` and `GRADUAL`, the level pool has `pool` levels.
    """
    if source not in ("pool", GRADUAL):
        return contestants.ours(id, num_envs, source)
    drawn = pool // 16 if source == GRADUAL else pool
    made = contestants.ours(id, num_envs, "pool", pool_size=pool, refresh_size=drawn)
    return dataclasses.replace(made, reset_source=source)


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its entry `seconds` renamed to `times_s`, the name in result files."""
    return {("times_s" if name == "seconds" else name): value for name, value in record.items()}


def launches(runner: timing.BatchRunner) -> dict[str, int]:
    """Count the GPU kernels that a step of the timed program launches.

    In `kernels`, a loop with an unknown number of iterations counts as one launch.
    `kernels_per_trip` is the number of kernels in these loops if each of them makes one iteration.

    Return {} on a CPU, or if the loop over steps cannot be found in the program's HLO, because
    another loop has equally many iterations or this release of XLA writes HLO differently.
    """
    if jax.default_backend() == "cpu":
        return {}
    try:
        program: Any = runner.rollout
        found = gpu_work.step_kernels(program.as_text(), runner.record.length)
    except (AttributeError, LookupError, TypeError, ValueError):
        return {}
    return {
        "kernels": sum(kernel.count for kernel in found if not kernel.dynamic),
        "kernels_per_trip": sum(kernel.count for kernel in found if kernel.dynamic),
    }


def rules(work: Work) -> None:
    """Measure steps per second of this library's XLand and of XLand-MiniGrid, in turns.

    Each environment of a batch has a different task: a goal, rules and initial tiles.
    """
    from .. import rule_worlds

    for num_envs in (8,) if work.tiny else (4096, 65_536):
        case = {"id": rule_worlds.ID, "num_envs": num_envs}
        builders: dict[str, Callable[[], Any]] = {
            source: functools.partial(rule_worlds.ours, TASKS, num_envs, source)
            for source in (("fresh",) if work.tiny else ("fresh", "exact", "stock"))
        }
        if not work.tiny:
            builders[XLAND] = functools.partial(rule_worlds.package, TASKS, num_envs)
        figures = functools.partial(raced, work, case, builders)
        work.measure(lambda run=figures: [r | {"set": TASKS} for r in run()], **case)


def step_costs(work: Work) -> None:
    """Measure what new levels cost on Craft-Classic-Ids, and how long each kernel takes.

    First, time a step with several time limits (0: no limit). A shorter limit ends more episodes
    per step, so the step generates more levels. Then time the kernels of a step with several reset
    sources.
    """
    env_id, batch = (DOORKEY, 16) if work.tiny else (IDS, 4096)
    for limit in (4,) if work.tiny else (0, 1000, 100):
        work.measure(functools.partial(_resets, work, env_id, batch, limit), id=env_id, limit=limit)
    for num_envs in (batch,) if work.tiny else (batch, 65_536):
        for source in ("exact",) if work.tiny else EXPENSIVE:
            case = {"id": env_id, "num_envs": num_envs, "reset_source": source, "part": "kernels"}
            work.measure(functools.partial(_kernels, case), **case)


def _resets(work: Work, env_id: str, batch: int, limit: int) -> Records:
    asked = argparse.Namespace(
        ids=[env_id],
        batch=batch,
        limits=[limit],
        reset_source=EXPENSIVE,
        seconds=0.01 if work.tiny else 0.2,
        repeats=2 if work.tiny else 5,
    )
    return [flat(record) | {"part": "resets"} for record in resets.measure(asked)]


def _kernels(case: dict[str, Any]) -> Records:
    batch = contestants.ours(case["id"], case["num_envs"], case["reset_source"])
    return kernel_records(case, kernels.profile(batch).record)


def kernel_records(case: dict[str, Any], found: dict[str, Any]) -> Records:
    """Return a record of a profiled step, then a record for each of its `TOP` longest kernels."""
    whole = {"microseconds": found["step"], "busy": found["busy"]}
    longest = list(found["microseconds"].items())[:TOP]
    each = [
        {"kernel": name, "microseconds": us, "launches": found["launches"][name]}
        for name, us in longest
    ]
    return [case | record for record in (whole, *each)]


def families(work: Work) -> None:
    """Measure one id of each environment class of Grid and BabyAI.

    All ids are measured with their default reset source, and then all with the reset source `pool`.
    """
    grids = [id for family in contestants.GRIDS for id in jaxenvs.registry.representatives(family)]
    for source in ("default", "pool"):
        for env_id in grids[4:5] if work.tiny else grids:
            alone(work, env_id, 8 if work.tiny else 4096, source)


def alone(work: Work, env_id: str, num_envs: int, source: str) -> None:
    """Measure this library's batch with one reset source, without other contestants."""
    named = usual_source(jaxenvs.make(env_id)) if source == "default" else source
    figures = functools.partial(turns, work, env_id, num_envs, (named,))
    work.measure(figures, id=env_id, num_envs=num_envs, reset_source=named)
