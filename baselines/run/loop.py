"""Training loop of all learners: compiled chunks of updates, log, checkpoints and Ctrl-C.

core/learner.py defines the interface of a learner. A learner's functions run on each of
`learner.devices`. The learner's module lists in `DIVIDED` (default: `rollouts.DIVIDED`) the fields
of the runner (training state) that are divided among the devices. All other fields are replicated,
and must stay equal on all devices. If there are several processes, each of them runs this loop, but
only process 0 writes files and prints.
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

from .. import old_names
from ..core import memory_needs, processes, rollouts
from ..core.devices import DIVIDED, EVERYWHERE
from ..core.learner import Algorithm, Learner, over_seeds
from ..core.metrics import is_total
from ..core.terminal import activity
from ..evaluation import final
from ..evaluation.record import print_sweep
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

STOCK = "stock"  # checkpoint part with the stock: levels generated ahead for later resets
FAILED = 2  # exit code if training did not start
# Errors that the user can correct; only their message is printed.
WRONG = (ImportError, OSError, UnknownIdError, TypeError, ValueError)


@functools.partial(jax.jit, static_argnums=0)
def start(learner: Learner[Any], keys: Array, params: PyTree[Array] = None) -> Any:
    """Return an initial runner (training state) for each key; pass `learner.params` as `params`.

    The runners are created one after another (`lax.map`), because orthogonal initialisation is slow
    to compile under `vmap`.
    """

    def one_by_one(keys: Array, params: PyTree[Array]) -> Any:
        return jax.lax.map(lambda key: learner.init(key, params), keys)

    everywhere = (EVERYWHERE, EVERYWHERE)
    return learner.devices.program(one_by_one, everywhere, partition(learner))(keys, params)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def run_chunk(
    learner: Learner[Any], runners: Any, params: PyTree[Array] = None
) -> tuple[Any, dict[str, Array]]:
    """Make `chunk` updates of every seed; return the runners and the metrics, (seeds, chunk)."""
    devices, where = learner.devices, partition(learner)

    def seeds(runners: Any, params: PyTree[Array]) -> tuple[Any, dict[str, Array]]:
        def update(runner: Any, _: None) -> tuple[Any, dict[str, Array]]:
            after, metrics = learner.update(runner, params)
            lengths = getattr(after, "lengths", ())  # steps so far of each unfinished episode
            oldest = {OLDEST: jnp.max(lengths)} if isinstance(lengths, jax.Array) else {}
            return after, {**metrics, **oldest}

        def updates(runner: Any) -> tuple[Any, dict[str, Array]]:
            return jax.lax.scan(update, runner, length=learner.settings.chunk)

        runners, metrics = over_seeds(updates)(runners)
        # these are summed, not averaged, over the devices
        names = [name for name in metrics if is_total(name)]
        sums = devices.total({name: metrics.pop(name) for name in names})
        most = devices.maximum({OLDEST: metrics.pop(OLDEST)} if OLDEST in metrics else {})
        return runners, sums | most | devices.mean(metrics)

    return devices.program(seeds, (where, EVERYWHERE), (where, EVERYWHERE))(runners, params)


def __getattr__(name: str) -> Any:
    """Return `partition` for its old name `layout`, with a warning."""
    if name == "layout":
        return old_names.member(__name__, name)
    raise AttributeError(f"module {__name__} has no attribute {name}")


def partition(learner: Learner[Any]) -> Any:
    """Return a `PartitionSpec` for each field of a runner: divided among devices, or replicated."""
    module = learner.algorithm.load()
    kind = getattr(module, "Runner", rollouts.Runner)
    divided = getattr(module, "DIVIDED", rollouts.DIVIDED)
    return kind(*(DIVIDED if name in divided else EVERYWHERE for name in kind._fields))


def train(run: Run, learner: Any, done: int, runners: Any, keeper: Keeper) -> Any:
    """Train from update `done` to the last update; log metrics and save checkpoints.

    Training ends earlier after Ctrl-C, or if a callback or the learner's function `finished`
    returns True. Return the last training state; raise `KeyboardInterrupt` after Ctrl-C. The
    metrics of a chunk (a call of the compiled program) are read after the next chunk is dispatched,
    so that the devices never wait for the log.
    """
    settings, params, unread = learner.settings, placed_params(learner), None
    divergence, supports = Divergence(run), Supports(run.config, learner)
    finished = getattr(learner.algorithm.load(), "finished", lambda record: False)
    with (
        Interrupt("Stopping soon, then saving; Ctrl-C again stops at once.") as stop,
        progress_line(run, learner, done) as line,
    ):

        def log_metrics(metrics: dict[str, Array] | None) -> None:
            if metrics is not None:
                records = line.update(jax.device_get(metrics))
                keeper.log(records)
                keeper.stopped |= finished(records[-1])
                line.show(keeper.note)
                divergence.look(records)
                supports.look(records, runners)

        stopped = ends = False
        while done < settings.updates and not (stopped or ends):
            runners, metrics = run_chunk(learner, runners, params)
            log_metrics(unread)
            before, done, unread = done, done + settings.chunk, metrics
            keeper.look(before, done, runners.weights)
            stopped, ends, due = processes.agree(
                stop.asked, keeper.stopped, keeper.is_due(before, done)
            )
            if due or stopped or ends or done >= settings.updates:
                log_metrics(unread)  # log first, so that the log of a resumed run has these records
                unread = None
                keeper.save(done, split(learner.devices.fetchable(runners)))
        keeper.end()
    if stopped:
        raise KeyboardInterrupt
    return runners


def progress_line(run: Run, learner: Any, done: int) -> ProgressLine:
    """Return a run's progress line; the learner's function `shown`, if any, formats the text."""
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


def placed_params(learner: Learner[Any]) -> PyTree[Array]:
    """Return the environment params, replicated on all devices, for `start` and `run_chunk`."""
    return learner.devices.place(jax.device_get(learner.params), EVERYWHERE)


def split(runners: Any) -> dict[str, PyTree]:
    """Split runners (training states), or their shapes, into the parts of a checkpoint, by name.

    Weights are a separate part, because loading a policy reads only weights. The stock (levels
    generated ahead for later resets) is a separate part, because a run resumed on other devices
    replaces it by an empty stock of another shape.
    """
    parts, stock = runners._asdict(), {}
    world = parts.get("world")
    if isinstance(world, VectorState) and world.stock is not None:
        stock = {STOCK: world.stock}
        parts["world"] = world.replace(stock=None)
    return {"weights": parts.pop("weights"), "learner": parts, **stock}


def _whole(parts: dict[str, PyTree], shapes: dict[str, PyTree]) -> dict[str, PyTree]:
    """Return the runners' fields by name from the parts of a checkpoint.

    The shape of the stock depends on the number of devices. If the stock in the checkpoint has
    another shape than in `shapes`, `parts` does not contain it. Then the runners get an empty
    stock, which the next step fills.
    """
    fields = {"weights": parts["weights"], **parts["learner"]}
    if STOCK in shapes:
        empty = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes[STOCK])
        fields["world"] = fields["world"].replace(stock=parts.get(STOCK, empty))
    return fields


def begin(run: Run, learner: Any, resume: bool) -> tuple[int, Any]:
    """Return the number of updates made, and the training states: new, or of the newest checkpoint.

    If a run to resume has no checkpoint yet, it starts from the beginning.
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
        return 0, start(learner, keys, placed_params(learner))._replace(**fields)
    shapes = jax.eval_shape(functools.partial(start, learner), keys, placed_params(learner))
    shapes = split(shapes._replace(**fields))
    done, trees = run.restore(shapes, replaceable=(STOCK,))
    if done > learner.settings.updates:
        steps = done * learner.settings.steps_per_update
        raise RunError(f"{run.path} has already made {steps:,} steps; give more --total-steps")
    if processes.first():
        _rewind(run, done)
    parts, where = _whole(trees, shapes), partition(learner)
    # `run_chunk` donates its arguments, so XLA overwrites them: `place` must copy the arrays.
    return done, type(where)(*(place(parts[name], getattr(where, name)) for name in where._fields))


