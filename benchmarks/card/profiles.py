"""Job of the command `card` that profiles the programs in `PROGRAMS` and stores their HLO.

The job's JSON has the longest-running kernels of each program. A second file, `.hlo.json.gz`, maps
`ID-ENVS-SOURCE` to the whole profile and the optimised HLO of a program; `kernel_model --record`
reads it.
"""

import functools
from collections.abc import Callable
from pathlib import Path

from .. import kernels, rule_worlds
from ..harness import contestants
from ..harness.contestants import NO_RESET, Contestant
from .results import Records, Work
from .steps import DOORKEY, IDS, MISSIONS, SYMBOLIC, TASKS, WHOLE_IDS, WITH_BARE, kernel_records

FULL = 65_536  # number of environments that is enough to use the whole GPU
ENDING = ".hlo.json.gz"
PROGRAMS = (  # programs to profile (id, number of environments, reset source), by importance
    *((IDS, FULL, source) for source in WITH_BARE),
    *((WHOLE_IDS, FULL, source) for source in WITH_BARE),
    (SYMBOLIC, FULL, NO_RESET),
    (DOORKEY, 1_048_576, "fresh"),
    *((MISSIONS[0], FULL, source) for source in ("pool", "stock")),
    (rule_worlds.ID, FULL, "fresh"),
)


def run(work: Work) -> None:
    """Profile each program; record the time of a whole step, then of its longest kernels."""
    for env_id, num_envs, source in [(DOORKEY, 8, "fresh")] if work.tiny else PROGRAMS:
        case = {"id": env_id, "num_envs": num_envs, "reset_source": source, "part": "kernels"}
        build = functools.partial(contestants.ours, env_id, num_envs, source)
        if env_id == rule_worlds.ID:
            build = functools.partial(rule_worlds.ours, TASKS, num_envs, source)
        work.measure(functools.partial(_profiled, work.file, case, build), **case)


def _profiled(file: Path, case: dict, build: Callable[[], Contestant]) -> Records:
    profile = kernels.profile(build())
    name = "{id}-{num_envs}-{reset_source}".format(**case)
    kernels.keep(file.with_suffix(ENDING), {name: {"profile": profile.record, "hlo": profile.hlo}})
    return kernel_records(case, profile.record)
