"""Steps per second on a CPU: grids, Craft and puzzles; nodes per second of search."""

from collections.abc import Callable
from typing import Any

from .registry import RESULTS, of_rows, of_turns, table
from .text import Column, Table, of, ratio, seconds, short, tabulated, whole
from .turns import CORE, ENVS, ID, Turns, compilation, conditions, factor, lead, speed, turns

JAX_PEERS = ("NAVIX", "XLand-MiniGrid")
OPTIMISTIC, PLAIN = "craftax (optimistic 16)", "craftax (no reset)"
# Names (see `Turns`) of this library's rows for the full game of Craft. Row BYTES was measured with
# block ids as the observation, row FLOATS with the symbolic observation.
BYTES, FLOATS = "exact", "exact, symbolic"

_GRIDS = {
    **ENVS,
    "jaxenvs (auto)": speed("auto"),
    "jaxenvs (pool)": speed("pool"),
    **{name: speed(name) for name in (*JAX_PEERS, "minigrid")},
    "auto / better JAX peer": lambda group: ratio(lead(group, "auto", JAX_PEERS)),
    "auto / minigrid": factor("auto", "minigrid"),
}
_GRIDS_PER_CORE = {
    f"{before}{name}": factor("auto", name, CORE)
    for before, name in zip(("per core: auto / ", "auto / "), JAX_PEERS, strict=True)
}
of_turns("grids", f"{RESULTS}/bench.json", {**ID, **_GRIDS})
of_turns("doorkey", f"{RESULTS}/bench_doorkey.json", {**_GRIDS, **_GRIDS_PER_CORE}, dated=True)


@table(
    "envpool",
    f"{RESULTS}/bench_envpool.json",
    command="jaxenvs bench --ids Grid-DoorKey-8x8-v0 Grid-KeyCorridorS3R3-v0 BabyAI-GoToLocal-v0 "
    "BabyAI-BossLevel-v0 --batches 1024 --obs image dict",
)
def envpool(bench: dict[str, Any]) -> Table:
    """Compare this library with EnvPool (C++), which returns dict observations.

    This library is shown with image observations and with dict observations.
    """

    def ours(obs: str, column: Callable[[str], Column]) -> Column:
        def cell(group: Turns) -> str:
            names = [name for name in group.ours() if group.rows[name]["obs"] == obs]
            return column(names[0])(group) if names else ""

        return cell

    def per_core(name: str) -> Column:
        return factor(name, "EnvPool", CORE)

    columns = {
        **ID,
        **ENVS,
        "jaxenvs (image)": ours("image", speed),
        "jaxenvs (dict)": ours("dict", speed),
        "EnvPool": speed("EnvPool"),
        "minigrid": speed("minigrid"),
        "per core: image / EnvPool": ours("image", per_core),
        "dict / EnvPool": ours("dict", per_core),
    }
    return tabulated(turns(bench), columns)._replace(note=conditions(bench))


_CRAFT = {"jaxenvs (exact)": "exact", "jaxenvs (no reset)": "none"}
_SPEEDS = {"jaxenvs (exact)": speed("exact"), OPTIMISTIC: speed(OPTIMISTIC)}
_SPEEDS["ratio"] = factor("exact", OPTIMISTIC)
_COMPILATION = {"compilation": compilation("exact"), "of craftax": compilation(OPTIMISTIC)}

