"""The `jaxenvs` command; each subcommand is loaded only when it is called."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from .commands import cache
from .core import background
from .core.extras import MissingExtraError

PROGRAM = "jaxenvs"
INTERRUPTED, CUT_OFF = 130, 141  # exit codes, as shells have them for SIGINT and SIGPIPE


class Command(NamedTuple):
    """One row of the command table."""

    summary: str  # shown by --help
    module: str  # has `main(argv) -> exit code`
    takes: dict[str, str]
    """What completes a word, by its place: "" is the first one after the command, an option the
    one after that; with "..." behind it, any number of words. Elsewhere it is a file."""
    extra: str = ""  # pip extra that brings what the module needs
    keeps: bool = False  # whether compiled programs are kept for the next start


COMMANDS = {
    "list": Command("list or search the ids", "jaxenvs.info", {"...": "families"}),
    "info": Command("rules, arrays, settings and returns of an id", "jaxenvs.info", {"": "ids"}),
    "play": Command(
        "play an environment with the keyboard",
        "jaxenvs.render.play",
        {"": "ids"},
        "play",
        keeps=True,
    ),
    "watch": Command(
        "watch a trained run or random play",
        "jaxenvs.render.watch",
        {"": "runs", "--random": "ids"},
        "play",
        keeps=True,
    ),
    "train": Command(
        "train an agent (--algo: PPO, DQN ...)",
        "jaxenvs.baselines.train",
        {"": "ids"},
        "train",
        keeps=True,
    ),
    "solve": Command(
        "search for the solution of a puzzle", "jaxenvs.render.solve", {"": "puzzles"}, keeps=True
    ),
    "bench": Command(
        "measure steps per second", "jaxenvs.benchmarks.throughput", {"--ids ...": "sets"}, "bench"
    ),
    "check": Command(
        "check that environments keep the contract", "jaxenvs.checking", {"...": "ids"}
    ),
}
# Where each shell looks for a completion script: folder and file.
SCRIPTS = {
    "bash": ("~/.local/share/bash-completion/completions", "jaxenvs"),
    "zsh": ("~/.zfunc", "_jaxenvs"),
    "fish": ("~/.config/fish/completions", "jaxenvs.fish"),
}
SHELLS = tuple(SCRIPTS)


def program() -> int:
    """`main` as a process: no traceback where nobody takes what it prints, or at Ctrl-C."""
    try:
        _keep_programs(sys.argv[1:])
        try:
            code = main()
        finally:
            print(end="", flush=True)  # what fails fails here, not while Python shuts down
        if background.is_busy():  # the window was closed while XLA compiled
            os._exit(code)
        return code
    except KeyboardInterrupt:
        # At once: Python shuts down under threads that XLA compiles on, and some of them crash.
        os._exit(INTERRUPTED)
    except OSError as error:
        if _can_print():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # takes what is left
        if isinstance(error, BrokenPipeError):  # `head` has seen enough
            return CUT_OFF
        print(f"{PROGRAM}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _keep_programs(arguments: list[str]) -> None:
    """Keep what the command compiles, unless it measures that or only explains itself."""
    command = COMMANDS.get(arguments[0]) if arguments else None
    if command is not None and command.keeps and not {"-h", "--help"} & set(arguments):
        cache.start()


def _can_print() -> bool:
    """Whether the standard output takes another line; else it is what failed."""
    try:
        print(flush=True)
    except OSError:
        return False
    return True


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
    if arguments[0] == "--completion":
        return _completion(arguments[1:])
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        from .core.checks import suggestion

        near = suggestion(name, COMMANDS)
        print(
            f"{PROGRAM}: no command {name!r}{near}; `{PROGRAM} --help` lists them", file=sys.stderr
        )
        return 2
    run = _load(name)
    if run is None:
        return 2
    return run([name, *rest] if COMMANDS[name].module == "jaxenvs.info" else rest)


def _completion(arguments: list[str]) -> int:
    """Print the completion script of the shell that is named."""
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        given = f", not {' '.join(arguments)!r}" if arguments else ""
        print(f"{PROGRAM} --completion: name {', '.join(SHELLS)}{given}", file=sys.stderr)
        return 2
    from .completion import script

    print(script(arguments[0]))
    return 0


def _load(name: str) -> Callable[[list[str]], int] | None:
    """Import the command's module, or say which extra is missing."""
    command = COMMANDS[name]
    try:
        return importlib.import_module(command.module).main
    except MissingExtraError as error:
        missing = error
    except ModuleNotFoundError as error:
        if not command.extra or (error.name or "").startswith(PROGRAM):
            raise
        missing = MissingExtraError([error.name or ""], command.extra)
    print(f"{PROGRAM} {name}: {missing}", file=sys.stderr)
    return None


def _help() -> str:
    rows = [f"  {name:<7} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} COMMAND ...   (`{PROGRAM} COMMAND --help` for its options)",
            "",
            *rows,
            "",
            "options:",
            "  --version           print the version",
            f"  --completion SHELL  print a script that completes words: {', '.join(SHELLS)}",
            "",
            "play, watch, train and solve keep compiled programs for the next start: at most",
            f"{cache.MOST_BYTES >> 20} MiB in ~/.cache/jaxenvs, or in the folder that",
            f"{cache.VARIABLE} names; none with {cache.VARIABLE}=off.",
            "",
            "examples:",
            *(f"  {PROGRAM} {example}" for example in EXAMPLES),
            "",
            "completion, by shell (zsh: `fpath+=(~/.zfunc)` before `compinit` in ~/.zshrc):",
            *(
                f"  mkdir -p {folder} &&\n    {PROGRAM} --completion {shell} > {folder}/{file}"
                for shell, (folder, file) in SCRIPTS.items()
            ),
        ]
    )


EXAMPLES = (
    "info Grid-DoorKey-8x8-v0",
    "play Grid-DoorKey-8x8-v0",
    "train Grid-DoorKey-5x5-v0 --out runs/doorkey",
    "watch runs/doorkey",
    "solve Puzzle-SlidingTile-3x3-v0",
)

if __name__ == "__main__":
    sys.exit(program())
