"""What every learner shares: a loop over compiled chunks with log, checkpoints and Ctrl-C.

algorithms.py says what a learner is. Its functions run on each of `learner.devices`; fields of the
runner that `DIVIDED` does not name are, and must stay, the same on all devices. Where there
are several processes, each runs this loop, and process 0 alone writes and speaks.
"""

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxenvs import UnknownIdError
from jaxenvs.core.vector import VectorState

from ..core import processes
from ..core.devices import DIVIDED, EVERYWHERE
from ..core.learner import Algorithm, Learner, over_seeds
from ..core.terminal import activity
from ..evaluation import final
from ..evaluation.record import tell_sweep
from ..storage import sweep
from ..storage.checkpoints import RunError
from ..storage.runs import Config, Run, load_policy
from . import sinks, tracking
from .divergence import Divergence
from .interrupt import EXIT_CODE, Interrupt
from .keeping import Callback, Keeper
from .options import PROGRAM, Options, prepare
from .progress import OLDEST, ProgressLine
from .supports import Supports

STOCK = "stock"  # part of a checkpoint
SUMS = ("episodes", "return_sum", "length_sum")  # metrics that are added over devices
FAILED = 2  # exit code: training has not begun
# Errors that the caller can correct; they are printed as a sentence.
WRONG = (ImportError, OSError, UnknownIdError, TypeError, ValueError)


@functools.partial(jax.jit, static_argnums=0)
def start(learner: Learner[Any], keys: Array, params: PyTree[Array] = None) -> Any:
    """Make one runner per key, one after another: orthogonal weights compile badly under `vmap`.

    `params` are `learner.params`.
    """

    def one_by_one(keys: Array, params: PyTree[Array]) -> Any:
        return jax.lax.map(lambda key: learner.init(key, params), keys)

    everywhere = (EVERYWHERE, EVERYWHERE)
    return learner.devices.program(one_by_one, everywhere, partition(learner))(keys, params)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def run_chunk(
    learner: Learner[Any], runners: Any, params: PyTree[Array] = None
) -> tuple[Any, dict[str, Array]]:
    """Make `chunk` updates of every seed; metrics have shape (seeds, chunk)."""
    devices, where = learner.devices, partition(learner)

    def seeds(runners: Any, params: PyTree[Array]) -> tuple[Any, dict[str, Array]]:
        def update(runner: Any, _: None) -> tuple[Any, dict[str, Array]]:
            after, metrics = learner.update(runner, params)
            lengths = getattr(after, "lengths", ())  # of the episodes under way
            oldest = {OLDEST: jnp.max(lengths)} if isinstance(lengths, jax.Array) else {}
            return after, {**metrics, **oldest}

        def updates(runner: Any) -> tuple[Any, dict[str, Array]]:
            return jax.lax.scan(update, runner, length=learner.settings.chunk)

        runners, metrics = over_seeds(updates)(runners)
        sums = devices.total({name: metrics.pop(name) for name in SUMS})
        most = devices.most({OLDEST: metrics.pop(OLDEST)} if OLDEST in metrics else {})
        return runners, sums | most | devices.mean(metrics)

    return devices.program(seeds, (where, EVERYWHERE), (where, EVERYWHERE))(runners, params)


def partition(learner: Learner[Any]) -> Any:
    """Where the fields of runners are: divided over the devices, or the same on each."""
    module = learner.algorithm.load()
    wheres = (DIVIDED if name in module.DIVIDED else EVERYWHERE for name in module.Runner._fields)
    return module.Runner(*wheres)


