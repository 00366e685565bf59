"""Directory of a run: its configuration, log, checkpoints and results.

    config.json   environment, seeds, settings, versions        log.jsonl   one record per update
    curve.png     return over steps, one curve per seed         eval.json   the final evaluation
    replay.html   recorded episodes, with --html                videos/     with --video-every
    log.csv, tensorboard/, wandb/   copies of the log, with --log
    checkpoints/  the last two training states; each is written under a temporary name, then renamed

`jaxenvs watch` and other readers of a run rely on these names.
"""

import contextlib
import dataclasses
import itertools
import json
import math
import os
import platform
import shlex
import sys
import types
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

import jaxenvs
from jaxenvs.commands.fields import FLAG, PARAM, check_kinds, written
from jaxenvs.core.checks import counted
from jaxenvs.core.extras import version
from jaxenvs.core.files import read_text, replacing, unfinished
from jaxenvs.core.typed import program

from .. import GYM, registry
from ..core import value_scales
from ..core.learner import Algorithm
from ..core.policy import Policy
from ..presets import has_setups, reads_mission
from ..registry import ALGORITHMS
from . import checkpoints, config_file, folder
from .checkpoints import RunError as RunError

FORMAT = 1
LARGEST_CONFIG = 2**20  # largest config.json that is read, in bytes


@dataclasses.dataclass(frozen=True)
class Config:
    """Configuration of a run, the content of config.json."""

    id: str
    fields: dict[str, Any]  # constructor fields that differ from the defaults of the id
    seed: int  # first seed; the other seeds are the integers that follow it
    seeds: int  # number of agents: seeds times combinations of swept settings
    settings: dict[str, Any]
    algorithm: str = "ppo"
    # options in `options.TRACKING`, for logs and evaluations, whose values are neither 0 nor empty
    tracking: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Swept setting -> its values.
    sweep: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    params: dict[str, Any] = dataclasses.field(default_factory=dict)  # params given by --param
    format: int = FORMAT
    versions: dict[str, str] = dataclasses.field(default_factory=lambda: _versions())

    @property
    def env(self) -> jaxenvs.Env:
        """Environment that the run trains in; raises the errors of `jaxenvs.make`."""
        return jaxenvs.make(self.id, **self.keywords)

    @property
    def keywords(self) -> dict[str, Any]:
        """Keywords of `jaxenvs.make`: constructor fields and params."""
        return {**self.env_fields, **self.params}

    @property
    def env_fields(self) -> dict[str, Any]:
        """Constructor fields, with values that an old config.json omits: `obs` and `setup`.

        In old versions, all Grid environments observed the image by default. Environments with a
        mission (a text that states the task) now observe a `dict` by default. Craft had one setup,
        which is now called `masked`. New runs in these environments always have `obs` or `setup` in
        config.json, so a file without it is from an old version.
        """
        if self.id.startswith(GYM):
            return self.fields
        older = {"obs": "image"} if "obs" not in self.fields and reads_mission(self.id) else {}
        return {**older, **self._older_setup, **self.fields}

    @property
    def _older_setup(self) -> dict[str, str]:
        """`setup="masked"` if an old config.json of Craft omits the setup, else {}."""
        if self.id.startswith(GYM) or "setup" in self.fields:
            return {}
        return {"setup": "masked"} if has_setups(self.id) else {}

    @property
    def typed(self) -> str:
        """Environment as command-line arguments: `ID --set NAME=VALUE --param NAME=VALUE`."""
        words = [self.id]
        for flag, given in ((FLAG, {**self._older_setup, **self.fields}), (PARAM, self.params)):
            words += [flag, *itertools.starmap(written, given.items())] if given else []
        return shlex.join(words)

    @property
    def agents(self) -> list[tuple[dict[str, float], int]]:
        """Swept settings and seed of each agent; a run's arrays have agents in this order.

        All combinations of swept values are trained with the same seeds.
        """
        values = itertools.product(*self.sweep.values())
        settings = [dict(zip(self.sweep, each, strict=True)) for each in values]
        each = range(self.seed, self.seed + self.seeds_of_each)
        return [(setting, seed) for setting in settings for seed in each]

    @property
    def seeds_of_each(self) -> int:
        """Number of seeds with which each combination of swept settings is trained."""
        return self.seeds // math.prod(map(len, self.sweep.values()))

    @property
    def labels(self) -> list[dict[str, Any]]:
        """Label of each agent: a dict of its swept settings and its `seed`."""
        return [{**setting, "seed": seed} for setting, seed in self.agents]

    @property
    def names(self) -> list[str]:
        """Name of each agent: its swept settings and its seed, such as `gamma=0.9 seed 3`."""
        return [
            " ".join([*(f"{k}={v:g}" for k, v in setting.items()), f"seed {seed}"])
            for setting, seed in self.agents
        ]

    @property
    def title(self) -> str:
        """Environment as text: the id and its keywords, sorted by name."""
        given = {**self._older_setup, **self.fields, **self.params}
        return " ".join([self.id, *(f"{k}={v}" for k, v in sorted(given.items()))])


