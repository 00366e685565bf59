"""The `jaxenvs` command, which runs a subcommand such as `train` or `play`.

A subcommand's code is imported only when the subcommand is called, so `--help` is fast.
"""

import io
import os
import sys

from .commands import cache
from .commands.table import COMMANDS, SCRIPTS, SHELLS, load
from .core import background, gpu_flags
from .core.files import CACHE
from .core.typed import PROGRAM
from .core.typed import program as typed

# Exit codes that shells use for SIGINT (Ctrl-C) and SIGPIPE (closed pipe)
INTERRUPTED, CUT_OFF = 130, 141


def program() -> int:
    """Run the arguments of this process as a command and return the exit code.

    This function is the entry point of the program `jaxenvs`. Unlike `main`, it sets up GPU flags
    and the compilation cache, and prints no traceback after Ctrl-C or if the output pipe is closed.
    """
    try:
        # Print a character that the terminal's encoding lacks as an escape, such as \u2192.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        _set_up(sys.argv[1:])
        # Add the current folder to Python's import path. The user can then name modules of this
        # folder in the arguments `module:Id` and `--network module:name`.
        sys.path.append("")
        try:
            code = main()
        finally:
            # Write buffered output now, so that an error is raised here and not when Python exits.
            print(end="", flush=True)
        # XLA may still compile in a thread, for example after the user closed a window. `os._exit`
        # does not wait for this thread.
        if background.is_busy():
            os._exit(code)
        return code
    except KeyboardInterrupt:
        # Skip Python's shutdown, during which XLA's compilation threads can crash the process.
        os._exit(INTERRUPTED)
    except OSError as error:
        if _can_print():
            raise
        # Discard buffered output, which cannot be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # The program that reads the pipe, such as `head`, has exited.
        if isinstance(error, BrokenPipeError):
            return CUT_OFF
        print(f"{PROGRAM}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _set_up(arguments: list[str]) -> None:
    """Set GPU flags and start the compilation cache, if the subcommand needs them.

    Do nothing for `--help`. The subcommand `bench` has no cache, because it measures compilation.
    """
    command = COMMANDS.get(arguments[0]) if arguments else None
    if command is None or {"-h", "--help"} & set(arguments):
        return
    if command.computes:
        gpu_flags.enable()
    if command.keeps:
        cache.start()


def _can_print() -> bool:
    """Return whether standard output can be written.

    `program` calls this function after an `OSError`. If the result is False, standard output caused
    the error.
    """
    try:
        print(flush=True)
    except OSError:
        return False
    return True


def main(argv: list[str] | None = None) -> int:
    """Run the subcommand that the arguments name, and return the exit code."""
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
            f"{PROGRAM}: no command {name!r} (`{typed()} --help` lists all){near}", file=sys.stderr
        )
        return 2
    run = load(name)
    return 2 if run is None else run(rest)


def _completion(arguments: list[str]) -> int:
    """Print the script that makes a shell complete `jaxenvs` commands; return the exit code."""
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        given = f", not {' '.join(arguments)!r}" if arguments else ""
        shells = ", ".join(SHELLS)
        print(f"{PROGRAM} --completion: give a shell, {shells}{given}", file=sys.stderr)
        return 2
    from .commands.completion import script

    print(script(arguments[0]))
    return 0


def _help() -> str:
    called = typed()
    commands = [f"  {name:<9} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {called} COMMAND ...   (`{called} COMMAND --help` for its options)",
            "",
            *commands,
            "",
            "options:",
            "  --version           print the version",
            f"  --completion SHELL  print a completion script for {', '.join(SHELLS)}",
            "",
            "play, watch, train, eval, solve, demos, mcp and openenv cache compiled",
            f"programs on disk, at most {cache.MAX_BYTES >> 20} MiB in ~/.cache/jaxenvs or in the",
            f"folder {CACHE}; {CACHE}=off turns the cache off.",
            "",
            "They and bench add flags that speed up NVIDIA GPUs to XLA_FLAGS, unless you set",
            f"them there: {gpu_flags.FLAGS[0].name} and others.",
            "",
            "examples:",
            *(f"  {called} {example}" for example in EXAMPLES),
            "",
            "to install completion (zsh: `fpath+=(~/.zfunc)` before `compinit` in ~/.zshrc):",
            *(
                f"  mkdir -p {folder}\n  {called} --completion {shell} \\\n    > {folder}/{file}"
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
