"""The job of `card` that profiles the ten most used programs and keeps their optimised HLO.

Its JSON has the longest kernels of each program. A second file, `.hlo.json.gz`, has the whole
profile and the HLO of each under `ID-ENVS-SOURCE`.
"""

import functools
import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxenvs.core.files import replacing

from . import contestants, kernels, rule_worlds
from .card_steps import DOORKEY, IDS, SYMBOLIC, TASKS, WHOLE_IDS, kernel_records, with_stock
from .card_work import Records, Work
from .contestants import NO_RESET, Contestant

MISSION = "BabyAI-GoToLocal-v0"
FULL = 65_536  # environments
ENDING = ".hlo.json.gz"


def programs() -> list[tuple[str, int, str]]:
    """Id, environments and reset source of each, the most wanted first."""
    worlds = with_stock("exact", "pool", NO_RESET)
    return [
        *((IDS, FULL, source) for source in worlds),
        *((WHOLE_IDS, FULL, source) for source in worlds),
        (SYMBOLIC, FULL, NO_RESET),
        (DOORKEY, 1_048_576, "fresh"),
        *((MISSION, FULL, source) for source in with_stock("pool")),
        (rule_worlds.ID, FULL, "fresh"),
    ]


def run(work: Work) -> None:
    """Profile each program: a record for the whole step, then one for each of its kernels."""
    for env_id, num_envs, source in [(DOORKEY, 8, "fresh")] if work.tiny else programs():
        case = {"id": env_id, "num_envs": num_envs, "reset_source": source, "part": "kernels"}
        build = functools.partial(contestants.ours, env_id, num_envs, source)
        if env_id == rule_worlds.ID:
            build = functools.partial(rule_worlds.ours, TASKS, num_envs, source)
        work.measure(functools.partial(_profiled, work.file, case, build), **case)


def _profiled(file: Path, case: dict, build: Callable[[], Contestant]) -> Records:
    profile = kernels.profile(build())
    name = "{id}-{num_envs}-{reset_source}".format(**case)
    keep(file.with_suffix(ENDING), {name: {"profile": profile.record, "hlo": profile.hlo}})
    return kernel_records(case, profile.record)


def keep(file: Path, programs: dict[str, Any]) -> None:
    """Add programs to a file, in the place of those with their names."""
    content = json.dumps({**kept(file), **programs})
    with replacing(file) as temporary:
        temporary.write_bytes(gzip.compress(content.encode()))


def kept(file: Path) -> dict[str, Any]:
    """Read the programs of a file; none where it is missing or damaged."""
    try:
        found = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error):
        return {}
    return found if isinstance(found, dict) else {}
