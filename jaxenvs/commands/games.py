"""`jaxenvs games check FILE|FOLDER`: report whether PuzzleScript games can be loaded and played."""

import sys
from pathlib import Path

from ..core.checks import counted
from ..puzzlescript import GameError, collection, features, load
from ..puzzlescript.tables import Level
from .parser import Parser, UsageError, guarded

SUMMARY = """Check PuzzleScript games: errors with their lines, features and size.

The size is the smallest of small, medium and large that holds the game with all its levels. A game
that needs more can be played with the field size=exact, the default of PuzzleScript-v0.
Exit code 1: a game has errors."""
EXAMPLES = ("games check mygame.txt", "games check games/", "games check crates")


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    return guarded("games", _run, argv)


def _run(argv: list[str]) -> int:
    made = Parser("jaxenvs games", SUMMARY, EXAMPLES)
    made.add_argument("action", choices=("check",), metavar="check", help="report on the games")
    made.add_argument(
        "games", nargs="+", metavar="GAME", help="file, folder, or name of a shipped game"
    )
    options = made.read(argv)
    try:
        paths = [path for game in options.games for path in collection.paths(game)]
    except GameError as error:
        raise UsageError(str(error)) from error
    able = [_check(path) for path in paths]
    if len(able) > 1:
        print(f"{sum(able)} of {counted(len(able), 'game')} can be played")
    return 0 if all(able) else 1


def _check(path: Path) -> bool:
    """Print the report on a game, and return whether it can be played."""
    try:
        game = load(path)
    except (GameError, OSError) as error:
        print(error, file=sys.stderr)
        return False
    found = features.report(game)
    levels = sum(isinstance(each, Level) for each in game.levels)
    rules = sum(map(len, (*game.main.rules, *game.late.rules)))
    title = game.prelude.get("title") or "untitled"
    print(f"{path}: {title}")
    counts = ((levels, "level"), (len(game.objects), "object"), (rules, "rule"))
    print(f"  {', '.join(counted(number, noun) for number, noun in counts)} after expansion")
    print(f"  features: {', '.join(found.features) or 'none but rules of one row'}")
    for warning in game.warnings:
        print(f"  warning: {warning}")
    search = "no search, because it draws random numbers" if features.is_random(game) else "search"
    print(f"  size: {found.fits}; {search}")
    return True