def train(run: Run, learner: Any, done: int, runners: Any, keeper: Keeper) -> Any:
    """Go on after update `done` until the last one, Ctrl-C or a callback's stop; log and save.

    Each chunk is dispatched before the metrics of the one before are read, so that the devices
    need not wait for this process.
    """
    settings, params, unread = learner.settings, lent(learner), None
    divergence, supports = Divergence(run), Supports(run.config, learner)
    with (
        Interrupt("Stopping soon, then saving; Ctrl-C again stops at once.") as stop,
        progress_line(run, learner, done) as line,
    ):

        def tell(metrics: dict[str, Array] | None) -> None:
            if metrics is not None:
                records = line.update(jax.device_get(metrics))
                keeper.log(records)
                line.show(keeper.note)
                divergence.look(records)
                supports.look(records, runners)

        stopped = ends = False
        while done < settings.updates and not (stopped or ends):
            runners, metrics = run_chunk(learner, runners, params)
            tell(unread)
            before, done, unread = done, done + settings.chunk, metrics
            keeper.look(before, done, runners.weights)
            stopped, ends, due = processes.agree(
                stop.asked, keeper.stopped, keeper.is_due(before, done)
            )
            if due or stopped or ends or done >= settings.updates:
                tell(unread)  # before its checkpoint: a run that goes on from there has its row
                unread = None
                keeper.save(done, split(learner.devices.whole(runners)))
        keeper.end()
    if stopped:
        raise KeyboardInterrupt
    return runners


def progress_line(run: Run, learner: Any, done: int) -> ProgressLine:
    """The line of a run; a learner's module may say what it shows of a record, `shown`."""
    settings, module = learner.settings, learner.algorithm.load()
    shown = getattr(module, "shown", None)
    return ProgressLine(
        run.config,
        settings.steps_per_update,
        settings.updates,
        done,
        unit=getattr(settings, "unit", "steps"),
        shown=None if shown is None else functools.partial(shown, settings),
    )


def lent(learner: Learner[Any]) -> PyTree[Array]:
    """Params of the environments on every device, as `start` and `run_chunk` take them."""
    return learner.devices.place(jax.device_get(learner.params), EVERYWHERE)


def split(runners: Any) -> dict[str, PyTree]:
    """The parts of a checkpoint, of runners or their shapes: readers of a policy need weights.

    A stock of levels is a part because it is replaced where it does not fit, see `_whole`.
    """
    parts, stock = runners._asdict(), {}
    world = parts.get("world")
    if isinstance(world, VectorState) and world.stock is not None:
        stock = {STOCK: world.stock}
        parts["world"] = world.replace(stock=None)
    return {"weights": parts.pop("weights"), "learner": parts, **stock}


def _whole(parts: dict[str, PyTree], shapes: dict[str, PyTree]) -> dict[str, PyTree]:
    """Fields of runners, of the parts of a checkpoint.

    Without a stock that fits (another number of devices has another size) they get an empty one,
    which the next step fills: zeros.
    """
    fields = {"weights": parts["weights"], **parts["learner"]}
    if STOCK in shapes:
        empty = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes[STOCK])
        fields["world"] = fields["world"].replace(stock=parts.get(STOCK, empty))
    return fields


def begin(run: Run, learner: Any, resume: bool) -> tuple[int, Any]:
    """Return how many updates are done and the runners: new ones, or those of the checkpoint.

    A run that was stopped before it had saved anything begins anew.
    """
    place = learner.devices.place
    data = np.stack([jax.random.key_data(jax.random.key(seed)) for _, seed in run.config.agents])
    swept = sweep.values(run.config)
    fields = {"swept": place(swept, EVERYWHERE)} if swept else {}
    keys = jax.random.wrap_key_data(place(data, EVERYWHERE))
    if resume and not run.has_begun and processes.first():
        print(f"{run.path} has no checkpoint yet; it begins anew", file=sys.stderr)
        _rewind(run, 0)
    if not resume or not run.has_begun:
        return 0, start(learner, keys, lent(learner))._replace(**fields)
    shapes = jax.eval_shape(functools.partial(start, learner), keys, lent(learner))
    shapes = split(shapes._replace(**fields))
    done, trees = run.restore(shapes, replaceable=(STOCK,))
    if done > learner.settings.updates:
        steps = done * learner.settings.steps_per_update
        raise RunError(f"{run.path} has already made {steps:,} steps; give more --total-steps")
    if processes.first():
        _rewind(run, done)
    parts, where = _whole(trees, shapes), partition(learner)
    # Copies: the first chunk is given their memory.
    return done, type(where)(*(place(parts[name], getattr(where, name)) for name in where._fields))


