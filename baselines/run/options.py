"""Command line of `jaxenvs train`: reads the flags and prepares the run's directory and learner.

Flags override the preset for the environment, or the settings of the run that `--resume` names.
"""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Generic

import tyro

import jaxenvs
from jaxenvs.commands.fields import FLAG, PARAM, check_kinds, gathered, written
from jaxenvs.commands.fields import parse as parse_fields
from jaxenvs.core.checks import counted
from jaxenvs.core.drawing import UNDRAWN, is_drawn
from jaxenvs.core.typed import program
from jaxenvs.core.vector import usual_source

from .. import GYM, old_names, presets, registry
from ..core import processes, schedules
from ..core.devices import Devices
from ..core.learner import Learner, S
from ..registry import ALGORITHMS, USUAL
from ..storage import folder, sweep
from ..storage.checkpoints import RunError, newest_intact
from ..storage.runs import Config, Run
from . import sinks
from .flags import read as read_flags

PROGRAM = "jaxenvs train"
# Settings that a resumed run may change: the run's length, its use of hardware, and the number of
# test episodes.
FREE = ("total_steps", "chunk", "unroll", "test_episodes")
# the learning rate, which a resumed run may change, too; its schedule then starts again
RATE = "learning_rate"
FREE_WITH_RAY = (*FREE, "actors", "learners", "replays", "address", "patience")


# Options that affect only logs and evaluations, not training. A resumed run keeps their values
# unless the command line gives new ones.
TRACKING = ("log", "eval_every", "eval_episodes", "eval_greedy", "video_every")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Run:
    """Environment, seeds, settings and directory of the run."""

    id: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="ID")] = None
    """environment, such as Grid-DoorKey-5x5-v0; `jaxenvs list` shows all"""
    seeds: int = 1
    """number of independent runs, trained together"""
    seed: int = 0
    """first seed; the others count up from it"""
    sweep: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUES ...")] = ()
    """settings to sweep, each with all seeds: entropy=0,0.01 or learning_rate=1e-4..1e-2:16"""
    preset: str | None = None
    """named preset instead of the default one, such as gpu for Craft; flags override it"""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = ()
    """constructor fields of the environment, such as view_size=5"""
    param: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = ()
    """params of the environment, such as max_steps_in_episode=50"""
    levels: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """file or folder in whose levels episodes begin; short for --set levels=FILE"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """directory of the run; default: runs/ID-TIME"""
    overwrite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """replace an existing run in DIR"""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """run to continue; --total-steps may change, and --learning-rate restarts its schedule"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Saving:
    """Checkpoints, evaluation and logs."""

    checkpoint_seconds: float = 60.0
    """seconds between checkpoints; there is always one at the end and at Ctrl-C"""
    checkpoint_every: int | None = None
    """updates between checkpoints, instead of seconds"""
    eval_episodes: int = 256
    """episodes of an evaluation, for each seed"""
    eval_every: int | None = None
    """updates between evaluations during training; each seed's best policy is kept (--best)"""
    eval_greedy: bool = False
    """whether videos and all evaluations take the most likely actions"""
    video_every: int | None = None
    """updates between videos of an episode of the first seed, in DIR/videos"""
    log: Annotated[str, tyro.conf.arg(metavar="NAME,...")] = ""
    """further logs next to log.jsonl: csv, tensorboard or wandb, or several joined by commas"""
    html: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """write replay.html into DIR at the end: episodes of the first seed, for the browser"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Machine:
    """Devices and processes."""

    devices: str = "1"
    """number of devices (of all processes) among which each seed's environments divide, or all"""
    coordinator: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """address of process 0 if there are several; automatic on SLURM (none: a run per task)"""
    processes: int | None = None
    """number of processes of the run, with --coordinator; start each with the same flags"""
    process: int | None = None
    """index of this process, from 0"""
    join_timeout: int = 120
    """seconds that processes wait for each other at the start"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(_Machine, _Saving, _Run, Generic[S]):
    """Values of all flags; the learner's own flags are in `settings`."""

    settings: S


