"""Task sets of XLand-MiniGrid 0.9.3, generated on first use and cached on disk.

xminigrid downloads its task sets as pickles, which were made by a script of xminigrid. This module
generates the tasks that the script draws, in seconds to a few minutes, and compares them with
checksums of the script's output. A comparison with the published pickles was not possible.
"""

import contextlib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Bool

from ..core import checks
from ..core.files import cache_folder, replacing
from ..core.random import Key
from ..core.struct import Struct, struct
from . import exact
from .generator import Recipe
from .rulesets import PackedRuleset, Ruleset

CHUNK = 2**16  # largest number of rulesets that are unpacked at once, to limit memory
_WORD = np.dtype("<u4")


class Set(NamedTuple):
    """Size of a task set, settings of its generator, and checksums of its tasks."""

    num_rulesets: int
    recipe: Recipe
    num_rules: int  # largest number of rules in a task
    num_tiles: int  # largest number of initial tiles in a task
    # First 32 hex digits of the SHA-256 of each of four arrays, in xminigrid's encoding.
    # The arrays contain, for all tasks: goals, rules, initial tiles and numbers of rules.
    checksums: tuple[str, ...]


_MEDIUM, _HIGH = Recipe(2, 0.1, 3, 2), Recipe(3, 0.1, 4, 1)
SETS = {
    "trivial-21k": Set(
        21_000, Recipe(0, 0.0, 0, 3), 1, 5,
        (
            "dc7d602c093ba33de879fd11571496d0", "0715016ca7e189bf81344201108624bc",
            "8b5649e340d29a3dc065e86dca5cce4c", "dc2cb9461e341de019ba5d651b641d42",
        ),
    ),
    "small-1m": Set(
        1_000_000, Recipe(1, 0.3, 2, 2), 4, 10,
        (
            "4b1a9553ab3453194883877898234604", "22a3183b2d5d316fd4aed592ea9712db",
            "1b28e84290f222e352951cd9b84a9340", "2425ab09fb58e1ec679e9ccbcc3a225c",
        ),
    ),
    "medium-1m": Set(
        1_000_000, _MEDIUM, 9, 16,
        (
            "05c555bfef55945f110615575909c087", "e54d0067ec7354d3442076da83f265a1",
            "f9eb15dd5fea7a1bc2e0aa2dda80d4b0", "9ba627c87216884f5480d3286df0b6dd",
        ),
    ),
    "medium-3m": Set(
        3_000_000, _MEDIUM, 9, 16,
        (
            "0d7f142f93831b0cd1e4153eea2b5d76", "9c0a42d478b41a242f2b966af1735554",
            "d152befc31019b44ea292dc308f8bb42", "1012dfa767d88699035d79e6febc571b",
        ),
    ),
    "high-1m": Set(
        1_000_000, _HIGH, 18, 23,
        (
            "524f535ae4a283ae34f6e8303b67929d", "0d3e9bdfe5e9e08f96af22cd42d27846",
            "092e145b7ce8596e1c7b105f843fff03", "8f384a97143ab76678f95958b6182fc6",
        ),
    ),
    "high-3m": Set(
        3_000_000, _HIGH, 18, 23,
        (
            "f67ceef6d8665e2cdc7957f6a93ff17d", "10835056ee5c0997ef6c3c6bae818fa1",
            "cf64cc4e7848d7363c7fee960530984d", "b2bf4c036dc7f3780f03394a4f3131a1",
        ),
    ),
}  # fmt: skip


