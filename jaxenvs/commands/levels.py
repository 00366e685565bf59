"""`jaxenvs levels show|edit|convert|mutate|check|solve FILE`: read, change and solve levels."""

import argparse
import functools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from .. import levels
from ..core.checks import counted
from ..core.env import Env
from ..levels import Entry, files
from ..levels.files import text_files
from . import solving, table
from .parser import Parser, UsageError, check_outputs, guarded, make_env, number, unwritable

SUMMARY = """Read files of levels: show, edit, convert, mutate, check or solve them.

show prints each level in the usual form. edit opens a window, or a page with --web; a file that
does not exist begins with the first level of --id. convert writes the levels in another form.
mutate applies random edits to each level. check reports faults and oddities; exit code 1: a level
has a fault. solve finds the fewest steps to success with a proof, or bounds on them; exit code 1: a
level has no proven plan.

A level without a line `id:` needs --id. A folder stands for all its .txt files."""
EXAMPLES = (
    "levels show mylevels.txt",
    "levels edit mylevels.txt --id Grid-DoorKey-8x8-v0",
    "levels check boxoban/ --id Puzzle-Sokoban-10x10-v0",
    "levels convert maze.txt --id Grid-Empty-8x8-v0 --out level.txt",
    "levels convert level.txt --form minigrid",
    "levels mutate level.txt --edits 20 --copies 10 --out more.txt",
    "levels solve mylevels.txt --json plans.json",
)
FORMS = ("minigrid", "maze")
EDIT = "edit"  # the action that opens the editor
# Option -> actions to which it applies. Options that are not listed apply to all actions.
APPLIES = {
    **dict.fromkeys(("form", "out"), ("convert", "mutate")),
    **dict.fromkeys(("edits", "copies", "seed"), ("mutate",)),
    **dict.fromkeys(("node_budget", "json", "gif"), ("solve",)),
    **dict.fromkeys(("web", "port", "resume", "tile_size"), (EDIT,)),
}


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    return guarded("levels", _run, argv)


def _run(argv: list[str]) -> int:
    parser = _parser()
    options = parser.read(argv)
    _check_options(parser, options)
    try:
        env = make_env(options.id, options.fields, options.params) if options.id else None
        if options.action == EDIT:
            return table.editor()(options, env, argv)
        return ACTIONS[options.action](options, env)
    except BrokenPipeError:  # the program that reads stdout has exited; `cli.program` handles it
        raise
    except OSError as error:
        raise unwritable(error) from error
    except (LookupError, NotImplementedError, TypeError, ValueError) as error:
        raise UsageError(str(error)) from error


def _check_options(parser: Parser, options: argparse.Namespace) -> None:
    """Raise `UsageError` for an option that does not apply to the action."""
    for name, actions in APPLIES.items():
        if options.action not in actions and getattr(options, name) != parser.get_default(name):
            raise UsageError(
                f"--{name.replace('_', '-')} does not apply to {options.action}, only to "
                f"{' and '.join(actions)}; leave it out"
            )
    check_outputs({"--out": options.out})  # `solve` checks its own files
    if options.json and Path(options.json).resolve() == Path(options.file).resolve():
        raise UsageError(f"--json {options.json} would replace the levels; name another file")
    if (options.fields or options.params) and not options.id:
        given = "--set" if options.fields else "--param"
        raise UsageError(f"{given} needs the environment: add --id ID")


def _parser() -> Parser:
    made = Parser("jaxenvs levels", SUMMARY, EXAMPLES)
    add = made.add_argument
    actions = (*ACTIONS, EDIT)
    add("action", choices=actions, metavar="ACTION", help=", ".join(actions))
    add("file", metavar="FILE", help="file or folder with levels")
    add("--id", metavar="ID", help="environment of the levels (default: their lines `id:`)")
    add("--form", choices=FORMS, help="convert: minigrid's picture alone, or a maze without walls")
    add("--out", metavar="FILE", help="file to write (default: print the levels)")
    edits = "mutate: edits of each level (default 1)"
    add("--edits", type=number(0, 1_000_000), default=1, metavar="N", help=edits)
    copies = "mutate: new levels for each level (default 1)"
    add("--copies", type=number(1, 1_000_000), default=1, metavar="N", help=copies)
    add("--seed", type=number(0, 2**31 - 1), default=0, metavar="N", help="mutate: random seed")
    add_solving(made)
    add_editing(made)
    made.add_fields("size=9")
    return made