of_turns(
    "craft-symbolic",
    f"{RESULTS}/bench_craft_symbolic.json",
    {
        **ENVS,
        **{name: speed(source) for name, source in _CRAFT.items()},
        **{name: speed(name) for name in (OPTIMISTIC, PLAIN, "EnvPool", "crafter")},
        "exact / optimistic": factor("exact", OPTIMISTIC),
        "no reset / no reset": factor("none", PLAIN),
        "exact / crafter": factor("exact", "crafter"),
        "per core: exact / optimistic": factor("exact", OPTIMISTIC, CORE),
        "exact / EnvPool": factor("exact", "EnvPool", CORE),
    },
    dated=True,
)
of_turns("craft-pixels", f"{RESULTS}/bench_craft_pixels.json", {**ENVS, **_SPEEDS, **_COMPILATION})
of_turns(
    "craft-full",
    f"{RESULTS}/bench_craft_full.json",
    {
        **ENVS,
        "jaxenvs (bytes)": speed(BYTES),
        "jaxenvs (symbolic)": speed(FLOATS),
        **{name: speed(name) for name in (OPTIMISTIC, "EnvPool")},
        "bytes / optimistic": factor(BYTES, OPTIMISTIC),
        "per core: bytes / optimistic": factor(BYTES, OPTIMISTIC, CORE),
        "symbolic / optimistic": factor(FLOATS, OPTIMISTIC, CORE),
        "bytes / EnvPool": factor(BYTES, "EnvPool", CORE),
        "symbolic / EnvPool": factor(FLOATS, "EnvPool", CORE),
        **_COMPILATION,
    },
    dated=True,
)
_PROCESSOR = {"of processor time": factor("exact", OPTIMISTIC, CORE)}
of_turns(
    "craft-full-pixels",
    f"{RESULTS}/bench_craft_full_pixels.json",
    {**ID, **ENVS, **_SPEEDS, **_PROCESSOR, **_COMPILATION},
)
of_turns(
    "craft-compilation",
    f"{RESULTS}/bench_craft_symbolic.json",
    {
        **ENVS,
        **{name: compilation(source) for name, source in _CRAFT.items()},
        **{name: compilation(name) for name in (OPTIMISTIC, PLAIN)},
    },
)


@table("puzzles", f"{RESULTS}/bench_puzzles.json")
def puzzles(bench: dict[str, Any]) -> Table:
    """Build a table that compares steps per second of puzzles with jumanji and pgx.

    This library was measured with the default reset source of each id.
    """
    rows = []
    for group in turns(bench):
        (source,) = group.ours()
        columns = {
            f"id, {whole(group.num_envs)} environments": lambda group: group.id,
            "levels from": lambda group, source=source: source,
            "jaxenvs": speed(source),
            "jumanji": speed("jumanji"),
            "pgx": speed("pgx"),
            "jaxenvs / jumanji": factor(source, "jumanji"),
            "jaxenvs / pgx": factor(source, "pgx"),
        }
        rows.append(tabulated([group], columns))
    return Table(rows[0].head, [row.rows[0] for row in rows])


SEARCHED: dict[str, Column] = {  # columns of the table of A*'s nodes per second
    "puzzle": of("env_id"),
    "batch size": of("batch_size", whole),
    "levels solved": lambda row: f"{row['solved']} of {row['levels']}",
    "nodes": of("nodes", whole),
    "nodes/s": of("nodes_per_second", short),
    "compile": of("compile_seconds", seconds),
    "bytes a node": of("bytes_per_node", whole),
}
of_rows("search", f"{RESULTS}/search.json", SEARCHED)


GAMES: dict[str, Column] = {  # columns of the table of PuzzleScript games
    "game": of("game"),
    "games": of("games", whole),
    "environments": of("num_envs", whole),
    "turns/s": of("per_processor_second", short),
    "the engine": of("engine", lambda value: short(value) if value else ""),
    "compile": of("compile_seconds", seconds),
    "micro-steps of a turn": of("mean_steps", "{:.1f}".format),
    "slowest of a group": of("slowest_steps", "{:.1f}".format),
}
of_rows("puzzlescript", f"{RESULTS}/puzzlescript.json", GAMES, full=False)


@table("rule-worlds", f"{RESULTS}/rule_worlds.json")
def rule_worlds(speeds: dict[str, Any]) -> Table:
    """Build a table that compares this library's XLand environments with XLand-MiniGrid.

    The table has the steps per second of CPU time, and the compile times.
    """
    pairs = zip(speeds["rows"][::2], speeds["rows"][1::2], strict=True)

    def of_side(side: int, name: str, shown: Callable[[Any], str]) -> Column:
        return lambda pair: shown(pair[side][name])

    columns: dict[str, Column] = {
        "tasks": of_side(0, "set", str),
        "environments": of_side(0, "num_envs", whole),
        "jaxenvs": of_side(0, "per_processor_second", short),
        "XLand-MiniGrid": of_side(1, "per_processor_second", short),
        "ratio": lambda pair: ratio(
            pair[0]["per_processor_second"] / pair[1]["per_processor_second"]
        ),
        "compiled in, s": of_side(0, "compile_seconds", "{:.1f}".format),
        "XLand-MiniGrid in": of_side(1, "compile_seconds", "{:.1f}".format),
    }
    return tabulated(pairs, columns)
