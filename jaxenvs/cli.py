"""The `jaxenvs` command; a subcommand's module is imported only when it is called."""

import os
import sys

from .commands import cache
from .commands.table import COMMANDS, SCRIPTS, SHELLS, load
from .core import background, gpu_flags
from .core.files import CACHE
from .core.typed import PROGRAM
from .core.typed import program as typed

INTERRUPTED, CUT_OFF = 130, 141  # exit codes of shells for SIGINT and SIGPIPE


def program() -> int:
    """Run `main` as a process, without a traceback for a closed pipe or Ctrl-C."""
    try:
        _set_up(sys.argv[1:])
        sys.path.append("")  # modules of this folder, for module:Id and --network module:name
        try:
            code = main()
        finally:
            print(end="", flush=True)  # a closed pipe raises here, not while Python shuts down
        if background.is_busy():  # the window was closed while XLA compiled
            os._exit(code)
        return code
    except KeyboardInterrupt:
        # Immediately: an ordinary shutdown can crash threads in which XLA still compiles.
        os._exit(INTERRUPTED)
    except OSError as error:
        if _can_print():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards buffered output
        if isinstance(error, BrokenPipeError):  # such as `| head`
            return CUT_OFF
        print(f"{PROGRAM}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _set_up(arguments: list[str]) -> None:
    """Set up JAX for a command that computes, unless it only prints its help.

    Compiled programs are cached, except for commands that measure compilation.
    """
    command = COMMANDS.get(arguments[0]) if arguments else None
    if command is None or {"-h", "--help"} & set(arguments):
        return
    if command.computes:
        gpu_flags.enable()
    if command.keeps:
        cache.start()


def _can_print() -> bool:
    """Return whether standard output accepts another line; if not, it caused the error."""
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
            f"{PROGRAM}: no command {name!r} (`{typed()} --help` lists all){near}", file=sys.stderr
        )
        return 2
    run = load(name)
    return 2 if run is None else run(rest)


def _completion(arguments: list[str]) -> int:
    """Print the completion script of the named shell."""
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        given = f", not {' '.join(arguments)!r}" if arguments else ""
        print(f"{PROGRAM} --completion: name {', '.join(SHELLS)}{given}", file=sys.stderr)
        return 2
    from .commands.completion import script

    print(script(arguments[0]))
    return 0


def _help() -> str:
    called = typed()
    commands = [f"  {name:<7} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {called} COMMAND ...   (`{called} COMMAND --help` for its options)",
            "",
            *commands,
            "",
            "options:",
            "  --version           print the version",
            f"  --completion SHELL  print a script that completes words: {', '.join(SHELLS)}",
            "",
            "play, watch, train, eval and solve cache compiled programs for the next start:",
            f"at most {cache.MOST_BYTES >> 20} MiB in ~/.cache/jaxenvs, or in the folder named",
            f"by {CACHE}. {CACHE}=off disables the cache.",
            "",
            "These commands and bench add flags to XLA_FLAGS that speed up NVIDIA GPUs, unless",
            f"XLA_FLAGS already sets them: {gpu_flags.FLAGS[0].name} and others.",
            "",
            "examples:",
            *(f"  {called} {example}" for example in EXAMPLES),
            "",
            "completion, by shell (zsh: `fpath+=(~/.zfunc)` before `compinit` in ~/.zshrc):",
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