def prepare(
    argv: list[str],
    algorithm: str = USUAL,
    build: Callable[[Options[Any], Config], Learner[Any]] | None = None,
    trace: Callable[[Config, Learner[Any]], None] | None = None,
) -> tuple[Options[Any], Run, Learner[Any]]:
    """Return the options in the command line `argv`, the run, and the learner.

    Invalid input raises an error. `build` creates the learner; by default, it is `build_learner`.
    `trace` traces the first update, which reveals errors in the environment. It is called before
    this function creates or removes a directory, so that an error leaves all files unchanged.
    """
    options = with_source(parse(argv, algorithm), algorithm)
    made = config(options, algorithm)
    learner = (build or build_learner)(options, made)
    for name in ("eval_every", "video_every"):
        if (getattr(options, name) or 0) > learner.settings.updates:
            raise RunError(
                f"--{name.replace('_', '-')} {getattr(options, name)}: the run has "
                f"{counted(learner.settings.updates, 'update')}; give at most that"
            )
    if options.out is not None and processes.first():
        folder.check_free(options.out, options.overwrite)
    if trace is not None:
        trace(made, learner)
    return options, directory(options, made), learner


def parse(argv: list[str], algorithm: str = USUAL) -> Options[Any]:
    """Return the options of a command line; defaults come from a preset or the run to resume.

    Raises `RunError` (also for unknown flags), the errors of `jaxenvs.make`, and `SystemExit` for
    --help and for values that cannot be parsed.
    """
    settings = ALGORITHMS[algorithm].load().Settings
    argv = old_names.current_flags(algorithm, argv)

    def read(default: Options[Any]) -> Options[Any]:
        about = f"Train with {ALGORITHMS[algorithm].title}."
        return read_flags(
            gathered(argv, levels=True), default, (_Run, _Saving, _Machine), PROGRAM, about
        )

    first = read(Options(settings=settings()))
    processes.join(first.coordinator, first.processes, first.process, first.join_timeout)
    if first.resume is not None:
        known = Run.open(first.resume).config
        if known.algorithm != algorithm:
            raise RunError(
                f"{first.resume} was trained by {known.algorithm}, not by {algorithm}; "
                f"continue with: {program()} train --algo {known.algorithm} --resume {first.resume}"
            )
        return _checked(_resumed(read, known, settings, first.resume), algorithm)
    if first.id is None:
        raise RunError(f"which environment? Give an id: {program()} train Grid-DoorKey-5x5-v0")
    id = canonical(first.id, algorithm)
    tuned = presets.preset(id, first.preset, algorithm)
    options = read(Options(settings=settings(**tuned.settings)))
    return _checked(dataclasses.replace(options, id=id), algorithm)


def with_source(options: Options[S], algorithm: str = USUAL) -> Options[S]:
    """Return `options`, with the reset source set if its default differs on this machine.

    The reset source says how resets get levels. Each environment has a default, but on some
    machines, such as those with a GPU, another default may apply. A new run then records the
    machine's default, and keeps it when it is resumed on another machine. If a resumed run has
    recorded no reset source, it began with the environment's default and keeps it. Options of
    learners with Ray actors are not changed.
    """
    unnamed = getattr(options.settings, "reset_source", "") is None
    if not unnamed or ALGORITHMS[algorithm].outside:
        return options
    assert options.id is not None
    given, params = fields(options.set), fields(options.param, PARAM)
    check_params(options.id, given, params)
    env = jaxenvs.make(options.id, **given, **params)
    usual, own = usual_source(env), env.reset_source
    if usual == own:
        return options
    settings: Any = options.settings
    named = dataclasses.replace(settings, reset_source=usual if options.resume is None else own)
    return dataclasses.replace(options, settings=named)


def config(options: Options[Any], algorithm: str = USUAL) -> Config:
    """Return the content of the run's config.json; raises the errors of `jaxenvs.make`."""
    assert options.id is not None
    given, params = fields(options.set), fields(options.param, PARAM)
    check_params(options.id, given, params)
    is_new = options.resume is None and not options.id.startswith(GYM)
    if is_new and "obs" not in given and presets.reads_mission(options.id):
        # Write `obs` explicitly: without it, `Config.env_fields` would add the image observation,
        # as for older runs.
        given["obs"] = "dict"
    if is_new and "setup" not in given and presets.has_setups(options.id):
        # Write `setup` explicitly, too: without it, the run would count as an older, masked one.
        given["setup"] = getattr(jaxenvs.make(options.id), "setup")  # noqa: B009 - not in `Env`
    swept = sweep.parse(options.sweep, options.settings, algorithm)
    config = Config(
        id=options.id,
        fields=given,
        params=params,
        seed=options.seed,
        seeds=options.seeds * math.prod(map(len, swept.values())),
        sweep=swept,
        settings=dataclasses.asdict(options.settings),
        algorithm=algorithm,
        tracking={k: getattr(options, k) for k in TRACKING if getattr(options, k)},
    )
    if not config.id.startswith(GYM):
        env = config.env
        for flag in ("video_every", "html"):
            if getattr(options, flag) and not is_drawn(env):
                raise RunError(f"--{flag.replace('_', '-')}: {config.id} {UNDRAWN}; omit it")
    return config


