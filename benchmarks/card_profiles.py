"""The job of `card` that profiles the ten most used programs and keeps their optimised HLO.

Its JSON has the longest kernels of each program. One archive, `.hlo.tar.gz`, has the
whole profile, `ID-ENVS-SOURCE.json`, and the program, `ID-ENVS-SOURCE.hlo`, of each.
"""

import functools
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

from jaxenvs.core.files import replacing

from . import contestants, kernels, rule_worlds
from .card_steps import DOORKEY, IDS, SYMBOLIC, TASKS, WHOLE_IDS, kernel_records, with_stock
from .card_work import Records, Work
from .contestants import NO_RESET, Contestant

MISSION = "BabyAI-GoToLocal-v0"
FULL = 65_536  # environments
ENDING = ".hlo.tar.gz"


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
    text = json.dumps(profile.record, indent=1)
    keep(file.with_suffix(ENDING), {f"{name}.json": text, f"{name}.hlo": profile.hlo})
    return kernel_records(case, profile.record)


def keep(archive: Path, texts: dict[str, str]) -> None:
    """Add texts to an archive, in the place of those with their names."""
    content = {**members(archive), **{name: text.encode() for name, text in texts.items()}}
    with replacing(archive) as temporary, tarfile.open(temporary, "w:gz") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def members(archive: Path) -> dict[str, bytes]:
    """Read an archive; empty where there is none, or none that is whole."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            files = ((info.name, tar.extractfile(info)) for info in tar if info.isfile())
            return {name: file.read() for name, file in files if file}
    except (OSError, EOFError, tarfile.TarError):
        return {}
