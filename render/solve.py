"""`jaxenvs solve ID`: search for a solution of a puzzle; print it, and optionally animate it."""

import argparse
import dataclasses
import functools
import sys
import textwrap
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, PRNGKeyArray

from jaxenvs import search
from jaxenvs.commands import solving
from jaxenvs.commands.parser import Parser, UsageError, decimal, make_env, number
from jaxenvs.core.checks import counted
from jaxenvs.core.env import Env
from jaxenvs.core.files import read_text
from jaxenvs.core.typed import program
from jaxenvs.levels.files import load
from jaxenvs.levels.solving import has_solver
from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel
from jaxenvs.search.astar import MOST

from . import arguments, outputs
from .pilots import RANDOM, Pilot

SUMMARY = """Search for a solution of a puzzle and print it.

The level is generated from --seed or read from --instance, a text file in the printed format. A*
with weight 1 (the default) or with --terminate optimal returns a provably optimal solution. With
--levels FILE, the fewest steps in each level of a file are found, also in grid worlds. With
--model, a run of davi provides the heuristic, and a run of last-move the policy of a beam search. A
run of world provides a learned world model, in which the search makes a plan that is then played in
the puzzle, without any proof. Exit code 1: no solution was found."""
EXAMPLES = (
    "solve Puzzle-SlidingTile-3x3-v0",
    "solve Puzzle-Sokoban-10x10-v0 --instance level.txt --watch",
    "solve Puzzle-Cube-2x2-v0 --seed 3 --terminate optimal --gif cube.gif",
    "solve Puzzle-SlidingTile-4x4-v0 --weight 2 --node-budget 4000000",
    "solve Puzzle-SlidingTile-3x3-v0 --model runs/world --levels 100",
    "solve Grid-DoorKey-8x8-v0 --levels mylevels.txt",
)
ALGORITHMS = ("astar", "qstar", "beam", "bidirectional")
# Options that each algorithm accepts in addition to --batch-size.
TAKES = {
    "astar": ("weight", "node_budget", "terminate"),
    "qstar": ("weight", "node_budget", "terminate"),
    "beam": (),
    "bidirectional": ("node_budget", "terminate"),
}
OF_FILES = ("id", "levels", "node_budget", "gif", "fields", "params")  # options of --levels FILE
OF_ALGORITHMS = ("weight", "node_budget", "terminate")  # options in TAKES
LARGEST_LEVEL = 2**16  # maximum size of the file of --instance, in bytes
LONGEST_MESSAGE = 500  # maximum length of an error message about --instance, in characters
WIDTH = 96  # maximum width of the lines of printed actions, in characters
LONGEST = 4096  # maximum number of actions in a solution, except for beam search


@dataclasses.dataclass(frozen=True)
class Plan(Pilot):
    """A policy that plays a fixed sequence of actions from the start of every episode."""

    actions: tuple[int, ...] = ()

    def choose(
        self, key: PRNGKeyArray, env: Env, state: Any, params: Any, memory: Any
    ) -> tuple[Any, Int32[Array, ""]]:
        """Return `memory` and the plan's action with index `state.time`.

        After the end of the plan, the action is the plan's last one.
        """
        at = jnp.minimum(state.time, len(self.actions) - 1)
        return memory, jnp.asarray(np.array(self.actions, np.int32))[at]


def main(argv: list[str]) -> int:
    """Run `jaxenvs solve`; return the exit code."""
    return arguments.guarded("solve", _run, argv)