def canonical(id: str, algorithm: str) -> str:
    """Return the environment's own id if `id` is an alias, else `id`.

    Raises the errors of `jaxenvs.spec`. Also raises `RunError` for a Gymnasium id if the learner
    does not run its actors as separate processes.
    """
    if not id.startswith(GYM):
        module, colon, _ = id.rpartition(":")  # importing the module registers the id
        return f"{module}{colon}{jaxenvs.spec(id).id}"
    if not ALGORITHMS[algorithm].outside:
        raise RunError(
            f"{id} steps in Python, outside of {algorithm}'s compiled program; train with actors: "
            f"{program()} train {id} --ray"
        )
    return id


def build_learner(options: Options[S], config: Config) -> Learner[S]:
    """Return the learner for a jaxenvs environment; raises an error for invalid settings."""
    settings: Any = options.settings
    settings.check()
    devices = Devices.chosen(options.devices)
    env = registry.training_env(config.algorithm, config.env, settings)
    learner = registry.build(config.algorithm, env, settings, devices)
    module = learner.algorithm.load()
    if hasattr(module, "check"):
        module.check(learner, config.seeds, options.eval_episodes)
    return learner


def directory(options: Options[Any], config: Config) -> Run:
    """Return the run to resume, or a new run; only process 0 creates its directory."""
    if options.resume is not None:
        return Run(options.resume, config)
    name = f"{config.id}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = options.out or Path("runs") / name
    if not processes.first():
        return Run(path, config)
    return Run.create(path, config, options.overwrite)


def fields(pairs: tuple[str, ...], flag: str = FLAG) -> dict[str, Any]:
    """Parse arguments such as `view_size=5 obs=full`; return the values by name."""
    try:
        return parse_fields(pairs, flag)
    except ValueError as error:
        raise RunError(str(error)) from error


def check_params(id: str, given: dict[str, Any], params: dict[str, Any]) -> None:
    """Raise `ValueError` if `--set` gives a param, or `--param` gives a constructor field."""
    if not id.startswith(GYM):
        check_kinds(id, given, params)
    elif params:
        raise RunError(
            f"{PARAM} {next(iter(params))}: a Gymnasium environment has no params; give its "
            f"keywords by {FLAG}"
        )