def add_solving(made: Parser) -> None:
    """Add the options of `solve`."""
    budget = "solve: most states that a search stores (default 1000000)"
    made.add_argument("--node-budget", type=number(1, 2**31 - 1), metavar="N", help=budget)
    made.add_argument("--json", metavar="FILE", help="solve: write steps, bounds and plans")
    made.add_argument("--gif", metavar="FILE", help="solve: draw the plan of a single level")


def add_editing(made: Parser) -> None:
    """Add the options of `edit`."""
    add = made.add_argument
    add("--web", action="store_true", help="edit: in a browser instead of a window")
    port = "with --web: port on this machine (default 8700, or a free one)"
    add("--port", type=number(1, 65_535), metavar="N", help=port)
    resume = "with --web: continue the session of the same command that was ended or killed"
    add("--resume", action="store_true", help=resume)
    size = "edit: side of a cell (default: fits the window)"
    add("--tile-size", type=number(4, 128), metavar="PIXELS", help=size)


def _read(file: str | Path, env: Env | None) -> list[Entry]:
    """Return the levels of a file or folder; print warnings about them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = levels.load(file, env)
    for warning in caught:
        print(f"{file}: {warning.message}", file=sys.stderr)
    return found


def _env(entry: Entry, env: Env | None) -> Env:
    return make_env(entry.notes["id"], ()) if env is None else env


def _show(options: argparse.Namespace, env: Env | None) -> int:
    for place, entry in enumerate(_read(options.file, env)):
        print(f"level {place}")
        print(levels.write(_env(entry, env), entry))
        print()
    return 0


def _convert(options: argparse.Namespace, env: Env | None) -> int:
    return _write(options, env, _read(options.file, env))


def _mutate(options: argparse.Namespace, env: Env | None) -> int:
    found = []
    for place, entry in enumerate(_read(options.file, env)):
        key = jax.random.fold_in(jax.random.key(options.seed), place)
        for each in jax.random.split(key, options.copies):
            changed = _mutated(_env(entry, env))(each, entry.level, options.edits)
            # Drop the note `optimal`, which describes the level before the edits.
            notes = {name: note for name, note in entry.notes.items() if name != "optimal"}
            found.append(Entry(jax.device_get(changed), entry.params, notes, entry.fields))
    return _write(options, env, found)


@functools.cache
def _mutated(env: Env) -> Callable[..., Any]:
    """Return the compiled `levels.mutate` of an environment."""
    return jax.jit(functools.partial(levels.mutate, env))


def _write(options: argparse.Namespace, env: Env | None, found: list[Entry]) -> int:
    if options.out:
        levels.save(options.out, found, env, options.form)
        print(f"wrote {counted(len(found), 'level')} to {options.out}")
    else:
        print(files.text(found, env, options.form))
    return 0


def _check(options: argparse.Namespace, env: Env | None) -> int:
    """For each file, print the number of its levels, or its first fault; return the exit code."""
    wrong = 0
    for file in text_files(options.file):
        try:
            found = _read(file, env)
        except ValueError as error:  # raised for a faulty level, or for a file without levels
            print(error, file=sys.stderr)
            wrong += 1
            continue
        print(f"{file}: {counted(len(found), 'level')} can be read")
    return 1 if wrong else 0


def _solve(options: argparse.Namespace, env: Env | None) -> int:
    found = _read(options.file, env)
    ids = {entry.notes.get("id") for entry in found}
    if env is None and len(ids) > 1:
        raise UsageError(
            f"{options.file} has levels of {counted(len(ids), 'environment')}; solve those of one "
            "environment at a time"
        )
    return solving.run(_env(found[0], env), found, options)


ACTIONS: dict[str, Callable[[argparse.Namespace, Env | None], int]] = {
    "show": _show,
    "convert": _convert,
    "mutate": _mutate,
    "check": _check,
    "solve": _solve,
}
