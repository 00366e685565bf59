"""Jobs of `card` that measure steps per second: ours from each reset source, and other packages."""

import argparse
import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

import jaxenvs
from jaxenvs.core.vector import RESET_SOURCES, usual_source

from . import contestants, gpu_work, kernels, peers, resets, timing
from .card_work import Records, Work
from .contestants import NO_RESET

IDS = "Craft-Classic-Ids-v0"
SYMBOLIC, PIXELS = "Craft-Classic-Symbolic-v0", "Craft-Classic-Pixels-v0"
WHOLE_IDS, WHOLE_SYMBOLIC = "Craft-Ids-v0", "Craft-Symbolic-v0"
DOORKEY = "Grid-DoorKey-8x8-v0"
CRAFTAX = f"craftax (optimistic {peers.RATIO})"
NAVIX, XLAND = "NAVIX", "XLand-MiniGrid"
TASKS = "medium-1m"  # set of tasks of the rule worlds
TOP = 16  # kernels of a step that have a record

# Id, environments, other packages; the most important first.
CRAFT = (
    (IDS, 65_536, ()),
    (IDS, 262_144, ()),
    (SYMBOLIC, 4096, (CRAFTAX,)),
    (IDS, 4096, ()),
    (PIXELS, 4096, ()),
    (SYMBOLIC, 65_536, ()),
    (PIXELS, 16_384, ()),
    (IDS, 1024, ()),
    (IDS, 16_384, ()),
    (SYMBOLIC, 1024, (CRAFTAX,)),
    (PIXELS, 1024, (CRAFTAX,)),
    (SYMBOLIC, 16_384, ()),
    (SYMBOLIC, 262_144, ()),
)
WHOLE = (
    (WHOLE_IDS, 65_536, ()),
    (WHOLE_IDS, 4096, ()),
    (WHOLE_IDS, 262_144, ()),
)
WHOLE_SEEN = (
    (WHOLE_SYMBOLIC, 4096, (CRAFTAX,)),
    (WHOLE_SYMBOLIC, 65_536, (CRAFTAX,)),
    (WHOLE_SYMBOLIC, 262_144, ()),
)
LARGEST = WHOLE_SYMBOLIC, 262_144  # so large that there is room for one source only
MISSIONS = ("BabyAI-GoToLocal-v0", "BabyAI-BossLevel-v0", "BabyAI-GoTo-v0")


GRADUAL = "pool, a 16th anew"  # before every rollout; `pool` alone is drawn anew as a whole


def with_stock(*sources: str) -> tuple[str, ...]:
    """These reset sources, and `stock` before `none` where this version has it."""
    stock = ("stock",) if "stock" in RESET_SOURCES else ()
    rest = tuple(source for source in sources if source != NO_RESET)
    return (*rest, *stock, *(source for source in sources if source == NO_RESET))


def turns(
    work: Work, env_id: str, num_envs: int, sources: Sequence[str], others: Sequence[str] = ()
) -> Records:
    """Steps per second of our reset sources and of other packages, taken in turns."""
    pool = 16 if work.tiny else 4096
    ours = {name: functools.partial(_batch, env_id, num_envs, name, pool) for name in sources}
    theirs = {name: functools.partial(peers.peer, name, env_id, num_envs) for name in others}
    return raced(work, {"id": env_id, "num_envs": num_envs}, {**ours, **theirs})


def raced(work: Work, case: dict[str, Any], builders: Mapping[str, Callable[[], Any]]) -> Records:
    """Steps per second of all contestants of a case, taken in turns; note who is missing.

    Their programs are compiled side by side.
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
            except (RuntimeError, ValueError) as error:  # out of memory, most likely
                work.fail(error, **case, contestant=name)
    measured = timing.take_turns(runners, repeats)
    return [flat(each) | launches(r) for each, r in zip(measured, runners, strict=True)]


def _batch(id: str, num_envs: int, source: str, pool: int) -> contestants.Contestant:
    """This library's batch; a pool has that many levels."""
    if source not in ("pool", GRADUAL):
        return contestants.ours(id, num_envs, source)
    drawn = pool // 16 if source == GRADUAL else pool
    made = contestants.ours(id, num_envs, "pool", pool_size=pool, refresh_size=drawn)
    return dataclasses.replace(made, reset_source=source)


def flat(record: dict[str, Any]) -> dict[str, Any]:
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
    """Craft-Classic, three observations, 1,024 to 262,144 environments, compared with craftax."""
    _games(work, ((IDS, 8, ()),) if work.tiny else CRAFT)


def whole_game(work: Work) -> None:
    """The whole game, observed as ids: 4,096 to 262,144 environments."""
    _games(work, ((WHOLE_IDS, 2, ()),) if work.tiny else WHOLE)


