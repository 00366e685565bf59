"""Time of every kernel of a step on this machine's GPU, from JAX's profiler.

    python -m jaxenvs.benchmarks.kernels --ids Grid-DoorKey-8x8-v0 --batches 4096 65536

`step` is the time of a step without the profiler. Times are per step: the times of a rollout,
divided by its number of steps. So the time of a kernel that runs once per rollout, such as the one
that fills the scan's outputs with zeros, is divided too.
"""

import collections
import gzip
import itertools
import json
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxenvs.core.files import replacing
from jaxenvs.core.vector import RESET_SOURCES

from .harness import contestants, device_lock, instrument, timing
from .harness.contestants import Contestant
from .tables.plain import plain

LENGTH = 100  # number of steps of a rollout
SHOWN = 16  # number of kernels in the table
HEAD = ("time", "launches", "kernel")


def durations(planes: Iterable[Any]) -> tuple[dict[str, float], dict[str, int]]:
    """Return two dictionaries by kernel name: total microseconds, and number of launches.

    `planes` are the planes of a profile by JAX's profiler, such as one for each device. Only events
    on streams of a GPU are counted.
    """
    times: collections.Counter[str] = collections.Counter()
    launches: collections.Counter[str] = collections.Counter()
    for plane in planes:
        for line in plane.lines if plane.name.startswith("/device:GPU") else ():
            for event in line.events if line.name.startswith("Stream") else ():
                times[event.name] += event.duration_ns / 1000
                launches[event.name] += 1
    return dict(times.most_common()), dict(launches)


class Profile(NamedTuple):
    """A profiled program: a record with the times of its kernels, and its optimised HLO as text."""

    record: dict[str, Any]
    hlo: str


def profile(contestant: Contestant) -> Profile:
    """Compile a rollout, time it and profile it; return the profile.

    Its record has times (in microseconds) and launches per step of the whole batch.
    """
    key = jax.random.key(0)
    reset = jax.jit(contestant.reset).lower(key).compile()
    shapes = jax.eval_shape(contestant.reset, key)
    length = timing.steps_that_fit(contestant, shapes, LENGTH)
    traced = jax.jit(contestant.rollout(length), donate_argnums=1).lower(key, shapes)
    rollout = traced.compile()

    with device_lock.held():
        seconds, times, launches = _traced(lambda state: rollout(key, state)[0], reset(key))
    record = {
        "id": contestant.env_id,
        "contestant": contestant.name,
        "num_envs": contestant.num_envs,
        "reset_source": contestant.reset_source,
        "step": round(1e6 * seconds / length, 2),
        "busy": round(sum(times.values()) / length, 2),
        "microseconds": {name: round(total / length, 3) for name, total in times.items()},
        "launches": {name: launches[name] / length for name in times},
    }
    return Profile(record, rollout.as_text() or "")


def keep(file: Path, programs: dict[str, Any]) -> None:
    """Add programs to a file, which maps a program's name to its profile and HLO.

    A program replaces the program of the same name in the file.
    """
    content = json.dumps({**kept(file), **programs})
    with replacing(file) as temporary:
        temporary.write_bytes(gzip.compress(content.encode()))


def kept(file: Path) -> dict[str, Any]:
    """Return the programs that `keep` wrote to a file; {} if it is missing or damaged."""
    try:
        found = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error):
        return {}
    return found if isinstance(found, dict) else {}


def _traced(
    step: Callable[[Any], Any], state: Any
) -> tuple[float, dict[str, float], dict[str, int]]:
    """Time and profile the compiled program `step`, which maps a state to the next state.

    Return the seconds of a call without the profiler, and the `durations` of a profiled call.
    """
    state = jax.block_until_ready(step(step(state)))
    start = time.perf_counter()
    state = jax.block_until_ready(step(state))
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(step(state))
        (file,) = Path(folder).rglob("*.xplane.pb")
        found = durations(jax.profiler.ProfileData.from_file(str(file)).planes)
    return seconds, *found


def _show(record: dict[str, Any]) -> None:
    title = f"{record['contestant']} {record['id']} x {record['num_envs']:,}"
    speed = f"{record['step']:.1f} us per step, kernels {record['busy']:.1f}"
    print(f"{title}, {record['reset_source']}: {speed}")
    times = list(record["microseconds"].items())[:SHOWN]
    cells = [(f"{us:.2f} us", f"x{record['launches'][name]:.2f}", name) for name, us in times]
    print(plain([HEAD, *cells]), flush=True)


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("kernels", __doc__)
    add = parser.add_argument
    add("--ids", nargs="+", default=["Grid-DoorKey-8x8-v0"], help="ids (default: %(default)s)")
    add("--batches", nargs="+", type=int, default=[4096, 65536], help="batch sizes")
    add("--reset-source", nargs="+", default=["fresh"], choices=RESET_SOURCES)
    args = parser.parse_args(argv)
    if jax.default_backend() != "gpu":
        raise RuntimeError("kernels: jax finds no GPU; gpu_work counts kernels without one")
    records = []
    for env_id, batch, source in itertools.product(args.ids, args.batches, args.reset_source):
        records.append(profile(contestants.ours(env_id, batch, source)).record)
        _show(records[-1])
    instrument.write(args.json, {**instrument.about(), "rows": records})
