"""What every learner shares: a loop over compiled chunks with log, checkpoints and Ctrl-C.

A learner is a frozen, hashable value with two pure functions for one seed, `init(key)`, which
returns a runner, and `update(runner, None)`, which returns the next one and metrics; and with
`settings` that have `chunk`, `updates` and `steps_per_update`. A runner is a NamedTuple of arrays
with `weights`; metrics have `episodes`, `return_sum` and `length_sum`.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxenvs import UnknownIdError

from .checkpoints import RunError
from .curve import draw
from .interrupt import EXIT_CODE, Interrupt
from .options import PROGRAM, Options
from .progress import ProgressLine
from .runs import Run

SEEDS = "seeds"  # name of the axis over which runs with different seeds are vmapped


@functools.partial(jax.jit, static_argnums=0)
def start(learner: Any, keys: Array) -> Any:
    """Make one runner per key, one after another: orthogonal weights compile badly under `vmap`."""
    return jax.lax.map(learner.init, keys)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def run_chunk(learner: Any, runners: Any) -> tuple[Any, dict[str, Array]]:
    """Make `chunk` updates of every seed; metrics have shape (seeds, chunk)."""

    def updates(runner: Any) -> tuple[Any, dict[str, Array]]:
        return jax.lax.scan(learner.update, runner, length=learner.settings.chunk)

    return jax.vmap(updates, axis_name=SEEDS)(runners)


def train(run: Run, learner: Any, done: int, runners: Any, checkpoint_every: int) -> Any:
    """Go on after update `done` until the last one or Ctrl-C; log and save on the way."""
    settings = learner.settings
    with (
        Interrupt("Stopping after this update, then saving; Ctrl-C again stops at once.") as stop,
        ProgressLine(run.config, settings.steps_per_update, settings.updates, done) as line,
    ):
        while done < settings.updates and not stop.asked:
            runners, metrics = run_chunk(learner, runners)
            run.log(line.update(jax.device_get(metrics)))
            before, done = done, done + settings.chunk
            last = done >= settings.updates or stop.asked
            if last or done // checkpoint_every > before // checkpoint_every:
                save(run, done, runners)
    if stop.asked:
        raise KeyboardInterrupt
    return runners


def save(run: Run, done: int, runners: Any) -> None:
    """Write a checkpoint and the learning curve."""
    run.save(done, split(runners))
    draw(run.path / "curve.png", run.rows(), run.config.id, run.config.seed)


def split(runners: Any) -> dict[str, PyTree]:
    """The parts of a checkpoint, of runners or their shapes: readers of a policy need weights."""
    parts = runners._asdict()
    return {"weights": parts.pop("weights"), "learner": parts}


def begin(run: Run, learner: Any, resume: bool) -> tuple[int, Any]:
    """Return how many updates are done and the runners: new ones, or those of the checkpoint."""
    keys = jnp.stack([jax.random.key(run.config.seed + i) for i in range(run.config.seeds)])
    if not resume:
        return 0, start(learner, keys)
    shapes = jax.eval_shape(functools.partial(start, learner), keys)
    done, trees = run.restore(split(shapes))
    if done > learner.settings.updates:
        steps = done * learner.settings.steps_per_update
        raise RunError(f"{run.path} has already made {steps:,} steps; give more --total-steps")
    run.rewind(done)
    run.write_config()  # total_steps may have risen
    trees = jax.tree.map(jnp.array, trees)  # copies: the first chunk is given their memory
    return done, type(shapes)(weights=trees["weights"], **trees["learner"])


def command(
    prepare: Callable[[list[str]], tuple[Options[Any], Run, Any]],
    report: Callable[[Run, Any, PyTree[Array], int], None],
    argv: list[str] | None,
) -> int:
    """Train what `prepare` makes of a command line, then `report` it; return the exit code."""
    try:
        asked, run, learner = prepare(sys.argv[1:] if argv is None else argv)
        done, runners = begin(run, learner, asked.resume is not None)
    except SystemExit as stop:  # --help, or a flag that does not exist
        return int(stop.code or 0)
    except (ImportError, UnknownIdError, TypeError, ValueError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return EXIT_CODE
    try:
        runners = train(run, learner, done, runners, asked.checkpoint_every)
        report(run, learner, runners.weights, asked.eval_episodes)
    except RunError as error:  # nothing can be written any more
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(run.how_to_go_on, file=sys.stderr)
        return EXIT_CODE
    return 0