def _rewind(run: Run, done: int) -> None:
    """Make the files of a run say what is done; `RunError` where they cannot be written."""
    try:
        run.rewind(done)
        run.write_config()  # total_steps may have risen
    except OSError as error:
        raise RunError(
            f"{run.path} cannot be written ({error}), nothing is lost; "
            f"free some space and continue with --resume {run.path}"
        ) from error


_TRAIN = train  # the loop over compiled updates


def command(
    algorithm: Algorithm,
    argv: list[str],
    build: Callable[[Options[Any], Config], Learner[Any]] | None = None,
    train: Callable[[Run, Any, int, Any, Keeper], Any] = train,
    report: Callable[[Run, Any, PyTree[Array], int], None] | None = None,
    callback: Callback | None = None,
) -> int:
    """Train what a command line asks for, then evaluate it; return the exit code.

    `build` defaults to `options.build_learner`, `report` to `final.report`. `callback` is the one
    of `train.main`.
    """
    try:
        trace = _trace if train is _TRAIN else None
        asked, run, learner = prepare(argv, algorithm.name, build, trace)
    except SystemExit as stop:  # --help, or a flag that does not exist
        return int(stop.code or 0)
    except WRONG as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return EXIT_CODE
    code = FAILED  # unless it returns
    try:
        code = _trained(asked, run, learner, train, report or final.report, callback)
    finally:
        if code == FAILED and asked.resume is None and processes.first():
            run.discard()
    return code


def _trace(config: Config, learner: Learner[Any]) -> None:
    """Trace an update, which its first call then reuses: faults of the environment raise here."""
    keys = jax.ShapeDtypeStruct((len(config.agents),), jax.random.key(0).dtype)
    params, swept = lent(learner), sweep.values(config)
    with activity(config.id, "starting"):
        runners = jax.eval_shape(functools.partial(start, learner), keys, params)
        runners = runners._replace(swept=swept) if swept else runners
        jax.eval_shape(functools.partial(run_chunk, learner), runners, params)


def _trained(
    asked: Options[Any],
    run: Run,
    learner: Learner[Any],
    train: Callable[[Run, Any, int, Any, Keeper], Any],
    report: Callable[[Run, Any, PyTree[Array], int], None],
    callback: Callback | None,
) -> int:
    """Train in the run's directory and report; return the exit code."""
    try:
        with activity(run.config.id, "starting"):
            done, runners = begin(run, learner, asked.resume is not None)
        kept = _kept(run, learner, asked, callback, (done, runners))
    except WRONG as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return EXIT_CODE
    try:
        with contextlib.closing(kept) as keeper:
            runners = train(run, learner, done, runners, keeper)
        if processes.first():
            weights = learner.devices.one(runners.weights)
            with activity(run.config.id, "evaluating", "evaluating ..."):
                report(run, learner, weights, asked.eval_episodes)
            _follow(run, asked.html)
        processes.wait("reported")
    except (RunError, OSError) as error:  # the end could not be written
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if processes.first():
            print(run.how_to_go_on, file=sys.stderr)
        return EXIT_CODE
    return 0


def _kept(
    run: Run, learner: Any, asked: Options[Any], callback: Callback | None, begun: tuple[int, Any]
) -> Keeper:
    """The writer of a run's files, for a run that goes on from what `begin` returned."""
    every, seconds = asked.checkpoint_every, asked.checkpoint_seconds
    if not processes.first():
        return Keeper(run, every, seconds)
    looks = tracking.looks(run, learner, asked, *begun)
    return Keeper(run, every, seconds, sinks.started(asked.log, run), callback, looks)


def _follow(run: Run, html: bool) -> None:
    """Print the table of a sweep; let the first seed play for the browser, if asked."""
    if run.config.sweep:
        tell_sweep(run)
    if not html:
        return
    from jaxenvs.render import replay

    file = run.path / "replay.html"
    episodes = replay.of_policy(load_policy(run.path), file)
    print(f"Look at {episodes} episodes: {file}")