def _parser() -> Parser:
    made = Parser("jaxenvs solve", SUMMARY, EXAMPLES)
    add = made.add_argument
    add("id", metavar="ID", help=f"a puzzle listed by `{program()} list Puzzle`")
    add("--instance", metavar="FILE", help="text file with the level (default: from --seed)")
    arguments.add_seed(made, None, "random seed of the level (default 0)")
    made.add_fields("scramble=20")
    add("--algorithm", choices=ALGORITHMS, default="astar", help="(default astar)")
    add(
        "--model",
        metavar="RUN",
        help="search with the network of a run of davi, last-move or world",
    )
    words = "with --model: search from N random levels of --seed, and compare with the optimum"
    words += "; a file or folder of levels: find the fewest steps in each, also for grid worlds"
    add("--levels", type=_count_or_file, metavar="N|FILE", help=words)
    add("--weight", type=decimal(0, MOST), metavar="W", help="weight of the heuristic (default 1)")
    add(
        "--batch-size",
        type=number(1, 2**24),
        default=1024,
        metavar="B",
        help="boards expanded in one batch; beam: the beam width (default 1024)",
    )
    budget = "most nodes to store (default 1000000)"
    add("--node-budget", type=number(1, 2**31 - 1), metavar="N", help=budget)
    add(
        "--terminate",
        choices=("first", "optimal"),
        help="first: stop at a solution of at most WEIGHT times the optimal cost (bidirectional: "
        "of any cost); optimal: stop at a proof (default first; for bidirectional optimal)",
    )
    add("--watch", action="store_true", help="show the solution in a window")
    animated = "the solution as an animation"
    arguments.add_drawing(made, animated, "the solved board", "the solution as a replay")
    arguments.add_web(made, resumed=False)
    speed = "actions per second (default 4)"
    add("--speed", type=number(1, 60), default=4, metavar="N", help=speed)
    return made


def _count_or_file(text: str) -> int | str:
    return number(1, 2**20)(text) if text.isdigit() else text


def _run(argv: list[str]) -> int:
    parser = _parser()
    options = parser.read(argv)
    if isinstance(options.levels, str):
        return _solve_file(options, parser)
    _check_options(options)
    puzzle = _puzzle(options)
    planner = _planner(puzzle, options)
    if options.levels is not None:
        return _compare(puzzle, planner, options)
    if options.web:
        arguments.pages().require()
    elif options.watch:
        from .window import start_display

        start_display()  # raises without a display, so do this before a long search
    level = _level(puzzle, options)
    print(puzzle.text(level.instance, level.board), end="\n\n")
    result, seconds = _search(puzzle, level, options, planner)
    solved, board = bool(result.solved), result.board
    if planner is not None and planner.in_model:
        right, board = _played(puzzle, level, result)
        print(_judged(result, right))
        solved = solved and right
    else:
        print(_verdict(puzzle, result))
    _print(puzzle, level, result, seconds, board)
    actions = tuple(int(a) for a in np.asarray(result.actions) if a >= 0)
    shown = 0
    if outputs.is_headless(options) or (actions and (options.web or options.watch)):
        shown = _show(puzzle, level, actions, options)
    return shown or (0 if solved else 1)


def _check_options(options: argparse.Namespace) -> None:
    """Raise `UsageError` for wrong files, and for an option that the algorithm does not have."""
    options.screenshot = options.frames = None
    options.panel = False
    arguments.check_web(options, "levels")
    arguments.checked_outputs(options)
    for name in OF_ALGORITHMS:
        if getattr(options, name) is not None and name not in TAKES[options.algorithm]:
            raise UsageError(f"--{name.replace('_', '-')} does not apply to {options.algorithm}")


def _solve_file(options: argparse.Namespace, parser: Parser) -> int:
    """Find the fewest steps to success in the levels of --levels FILE."""
    for name, value in vars(options).items():
        if name not in OF_FILES and value != parser.get_default(name):
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} does not apply to --levels FILE; omit one of them")
    env = make_env(options.id, options.fields, options.params)
    try:
        return solving.run(env, load(options.levels, env), options)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise UsageError(str(error)) from error


def _puzzle(options: argparse.Namespace) -> Puzzle:
    env = make_env(options.id, options.fields, options.params)
    if not isinstance(env, Puzzle):
        if has_solver(env):
            raise UsageError(f"{options.id} cannot be searched without levels; add --levels FILE")
        raise UsageError(
            f"{options.id} cannot be searched: choose a deterministic puzzle with `neighbours`, "
            f"such as Puzzle-SlidingTile-4x4-v0 (`{program()} list Puzzle`)"
        )
    return env


