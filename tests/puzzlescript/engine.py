"""Run the original PuzzleScript engine in Node, to compare jaxenvs with it.

The tables of a game are its objects, layers, rules and levels after compilation. `of_engine` and
`of_loader` convert the tables of the engine and of the loader of jaxenvs to one format.

`python tests/puzzlescript/engine.py` writes two files for the shipped games and the games in
`games/`. `tables.json` has digests of the engine's tables, and `traces.json` has digests of the
boards of recorded plays. JAXENVS_PUZZLESCRIPT is the path of a checkout of increpare/PuzzleScript.
"""

import hashlib
import json
import os
import random
import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from jaxenvs import puzzlescript
from jaxenvs.puzzlescript.collection import SHIPPED
from jaxenvs.puzzlescript.tables import ANY, BITS, MOVEMENT, Groups, Pattern

HERE = Path(__file__).parent
GAMES = [*sorted((HERE / "games").glob("*.txt")), *sorted(SHIPPED.glob("*.txt"))]
TABLES, TRACES = HERE / "tables.json", HERE / "traces.json"
CHECKOUT = os.environ.get("JAXENVS_PUZZLESCRIPT", "")
# Random numbers that replace the engine's in every play; after the last, the first follows.
DRAWS = [x / 1024 for x in random.Random(0).choices(range(1024), k=1024)]
INPUTS = 40  # number of inputs of a random play
PLAYS = 2  # number of random plays of each level
MOST = 600_000  # maximum number of boards that a search for a solution visits
KINDS = {"all": 1, "some": 0, "no": -1}


class Engine:
    """The original engine in a Node process that answers one request at a time, see engine.js."""

    def __init__(self) -> None:
        command = ["node", str(HERE / "engine.js"), CHECKOUT]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, **pipes)

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()
        self.process.wait()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request to the engine's process; return its answer."""
        pipe = self.process
        assert pipe.stdin and pipe.stdout
        pipe.stdin.write(json.dumps(request) + "\n")
        pipe.stdin.flush()
        return json.loads(pipe.stdout.readline())

    def tables(self, source: str) -> dict[str, Any]:
        """Return the engine's tables of a game; the engine must report no error."""
        answer = self.ask(source=source)
        assert answer["count"] == 0, answer["errors"]
        return of_engine(answer["tables"])