def load_policy(
    run_dir: str | os.PathLike[str],
    seed: int = 0,
    best: bool = False,
    params: Mapping[str, Any] = types.MappingProxyType({}),
    simulations: int | None = None,
    fields: Mapping[str, Any] = types.MappingProxyType({}),
) -> Policy:
    """Load the trained policy of one seed of a run; `seed` is its index, from 0.

    Loads the newest weights or, with `best`, the weights with the highest return among the
    evaluations of `--eval-every`. `policy.act(key, memory, state)` returns a legal action. For
    MuZero and AlphaZero, `simulations` is the number of simulations of the search that chooses
    actions (None: as in training; 0: no search). `params` and `fields` replace params and
    constructor fields of the environment by name, for example to select other levels. Raises
    `RunError`, whose message says how to fix the run.
    """
    run = Run.open(run_dir)
    config = run.config
    row = ALGORITHMS.get(config.algorithm)
    if row is None or not row.shape:
        raise RunError(f"{run.path} was trained by {config.algorithm} and holds no policy")
    run.check_seed(seed)
    if config.id.startswith(GYM):
        raise RunError(
            f"{run.path} was trained in {config.id}, which JAX cannot step: see eval.json"
        )
    try:
        env = row.wrapped(config.env, config.settings)
    except (LookupError, TypeError, ValueError) as error:
        raise RunError(f"{run.path / 'config.json'}: {error}; correct it or train again") from error
    if params or fields:
        env = _changed(row, config, env, params, fields)
    network, shapes = _network(row, run, env)
    weights = _weights(run, shapes, seed, best)
    try:
        given = config.settings | config.agents[seed][0]  # with the agent's swept values
        search = registry.search(row, env, network, given, simulations)
    except ValueError as error:
        raise RunError(f"{run.path}: {error}") from error
    return Policy.of(env, network, weights, config.id, search)


def _weights(run: "Run", shapes: PyTree, seed: int, best: bool) -> PyTree[Array]:
    """Return a seed's newest weights or, with `best`, those with the best evaluation so far."""
    if not best:
        found = run.restore({"weights": shapes})[1]
        return jax.tree.map(lambda leaf: jnp.asarray(leaf[seed]), found["weights"])
    found = run.best(shapes)
    if found is None:
        raise RunError(f"{run.path} has no best policy: train it with --eval-every K")
    weights = jax.tree.map(lambda leaf: jnp.asarray(leaf[seed]), found["weights"])
    if not value_scales.are_known(weights):
        print(
            f"{run.path}: an older version saved the best policy without the scale of its value, "
            f"which is therefore NaN; omit --best (best=True), or train again",
            file=sys.stderr,
        )
    return weights