@struct
class Benchmark(Struct):
    """Task set, with xminigrid's methods to draw and split tasks; a pytree.

    Pass the set to a jitted function as an argument. A jitted function that uses it as a global
    variable or closure has all tasks as constants in its compiled program.
    """

    rulesets: PackedRuleset  # tasks with leading axis (num_rulesets,)

    @property
    def num_rulesets(self) -> int:
        """Number of tasks."""
        return self.rulesets.goal.shape[0]

    def get_ruleset(self, index: ArrayLike) -> Ruleset:
        """Return the task with this index.

        An index out of range is clipped inside `jit`, and raises `IndexError` outside.
        """
        count = self.num_rulesets
        if not isinstance(index, Tracer) and not 0 <= int(np.asarray(index)) < count:
            raise IndexError(f"get_ruleset: index={index} is not one of the {count:,} tasks")
        return _task(self.rulesets, index)

    def sample_ruleset(self, key: Key) -> Ruleset:
        """Return a uniformly drawn task; works inside `jit` and `vmap`."""
        return _any_task(self.rulesets, key)

    def shuffle(self, key: Key) -> "Benchmark":
        """Return the task set in a random order."""
        return self._rows(jax.random.permutation(key, self.num_rulesets))

    def split(self, share: float) -> tuple["Benchmark", "Benchmark"]:
        """Return two sets: the first fraction `share` of the tasks, and all other tasks.

        The number of tasks in the first set is rounded to a whole number. Raises `ValueError` if
        either set would be empty.
        """
        count = self.num_rulesets
        first = round(count * share)
        if not 0 < first < count:
            raise ValueError(
                f"split: a share of {share!r} leaves {first:,} of {count:,} tasks on one side; "
                "give a number between 0 and 1 that leaves some on both"
            )
        return self._rows(slice(None, first)), self._rows(slice(first, None))

    def filter_split(
        self, keep: Callable[[Array, Array], Bool[Any, ""] | bool]
    ) -> tuple["Benchmark", "Benchmark"]:
        """Return two sets: the tasks for which `keep(goal, rules)` is True, and all other tasks.

        `keep` is traced with the arrays of one task in the encoding of `Ruleset`: goal uint8 (5,)
        and rules uint8 (rules, 7). Cannot be called inside `jit`.
        """
        decide = jax.jit(jax.vmap(lambda task: jnp.asarray(keep(task.goal, task.rules))))
        kept = np.concatenate([decide(part) for part in _unpacked(self.rulesets)])
        if kept.shape != (self.num_rulesets,) or kept.dtype != bool:
            raise TypeError(
                "filter_split: the function must return a bool for a task, got "
                f"{kept.dtype} {kept.shape[1:]}"
            )
        return self._rows(np.flatnonzero(kept)), self._rows(np.flatnonzero(~kept))

    def _rows(self, rows: Any) -> "Benchmark":
        return Benchmark(rulesets=jax.tree.map(lambda leaf: leaf[rows], self.rulesets))


def benchmark(name: str) -> Benchmark:
    """Return the tasks of the set `name`.

    The names are `trivial-21k`, `small-1m`, `medium-1m`, `medium-3m`, `high-1m` and `high-3m`.

    The first call generates the set and caches it in the folder that the environment variable
    JAXENVS_CACHE names (by default `~/.cache/jaxenvs`), if this folder is writable. Raises
    `ValueError` for another name, and `RuntimeError` if the generated tasks differ from the
    checksums.
    """
    return Benchmark(rulesets=jax.tree.map(jnp.asarray, rulesets(name)))


def rulesets(name: str) -> PackedRuleset:
    """Return the tasks of a set as NumPy arrays; see `benchmark`."""
    checks.one_of("benchmark", "name", name, SETS)
    folder = cache_folder(os.environ)
    path = None if folder is None else folder / f"xland-{name}.bin"
    found = None if path is None else _read(path, SETS[name])
    if found is None:
        found = drawn(name)
        if path is not None:
            _write(path, found)
    return found


def part(name: str, start: float, end: float) -> np.ndarray:
    """Return the indices of some tasks of a set, for example to hold out test tasks.

    The tasks are shuffled in a fixed random order. The result is the slice of this order from the
    fraction `start` to the fraction `end`, both from 0 to 1. Raises `ValueError` for an empty part
    or an unknown set.
    """
    checks.one_of("trials", "tasks", name, SETS)
    count = SETS[name].num_rulesets
    first, last = (round(count * share) for share in (start, end))
    if not 0 <= first < last <= count:
        raise ValueError(
            f"trials: from {start!r} to {end!r} of {count:,} tasks there are none; give shares "
            "from 0 to 1, the smaller one first"
        )
    return np.random.default_rng(0).permutation(count)[first:last]


