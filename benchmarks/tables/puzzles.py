"""Puzzles and search on a CPU."""

from typing import Any

from .registry import RESULTS, of_rows, table
from .text import Column, Table, of, seconds, short, tabulated, whole
from .turns import factor, speed, turns


@table("puzzles", f"{RESULTS}/bench_puzzles.json")
def puzzles(bench: dict[str, Any]) -> Table:
    """Steps per second beside jumanji and pgx; each id by its one default source."""
    rows = []
    for group in turns(bench):
        (source,) = group.ours()
        columns = {
            f"id, {whole(group.num_envs)} environments": lambda group: group.id,
            "worlds from": lambda group, source=source: source,
            "jaxenvs": speed(source),
            "jumanji": speed("jumanji"),
            "pgx": speed("pgx"),
            "jaxenvs / jumanji": factor(source, "jumanji"),
            "jaxenvs / pgx": factor(source, "pgx"),
        }
        rows.append(tabulated([group], columns))
    return Table(rows[0].head, [row.rows[0] for row in rows])


SEARCHED: dict[str, Column] = {  # nodes per second of A*
    "puzzle": of("env_id"),
    "batch size": of("batch_size", whole),
    "levels solved": lambda row: f"{row['solved']} of {row['levels']}",
    "nodes": of("nodes", whole),
    "nodes/s": of("nodes_per_second", short),
    "compile": of("compile_seconds", seconds),
    "bytes a node": of("bytes_per_node", whole),
}
of_rows("search", f"{RESULTS}/search.json", SEARCHED)
