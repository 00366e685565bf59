"""Command `jaxenvs train`: run the learner that --algo names, or that began the run to resume."""

import importlib
import sys
import textwrap
from pathlib import Path

from jaxenvs.core.typed import program

from ..core.learner import PACKAGE
from ..registry import ALGORITHMS, USUAL, WITH_RAY
from ..storage.runs import Run, RunError
from .keeping import Callback
from .options import PROGRAM

EXAMPLES = (
    "Grid-DoorKey-5x5-v0 --out runs/doorkey",
    "Grid-MemoryS7-v0 --algo ppo-rnn --seeds 4",
    "Grid-DoorKey-8x8-v0 --devices all --num-envs 8192",
    "--resume runs/doorkey --total-steps 1000000 --learning-rate 3e-4",
)


def main(argv: list[str] | None = None, callback: Callback | None = None) -> int:
    """Train with the command-line arguments `argv`; return the exit code.

    In process 0, `callback` is called with each log record (a dict) after it is written. If the
    callback returns a true value, training ends after the current updates, with a checkpoint and
    the final evaluation as usual.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        algorithm, rest = chosen(given)
    except RunError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    row = ALGORITHMS[algorithm]
    command = importlib.import_module(row.command or ".run.loop", PACKAGE).command
    code = command(row, rest, callback=callback)
    if {"-h", "--help"} & set(rest):
        names = f"--algo {{{', '.join(ALGORITHMS)}}}"
        print(textwrap.fill(names, 80, subsequent_indent="  ", break_on_hyphens=False))
        print(f"chooses the learner, here {algorithm}; its --help lists its settings.")
        print(f"--ray is short for --algo {WITH_RAY}.\n\nexamples:")
        print(*(f"  {program()} train {example}" for example in EXAMPLES), sep="\n")
    return code


def chosen(argv: list[str]) -> tuple[str, list[str]]:
    """Return the name of the learner that `argv` chooses, and the other arguments.

    Raises `RunError` for an unknown learner.
    """
    name, rest = _taken([argument for argument in argv if argument != "--ray"], "--algo")
    if "--ray" in argv:
        there = [row.name for row in ALGORITHMS.values() if row.outside]
        if name not in (None, USUAL, *there):
            known = " and ".join([USUAL, *(row for row in there if row != WITH_RAY)])
            raise RunError(f"--algo {name} --ray: with Ray there are {known}; omit one of them")
        return (name if name in there else WITH_RAY), rest
    if name is None:
        run = _taken(rest, "--resume")[0]
        if run is None or not (Path(run) / "config.json").is_file():
            return USUAL, rest
        return Run.open(run).config.algorithm, rest
    if name not in ALGORITHMS:
        raise RunError(f"--algo {name}: choose one of {', '.join(ALGORITHMS)}")
    return name, rest


def _taken(argv: list[str], flag: str) -> tuple[str | None, list[str]]:
    """Return the last value of a flag in `argv` (None if absent), and all other arguments."""
    value, rest, arguments = None, [], iter(argv)
    for argument in arguments:
        if argument == flag:
            value = next(arguments, "")
        elif argument.startswith(flag + "="):
            value = argument.partition("=")[2]
        else:
            rest.append(argument)
    return value, rest


if __name__ == "__main__":
    sys.exit(main())