def drawn(name: str) -> PackedRuleset:
    """Generate the tasks of a set; raise `RuntimeError` if they differ from the checksums."""
    wanted = SETS[name]
    with _bar(f"xland {name}", wanted.num_rulesets) as report:
        found = exact.first_distinct(wanted.recipe, wanted.num_rulesets, report)
    num_rules, num_tiles = wanted.num_rules, wanted.num_tiles
    found = found.replace(
        rules=found.rules[:, :num_rules].copy(), init_tiles=found.init_tiles[:, :num_tiles].copy()
    )
    if checksums(found) != wanted.checksums:
        version = f"{sys.implementation.name} {sys.version.split()[0]}"
        raise RuntimeError(
            f"benchmark: {name} drawn by {version} differs from the checksum; the order of sets "
            "must be that of CPython on a 64-bit machine"
        )
    return found


def checksums(rulesets: PackedRuleset) -> tuple[str, ...]:
    """Return one checksum for each of four arrays: goals, rules, initial tiles, numbers of rules.

    A checksum is computed over all tasks, as `Set.checksums` explains.
    """
    sums = [hashlib.sha256() for _ in range(4)]
    for part in _unpacked(rulesets):
        count = (part.rules[..., 0] != 0).sum(axis=1).astype(np.uint8)
        for one, array in zip(sums, (part.goal, part.rules, part.init_tiles, count), strict=True):
            one.update(array.tobytes())
    return tuple(one.hexdigest()[:32] for one in sums)


@jax.jit
def _task(rulesets: PackedRuleset, index: ArrayLike) -> Ruleset:
    return jax.tree.map(lambda leaf: leaf[index], rulesets).unpacked()


@jax.jit
def _any_task(rulesets: PackedRuleset, key: Key) -> Ruleset:
    return _task(rulesets, jax.random.randint(key, (), 0, rulesets.goal.shape[0]))


def _unpacked(rulesets: PackedRuleset) -> Iterator[Ruleset]:
    """Yield the tasks in xminigrid's byte encoding, at most `CHUNK` of them at once."""
    host = jax.device_get(rulesets)
    for start in range(0, len(host.goal), CHUNK):
        yield jax.tree.map(lambda leaf: leaf[start : start + CHUNK], host).unpacked()  # noqa: B023


def _read(path: Path, wanted: Set) -> PackedRuleset | None:
    """Return the tasks in a file; None if the file is missing, damaged or has other tasks.

    The file has the raw bytes of three arrays, without a header: goals, rules and initial tiles.
    The checksums of the set decide whether a file of the right size has the right tasks.
    """
    rows = wanted.num_rulesets
    sizes = [4 * rows, 4 * rows * wanted.num_rules, rows * wanted.num_tiles]
    try:
        with path.open("rb") as file:
            content = file.read(sum(sizes) + 1)
    except OSError:
        return None
    if len(content) != sum(sizes):
        return None
    goal, rules, tiles = np.split(np.frombuffer(content, np.uint8), np.cumsum(sizes)[:-1])
    found = PackedRuleset(
        goal=goal.view(_WORD),
        rules=rules.view(_WORD).reshape(rows, wanted.num_rules),
        init_tiles=tiles.reshape(rows, wanted.num_tiles),
    )
    return found if checksums(found) == wanted.checksums else None


def _write(path: Path, rulesets: PackedRuleset) -> None:
    """Write the tasks to a file for `_read`; do nothing if the folder is not writable."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            for leaf in (rulesets.goal, rulesets.rules, rulesets.init_tiles):
                file.write(leaf.astype(leaf.dtype.newbyteorder("<")).tobytes())


@contextlib.contextmanager
def _bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if `rich` is installed and stderr is a terminal.

    Yields a function that updates the bar, given the number of tasks that are done.
    """
    if importlib.util.find_spec("rich") is None:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