def _check_numbers(options: Options[Any]) -> None:
    """Raise `RunError` for a number that is out of range."""
    for name in ("seeds", "checkpoint_every", "eval_episodes", "eval_every", "video_every"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise RunError(f"--{name.replace('_', '-')} {value} must be at least 1")
    if not 0 <= options.seed <= 2**31 - options.seeds:
        shown = f" with --seeds {options.seeds}" if options.seeds > 1 else ""
        raise RunError(
            f"--seed {options.seed}{shown} must be from 0 to {2**31 - options.seeds}, so that "
            f"every seed is at most {2**31 - 1}"
        )
    if not options.checkpoint_seconds >= 0:
        raise RunError(
            f"--checkpoint-seconds {options.checkpoint_seconds:g} must be at least 0 (0: a "
            f"checkpoint after each call of the compiled program)"
        )


def _checked(options: Options[S], algorithm: str) -> Options[S]:
    _check_numbers(options)
    sinks.check(options.log)
    row = ALGORITHMS[algorithm]
    shown = [n for n in ("eval_every", "video_every", "html") if getattr(options, n)]
    if options.eval_greedy and str(options.id).startswith(GYM):
        raise RunError(f"--eval-greedy: actors of Ray sample actions in {options.id}; omit it")
    for flag in ("--" + name.replace("_", "-") for name in shown):
        if not row.shape or str(options.id).startswith(GYM):
            raise RunError(
                f"{flag} needs a policy that acts in JAX; {algorithm} in {options.id} learns "
                f"none: omit {flag}"
            )
        if flag != "--html" and row.outside:
            raise RunError(f"{flag}: with Ray no policy is shown before the end; omit {flag}")
    return options


def _resumed(read: Any, config: Config, settings: type[S], path: Path) -> Options[S]:
    """Return the options of a resumed run: those saved with the run, changed by the command line.

    Raises `RunError` if the command line changes an option that must stay the same.
    """
    try:
        saved = Options(
            settings=settings(**config.settings),
            id=config.id,
            seeds=config.seeds_of_each,
            seed=config.seed,
            sweep=sweep.as_arguments(config.sweep),
            set=tuple(itertools.starmap(written, config.fields.items())),
            param=tuple(itertools.starmap(written, config.params.items())),
            **{name: config.tracking[name] for name in TRACKING if name in config.tracking},
        )
    except TypeError as error:
        raise RunError(
            f"{path} was made by another version of jaxenvs ({error}); install that version "
            f"({config.versions.get('jaxenvs')}) or train again with --out NEW"
        ) from error
    given, restart = _given(read, saved)
    for name in ("out", "overwrite", "preset"):
        if getattr(given, name):
            raise RunError(f"--resume continues in {path} itself; omit --{name}")
    given = dataclasses.replace(given, id=canonical(given.id, config.algorithm))
    free = FREE_WITH_RAY if ALGORITHMS[config.algorithm].outside else FREE
    restart &= RATE not in config.sweep
    for name, old, new in _differences(saved, given, (*free, *([RATE] if restart else []))):
        raise RunError(
            f"{path} was trained with {name} {old} and cannot continue with {new}; omit it, or "
            f"start a new run with --out NEW instead of --resume"
        )
    done = newest_intact(path / "checkpoints")
    return dataclasses.replace(given, settings=_continued(saved, given, done, restart, path))


def _given(read: Any, saved: Options[Any]) -> tuple[Any, bool]:
    """Read the flags, with defaults `saved`; also return whether --learning-rate is set."""
    settings = saved.settings
    if not settings.restarts:
        return read(saved), False
    # Make the default of the learning rate an impossible value. Any other value must then come from
    # the flag, even if it equals the saved value.
    unknown = dataclasses.replace(settings, learning_rate=-math.inf)
    given = read(dataclasses.replace(saved, settings=unknown))
    if given.settings.learning_rate != -math.inf:
        return given, True
    same = dataclasses.replace(given.settings, learning_rate=settings.learning_rate)
    return dataclasses.replace(given, settings=same), False


def _continued(saved: Options[S], given: Options[S], done: int, restart: bool, path: Path) -> S:
    """Return the settings of a run resumed after update `done`.

    Raises `RunError` if the run is to take more steps, but with a learning rate that has fallen to
    0 and that the command line does not restart.
    """
    old: Any = saved.settings
    new: Any = given.settings
    for settings in (old, new):
        settings.check()
    settings = schedules.resumed(new, old, done, restart)
    if (settings.updates - done) % settings.chunk:
        raise RunError(
            f"--chunk {settings.chunk}: {path} has made {counted(done, 'update')}, so "
            f"{settings.updates - done} are left; give a divisor of it"
        )
    if getattr(settings, "robust", False) and settings.anneal:
        if restart:
            raise RunError(
                f"--learning-rate: {path} anneals with the gradient steps that it takes, and a "
                f"robust curriculum does not learn in every update; omit it"
            )
        return settings
    falls = getattr(settings, "anneal", not settings.restarts)
    if not falls or not 0 < done < settings.updates or new.total_steps <= old.total_steps:
        return settings
    if settings.progress_at(done, settings.rate_since) < 1.0:
        return settings
    fix = f"train again with --out NEW --total-steps {new.total_steps}"
    if settings.restarts and not any(text.startswith(f"{RATE}=") for text in saved.sweep):
        fix = f"give --learning-rate {old.learning_rate:g} or less, from where it falls again"
    raise RunError(
        f"{path} has finished and its learning rate has fallen to 0, so that more steps would "
        f"teach it nothing: {fix}"
    )


def _differences(
    saved: Options[Any], given: Options[Any], free: tuple[str, ...]
) -> list[tuple[str, Any, Any]]:
    """Return (flag, saved value, given value) of all options that differ and are not in `free`."""
    pairs: list[tuple[str, Any, Any]] = [("id", saved.id, given.id)]
    pairs.append(("--seeds", saved.seeds, given.seeds))
    pairs.append(("--seed", saved.seed, given.seed))
    pairs.append(("--sweep", saved.sweep, given.sweep))
    pairs.append((FLAG, fields(saved.set), fields(given.set)))
    pairs.append((PARAM, fields(saved.param, PARAM), fields(given.param, PARAM)))
    for field in dataclasses.fields(saved.settings):
        if field.name not in free:
            old, new = (getattr(options.settings, field.name) for options in (saved, given))
            pairs.append(("--" + field.name.replace("_", "-"), old, new))
    return [pair for pair in pairs if pair[1] != pair[2]]