def _changed(
    row: Algorithm,
    config: Config,
    trained: jaxenvs.Env,
    params: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> jaxenvs.Env:
    """Return a run's environment with params and constructor fields replaced.

    `trained` is the environment in which the policy was trained. Raises `RunError` for unknown
    names, and for fields that change the observation space or the action space.
    """
    try:
        check_kinds(config.id, fields, params)
        given = {"fields": {**config.fields, **fields}, "params": {**config.params, **params}}
        env = row.wrapped(dataclasses.replace(config, **given).env, config.settings)
    except (LookupError, TypeError, ValueError) as error:
        raise RunError(str(error)) from error
    for what in ("observation_space", "action_space"):
        then, now = getattr(trained, what), getattr(env, what)
        if then != now:
            pairs = " ".join(itertools.starmap(written, fields.items()))
            raise RunError(
                f"{FLAG} {pairs} changes the {what}: the policy was trained with {then}, not "
                f"{now}; give fields that keep it"
            )
    return env


def _network(row: Algorithm, run: "Run", env: jaxenvs.Env) -> tuple[Any, PyTree]:
    """Return a run's network, and the shapes of its weights with a leading axis of seeds."""
    try:
        network = registry.network(row, env, run.config.settings)
        shapes = jax.eval_shape(
            jax.vmap(lambda key: network.init(key, env.reset(key).obs)),
            jax.ShapeDtypeStruct((run.config.seeds,), jax.random.key(0).dtype),
        )
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        given = {name: run.config.settings.get(name) for name in row.shape}
        raise RunError(
            f"{run.path / 'config.json'}: no network has the settings {given} ({error}); correct "
            f"them or train anew"
        ) from error
    return network, shapes


@dataclasses.dataclass(frozen=True)
class Run:
    """Directory of a run, with methods that read and write its files."""

    path: Path
    config: Config
    # directories that `create` made, parent directories included
    made: tuple[Path, ...] = dataclasses.field(default=(), compare=False)

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Config, overwrite: bool = False) -> "Run":
        """Create the directory of a new run.

        If the directory already holds a run, raise `RunError` or, with `overwrite`, first remove
        the files of the old run.
        """
        path = Path(path)
        folder.check_free(path, overwrite)
        folder.remove(path)
        made = tuple(each for each in (path, *path.parents) if not each.exists())
        try:
            (path / "checkpoints").mkdir(parents=True, exist_ok=True)
            run = cls(path, config, made)
            run.write_config()
        except OSError as error:
            raise RunError(f"{path} cannot be written ({error}); give another --out") from error
        return run

    def discard(self) -> None:
        """Remove what `create` made, unless the run has log records or a checkpoint."""
        if self.records() or checkpoints.saved(self.checkpoints):
            return
        folder.remove(self.path)
        for made in self.made:
            # `rmdir` fails if the directory has other files, which stay
            with contextlib.suppress(OSError):
                made.rmdir()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Run":
        """Open an existing run; `RunError` if the directory does not hold one."""
        path = Path(path)
        file = path / "config.json"
        if not os.path.isfile(file):  # not `Path.is_file`, which raises if the path is too long
            raise RunError(
                f"{path} is not a run (it has no config.json); give the directory that "
                f"`jaxenvs train ID --out DIR` wrote"
            )
        for name in folder.WRITTEN:
            if (path / name).is_symlink():
                raise RunError(
                    f"{path / name} is a link, and training writes and removes the files of a run; "
                    f"put a copy in its place"
                )
        try:
            content = json.loads(read_text(file, LARGEST_CONFIG))
            return cls(path, Config(**config_file.validated(content, FORMAT)))
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise RunError(
                f"{file} is damaged or from another version of jaxenvs ({error}); restore the file "
                f"or train again with --out {path} --overwrite"
            ) from error

    @property
    def how_to_go_on(self) -> str:
        """Message after training was stopped, with the command that resumes it."""
        update = checkpoints.newest(self.checkpoints)
        if not update:
            return "Stopped before anything was saved."
        return f"Saved after update {update}; continue with: {program()} train --resume {self.path}"

    def check_seed(self, seed: int) -> None:
        """Raise `RunError` unless `seed` is the index of one of the run's seeds."""
        seeds = self.config.seeds
        if not 0 <= seed < seeds:
            allowed = f"one of 0 to {seeds - 1}" if seeds > 1 else "0"
            raise RunError(f"{self.path} has {counted(seeds, 'seed')}: give {allowed}, not {seed}")

    # Methods that write and read the log and the JSON files.

    def write_config(self) -> None:
        """Write config.json."""
        self.write_json("config.json", dataclasses.asdict(self.config))

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file atomically."""
        with replacing(self.path / name) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", "utf-8")

    def log(self, records: Iterable[dict[str, Any]]) -> None:
        """Append records to log.jsonl, either all or none."""
        self.append("log.jsonl", "".join(json.dumps(record) + "\n" for record in records))

    def append(self, name: str, text: str) -> None:
        """Append text to a file: all of it, or nothing if an `OSError` is raised."""
        lines = text.encode()
        with (self.path / name).open("ab", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            try:
                while lines:  # on a nearly full disk, `write` may write only a part
                    lines = lines[file.write(lines) :]
            except OSError:
                file.truncate(before)
                raise

    def records(self) -> list[dict[str, Any]]:
        """Return the log's records before the first invalid line, often an incomplete last one."""
        file = self.path / "log.jsonl"
        records = []
        for line in file.read_bytes().splitlines() if file.is_file() else ():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(record, dict) or not isinstance(record.get("update"), int):
                break
            records.append(record)
        return records

    def rewind(self, update: int) -> None:
        """Remove log records after `update`, and eval.json; resumed training writes new ones.

        Also removes temporary files left by processes that died while writing.
        """
        folders = (self.path, self.path / "videos")
        for left in (*itertools.chain(*map(unfinished, folders)), self.path / "eval.json"):
            left.unlink(missing_ok=True)
        kept = [
            json.dumps(record) + "\n" for record in self.records() if record["update"] <= update
        ]
        with replacing(self.path / "log.jsonl") as temporary:
            temporary.write_text("".join(kept), "utf-8")

    # Methods that write and read checkpoints.

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def has_begun(self) -> bool:
        """True if the run has a checkpoint, or if the folder of its checkpoints was deleted.

        If True, resuming the run reads a checkpoint. If the folder was deleted, reading raises an
        error, so that the run does not begin anew.
        """
        return not self.checkpoints.is_dir() or bool(checkpoints.saved(self.checkpoints))

    def save(self, update: int, trees: dict[str, PyTree]) -> None:
        """Save `trees`, the training state after `update`, as a checkpoint.

        Raises `RunError` if writing fails.
        """
        checkpoints.save(self.checkpoints, update, trees, self.config.title)

    def restore(
        self,
        shapes: dict[str, PyTree],
        optional: bool = False,
        replaceable: Collection[str] = (),
    ) -> tuple[int, Any]:
        """Read the newest checkpoint; see `checkpoints.restore`."""
        made_for = self.config.title
        return checkpoints.restore(self.checkpoints, shapes, made_for, optional, replaceable)

    def weights(self, learner: Any, seed: int) -> PyTree[Any]:
        """Return the newest weights of the seed with index `seed`; `learner` defines the shapes."""
        self.check_seed(seed)
        keys = jax.ShapeDtypeStruct((self.config.seeds,), jax.random.key(0).dtype)
        shapes = jax.eval_shape(jax.vmap(learner.init), keys).weights
        _, trees = self.restore({"weights": shapes})
        return jax.tree.map(lambda leaf: jnp.asarray(leaf[seed]), trees["weights"])

    def best(self, weights: PyTree) -> dict[str, Any] | None:
        """Return each seed's best evaluation in training; None if there was no evaluation yet.

        The argument `weights` has the shapes of the weights. The dict has the evaluated `weights`,
        and two arrays (seeds,): the mean `return`, and the `update` after which it was measured.
        """
        kinds = {"return": np.float32, "update": np.int32}
        each = {k: jax.ShapeDtypeStruct((self.config.seeds,), kind) for k, kind in kinds.items()}
        return self.restore({"best": {"weights": weights, **each}}, optional=True)[1].get("best")


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a run depends on."""
    packages = ("jaxenvs", "jax", "flax", "optax", "orbax-checkpoint")
    found = {name: version(name) or "not installed" for name in packages}
    return {"python": platform.python_version(), **found}
