"""Table of the commands of `jaxenvs`, with the module that runs each command.

`load` imports a command's module when the command is called.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from ..core.extras import MissingExtraError, require
from ..core.typed import PROGRAM


class Command(NamedTuple):
    """One command of `jaxenvs`."""

    summary: str  # description that `jaxenvs --help` shows
    module: str  # module whose function `main(argv)` runs the command and returns its exit code
    takes: dict[str, str]  # position on the command line -> kind of the words that complete it
    """Kind of completed words by position: "" is the first word after the command, an option is the
    word after it, and "..." after either is any number of words. Other positions complete files."""
    extra: str = ""  # optional extra of jaxenvs that installs the packages the module needs
    keeps: bool = False  # whether the command caches compiled programs on disk
    computes: bool = False  # whether the command may compute on a GPU


COMMANDS = {
    "list": Command("list or search the ids", "jaxenvs.commands.listing", {"...": "families"}),
    "info": Command(
        "print rules, arrays, settings and returns of an id", "jaxenvs.commands.info", {"": "ids"}
    ),
    "play": Command(
        "play an environment with the keyboard",
        "jaxenvs.render.play",
        {"": "ids"},
        "play",
        keeps=True,
        computes=True,
    ),
    "watch": Command(
        "watch a trained run or random play",
        "jaxenvs.render.watch",
        {"": "runs", "--random": "ids"},
        "play",
        keeps=True,
        computes=True,
    ),
    "train": Command(
        "train an agent (--algo: PPO, DQN ...)",
        "jaxenvs.baselines.run.train",
        {"": "ids"},
        "train",
        keeps=True,
        computes=True,
    ),
    "eval": Command(
        "evaluate a trained run, here or in the original package",
        "jaxenvs.baselines.evaluation.command",
        {"": "runs"},
        "train",
        keeps=True,
        computes=True,
    ),
    "eval-text": Command(
        "evaluate an agent that reads text, such as an LLM",
        "jaxenvs.text.command",
        {"": "ids"},
        keeps=True,
        computes=True,
    ),
    "export": Command(
        "write a trained policy for programs without jaxenvs",
        "jaxenvs.baselines.evaluation.export",
        {"": "runs"},
        "export",
    ),
    "speedrun": Command(
        "train to a fixed bar, timed, and replay the policy",
        "jaxenvs.baselines.speedrun.command",
        {},
        "train",
        computes=True,
    ),
    "compare": Command(
        "compare trained runs, with intervals",
        "jaxenvs.baselines.evaluation.compare",
        {"...": "runs"},
        "train",
    ),
    "solve": Command(
        "search for the solution of a puzzle",
        "jaxenvs.render.solve",
        {"": "puzzles"},
        keeps=True,
        computes=True,
    ),
    "levels": Command(
        "show, edit, convert, mutate, check and solve files of levels",
        "jaxenvs.commands.levels",
        {"--id": "ids"},
        keeps=True,
        computes=True,
    ),
    "demos": Command(
        "record demonstrations as a dataset of Minari",
        "jaxenvs.baselines.run.demos",
        {"": "ids", "--by": "runs"},
        "train",
        keeps=True,
        computes=True,
    ),
    "games": Command("check PuzzleScript games", "jaxenvs.commands.games", {}),
    "mcp": Command(
        "serve environments to language models (MCP)",
        "jaxenvs.agents.mcp",
        {},
        "mcp",
        keeps=True,
        computes=True,
    ),
    "openenv": Command(
        "serve an environment with OpenEnv's interface",
        "jaxenvs.agents.openenv_command",
        {"": "ids"},
        "openenv",
        keeps=True,
        computes=True,
    ),
    "bench": Command(
        "measure steps per second",
        "jaxenvs.benchmarks.throughput",
        {"--ids ...": "sets"},
        "bench",
        computes=True,
    ),
    "check": Command(
        "check that environments satisfy the contract", "jaxenvs.commands.checking", {"...": "ids"}
    ),
}
# Module whose function `edit` runs `jaxenvs levels edit`; it needs the extra `play`.
EDITOR = "jaxenvs.render.edit.command"
# Shell -> (folder, file) in which the shell looks for a completion script.
SCRIPTS = {
    "bash": ("~/.local/share/bash-completion/completions", "jaxenvs"),
    "zsh": ("~/.zfunc", "_jaxenvs"),
    "fish": ("~/.config/fish/completions", "jaxenvs.fish"),
}
SHELLS = tuple(SCRIPTS)


def load(name: str) -> Callable[[list[str]], int] | None:
    """Import a command's module and return its function `main`.

    If a package is missing, print the name of the extra that installs it, and return None.
    """
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


def editor() -> Callable[..., int]:
    """Import the editor of levels and return its function `edit`."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    require(["pygame"], "play")
    return importlib.import_module(EDITOR).edit