def _planner(puzzle: Puzzle, options: argparse.Namespace) -> Any:
    """Load the trained run that --model names; return None without --model."""
    if options.model is None:
        if options.levels is not None:
            raise UsageError("--levels evaluates a trained run: add --model RUN")
        return None
    from jaxenvs.baselines.evaluation import planner

    try:
        found = planner.load(options.model)
        found.guide(options.algorithm)
    except ValueError as error:
        raise UsageError(f"--model {options.model}: {error}") from error
    if type(found.puzzle) is not type(puzzle) or (
        found.puzzle.observation_space != puzzle.observation_space
        or found.puzzle.action_names != puzzle.action_names
    ):
        raise UsageError(
            f"--model {options.model} was trained in {found.puzzle.name}, whose observations or "
            f"actions differ from those of {options.id}; give a run of this puzzle"
        )
    return found


def _compare(puzzle: Puzzle, planner: Any, options: argparse.Namespace) -> int:
    """Solve N random levels (--levels N) with the network of --model, and print the figures.

    The figures compare the solutions with the optimum.
    """
    from jaxenvs.baselines.evaluation import heuristic

    refused = ("instance", "terminate", "watch", "gif", "html")
    for name in refused:
        if getattr(options, name, None):
            raise UsageError(f"--{name} does not apply to --levels; omit one of them")
    keys = jax.random.split(jax.random.key(options.seed or 0), options.levels)
    levels = jax.jit(jax.vmap(puzzle.sample_level))(keys)
    given = {"weight": options.weight, "budget": options.node_budget}
    found = heuristic.compare(
        planner,
        levels,
        algorithm=options.algorithm,
        batch_size=options.batch_size,
        **{name: value for name, value in given.items() if value is not None},
    )
    heuristic.print_figures(found)
    return 0


def _played(puzzle: Puzzle, level: PuzzleLevel, result: search.Result) -> tuple[bool, Any]:
    """Play a plan in the real puzzle, after a search in a learned model has found the plan.

    Returns whether the plan solves the puzzle, and the final board.
    """
    from jaxenvs.baselines.evaluation import planner

    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], level)
    boards, right = planner.played(puzzle, one, result.actions[None])
    return bool(right[0]), jax.tree.map(lambda leaf: leaf[0], boards)


def _level(puzzle: Puzzle, options: argparse.Namespace) -> PuzzleLevel:
    """Read the level from the file of --instance, or else generate one from --seed."""
    if options.instance is None:
        key = jax.random.key(options.seed or 0)
        return jax.jit(puzzle.sample_level)(key, puzzle.default_params)
    if options.seed is not None:
        raise UsageError("give --seed or --instance, not both")
    try:
        return puzzle.read_level(read_text(options.instance, LARGEST_LEVEL))
    except OSError as error:
        raise UsageError(f"--instance {options.instance}: {error.strerror}") from error
    except ValueError as error:
        message = str(error)
        cut = message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + " ..."
        raise UsageError(f"--instance {options.instance}: {cut}") from error


def _search(
    puzzle: Puzzle, level: PuzzleLevel, options: argparse.Namespace, planner: Any
) -> tuple[search.Result, float]:
    """Compile and run the search; return its result and its time in seconds.

    The time excludes compilation.
    """
    given, domain = {}, puzzle
    for name in OF_ALGORITHMS:
        if (value := getattr(options, name)) is not None:
            given[name] = value
    given["width" if options.algorithm == "beam" else "batch_size"] = options.batch_size
    settings = ", ".join(
        f"{name.replace('_', ' ')} {value:,}"
        for name, value in given.items()
        if not isinstance(value, str)
    )
    if options.algorithm != "beam":
        given["max_length"] = LONGEST
    if planner is not None:
        given |= planner.guide(options.algorithm)
        domain, level = planner.domain, _seen(planner, level, options)
    run = functools.partial(getattr(search, options.algorithm), domain, **given)
    _progress(f"{options.algorithm}, {settings}: compiling ...")
    began = time.monotonic()
    try:
        compiled = jax.jit(run).lower(level).compile()
    except (TypeError, ValueError, NotImplementedError) as error:
        raise UsageError(str(error)) from error
    middle = time.monotonic()
    compilation = f"compiled in {middle - began:.1f} s"
    _progress(f"{options.algorithm}, {settings}: {compilation}, searching ...")
    result = jax.block_until_ready(compiled(level))
    _progress("")
    return result, time.monotonic() - middle