def of_engine(tables: dict[str, Any]) -> dict[str, Any]:
    """Convert the engine's tables to the format in which they are compared, see `of_loader`.

    Drops metadata and sprites, keeps only the names of commands, sorts loops, and writes the masks
    of win conditions as ints, the second mask as -1 if it contains every object.
    """
    found = {k: v for k, v in tables.items() if k not in ("metadata", "sprites")}
    everything = (1 << 32 * -(-len(found["ids"]) // 32)) - 1
    for rule in (rule for kind in ("rules", "late") for group in found[kind] for rule in group):
        rule["commands"] = [command[0] for command in rule["commands"]]
        for cell in (cell for row in rule["rows"] for cell in row if cell and cell["replace"]):
            cell["replace"]["rd"] = _whole_layers(cell["replace"]["rd"])
    for kind in ("loop", "lateLoop"):
        found[kind] = sorted([int(a), b] for a, b in found[kind] if b is not None)
    wins = [[w[0], int(w[1]), int(w[2]), w[4], w[5]] for w in found["wins"]]
    found["wins"] = [[w[0], w[1], -1 if w[2] == everything else w[2], *w[3:]] for w in wins]
    return found


def _whole_layers(mask: str) -> str:
    """Return `mask` with all movement bits set on each layer that has any bit in `mask`.

    `mask` says which layers get a random direction (`randomdir`). The engine sets only some of a
    layer's bits; the loader sets all of them.
    """
    layers = {place // BITS for place, bit in enumerate(reversed(f"{int(mask):b}")) if bit == "1"}
    return str(sum(ANY << BITS * layer for layer in layers))


def of_loader(game: puzzlescript.Game) -> dict[str, Any]:
    """Convert the loader's tables of a game to the format of `of_engine`."""
    return {
        "ids": list(game.objects),
        "layers": game.layers,
        "background": [game.background, game.layer_of[game.background]],
        "layerOf": list(game.layer_of),
        "player": [game.player_is_aggregate, str(game.player)],
        "rules": _groups(game.main),
        "late": _groups(game.late),
        "loop": sorted(map(list, game.main.loops)),
        "lateLoop": sorted(map(list, game.late.loops)),
        "rigid": list(game.main.rigid),
        "wins": [[KINDS[w.kind], w.x, w.y, w.all_of_x, w.all_of_y] for w in game.wins],
        "levels": [_level(level) for level in game.levels],
    }


def _groups(groups: Groups) -> list[Any]:
    return [
        [
            {
                "direction": MOVEMENT[rule.direction],
                "line": rule.line,
                "rigid": rule.rigid,
                "random": rule.random,
                "commands": list(rule.commands),
                "replaces": rule.replaces,
                "rows": [[_cell(cell) for cell in row] for row in rule.rows],
            }
            for rule in group
        ]
        for group in groups.rules
    ]


def _cell(pattern: Pattern | None) -> dict[str, Any] | None:
    if pattern is None:
        return None
    new = pattern.replacement
    masks = {name: str(getattr(pattern, name)) for name in ("op", "om", "mp", "mm")}
    replace = None if new is None else {name: str(mask) for name, mask in new._asdict().items()}
    return {**masks, "any": [str(mask) for mask in pattern.any], "replace": replace}


def _level(level: Any) -> dict[str, Any]:
    if isinstance(level, str):
        return {"message": level}
    cells = [str(cell) for cell in level.cells]
    return {"width": level.width, "height": level.height, "objects": cells}


def digests(tables: dict[str, Any]) -> dict[str, str]:
    """Return a digest of each table."""
    return {
        name: hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]
        for name, table in tables.items()
    }


class Trace(NamedTuple):
    """A play of a level in the engine."""

    level: int  # index in the game's levels, messages included
    inputs: str  # digits of the engine's inputs, `t` for a tick
    boards: str  # digests of the boards, eight digits each: at the start, and after every input
    won: bool  # whether the last input wins
    drawn: tuple[int, ...] = ()  # how many random numbers were used before each input; (): none


def digest(masks: Iterable[Any]) -> str:
    """Return a digest of the cells' object masks, column by column."""
    return f"{zlib.crc32(','.join(map(str, masks)).encode()):08x}"


def inputs_of(game: puzzlescript.Game) -> list[Any]:
    """Return the engine's inputs that the game has: directions, action and tick."""
    action = [] if "noaction" in game.prelude else [4]
    return [0, 1, 2, 3, *action, *(["tick"] if "realtime_interval" in game.prelude else [])]


def traced(node: Engine, source: str, level: int, inputs: list[Any]) -> Trace:
    """Return the trace of a play in the engine, up to the end of the inputs or of the level."""
    answer = node.ask(source=source, level=level, inputs=inputs, draws=DRAWS, stay=True)
    boards = answer["boards"]
    drawn = tuple(each["drawn"] for each in boards[:-1])
    return Trace(
        level,
        "".join(str(each)[0] for each in inputs[: len(boards) - 1]),
        "".join(digest(each["board"]) for each in boards),
        boards[-1]["won"],
        drawn if any(drawn) else (),
    )


def traces(node: Engine, path: Path) -> list[Trace]:
    """Return traces of each level: `PLAYS` random plays, and a play of a shortest solution.

    The solution is omitted if the search finds none. It is also omitted after a random play, of
    this or an earlier level, that has drawn random numbers.
    """
    source = path.read_text("utf-8")
    game = puzzlescript.parse(source, path.name)
    inputs, found = inputs_of(game), []
    for level, each in enumerate(game.levels):
        if isinstance(each, str):
            continue
        for play in range(PLAYS):
            draw = random.Random(f"{path.stem} {level} {play}")
            chosen = [draw.choice(inputs) for _ in range(INPUTS)]
            found.append(traced(node, source, level, chosen))
        if not any(trace.drawn for trace in found):
            answer = node.ask(source=source, level=level, solve=inputs, most=MOST)
            if answer["solution"]:
                found.append(traced(node, source, level, answer["solution"]))
    return found


def recorded() -> dict[str, list[Trace]]:
    """Return the recorded traces of each game."""
    content = json.loads(TRACES.read_text("utf-8"))
    return {name: [Trace(*row) for row in rows] for name, rows in content.items()}


def main() -> None:
    """Write the digests of the engine's tables and of its plays."""
    with Engine() as node:
        _record(node)


def _record(node: Engine) -> None:
    found = {path.stem: digests(node.tables(path.read_text("utf-8"))) for path in GAMES}
    TABLES.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    games = []
    for path in GAMES:
        rows = ",\n".join(f"  {json.dumps(trace)}" for trace in traces(node, path))
        games.append(f' "{path.stem}": [\n{rows}\n ]')
    TRACES.write_text("{\n" + ",\n".join(games) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