def _rewind(run: Run, done: int) -> None:
    """Remove log records after update `done`; `RunError` if the files cannot be written."""
    try:
        run.rewind(done)
        run.write_config()  # write `config`, whose total_steps may be larger than in the file
    except OSError as error:
        raise RunError(
            f"{run.path} cannot be written ({error}), nothing is lost; "
            f"free some space and continue with --resume {run.path}"
        ) from error


def command(
    algorithm: Algorithm,
    argv: list[str],
    build: Callable[[Options[Any], Config], Learner[Any]] | None = None,
    train: Callable[[Run, Any, int, Any, Keeper], Any] = train,
    report: Callable[[Run, Any, PyTree[Array], int], None] | None = None,
    callback: Callback | None = None,
) -> int:
    """Train with the command-line arguments `argv`, then evaluate; return the exit code.

    `build` creates the learner; default: `options.build_learner`. `train` is the training loop.
    `report` evaluates the trained weights; default: `final.report`. `train.main` describes
    `callback`.
    """
    try:
        trace = None if algorithm.command else _trace
        options, run, learner = prepare(argv, algorithm.name, build, trace)
    except SystemExit as stop:  # --help, or an unknown flag
        return int(stop.code or 0)
    except WRONG as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return EXIT_CODE
    code = FAILED  # exit code if training raises an error
    try:
        code = _trained(options, run, learner, train, report or final.report, callback)
    finally:
        if code == FAILED and options.resume is None and processes.first():
            run.discard()
    return code