def _seen(planner: Any, level: PuzzleLevel, options: argparse.Namespace) -> PuzzleLevel:
    """Convert a level of the puzzle to a level of the domain in which the planner searches.

    This domain is either the puzzle itself or a learned model of the puzzle.
    """
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], level)
    seen = planner.levels(one, jax.random.key(options.seed or 0))
    return jax.tree.map(lambda leaf: leaf[0], seen)


def _progress(line: str) -> None:
    """Replace the progress line on stderr, if stderr is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _print(
    puzzle: Puzzle, level: PuzzleLevel, result: search.Result, seconds: float, board: Any
) -> None:
    names = [puzzle.action_names[a] for a in np.asarray(result.actions) if a >= 0]
    between = ", " if any(" " in name for name in names) else " "
    print(textwrap.fill(between.join(names), WIDTH))
    nodes, rate = int(result.nodes), int(result.nodes) / max(seconds, 1e-9)
    print(f"{nodes:,} nodes, {int(result.expanded):,} expanded", end="")
    print(f" in {seconds:.2f} s: {rate:,.0f} nodes/s", end="\n\n")
    print(puzzle.text(level.instance, board))


def _judged(result: search.Result, right: bool) -> str:
    """Return one line that states whether a learned model's plan solves the real puzzle."""
    actions = counted(int(result.length), "action")
    if not bool(result.solved):
        return (
            f"no plan within the budget; try a larger --node-budget or --weight. Path to the state "
            f"with the lowest estimated cost, {actions}:"
        )
    if right:
        return f"solved: {actions}, planned in the learned world model"
    failed = "works in the learned world model but not in the puzzle"
    return f"not solved: the plan of {actions} {failed}"


def _verdict(puzzle: Puzzle, result: search.Result) -> str:
    """Return one line that states whether the puzzle is solved, and any proven bound."""
    length, bound = int(result.length), float(result.lower_bound)
    at_least = f"no solution costs less than {_cost(puzzle, bound)}" if bound > 0 else ""
    if bool(result.solved):
        cost = float(result.cost)
        how = f"solved: {counted(length, 'action')}"
        if not puzzle.unit_cost:
            how += f", cost {_cost(puzzle, cost)}"
        proof = "proven optimal" if bool(result.optimal) else at_least
        return f"{how}, {proof}" if proof else how
    if bool(result.unsolvable):
        return "no solution exists: the search examined every reachable board"
    more = f"; {at_least}" if at_least else ""
    return (
        f"not solved within the budget{more}; try a larger --node-budget or --weight. Path to the "
        f"board with the lowest estimated cost, {counted(length, 'action')}:"
    )


def _cost(puzzle: Puzzle, cost: float) -> str:
    return f"{cost:.0f}" if puzzle.unit_cost else f"{cost:.4f}"


def _show(
    puzzle: Puzzle, level: PuzzleLevel, actions: tuple[int, ...], options: argparse.Namespace
) -> int:
    """Write the solution to files, or play it in a browser or a window; return the exit code."""
    from .controls import Controller
    from .session import Session

    plan = Plan("the search", RANDOM.think, actions=actions)

    def controller() -> Controller:
        session = Session(puzzle, plan, speed=options.speed, level=level)
        return Controller(session, options.id, "watch")

    if outputs.is_headless(options):
        is_run_through = outputs.is_animation(options) or options.html
        options.frames = len(actions) + (1 if is_run_through else 0)
        drawn = controller()
        outputs.draw_files(drawn, options, drawn.session.forward)
    if options.web and actions:
        return arguments.pages().open_pages(controller, "solve", (), options)
    if options.watch and actions:
        from .window import open_window

        return open_window(controller, options.id, options.tile_size)
    return 0
