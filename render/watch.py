"""`jaxenvs watch RUN`: watch a trained policy, or random play, on one or more boards."""

import argparse
from collections.abc import Callable
from pathlib import Path

from jaxenvs.commands.parser import UsageError, make_env, number, run_fields, run_params
from jaxenvs.core import registry
from jaxenvs.core.env import Env
from jaxenvs.core.typed import program

from . import arguments, outputs
from .controls import Controller, viewable
from .pilots import RANDOM, Pilot, of_policy
from .session import Session

SUMMARY = """Watch a trained run, or random play.

Space pauses, Left and Right step through time, Up and Down change the speed. An action key (W, A,
D, E, Tab, Q and others) takes over at the moment shown and discards the later ones; Space lets the
policy continue. H lists the keys. The history holds the last 20,000 moments (at most 64 MiB)."""
EXAMPLES = (
    "watch runs/demo",
    "watch runs/demo --envs 16 --greedy",
    "watch runs/demo --gif demo.gif --frames 200",
    "watch runs/demo --html demo.html",
    "watch Grid-LavaCrossingS9N3-v0",
    "watch runs/demo --envs 16 --web",
)
MAX_BOARDS = 64  # largest value of --envs, the number of environments
Watched = tuple[str, Env, Pilot]  # environment id, environment, and policy to watch


def main(argv: list[str]) -> int:
    """Run `jaxenvs watch`; return the exit code."""
    return arguments.guarded("watch", _run, argv)


def _run(argv: list[str]) -> int:
    parser = arguments.parser("watch", SUMMARY, EXAMPLES)
    add = parser.add_argument
    add("target", nargs="?", metavar="RUN|ID", help="run folder of `jaxenvs train`, or an id")
    add("--random", nargs="?", const=True, metavar="ID", help="random play; the same as ID alone")
    add(
        "--envs",
        type=number(1, MAX_BOARDS),
        default=1,
        metavar="N",
        help=f"boards side by side, up to {MAX_BOARDS} (default 1)",
    )
    arguments.add_seed(parser, 0, "which of the run's trained seeds (default 0)", "--run-seed")
    add("--greedy", action="store_true", help="take the most likely action instead of sampling")
    parser.add_best()
    parser.add_simulations()
    options = parser.read(argv)
    arguments.check_web(options)
    headless = arguments.checked_outputs(options)
    if options.target and not Path(options.target).is_dir() and _is_id(options.target):
        options.random = options.random or True
    load = (_random if options.random else _trained)(options)
    if options.web:
        return arguments.pages().open_pages(
            lambda: _controller(load, options), "watch", argv, options
        )
    if not headless:
        from .window import open_window

        title = str(options.target if options.target else options.random)
        return open_window(lambda: _controller(load, options), title, options.tile_size)
    controller = _controller(load, options)
    outputs.draw_files(controller, options, controller.session.forward)
    return 0


def _controller(load: Callable[[], Watched], options: argparse.Namespace) -> Controller:
    title, env, pilot = load()
    viewable(env)
    session = Session(env, pilot, options.envs, options.seed, options.fps)
    return outputs.with_oracle(Controller(session, title, "watch"), options)


def _random(options: argparse.Namespace) -> Callable[[], Watched]:
    """Check the options for random play; return a function that returns its `Watched` tuple."""
    named = [name for name in (options.target, options.random) if isinstance(name, str)]
    if len(named) != 1:
        raise UsageError(f"name one environment: {program()} watch --random Grid-DoorKey-8x8-v0")
    if options.greedy:
        raise UsageError("--greedy needs a run; random play has no most likely action")
    if options.best:
        raise UsageError("--best needs a run; random play never learns")
    if options.simulations is not None:
        raise UsageError("--simulations needs a run; random play has no search")
    if options.run_seed:
        raise UsageError("--run-seed needs a run; the levels of random play follow --seed")
    env = make_env(named[0], options.fields, options.params)
    return lambda: (named[0], env, RANDOM)


def _trained(options: argparse.Namespace) -> Callable[[], Watched]:
    """Check the options for a trained run; return a function that loads the run."""
    run = options.target
    if run is None:
        raise UsageError(
            f"name a run folder, or --random ID; `{program()} watch --help` has examples"
        )
    params, fields = run_params(options.params), run_fields(options.fields)
    if not Path(run).is_dir():
        raise UsageError(f"no run folder {run}; `jaxenvs train ID --out DIR` creates one")

    def load() -> Watched:
        from jaxenvs.baselines.storage.runs import RunError, load_policy

        try:
            given = (options.best, params, options.simulations)
            policy = load_policy(run, options.run_seed, *given, fields=fields)
        except RunError as error:
            raise UsageError(str(error)) from error
        return policy.env_id, policy.env, of_policy(policy, options.greedy)

    return load


def _is_id(name: str) -> bool:
    try:
        registry.spec(name)
    except registry.UnknownIdError:
        return False
    return True
