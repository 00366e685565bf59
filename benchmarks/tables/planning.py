"""Recorded runs of learners that plan or search: puzzles and a learned model."""

from typing import Any

from .registry import RUNS, table
from .text import Table, fixed, percent, tabulated, whole


@table("runs-eight", f"{RUNS}/puzzles.json")
def eight(rows: list[dict[str, Any]]) -> Table:
    """The 8-puzzle by AlphaZero, with and without its search, and by PPO."""
    tiles = (row for row in rows if "3x3" in row["id"])
    alphazero, ppo = (row for row in tiles if row["algorithm"] in ("alphazero", "ppo"))
    evaluation = alphazero["evaluation"]
    lines = [
        ("Gumbel AlphaZero, 32 simulations", evaluation),
        ("the same networks without search", evaluation["without_search"]),
        ("PPO", ppo["evaluation"]),
    ]

    def solved(line: tuple[str, dict[str, Any]]) -> str:
        return ", ".join(percent(seed["success_rate"]) for seed in line[1]["per_seed"])

    columns = {
        f"8-puzzle, 10 random moves from solved, {whole(ppo['steps'])} steps per seed": (
            lambda line: line[0]
        ),
        "solved, each seed": solved,
        "moves, unsolved ones counted as 180": lambda line: fixed(1)(line[1]["mean_length"]),
    }
    return tabulated(lines, columns)


@table("runs-cube", f"{RUNS}/puzzles.json")
def cube(rows: list[dict[str, Any]]) -> Table:
    """The 2x2x2 cube by a learned bound."""
    (row,) = (row for row in rows if row["algorithm"] == "davi" and " --q" not in row["command"])
    found, greedy = row["search"], row["evaluation"]["greedy"][0]
    above = 100 * (found["ratio"] - 1)
    costs = f"{found['mean_cost']:.3f}, {found['least_mean_cost']:.3f}: {above:.1f} % above"
    boards, own = found["expanded_per_board"], found["expanded_per_board_with_own_bound"]
    times = found["processor_seconds"], found["processor_seconds_with_own_bound"]
    return Table(
        (f"2x2x2 cube by quarter turns, {whole(found['boards'])} random cubes", ""),
        [
            (
                "training",
                f"{row['steps'] / 1e6:.2f} M boards, {row['seconds'] / 60:.0f} min "
                "with other jobs running",
            ),
            (
                f"solved by A* with the network as heuristic, weight {found['weight']:g}",
                whole(found["boards"] * found["solved"]),
            ),
            ("mean length, and the least possible (proven by A* for each cube)", costs),
            ("solved in the least number of turns", percent(found["optimal"])),
            (
                "boards expanded for a cube; with the puzzle's pattern databases",
                f"{boards:.0f}; {own:.0f} (to a proof)",
            ),
            ("processor time of these searches", f"{times[0]:.1f} s; {times[1]:.1f} s"),
            (
                "solved by going to the best neighbour, without search",
                percent(greedy["success_rate"]),
            ),
        ],
    )


@table("runs-worlds", f"{RUNS}/puzzles.json")
def worlds(rows: list[dict[str, Any]]) -> Table:
    """Plans made in learned worlds, and what came of them in the true puzzles."""

    def seen(row: dict[str, Any]) -> str:
        foretold = row["evaluation"]["greedy"][0]["foretold"]
        return f"{100 * foretold:.2f} %"

    def above(row: dict[str, Any]) -> str:
        found = row["search"]
        if "ratio" not in found:
            return ""
        return f"{100 * (found['ratio'] - 1):.1f} % ({100 * found['optimal']:.0f} %)"

    columns = {
        "learned world of": lambda row: row["command"].split("jaxenvs train ")[1].split(" --")[0],
        "training": lambda row: f"{row['seconds'] / 60:.0f} min",
        "moves foretold": seen,
        "search": lambda row: f"{row['search']['algorithm']}, weight {row['search']['weight']:g}",
        "boards": lambda row: f"{row['search']['boards']}",
        "plans found": lambda row: percent(row["search"]["plans"]),
        "right in the true puzzle": lambda row: percent(row["search"]["solved"]),
        "cost above the least (optimal)": above,
        "states kept per board": lambda row: whole(round(row["search"]["nodes_per_board"])),
        "states per processor second": lambda row: whole(
            row["search"]["nodes_per_processor_second"]
        ),
    }
    return tabulated([row for row in rows if row["algorithm"] == "world"], columns)