def whole_game_seen(work: Work) -> None:
    """The whole game with its symbolic observation, compared with craftax."""
    _games(work, ((WHOLE_SYMBOLIC, 2, ()),) if work.tiny else WHOLE_SEEN)


def _games(work: Work, cases: Sequence[tuple[str, int, Sequence[str]]]) -> None:
    for env_id, num_envs, others in cases:
        bare = (NO_RESET,) if env_id in (IDS, WHOLE_IDS) and not work.tiny else ()
        sources = with_stock("exact", "pool", *bare)
        if (work.tiny and env_id != IDS) or (env_id, num_envs) == LARGEST:
            sources = sources[-1:]
        figures = functools.partial(turns, work, env_id, num_envs, sources, others)
        work.measure(figures, id=env_id, num_envs=num_envs)


def doorkey(work: Work) -> None:
    """DoorKey compared with the other packages in JAX, up to a million environments."""
    for num_envs in (8,) if work.tiny else (65_536, 4096, 1_048_576):
        asked = with_stock("fresh", "pool"), () if work.tiny else (NAVIX, XLAND)
        figures = functools.partial(turns, work, DOORKEY, num_envs, *asked)
        work.measure(figures, id=DOORKEY, num_envs=num_envs)


def rules(work: Work) -> None:
    """Rule worlds, a task for each environment, compared with the package."""
    from . import rule_worlds

    for num_envs in (8,) if work.tiny else (4096, 65_536):
        case = {"id": rule_worlds.ID, "num_envs": num_envs}
        builders: dict[str, Callable[[], Any]] = {
            source: functools.partial(rule_worlds.ours, TASKS, num_envs, source)
            for source in ("fresh", *(() if work.tiny else with_stock("exact")))
        }
        if not work.tiny:
            builders[XLAND] = functools.partial(rule_worlds.package, TASKS, num_envs)
        figures = functools.partial(raced, work, case, builders)
        work.measure(lambda run=figures: [r | {"set": TASKS} for r in run()], **case)


def step_costs(work: Work) -> None:
    """Craft-Classic-Ids: `resets` by how many episodes end, and the time of each kernel."""
    env_id, batch = (DOORKEY, 16) if work.tiny else (IDS, 4096)
    for limit in (4,) if work.tiny else (0, 1000, 100):
        work.measure(functools.partial(_resets, work, env_id, batch, limit), id=env_id, limit=limit)
    for num_envs in (batch,) if work.tiny else (batch, 65_536):
        for source in ("exact",) if work.tiny else with_stock("exact", "pool"):
            case = {"id": env_id, "num_envs": num_envs, "reset_source": source, "part": "kernels"}
            work.measure(functools.partial(_kernels, case), **case)


def _resets(work: Work, env_id: str, batch: int, limit: int) -> Records:
    asked = argparse.Namespace(
        ids=[env_id],
        batch=batch,
        limits=[limit],
        reset_source=with_stock("exact", "pool"),
        seconds=0.01 if work.tiny else 0.2,
        repeats=2 if work.tiny else 5,
    )
    return [flat(record) | {"part": "resets"} for record in resets.measure(asked)]


def _kernels(case: dict[str, Any]) -> Records:
    batch = contestants.ours(case["id"], case["num_envs"], case["reset_source"])
    return kernel_records(case, kernels.measure(batch))


def kernel_records(case: dict[str, Any], found: dict[str, Any]) -> Records:
    """A record for the whole step, then one for each of the longest kernels of a profile."""
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
            alone(work, env_id, 8 if work.tiny else 4096, source)


def alone(work: Work, env_id: str, num_envs: int, source: str) -> None:
    named = usual_source(jaxenvs.make(env_id)) if source == "default" else source
    figures = functools.partial(turns, work, env_id, num_envs, (named,))
    work.measure(figures, id=env_id, num_envs=num_envs, reset_source=named)


def babyai(work: Work) -> None:
    """BabyAI's levels: `exact`, and pools of which all or a 16th is drawn before a rollout."""
    asked = with_stock("exact", "pool", GRADUAL)
    for num_envs in (8,) if work.tiny else (4096, 65_536):
        for env_id in MISSIONS[:1] if work.tiny else MISSIONS:
            figures = functools.partial(turns, work, env_id, num_envs, asked)
            work.measure(figures, id=env_id, num_envs=num_envs)


def graphs(work: Work) -> None:
    """Programs of `craft` and `families` without the flags of `core.gpu_flags`."""
    asked = ((IDS, 4096), (IDS, 65_536), (SYMBOLIC, 4096), (DOORKEY, 4096), (DOORKEY, 65_536))
    for env_id, num_envs in ((DOORKEY, 8),) if work.tiny else asked:
        sources = ("fresh" if env_id == DOORKEY else "exact", "pool")[: 1 if work.tiny else 2]
        figures = functools.partial(turns, work, env_id, num_envs, sources)
        work.measure(figures, id=env_id, num_envs=num_envs)