def _trace(config: Config, learner: Learner[Any]) -> None:
    """Trace the first update, so that the environment's errors appear before files are written.

    Also print how much memory training needs, or raise `ValueError` if the devices have less. JAX
    caches the trace, and the first real call of `run_chunk` reuses it.
    """
    keys = jax.ShapeDtypeStruct((len(config.agents),), jax.random.key(0).dtype)
    params, swept = placed_params(learner), sweep.values(config)
    with activity(config.id, "starting"):
        runners = jax.eval_shape(functools.partial(start, learner), keys, params)
        runners = runners._replace(swept=swept) if swept else runners
        memory = memory_needs.check(learner, runners, partition(learner))
        jax.eval_shape(functools.partial(run_chunk, learner), runners, params)
    if memory and processes.first():
        print(memory)


def _trained(
    options: Options[Any],
    run: Run,
    learner: Learner[Any],
    train: Callable[[Run, Any, int, Any, Keeper], Any],
    report: Callable[[Run, Any, PyTree[Array], int], None],
    callback: Callback | None,
) -> int:
    """Train, write the run's files and evaluate; return the exit code."""
    try:
        with activity(run.config.id, "starting"):
            done, runners = begin(run, learner, options.resume is not None)
        kept = _kept(run, learner, options, callback, (done, runners))
    except WRONG as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return EXIT_CODE
    try:
        with contextlib.closing(kept) as keeper:
            runners = train(run, learner, done, runners, keeper)
        if processes.first():
            weights = learner.devices.on_one_device(runners.weights)
            with activity(run.config.id, "evaluating", "evaluating ..."):
                report(run, learner, weights, options.eval_episodes)
            _follow(run, options.html)
        processes.wait("reported")
    except (RunError, OSError) as error:  # the results could not be written
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if processes.first():
            print(run.how_to_go_on, file=sys.stderr)
        return EXIT_CODE
    return 0


def _kept(
    run: Run, learner: Any, options: Options[Any], callback: Callback | None, begun: tuple[int, Any]
) -> Keeper:
    """Return the `Keeper`, which writes a run's files.

    `begun`, the result of `begin`, is the number of updates done and the training states.
    """
    every, seconds = options.checkpoint_every, options.checkpoint_seconds
    if not processes.first():
        return Keeper(run, every, seconds)
    looks = tracking.looks(run, learner, options, *begun)
    return Keeper(run, every, seconds, sinks.started(options.log, run), callback, looks)


def _follow(run: Run, html: bool) -> None:
    """Print the results of a finished run if it is a sweep.

    With `html`, also write replay.html, which shows episodes of the first seed.
    """
    if run.config.sweep:
        print_sweep(run)
    if not html:
        return
    from jaxenvs.render import replay

    file = run.path / "replay.html"
    episodes = replay.of_policy(load_policy(run.path), file)
    print(f"Look at {episodes} episodes: {file}")
