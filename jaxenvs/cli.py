"""The `jaxenvs` command; each subcommand is loaded only when it is called."""

import importlib
import sys
from collections.abc import Callable
from typing import NamedTuple

PROGRAM = "jaxenvs"


class Command(NamedTuple):
    """One row of the command table."""

    summary: str  # shown by --help
    module: str  # has `main(argv) -> exit code`
    extra: str  # pip extra that brings what the module needs


COMMANDS = {
    "list": Command("ids that are registered", "jaxenvs.info", ""),
    "info": Command("rules, spaces and settings of an id", "jaxenvs.info", ""),
    "play": Command("play an environment with the keyboard", "jaxenvs.render.play", "play"),
    "watch": Command("watch a trained run or random play", "jaxenvs.render.watch", "play"),
    "train": Command("train an agent (--algo: PPO, DQN ...)", "jaxenvs.baselines.train", "train"),
    "solve": Command("search for the solution of a puzzle", "jaxenvs.render.solve", ""),
    "bench": Command("measure steps per second", "jaxenvs.benchmarks.throughput", "bench"),
}


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from . import __version__

        print(f"{PROGRAM} {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        from .core.checks import suggestion

        near = suggestion(name, COMMANDS)
        print(
            f"{PROGRAM}: no command {name!r}{near}; `{PROGRAM} --help` lists them", file=sys.stderr
        )
        return 2
    run = _load(COMMANDS[name])
    if run is None:
        return 2
    return run([name, *rest] if COMMANDS[name].module == "jaxenvs.info" else rest)


def _load(command: Command) -> Callable[[list[str]], int] | None:
    """Import the command's module, or say which extra is missing."""
    try:
        return importlib.import_module(command.module).main
    except ModuleNotFoundError as error:
        if not command.extra or (error.name or "").startswith("jaxenvs"):
            raise
        print(
            f"{PROGRAM}: this command needs {error.name}, which is not installed; "
            f'run: pip install "jaxenvs[{command.extra}]"',
            file=sys.stderr,
        )
        return None


def _help() -> str:
    rows = [f"  {name:<7} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} COMMAND ...   (`{PROGRAM} COMMAND --help` for its options)",
            "",
            *rows,
            "",
            "examples:",
            f"  {PROGRAM} play Grid-DoorKey-8x8-v0",
            f"  {PROGRAM} train Grid-DoorKey-5x5-v0 --out runs/doorkey",
            f"  {PROGRAM} watch runs/doorkey",
            f"  {PROGRAM} solve Puzzle-SlidingTile-3x3-v0",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
