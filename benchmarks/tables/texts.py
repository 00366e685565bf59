"""Tables about text: results of agents that read texts, and the speed of describing states."""

from typing import Any

from .registry import RESULTS, of_rows, table
from .text import Column, Table, fixed, of, short, tabulated

SPEED: dict[str, Column] = {
    "id": lambda row: f"`{row['env_id']}`",
    "full, states/s": of("full", short),
    "short, states/s": of("short", short),
    "changes, states/s": of("changes", short),
    "different texts": of("distinct", lambda share: f"{share:.0%}"),
}
of_rows("describing", f"{RESULTS}/describing.json", SPEED)


def _with_error(row: dict[str, Any], name: str) -> str:
    """Format a mean with its standard error, if there is one; no mean gives an empty cell."""
    mean, error = row["summary"][name], row["summary"][f"{name}_error"]
    if mean is None:
        return ""
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def _share(row: dict[str, Any]) -> str:
    success = row["summary"]["success"]
    return "" if success is None else f"{success:.0%}"


@table("text-agents", f"{RESULTS}/text_agents.json")
def text_agents(found: dict[str, Any]) -> Table:
    """Build a table of evaluations by `jaxenvs eval-text`: a row for each id and agent."""
    columns: dict[str, Column] = {
        "id": lambda row: f"`{row['id']}`",
        "agent": lambda row: f"`{row['agent']}`",
        "return": lambda row: _with_error(row, "return"),
        "success": _share,
        "progress": lambda row: _with_error(row, "progress"),
        "steps": lambda row: fixed(1)(row["summary"]["steps"]),
    }
    return tabulated(found["rows"], columns)
